"""Where a reader that waits for more reads on when the log does not hold any more what would come next, and what it
says of that on standard error.
"""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient
    from odradek.client.sync_fetch import OffsetsGone
    from odradek.model.ids import TopicPartition


class Following:
    """The partitions of one topic. `positions`, the offsets to be read next, are the caller's, and are moved here."""

    def __init__(
        self,
        client: "SyncClient",
        topic: str,
        topic_id: bytes,
        positions: "dict[TopicPartition, int]",
    ) -> None:
        self._client = client
        self._topic = topic
        self._topic_id = topic_id
        self._positions = positions
        self._ends: dict[TopicPartition, int] = {}  # as they were last

    def reaches(self, ends: "dict[TopicPartition, int]") -> None:
        """A partition that ends before it did was cut, or is one of another topic of that name. So may one be that ends later: asked
        after its end, for a topic that is the old one then was it before. Of another one nothing is to be read up to `ends`, which
        may be those of the old one: they become 0."""
        if ends.items() <= self._ends.items():
            return
        topic_id = self._client.topic(self._topic, is_known=True).topic_id
        cut = [partition for partition, end in ends.items() if end < self._ends.get(partition, 0)]
        self._ends |= ends  # of one whose leader is away it is the last that is known
        if topic_id != self._topic_id:
            self._topic_id = topic_id
            self._positions |= dict.fromkeys(self._positions, 0)
            ends |= dict.fromkeys(ends, 0)
            _say(f"{self._topic} was deleted and created again; reading the new one from its start")
            return
        for partition in cut:
            if ends[partition] < self._positions[partition]:
                self._positions[partition] = ends[partition]
                _say(f"{partition} was cut by an unclean election, to {ends[partition]}; reading on there")

    def lost(self, partition: "TopicPartition", gone: "OffsetsGone") -> None:
        """Retention or DeleteRecords came first."""
        position = self._positions[partition]
        first = self._client.begin_offsets([partition])[partition]
        if first <= position:
            raise gone
        self._positions[partition] = first
        _say(
            f"{partition}: offsets {position} to {first - 1} are not there any more (retention, or DeleteRecords); "
            f"reading on at {first}"
        )


def _say(sentence: str) -> None:
    print(f"odradek: {sentence}", file=sys.stderr, flush=True)
