"""Which control request comes late: written before one that was obeyed already, and read after it.

A controller's connection breaks with requests in our socket's buffer; it connects anew and tells the same and more; and
the bytes of the first connection are read afterwards. LeaderAndIsr is guarded by its leader epochs. UpdateMetadata names
none, nor does the StopReplica of a deletion, and a replica that was deleted remembers none: obeyed late, they
bring back a leader of yesterday, delete a replica that was made again, or make one that was deleted.

A controller numbers what it writes to one broker: correlation ids rise strictly within its term and our
registration, over all connections, and what it writes again gets a new number. So do ours (`server/outboxes`) and
Apache's, whose `RequestSendThread` keeps one `NetworkClient`, with one counter, for as long as the broker is registered, and
asks it for a new number at every attempt. So whatever is not above the last number obeyed is late (decisions/0008).
"""

from typing import Protocol

from odradek.broker.answers import CloseConnection
from odradek.model.ids import UNKNOWN_BROKER_EPOCH


class ControlRequest(Protocol):
    """LeaderAndIsr, StopReplica, UpdateMetadata."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int


class ControlOrder:
    """The last control request obeyed. Asked after the epochs: of an older controller or incarnation nothing comes here."""

    __slots__ = ("_controller_id", "_incarnation", "_last")

    def __init__(self) -> None:
        self._controller_id = -1
        self._incarnation = (-1, -1)  # controller epoch, broker epoch: for each the numbers begin anew
        self._last = 0

    def refusal(self, asked: ControlRequest, correlation_id: int) -> CloseConnection | None:
        """What to answer to one that comes late. Nobody waits for it: its connection was given up. Should somebody wait
        after all, he connects anew and asks with a new number."""
        late = self.why_late(
            controller_id=asked.controller_id,
            controller_epoch=asked.controller_epoch,
            broker_epoch=asked.broker_epoch,
            correlation_id=correlation_id,
        )
        if late is None:
            return None
        name = type(asked).__name__.removesuffix("Request")
        return CloseConnection(f"{name} comes late: {late}")

    def why_late(
        self, *, controller_id: int, controller_epoch: int, broker_epoch: int, correlation_id: int
    ) -> str | None:
        """None: it is in order, and obeyed from now on. Requests without a broker epoch (before 2.2) are not judged: their
        sender has a new channel, and new numbers, whenever we register anew, and does not say so."""
        if broker_epoch == UNKNOWN_BROKER_EPOCH:
            return None
        incarnation = (controller_epoch, broker_epoch)
        if incarnation < self._incarnation:
            return f"it was written to broker epoch {broker_epoch}, and one to {self._incarnation[1]} was obeyed already"
        if (
            incarnation == self._incarnation
            and controller_id == self._controller_id
            and not is_after(correlation_id, self._last)
        ):
            return f"its correlation id {correlation_id} is not above {self._last}, which was obeyed already"
        self._controller_id, self._incarnation, self._last = controller_id, incarnation, correlation_id
        return None


def is_after(correlation_id: int, other: int) -> bool:
    """Numbers of 32 bits that go on at their smallest after their largest (RFC 1982)."""
    return 0 < (correlation_id - other) & 0xFFFFFFFF < 1 << 31
