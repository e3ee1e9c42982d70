"""Many seeds, in several processes; some or all of them twice if wanted, the second time in other processes with other hashes."""

import gc
import math
import multiprocessing
import os
import pickle
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

from odradek.controller import bulk_moves
from odradek.sim.coverage import Seen, entered_with_reason, merged, table, watched, without_reason
from odradek.sim.plan import ALSO, draw
from odradek.sim.run import CORRECTNESS, OK, Outcome
from odradek.sim.run import run as run_plan

Say = Callable[[str], None]
UNREACHED = 1
MOST_WATCHED = 128
# Of those that run again one of so many does to its end, the others for this share of their looks: traces that differ once
# differ from there on.
WHOLE_AGAIN, SHARE_AGAIN = 10, 1 / 3
TO_THE_END = sys.maxsize  # looks
WARMS_UP = (
    8,
    9,
    15,
    39,
)  # with groups, transactions and a compacted topic: the others find what these have imported and compiled
# In a process of the pool: seeds of which the reached statements are told, and the marks meanwhile.
_watched: set[int] = set()
_marks: dict[str, bytearray] = {}
_watching = ExitStack()


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
    enters and that has no reason (`not_entered`) is a failure, and so is one that has a reason and is entered.
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
        unreached = len(parts) == MOST_WATCHED and bool(without_reason(seen) or entered_with_reason(seen))
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
) -> Iterator[tuple[Outcome, float, Seen | None]]:
    """`looks`: of each, after how many it is enough; none: each runs to its end."""
    # A new interpreter reads this at its start; a forked one would share our hashes.
    before = os.environ.get("PYTHONHASHSEED")
    os.environ["PYTHONHASHSEED"] = hash_seed
    try:
        spawning = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(
            jobs, mp_context=spawning, initializer=_begin, initargs=(is_large, sorted(ALSO), watched_seeds)
        ) as pool:
            for told in pool.map(_work, seeds, looks or [TO_THE_END] * len(seeds), chunksize=4):
                yield pickle.loads(told)
    finally:
        if before is None:
            del os.environ["PYTHONHASHSEED"]
        else:
            os.environ["PYTHONHASHSEED"] = before


def _begin(is_large: bool, also: list[str], watched_seeds: frozenset[int]) -> None:
    """In a new process. `is_large`: the seeds have few partitions, and would never reach what is made for many."""
    ALSO.update(also)
    if is_large:
        bulk_moves.WORTH_IT = 1
    if watched_seeds:
        _watched.update(watched_seeds)
        _marks.update(_watching.enter_context(watched()))
    # What only the first world of a process enters is entered here, and seen: of those that are watched.
    _warm_up(sorted(watched_seeds)[1:3] or WARMS_UP)


def _warm_up(seeds: Sequence[int]) -> None:
    for seed in seeds:
        run_plan(draw(seed))
    gc.collect()
    gc.freeze()


def _work(seed: int, most_looks: int) -> bytes:
    """A pickle of the outcome, its processor time, and what it has reached of what is watched."""
    if _watched and seed not in _watched:  # those that are watched come first
        _watched.clear()
        _watching.close()
        _warm_up(
            WARMS_UP
        )  # functions have their own code again, and the interpreter has forgotten what it knew of it
    return _in_a_child(lambda: _run_one(seed, most_looks))


def _run_one(seed: int, most_looks: int) -> tuple[Outcome, float, Seen | None]:
    outcome = run_plan(draw(seed), most_looks=most_looks, ends_process=True)
    outcome.history.events.clear()
    outcome.history.adrift.clear()
    outcome.notes.clear()
    seen = {file: bytes(marks) for file, marks in _marks.items()} if seed in _watched else None
    return outcome, time.process_time(), seen


def _in_a_child(work: Callable[[], object]) -> bytes:
    """What `work` returns, pickled. Its process ends with it, so nothing of a world is collected or let go of one by one."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _be_a_child(work, writing)
    os.close(writing)
    with open(reading, "rb") as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    if status:
        raise ChildProcessError(f"a world ended its process: exit code {os.waitstatus_to_exitcode(status)}")
    return told


def _be_a_child(work: Callable[[], object], writing: int) -> NoReturn:
    code = 1
    try:
        gc.disable()
        told = pickle.dumps(work())
        with open(writing, "wb") as pipe:
            pipe.write(told)
        code = 0
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        os._exit(code)
