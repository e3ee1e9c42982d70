"""Clients of a group that do what they are told, one request at a time, for tests of whole groups."""

from typing import Any

from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.join_group import JoinGroupResponse
from odradek.protocol.messages.sync_group import SyncGroupResponse
from tests.coordinator.consumers import beat, join, subscription, told
from tests.coordinator.groups import Bench

SESSION_MS, REBALANCE_MS, REVOCATION_MS = 10_000, 20_000, 20_000
IS_SENT_OFF = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.FENCED_INSTANCE_ID,
)
JOINS, SYNCS, BEATS = "joins", "syncs", "beats"


class Classic:
    """A member of the classic protocol."""

    def __init__(self, name: str, instance: str | None) -> None:
        self.instance = instance
        self.call: int | None = None
        self.begin_anew()

    def begin_anew(self) -> None:
        """As a process that was started again."""
        self.member, self.generation, self.does = "", -1, JOINS
        self.joined: JoinGroupResponse | None = None
        self.is_member = False

    def ask(self, bench: Bench) -> int:
        if self.does == JOINS:
            protocols = {"range": subscription(owned={})}
            return bench.join(
                self.member,
                instance=self.instance,
                protocols=protocols,
                session_ms=SESSION_MS,
                rebalance_ms=REBALANCE_MS,
            )
        if self.does == SYNCS:
            assert self.joined is not None
            shares = {one.member_id: subscription(owned={}) for one in self.joined.members}
            return bench.sync(self.member, self.generation, shares)
        return bench.heartbeat_call(self.member, self.generation)

    def hear(self, response: Any) -> ErrorCode:
        error = ErrorCode(response.error_code)
        if error in IS_SENT_OFF:
            self.begin_anew()
        elif error == ErrorCode.MEMBER_ID_REQUIRED:
            self.member = response.member_id
        elif error != ErrorCode.NONE:
            self.does = JOINS
        elif isinstance(response, JoinGroupResponse):
            self.member, self.generation = response.member_id, response.generation_id
            self.joined, self.does = response, SYNCS
        elif isinstance(response, SyncGroupResponse):
            self.does, self.is_member = BEATS, True
        return error

    def leave(self, bench: Bench) -> int:
        call = bench.leave(self.member)
        self.begin_anew()
        return call


class OfKip848:
    """A member of the protocol of KIP-848, which says all it knows each time."""

    def __init__(self, name: str, instance: str | None) -> None:
        self.first_name, self.lives = name, 0
        self.instance = instance
        self.call: int | None = None
        self.begin_anew()

    def begin_anew(self) -> None:
        self.lives += 1
        self.name = f"{self.first_name}{self.lives}"
        self._join_again()

    def _join_again(self) -> None:
        self.epoch = 0
        self.wanted: dict[str, list[int]] = {}
        self.is_member = False

    def ask(self, bench: Bench) -> int:
        if not self.epoch:
            request = join(self.name, rebalance_timeout_ms=REVOCATION_MS, instance_id=self.instance)
            return bench.ask(request, 1)
        has: dict[str, Any] = {"rebalance_timeout_ms": REVOCATION_MS, "subscribed_topic_names": ["t"]}
        request = beat(self.name, self.epoch, owned=self.wanted, instance_id=self.instance, **has)
        return bench.ask(request, 1)

    def hear(self, response: Any) -> ErrorCode:
        error = ErrorCode(response.error_code)
        if error in (*IS_SENT_OFF, ErrorCode.GROUP_ID_NOT_FOUND):
            self._join_again()
        elif error == ErrorCode.NONE:
            self.epoch, self.is_member = response.member_epoch, True
            assignment = told(response)
            self.wanted = self.wanted if assignment is None else assignment
        return error

    def leave(self, bench: Bench) -> int:
        call = bench.ask(beat(self.name, -1, instance_id=self.instance), 1)
        self.begin_anew()
        return call


Client = Classic | OfKip848
