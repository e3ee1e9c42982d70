"""One group under any order of events: failed appends, time-outs of them, clients that come and go, time that passes."""

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from odradek.coordinator.group_states import GroupState
from odradek.coordinator.records import StoredGroup
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.join_group import JoinGroupResponse
from tests.coordinator.groups import GROUP, Bench
from tests.coordinator.test_kept_memory import kept_by
from tests.coordinator.test_member_memory import held_by

ERRORS = st.sampled_from(
    [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.NOT_LEADER_OR_FOLLOWER]
)
WHO = st.integers(0, 5)
INSTANCES = st.sampled_from([None, None, "i", "j"])
METADATA = st.sampled_from([b"", b"\0\1\0\0\0\1\0\1t", b"\0\1\x7f\xff\xff\xff"])


class AnyOrder(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(held=True, max_size=4)
        self.ids: list[str] = []  # every member id a client was told
        self.open: set[int] = set()  # calls without an answer
        self.told: dict[
            int, tuple[str | None, list[str]]
        ] = {}  # generation -> leader and members its leader heard

    # ------------------------------------------------------------------------------------------------- rules

    @rule(who=WHO, instance=INSTANCES, metadata=METADATA, version=st.sampled_from([3, 9]))
    def join(self, who: int, instance: str | None, metadata: bytes, version: int) -> None:
        options: dict[str, Any] = {} if version < 5 else {"instance": instance}
        self._note(self.bench.join(self._id(who), protocols={"range": metadata}, version=version, **options))

    @rule(instance=INSTANCES, metadata=METADATA)
    def join_anew(self, instance: str | None, metadata: bytes) -> None:
        self._note(self.bench.join(instance=instance, protocols={"range": metadata}))

    @rule(who=WHO, later=st.integers(-1, 1))
    def sync(self, who: int, later: int) -> None:
        everybody = {one: b"part of " + one.encode() for one in self.ids}
        self._note(self.bench.sync(self._id(who), self._generation() + later, everybody))

    @rule(who=WHO)
    def heartbeat(self, who: int) -> None:
        self.bench.heartbeat(self._id(who), self._generation())

    @rule(who=st.lists(WHO, max_size=3))
    def leave(self, who: list[int]) -> None:
        self._note(self.bench.leave(*map(self._id, who)))

    @rule(who=WHO, offset=st.integers(0, 9), partition=st.integers(0, 4), alone=st.booleans())
    def commit_offset(self, who: int, offset: int, partition: int, alone: bool) -> None:
        member, generation = ("", -1) if alone else (self._id(who), self._generation())
        self._note(
            self.bench.commit_offset(offset, member=member, generation=generation, partition=partition)
        )

    @rule()
    def delete(self) -> None:
        self._note(self.bench.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2))

    @rule()
    def append_is_committed(self) -> None:
        if self.bench.waiting:
            self.bench.commit()

    @rule(error=ERRORS)
    def append_fails(self, error: ErrorCode) -> None:
        if self.bench.waiting:
            self.bench.fail(error)

    @rule(ms=st.sampled_from([1, 900, 9_900, 19_900, 300_000, 600_000]))
    def time_passes(self, ms: int) -> None:
        self.bench.wait(ms)

    @rule()
    def coordinator_moves(self) -> None:
        self.bench.move()
        self._collect()
        assert not self.open, f"calls {self.open} were not answered by the coordinator that went"
        self.told.clear()  # a generation that was never stored is nobody's

    # -------------------------------------------------------------------------------------------- invariants

    @invariant()
    def whoever_waits_is_parked_or_awaits_a_record(self) -> None:
        """Every call is answered once (`Bench.step` sees to twice), or is somewhere it will be answered from."""
        self._collect()
        shard = self.bench.coordinator.shard
        if GROUP not in shard.groups:
            self.told.clear()  # the next of this name is another group
        parked = {
            one.call
            for group in shard.groups.values()
            for member in group.members.values()
            for one in (member.join, member.sync)
            if one is not None
        }
        if not self.bench.waiting:
            assert self.open == parked
        else:
            assert parked <= self.open

    @invariant()
    def memory_is_what_the_log_says(self) -> None:
        """Of what is committed; `Stored.replay` is all that brings it there."""
        if self.bench.waiting:
            return
        loaded, memory = self.bench.loaded(), self.bench.coordinator.shard.stored
        assert memory.groups == loaded.groups
        assert _offsets(memory) == _offsets(loaded)

    @invariant()
    def what_members_and_groups_take_is_counted_as_it_comes_and_goes(self) -> None:
        shard = self.bench.coordinator.shard
        assert shard.held_bytes == held_by(shard)
        assert shard.kept_bytes == kept_by(shard)
        assert self.bench.memory.size_bytes in (shard.held_bytes, 0), (
            "0: nothing has happened since it was loaded"
        )

    @invariant()
    def a_group_at_rest_is_what_would_be_loaded(self) -> None:
        bench = self.bench
        group = bench.coordinator.shard.groups.get(GROUP)
        stored = bench.coordinator.shard.stored.groups.get(GROUP)
        if group is None or bench.waiting or group.state is not GroupState.STABLE:
            return
        assert stored is not None, "a stable group is stored"
        assignments = {one.member_id: one.assignment for one in group.members.values()}
        assert _comparable(group.as_stored(0, assignments)) == _comparable(stored)

    @invariant()
    def nobody_is_parked_where_nobody_waits(self) -> None:
        for group in self.bench.coordinator.shard.groups.values():
            for member in group.members.values():
                assert member.join is None or group.state is GroupState.PREPARING
                assert member.sync is None or group.state is GroupState.COMPLETING
            assert (group.state is GroupState.PREPARING) == (group.join_ends_at_ms is not None)
            assert not group.members or group.leader in group.members
            assert set(group.static_members.values()) <= set(group.members)
            if group.state is GroupState.EMPTY:
                assert not group.members
            offered = Counter(
                name for one in group.members.values() for name in {name for name, _ in one.protocols}
            )
            assert group.offered == offered

    # ----------------------------------------------------------------------------------------------- private

    def _note(self, call: int) -> None:
        self.open.add(call)
        self._collect()

    def _collect(self) -> None:
        for call, response in list(self.bench.answers.items()):
            self.open.discard(call)
            del self.bench.answers[call]
            if isinstance(response, JoinGroupResponse):
                self._joined(response)

    def _joined(self, response: JoinGroupResponse) -> None:
        if response.member_id and response.member_id not in self.ids:
            self.ids.append(response.member_id)
        if not response.error_code and response.members and not response.skip_assignment:
            told = response.leader, sorted(one.member_id for one in response.members)
            assert self.told.setdefault(response.generation_id, told) == told, (
                "one generation, two lists of members"
            )

    def _id(self, who: int) -> str:
        return self.ids[-1 - who % len(self.ids)] if self.ids else "nobody"

    def _generation(self) -> int:
        found = self.bench.coordinator.shard.groups.get(GROUP)
        return -1 if found is None else found.generation


def _offsets(stored: Any) -> dict[str, dict[Any, Any]]:
    return {
        group: {place: stood.committed for place, stood in places.items()}
        for group, places in stored.offsets.by_group.items()
    }


def _comparable(stored: StoredGroup) -> Any:
    members = sorted(one for one in stored.members)
    return stored._replace(state_since_ms=0, members=tuple(members))


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=150, stateful_step_count=40)
