"""What is read of a program's lines, and that it ends when nobody reads them any more."""

import sys
import threading

import pytest

from tests.clients.programs import reader

CUT = "print('0 7 000000000001'); print('0 8 0000', end='')"
ENDLESS = "import itertools\nfor n in itertools.count(): print(0, n, f'{n:012}', flush=True)"


def test_a_line_that_was_cut_off_is_no_record() -> None:
    rows: list[tuple[int, ...]] = []
    reader(lambda bootstrap: [sys.executable, "-c", CUT])(
        "", lambda *row: rows.append(row), threading.Event()
    )
    assert rows == [(0, 7, 1)]


def test_a_row_that_is_refused_ends_the_program() -> None:
    stop = threading.Event()

    def refuse(partition: int, offset: int, number: int) -> None:
        raise LookupError(f"{partition} {offset} {number}")

    try:
        with pytest.raises(LookupError):
            reader(lambda bootstrap: [sys.executable, "-c", ENDLESS])("", refuse, stop)
        assert stop.is_set()
    finally:
        stop.set()
