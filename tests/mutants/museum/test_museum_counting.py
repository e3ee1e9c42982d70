"""How many seeds an exhibit takes: counted from three starting points, kept in a file, shown on the page."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.mutants.museum import catch, counting
from tests.mutants.museum.__main__ import main
from tests.mutants.museum.counting import Count, Counted, count_all
from tests.mutants.museum.page import tables
from tests.mutants.table import EXHIBITS

SPLIT_BRAIN = next(exhibit for exhibit in EXHIBITS if exhibit.name == "1483")
ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "museum.md"
SCENARIOS = ROOT / "tests" / "scenarios"


def counted(*counts: int) -> Counted:
    """Negative: not within so many."""
    return Counted(tuple(Count(abs(count), count > 0) for count in counts))


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((2, 9, 4), "4"),
        ((2, -60, 4), "4"),
        ((-60, -60, 1), "not within 60"),
        ((-8, -24, -24), "not within 8"),
    ],
)
def test_the_median_is_of_all_three(counts: tuple[int, ...], words: str) -> None:
    assert counted(*counts).median_in_words == words


def test_what_is_counted_is_kept_and_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int]] = []

    def by_seeds(exhibit: object, begin: int, end: int) -> tuple[int, str] | None:
        asked.append((begin, end))
        return (20_003, "liveness: a | b") if begin <= 20_003 < end else None

    monkeypatch.setattr(counting, "by_seeds", by_seeds)
    file = tmp_path / "counts"
    count_all([SPLIT_BRAIN], 2, file)
    found = count_all([SPLIT_BRAIN], 30, file)["1483"]

    assert asked == [
        (0, 2), (10_000, 10_002), (20_000, 20_002),
        (2, 8), (10_002, 10_008), (20_002, 20_008),
        (8, 24), (10_008, 10_024),
        (24, 30), (10_024, 10_030),
    ]  # fmt: skip
    assert found == Counted((Count(30, False), Count(30, False), Count(4, True)), "liveness: a / b")
    assert counting.read(file.read_text().splitlines()) == {"1483": found}


def test_a_seed_counts_that_fails_with_the_bug_and_not_without_it() -> None:
    """Of short seeds: the first ones take ten times as long."""
    found = catch.by_seeds(SPLIT_BRAIN, 12, 15)

    assert found is not None and found[1].startswith("correctness: ")
    assert catch.by_seeds(SPLIT_BRAIN._replace(edits=()), 12, 13) is None


def test_a_seed_that_fails_without_the_bug_too_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch, "_fails", lambda seed: "liveness: always")

    assert catch.by_seeds(SPLIT_BRAIN, 0, 3) is None


def test_the_page_says_what_is_known() -> None:
    lines = list(tables({"1483": counted(1, -60, 3), "9198": counted(-60, -60, 7)}))

    assert next(line for line in lines if line.startswith("| 1483 |")).endswith("| 1, >60, 3 | 3 |")
    assert next(line for line in lines if line.startswith("| 9198 |")).endswith(
        "| >60, >60, 7 | not within 60 |"
    )
    assert next(line for line in lines if line.startswith("| 725 |")).endswith("| not counted | - |")
    assert any("1 of them" in line and "median of 3 seeds" in line for line in lines)


def test_the_page_says_of_every_exhibit_what_is_changed_and_who_catches_it() -> None:
    text = PAGE.read_text(encoding="utf-8")
    counts = counting.read((PAGE.parent / "museum-counts.txt").read_text(encoding="utf-8").splitlines())

    assert [line for line in tables(counts) if f"{line}\n" not in text] == [], (
        "python -m tests.mutants.museum --page docs/museum-counts.txt"
    )


def test_bugs_of_ours_are_told_as_scenarios_and_put_back() -> None:
    """All but those that a unit test tells better, and what the table names as a scenario is one that is seen red."""
    text = (PAGE.parent / "simulator.md").read_text(encoding="utf-8")
    table = text.partition("## Bugs it found in our own code")[2].partition("### Not mended yet")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    put_back = {exhibit.scenario for exhibit in EXHIBITS}
    told = [row for row in rows if put_back & set(re.findall(r"`([a-z_0-9]+)`", row))]

    assert len(told) >= 18
    named = {row: scenarios_of(row) for row in rows if scenarios_of(row)}
    assert len(named) >= len(told)
    assert [row for row, names in named.items() if not put_back & set(names)] == []
    assert [
        name for names in named.values() for name in names if not (SCENARIOS / f"{name}.txt").exists()
    ] == []


def scenarios_of(row: str) -> list[str]:
    """What a row of the table calls a scenario, or scenarios."""
    found = re.findall(r"[Ss]cenarios? ((?:`[a-z_0-9]+`(?:, | and )?)+)", row)
    return [name for names in found for name in re.findall(r"`([a-z_0-9]+)`", names)]


def test_an_exhibit_that_is_not_there_is_said_and_nothing_passes_for_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    for names in ("7152x", "1483,7152x"):
        answer = CliRunner().invoke(main, ["--only", names, "--seeds", "0"])
        assert answer.exit_code == 2 and "no exhibit 7152x; did you mean 7152?" in answer.output


def test_exhibits_are_named_with_a_comma_or_one_option_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    monkeypatch.setattr("tests.mutants.museum.__main__.by_scenarios", lambda exhibit, paths: None)
    for names in (["--only", "1483,7152"], ["--only", "1483", "--only", "7152"]):
        answer = CliRunner().invoke(main, [*names, "--seeds", "0"])
        rows = [line.split(" | ")[0] for line in answer.output.splitlines()[2:4]]
        assert sorted(rows) == ["| 1483", "| 7152"]
