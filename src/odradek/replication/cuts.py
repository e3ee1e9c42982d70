"""A follower's log is cut, or begun anew: at once where that is short, else in turns of their own.

A segment has millions of batches, whose producers a cut must know again; many segments go file by file; a tail that is kept
is copied by a thread. Meanwhile nothing of the partition is fetched. A cut that is not finished is given up where the partition
gets another leader epoch, or its log has moved: the log is whole after every step, and whoever fetches next asks anew.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from odradek.log.steps import Steps, Work
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import TopicPartition

T = TypeVar("T")
# That one answer of a leader brings and are made at once: some ten milliseconds.
CUTS_AT_ONCE = 20


class Cut:
    """`go_on` until `is_over`; one of what was given at the making is called then, unless it is not wanted any more."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        steps: Steps[T],
        *,
        is_wanted: Callable[[], bool],
        has_moved: Callable[[], bool],
        ended: Callable[[T, int], None],
        failed: Callable[[ProtocolError, int], None],
        moved: Callable[[int], None],
    ) -> None:
        """`ended` is told the value of the last step; `moved`, that the partition has another log now."""
        self.topic_partition = topic_partition
        self.is_over = False
        self.work: Work | None = None  # for a thread, before the next step; that is told what came of it
        self._steps = steps
        self._is_wanted = is_wanted
        self._has_moved = has_moved
        self._ended: Callable[[Any, int], None] = ended
        self._failed = failed
        self._moved = moved

    def go_on(self, now_ms: int, came: Any = None) -> None:
        """The next step."""
        self.work = None
        if not self._is_wanted():
            self._close()
        elif self._has_moved():
            self._close()
            self._moved(now_ms)
        else:
            try:
                self.work = self._steps.send(came)
            except StopIteration as end:
                self.is_over = True
                self._ended(end.value, now_ms)
            except ProtocolError as fault:
                self.is_over = True
                self._failed(fault, now_ms)

    def give_up(self, why: str, now_ms: int) -> None:
        """What a thread had to do was not done, or a step failed as nobody foresaw."""
        self._close()
        if self._is_wanted():
            self._failed(ProtocolError(ErrorCode.UNKNOWN_SERVER_ERROR, why), now_ms)

    def _close(self) -> None:
        self.is_over = True
        self._steps.close()
