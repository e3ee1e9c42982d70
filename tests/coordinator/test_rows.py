"""docs/coordinator-behaviours.md is complete and up to date."""

from tests.coordinator.rows import PAGE, page, rows, ticked
from tests.coordinator.test_traces import ALL
from tests.coordinator.test_transaction_traces import ALL as ALL_OF_TRANSACTIONS
from tests.mutants.table import OF_COORDINATORS


def test_every_row_is_shown_by_a_trace_that_is_played_or_by_a_test() -> None:
    assert len(rows()) == 94 + 32 + 13
    assert [name for name, row in rows().items() if not row.traces and not row.tests] == []


def test_the_rows_name_traces_that_are_played_and_the_tests_name_rows_that_are_there() -> None:
    played = {f"{trace.folder}/{trace.name}" for trace in (*ALL, *ALL_OF_TRANSACTIONS)}
    assert {trace for row in rows().values() for trace in row.traces} <= played
    of_others = {name for name in ticked() if name.startswith("L")}  # tests/log/compaction/rows.py
    assert set(ticked()) - of_others <= set(rows())


def test_every_row_has_a_mutation() -> None:
    assert [row for mutant in OF_COORDINATORS for row in mutant.rows] == list(rows())


def test_the_page_says_what_the_markers_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.coordinator.rows"
