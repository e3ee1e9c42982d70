"""Members of groups over plain sockets, many in one thread: what a consumer's group part does, and nothing else.

Versions without tagged fields that every peer serves. A member that is told of a rebalance joins again at once; when it hears
of one depends on its heartbeats, as with any client.
"""

import select
import socket
import struct
import time
from collections.abc import Callable, Iterable

from benchmarks.raw_frames import Broker, RawClient, frame
from odradek.coordinator.consumer_protocol import Subscription, write_assignment, write_subscription
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

OFFSET_COMMIT, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 8, 10, 11, 12, 14
VERSIONS = {OFFSET_COMMIT: 7, FIND_COORDINATOR: 2, JOIN_GROUP: 5, HEARTBEAT: 3, SYNC_GROUP: 3}
ANSWERS = {
    OFFSET_COMMIT: OffsetCommitResponse,
    JOIN_GROUP: JoinGroupResponse,
    HEARTBEAT: HeartbeatResponse,
    SYNC_GROUP: SyncGroupResponse,
}
SESSION_MS = 6_000  # the least a broker takes by default
REBALANCE_MS = 60_000
PATIENCE_S = 60.0


def coordinator(bootstrap: list[str], group: str) -> Broker:
    """Asked until there is one: the first question makes the topic of groups."""
    host, _, port = bootstrap[0].rpartition(":")
    end = time.monotonic() + PATIENCE_S
    client = RawClient(host, int(port))
    try:
        while True:
            body = FindCoordinatorRequest(key=group).encode(VERSIONS[FIND_COORDINATOR])
            answer = client.ask(frame(FIND_COORDINATOR, VERSIONS[FIND_COORDINATOR], 1, body))
            found = FindCoordinatorResponse.decode(VERSIONS[FIND_COORDINATOR], answer)
            if not found.error_code:
                return Broker(found.host, found.port)
            if time.monotonic() > end:
                raise TimeoutError(f"no coordinator of {group}: error {found.error_code}")
            time.sleep(0.02)
    finally:
        client.close()


class Member:
    """One connection, one request in flight. `generation` is set while it is stable."""

    def __init__(self, address: Broker, group: str, topic: str, partitions: int) -> None:
        self.group, self.topic, self.partitions = group, topic, partitions
        self.member_id = ""
        self.generation = -1
        self.is_stable = False
        self.heard_at = 0.0
        self.sent_at = 0.0
        self.is_waiting = False
        self._key = -1
        self._rest = b""
        self.socket = socket.create_connection(address, timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _send(self, key: int, body: bytes) -> None:
        self._key, self.is_waiting, self.sent_at = key, True, time.perf_counter()
        self.socket.sendall(frame(key, VERSIONS[key], 1, body))

    def join(self) -> None:
        self.is_stable = False
        protocol = JoinGroupRequestProtocol(
            name="range", metadata=write_subscription(Subscription(0, (self.topic,), {}))
        )
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        self._send(JOIN_GROUP, request.encode(VERSIONS[JOIN_GROUP]))

    def heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id
        )
        self._send(HEARTBEAT, request.encode(VERSIONS[HEARTBEAT]))

    def commit(self, partition: int, offset: int) -> None:
        row = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=self.topic, partitions=[row])],
        )
        self._send(OFFSET_COMMIT, request.encode(VERSIONS[OFFSET_COMMIT]))

    def read(self) -> None:
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("closed by the broker")
        self._rest += data
        if len(self._rest) < 4 or len(self._rest) - 4 < struct.unpack_from(">i", self._rest)[0]:
            return
        body, self._rest = self._rest[8:], b""
        self.is_waiting = False
        self.heard_at = time.perf_counter()
        key = self._key
        self._answered(ANSWERS[key].decode(VERSIONS[key], body))

    def _answered(self, answer: object) -> None:
        if isinstance(answer, JoinGroupResponse):
            return self._joined(answer)
        if isinstance(answer, OffsetCommitResponse):
            return self._committed(answer)
        code = answer.error_code  # type: ignore[attr-defined]
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        if code:
            return self.join()
        self.is_stable = True
        return None

    def _committed(self, answer: OffsetCommitResponse) -> None:
        for row in (row for topic in answer.topics for row in topic.partitions):
            if row.error_code:
                raise RuntimeError(f"a commit of {self.group} was refused: error {row.error_code}")

    def _joined(self, answer: JoinGroupResponse) -> None:
        if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
            return self.join()
        self.member_id = answer.member_id or self.member_id
        if answer.error_code:
            return self.join()
        self.generation = answer.generation_id
        shares = []
        names = sorted(member.member_id for member in answer.members)
        for number, name in enumerate(names):
            share = list(range(number, self.partitions, len(names)))
            assignment = write_assignment({self.topic: share}, 0)
            shares.append(SyncGroupRequestAssignment(member_id=name, assignment=assignment))
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            assignments=shares,
        )
        return self._send(SYNC_GROUP, request.encode(VERSIONS[SYNC_GROUP]))


class Members:
    """All members of a run on one poll; heartbeats every `interval_s`."""

    def __init__(self, members: Iterable[Member], interval_s: float) -> None:
        self.members = list(members)
        self._interval_s = interval_s
        self._by_fd = {member.socket.fileno(): member for member in self.members}
        self._poll = select.epoll()
        for fd in self._by_fd:
            self._poll.register(fd, select.EPOLLIN)

    def until(self, holds: Callable[[], bool], seconds: float = PATIENCE_S) -> bool:
        end = time.perf_counter() + seconds
        beat_at = 0.0
        while not holds():
            now = time.perf_counter()
            if now > end:
                return False
            if now >= beat_at:
                beat_at = now + self._interval_s / 20
                for member in self.members:
                    if (
                        member.is_stable
                        and not member.is_waiting
                        and now - member.sent_at >= self._interval_s
                    ):
                        member.heartbeat()
            for fd, _ in self._poll.poll(0.005):
                self._by_fd[fd].read()
        return True

    def are_stable(self) -> bool:
        """All of one group, in one generation."""
        first = self.members[0].generation
        return all(member.is_stable and member.generation == first for member in self.members)

    def lose(self, member: Member) -> None:
        """It falls silent: its process has died, and said nothing."""
        self.members.remove(member)
        fd = member.socket.fileno()
        self._poll.unregister(fd)
        del self._by_fd[fd]
        member.socket.close()

    def close(self) -> None:
        self._poll.close()
        for member in self.members:
            member.socket.close()
