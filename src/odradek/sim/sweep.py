"""Many seeds, in several processes; some or all of them twice if wanted, the second time in other processes with other hashes."""

import gc
import math
import multiprocessing
import os
import pickle
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from odradek.controller import bulk_moves
from odradek.sim.children import in_children
from odradek.sim.coverage import Seen, entered_with_reason, merged, table, too_little, watched, without_reason
from odradek.sim.plan import ALSO, draw
from odradek.sim.run import CORRECTNESS, OK, Outcome
from odradek.sim.run import run as run_plan

Say = Callable[[str], None]
# An outcome, its processor time in seconds, and what it has reached, if it was watched.
Ran = tuple[Outcome, float, Seen | None]
UNREACHED = 1
MOST_WATCHED = 128
# Of those that run again one of so many does to its end, the others for this share of their looks: traces that differ once
# differ from there on.
WHOLE_AGAIN, SHARE_AGAIN = 10, 1 / 3
TO_THE_END = sys.maxsize  # looks
# With groups, transactions and a compacted topic: the others find what these have imported and compiled.
WARMS_UP = (8, 9, 15, 39)
# What a child writes to that its parent has too is copied once; what its worlds make is kept until it ends.
WORLDS_OF_A_CHILD = 4
# So many seeds have as many children as that is worlds: with fewer, each imports and compiles in its own first world in less time.
# 12 seeds take 9.3 s of a processor without it and 11.5 with it, 16 seeds 11.7 and 13.0.
MOST_WITHOUT_WARM_UP = len(WARMS_UP) * WORLDS_OF_A_CHILD
NO_MORE = b""


def sweep(
    seeds: Sequence[int],
    *,
    jobs: int,
    again: int = 0,
    count_faults: bool,
    say: Say,
    hashes: Path | None = None,
    coverage: bool = False,
) -> int:
    """Runs all; the exit code is that of the first that failed. The last line is the sum of the lines of all.

    `again`: so many of them run once more and must come to the same, a tenth of them to the end, the others for a third of their looks. `hashes`: a file to be written, a line for every seed. `coverage`: of the first `MOST_WATCHED`. A function that none of 128
    enters and that has no reason (`not_entered`) is a failure, and so is one that has a reason and is entered, or too little of a room.
    """
    begun, cpu = time.perf_counter(), 0.0
    outcomes: list[Outcome] = []
    parts: list[Seen] = []
    watched_seeds = frozenset(seeds[:MOST_WATCHED]) if coverage else frozenset[int]()
    for outcome, seconds, part in _run_all(seeds, jobs, hash_seed="0", watched_seeds=watched_seeds):
        cpu += seconds
        if part is not None:
            parts.append(part)
        outcomes.append(outcome)
        if outcome.code != OK:
            say(f"{outcome.line}: {outcome.reason}")
    outcomes.sort(key=lambda outcome: outcome.seed)
    first = {o.seed: o for o in outcomes}
    ran = sum(o.events for o in outcomes)
    compared = list(seeds[:again])
    if compared:
        # Backwards, with other hashes of strings, and with every event of a controller taken for a large one, which is
        # to make no difference (`controller.bulk_moves`): what depends on any of these shows.
        looks = {seed: looks_again(number, first[seed]) for number, seed in enumerate(compared)}
        backwards = compared[::-1]
        for second, seconds, _ in _run_all(
            backwards, jobs, hash_seed="1", is_large=True, looks=[looks[seed] for seed in backwards]
        ):
            cpu += seconds
            ran += second.events
            before = first[second.seed]
            if difference := differ(before, second, looks[second.seed]):
                say(f"seed {second.seed}: two runs differ, {difference}")
                before.code = before.code or CORRECTNESS
    if hashes is not None:
        hashes.write_text("".join(f"{o.hash_line}\n" for o in outcomes), encoding="utf-8")
    took = time.perf_counter() - begun
    failed = [o for o in outcomes if o.code != OK]
    if count_faults:
        for line in fault_table(outcomes):
            say(line)
    unreached = False
    if parts:
        seen = merged(parts)
        for line in table(seen):
            say(line)
        unreached = len(parts) == MOST_WATCHED and bool(
            without_reason(seen) or entered_with_reason(seen) or too_little(seen)
        )
    say(
        f"{len(outcomes)} seeds{_compared(len(compared), len(outcomes)) if not failed else ''}: {len(failed)} failed, "
        f"{sum(o.events for o in outcomes)} events, {sum(o.faults for o in outcomes)} faults, "
        f"{sum(o.acked_batches for o in outcomes)} acknowledged batches, "
        f"{sum(o.simulated_s for o in outcomes) / 3600:.2f} logical hours; "
        f"{took:.1f} s, {ran / took:.0f} events/s, {ran / cpu:.0f} per second of a core"
    )
    return failed[0].code if failed else UNREACHED if unreached else OK


def looks_again(number: int, outcome: Outcome) -> int:
    """How many looks of this run are enough, where it is the `number`-th that runs again."""
    if number % WHOLE_AGAIN == 0 or not outcome.looks:
        return TO_THE_END
    return math.ceil(len(outcome.looks) * SHARE_AGAIN)


def differ(first: Outcome, second: Outcome, most_looks: int = TO_THE_END) -> str:
    """Where they do, of which the second was to run for so many looks; nothing, where they do not."""
    expected = first.looks[:most_looks]
    for number, (one, other) in enumerate(zip(expected, second.looks, strict=False)):
        if one != other:
            return f"{one[1]:016x} and {other[1]:016x} at look {number}, after {one[0]} and {other[0]} events"
    if len(second.looks) != len(expected):
        # It broke, or went on, where the first did not.
        ended = f": {second.reason}" if second.reason else ""
        return f"one has {len(expected)} looks where the other has {len(second.looks)}{ended}"
    if most_looks == TO_THE_END and (first.trace_hash, first.events) != (second.trace_hash, second.events):
        return f"{first.trace_hash:016x} and {second.trace_hash:016x} at the end"
    return ""


def _compared(count: int, of: int) -> str:
    if not count:
        return ""
    whole = -(-count // WHOLE_AGAIN)
    which = "" if count == of else f", {count} of them"
    return f"{which} twice ({whole} to the end), equal traces"


def fault_table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """kind, how often it found something to act on, in how many seeds."""
    counts: Counter[str] = Counter()
    in_seeds: Counter[str] = Counter()
    for outcome in outcomes:
        kinds = [fault.kind for fault in outcome.injected]
        counts.update(kinds)
        in_seeds.update(set(kinds))
    for kind, count in sorted(counts.items()):
        yield f"{kind:28} {count:7} in {in_seeds[kind]:5} seeds"


def _run_all(
    seeds: Sequence[int],
    jobs: int,
    hash_seed: str,
    *,
    is_large: bool = False,
    watched_seeds: frozenset[int] = frozenset(),
    looks: Sequence[int] = (),
) -> Iterator[Ran]:
    """In the order in which they end. `looks`: of each, after how many it is enough; none: each runs to its end."""
    wanted = list(zip(seeds, looks or [TO_THE_END] * len(seeds), strict=True))
    with _process(_serve, wanted, jobs, is_large, sorted(ALSO), watched_seeds, hash_seed=hash_seed) as told:
        while some := told():
            yield from pickle.loads(some)


@contextmanager
def _process(serve: Callable[..., None], *args: object, hash_seed: str) -> Iterator[Callable[[], bytes]]:
    """A new interpreter with these hashes of strings: a forked one would share ours. Gives what it tells, one after another."""
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe(duplex=False)
    process = spawning.Process(target=serve, args=(there, *args), daemon=True)
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = hash_seed  # it is read at its start
    # Ctrl-C reaches every process of a terminal: until this one can end without a word, it hears of none.
    unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        if before is None:
            del os.environ["PYTHONHASHSEED"]
        else:
            os.environ["PYTHONHASHSEED"] = before
    there.close()

    def told() -> bytes:
        try:
            return here.recv_bytes()
        except EOFError:
            process.join()
            if process.exitcode == -signal.SIGINT:  # of the terminal, and it was the first to hear of it
                raise KeyboardInterrupt from None
            raise ChildProcessError(
                f"the process of all worlds ended: exit code {process.exitcode}"
            ) from None

    try:
        yield told
        process.join()
    finally:
        process.kill()
        here.close()


def _serve(
    told: Connection,
    wanted: list[tuple[int, int]],
    jobs: int,
    is_large: bool,
    also: list[str],
    watched_seeds: frozenset[int],
) -> None:
    """In a new process. `is_large`: the seeds have few partitions, and would never reach what is made for many."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    ALSO.update(also)
    if is_large:
        bulk_moves.WORTH_IT = 1
    for result in in_children(_works(wanted, watched_seeds), jobs):
        told.send_bytes(result)
    told.send_bytes(NO_MORE)


def _works(
    wanted: Sequence[tuple[int, int]], watched_seeds: frozenset[int]
) -> Iterator[Callable[[], list[Ran]]]:
    """For one child each. Asked for in the process that the child begins with: those that are watched come first."""
    to_be_watched = [one for one in wanted if one[0] in watched_seeds]
    if to_be_watched:
        with watched() as marks:
            # What only the first world of a process enters is entered here, and seen: of those that are watched.
            _warm_up([seed for seed, _ in to_be_watched[1:3]])
            yield from (partial(_run_some, some, marks) for some in _parted(to_be_watched))
        # Functions have their own code again, and the interpreter has forgotten what it knew of it.
    others = [one for one in wanted if one[0] not in watched_seeds]
    if len(others) > MOST_WITHOUT_WARM_UP:
        _warm_up(WARMS_UP)
    if others:
        yield from (partial(_run_some, some, None) for some in _parted(others))


def _parted(wanted: Sequence[tuple[int, int]]) -> Iterator[Sequence[tuple[int, int]]]:
    return (wanted[at : at + WORLDS_OF_A_CHILD] for at in range(0, len(wanted), WORLDS_OF_A_CHILD))


def _warm_up(seeds: Sequence[int]) -> None:
    for seed in seeds:
        run_plan(draw(seed))
    gc.collect()
    gc.freeze()


def _run_some(wanted: Sequence[tuple[int, int]], marks: Mapping[str, bytearray] | None) -> list[Ran]:
    """The outcome of each, its processor time, and what has been reached by now of what is watched."""
    found: list[Ran] = []
    before = 0.0
    for seed, most_looks in wanted:
        outcome = run_plan(draw(seed), most_looks=most_looks, ends_process=True)
        outcome.history.events.clear()
        outcome.history.adrift.clear()
        outcome.notes.clear()
        seen = None if marks is None else {file: bytes(reached) for file, reached in marks.items()}
        now = time.process_time()
        found.append((outcome, now - before, seen))
        before = now
    return found
