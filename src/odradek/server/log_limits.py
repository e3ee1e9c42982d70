"""One line per event, and a failing peer does not flood the log."""

import logging
from collections.abc import Callable


class LimitedLog:
    """At most one line per `key` and period; the next one says how many were left out."""

    MOST_KEYS = 1000

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
            self._logger.warning("%s%s", sentence, _more(left_out))

    def failure(self, key: str, sentence: str, error: BaseException) -> None:
        """A mistake of ours, with its trace."""
        left_out = self._admit(key)
        if left_out is not None:
            self._logger.error("%s%s", sentence, _more(left_out), exc_info=error)

    def _admit(self, key: str) -> int | None:
        """How many lines were left out since the last one; None: leave this one out as well."""
        now = self._monotonic()
        last, left_out = self._seen.get(key, (now - self._period_s, 0))
        if now - last < self._period_s:
            self._seen[key] = (last, left_out + 1)
            return None
        if len(self._seen) >= self.MOST_KEYS:
            self._seen.clear()
        self._seen[key] = (now, 0)
        return left_out


def _more(left_out: int) -> str:
    return f" ({left_out} more like it were left out)" if left_out else ""
