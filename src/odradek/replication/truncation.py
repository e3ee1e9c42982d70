"""Where a follower cuts its log after a change of leader: by leader epochs, never by its high watermark.

The old rule, cut to one's own high watermark, loses acknowledged records: a follower learns the mark one
fetch late, and if it is elected right after the cut the records are gone everywhere (KIP-101).

The follower says: "my log ends in epoch E". The leader answers with the largest epoch it knows that is not
above E, and where that epoch ends in its log (KIP-279). Both logs agree below the smaller of the two ends:

    answer names E itself  -> cut to min(own end, answered end), done: the logs agree in E
    answer names E' < E    -> the leader never saw E. Cut to min(own end of E', answered end). If our
                              largest epoch is now E', done; else ask again with what it is now.
    no common epoch        -> our "end" of E' is where our log begins: cut everything

The same arithmetic serves OffsetForLeaderEpoch and the `diverging_epoch` of Fetch (KIP-595).
"""

from typing import NamedTuple, Protocol

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class EpochHistory(Protocol):
    """What truncation asks of a log."""

    @property
    def log_end_offset(self) -> int: ...

    @property
    def latest_epoch(self) -> int: ...

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """(largest epoch <= `epoch`, its end offset). Where all epochs are larger: `epoch` itself, and the
        start of the first. (-1, -1): larger than any here, or no epoch is known."""


class Truncation(NamedTuple):
    offset: int  # cut here; equal to the log end offset when nothing is to be cut
    is_complete: bool  # False: ask the leader again with the epoch the log then ends in


def plan_truncation(
    log: EpochHistory, *, leader_epoch: int, leader_end_offset: int, high_watermark: int
) -> Truncation:
    """What the leader's answer (`leader_epoch`, `leader_end_offset`) means for `log`.

    An answer without an offset comes from a leader that knows no epochs at all (message format before 0.11):
    the high watermark is the only thing left to go by, as before KIP-101.
    """
    end = log.log_end_offset
    if leader_end_offset == UNDEFINED_OFFSET:
        return Truncation(min(end, high_watermark), is_complete=True)
    if leader_epoch == UNDEFINED_EPOCH:
        # No epoch in the leader's answer although it has an offset: nothing below it is known to differ.
        return Truncation(min(end, leader_end_offset), is_complete=True)
    own_epoch, own_end = log.end_offset_for_epoch(leader_epoch)
    if own_epoch == leader_epoch:
        return Truncation(min(own_end, leader_end_offset, end), is_complete=True)
    if own_epoch == UNDEFINED_EPOCH:
        # We kept no epochs then. The leader's epoch is not above the one we named, so cutting to its end is
        # safe: the rule of KIP-101 before KIP-279.
        return Truncation(min(leader_end_offset, end), is_complete=True)
    # We never saw the leader's epoch either. Our end of the next smaller one is as far as the logs can
    # agree; whether they do, the next answer says.
    return Truncation(min(own_end, end), is_complete=False)
