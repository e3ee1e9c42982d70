"""Judges how long a transaction stays open."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from odradek.sim.checkers.continuity import Continuity
from odradek.sim.checkers.history import Anomaly

# Behind its time-out and the next time that its coordinator looks for such: a turn, an append, a look that comes late.
LATE_S = 0.5


class Open(NamedTuple):
    """A transaction that a coordinator takes for open, and of which it writes nothing although it could."""

    broker: str
    transactional_id: str
    producer: tuple[int, int]  # id and epoch
    limit_s: float  # its time-out, and how often its coordinator looks
    memory: object  # the same as long as the coordinator was not loaded again


class OpenTransactions:
    """open-too-long: a transaction is aborted by its coordinator when it is older than its time-out, whatever its producer still adds
    to it. It is as old as its producer says, which began it after the one before had ended."""

    def __init__(self) -> None:
        self._open = Continuity()

    def observe(
        self, all_open: Iterable[Open], begun_s: Mapping[str, float], now_s: float
    ) -> Iterator[Anomaly]:
        """`begun_s`: when anybody began the latest transaction of an id."""
        self._open.look(now_s)
        for one in all_open:
            key = one.broker, one.transactional_id, one.producer
            open_s = self._open.lasts_s(key, one.memory, begun_s.get(one.transactional_id))
            if open_s > one.limit_s + LATE_S:
                yield Anomaly(
                    "open-too-long",
                    None,
                    f"the transaction of {one.transactional_id} is open at {one.broker} for {open_s:.3f} s, and has {one.limit_s:g}",
                )
