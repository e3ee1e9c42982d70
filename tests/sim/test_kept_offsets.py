"""Offsets and groups that an operator resets and deletes, amid transactions and while their coordinator is alone: what was done last
counts; and mutations that no member of a world shows."""

import asyncio
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.model.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from odradek.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from odradek.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from odradek.sim.checkers.transactions import Fate
from odradek.sim.clients import kept_offsets
from odradek.sim.clients.client import RequestFailed
from odradek.sim.clients.kept_offsets import NOTHING, KeptOffset, OffsetKeeping
from odradek.sim.clients.transactional_producer import Fenced, Refused
from odradek.sim.plan import SOON_ALONE, Fault, Plan, _of_groups, _of_sharers, _of_transactions
from odradek.sim.run import CORRECTNESS, LIVENESS, OK, describe, run
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.plans import three_brokers
from tests.support import each

ORDERS = TopicPartition("orders", 0)
ALONE, FOLLOWED = 0.2, 0.9  # targets


def amid_transactions() -> Plan:
    faults = (
        Fault(1.0, "reset_offsets", FOLLOWED, 0.25, 3.0),
        Fault(1.2, "reset_offsets", FOLLOWED, 0.1, 3.0),
    )
    settings = {**SOON_ALONE, **_of_groups(3, 2), **_of_transactions(3, 2)}
    return three_brokers(
        has_group=True, has_transactions=True, settings=settings, faults=faults, duration_s=6.0
    )


def alone(**groups: Any) -> Plan:
    """A coordinator is, for a while."""
    settings = {**SOON_ALONE, **_of_sharers(3, 2)}
    faults = (Fault(1.0, "reset_offsets", ALONE, 0.35, 3.0),)
    return three_brokers(settings=settings, faults=faults, duration_s=6.0, **groups)


class Shown(NamedTuple):
    plan: Plan
    edit: Edit
    code: int
    reason: str


UNFINISHED = "actions of administrators are not finished"
SHOWN = {
    "an older offset of a transaction does not replace a later one": Shown(
        amid_transactions(),
        Edit(
            "coordinator.offsets:Offsets.end_transaction",
            "place not in committed or committed[place].position < stood.position",
            "True",
        ),
        CORRECTNESS,
        "OffsetIsKept",
    ),
    "what is deleted amid a transaction does not come back with its end": Shown(
        amid_transactions(),
        Edit(
            "coordinator.offsets:Offsets.apply",
            "self._drop(self.pending[producer], key.group, place)",
            "continue",
        ),
        CORRECTNESS,
        "OffsetIsKept",
    ),
    "a group whose deletion failed can be deleted later": Shown(
        alone(has_sharers=True),
        Edit(
            "coordinator.removing:ConsumerGroupRemoved.failed",
            "self.give_up(shard, now_ms)",
            "pass",
        ),
        LIVENESS,
        UNFINISHED,
    ),
    "a group whose last offset could not be deleted goes on": Shown(
        alone(has_group=True),
        Edit(
            "coordinator.removing:OffsetsDeleted._ended",
            "self.group.move_to(GroupState.EMPTY, now_ms)",
            "pass",
        ),
        LIVENESS,
        UNFINISHED,
    ),
    "an owner that gives up its transaction is not fenced": Shown(
        amid_transactions(),
        Edit(
            "coordinator.transaction_room:Room.complete",
            "self.last_epochs.get(transactional_id, NO_EPOCH)",
            "NO_EPOCH",
        ),
        CORRECTNESS,
        "OwnerIsNotFenced",
    ),
}


@each(SHOWN)
def test_it_is_survived_and_shows_the_mutation_it_is_for(why: str) -> None:
    plan, edit, code, reason = SHOWN[why]
    outcome = run(plan)
    assert outcome.code == OK, describe(outcome)
    assert outcome.injected == sorted(plan.faults)
    assert sum("reset_offsets" in text and "it is deleted" in text for _, text in outcome.notes) == len(
        plan.faults
    )
    with applied([edit]):
        outcome = run(plan)
    assert (outcome.code, reason in outcome.reason) == (code, True), describe(outcome)


def deleted(code: ErrorCode) -> OffsetDeleteResponseTopic:
    row = OffsetDeleteResponsePartition(partition_index=0, error_code=code)
    return OffsetDeleteResponseTopic(name=ORDERS.topic, partitions=[row])


class Group:
    """Answers what it is told to, one after the other; None: nothing."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.has_moved = False

    def moved(self) -> None:
        self.has_moved = True

    async def ask(self, message: Any, version: int | None = None) -> Any:
        answer = self.answers.pop(0)
        if answer is None:
            raise RequestFailed("nobody answered")
        return answer


def committed(code: ErrorCode) -> OffsetCommitResponse:
    row = OffsetCommitResponsePartition(partition_index=0, error_code=code)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=ORDERS.topic, partitions=[row])])


def kept_after(*answers: Any, leads: bool = True) -> KeptOffset:
    """Commits of 1, 2 and so on, with these answers."""
    kept = KeptOffset(SimpleNamespace(), "g", ORDERS, lambda _: leads)  # type: ignore[arg-type]
    kept.group = Group(*answers)  # type: ignore[assignment]

    async def commit() -> None:
        for _ in answers:
            await kept.commit()

    asyncio.run(commit())
    return kept


def test_what_was_answered_is_what_it_is_and_an_error_leaves_both() -> None:
    done, refused = committed(ErrorCode.NONE), committed(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    for answers, may_be in (
        ((), {NOTHING}),
        ((done,), {1}),
        ((done, refused), {1, 2}),
        ((done, refused, refused), {1, 2, 3}),
        ((refused, done), {2}),
    ):
        kept = kept_after(*answers)
        assert (kept.may_be, kept.late) == (may_be, set())
        assert kept.group.has_moved is (refused in answers)  # type: ignore[attr-defined]


def test_what_nobody_answered_may_be_done_later() -> None:
    kept = kept_after(committed(ErrorCode.NONE), None, committed(ErrorCode.NONE))
    assert (kept.may_be, kept.late) == ({3}, {2})


def test_an_offset_goes_alone_or_with_its_group() -> None:
    kept = kept_after(committed(ErrorCode.NONE))
    refused = OffsetDeleteResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    gone = DeleteGroupsResponse(results=[DeletableGroupResult(group_id="g", error_code=0)])
    kept.group = Group(refused, gone)  # type: ignore[assignment]
    assert asyncio.run(kept.delete()) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert kept.may_be == {1, NOTHING}
    assert asyncio.run(kept.delete_group()) == ErrorCode.NONE
    assert kept.may_be == {NOTHING}


def test_one_that_was_deposed_has_nothing_to_delete_where_another_one_has_something() -> None:
    gone = DeleteGroupsResponse(results=[DeletableGroupResult(group_id="g", error_code=0)])
    for step, answer in (
        (KeptOffset.delete, OffsetDeleteResponse(topics=[deleted(ErrorCode.NONE)])),
        (KeptOffset.delete_group, gone),
    ):
        kept = kept_after(committed(ErrorCode.NONE), leads=False)
        kept.group = Group(answer)  # type: ignore[assignment]
        assert asyncio.run(step(kept)) == ErrorCode.NOT_COORDINATOR
        assert (kept.may_be, kept.late) == ({1, NOTHING}, set())


class Keeping(OffsetKeeping):
    def __init__(self, *lossy: str, coordinates: bool = True) -> None:
        partitions = {TopicPartition(topic, 0): None for topic in lossy}
        topics = SimpleNamespace(lossy=lambda: partitions)
        self.world = SimpleNamespace(let_in=[], topics=topics)  # type: ignore[assignment]
        self._coordinator = object() if coordinates else None

    def _coordinates(self, kept: KeptOffset) -> Any:
        return self._coordinator


def judged(keeping: Keeping, found: int | None, *answers: Any) -> list[str]:
    kept = kept_after(committed(ErrorCode.NONE), *answers)

    async def fetched() -> int | None:
        return found

    kept.fetched = fetched  # type: ignore[method-assign]
    asyncio.run(keeping._judge_kept(kept))
    return [anomaly.name for anomaly in keeping.world.let_in]


def test_another_offset_than_was_done_last_is_named_where_it_is_certain() -> None:
    assert judged(Keeping(), 1) == judged(Keeping(), None) == []
    assert judged(Keeping("orders"), 2) == judged(Keeping(), NOTHING) == ["OffsetIsKept"]
    assert judged(Keeping(GROUPS_TOPIC), 2) == judged(Keeping(TRANSACTIONS_TOPIC), 2) == []
    assert judged(Keeping(coordinates=False), 2) == []


def test_what_may_come_late_is_no_other_offset_and_what_nobody_asked_for_is() -> None:
    unheard = None, committed(ErrorCode.NONE)  # of 2, and of 3
    assert judged(Keeping(), 2, *unheard) == judged(Keeping(), 3, *unheard) == []
    assert judged(Keeping(), 1, *unheard) == judged(Keeping(), NOTHING, *unheard) == ["OffsetIsKept"]


def reset_world(*, epoch: int, version: int = 2, coordinators: int = 1) -> Any:
    """One broker, which believes that it leads in epoch 3, and takes part in the coordination of `t`; the store says `epoch`."""
    stored = SimpleNamespace(leader_epoch=epoch, leader=1)
    replica = SimpleNamespace(is_leader=True, leader_epoch=3)
    room = SimpleNamespace(stored=SimpleNamespace(by_id={"t": None}), transaction_version=lambda: version)
    shards = dict.fromkeys(range(coordinators), SimpleNamespace(coordinator=SimpleNamespace(room=room)))
    parts = SimpleNamespace(
        transactions=SimpleNamespace(shards=shards), replicas=SimpleNamespace(partitions={})
    )
    broker = SimpleNamespace(
        name="b1",
        broker_id=1,
        is_running=True,
        replica=lambda partition: replica,
        runtime=SimpleNamespace(parts=SimpleNamespace(broker=parts)),
    )
    return SimpleNamespace(
        brokers={1: broker},
        topics=SimpleNamespace(assignment=lambda topic: SimpleNamespace(partitions={0: None})),
        view_of=lambda partition: SimpleNamespace(stored=stored),
    )


def keeping_in(world: Any) -> OffsetKeeping:
    keeping = OffsetKeeping()
    keeping.world = world
    return keeping


def test_one_that_was_deposed_and_does_not_know_it_is_no_coordinator() -> None:
    kept = kept_after()
    kept.group.coordinator = ("b1", 9092)  # type: ignore[misc]
    assert keeping_in(reset_world(epoch=3))._leads(kept)
    assert not keeping_in(reset_world(epoch=4))._leads(kept)
    kept.group.coordinator = None  # type: ignore[misc]
    assert not keeping_in(reset_world(epoch=3))._leads(kept)


def test_an_owner_is_kept_by_the_only_coordinator_if_it_has_heard_of_that() -> None:
    assert keeping_in(reset_world(epoch=3))._room_of("t") is not None
    assert keeping_in(reset_world(epoch=3))._room_of("another") is None
    assert keeping_in(reset_world(epoch=3, version=1))._room_of("t") is None
    assert keeping_in(reset_world(epoch=3, coordinators=2))._room_of("t") is None


class Producer:
    """Is fenced when it takes over a second time; what it sent first may have been without an answer."""

    def __init__(self, *, is_unheard: bool) -> None:
        self.is_unheard = is_unheard
        self.bumps = False
        self._has_taken_over = False

    async def take_over(self) -> None:
        if self._has_taken_over:
            raise Fenced
        self._has_taken_over = True

    async def send_offset(self, partition: TopicPartition, offset: int) -> None:
        assert (partition, self.bumps) == (ORDERS, True)


@pytest.mark.parametrize(
    "is_unheard, rooms, is_kept",
    [
        (False, "aa", False),
        (True, "aa", True),
        (False, "ab", True),
        (False, [None, None], True),
    ],
)
def test_an_owner_is_fenced_by_nobody_but_its_own_request_that_comes_late_or_another_coordinator(
    monkeypatch: pytest.MonkeyPatch, is_unheard: bool, rooms: Any, is_kept: bool
) -> None:
    monkeypatch.setattr(kept_offsets, "TransactionalProducer", lambda *_: Producer(is_unheard=is_unheard))
    kept, seen = kept_after(), iter(rooms)
    assert asyncio.run(kept.begun_anew(lambda name: next(seen))) is is_kept


class Transaction:
    """Of one offset, with this fate; None: it is refused."""

    def __init__(self, fate: Fate | None, *, is_in_doubt: bool) -> None:
        self.is_unheard = self.bumps = False
        self.is_in_doubt = is_in_doubt
        self._fate = fate

    async def take_over(self) -> None:
        pass

    async def send_offset(self, partition: TopicPartition, offset: int) -> None:
        if self._fate is None:
            raise Refused

    async def end(self, *, is_commit: bool) -> Fate:
        assert self._fate is not None
        return self._fate


DONE, REFUSED = committed(ErrorCode.NONE), committed(ErrorCode.COORDINATOR_NOT_AVAILABLE)


@pytest.mark.parametrize(
    "fate, is_in_doubt, plain, may_be, late",
    [
        ("committed", False, None, {2}, set()),
        ("aborted", False, None, {1}, set()),
        ("unknown", True, None, {1, 2}, {2}),
        (None, False, None, {1}, {2}),
        # With another one that is committed meanwhile.
        ("committed", False, DONE, {3}, set()),
        ("committed", False, REFUSED, {NOTHING, 2, 3}, set()),
        ("aborted", False, REFUSED, {NOTHING, 1, 3}, set()),
        ("unknown", True, DONE, {3}, {2}),
    ],
)
def test_what_stands_after_a_transaction_hangs_on_its_fate_and_on_what_came_later(
    monkeypatch: pytest.MonkeyPatch,
    fate: Fate | None,
    is_in_doubt: bool,
    plain: Any,
    may_be: set[int],
    late: set[int],
) -> None:
    transaction = Transaction(fate, is_in_doubt=is_in_doubt)
    monkeypatch.setattr(kept_offsets, "TransactionalProducer", lambda *_: transaction)
    kept = kept_after(DONE)
    kept.group = Group(plain)  # type: ignore[assignment]
    asyncio.run(kept.in_a_transaction(None if plain is None else kept.commit, is_commit=True))
    assert (kept.may_be, kept.late) == (may_be, late)
