"""One line per event, and a failing peer does not flood the log."""

import logging
from collections.abc import Callable
from types import TracebackType

from odradek.model.printable import LONGEST_LINE, printable, shown

_ErrorInfo = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)  # sys.exc_info's


class OneLine(logging.Formatter):
    """An event is one line, whatever stands in it; the lines of a trace are indented, so none passes for an event."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        record.message = shown(record.message, LONGEST_LINE)
        return super().formatMessage(record)

    def formatException(self, ei: _ErrorInfo) -> str:
        lines = super().formatException(ei).splitlines()
        return "\n".join(f"    {printable(line)}" for line in lines)


class LimitedLog:
    """At most one line per `key` and period; the next one says how many were left out. Keys may come from outside
    (addresses): beyond MOST_KEYS in a period all others share one.
    """

    MOST_KEYS = 1000
    OTHERS = "others"

    def __init__(
        self, logger: logging.Logger, monotonic: Callable[[], float], *, period_s: float = 10.0
    ) -> None:
        self._logger = logger
        self._monotonic = monotonic
        self._period_s = period_s
        self._seen: dict[str, tuple[float, int]] = {}

    def warning(self, key: str, sentence: str) -> None:
        left_out = self._admit(key)
        if left_out is not None:
            self._logger.warning("%s%s", shown(sentence, LONGEST_LINE), _more(left_out))

    def failure(self, key: str, sentence: str, error: BaseException) -> None:
        """A mistake of ours, with its trace."""
        left_out = self._admit(key)
        if left_out is not None:
            self._logger.error("%s%s", shown(sentence, LONGEST_LINE), _more(left_out), exc_info=error)

    def _admit(self, key: str) -> int | None:
        """How many lines were left out since the last one; None: leave this one out as well."""
        now = self._monotonic()
        if key not in self._seen and len(self._seen) >= self.MOST_KEYS:
            key = self._with_room(key, now)
        last, left_out = self._seen.get(key, (now - self._period_s, 0))
        if now - last < self._period_s:
            self._seen[key] = (last, left_out + 1)
            return None
        self._seen[key] = (now, 0)
        return left_out

    def _with_room(self, key: str, now: float) -> str:
        """Forgets what was last said a period ago or more; with none of that the key is one of the others."""
        self._seen = {k: seen for k, seen in self._seen.items() if now - seen[0] < self._period_s}
        return key if len(self._seen) < self.MOST_KEYS else self.OTHERS


def _more(left_out: int) -> str:
    return f" ({left_out} more like it were left out)" if left_out else ""
