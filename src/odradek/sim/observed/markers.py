"""Answers to WriteTxnMarkers in the moment in which they leave a broker, for `checkers.acknowledgements`.

A coordinator that is told that a marker is written forgets the transaction. What is in the log then and not committed may be cut off,
and nobody writes it again. As of acknowledgements of producers, a snapshot shows nothing of it unless somebody dies at once.
"""

from collections.abc import Iterator

from odradek.model.ids import TopicPartition
from odradek.protocol.headers import decode_request_header, decode_response_header
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersResponse
from odradek.sim.checkers.acknowledgements import marker_is_committed
from odradek.sim.faults.wire import request_frames
from odradek.sim.network import SimTransport
from odradek.sim.observed.answers_heard import AnswersHeard
from odradek.sim.world import World

WRITE_TXN_MARKERS = 27
_KEYS = frozenset({WRITE_TXN_MARKERS})


class MarkerAnswers(AnswersHeard[int]):
    """Remembers the version of each request. What is found goes to `World.let_in`, which is judged at the next look."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "markers", WRITE_TXN_MARKERS)

    def heard(self, transport: SimTransport, data: bytes) -> None:
        for frame in request_frames(data, _KEYS):
            header = decode_request_header(memoryview(frame)[4:])
            self.expect(transport, header.correlation_id, header.api_version)

    def answered(self, transport: SimTransport, data: bytes) -> None:
        for broker, version, frame in self.answers(transport, data):
            _, offset = decode_response_header(WRITE_TXN_MARKERS, version, frame)
            response = WriteTxnMarkersResponse.decode(version, frame[offset:])
            for producer_id, partition in _written(response):
                replica = broker.replica(partition)
                if replica is None or not replica.is_leader:
                    continue  # it was written while this broker led
                ended = replica.log.producers._ended
                last = max((one.last_offset for one in ended if one.producer_id == producer_id), default=-1)
                self._world.let_in += marker_is_committed(
                    broker.broker_id, partition, producer_id, last, replica.high_watermark
                )


def _written(response: WriteTxnMarkersResponse) -> Iterator[tuple[int, TopicPartition]]:
    """Of each marker that is told to be written: its producer, and where."""
    for row in response.markers:
        for topic in row.topics:
            for one in topic.partitions:
                if not one.error_code:
                    yield row.producer_id, TopicPartition(topic.name, one.partition_index)
