"""A Produce as it was read: its records are views into the request."""

from collections.abc import Sequence
from typing import NamedTuple

from odradek.protocol.flat.produce_request import TopicProduceData


class ProduceAsked(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: Sequence[TopicProduceData]
