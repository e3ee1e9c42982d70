"""Crash states of logs with producer snapshots, a transaction index, and cleanings: each recovered and judged (`keyed_worlds`).

What a script leaves in the log is named beside it, and the states are counted apart by that. One in nine of them is judged, or all
with ODRADEK_CRASH_CUTS (power cuts a moment): docs/reliability.md has a count.
"""

import os
from collections.abc import Callable, Iterator
from itertools import islice

import pytest

from odradek.log.memory_files import MemoryDisk
from odradek.sim.crash_states import CrashState, RecordingDisk, copied, crash_states, disk_with
from tests.log.keyed_worlds import DELETE_RETENTION_MS, KeyedNote, KeyedResumed, KeyedWorld

CUTS = int(os.environ.get("ODRADEK_CRASH_CUTS", "2"))
ONE_IN = 1 if "ODRADEK_CRASH_CUTS" in os.environ else 9
RECOVERIES = 30 * CUTS  # crash states of recoveries, a script
ENOUGH = 600
INDEX, CLEANED, BOTH = "a transaction index", "cleanings", "a transaction index and cleanings"
JUDGED: dict[tuple[str, str, str], int] = {}  # (what the log held, which test, script) -> states

Script = Callable[[KeyedWorld], None]


def two_producers(world: KeyedWorld) -> None:
    """Their transactions overlap, and reach over segments."""
    world.in_transaction(8, "a", "b")
    world.put("plain")
    world.in_transaction(9, "a")
    world.roll()
    world.in_transaction(9, "c")
    world.end(9, commit=False)
    world.flush()
    world.checkpoint()
    world.in_transaction(8, "d")
    world.end(8, commit=True)
    world.in_transaction(9, "d")
    world.roll()
    world.end(9, commit=False)
    world.flush()
    world.in_transaction(8, "open")


def kept_open(world: KeyedWorld) -> None:
    """A transaction that is open through a clean stop and ends after it."""
    world.in_transaction(8, "a")
    world.put("b", producer_id=7)
    world.in_transaction(9, "b")
    world.stop_and_start()
    world.put("c", producer_id=7)
    world.end(9, commit=False)
    world.roll()
    world.flush()
    world.checkpoint()
    world.end(8, commit=False)
    world.in_transaction(8, "a")
    world.flush()


def start_moves(world: KeyedWorld) -> None:
    """Records are deleted below an open transaction, and with them aborted ones."""
    for key in "abc":
        world.in_transaction(9, key)
    world.end(9, commit=False)
    world.put("d", producer_id=7)
    world.in_transaction(8, "e")
    world.roll()
    world.in_transaction(8, "f")
    world.flush()
    world.delete_records_to(world.log.segments.active.base_offset)
    world.purge()
    world.end(8, commit=True)
    world.put("g")
    world.flush()
    world.checkpoint()


def keys_again(world: KeyedWorld) -> None:
    """Values that are superseded, and a key that is deleted; cleaned twice and once more behind the horizon."""
    for key in "abcab":
        world.put(key)
    world.put("c", None)
    world.roll()
    world.put("a", producer_id=7)
    world.flush()
    world.clean()
    world.checkpoint()
    for key in "bab":
        world.put(key, producer_id=7)
    world.roll()
    world.put("last")
    world.clean()
    world.flush()
    world.put("last")
    world.roll()
    world.put("end")
    world.flush()
    world.clean(2 * DELETE_RETENTION_MS)
    world.purge()


def transactions_cleaned(world: KeyedWorld) -> None:
    """One committed, one aborted, one that stays open: with a new segment and a cleaning in the midst of them."""
    world.put("a")
    world.in_transaction(9, "a", "b")
    world.in_transaction(8, "c")
    world.end(9, commit=False)
    world.roll()
    world.in_transaction(8, "a")
    world.end(8, commit=True)
    world.put("b")
    world.roll()
    world.in_transaction(9, "b")
    world.flush()
    world.clean()
    world.checkpoint()
    world.in_transaction(7, "open")
    world.end(9, commit=False)
    world.roll()
    world.put("c")
    world.flush()


def cleaned_until_the_marker_goes(world: KeyedWorld) -> None:
    """The marker of an aborted transaction takes three cleanings, the last of them behind its horizon."""
    world.in_transaction(9, "a", "b")
    world.put("b")
    world.end(9, commit=False)
    world.roll()
    for number in range(3):
        world.in_transaction(8, "b")
        world.end(8, commit=number != 1)
        world.put(f"k{number}")
        world.roll()
        world.put("a")
        world.flush()
        world.clean(number * 2 * DELETE_RETENTION_MS)
    world.checkpoint()
    world.purge()
    world.put("end")


def cleaned_and_stopped(world: KeyedWorld) -> None:
    """`compact,delete`: cleaned, its start moved, stopped in order while a transaction is open, and cleaned again."""
    for key in "abcd":
        world.in_transaction(9, key)
    world.end(9, commit=False)
    world.put("a")
    world.roll()
    world.put("b")
    world.flush()
    world.clean()
    world.in_transaction(8, "b")
    world.stop_and_start()
    world.end(8, commit=True)
    world.roll()
    world.put("c")
    world.flush()
    world.delete_records_to(world.log.segments[1].base_offset)
    world.clean()
    world.purge()


SCRIPTS: tuple[tuple[Script, str, str], ...] = (
    (two_producers, "delete", INDEX),
    (kept_open, "delete", INDEX),
    (start_moves, "delete", INDEX),
    (keys_again, "compact", CLEANED),
    (transactions_cleaned, "compact", BOTH),
    (cleaned_until_the_marker_goes, "compact", BOTH),
    (cleaned_and_stopped, "compact,delete", BOTH),
)
EACH = pytest.mark.parametrize(
    ("script", "policy", "holds"), SCRIPTS, ids=[one[0].__name__ for one in SCRIPTS]
)


def judge(state: CrashState, *, all_of_it: bool = True) -> None:
    world = KeyedResumed(state.note, state.disk)
    state.disk.restart()
    world.start()
    try:
        world.check(all_of_it=all_of_it and state.kind != "power cut")
    except Exception as error:
        raise AssertionError(f"{state}: {error}") from error


def recorded(script: Script, policy: str, cuts: int) -> Iterator[CrashState]:
    world = KeyedWorld(11, policy)
    script(world)
    return crash_states(world.moments(), cuts_per_moment=cuts, seed=11)


def a_later_value(world: KeyedWorld) -> None:
    """In a segment of its own, of which nothing was flushed."""
    for key in "abcd":
        world.put(key)
    world.roll()
    world.flush()
    world.checkpoint()
    world.put("a")
    world.roll()
    world.recording.moments.clear()
    world.clean()


def a_later_commit(world: KeyedWorld) -> None:
    """Of a value in a closed segment; its marker is in the active one, of which nothing was flushed."""
    for key in "abcd":
        world.put(key)
    world.roll()
    world.flush()
    world.checkpoint()
    world.in_transaction(8, "a")
    world.roll()
    world.end(8, commit=True)
    world.recording.moments.clear()
    world.clean()


@pytest.mark.parametrize("script", [a_later_value, a_later_commit])
def test_a_value_is_cleaned_away_only_for_a_later_one_that_is_on_the_disk(script: Script) -> None:
    """A power cut took the segment with the later value, or with its marker, which nobody had synced, and the former one was
    gone."""
    for state in recorded(script, "compact", 8):
        judge(state)


@pytest.mark.slow
@EACH
def test_every_crash_is_recovered(script: Script, policy: str, holds: str) -> None:
    count = 0
    for state in islice(recorded(script, policy, CUTS), 0, None, ONE_IN):
        judge(state)
        count += 1
    JUDGED[holds, "crashes", script.__name__] = count
    assert count > 20


@pytest.mark.slow
@EACH
def test_every_crash_of_a_recovery_is_recovered(script: Script, policy: str, holds: str) -> None:
    count = 0
    for number, state in enumerate(list(recorded(script, policy, 2))):
        if number % 9:
            continue
        for again in crashes_of_recovery(state.note, state.disk, seed=number):
            top = copied(again.disk._top)
            judge(again, all_of_it=False)
            count += 1
            if count % 7 == 0:
                for third in islice(crashes_of_recovery(state.note, disk_with(top), seed=count), 20):
                    judge(third, all_of_it=False)
                    count += 1
        if count >= RECOVERIES:
            break
    JUDGED[holds, "recoveries", script.__name__] = count
    assert count > 30


def crashes_of_recovery(note: KeyedNote, disk: MemoryDisk, seed: int) -> Iterator[CrashState]:
    recording = disk_with(disk._top, RecordingDisk(lambda: note))
    world = KeyedResumed(note, recording)
    world.start()
    assert world.manager.refused == {}
    recording.note()
    return crash_states(recording.moments, cuts_per_moment=2, seed=seed)


@pytest.mark.slow
def test_there_were_enough_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    """After the two above, in the same process; where only some of them ran there is nothing to count."""
    if len(JUDGED) < 2 * len(SCRIPTS):
        pytest.skip("only some of the scripts were played")
    with capsys.disabled():
        print()
        for holds in (INDEX, CLEANED, BOTH):
            count = sum(states for (held, _, _), states in JUDGED.items() if held == holds)
            print(f"{count} crash states of logs with producer snapshots and {holds} recovered and judged")
    assert sum(JUDGED.values()) >= ENOUGH
