"""A real broker whose clients ask for much and read nothing: its memory is bounded, and who reads slowly is served."""

import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.model.error_codes import ErrorCode
from odradek.protocol.headers import encode_request
from odradek.protocol.messages import create_topics, find_coordinator, offset_commit, offset_fetch
from odradek.protocol.schema import Request
from tests.server.processes import OneBroker, receive
from tests.support import eventually

pytestmark = pytest.mark.process

TOPIC, PARTITIONS, GROUPS = "orders", 240, 60
METADATA = "m" * 4_000
ONE_ANSWER = GROUPS * PARTITIONS * len(METADATA)  # 58 MB
DEAF, ASKED = 4, 8
# Beside the bound of 256 MiB there is the answer that leads beyond it, the one that is made, three times its size while it is put
# together, what is freed in the turns that follow, and what somebody alone gets in a second without reading: on a machine with
# nothing else to do 650 MiB in all, and on a busy one 380 to 430.
MOST_BYTES = DEAF * ASKED * ONE_ANSWER / 2


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OneBroker]:
    one = OneBroker(
        tmp_path / "broker",
        offsets_topic_replication_factor="1",
        offsets_topic_num_partitions="1",
        min_insync_replicas="1",
    )
    one.start()
    yield one
    one.stop()


def asked(connection: socket.socket, message: Request, version: int) -> bytes:
    connection.sendall(encode_request(message.KEY, version, 1, "test", message.encode(version)))
    return receive(connection)[4:]


def fetch(groups: int) -> offset_fetch.OffsetFetchRequest:
    return offset_fetch.OffsetFetchRequest(
        groups=[
            offset_fetch.OffsetFetchRequestGroup(group_id=f"group-{number}", topics=None)
            for number in range(groups)
        ]
    )


def commit_much(broker: OneBroker) -> None:
    with broker.connect() as connection:
        topic = create_topics.CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        asked(connection, create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 4)
        asked(connection, find_coordinator.FindCoordinatorRequest(key="group-0"), 1)
        for number in range(GROUPS):
            partitions = [
                offset_commit.OffsetCommitRequestPartition(
                    partition_index=at, committed_offset=1, committed_metadata=METADATA
                )
                for at in range(PARTITIONS)
            ]
            rows = [offset_commit.OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)]
            request = offset_commit.OffsetCommitRequest(group_id=f"group-{number}", topics=rows)

            def is_committed(request: offset_commit.OffsetCommitRequest = request) -> bool:
                answer = offset_commit.OffsetCommitResponse.decode(7, asked(connection, request, 7))
                return {row.error_code for row in answer.topics[0].partitions} == {ErrorCode.NONE}

            eventually(is_committed, 60, f"group-{number} has committed")


def is_reset(connection: socket.socket) -> bool:
    """Without reading."""
    poll = select.poll()
    poll.register(connection, 0)
    return bool(poll.poll(0))


def test_clients_that_do_not_read_take_bounded_memory_and_who_reads_slowly_is_served(
    broker: OneBroker,
) -> None:
    commit_much(broker)
    before = most = broker.resident_bytes()
    slow = broker.connect()
    slow.sendall(encode_request(9, 8, 1, "slow", fetch(4).encode(8)))
    taken: list[int] = []

    def read_slowly() -> None:
        while part := slow.recv(8_192):
            taken.append(len(part))

    reader = threading.Thread(target=read_slowly)
    deaf = [broker.connect() for _ in range(DEAF)]
    body = fetch(GROUPS).encode(8)
    for connection in deaf:
        connection.sendall(b"".join(encode_request(9, 8, n, "deaf", body) for n in range(ASKED)))

    def are_closed() -> bool:
        nonlocal most
        most = max(most, broker.resident_bytes())
        return sum(map(is_reset, deaf)) >= DEAF - 1

    reader.start()
    eventually(are_closed, 120, "those who do not read are closed")
    assert most - before < MOST_BYTES
    assert broker.is_serving()
    eventually(lambda: sum(taken) > 4 * PARTITIONS * len(METADATA), 60, "the slow one has its answer")
    slow.shutdown(socket.SHUT_RDWR)
    reader.join(60)
    for connection in (slow, *deaf):
        connection.close()
