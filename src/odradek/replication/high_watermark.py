"""The high watermark: everything below it is on every replica that could be elected."""

from collections.abc import Iterable, Set
from typing import Protocol

from odradek.model.ids import BrokerId


class Position(Protocol):
    """What the high watermark asks of a follower's state."""

    broker: BrokerId
    log_end_offset: int
    is_in_maximal_isr: bool
    last_caught_up_time_ms: int


def high_watermark(
    leader_end: int,
    followers: Iterable[Position],
    *,
    live_brokers: Set[int],
    now_ms: int,
    replica_lag_time_max_ms: int,
) -> int:
    """The smallest log end offset in the maximal ISR, the leader's own included.

    The maximal ISR includes a replica we asked to add and have not heard about. The controller may already
    count on it; leaving it out could commit a record that the next leader lacks.

    A live replica outside the ISR that was caught up a moment ago counts too: it is about to be proposed,
    and if the mark ran ahead of it under a steady load it could never be at or above it (KIP-16).
    """
    mark = leader_end
    for follower in followers:
        if follower.log_end_offset < mark and (
            follower.is_in_maximal_isr
            or (
                now_ms - follower.last_caught_up_time_ms <= replica_lag_time_max_ms
                and follower.broker in live_brokers
            )
        ):
            mark = follower.log_end_offset
    return mark
