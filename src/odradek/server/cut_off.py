"""A store that cuts the connection at one and the same question, again and again.

A broker asks once more for as long as its session lives: a member of the ensemble has died, and another one answers a moment later;
the client goes on to the next member by itself. Where every member cuts it off at the same question there is nobody to wait for but a
person. The usual reason is an answer, or a node, beyond `jute.maxbuffer` of a server, which that one's log calls a `Len error`.
Apache's broker asks without end as well, and does not say what.
"""

from collections.abc import Callable

from odradek.server.log_limits import LimitedLog
from odradek.store.api import OutOfTouch

# Cut off so often in a row, it is the question. Each time takes a connection, so members of an ensemble have had their turn.
SO_OFTEN = 5
# A loss that comes later than this behind the one before is another story.
TOGETHER_S = 60.0


class CutOff:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._path = ""
        self._times = 0
        self._last_s = 0.0

    def tell(self, log: LimitedLog, error: OutOfTouch) -> None:
        more = self.at(error)
        # What is known more is said once it is known, whatever was said within the period.
        log.warning("cut off" if more else "store", f"the store {error.verdict}: {error}{more}")

    def at(self, error: OutOfTouch) -> str:
        """What is known of it more, to be said behind the error; nothing, as a rule. What was not even sent has no path."""
        if not error.path:
            return ""
        now_s = self._monotonic()
        is_again = error.path == self._path and now_s - self._last_s <= TOGETHER_S
        self._times = self._times + 1 if is_again else 1
        self._path, self._last_s = error.path, now_s
        if self._times < SO_OFTEN:
            return ""
        return (
            f"; that is {self._times} times in a row when it was asked for {self._path}. It is asked again, but if every server does so "
            "look into the logs of the servers: a node or an answer larger than jute.maxbuffer ends like this (Len error), and wants a larger one "
            "on all servers"
        )
