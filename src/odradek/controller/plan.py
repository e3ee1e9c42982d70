"""A plan: what one event wants to do, written down over a context it does not change.

`plan_*` functions write on it: moves of the state machines, drafts of leadership, whom to tell what. Several
moves of one partition fold here into one draft: one write, one leader epoch, one LeaderAndIsr a replica.

Once the store has answered, `commit` puts the drafts that were stored into the context, and the `Notification`
becomes requests (`requests.py`). A draft that met a conflict is dropped whole, with its changes, and its
partition is planned again on a new plan with `only` set to it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from odradek.controller.context import ControllerContext
from odradek.controller.effects import CreatePartitionState, StateChange, Write, WritePartitionState
from odradek.controller.election import Election, is_doubted, members_that_may_lead
from odradek.controller.leadership import elected, is_enough
from odradek.controller.states import DELETED, PartitionState, ReplicaState
from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.facts import StoredPartitionState
from odradek.model.ids import (
    NO_LEADER,
    UNKNOWN_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    TopicPartition,
    in_order,
)
from odradek.model.values import dataclass, field, replace

NO_REPLICAS = ReplicaAssignment(())


class Question(NamedTuple):
    """What these hold; `may_lose` as in `UncleanPoll`."""

    candidates: tuple[BrokerId, ...]
    may_lose: bool


@dataclass(slots=True)
class Notification:
    """Whom to tell what, once the writes are stored. Values are filled in from the context at that time.

    `leader_and_isr`: broker -> partition -> is it a new replica there (sticky: once new, new, row 150).
    `stops`: broker -> partition -> delete (sticky likewise, row 149).
    `metadata`: partitions every live broker hears of; `bare_metadata` sends even an empty list.
    `metadata_to` None means every registered broker. `stop_epoch` None means the partition's own.
    `is_whole`: the partitions are meant to be all there are; whether they are is seen when the request is built.
    """

    leader_and_isr: dict[BrokerId, dict[TopicPartition, bool]] = field(default_factory=dict)
    stops: dict[BrokerId, dict[TopicPartition, bool]] = field(default_factory=dict)
    metadata: dict[TopicPartition, None] = field(default_factory=dict)
    metadata_to: tuple[BrokerId, ...] | None = None
    bare_metadata: bool = False
    is_whole: bool = False
    stop_epoch: LeaderEpoch | None = (
        None  # for pending deletions: whatever epoch the broker remembers, it must stop
    )

    def merge(self, other: "Notification") -> None:
        """Add what `other` says. Sticky both ways: new stays new, delete stays delete."""
        _merge_flags(self.leader_and_isr, other.leader_and_isr)
        _merge_flags(self.stops, other.stops)
        if self.metadata:
            self.metadata.update(other.metadata)
        else:
            self.metadata = other.metadata
        self.bare_metadata = self.bare_metadata or other.bare_metadata
        self.is_whole = self.is_whole or other.is_whole

    def forget(self, dropped: set[TopicPartition]) -> None:
        for partitions in (*self.leader_and_isr.values(), *self.stops.values()):
            for topic_partition in dropped:
                partitions.pop(topic_partition, None)
        for topic_partition in dropped:
            self.metadata.pop(topic_partition, None)


Flags = dict[BrokerId, dict[TopicPartition, bool]]


def _merge_flags(mine: Flags, others: Flags) -> None:
    for broker, flags in others.items():
        known = mine.get(broker)
        if known:
            for topic_partition, flag in flags.items():
                known[topic_partition] = flag or known.get(topic_partition, False)
        else:
            mine[broker] = flags


class Plan:
    __slots__ = (
        "_elections",
        "_epochs",
        "_minimum",
        "_reasons",
        "_unclean",
        "asks",
        "assignments",
        "changes",
        "context",
        "first_notifications",
        "leaderships",
        "now_ms",
        "only",
        "other_writes",
        "outcomes",
        "partition_states",
        "reason",
        "redrafted",
        "replica_states",
        "telling",
    )

    def __init__(
        self,
        context: ControllerContext,
        reason: str,
        only: frozenset[TopicPartition] | None = None,
        now_ms: int = 0,
    ) -> None:
        self.context = context
        self.reason = reason
        self.now_ms = now_ms
        self.only = only  # None: every partition; else those that are planned again after a conflict
        self.leaderships: dict[TopicPartition, LeaderAndIsr] = {}
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        # Replaced whole, never changed: many partitions may share one value.
        self.replica_states: dict[TopicPartition, Mapping[BrokerId, ReplicaState]] = {}
        self.assignments: dict[TopicPartition, ReplicaAssignment] = {}
        self.other_writes: list[Write] = []
        self.changes: list[StateChange] = []
        self.first_notifications: list[Notification] = []  # said before `telling`, in order
        self.telling = Notification()
        self.asks: dict[TopicPartition, Question] = {}
        self.outcomes: dict[object, object] = {}  # what a request is answered, by partition or item
        self.redrafted: set[TopicPartition] = set()  # drafted more than once
        self._minimum: dict[str, int] = {}
        self._unclean: dict[str, bool] = {}  # unclean.leader.election.enable, likewise
        # What is the same for most partitions is made once: an event may be about 100,000 of them.
        self._elections: dict[object, Election | None] = {}
        self._epochs: dict[tuple[BrokerId, ...], tuple[BrokerEpoch, ...]] = {}
        self._reasons: dict[str, str] = {}

    # ------------------------------------------------------------------------------------------ reading

    def pick(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of `partitions` this plan is about, sorted: a set has no order two runs agree on."""
        return in_order(partitions if self.only is None else self.only.intersection(partitions))

    def partition_state(self, topic_partition: TopicPartition) -> PartitionState:
        planned = self.partition_states.get(topic_partition)
        return planned if planned is not None else self.context.partition_state(topic_partition)

    def replica_state(self, topic_partition: TopicPartition, broker: BrokerId) -> ReplicaState:
        planned = self.replica_states.get(topic_partition)
        if planned is not None and broker in planned:
            return planned[broker]
        return self.context.replica_state(topic_partition, broker)

    def leadership(self, topic_partition: TopicPartition) -> LeaderAndIsr | None:
        drafted = self.leaderships.get(topic_partition)
        if drafted is not None:
            return drafted
        stored = self.context.leaderships.get(topic_partition)
        return stored.leader_and_isr if stored is not None else None

    def assignment(self, topic_partition: TopicPartition) -> ReplicaAssignment:
        planned = self.assignments.get(topic_partition)
        if planned is not None:
            return planned
        return self.context.assignments.get(topic_partition, NO_REPLICAS)

    def is_unclean_election_allowed(self, topic: str) -> bool:
        known = self._unclean.get(topic)
        if known is None:
            known = self._unclean[topic] = self.context.is_unclean_election_allowed(topic)
        return known

    def minimum_of(self, topic: str) -> int:
        """min.insync.replicas, looked up once a topic."""
        known = self._minimum.get(topic)
        if known is None:
            known = self._minimum[topic] = self.context.min_insync_replicas(topic)
        return known

    def eligible(self, topic_partition: TopicPartition) -> tuple[BrokerId, ...]:
        """Who may lead without loss although outside the ISR, by what this very event says as well: who left the ISR by it, and
        without those that may have lost what they had."""
        current = self.leadership(topic_partition)
        if current is None or not current.elr or self.is_enough(topic_partition, current.isr):
            return ()
        return current.elr

    def is_enough(self, topic_partition: TopicPartition, isr: tuple[BrokerId, ...]) -> bool:
        """Whether this ISR commits records (`leadership.is_enough`)."""
        replicas = self.assignment(topic_partition).replicas
        return is_enough(isr, replicas=replicas, minimum=self.minimum_of(topic_partition.topic))

    def may_lead(self, topic_partition: TopicPartition, current: LeaderAndIsr) -> tuple[BrokerId, ...]:
        """Of the ISR, see `members_that_may_lead`; nor one in doubt where others are to be asked what they hold, or are being asked."""
        if not current.last_known_elr:
            return current.isr
        others = self._eligible_here(topic_partition) or self.contenders(topic_partition, current)[1:]
        poll = self.context.polls.get(topic_partition)
        return members_that_may_lead(current, others or (poll.asked if poll is not None else ()))

    def _eligible_here(self, topic_partition: TopicPartition) -> tuple[BrokerId, ...]:
        assigned = self.assignment(topic_partition).replicas
        return tuple([broker for broker in self.eligible(topic_partition) if broker in assigned])

    def contenders(self, topic_partition: TopicPartition, current: LeaderAndIsr) -> tuple[BrokerId, ...]:
        """Where all of the ISR may have lost what they held, and nobody is eligible any more: the live ones of those that had every
        committed record once, of the ISR first. Who has the most is to lead. None: no member of the ISR is live, and it may have
        more than they."""
        known = current.last_known_elr
        if not is_doubted(current) or self._eligible_here(topic_partition):
            return ()
        live = self.candidates(topic_partition)
        members = [broker for broker in live if broker in current.isr]
        others = [broker for broker in live if broker in known and broker not in current.isr]
        return tuple([*members, *others]) if members else ()

    def elected_alike(self, key: object, choose: Callable[[], Election | None]) -> Election | None:
        """The choice made before under the same `key`: all that it depends on, besides who is online. Only while
        `all_log_dirs_online`, for then partitions with the same replicas and ISR have the same candidates."""
        try:
            return self._elections[key]
        except KeyError:
            found = self._elections[key] = choose()
            return found

    def candidates(self, topic_partition: TopicPartition) -> tuple[BrokerId, ...]:
        """Who may lead, perhaps uncleanly: assigned and online, and not told to delete what it has. (A removed replica is never in
        the ISR, so a clean election need not look.)"""
        live = self.context.online_of(self.assignment(topic_partition).replicas, topic_partition)
        if topic_partition in self.replica_states or topic_partition in self.context.replica_state_overrides:
            return tuple([b for b in live if self.replica_state(topic_partition, b) not in DELETED])
        return live

    def must_ask(
        self,
        topic_partition: TopicPartition,
        current: LeaderAndIsr,
        live: tuple[BrokerId, ...],
        *,
        unclean_allowed: bool,
    ) -> bool:
        """An election by what logs hold, with a choice: ask the candidates before choosing (see `unclean`)."""
        poll = self.context.polls.get(topic_partition)
        question = Question(self.contenders(topic_partition, current), may_lose=False)
        # One of two that was only bounced is asked anew in the same event: till the time is up, nobody leads for being alone.
        if not question.candidates or (len(question.candidates) < 2 and poll is None):
            clean = {*self.may_lead(topic_partition, current), *self.eligible(topic_partition)}
            if not unclean_allowed or len(live) < 2 or any(broker in clean for broker in live):
                return False
            question = Question(live, may_lose=True)
        if poll is None or (question.may_lose and not poll.may_lose):
            self.asks[topic_partition] = question
        return True

    # ----------------------------------------------------------------------------------------- drafting

    def elect(self, topic_partition: TopicPartition, election: Election) -> None:
        """Draft a leader: epoch +1, or 0 for a first one. Recovery state 1 stays until AlterPartition."""
        current = self.leadership(topic_partition)
        recovering = 1 if election.unclean else (current.leader_recovery_state if current is not None else 0)
        self.lead(topic_partition, leader=election.leader, isr=election.isr, recovery_state=recovering)
        if election.unclean:  # the history of those that were eligible is not the new leader's
            drafted = self.leaderships[topic_partition]
            known = tuple(b for b in (*drafted.elr, *drafted.last_known_elr) if b != election.leader)
            self.leaderships[topic_partition] = replace(drafted, elr=(), last_known_elr=known)

    def lead(
        self,
        topic_partition: TopicPartition,
        *,
        leader: BrokerId,
        isr: tuple[BrokerId, ...],
        recovery_state: int | None = None,
        raise_epoch: bool = True,
    ) -> None:
        """Draft leader and ISR. Epochs rise by one over what is stored, however often an event drafts.

        `raise_epoch` False is for changes the leader itself asked for (AlterPartition): it leads on.
        """
        node = self.context.leaderships.get(topic_partition)
        drafted = self.leaderships.get(topic_partition)
        if node is None:
            self.leaderships[topic_partition] = LeaderAndIsr(leader, LeaderEpoch(0), isr)
            return
        stored = node.leader_and_isr
        if drafted is not None:
            self.redrafted.add(topic_partition)
        latest = drafted if drafted is not None else stored
        elr, last_known = self.eligible_outside(topic_partition, latest, isr, is_led=leader != NO_LEADER)
        self.leaderships[topic_partition] = elected(
            stored,
            latest,
            leader,
            isr,
            elr=elr,
            last_known_elr=last_known,
            recovery_state=recovery_state,
            raise_epoch=raise_epoch,
        )

    def eligible_outside(
        self,
        topic_partition: TopicPartition,
        before: LeaderAndIsr,
        isr: tuple[BrokerId, ...],
        *,
        is_led: bool,
    ) -> tuple[tuple[BrokerId, ...], tuple[BrokerId, ...]]:
        """Who may lead without loss although it is not in the new ISR (see `eligible`)."""
        assigned = self.assignment(topic_partition).replicas
        if self.is_enough(topic_partition, isr):
            if is_led or not is_doubted(before):
                return (), ()
            # Nothing was committed since: who had everything is still to be asked, but nobody waits for it.
            return (), tuple([b for b in (*before.last_known_elr, *before.elr) if b in assigned])
        has_former = bool(before.elr or before.last_known_elr) and not is_doubted(before)
        if has_former and self.is_enough(topic_partition, before.isr):
            # Records were committed without those that a larger min.insync.replicas had made eligible.
            before = replace(before, elr=(), last_known_elr=())
        eligible, known = eligible_after(before, isr, is_led=is_led)
        # Who leaves because the partition moved away from it deletes what it has, and cannot be called upon.
        return tuple([b for b in eligible if b in assigned]), tuple([b for b in known if b in assigned])

    def forget_eligible(self, topic_partition: TopicPartition, brokers: Iterable[BrokerId]) -> None:
        """These delete what they have, or begin with nothing: neither eligible nor last known."""
        drafted = self.leaderships.get(topic_partition)
        if drafted is not None and (drafted.elr or drafted.last_known_elr):
            gone = frozenset(brokers)
            self.leaderships[topic_partition] = replace(
                drafted,
                elr=tuple([b for b in drafted.elr if b not in gone]),
                last_known_elr=tuple([b for b in drafted.last_known_elr if b not in gone]),
            )

    def mark_unclean(self, topic_partition: TopicPartition, broker: BrokerId, why: str) -> None:
        """This replica may have lost what it had: not eligible any more, only last known to have been, and in
        an ISR without a leader no better than that."""
        drafted = self.leaderships[topic_partition]
        if broker in drafted.elr or broker in drafted.isr:
            known = (*drafted.last_known_elr, broker)
            elr = tuple(b for b in drafted.elr if b != broker)
            self.leaderships[topic_partition] = replace(drafted, elr=elr, last_known_elr=known)
        why = f"broker {broker} {why}"
        after = self.leaderships[topic_partition]
        before = self.context.leadership(topic_partition)
        self.changes.append(
            StateChange("eligible", "eligible", "last known", why, topic_partition, broker, after, before)
        )

    def assign(self, topic_partition: TopicPartition, broker: BrokerId) -> None:
        current = self.assignment(topic_partition)
        if broker not in current.replicas:
            self.assignments[topic_partition] = ReplicaAssignment(
                (*current.replicas, broker), current.adding_replicas, current.removing_replicas
            )

    def unassign(self, topic_partition: TopicPartition, broker: BrokerId) -> None:
        current = self.assignment(topic_partition)
        if broker in current.replicas:
            self.assignments[topic_partition] = ReplicaAssignment(
                tuple(b for b in current.replicas if b != broker),
                tuple(b for b in current.adding_replicas if b != broker),
                tuple(b for b in current.removing_replicas if b != broker),
            )

    # ---------------------------------------------------------------------------------- states, changes

    def mark_partition(
        self,
        topic_partition: TopicPartition,
        source: PartitionState,
        target: PartitionState,
        *,
        replicas: tuple[BrokerId, ...] | None = None,
        why: str = "",
    ) -> None:
        self.partition_states[topic_partition] = target
        elected = self.leaderships[topic_partition] if why else None
        reason = self.reason_with(why)
        self.changes.append(
            StateChange("partition", source, target, reason, topic_partition, None, elected, None, replicas)
        )

    def reason_with(self, why: str) -> str:
        known = self._reasons.get(why)
        if known is None:
            known = self._reasons[why] = f"{self.reason}: {why}" if why else self.reason
        return known

    def mark_replica(
        self, topic_partition: TopicPartition, broker: BrokerId, source: ReplicaState, target: ReplicaState
    ) -> None:
        states = self.replica_states.get(topic_partition)
        self.replica_states[topic_partition] = (
            {broker: target} if states is None else {**states, broker: target}
        )
        self.changes.append(StateChange("replica", source, target, self.reason, topic_partition, broker))

    def note_departure(
        self, topic_partition: TopicPartition, removed: BrokerId, before: LeaderAndIsr
    ) -> None:
        """The ISR lost a member on its way to OfflineReplica."""
        after = self.leaderships[topic_partition]
        self.changes.append(
            StateChange(
                "leadership", "in the ISR", "left", self.reason, topic_partition, removed, after, before
            )
        )

    def forget_replica(
        self, topic_partition: TopicPartition, broker: BrokerId, why: str, *, to: str = "stray"
    ) -> None:
        """Not a move of the machine: it will never answer, so nothing is known of it any more."""
        states = self.replica_states.get(topic_partition, {})
        self.replica_states[topic_partition] = {**states, broker: ReplicaState.NON_EXISTENT}
        self.changes.append(StateChange("warning", "replica", to, why, topic_partition))

    def fail_partition(
        self, topic_partition: TopicPartition, source: PartitionState, target: PartitionState, why: str
    ) -> None:
        self.changes.append(StateChange("failure", source, target, why, topic_partition))

    def fail_replica(
        self,
        topic_partition: TopicPartition,
        broker: BrokerId,
        source: ReplicaState,
        target: ReplicaState,
        why: str,
    ) -> None:
        self.changes.append(StateChange("failure", source, target, why, topic_partition, broker))

    def note(self, kind: str, name: str, source: str, to: str, reason: str | None = None) -> None:
        """A change of something that is no partition."""
        self.changes.append(
            StateChange(kind, source, to, self.reason if reason is None else reason, name=name)
        )

    # ------------------------------------------------------------------------------------------ telling

    def notify_leader_and_isr(self, broker: BrokerId, topic_partition: TopicPartition) -> None:
        """To a registered broker only (C24): nobody else has a queue. And to nobody who was told to delete that replica, or
        has: it would make it anew."""
        if broker not in self.context.brokers:
            return
        planned = self.replica_states.get(topic_partition)
        state = planned.get(broker) if planned is not None else None
        if state is None:
            unusual = self.context.replica_state_overrides.get(topic_partition)
            state = unusual.get(broker) if unusual is not None else None
        if state in DELETED:
            return
        told = self.telling.leader_and_isr.get(broker)
        if told is None:
            told = self.telling.leader_and_isr[broker] = {}
        told[topic_partition] = state is ReplicaState.NEW or told.get(topic_partition, False)

    def notify_leader_and_isr_to(self, brokers: Iterable[BrokerId], topic_partition: TopicPartition) -> None:
        """As `notify_leader_and_isr` to each; nobody among them is new unless the machine says otherwise."""
        if topic_partition in self.replica_states or topic_partition in self.context.replica_state_overrides:
            for broker in brokers:
                self.notify_leader_and_isr(broker, topic_partition)
            return
        registered, told = self.context.brokers, self.telling.leader_and_isr
        for broker in brokers:
            if broker in registered:
                partitions = told.get(broker)
                if partitions is None:
                    partitions = told[broker] = {}
                partitions.setdefault(topic_partition, False)

    def notify_metadata(self, topic_partition: TopicPartition) -> None:
        self.telling.metadata[topic_partition] = None

    def notify_stop(self, broker: BrokerId, topic_partition: TopicPartition, *, delete: bool) -> None:
        if broker not in self.context.brokers:
            return
        stops = self.telling.stops.get(broker)
        if stops is None:
            stops = self.telling.stops[broker] = {}
        if delete or topic_partition not in stops:
            stops[topic_partition] = delete

    # ------------------------------------------------------------------------------- writing, committing

    def writes(self) -> list[Write]:
        """What must be stored before this plan is true, in the order it was planned."""
        epoch = self.context.controller_epoch
        writes: list[Write] = list(self.other_writes)
        stored, known = self.context.leaderships, self._epochs
        new = tuple.__new__  # a constructor costs as much again
        for topic_partition, value in self.leaderships.items():
            before = stored.get(topic_partition)
            if before is None:
                writes.append(CreatePartitionState(topic_partition, value, epoch, self._epochs_of(value.isr)))
            else:
                expected = before.leader_and_isr.partition_epoch
                epochs = known.get(value.isr) or self._epochs_of(value.isr)
                if is_doubted(value):  # release 0.2.0 would let one in doubt lead
                    epochs = (UNKNOWN_BROKER_EPOCH,) * len(epochs)
                eligible = self._epochs_of(value.elr) if value.elr else ()
                fields = topic_partition, value, epoch, expected, epochs, eligible
                writes.append(new(WritePartitionState, fields))
        return writes

    def _epochs_of(self, members: tuple[BrokerId, ...]) -> tuple[BrokerEpoch, ...]:
        """Whose incarnation the ISR, or the eligible, name: the next controller must see who was restarted while nobody
        led. Of one that is gone, the last."""
        known = self._epochs.get(members)
        if known is None:
            registered, last = self.context.brokers, self.context.last_epochs
            known = self._epochs[members] = tuple(
                [
                    registered[b].epoch if b in registered else last.get(b, UNKNOWN_BROKER_EPOCH)
                    for b in members
                ]
            )
        return known

    def drop(self, partitions: set[TopicPartition]) -> None:
        """Nothing of these partitions happened."""
        if not partitions:
            return
        for topic_partition in partitions:
            self.leaderships.pop(topic_partition, None)
            self.partition_states.pop(topic_partition, None)
            self.replica_states.pop(topic_partition, None)
            self.assignments.pop(topic_partition, None)
            self.outcomes.pop(topic_partition, None)
            self.asks.pop(topic_partition, None)
        self.changes = [change for change in self.changes if change.topic_partition not in partitions]
        self.telling.forget(partitions)
        for telling in self.first_notifications:
            # What is pending deletion goes, whatever is stored of the partition.
            if telling.stop_epoch is None:
                telling.forget(partitions)

    def commit(self) -> list[StateChange]:
        """All that is left on the plan is stored: change memory, and say what changed."""
        context = self.context
        epoch = context.controller_epoch
        for topic_partition, assignment in self.assignments.items():
            context.commit_assignment(topic_partition, assignment)
        leaderships = context.leaderships
        for topic_partition, value in self.leaderships.items():
            leaderships[topic_partition] = StoredPartitionState(value, epoch)
        context.commit_many_replica_states(self.replica_states)
        for topic_partition, state in self.partition_states.items():
            context.commit_partition_state(topic_partition, state)
        if self.redrafted:
            self.changes = [self._with_final_leadership(change) for change in self.changes]
        return self.changes

    def _with_final_leadership(self, change: StateChange) -> StateChange:
        """A fold stores only the last draft: a change must not show one that nobody will ever read."""
        if change.leader_and_isr is None or change.topic_partition not in self.redrafted:
            return change
        assert change.topic_partition is not None
        return change._replace(leader_and_isr=self.leaderships[change.topic_partition])


def eligible_after(
    before: LeaderAndIsr, isr: tuple[BrokerId, ...], *, is_led: bool
) -> tuple[tuple[BrokerId, ...], tuple[BrokerId, ...]]:
    """(eligible, last known) once `isr`, which is smaller than min.insync.replicas, takes the place of the old:
    those that leave it now, and those that were eligible before, hold every committed record (KIP-966). But for members that
    may have lost what they held: they are last known until somebody leads them."""
    left = [b for b in before.isr if b not in isr and b not in before.elr and b not in before.last_known_elr]
    eligible = (*[b for b in before.elr if b not in isr], *left)
    known = tuple([b for b in before.last_known_elr if (b not in isr or not is_led) and b not in eligible])
    return eligible, known
