"""A controller and the store it writes to, as values: what its tests are told in.

The store is a dictionary with compare-and-set, exactly as strict as the real ones: a write over the wrong
version is a conflict, a write under the wrong `/controller_epoch` is fenced. After every event the world
checks the invariants, and that memory and store say the same.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from odradek.controller.broker_requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from odradek.controller.context import ControllerContext, ControllerSettings
from odradek.controller.core import ControllerCore
from odradek.controller.effects import (
    CreatePartitionState,
    Effects,
    RemovePreferredElectionNode,
    RemoveTopic,
    RemoveTopicConfig,
    RemoveTopicDeletion,
    StateChange,
    Write,
    WritePartitionState,
    WritePendingDeletions,
    WriteProducerIdBlock,
    WriteReassignmentNode,
    WriteTopicAssignment,
)
from odradek.controller.events import (
    Conflict,
    Elected,
    Event,
    Fenced,
    Requested,
    StopReplicaAnswered,
    Stored,
    WriteAnswer,
    WritesAnswered,
)
from odradek.controller.invariants import violations
from odradek.controller.states import PartitionState, ReplicaState
from odradek.model.cluster import BrokerRegistration, Endpoint, LeaderAndIsr, ReplicaAssignment, TopicConfig
from odradek.model.controller_requests import (
    AlterPartitionAsked,
    AlterPartitionItem,
    AlterReassignmentsAsked,
    ControlledShutdownAsked,
    IsrMember,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import (
    BrokersChanged,
    MetadataLoaded,
    PreferredElectionRequested,
    ProducerIdBlock,
    ReassignmentRequested,
    StoredPartitionState,
    TopicAssignment,
    TopicAssignmentsChanged,
    TopicsChanged,
    UnreadableNode,
)
from odradek.model.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)


def registration(broker: int, epoch: int, port: int | None = None, clean: int = -1) -> BrokerRegistration:
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port or 9000 + broker)
    return BrokerRegistration(BrokerId(broker), BrokerEpoch(epoch), (endpoint,), None, BrokerEpoch(clean))


def topic_id_of(topic: str, generation: int = 0) -> TopicId:
    return TopicId(f"{topic}#{generation}".encode().ljust(16, b"."))


def tp(text: str) -> TopicPartition:
    topic, _, partition = text.rpartition("-")
    return TopicPartition(topic, int(partition))


def state(
    leader: int,
    isr: Iterable[int],
    *,
    leader_epoch: int = 0,
    version: int = 0,
    controller_epoch: int = 1,
    recovery: int = 0,
) -> StoredPartitionState:
    return StoredPartitionState(
        LeaderAndIsr(
            BrokerId(leader),
            LeaderEpoch(leader_epoch),
            tuple(BrokerId(b) for b in isr),
            PartitionEpoch(version),
            recovery,
        ),
        ControllerEpoch(controller_epoch),
    )


CONDITIONAL = (WritePartitionState, CreatePartitionState, WriteTopicAssignment, WriteProducerIdBlock)


class ControllerDied(Exception):
    """The controller of this world is no more; the store is as it left it."""


@dataclass
class World:
    settings: ControllerSettings = field(default_factory=ControllerSettings)
    registrations: dict[int, BrokerRegistration] = field(default_factory=dict)
    topics: dict[str, TopicAssignment] = field(default_factory=dict)
    states: dict[TopicPartition, StoredPartitionState] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    unreadable: list[UnreadableNode] = field(default_factory=list)
    producer_ids: ProducerIdBlock = field(default_factory=lambda: ProducerIdBlock(BrokerId(-1), -1, -1, 0))
    delete_topics: tuple[str, ...] = ()
    reassignment: dict[TopicPartition, tuple[BrokerId, ...]] | None = None
    preferred: PreferredElectionRequested = field(default_factory=lambda: PreferredElectionRequested(()))
    pending_deletions: dict[BrokerId, dict[TopicPartition, TopicId]] = field(default_factory=dict)
    removed: list[object] = field(default_factory=list)
    controller_epoch: int = 0
    next_czxid: int = 100
    now_ms: int = 1_000_000
    core: ControllerCore = field(init=False)
    written: list[tuple[Write, ...]] = field(default_factory=list)  # of the last event, batch by batch
    before_write: Callable[[tuple[Write, ...]], None] | None = None  # a hand that meddles, once
    lose_answers: bool = False  # the next batch is stored, and the answer says conflict: the ack was lost

    writes_done: int = 0
    dies_after_write: int = 0  # 0: never

    def __post_init__(self) -> None:
        self.core = ControllerCore(self.settings)

    # ----------------------------------------------------------------------------------------- asking

    @property
    def context(self) -> ControllerContext:
        assert self.core.context is not None, "not the controller"
        return self.core.context

    def leader(self, text: str) -> tuple[int, tuple[int, ...], int]:
        """(leader, ISR, leader epoch) as stored."""
        value = self.states[tp(text)].leader_and_isr
        return value.leader, value.isr, value.leader_epoch

    def partition_state(self, text: str) -> PartitionState:
        return self.context.partition_state(tp(text))

    def replica_state(self, text: str, broker: int) -> ReplicaState:
        return self.context.replica_state(tp(text), BrokerId(broker))

    def writes(self) -> list[Write]:
        """Everything the last event wrote."""
        return [write for batch in self.written for write in batch]

    # ------------------------------------------------------------------------------------------- doing

    def brokers(self, *ids: int) -> "World":
        for broker in ids:
            self.next_czxid += 1
            self.registrations[broker] = registration(broker, self.next_czxid)
        return self

    def elect(self, broker: int = 1) -> Effects:
        self.controller_epoch += 1
        return self.step(Elected(*self.election(broker)))

    def election(self, broker: int = 1) -> tuple[BrokerId, ControllerEpoch, int, MetadataLoaded]:
        snapshot = MetadataLoaded(
            brokers=tuple(self.registrations[b] for b in sorted(self.registrations)),
            topics=tuple(self.topics[t] for t in sorted(self.topics)),
            states=dict(self.states),
            topic_configs={t: TopicConfig(dict(c)) for t, c in self.configs.items()},
            delete_topics=self.delete_topics,
            reassignment=ReassignmentRequested(dict(self.reassignment or {})),
            preferred_election=self.preferred,
            unreadable=tuple(self.unreadable),
            producer_ids=self.producer_ids,
            pending_deletions={broker: dict(kept) for broker, kept in self.pending_deletions.items()},
        )
        return BrokerId(broker), ControllerEpoch(self.controller_epoch), self.controller_epoch, snapshot

    def store_topic(self, topic: str, assignment: list[list[int]], with_id: bool = True) -> TopicAssignment:
        """Somebody writes a topic node, as CreateTopics does."""
        partitions = {p: ReplicaAssignment(tuple(BrokerId(b) for b in r)) for p, r in enumerate(assignment)}
        node = TopicAssignment(topic, topic_id_of(topic) if with_id else None, partitions, 0)
        self.topics[topic] = node
        return node

    def create(self, topic: str, *assignment: list[int]) -> Effects:
        node = self.store_topic(topic, list(assignment))
        return self.step(TopicsChanged(tuple(sorted(self.topics)), (node,)))

    def add_partitions(self, topic: str, *assignment: list[int]) -> Effects:
        old = self.topics[topic]
        partitions = dict(old.partitions)
        for replicas in assignment:
            partitions[len(partitions)] = ReplicaAssignment(tuple(BrokerId(b) for b in replicas))
        node = TopicAssignment(topic, old.topic_id, partitions, old.version + 1)
        self.topics[topic] = node
        return self.step(TopicAssignmentsChanged((node,)))

    def kill(self, *brokers: int) -> Effects:
        for broker in brokers:
            del self.registrations[broker]
        return self.step(self.brokers_changed())

    def start(self, *brokers: int) -> Effects:
        self.brokers(*brokers)
        return self.step(self.brokers_changed())

    def start_clean(self, broker: int, *, stopped_as: int) -> Effects:
        """It comes back, and its clean-shutdown file names the incarnation that stopped."""
        self.next_czxid += 1
        self.registrations[broker] = registration(broker, self.next_czxid, clean=stopped_as)
        return self.step(self.brokers_changed())

    def bounce(self, *brokers: int) -> Effects:
        """Gone and back, and the controller sees one change."""
        return self.start(*brokers)

    def brokers_changed(self) -> BrokersChanged:
        return BrokersChanged(tuple(self.registrations[b] for b in sorted(self.registrations)))

    def shut_down(self, broker: int, *, epoch: int | None = None, request_id: int = 7) -> Effects:
        own = self.registrations[broker].epoch if broker in self.registrations else 0
        return self.step(
            Requested(
                request_id,
                ControlledShutdownAsked(BrokerId(broker), BrokerEpoch(own if epoch is None else epoch)),
            )
        )

    def alter(
        self,
        text: str,
        isr: Iterable[int | tuple[int, int]],
        *,
        sender: int | None = None,
        broker_epoch: int | None = None,
        leader_epoch: int | None = None,
        partition_epoch: int | None = None,
        recovery: int = 0,
        version: int = 3,
        topic_id: bytes | None = None,
        by_name: bool = False,
        request_id: int = 9,
    ) -> Effects:
        """AlterPartition as the leader of the partition would send it, unless said otherwise."""
        where = tp(text)
        stored = self.states.get(where)
        value = stored.leader_and_isr if stored else None
        leader = sender if sender is not None else (value.leader if value else 1)
        epoch = broker_epoch if broker_epoch is not None else self.registrations[leader].epoch
        members = tuple(
            IsrMember(BrokerId(m[0]), BrokerEpoch(m[1]))
            if isinstance(m, tuple)
            else IsrMember(BrokerId(m), BrokerEpoch(-1))
            for m in isr
        )
        item = AlterPartitionItem(
            topic=where.topic if by_name else None,
            topic_id=None if by_name else TopicId(topic_id or self.topics[where.topic].topic_id or b""),
            partition=where.partition,
            leader_epoch=LeaderEpoch(
                leader_epoch if leader_epoch is not None else (value.leader_epoch if value else 0)
            ),
            partition_epoch=PartitionEpoch(
                partition_epoch if partition_epoch is not None else (value.partition_epoch if value else 0)
            ),
            new_isr=members,
            leader_recovery_state=recovery,
        )
        return self.step(
            Requested(request_id, AlterPartitionAsked(version, BrokerId(leader), BrokerEpoch(epoch), (item,)))
        )

    def stopped(
        self,
        broker: int,
        *partitions: str,
        error: ErrorCode = ErrorCode.NONE,
        whole: ErrorCode = ErrorCode.NONE,
        epoch: int | None = None,
        number: int | None = None,
    ) -> Effects:
        """A broker answers StopReplica with deletion: the latest, unless a number is given."""
        told = {tp(text): error for text in partitions}
        own = self.registrations[broker].epoch if broker in self.registrations else 0
        return self.step(
            StopReplicaAnswered(
                BrokerId(broker),
                BrokerEpoch(own if epoch is None else epoch),
                whole,
                told if whole is ErrorCode.NONE else {},
                frozenset(told),
                number,
            )
        )

    def reassign(
        self, targets: Mapping[str, Iterable[int] | None], *, request_id: int = 4, **how: bool
    ) -> Effects:
        asked = {tp(t): None if r is None else tuple(BrokerId(b) for b in r) for t, r in targets.items()}
        return self.step(Requested(request_id, AlterReassignmentsAsked(asked, **how)))

    def node(self, text: str) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """(replicas, adding, removing) as the topic node has them."""
        stored = self.topics[tp(text).topic].partitions[tp(text).partition]
        return stored.replicas, stored.adding_replicas, stored.removing_replicas

    def catch_up(self, text: str, *brokers: int) -> Effects:
        """These join the ISR, as the leader asks."""
        return self.alter(text, [*self.leader(text)[1], *brokers])

    # ----------------------------------------------------------------------------------- the settle loop

    def step(self, event: Event) -> Effects:
        """One event with all its writes; checks what must hold afterwards."""
        self.written = []
        effects = self.settle(event)
        if self.core.context is not None:
            assert violations(self.core.context) == []
            self.check_memory_is_store()
        return effects

    def settle(self, event: Event) -> Effects:
        done = Effects()
        events = [event]
        while events:
            effects = self.core.step(events.pop(0), self.now_ms)
            while effects.writes:
                told = effects.requests or effects.changes or effects.answers
                assert not told, "nothing of an event leaves before its last write is answered"
                self.written.append(effects.writes)
                effects = self.core.step(WritesAnswered(self.answer(effects.writes)), self.now_ms)
            done = Effects(
                requests=done.requests + effects.requests,
                changes=done.changes + effects.changes,
                answers=done.answers + effects.answers,
                resign=done.resign or effects.resign,
            )
            events = [*effects.follow_up, *events]
        return done

    def answer(self, writes: tuple[Write, ...]) -> tuple[WriteAnswer, ...]:
        if self.before_write is not None:
            meddle, self.before_write = self.before_write, None
            meddle(writes)
        if self.core.fence != self.controller_epoch:
            return tuple(Fenced() for _ in writes)
        answers = tuple(self.count(self.answer_one(write)) for write in writes)
        if self.lose_answers:
            self.lose_answers = False
            return tuple(
                Conflict(self.current(write)) if isinstance(write, CONDITIONAL) else answer
                for write, answer in zip(writes, answers, strict=True)
            )
        return answers

    def count(self, answer: WriteAnswer) -> WriteAnswer:
        """One more write is in the store; perhaps the controller dies before it hears of it."""
        self.writes_done += 1
        if self.writes_done == self.dies_after_write:
            raise ControllerDied
        return answer

    def current(self, write: Write) -> object:
        if isinstance(write, WritePartitionState | CreatePartitionState):
            return self.states.get(write.topic_partition)
        if isinstance(write, WriteTopicAssignment):
            return self.topics.get(write.topic)
        assert isinstance(write, WriteProducerIdBlock)
        return self.producer_ids

    def answer_one(self, write: Write) -> WriteAnswer:
        if isinstance(write, CreatePartitionState):
            if write.topic_partition in self.states:
                return Conflict(self.states[write.topic_partition])
            self.put(write.topic_partition, write.value, write.controller_epoch, 0, write)
            return Stored(0)
        if isinstance(write, WritePartitionState):
            found = self.states.get(write.topic_partition)
            if found is None or found.leader_and_isr.partition_epoch != write.expected_version:
                return Conflict(found)
            self.put(
                write.topic_partition, write.value, write.controller_epoch, write.expected_version + 1, write
            )
            return Stored(write.expected_version + 1)
        if isinstance(write, WriteTopicAssignment):
            node = self.topics.get(write.topic)
            if node is None or node.version != write.expected_version:
                return Conflict(node)
            self.topics[write.topic] = TopicAssignment(
                write.topic, write.topic_id, dict(write.partitions), node.version + 1
            )
            return Stored(node.version + 1)
        if isinstance(write, WriteProducerIdBlock):
            if self.producer_ids.version != write.expected_version:
                return Conflict(self.producer_ids)
            block = write.block
            self.producer_ids = ProducerIdBlock(
                block.broker, block.block_start, block.block_end, write.expected_version + 1
            )
            return Stored(write.expected_version + 1)
        if isinstance(write, WritePendingDeletions):
            self.pending_deletions.pop(write.broker, None)
            if write.pending_deletions:
                self.pending_deletions[write.broker] = dict(write.pending_deletions)
            return Stored(0)
        self.removed.append(write)
        if isinstance(write, RemoveTopic):
            self.topics.pop(write.topic, None)
            for topic_partition in [t for t in self.states if t.topic == write.topic]:
                del self.states[topic_partition]
        elif isinstance(write, RemoveTopicConfig):
            self.configs.pop(write.topic, None)
        elif isinstance(write, RemoveTopicDeletion):
            self.delete_topics = tuple(t for t in self.delete_topics if t != write.topic)
        elif isinstance(write, WriteReassignmentNode):
            self.reassignment = dict(write.targets) or None
        else:
            assert isinstance(write, RemovePreferredElectionNode), write
        return Stored(0)

    def put(
        self,
        topic_partition: TopicPartition,
        value: LeaderAndIsr,
        epoch: ControllerEpoch,
        version: int,
        write: WritePartitionState | CreatePartitionState | None = None,
    ) -> None:
        stored = LeaderAndIsr(
            value.leader,
            value.leader_epoch,
            value.isr,
            PartitionEpoch(version),
            value.leader_recovery_state,
            value.elr,
            value.last_known_elr,
        )
        lives = (write.isr_broker_epochs,) if write is not None else ()
        eligible = write.elr_broker_epochs if isinstance(write, WritePartitionState) else ()
        self.states[topic_partition] = StoredPartitionState(stored, epoch, *lives, elr_broker_epochs=eligible)

    def check_memory_is_store(self) -> None:
        """I11: after every event the controller remembers what is stored, no more and no less."""
        remembered = {t: (s.leader_and_isr, s.controller_epoch) for t, s in self.context.leaderships.items()}
        known = {t: (s.leader_and_isr, s.controller_epoch) for t, s in self.states.items()}
        assert remembered == {t: s for t, s in known.items() if t.topic in self.context.topics}
        for topic, node in self.topics.items():
            if topic in self.context.topics:
                expected = {
                    p: self.context.stored_assignment(TopicPartition(topic, p)) for p in node.partitions
                }
                assert (expected, self.context.topics[topic].version) == (dict(node.partitions), node.version)


def three(topic: str = "t", *assignment: list[int]) -> World:
    """Brokers 1, 2, 3; 1 is controller; a topic, by default one partition on [2,1,3]."""
    world = World().brokers(1, 2, 3)
    world.elect(1)
    world.create(topic, *(assignment or ([2, 1, 3],)))
    return world


def lai(effects: Effects, broker: int) -> list[LeaderAndIsrPartition]:
    """All LeaderAndIsr partitions sent to a broker, in order."""
    return [
        partition
        for request in effects.requests
        if isinstance(request, LeaderAndIsrRequest) and request.broker == broker
        for partition in request.partitions
    ]


def lai_brokers(effects: Effects, text: str | None = None) -> list[int]:
    return [
        request.broker
        for request in effects.requests
        if isinstance(request, LeaderAndIsrRequest)
        and (text is None or any(p.topic_partition == tp(text) for p in request.partitions))
    ]


def metadata(effects: Effects) -> list[UpdateMetadataRequest]:
    return [request for request in effects.requests if isinstance(request, UpdateMetadataRequest)]


def stops(effects: Effects) -> list[StopReplicaRequest]:
    return [request for request in effects.requests if isinstance(request, StopReplicaRequest)]


def moves(effects: Effects, kind: str | None = None) -> list[tuple[str, str, str]]:
    """(target, from, to) of every change of a kind, partitions and replicas if none is named."""
    kinds = (kind,) if kind else ("partition", "replica")
    return [(c.target, short(c.source), short(c.to)) for c in effects.changes if c.kind in kinds]


def short(name: str) -> str:
    return name.removesuffix("Partition").removesuffix("Replica")


def failures(effects: Effects) -> list[StateChange]:
    return [change for change in effects.changes if change.kind == "failure"]


def answer_of(effects: Effects) -> object:
    assert len(effects.answers) == 1
    return effects.answers[0].body
