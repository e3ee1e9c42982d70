"""DescribeProducers (key 61), version 0: the producers of partitions as the logs here know them (KIP-664).

A follower answers too: a client that names the broker to ask compares the two.

v0 flexible (KIP-664).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.answers import Answer, CloseConnection, Park, Reply
from odradek.log.producers import Producer, Producers
from odradek.log.steps import Work
from odradek.model.errors import ProtocolError
from odradek.model.topic_names import check_topic_name
from odradek.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


# Of one turn, producers and partitions, about a millisecond; a thread makes rows of them. Fewer are answered at once.
MOST_AT_ONCE = 1_000

# What a row says, in its order.
Seen = tuple[int, int, int, int, int, int]
Entry = tuple[list[ProducerState], Seen]  # a producer with the list of its partition


class Rows(NamedTuple):
    """Some producers."""

    seen: list[Entry]
    are_all: bool = False  # there are no more

    def run(self) -> bool:
        for rows, (producer_id, epoch, sequence, timestamp, coordinator_epoch, start_offset) in self.seen:
            rows.append(
                ProducerState(
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    last_sequence=sequence,
                    last_timestamp=timestamp,
                    coordinator_epoch=coordinator_epoch,
                    current_txn_start_offset=start_offset,
                )
            )
        return True


class Encode(NamedTuple):
    response: DescribeProducersResponse
    version: int

    def run(self) -> bytes:
        return self.response.encode(self.version)


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = DescribeProducersRequest.decode(version, request.body, budget=request.budget)
    response = DescribeProducersResponse(topics=[])
    slices = _slices(broker, asked, response)
    first = next(slices)
    if first.are_all:
        first.run()
        return Reply([response.encode(version)])
    park = Park()
    aside = broker.aside

    def begin() -> Work | None:
        return None if park.abandoned else next(slices, None) or Encode(response, version)

    def ended(result: bool | bytes | None, later_ms: int) -> None:
        if result is True:
            return aside.ask(aside.lookups, begin, ended, later_ms)
        return park.answer(
            lambda: CloseConnection("its answer could not be made") if not result else Reply([result])
        )

    aside.ask(aside.lookups, lambda: first, ended, now_ms)
    return park


def _slices(
    broker: "Broker", asked: DescribeProducersRequest, response: DescribeProducersResponse
) -> Iterator[Rows]:
    """Of MOST_AT_ONCE producers and partitions each; the last one has fewer."""
    some: list[Entry] = []
    left = MOST_AT_ONCE
    for entry in _entries(broker, asked, response):
        if entry is not None:
            some.append(entry)
        left -= 1
        if not left:
            yield Rows(some)
            some, left = [], MOST_AT_ONCE
    yield Rows(some, are_all=True)


def _entries(
    broker: "Broker", asked: DescribeProducersRequest, response: DescribeProducersResponse
) -> Iterator[Entry | None]:
    """None for each partition, and then its producers. Whoever is forgotten meanwhile is left out."""
    described: set[tuple[str, int]] = set()  # each once: fifty thousand producers may be in any of them
    for topic in asked.topics:
        partitions: list[PartitionResponse] = []
        response.topics.append(TopicResponse(name=topic.name, partitions=partitions))
        for index in topic.partition_indexes:
            if (topic.name, index) in described:
                continue
            described.add((topic.name, index))
            row = PartitionResponse(partition_index=index, active_producers=[])
            partitions.append(row)
            yield None
            try:
                producers = _producers(broker, topic.name, index)
            except ProtocolError as refusal:
                row.error_code, row.error_message = refusal.code, refusal.message or None
                continue
            for producer_id in producers.ids():
                producer = producers.get(producer_id)
                if producer is not None:
                    yield row.active_producers, _seen(producer)


def _seen(producer: Producer) -> Seen:
    return (
        producer.producer_id,
        producer.producer_epoch,
        producer.last_sequence,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.transaction_first_offset,
    )


def _producers(broker: "Broker", topic: str, index: int) -> Producers:
    check_topic_name(topic)
    return broker.replicas.hosted(topic, index).log.producers
