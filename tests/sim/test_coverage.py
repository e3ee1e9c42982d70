"""What seeds never reach is named, with the reason where somebody gave one."""

import importlib
from collections.abc import Mapping
from contextlib import nullcontext
from fnmatch import fnmatchcase
from functools import cache

import pytest

from odradek.replication.partition import Partition
from odradek.sim import coverage, sweep
from odradek.sim.coverage import (
    Key,
    entered_with_reason,
    merged,
    modules,
    never_entered,
    shown,
    table,
    too_little,
    watched,
    without_reason,
)
from odradek.sim.not_entered import NOT_ENTERED, reason
from odradek.sim.plan import draw
from odradek.sim.run import Outcome, run

APPEND: Key = coverage._key(Partition.append.__code__)


@cache
def ran(seed: int) -> Outcome:
    return run(draw(seed))


@cache
def ran_watched(seed: int) -> tuple[Outcome, Mapping[str, bytes]]:
    with watched() as seen:
        outcome = run(draw(seed))
    assert outcome.code == 0
    return outcome, merged([seen])


@cache
def reached_by(*seeds: int) -> Mapping[str, bytes]:
    return merged(ran_watched(seed)[1] for seed in seeds)


def entered(seen: Mapping[str, bytes]) -> set[Key]:
    return {key for module in modules().values() for key in module.functions} - set(never_entered(seen))


@pytest.mark.parametrize("missing", ["uvloop", "odradek.nowhere"])
def test_a_library_of_an_extra_that_is_not_installed_is_no_hindrance(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """`--coverage` ended with its traceback where odradek was installed by itself."""
    really = importlib.import_module

    def imported(name: str) -> object:
        if name == "odradek.server.uv_loop":
            raise ModuleNotFoundError(f"No module named {missing!r}", name=missing)
        return really(name)

    monkeypatch.setattr("odradek.sim.coverage.importlib.import_module", imported)
    with nullcontext() if missing == "uvloop" else pytest.raises(ModuleNotFoundError):  # noqa: SIM117
        with watched() as seen:
            assert any(file.endswith("uv_loop.py") for file in seen)


def test_what_was_reached_and_what_was_not_are_told_apart() -> None:
    said = list(table(reached_by(5)))
    shares = {line.split()[0]: float(line.split()[1]) for line in said if "statements in functions" in line}

    assert list(shares) == list(coverage.ROOMS)
    assert 30 < shares["replication"] < 100
    assert shares["store/embedded"] == 0, "the store of a simulated world is another one"
    never = {shown(key)[1] for key in never_entered(reached_by(5))}
    assert "OsFile.append" in never and "Partition.append" not in never
    assert any(line.endswith("never entered: the real disk: a world has `log.memory_files`") for line in said)


def test_a_seed_that_is_watched_is_the_run_it_is_without() -> None:
    before = Partition.append.__code__
    with watched():
        assert Partition.append.__code__ is not before

    assert Partition.append.__code__ is before
    assert ran_watched(5)[0].hash_line == ran(5).hash_line


def test_every_statement_of_a_function_has_its_mark() -> None:
    """Those of what stands in it too, and once."""
    marks = [mark for function in modules()[APPEND[0]].functions.values() for mark in function.statements]
    assert sorted(marks) == list(range(modules()[APPEND[0]].marks))
    assert all(function.statements for module in modules().values() for function in module.functions.values())


def test_what_processes_have_reached_is_put_together() -> None:
    file, statements = APPEND[0], modules()[APPEND[0]].functions[APPEND].statements
    one, other = bytearray(modules()[file].marks), bytearray(modules()[file].marks)
    one[statements[0]], other[statements[-1]] = 1, 1

    whole = merged([{file: one}, {file: other}])

    assert [mark for mark, is_reached in enumerate(whole[file]) if is_reached] == [
        statements[0],
        statements[-1],
    ]
    assert entered(whole) == {APPEND}


def test_every_reason_is_of_a_function_that_is_there() -> None:
    names = [" ".join(shown(key)) for module in modules().values() for key in module.functions]
    for patterns in NOT_ENTERED.values():
        for pattern in patterns:
            assert any(fnmatchcase(name, pattern) for name in names), pattern


def test_what_has_a_reason_is_not_entered() -> None:
    """In a few seeds, among them a group's and a compacted topic's; 128 are watched by `make sim`."""
    found = {shown(key) for key in entered(reached_by(1, 5, 6, 10, 39))}
    assert sorted(name for name in found if reason(*name) is not None) == []


def test_a_function_that_none_of_128_seeds_enters_needs_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of these five seeds alone; what only others enter has none, and is named."""
    seen = reached_by(1, 5, 6, 10, 39)
    named = without_reason(seen)
    assert len(named) < 400 and not any("Partition.append" in line for line in named)

    parts = [(ran(5), 1.0, seen)] * sweep.MOST_WATCHED
    monkeypatch.setattr(sweep, "_run_all", lambda *arguments, **options: iter(parts))
    said: list[str] = []
    code = sweep.sweep(range(128), jobs=1, count_faults=False, say=said.append, coverage=True)
    assert code == sweep.UNREACHED
    assert set(named) <= set(said)


def test_a_reason_of_a_function_that_is_entered_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = reached_by(5)
    assert entered_with_reason(seen) == []
    monkeypatch.setitem(NOT_ENTERED, "nobody writes", ("replication/partition.py Partition.append",))
    reason.cache_clear()
    try:
        (line,) = entered_with_reason(seen)
        assert line.startswith("entered, and has a reason not to be: replication/partition.py:")
        assert line.endswith(" Partition.append") and line in list(table(seen))
    finally:
        reason.cache_clear()


def reached(room: str, share: float) -> Mapping[str, bytes]:
    """Every statement, but of the files of this room only so many."""
    return {
        file: bytes(
            [
                not file.startswith(f"{coverage.ROOT / room}/") or n < share * module.marks
                for n in range(module.marks)
            ]
        )
        for file, module in modules().items()
    }


def test_a_room_of_which_too_little_is_reached_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where every function is entered."""
    monkeypatch.setattr(sweep, "without_reason", lambda seen: [])
    monkeypatch.setattr(sweep, "entered_with_reason", lambda seen: [])
    codes = {}
    for share in (0.8, 1.0):
        parts = [(ran(5), 1.0, reached("log", share))] * sweep.MOST_WATCHED
        monkeypatch.setattr(sweep, "_run_all", lambda *_, parts=parts, **__: iter(parts))
        said: list[str] = []
        codes[share] = sweep.sweep(range(128), jobs=1, count_faults=False, say=said.append, coverage=True)
        assert any("too little is reached: log" in line for line in said) == (share < 1)
    assert codes == {0.8: sweep.UNREACHED, 1.0: 0}
    assert too_little(reached("broker", 0.5)) == []
