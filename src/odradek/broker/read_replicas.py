"""Which replica a consumer is told to read from: one in its rack (KIP-392).

The leader is asked first, and with `replica.selector.class` = RackAwareReplicaSelector it sends a consumer that says its rack on
to a follower there. What such a follower gives is bounded by itself: `handlers/fetch`.
"""

from collections.abc import Mapping

from odradek.broker.metadata_cache import LiveBroker
from odradek.model.ids import BrokerId
from odradek.replication.partition import Partition


def preferred_read_replica(
    partition: Partition,
    fetch_offset: int,
    *,
    rack: str,
    listener: str,
    brokers: Mapping[int, LiveBroker],
) -> BrokerId | None:
    """Of a partition that is led here, the follower to read from; None: the leader, which is here.

    As Apache's RackAwareReplicaSelector: the leader where it is in the rack, else of the followers there the one whose log ends
    last, then the one that was caught up last, then the larger id. A follower counts if it

    - is in the committed ISR: one that lags would be chosen, fall behind, and be chosen again;
    - has the offset, from its log start to its log end, as its last fetch said: it would answer OFFSET_OUT_OF_RANGE, and
      its reader come back here;
    - lives, and can be reached where the reader reached us: by the same listener.
    """
    own = brokers.get(partition.broker)
    if own is not None and own.rack == rack:
        return None
    leader_end = partition.log.log_end_offset
    isr = partition.isr
    best: tuple[int, int, BrokerId] | None = None
    for broker, follower in partition.followers.items():
        known = brokers.get(broker)
        if (
            known is None
            or known.rack != rack
            or listener not in known.endpoints
            or broker not in isr
            or not follower.log_start_offset <= fetch_offset <= follower.log_end_offset
        ):
            continue
        is_caught_up = follower.log_end_offset >= leader_end
        caught_up_ms = follower.last_heard_ms if is_caught_up else follower.last_caught_up_time_ms
        place = follower.log_end_offset, caught_up_ms, broker
        if best is None or place > best:
            best = place
    return None if best is None else best[2]
