"""docs/behaviours.md is complete and up to date: every row has a test and a mutation that turned it red."""

from tests.behaviours import PAGE, behaviours, page, ticked
from tests.mutants.table import OF_BEHAVIOURS


def test_every_behaviour_has_a_test_and_a_mutation() -> None:
    proved = {row for mutant in OF_BEHAVIOURS for row in mutant.rows}
    assert len(behaviours()) == 172
    assert [row for row in behaviours() if row not in ticked()] == []
    assert [row for row in behaviours() if row not in proved] == []


def test_the_tests_name_no_row_that_is_not_there() -> None:
    assert sorted(set(ticked()) - set(behaviours())) == []


def test_the_page_says_what_the_markers_and_mutations_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.behaviours --page"
