"""Lines of the log: how often, how long, and never two of one."""

import io
import logging
import re
from collections.abc import Iterator

import pytest

from odradek.model.printable import LONGEST_LINE
from odradek.server.log_limits import LimitedLog, OneLine

FORGED = "\n[2026-01-01 00:00:00,000] ERROR the disk is on fire (odradek.server)\n\x1b]0;owned\x07"


@pytest.fixture
def out() -> Iterator[io.StringIO]:
    """What a logger of ours writes."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(OneLine("[%(levelname)s] %(message)s"))
    logger = logging.getLogger("odradek.tests.log_limits")
    logger.addHandler(handler)
    logger.propagate = False
    yield stream
    logger.removeHandler(handler)
    logger.propagate = True


logger = logging.getLogger("odradek.tests.log_limits")


def test_a_line_stays_a_line_whatever_somebody_sent(out: io.StringIO) -> None:
    logger.warning("closed: %s", FORGED + "x" * 100_000)

    (line,) = out.getvalue().splitlines()
    assert line.startswith("[WARNING] closed: \\n[2026-01-01")
    assert len(line) < LONGEST_LINE + 100
    assert "\x1b" not in line


def test_a_trace_holds_no_line_that_looks_like_an_event(out: io.StringIO) -> None:
    try:
        raise ValueError(FORGED)
    except ValueError as error:
        LimitedLog(logger, lambda: 0.0).failure("key", f"failed: {error}", error)

    first, *trace = out.getvalue().splitlines()
    assert first.startswith("[ERROR] failed: \\n[2026")
    assert len(trace) > 2
    assert all(line.startswith("    ") for line in trace)
    assert not re.search("[\x00-\x09\x0b-\x1f]", out.getvalue())


def test_who_never_stops_is_told_of_once_a_period_and_of_how_often(out: io.StringIO) -> None:
    now = 0.0
    limited = LimitedLog(logger, lambda: now, period_s=10)
    for second in range(25):
        now = float(second)
        limited.warning("disk", "the disk is slow")
    assert out.getvalue().splitlines() == [
        "[WARNING] the disk is slow",
        "[WARNING] the disk is slow (9 more like it were left out)",
        "[WARNING] the disk is slow (9 more like it were left out)",
    ]


def test_keys_beyond_what_is_remembered_share_one_line_a_period(out: io.StringIO) -> None:
    now = 0.0
    limited = LimitedLog(logger, lambda: now, period_s=10)
    for number in range(5 * LimitedLog.MOST_KEYS):
        limited.warning(f"10.0.{number}", f"from 10.0.{number}")
    assert len(out.getvalue().splitlines()) == LimitedLog.MOST_KEYS + 1

    now = 10.0
    limited.warning("new", "of the next period")
    limited.warning("10.0.1", "again")
    assert out.getvalue().splitlines()[-2:] == ["[WARNING] of the next period", "[WARNING] again"]


def test_what_was_left_out_is_counted_by_the_next_line(out: io.StringIO) -> None:
    now = 0.0
    limited = LimitedLog(logger, lambda: now, period_s=10)
    for _ in range(7):
        limited.warning("key", "said")
    now = 10.0
    limited.warning("key", "said")

    assert out.getvalue().splitlines() == ["[WARNING] said", "[WARNING] said (6 more like it were left out)"]
