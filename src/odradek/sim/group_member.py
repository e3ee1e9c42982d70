"""Members of a group of consumers (the classic protocol): they join, share the partitions out, commit and leave, and find
their coordinator again when it moves. What they were told stands in a `GroupHistory`.

A member asks for the offset of a partition before it goes on from there, and commits only what is larger. After a commit of
which nobody told how it ended it joins anew: the next generation fences what may still be on its way.
"""

import asyncio
from collections.abc import Callable
from typing import Any

from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages import (
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_fetch,
    sync_group,
)
from odradek.sim.checkers.groups import Committed, Fetched, GroupHistory, Joined
from odradek.sim.client import RETRY_S, RequestFailed, SimClient
from odradek.sim.coordinator_client import OF_GROUPS, CoordinatorClient

GROUP = "readers"
PROTOCOL_TYPE, PROTOCOL = "consumer", "range"
SESSION_MS, REBALANCE_MS = 2_000, 2_000
BETWEEN_COMMITS_S = 0.3


class _Anew(Exception):
    """The member has to join again."""


class GroupClient(CoordinatorClient):
    def __init__(self, client: SimClient, group: str = GROUP) -> None:
        super().__init__(client, group, OF_GROUPS)
        self._group = group

    async def offsets(
        self, partitions: list[TopicPartition], *, are_stable: bool = False
    ) -> dict[TopicPartition, int] | None:
        """As committed, -1 where nothing was; `are_stable`: and no open transaction may change them. None: not now."""
        topics = [
            offset_fetch.OffsetFetchRequestTopics(name=p.topic, partition_indexes=[p.partition])
            for p in partitions
        ]
        request = offset_fetch.OffsetFetchRequest(
            groups=[offset_fetch.OffsetFetchRequestGroup(group_id=self._group, topics=topics)],
            require_stable=are_stable,
        )
        try:
            group = (await self.ask(request)).groups[0]
        except RequestFailed:
            return None
        if group.error_code or any(row.error_code for topic in group.topics for row in topic.partitions):
            self.moved()
            return None
        return {
            TopicPartition(topic.name, row.partition_index): row.committed_offset
            for topic in group.topics
            for row in topic.partitions
        }


class GroupMember:
    """One process of the group, from its start to its end."""

    def __init__(
        self,
        client: SimClient,
        name: str,
        history: GroupHistory,
        partitions: list[TopicPartition],
        is_over: Callable[[], bool],
    ) -> None:
        """`partitions`: what the group reads, of which there may be more from time to time. Until `is_over`."""
        self._partitions = partitions
        self._is_over = is_over
        self._group = GroupClient(client)
        self._name = name
        self._history = history
        self._member = ""
        self._generation = -1

    async def live(self) -> None:
        while not self._is_over():
            try:
                await self._take_part()
            except _Anew:
                await asyncio.sleep(RETRY_S)
        await self._leave()

    async def _ask(self, message: Any) -> Any:
        try:
            return await self._group.ask(message)
        except RequestFailed:
            raise _Anew from None

    def _judge(self, code: int) -> None:
        if code == ErrorCode.NONE:
            return
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member = ""
        elif code not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self._group.moved()
        raise _Anew

    async def _take_part(self) -> None:
        """One generation."""
        share = await self._share()
        positions = None
        while positions is None:
            asked_s = self._group.now_s
            positions = await self._group.offsets(share)
            if positions is None:
                await self._beat()
                await asyncio.sleep(RETRY_S)
        for partition, offset in positions.items():
            self._history.events.append(Fetched(partition, offset, asked_s, self._group.now_s))
        while not self._is_over():
            await self._beat()
            for partition in share:
                positions[partition] = max(positions[partition], 0) + 1
                await self._commit(partition, positions[partition])
            await asyncio.sleep(BETWEEN_COMMITS_S)

    async def _share(self) -> list[TopicPartition]:
        """Joined, and the partitions that are this member's in the new generation."""
        asked_s = self._group.now_s
        joined = await self._ask(
            join_group.JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id=self._member,
                protocol_type=PROTOCOL_TYPE,
                protocols=[join_group.JoinGroupRequestProtocol(name=PROTOCOL, metadata=self._name.encode())],
            )
        )
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member = joined.member_id
            raise _Anew
        self._judge(joined.error_code)
        self._member, self._generation = joined.member_id, joined.generation_id
        members = sorted(member.member_id for member in joined.members)  # of the leader alone
        numbers = range(len(self._partitions))
        synced_s = self._group.now_s
        synced = await self._ask(
            sync_group.SyncGroupRequest(
                group_id=GROUP,
                generation_id=self._generation,
                member_id=self._member,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=PROTOCOL,
                assignments=[
                    sync_group.SyncGroupRequestAssignment(
                        member_id=member,
                        assignment=bytes(n for n in numbers if n % len(members) == index),
                    )
                    for index, member in enumerate(members)
                ],
            )
        )
        self._judge(synced.error_code)
        known = self._partitions
        share = [known[number] for number in bytes(synced.assignment) if number < len(known)]
        self._history.events.append(
            Joined(
                joined.generation_id,
                joined.leader,
                joined.member_id,
                asked_s,
                self._group.now_s,
                synced_s,
                frozenset(share),
            )
        )
        return share

    async def _beat(self) -> None:
        answer = await self._ask(
            heartbeat.HeartbeatRequest(group_id=GROUP, generation_id=self._generation, member_id=self._member)
        )
        self._judge(answer.error_code)

    async def _commit(self, partition: TopicPartition, offset: int) -> None:
        asked_s = self._group.now_s
        row = offset_commit.OffsetCommitRequestPartition(
            partition_index=partition.partition, committed_offset=offset, committed_metadata=self._name
        )
        answer = await self._ask(
            offset_commit.OffsetCommitRequest(
                group_id=GROUP,
                generation_id_or_member_epoch=self._generation,
                member_id=self._member,
                topics=[offset_commit.OffsetCommitRequestTopic(name=partition.topic, partitions=[row])],
            )
        )
        code = answer.topics[0].partitions[0].error_code
        if code == ErrorCode.NONE:
            told_s = self._group.now_s
            self._history.events.append(Committed(partition, offset, asked_s, told_s, self._generation))
        self._judge(code)

    async def _leave(self) -> None:
        """Once, whether it is heard or not: else its session ends later."""
        leaving = leave_group.MemberIdentity(member_id=self._member)
        try:
            await self._group.ask(leave_group.LeaveGroupRequest(group_id=GROUP, members=[leaving]))
        except RequestFailed:
            return
