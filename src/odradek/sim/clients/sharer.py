"""Members of a group of KIP-848 (ConsumerGroupHeartbeat): they join, own what they are assigned, let go of it when they are
told to, commit, say so, and leave. What they were told and held (`holdings`) stands in a `SharingHistory`."""

import asyncio
from collections.abc import Callable
from typing import Any

from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from odradek.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.sim.checkers.groups import SentOff
from odradek.sim.checkers.sharers import Committing, MemberAnswer, Shared, SharingHistory, Taken
from odradek.sim.clients.client import RETRY_S, RequestFailed, SimClient
from odradek.sim.clients.group_member import GroupClient
from odradek.sim.clients.holdings import Holdings

GROUP = "sharers"
SESSION_MS, INTERVAL_MS, REBALANCE_MS = 2_000, 300, 3_000
BEATS_A_COMMIT = 3
JOIN, LEAVE = 0, -1
REJOINS = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}
)


class Sharer:
    """One process of the group, from its start to its end."""

    def __init__(
        self,
        client: SimClient,
        name: str,
        history: SharingHistory,
        topics: list[str],
        is_over: Callable[[], bool],
        *,
        group: str = GROUP,
        instance: str | None = None,
        spoke_s: dict[str, float] | None = None,
    ) -> None:
        """`instance`: it is static (KIP-345), and the history names it by that. `spoke_s`: of `GroupClient`; None: the history's."""
        self._client = client
        self._group_id = group
        self._group = GroupClient(client, group, history.spoke_s if spoke_s is None else spoke_s)
        self._name = name
        self._instance = instance
        self._label = instance or name  # in the history
        self._history = history
        self._topics = topics
        self._is_over = is_over
        self._epoch = JOIN
        self._holdings = Holdings(self._label, history, SESSION_MS, client.loop.time)
        self._is_full = True  # the next request says everything
        self._beats = 0
        self._session_until_s = 0.0
        self.commits_next = False  # it stood still, and commits before it asks whether it still is a member

    async def live(self) -> None:
        while not self._is_over():
            if not self.commits_next:
                await self._beat()
            self._beats += 1
            if self.commits_next or not self._beats % BEATS_A_COMMIT:
                self.commits_next = False
                await self._commit()
            await asyncio.sleep(INTERVAL_MS / 1000)
        self.give_up()
        await self._leave()

    async def _leave(self, epoch: int = LEAVE) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self._name, instance_id=self._instance, member_epoch=epoch
        )
        try:
            await self._group.ask(request)
        except RequestFailed:
            return  # its session ends by itself

    @property
    def owned(self) -> frozenset[Shared]:
        return self._holdings.owned

    def give_up(self) -> None:
        """It owns nothing from now on."""
        self._holdings.give_up()

    async def _beat(self) -> None:
        request = self._request()
        asked_s = self._group.now_s
        try:
            answer: ConsumerGroupHeartbeatResponse = await self._group.ask(request)
        except RequestFailed:
            self._is_full = True
            self._heard_nothing()
            return
        code = answer.error_code
        if code == ErrorCode.NONE:
            self._told(answer, asked_s, is_join=request.member_epoch == JOIN)
        elif code in REJOINS:
            if code != ErrorCode.FENCED_MEMBER_EPOCH and self._instance is None:
                self._history.sent_off.append(SentOff(self._label, self._group.now_s, self._session_until_s))
            self._session_until_s = 0.0
            self._was_sent_off(code)
        else:
            self._is_full = True
            self._group.moved()
            await asyncio.sleep(RETRY_S)

    def _was_sent_off(self, code: int) -> None:
        self.give_up()
        self._epoch = JOIN

    def _heard_nothing(self) -> None:
        self._holdings.no_answer()

    async def _commit(self) -> None:
        """Of one partition that is its own. How it ends concerns the history alone: the next heartbeat tells what it is."""
        names = {topic_id: name for name, topic_id in self._client.topic_ids.items()}
        own = [shared for shared in self._holdings.sure if shared[0] in names]
        asked_s, epoch = self._group.now_s, self._epoch
        if not own or epoch == JOIN or self._holdings.is_in_doubt:
            return
        shared = own[self._beats // BEATS_A_COMMIT % len(own)]
        asking = Committing(shared, int(asked_s * 1_000_000), asked_s)
        self._history.committing.append(asking)
        row = OffsetCommitRequestPartition(partition_index=shared[1], committed_offset=asking.offset)
        request = OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=epoch,
            member_id=self._name,
            topics=[OffsetCommitRequestTopic(name=names[shared[0]], partitions=[row])],
        )
        try:
            answer = await self._group.ask(request)
        except RequestFailed:
            return
        if answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
            self._history.taken.append(Taken(self._label, epoch, shared, asked_s))
            self._history.committing.append(asking._replace(taken_s=self._group.now_s))

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        joins = self._epoch == JOIN
        says_all = joins or self._is_full
        topics: dict[Any, list[int]] = {}
        for topic_id, number in self._holdings.in_order:
            topics.setdefault(topic_id, []).append(number)
        owned = [
            TopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
            for topic_id, numbers in topics.items()
        ]
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._name,
            instance_id=self._instance,
            member_epoch=self._epoch,
            rebalance_timeout_ms=REBALANCE_MS if says_all else -1,
            subscribed_topic_names=self._topics if says_all else None,
            topic_partitions=owned,
        )

    def _told(self, answer: ConsumerGroupHeartbeatResponse, asked_s: float, *, is_join: bool) -> None:
        now_s = self._group.now_s
        assigned = frozenset(
            (topic.topic_id, number)
            for topic in (answer.assignment.topic_partitions if answer.assignment is not None else [])
            for number in topic.partitions
        )
        self._history.told.append(
            MemberAnswer(self._label, answer.member_epoch, asked_s, now_s, is_join, assigned)
        )
        self._epoch = answer.member_epoch
        self._session_until_s = asked_s + SESSION_MS / 1000
        self._is_full = False
        self._holdings.renewed(asked_s)
        if answer.assignment is not None:
            self._holdings.assigned(assigned)
