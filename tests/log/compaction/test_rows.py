"""docs/cleaner-behaviours.md is complete and up to date."""

from tests.coordinator.rows import ticked
from tests.log.compaction.rows import PAGE, ROWS, page
from tests.mutants.table import OF_CLEANER


def test_every_row_is_shown_by_a_test() -> None:
    shown = ticked()
    assert [name for name in ROWS if name not in shown] == []
    assert {name for name in shown if name.startswith("L")} <= set(ROWS)


def test_every_row_has_a_mutation() -> None:
    assert [row for mutant in OF_CLEANER for row in mutant.rows] == list(ROWS)


def test_the_page_says_what_the_markers_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.log.compaction.rows"
