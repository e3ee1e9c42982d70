"""Answers to WriteTxnMarkers in the moment in which they leave a broker, for `checkers.acknowledgements`.

A coordinator that is told that a marker is written forgets the transaction. What is in the log then and not committed may be cut off,
and nobody writes it again. As of acknowledgements of producers, a snapshot shows nothing of it unless somebody dies at once.
"""

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
_KEY_IN_BYTES = WRITE_TXN_MARKERS.to_bytes(2, "big")


class MarkerAnswers(AnswersHeard[int]):
    """Remembers the version of each request. What is found goes to `World.let_in`, which is judged at the next look."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "markers")

    def listen(self, transport: SimTransport, data: bytes) -> None:
        if self.is_asked(transport):
            self._judge(transport, data)
        elif _KEY_IN_BYTES in data:
            for frame in request_frames(data, _KEYS):
                header = decode_request_header(memoryview(frame)[4:])
                self.expect(transport, header.correlation_id, header.api_version)

    def _judge(self, transport: SimTransport, data: bytes) -> None:
        for broker, version, frame in self.answers(transport, data):
            _, offset = decode_response_header(WRITE_TXN_MARKERS, version, frame)
            response = WriteTxnMarkersResponse.decode(version, frame[offset:])
            for row in response.markers:
                for topic in row.topics:
                    for one in topic.partitions:
                        partition = TopicPartition(topic.name, one.partition_index)
                        replica = None if one.error_code else broker.replica(partition)
                        if replica is None or not replica.is_leader:
                            continue  # it was written while this broker led
                        ends = [
                            e.last_offset
                            for e in replica.log.producers._ended
                            if e.producer_id == row.producer_id
                        ]
                        self._world.let_in += marker_is_committed(
                            broker.broker_id,
                            partition,
                            row.producer_id,
                            max(ends, default=-1),
                            replica.high_watermark,
                        )
