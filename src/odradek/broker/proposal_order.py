"""Which AlterPartition comes late: written before one of the same leader that this controller has read since.

A leader whose connection breaks with a proposal on it proposes the same over the next one, and the bytes of the first may be
read afterwards. What was committed since makes that harmless: a partition epoch of before is refused. A refusal leaves the
partition epoch as it is, and the leader takes its proposal back: it counts on the follower no more. Read late, when that follower
is eligible again, the first copy would take it into the ISR without the records that were committed meanwhile.

So the correlation ids of a leader's AlterPartition requests rise over all its connections to a controller (`server/controller_channel`;
Apache's `NodeToControllerChannelManager` keeps one `NetworkClient` for as long as its broker runs), and whatever is not above the
last one of this broker epoch is not obeyed (decisions/0008).
"""

from odradek.broker.control_order import is_after
from odradek.model.ids import BrokerEpoch, BrokerId

# Anybody may name broker epochs that there are not; the oldest goes first.
MOST_REMEMBERED = 1_000


class ProposalOrder:
    """Of this process: it may be deposed and elected again while the bytes are under way."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[tuple[BrokerId, BrokerEpoch], int] = {}

    def is_late(self, broker: BrokerId, broker_epoch: BrokerEpoch, correlation_id: int) -> bool:
        """False: it is in order, and later than all before it from now on."""
        last = self._last.pop((broker, broker_epoch), None)
        is_late = last is not None and not is_after(correlation_id, last)
        self._last[broker, broker_epoch] = last if is_late and last is not None else correlation_id
        if len(self._last) > MOST_REMEMBERED:
            del self._last[next(iter(self._last))]
        return is_late
