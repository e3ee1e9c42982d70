"""What the controller remembers: a cache of the store, plus the two state machines.

`commit_*` is the only thing that changes it; everything that starts with `plan_` reads it. Values kept
per partition are immutable and replaced whole, so `fork()` copies a few dictionaries and nothing else.

Cost: every event asks for the partitions of one broker (`partitions_on`) or for those without a leader
(`leaderless`), and both are kept as indexes, so that an event pays for what it touches and never for the
rest. A replica's state is stored only when it is not the usual one (assigned: online; not assigned: does
not exist), which keeps a partition with three healthy replicas below 1 KB.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from hashlib import sha256

from odradek.controller.states import PartitionState, ReplicaState
from odradek.model.cluster import BrokerRegistration, LeaderAndIsr, ReplicaAssignment
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ConfigurationError
from odradek.model.facts import ProducerIdBlock, StoredPartitionState, TopicAssignment
from odradek.model.ids import (
    NO_TOPIC_ID,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
)
from odradek.model.properties import AROUND_VALUES
from odradek.model.settings import TOPIC_SETTINGS, BrokerSettings, parse_value
from odradek.model.values import dataclass, field

CLUSTER_DEFAULT = "<default>"  # the name of `/config/brokers/<default>`
MIN_ISR = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The broker's settings a controller reads; topics and dynamic broker settings override them."""

    unclean_leader_election_enable: bool = False
    min_insync_replicas: int = 1
    delete_topic_enable: bool = True
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    delete_topic_with_offline_replicas: bool = False

    @classmethod
    def of(cls, settings: BrokerSettings) -> "ControllerSettings":
        """What a broker's properties say to the controller in it."""
        return cls(
            unclean_leader_election_enable=settings.unclean_leader_election_enable,
            min_insync_replicas=settings.min_insync_replicas,
            delete_topic_enable=settings.delete_topic_enable,
            auto_leader_rebalance_enable=settings.auto_leader_rebalance_enable,
            leader_imbalance_check_interval_seconds=settings.leader_imbalance_check_interval_seconds,
            leader_imbalance_per_broker_percentage=settings.leader_imbalance_per_broker_percentage,
            delete_topic_with_offline_replicas=settings.odradek_delete_topic_with_offline_replicas,
        )


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic node: its id, its version, the partitions it lists (their replicas are in `assignments`)."""

    topic_id: TopicId
    version: int
    partitions: tuple[int, ...]


class ReassignmentPhase(StrEnum):
    """How far a reassignment is (S0's twelve steps). After a failover it is found again from the store."""

    GROWING = "growing"  # steps 1-4: new replicas copy; until every target replica is in the ISR
    SHRINKING = "shrinking"  # steps 5-8: the leader is in the target; the removed replicas leave the ISR
    STOPPING = "stopping"  # step 9: the removed replicas delete their data; until they have answered


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A running reassignment: the partition as its topic node has it, and the phase."""

    stored: ReplicaAssignment
    phase: ReassignmentPhase


@dataclass(frozen=True, slots=True)
class UncleanPoll:
    """Survivors of an offline partition that were asked what they hold, and what they answered so far.

    `may_lose` False: only those were asked that had every committed record once, and may have lost some since; nobody else is elected.
    """

    asked: tuple[BrokerId, ...]
    ends: Mapping[BrokerId, tuple[LeaderEpoch, Offset]]  # last epoch, log end offset
    deadline_ms: int
    number: int = 0  # of the question: answers to an earlier one do not count
    may_lose: bool = True


ElectionResults = Mapping[TopicPartition, tuple[ErrorCode, str]]


@dataclass(slots=True)
class ControllerContext:
    broker: BrokerId
    controller_epoch: ControllerEpoch
    epoch_version: int  # store version of `/controller_epoch`, checked by every write
    settings: ControllerSettings = field(default_factory=ControllerSettings)
    id_seed: bytes = b""
    ids_given: int = 0

    brokers: dict[BrokerId, BrokerRegistration] = field(
        default_factory=dict
    )  # registered, also shutting down
    last_epochs: dict[BrokerId, BrokerEpoch] = field(default_factory=dict)  # of those that were gone once
    # Invariant: a part of `brokers`.
    shutting_down_brokers: set[BrokerId] = field(default_factory=set)
    offline_directories: dict[BrokerId, frozenset[TopicPartition]] = field(default_factory=dict)

    topics: dict[str, Topic] = field(default_factory=dict)
    topic_names: dict[TopicId, str] = field(default_factory=dict)
    assignments: dict[TopicPartition, ReplicaAssignment] = field(default_factory=dict)
    # Invariant: none was written in a controller epoch above ours.
    leaderships: dict[TopicPartition, StoredPartitionState] = field(default_factory=dict)
    partition_states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    # Invariant: never the usual state, which is Online for an assigned replica and NonExistent for any other.
    replica_state_overrides: dict[TopicPartition, Mapping[BrokerId, ReplicaState]] = field(
        default_factory=dict
    )

    # Invariant: `assignments` by broker.
    partitions_on: dict[BrokerId, set[TopicPartition]] = field(default_factory=dict)
    # Invariant: exactly those that are NewPartition or OfflinePartition.
    leaderless: set[TopicPartition] = field(default_factory=set)

    # Invariant: of assigned partitions only; `stored` is what the topic node holds, `assignments` may be a step ahead.
    reassignments: dict[TopicPartition, Reassignment] = field(default_factory=dict)
    # Replicas told to delete their data because they are not wanted any more, and since when they owe an answer.
    removals: dict[TopicPartition, dict[BrokerId, int]] = field(default_factory=dict)
    # What a broker must delete although no topic node names it any more (see `pending_deletions`), and what it was told.
    pending_deletions: dict[BrokerId, dict[TopicPartition, TopicId]] = field(default_factory=dict)
    pending_deletions_sent: dict[BrokerId, frozenset[TopicPartition]] = field(default_factory=dict)
    # How many StopReplica were sent, and the number of the latest that told a broker to delete (see `stop_answers`).
    stops_sent: int = 0
    deletions_told: dict[BrokerId, dict[TopicPartition, int]] = field(default_factory=dict)
    legacy_reassignments: dict[TopicPartition, tuple[BrokerId, ...]] = field(default_factory=dict)
    polls: dict[TopicPartition, UncleanPoll] = field(default_factory=dict)
    polls_begun: int = 0
    # Requests for elections that wait for such answers: what is known already, and what is waited for.
    elections_asked: dict[int, tuple[ElectionResults, frozenset[TopicPartition]]] = field(
        default_factory=dict
    )
    topics_to_delete: set[str] = field(default_factory=set)
    deletions_requested: frozenset[str] = (
        frozenset()
    )  # all of `/admin/delete_topics`, also of unreadable topics
    out_of_service: dict[str, str] = field(default_factory=dict)  # topic -> why its nodes cannot be trusted
    topic_configs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    broker_configs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    producer_ids: ProducerIdBlock | None = None
    deadlines: dict[str, int] = field(default_factory=dict)  # what is to be done when, by name

    # ------------------------------------------------------------------------------------------ brokers

    def is_registered(self, broker: BrokerId) -> bool:
        """Live or shutting down: it can be told something."""
        return broker in self.brokers

    def is_online(self, broker: BrokerId, topic_partition: TopicPartition) -> bool:
        """May lead this partition: registered, staying, its log directory works, and no other topic's data of
        that name is in the way."""
        return (
            broker in self.brokers
            and broker not in self.shutting_down_brokers
            and topic_partition not in self.offline_directories.get(broker, ())
            and not (self.pending_deletions and self.has_pending_deletion(broker, topic_partition))
        )

    def all_log_dirs_online(self) -> bool:
        """No disk has failed and nobody keeps old data: who is online is the same for every partition."""
        return not self.offline_directories and (
            not self.pending_deletions or self.brokers.keys().isdisjoint(self.pending_deletions)
        )

    def has_pending_deletion(self, broker: BrokerId, topic_partition: TopicPartition) -> bool:
        """It must first delete what it keeps of an older topic of this name. A member of the ISR has evidently
        done so."""
        older = self.pending_deletions.get(broker, {}).get(topic_partition)
        if older is None or older == self.topic_id(topic_partition.topic):
            return False
        current = self.leadership(topic_partition)
        return current is None or broker not in current.isr

    def online_of(
        self, replicas: Iterable[BrokerId], topic_partition: TopicPartition
    ) -> tuple[BrokerId, ...]:
        """Those of `replicas` that are online, in the order given."""
        if self.all_log_dirs_online():
            brokers, leaving = self.brokers, self.shutting_down_brokers
            return tuple([broker for broker in replicas if broker in brokers and broker not in leaving])
        return tuple([broker for broker in replicas if self.is_online(broker, topic_partition)])

    def registered_brokers(self) -> tuple[BrokerId, ...]:
        return tuple(sorted(self.brokers))

    def registrations(self) -> tuple[BrokerRegistration, ...]:
        return tuple(self.brokers[broker] for broker in sorted(self.brokers))

    def broker_epoch(self, broker: BrokerId) -> BrokerEpoch:
        return self.brokers[broker].epoch

    def commit_broker(self, registration: BrokerRegistration) -> None:
        self.brokers[registration.broker_id] = registration

    def commit_broker_gone(self, broker: BrokerId) -> None:
        gone = self.brokers.pop(broker, None)
        if gone is not None:
            self.last_epochs[broker] = gone.epoch
        self.shutting_down_brokers.discard(broker)
        self.offline_directories.pop(broker, None)
        self.pending_deletions_sent.pop(broker, None)
        self.deletions_told.pop(broker, None)

    def commit_shutting_down(self, broker: BrokerId) -> None:
        assert broker in self.brokers, f"broker {broker} is not registered"
        self.shutting_down_brokers.add(broker)

    # ------------------------------------------------------------------------------------------- topics

    def topic_id(self, topic: str) -> TopicId:
        known = self.topics.get(topic)
        return known.topic_id if known is not None else NO_TOPIC_ID

    def topic_of_id(self, topic_id: TopicId) -> str | None:
        return self.topic_names.get(topic_id)

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        known = self.topics.get(topic)
        return [TopicPartition(topic, partition) for partition in known.partitions] if known else []

    def next_topic_id(self) -> TopicId:
        """An id nobody has: derived from the seed of this election and a counter (commit: it counts)."""
        self.ids_given += 1
        epoch = f"{self.broker}/{self.controller_epoch}/{self.ids_given}".encode()
        return TopicId(sha256(self.id_seed + epoch).digest()[:16])

    def commit_topic(self, node: TopicAssignment, topic_id: TopicId | None = None) -> None:
        """Remember a topic node. Partitions it no longer lists are forgotten."""
        identity = topic_id or node.topic_id or NO_TOPIC_ID
        before = self.topics.get(node.topic)
        for partition in before.partitions if before else ():
            if partition not in node.partitions:
                self.commit_partition_gone(TopicPartition(node.topic, partition))
        if before is not None:
            self.topic_names.pop(before.topic_id, None)
        self.topic_names[identity] = node.topic
        self.topics[node.topic] = Topic(identity, node.version, tuple(sorted(node.partitions)))
        for partition in sorted(node.partitions):
            self.commit_assignment(TopicPartition(node.topic, partition), node.partitions[partition])

    def commit_topic_gone(self, topic: str) -> None:
        partitions = self.partitions_of(topic)
        self._forget_failures(partitions)  # of all at once
        for topic_partition in partitions:
            self.commit_partition_gone(topic_partition)
        known = self.topics.pop(topic, None)
        if known is not None:
            self.topic_names.pop(known.topic_id, None)
        self.topic_configs.pop(topic, None)
        self.topics_to_delete.discard(topic)
        self.out_of_service.pop(topic, None)

    def commit_out_of_service(self, topic: str, reason: str) -> None:
        """Its nodes cannot be trusted, so nothing of it is moved. What it is configured to be stands elsewhere, and
        counts again when it is back."""
        config = self.topic_configs.get(topic)
        self.commit_topic_gone(topic)
        self.out_of_service[topic] = reason
        if config is not None:
            self.topic_configs[topic] = config

    def commit_topic_version(self, topic: str, version: int) -> None:
        known = self.topics[topic]
        self.topics[topic] = Topic(known.topic_id, version, known.partitions)

    def commit_growth(self, found: TopicAssignment) -> None:
        """The node as it was found under a write of ours. Partitions that somebody has added are assigned, so that the next
        write names them too; they come to life by the fact that follows."""
        known = self.topics[found.topic]
        for partition in sorted(found.partitions.keys() - set(known.partitions)):
            self.commit_assignment(TopicPartition(found.topic, partition), found.partitions[partition])
        partitions = tuple(sorted({*known.partitions, *found.partitions}))
        self.topics[found.topic] = Topic(known.topic_id, found.version, partitions)

    def commit_reassignments_dropped(self, topic: str) -> None:
        """A topic that is being deleted is no longer reassigned: all its replicas, old and new, must go."""
        for topic_partition in self.partitions_of(topic):
            moving = self.reassignments.pop(topic_partition, None)
            if moving is not None:
                self.commit_assignment(topic_partition, moving.stored)
            self.removals.pop(topic_partition, None)

    def stored_assignment(self, topic_partition: TopicPartition) -> ReplicaAssignment:
        """As the topic node has it; while a reassignment ends, memory is ahead of the store (S0, step 6)."""
        moving = self.reassignments.get(topic_partition)
        return moving.stored if moving is not None else self.assignments[topic_partition]

    def is_queued_for_deletion(self, topic: str) -> bool:
        return topic in self.topics_to_delete

    def topic_setting(self, topic: str, name: str) -> str | None:
        """The topic's override, else the dynamic default of the cluster, else None: our own setting."""
        override = self.topic_configs.get(topic, {}).get(name)
        if override is not None:
            return override
        for level in (str(self.broker), CLUSTER_DEFAULT):
            dynamic = self.broker_configs.get(level, {}).get(name)
            if dynamic is not None:
                return dynamic
        return None

    def is_unclean_election_allowed(self, topic: str) -> bool:
        configured = self.topic_setting(topic, "unclean.leader.election.enable")
        if configured is None:
            return self.settings.unclean_leader_election_enable
        return configured.strip(AROUND_VALUES).lower() == "true"

    def deletes_with_offline_replicas(self) -> bool:
        """odradek.delete.topic.with.offline.replicas, which may be set while we lead."""
        for level in (str(self.broker), CLUSTER_DEFAULT):
            dynamic = self.broker_configs.get(level, {}).get("odradek.delete.topic.with.offline.replicas")
            if dynamic is not None:
                return dynamic.strip(AROUND_VALUES).lower() == "true"
        return self.settings.delete_topic_with_offline_replicas

    def effective_min_isr(self, topic_partition: TopicPartition) -> int:
        """min.insync.replicas, but never more than there are replicas (row 157)."""
        assignment = self.assignments.get(topic_partition)
        replicas = len(assignment.replicas) if assignment is not None else 1
        return min(self.min_insync_replicas(topic_partition.topic), replicas)

    def eligible(self, topic_partition: TopicPartition) -> tuple[BrokerId, ...]:
        """Who may lead without loss although outside the ISR: nobody, once the ISR is large enough by what
        min.insync.replicas says *now*, for then records are committed without them (KIP-966)."""
        state = self.leadership(topic_partition)
        if state is None or not state.elr or len(state.isr) >= self.effective_min_isr(topic_partition):
            return ()
        return state.elr

    def min_insync_replicas(self, topic: str) -> int:
        """As leaders read it: what is none of its values is as if it were not set."""
        try:
            number = parse_value(TOPIC_SETTINGS[MIN_ISR], self.topic_setting(topic, MIN_ISR))
        except ConfigurationError:
            number = None
        return self.settings.min_insync_replicas if number is None else int(number)

    # --------------------------------------------------------------------------------------- partitions

    def partition_state(self, topic_partition: TopicPartition) -> PartitionState:
        """An unknown partition does not exist (row 16)."""
        return self.partition_states.get(topic_partition, PartitionState.NON_EXISTENT)

    def replica_state(self, topic_partition: TopicPartition, broker: BrokerId) -> ReplicaState:
        """An unknown replica does not exist (row 61)."""
        unusual = self.replica_state_overrides.get(topic_partition)
        if unusual is not None and broker in unusual:
            return unusual[broker]
        assignment = self.assignments.get(topic_partition)
        if assignment is not None and broker in assignment.replicas:
            return ReplicaState.ONLINE
        return ReplicaState.NON_EXISTENT

    def leadership(self, topic_partition: TopicPartition) -> LeaderAndIsr | None:
        stored = self.leaderships.get(topic_partition)
        return stored.leader_and_isr if stored is not None else None

    def commit_assignment(self, topic_partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Remember who is assigned. A replica's state does not change by this: one that becomes assigned
        does not exist yet, one that is no longer assigned stays what it was until it is moved."""
        before = self.assignments.get(topic_partition)
        if before == assignment:
            return
        old = before.replicas if before is not None else ()
        if old == assignment.replicas:  # what is being added and removed, of the same replicas
            self.assignments[topic_partition] = assignment
            return
        states = {
            broker: self.replica_state(topic_partition, broker) for broker in {*old, *assignment.replicas}
        }
        states.update(self.replica_state_overrides.get(topic_partition, {}))
        self.assignments[topic_partition] = assignment
        for broker in old:
            if broker not in assignment.replicas:
                self.partitions_on[broker].discard(topic_partition)
        for broker in assignment.replicas:
            self.partitions_on.setdefault(broker, set()).add(topic_partition)
        self._set_replica_states(topic_partition, states)

    def commit_leadership(self, topic_partition: TopicPartition, stored: StoredPartitionState) -> None:
        self.leaderships[topic_partition] = stored

    def commit_partition_state(self, topic_partition: TopicPartition, state: PartitionState) -> None:
        if state is PartitionState.NON_EXISTENT:
            self.partition_states.pop(topic_partition, None)
        else:
            self.partition_states[topic_partition] = state
        if state is PartitionState.NEW or state is PartitionState.OFFLINE:
            self.leaderless.add(topic_partition)
        else:
            self.leaderless.discard(topic_partition)
            # With a leader survivors get other ends: should it die, they are asked anew.
            self.polls.pop(topic_partition, None)

    def commit_replica_states(
        self, topic_partition: TopicPartition, states: Mapping[BrokerId, ReplicaState]
    ) -> None:
        known = self.replica_state_overrides.get(topic_partition)
        self._set_replica_states(topic_partition, {**known, **states} if known is not None else states)

    def commit_many_replica_states(
        self, planned: Mapping[TopicPartition, Mapping[BrokerId, ReplicaState]]
    ) -> None:
        """As `commit_replica_states` for each; most are of one replica that goes, or comes back."""
        unusual, assignments = self.replica_state_overrides, self.assignments
        for topic_partition, states in planned.items():
            if len(states) == 1:
                ((broker, state),) = states.items()
                known = unusual.get(topic_partition)
                assignment = assignments.get(topic_partition)
                if (
                    assignment is not None
                    and broker in assignment.replicas
                    and (known is None or known.keys() == states.keys())
                ):
                    if state is not ReplicaState.ONLINE:
                        unusual[topic_partition] = states
                    elif known is not None:
                        del unusual[topic_partition]
                    continue
            self.commit_replica_states(topic_partition, states)

    def commit_partition_gone(self, topic_partition: TopicPartition) -> None:
        assignment = self.assignments.pop(topic_partition, None)
        for broker in assignment.replicas if assignment is not None else ():
            self.partitions_on[broker].discard(topic_partition)
        self.reassignments.pop(topic_partition, None)
        self.removals.pop(topic_partition, None)
        self.polls.pop(topic_partition, None)
        self.leaderships.pop(topic_partition, None)
        self.partition_states.pop(topic_partition, None)
        self.replica_state_overrides.pop(topic_partition, None)
        self.leaderless.discard(topic_partition)
        self._forget_failures((topic_partition,))

    def _forget_failures(self, gone: Collection[TopicPartition]) -> None:
        for broker, failed in list(self.offline_directories.items()):
            if not failed.isdisjoint(gone):
                left = failed.difference(gone)
                if left:
                    self.offline_directories[broker] = left
                else:  # its disks are whole, and so perhaps is everybody's (`all_log_dirs_online`)
                    del self.offline_directories[broker]

    def _set_replica_states(
        self, topic_partition: TopicPartition, states: Mapping[BrokerId, ReplicaState]
    ) -> None:
        """Keep only what differs from the usual: assigned and online, or not assigned and not existing."""
        assignment = self.assignments.get(topic_partition)
        assigned = assignment.replicas if assignment is not None else ()
        unusual: Mapping[BrokerId, ReplicaState] = states
        for broker, state in states.items():
            if state is (ReplicaState.ONLINE if broker in assigned else ReplicaState.NON_EXISTENT):
                unusual = {
                    b: s
                    for b, s in states.items()
                    if s is not (ReplicaState.ONLINE if b in assigned else ReplicaState.NON_EXISTENT)
                }
                break
        if unusual:
            self.replica_state_overrides[topic_partition] = unusual
        else:
            self.replica_state_overrides.pop(topic_partition, None)

    # --------------------------------------------------------------------------------------------- time

    def commit_deadline(self, name: str, at_ms: int) -> None:
        """Do this then; an earlier request for the same stands."""
        self.deadlines[name] = min(at_ms, self.deadlines.get(name, at_ms))

    def commit_due(self, now_ms: int) -> tuple[str, ...]:
        """What is due by now, once."""
        due = tuple(sorted(name for name, at_ms in self.deadlines.items() if at_ms <= now_ms))
        for name in due:
            del self.deadlines[name]
        return due

    # --------------------------------------------------------------------------------------------- copy

    def fork(self) -> "ControllerContext":
        """A copy for what-if questions: its commits do not touch ours."""
        return ControllerContext(
            broker=self.broker,
            controller_epoch=self.controller_epoch,
            epoch_version=self.epoch_version,
            settings=self.settings,
            id_seed=self.id_seed,
            ids_given=self.ids_given,
            brokers=dict(self.brokers),
            last_epochs=dict(self.last_epochs),
            shutting_down_brokers=set(self.shutting_down_brokers),
            offline_directories=dict(self.offline_directories),
            topics=dict(self.topics),
            topic_names=dict(self.topic_names),
            assignments=dict(self.assignments),
            leaderships=dict(self.leaderships),
            partition_states=dict(self.partition_states),
            replica_state_overrides=dict(self.replica_state_overrides),
            partitions_on={broker: set(partitions) for broker, partitions in self.partitions_on.items()},
            leaderless=set(self.leaderless),
            reassignments=dict(self.reassignments),
            removals={tp: dict(brokers) for tp, brokers in self.removals.items()},
            pending_deletions={broker: dict(kept) for broker, kept in self.pending_deletions.items()},
            pending_deletions_sent=dict(self.pending_deletions_sent),
            stops_sent=self.stops_sent,
            deletions_told={broker: dict(told) for broker, told in self.deletions_told.items()},
            legacy_reassignments=dict(self.legacy_reassignments),
            polls=dict(self.polls),
            polls_begun=self.polls_begun,
            elections_asked=dict(self.elections_asked),
            topics_to_delete=set(self.topics_to_delete),
            deletions_requested=self.deletions_requested,
            out_of_service=dict(self.out_of_service),
            topic_configs=dict(self.topic_configs),
            broker_configs=dict(self.broker_configs),
            producer_ids=self.producer_ids,
            deadlines=dict(self.deadlines),
        )
