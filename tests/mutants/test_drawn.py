"""Drawing mutations: which changes are made, that they can be drawn again, and that a verdict is a verdict."""

import ast
import importlib
import json
import os
import sys
import threading
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from odradek.replication.windowed_sum import WindowedSum
from tests.mutants import trial
from tests.mutants.__main__ import mutants, read, table
from tests.mutants.drawing import ALL_ROOMS, NOT_DRAWN, drawn
from tests.mutants.explained import explained
from tests.mutants.judge import Tell, Told, in_child
from tests.mutants.patching import key_of, patch
from tests.mutants.reach import TestReach, TestsFail, learn_tests
from tests.mutants.reached import Entered
from tests.mutants.sites import Change, Site, changed, sites_of
from tests.mutants.trial import Copies

TESTS = Path(__file__).parents[1]
SRC = TESTS.parent / "src" / "odradek"

EXAMPLE = '''
"""Höhe."""

LIMIT = 3

class Log:
    def append(self, size: int = 4) -> int:
        """What stands here is no behaviour."""
        if size > LIMIT and not self.closed:
            raise ValueError(f"ä {size + 1}")
        self.end += size
        self.flush()
        return min(self.end - 1, size)

    def __repr__(self) -> str:
        return "Log" if self.end > 1 else ""

    def wake(self, end: int) -> None:
        """Whoever derives from it says."""
        raise NotImplementedError

    def begin(self) -> None:
        if self.end:
            raise NotImplementedError
'''


def into() -> list[tuple[str, str, str]]:
    return [(site.operator, site.old, site.new) for site in sites_of("log/x.py", EXAMPLE)]


@pytest.mark.parametrize(
    "change",
    [
        ("condition negated", "size > LIMIT and not self.closed", "not (size > LIMIT and (not self.closed))"),
        ("logic", "size > LIMIT and not self.closed", "(size > LIMIT or not self.closed)"),
        ("term left out", "size > LIMIT and not self.closed", "(size > LIMIT)"),
        ("relation", "size > LIMIT", "(size >= LIMIT)"),
        ("not left out", "not self.closed", "(self.closed)"),
        ("error not raised", 'raise ValueError(f"ä {size + 1}")', "pass"),
        ("assignment left out", "self.end += size", "pass"),
        ("call left out", "self.flush()", "pass"),
        ("function", "min", "max"),
        ("arithmetic", "self.end - 1", "(self.end + 1)"),
        ("constant", "1", "2"),
    ],
)
def test_each_operator_finds_its_place(change: tuple[str, str, str]) -> None:
    assert change in into()


def test_the_same_change_at_two_places_of_a_line_has_two_names() -> None:
    sites = sites_of(
        "a.py", "def next_epoch(self):\n    self.epoch = 1 if self.epoch == MOST else self.epoch + 1\n"
    )

    ones = [site for site in sites if site.old == "1"]
    assert len(ones) == len({site.name for site in ones}) == 2
    assert len({site.change for site in ones}) == 1, "what explains one of them has to explain both"


def test_names_outside_functions_defaults_and_texts_stay() -> None:
    assert [new for operator, old, new in into() if operator == "constant"] == ["2"]


def test_a_method_that_is_only_there_to_be_overridden_stays() -> None:
    functions = [site.function for site in sites_of("log/x.py", EXAMPLE) if "NotImplementedError" in site.old]

    assert functions == ["Log.begin"]


def test_what_is_generated_and_the_disk_of_the_simulator_are_not_drawn_from() -> None:
    paths = {site.path for site in drawn(SRC, seed=1, count=1 << 30, rooms=("log", "protocol"))}

    assert "log/files.py" in paths and "protocol/compiler.py" in paths
    assert not [path for path in paths if path.startswith(NOT_DRAWN)]


def test_a_change_is_made_where_the_site_says_and_nowhere_else() -> None:
    for site in sites_of("log/x.py", EXAMPLE):
        text = changed(EXAMPLE, site)

        assert len(text) == len(EXAMPLE) - len(site.old) + len(site.new)
        assert text != EXAMPLE
        ast.parse(text)


def test_a_change_of_another_text_is_refused() -> None:
    site = sites_of("log/x.py", EXAMPLE)[0]

    with pytest.raises(AssertionError, match="the text is another one"):
        changed(EXAMPLE.replace("size", "Size"), site)


def test_the_same_seed_draws_the_same_and_a_larger_count_begins_with_the_smaller() -> None:
    few = drawn(SRC, seed=5, count=4, rooms=("records", "replication"))
    more = drawn(SRC, seed=5, count=8, rooms=("records", "replication"))

    assert more[:4] == few
    assert len(set(more)) == 8
    assert [site.path.split("/")[0] for site in few] == ["records", "replication"] * 2
    assert drawn(SRC, seed=6, count=4, rooms=("records", "replication")) != few


def a_site(path: str, line: int = 7) -> Site:
    return Site(path, "f", line, "constant", 0, 1, "1", "2")


def test_the_table_counts_by_room_and_names_survivors_and_why_they_may() -> None:
    caught, lives, same = a_site("broker/c.py"), a_site("log/b.py", 1), a_site("log/a.py", 2)
    verdicts = {
        caught.name: {"test": "t", "seed": None, "other_traces": 0},
        lives.name: {"test": None, "seed": None, "other_traces": 2},
        same.name: {"test": None, "seed": 3, "other_traces": 9},
    }

    rows = table([caught, lives, same], verdicts, {same.change: "nobody asks for it"})

    assert [row.split() for row in rows[1:4]] == [
        ["broker", "1", "1", "0", "0", "0"],
        ["log", "2", "0", "1", "2", "1"],
        ["all", "3", "1", "1", "2", "1"],
    ]
    assert rows[4:] == [f"survives: {lives.name}", f"equivalent: {same.name}: nobody asks for it"]


def test_verdicts_of_both_judges_are_kept_and_a_line_cut_off_is_not_one(tmp_path: Path) -> None:
    file = tmp_path / "mutants.jsonl"
    file.write_text(
        '{"name": "a", "test": null}\n{"name": "a", "seed": 3}\n{"name": "a", "test": "t"}\n{"name": "b", "te'
    )

    assert read(file) == {"a": {"test": "t", "seed": 3}}


# ---- who sees it


REACH = TestReach(
    entered={
        "t/a.py::wide": frozenset({"log/x.py:1", "log/y.py:1", "log/y.py:5"}),
        "t/a.py::slow": frozenset({"log/x.py:1", "log/y.py:1"}),
        "t/b.py::close": frozenset({"log/x.py:1"}),
        "t/b.py::elsewhere": frozenset({"log/y.py:1"}),
    },
    took_s={"t/a.py::wide": 1.0, "t/a.py::slow": 9.0, "t/b.py::close": 1.0, "t/b.py::elsewhere": 1.0},
    by_importing=frozenset({"log/z.py:1"}),
)


def test_the_tests_that_enter_a_function_are_run_and_the_most_telling_first() -> None:
    tests = [*REACH.entered, "t/c.py::new"]

    assert REACH.order("log/x.py:1", "log/x.py", tests, 20.0) == [
        *("t/c.py::new", "t/b.py::close", "t/a.py::slow", "t/a.py::wide")
    ]
    assert "t/a.py::slow" not in REACH.order("log/x.py:1", "log/x.py", tests, 5.0), "the budget is spent"


def test_what_a_fixture_of_a_module_enters_counts_for_each_of_its_tests(tmp_path: Path) -> None:
    lines = [
        {"of": "", "took_s": 0.0, "functions": ["log/z.py:1"]},
        {"of": "t/a.py", "took_s": 0.0, "functions": ["log/x.py:1"]},
        {"of": "t/a.py::one", "took_s": 0.5, "functions": ["log/y.py:1"]},
    ]
    file = tmp_path / "gw0.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    reach = TestReach.read([file])

    assert reach.entered == {"t/a.py::one": {"log/x.py:1", "log/y.py:1"}}
    assert reach.is_entered_by_importing("log/z.py:1")
    assert not reach.is_entered_by_importing("log/x.py:1")


def test_what_a_conftest_imports_is_entered_by_importing(tmp_path: Path) -> None:
    """pytest imports it before it configures any plugin; `_rows` of the settings is run by that and never again."""
    path = "model/settings.py"
    rows = next(s for s in sites_of(path, (SRC / path).read_text(encoding="utf-8")) if s.function == "_rows")

    reach = learn_tests(tmp_path / "learned", ["tests/cli/test_pairs.py"], 0)

    assert reach.is_entered_by_importing(key_of(rows))


def test_what_runs_only_while_a_test_imports_is_entered_by_importing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decorator of a verb: the first test that needs the verb imports it, and every other one sees what it made."""
    (tmp_path / "decorators_of_a_test.py").write_text(
        "def only(function):\n    return function\n\ndef also(function):\n    return function\n"
    )
    (tmp_path / "verb_of_a_test.py").write_text(
        "from decorators_of_a_test import also, only\n\n@only\n@also\ndef verb():\n    return also(1)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    entered = Entered(str(tmp_path))
    before = sys.gettrace()
    sys.settrace(entered)
    try:
        verb = importlib.import_module("verb_of_a_test").verb
        while_importing = set(entered.by_importing)
        verb()
    finally:
        sys.settrace(before)

    assert {"decorators_of_a_test.py:1", "decorators_of_a_test.py:4"} <= while_importing
    assert "decorators_of_a_test.py:1" in entered.by_importing
    assert "decorators_of_a_test.py:4" not in entered.by_importing, "tests enter it as well"
    assert "verb_of_a_test.py:3" in entered.now - entered.by_importing


def counted_windows() -> Site:
    path = "replication/windowed_sum.py"
    sites = sites_of(path, (SRC / path).read_text(encoding="utf-8"))
    return next(
        each for each in sites if each.function == "WindowedSum.covered_ms" and each.operator == "arithmetic"
    )


def test_a_child_shows_the_change_and_leaves_the_parent_as_it_is() -> None:
    site = counted_windows()
    counted = WindowedSum(window_count=2, window_ms=1000)
    counted.record(1, now_ms=500)

    def work(tell: Tell) -> None:
        patch(site)
        tell({"covered_ms": counted.covered_ms(700)})

    assert in_child(work) == Told([{"covered_ms": 1200}], True)
    assert counted.covered_ms(700) == 200


def test_a_child_that_dies_or_hangs_is_told_from_one_that_ends() -> None:
    def die(tell: Tell) -> None:
        tell({"begun": 1})
        os._exit(3)

    def hang(tell: Tell) -> None:
        threading.Event().wait()

    assert in_child(die) == Told([{"begun": 1}], False)
    assert in_child(hang, silence_s=0.1) == Told([], False)


# ---- on copies


def test_every_room_that_is_drawn_from_has_tests_of_its_own_and_for_its_copies() -> None:
    assert set(trial.TESTS) == set(ALL_ROOMS)
    for room, folders in trial.TESTS.items():
        assert room in folders
        assert [folder for folder in folders if not (TESTS / folder).is_dir()] == []


COUNTS_WINDOWS = """
from odradek.replication.windowed_sum import WindowedSum

def test_counts():
    counted = WindowedSum(window_count=2, window_ms=1000)
    counted.record(1, now_ms=500)
    assert counted.covered_ms(700) == 200
"""


def test_a_test_that_is_green_on_a_copy_and_red_with_the_change_kills_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_it.py").write_text(COUNTS_WINDOWS)
    monkeypatch.setitem(trial.TESTS, "replication", (str(tmp_path),))

    red = Copies().red_test(counted_windows())

    assert red is not None and red.endswith("test_it.py::test_counts")


def test_a_test_that_is_red_on_a_copy_without_a_change_kills_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_it.py").write_text("def test_of_a_stale_page():\n    assert False\n")
    monkeypatch.setitem(trial.TESTS, "replication", (str(tmp_path),))

    with pytest.raises(TestsFail, match=r"replication, on a copy without a change: .*::test_of_a_stale_page"):
        Copies().red_test(counted_windows())


@pytest.mark.parametrize(("took_s", "timeout_s"), [(20.0, 600), (500.0, 1500)])
def test_a_room_is_looked_at_once_without_a_change_and_has_three_times_as_long_with_one(
    took_s: float, timeout_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[tuple[tuple[Site, ...], float]] = []
    now_s = 0.0

    def red_test_with(room: str, *sites: Site, timeout_s: float) -> str | None:
        nonlocal now_s
        now_s += took_s
        looks.append((sites, timeout_s))
        return "FAILED tests/x.py::test_y" if sites else None

    monkeypatch.setattr(trial, "_red_test_with", red_test_with)
    monkeypatch.setattr(trial, "monotonic", lambda: now_s)
    copies, first, second = Copies(), a_site("log/a.py"), a_site("log/b.py")
    copies.demand_green([first, second])

    assert copies.red_test(first) == copies.red_test(second) == "FAILED tests/x.py::test_y"
    assert looks == [((), trial.GREEN_TIMEOUT_S), ((first,), timeout_s), ((second,), timeout_s)]


def test_nothing_is_judged_where_a_copy_that_will_be_needed_is_red_without_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (site,) = drawn(SRC, seed=1, count=1, rooms=["replication"])
    results, learned = tmp_path / "mutants.jsonl", tmp_path / "mutants.reached"
    learned.mkdir()
    line = {"of": "", "took_s": 0.0, "functions": [key_of(site)]}
    (learned / "alone.jsonl").write_text(json.dumps(line) + "\n")
    monkeypatch.setattr(
        trial, "red_test", lambda source, room, timeout_s: f"FAILED tests/{room}/test_x.py::test_y"
    )

    options = ["--rooms", "replication", "--count", "1", "--judges", "tests", "--results", str(results)]
    ended = CliRunner().invoke(mutants, options)

    assert ended.exit_code == 1
    assert "without a change: FAILED tests/replication/test_x.py::test_y; mend that first" in ended.output
    assert results.read_text() == ""


# ---- what no test can see


@cache
def changes_of(path: str) -> set[Change]:
    return {site.change for site in sites_of(path, (SRC / path).read_text(encoding="utf-8"))}


@pytest.mark.parametrize("change", explained(), ids=str)
def test_an_explained_change_can_still_be_made(change: Change) -> None:
    assert change in changes_of(change.path), (
        "the code has changed: is it explained still? (tests/mutants/explained.txt)"
    )
