"""Members of a group of KIP-848 (ConsumerGroupHeartbeat): they join, own what they are assigned, let go of it when they are
told to, commit, say so, and leave. What they were told and held stands in a `SharingHistory`.

A request without an answer may still be carried out, and says less than what its member has taken since. So what a member
takes within `IN_DOUBT_S` of one, and did not name in it, is not judged: Apache's protocol has the same gap.
"""

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
from odradek.sim.checkers.sharers import Held, MemberAnswer, Shared, SharingHistory, Taken
from odradek.sim.client import RETRY_S, RequestFailed, SimClient
from odradek.sim.coordinator_client import OF_GROUPS, CoordinatorClient

GROUP = "sharers"
SESSION_MS, INTERVAL_MS, REBALANCE_MS = 2_000, 300, 3_000
IN_DOUBT_S = 30.0
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
    ) -> None:
        self._client = client
        self._group = CoordinatorClient(client, GROUP, OF_GROUPS)
        self._name = name
        self._history = history
        self._topics = topics
        self._is_over = is_over
        self._epoch = JOIN
        self._owned: dict[Shared, float] = {}  # since when
        self._unsure: set[Shared] = set()  # of these
        self._said: frozenset[Shared] = frozenset()  # to be owned, in the last request without an answer
        self._is_full = True  # the next request says everything
        self._lease_s = 0.0  # how long the coordinator keeps the session at least
        self._in_doubt_until_s = 0.0
        self._beats = 0
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
        try:
            await self._group.ask(
                ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=self._name, member_epoch=LEAVE)
            )
        except RequestFailed:
            return  # its session ends by itself

    @property
    def owned(self) -> frozenset[Shared]:
        return frozenset(self._owned)

    def give_up(self) -> None:
        """It owns nothing from now on."""
        for shared in list(self._owned):
            self._let_go(shared)

    async def _beat(self) -> None:
        request = self._request()
        asked_s = self._group.now_s
        try:
            answer: ConsumerGroupHeartbeatResponse = await self._group.ask(request)
        except RequestFailed:
            self._in_doubt_until_s = self._group.now_s + IN_DOUBT_S
            self._said = frozenset(self._owned)
            self._is_full = True
            return
        code = answer.error_code
        if code == ErrorCode.NONE:
            self._told(answer, asked_s, is_join=request.member_epoch == JOIN)
        elif code in REJOINS:
            self.give_up()
            self._epoch = JOIN
        else:
            self._is_full = True
            self._group.moved()
            await asyncio.sleep(RETRY_S)

    async def _commit(self) -> None:
        """Of one partition that is its own. How it ends concerns the history alone: the next heartbeat tells what it is."""
        names = {topic_id: name for name, topic_id in self._client.topic_ids.items()}
        own = sorted(shared for shared in self._owned if shared not in self._unsure and shared[0] in names)
        asked_s, epoch = self._group.now_s, self._epoch
        if not own or epoch == JOIN or asked_s < self._in_doubt_until_s:
            return
        shared = own[self._beats % len(own)]
        row = OffsetCommitRequestPartition(partition_index=shared[1], committed_offset=int(asked_s * 1000))
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=epoch,
            member_id=self._name,
            topics=[OffsetCommitRequestTopic(name=names[shared[0]], partitions=[row])],
        )
        try:
            answer = await self._group.ask(request)
        except RequestFailed:
            return
        if answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
            self._history.taken.append(Taken(self._name, epoch, shared, asked_s))

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        joins = self._epoch == JOIN
        says_all = joins or self._is_full
        topics: dict[Any, list[int]] = {}
        for topic_id, number in self._owned:
            topics.setdefault(topic_id, []).append(number)
        owned = [
            TopicPartitions(topic_id=topic_id, partitions=sorted(numbers))
            for topic_id, numbers in topics.items()
        ]
        return ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self._name,
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
            MemberAnswer(self._name, answer.member_epoch, asked_s, now_s, is_join, assigned)
        )
        self._epoch = answer.member_epoch
        self._is_full = False
        if now_s > self._lease_s:  # it may have been without its partitions in between
            for shared, from_s in self._owned.items():
                if shared not in self._unsure:
                    self._history.held.append(Held(self._name, shared, from_s, self._lease_s))
                self._owned[shared] = now_s
        self._lease_s = asked_s + SESSION_MS / 1000
        if answer.assignment is None:
            return
        for shared in [one for one in self._owned if one not in assigned]:
            self._let_go(shared)
        for shared in sorted(assigned):
            if shared not in self._owned:
                self._owned[shared] = now_s
                if now_s < self._in_doubt_until_s and shared not in self._said:
                    self._unsure.add(shared)

    def _let_go(self, shared: Shared) -> None:
        from_s = self._owned.pop(shared)
        if shared in self._unsure:
            self._unsure.discard(shared)
            return
        until_s = min(self._group.now_s, self._lease_s)
        self._history.held.append(Held(self._name, shared, from_s, until_s))
