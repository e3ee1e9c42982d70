"""What a controller owes to brokers when a step of its is done, and no state of its own shows: judged after every step, by `Watch`.

Whom it has to tell what, what it has to remember of whom it does not wait for, and that nothing waits that could go on.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from operator import is_
from typing import Any, NamedTuple

from odradek.controller import replica_removal, topic_deletion, unclean
from odradek.controller.broker_requests import LeaderAndIsrRequest, StopReplicaRequest
from odradek.controller.context import ControllerContext, ReassignmentPhase
from odradek.controller.states import DELETED, ReplicaState
from odradek.model.facts import StoredPartitionState
from odradek.model.ids import BrokerEpoch, BrokerId, TopicPartition
from odradek.sim.checkers.history import Anomaly

INELIGIBLE = ReplicaState.DELETION_INELIGIBLE
Stored = dict[TopicPartition, StoredPartitionState]


class Queue(NamedTuple):
    """What one incarnation of a broker is still to be told, the next one first. The same request is the same object."""

    broker: BrokerId
    epoch: BrokerEpoch
    requests: tuple[Any, ...]


class ControllerDuties:
    """Of one controller after another."""

    def __init__(self) -> None:
        self._context: ControllerContext | None = None
        self._stored: Stored = {}
        self._removals: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        self._lives: dict[tuple[TopicPartition, BrokerId], BrokerEpoch] = {}  # in which somebody is eligible
        self._queues: dict[BrokerId, Queue] = {}
        self._there: dict[BrokerId, BrokerEpoch] = {}  # when it rested last
        # Since it rested last: partitions with another leader epoch, and who led before; and who was told of which.
        self._led_anew: dict[TopicPartition, BrokerId | None] = {}
        self._told: set[tuple[BrokerId, TopicPartition]] = set()

    def observe(
        self, context: ControllerContext, effects: Any, queues: Iterable[Queue], *, is_resting: bool
    ) -> list[Anomaly]:
        if context is not self._context:
            self._context = context
            self._stored = dict(context.leaderships)
            self._removals, self._lives, self._queues, self._there = {}, {}, {}, {}
            self._led_anew, self._told = {}, set()
        found = [*self._queues_are_kept(context, queues)]
        changed = self._changed(context)
        if changed:
            found += _too_many_eligible(context, changed)
            found += self._recovers_from_nothing(context, changed)
            found += self._eligible_no_more(context, changed)
            self._note_epochs(context, changed)
        if self._led_anew:
            self._note_told(effects.requests)
        found += self._forgotten(context)
        if is_resting:
            found += self._not_told(context)
            found += self._in_another_life(context)
            found += self._not_remembered(context)
            found += _could_go_on(context)
            if context.polls or context.removals or context.topics_to_delete or context.offline_directories:
                found += _never_again(context)
                found += _of_nothing(context)
        return found

    def _changed(self, context: ControllerContext) -> dict[TopicPartition, StoredPartitionState | None]:
        """What was stored by this step, and what was before."""
        before, now = self._stored, context.leaderships
        changed = {tp: before.get(tp) for tp, stored in now.items() if before.get(tp) is not stored}
        if changed or len(before) != len(now):
            self._stored = dict(now)
        return changed

    def _queues_are_kept(self, context: ControllerContext, queues: Iterable[Queue]) -> Iterator[Anomaly]:
        """QueueIsKept: what a broker is to be told waits in one order, and is of the life of it that is registered."""
        before, self._queues = self._queues, {}
        for queue in queues:
            registration = context.brokers.get(queue.broker)
            if registration is not None and registration.epoch != queue.epoch:
                yield Anomaly(
                    "QueueIsKept",
                    None,
                    f"the queue of broker {queue.broker} is of its life {queue.epoch}, and {registration.epoch} is registered",
                )
            if not queue.requests:
                continue
            self._queues[queue.broker] = queue
            known = before.get(queue.broker)
            if known is None or known.epoch != queue.epoch:
                continue
            if len(queue.requests) <= len(known.requests) and all(map(is_, queue.requests, known.requests)):
                continue  # at most the last ones are gone
            places = {id(request): place for place, request in enumerate(known.requests)}
            order = [places.get(id(request), len(places)) for request in queue.requests]
            if order != sorted(order):
                yield Anomaly(
                    "QueueIsKept",
                    None,
                    f"broker {queue.broker} is to be told in another order: of those that waited before, {order}",
                )

    def _note_epochs(
        self, context: ControllerContext, changed: dict[TopicPartition, StoredPartitionState | None]
    ) -> None:
        for partition, before in changed.items():
            epoch = context.leaderships[partition].leader_and_isr.leader_epoch
            if before is None or before.leader_and_isr.leader_epoch != epoch:
                former = None if before is None else before.leader_and_isr.leader
                self._led_anew.setdefault(partition, former)
                self._told = {(b, tp) for b, tp in self._told if tp != partition}

    def _note_told(self, requests: Iterable[Any]) -> None:
        for request in requests:
            if isinstance(request, LeaderAndIsrRequest | StopReplicaRequest):
                self._told.update((request.broker, one.topic_partition) for one in request.partitions)

    def _not_told(self, context: ControllerContext) -> Iterator[Anomaly]:
        """EpochIsTold: of a leader, in its epoch, every assigned replica on a registered broker is told once that is stored: one that
        is not told follows somebody else, or leads. Of those that are leaving only who has led must hear of it, and who was told to
        delete its replica must not."""
        if not self._led_anew:
            return
        led_anew, told = self._led_anew, self._told
        self._led_anew, self._told = {}, set()
        for partition, former in led_anew.items():
            stored, assignment = context.leaderships.get(partition), context.assignments.get(partition)
            if stored is None or assignment is None or partition.topic in context.topics_to_delete:
                continue
            state = stored.leader_and_isr
            for broker in assignment.replicas if state.leader >= 0 else ():
                if (
                    broker in context.brokers
                    and (broker, partition) not in told
                    and (broker not in context.shutting_down_brokers or broker == former)
                    and context.replica_state(partition, broker) not in DELETED
                    and partition not in context.offline_directories.get(broker, ())
                    and partition not in context.pending_deletions.get(broker, ())
                ):
                    yield Anomaly(
                        "EpochIsTold",
                        partition,
                        f"broker {state.leader} leads in epoch {state.leader_epoch}, and broker {broker} is not told",
                    )

    def _forgotten(self, context: ControllerContext) -> Iterator[Anomaly]:
        """LeaverIsRemembered: a replica that was told to delete its data and whose broker died before it has said so is told again
        when that returns."""
        before = self._removals
        if not before and not context.removals:
            return
        self._removals = {tp: tuple(owing) for tp, owing in context.removals.items()}
        for partition, brokers in before.items():
            assignment = context.assignments.get(partition)
            if assignment is None or partition.topic in context.topics_to_delete:
                continue
            for broker in brokers:
                if (
                    broker not in context.brokers
                    and broker not in context.removals.get(partition, ())
                    and broker not in assignment.replicas
                    and partition not in context.pending_deletions.get(broker, ())
                ):
                    yield Anomaly(
                        "LeaverIsRemembered",
                        partition,
                        f"broker {broker} died before it had deleted its replica, and nobody will tell it to",
                    )

    def _eligible_no_more(
        self, context: ControllerContext, changed: Mapping[TopicPartition, StoredPartitionState | None]
    ) -> Iterator[Anomaly]:
        """EligibleIsKept: who leaves an ISR under the same leader that is too small then is eligible (KIP-966). Not judged of who came
        back, is in doubt, has lost a disk or is to delete what it has."""
        for partition, before in changed.items():
            assignment = context.assignments.get(partition)
            if before is None or assignment is None or partition.topic in context.topics_to_delete:
                continue
            was, now = before.leader_and_isr, context.leaderships[partition].leader_and_isr
            needed = min(context.min_insync_replicas(partition.topic), len(assignment.replicas))
            # Who left while the others were still enough is not eligible.
            if len({*now.isr, *now.elr}) >= needed or now.leader_recovery_state > was.leader_recovery_state:
                continue
            if len(was.isr) < needed or was.leader != now.leader:
                continue
            lives = dict(zip(was.isr, before.isr_broker_epochs, strict=False))
            for broker in was.isr:
                registration = context.brokers.get(broker)
                epoch = context.last_epochs.get(broker) if registration is None else registration.epoch
                if (
                    broker not in (*now.isr, *now.elr, *was.last_known_elr)
                    and broker in assignment.replicas
                    and epoch in (lives.get(broker, epoch), -1)
                    and epoch == self._there.get(broker, epoch)
                    and partition not in context.offline_directories.get(broker, ())
                    and partition not in context.pending_deletions.get(broker, ())
                    and partition not in context.removals
                    and partition not in context.reassignments
                ):
                    yield Anomaly(
                        "EligibleIsKept",
                        partition,
                        f"broker {broker} had all of it, and is eligible no more: the ISR was {list(was.isr)}, eligible "
                        f"{list(was.elr)}, and they are {list(now.isr)} and {list(now.elr)}",
                    )

    def _recovers_from_nothing(
        self, context: ControllerContext, changed: Mapping[TopicPartition, StoredPartitionState | None]
    ) -> Iterator[Anomaly]:
        """UncleanIsTold: the state says that records may be lost if, and only if, who leads anew was neither in the ISR nor eligible. Who
        has just come back may have been so in its former life: eligible, or of an ISR that was away as a whole, and was not of one alone
        with nobody eligible beside it; so may be who is in doubt since. Who proves that it was stopped in order has lost nothing."""
        for partition, before in changed.items():
            if before is None:
                continue
            was, now = before.leader_and_isr, context.leaderships[partition].leader_and_isr
            if now.leader < 0 or now.leader_epoch == was.leader_epoch:
                continue
            is_unclean = now.leader not in (*was.isr, *was.elr)
            is_told = now.leader_recovery_state > was.leader_recovery_state
            stayed = {
                b for b, registration in context.brokers.items() if self._there.get(b) == registration.epoch
            }
            registration = context.brokers.get(now.leader)
            is_back_with_less = (
                registration is not None
                and now.leader not in stayed
                and registration.clean_epoch != context.last_epochs.get(now.leader)
            )
            is_in_doubt = (
                now.leader in was.isr and len({*was.isr, *was.elr}) > 1 and stayed.isdisjoint(was.isr)
            )
            # All of the ISR may have lost records, and so may it.
            if now.leader in was.last_known_elr and set(was.isr) <= set(was.last_known_elr):
                continue
            if is_told and is_back_with_less and (now.leader in was.elr or is_in_doubt):
                continue
            if (is_unclean and not now.leader_recovery_state) or (is_told and not is_unclean):
                yield Anomaly(
                    "UncleanIsTold",
                    partition,
                    f"broker {now.leader} leads after the ISR {list(was.isr)}, eligible {list(was.elr)}, and the recovery state is "
                    f"{now.leader_recovery_state}",
                )

    def _not_remembered(self, context: ControllerContext) -> Iterator[Anomaly]:
        """GoneIsRemembered: in which life a broker went is known, by which its next one is told from it; and nothing else that it said of
        itself is kept."""
        before = self._there
        self._there = {broker: registration.epoch for broker, registration in context.brokers.items()}
        for broker, epoch in before.items():
            if broker not in self._there and context.last_epochs.get(broker, -1) < epoch:
                yield Anomaly(
                    "GoneIsRemembered",
                    None,
                    f"broker {broker} went in its life {epoch}, and {context.last_epochs.get(broker)} is remembered",
                )
        of_brokers = (
            context.shutting_down_brokers,
            context.offline_directories,
            context.pending_deletions_sent,
        )
        strangers = frozenset[BrokerId]().union(*of_brokers) - self._there.keys()
        if strangers:
            yield Anomaly(
                "GoneIsRemembered",
                None,
                f"brokers {sorted(strangers)} are not there, and leave, lack disks, or were told to delete something",
            )

    def _in_another_life(self, context: ControllerContext) -> Iterator[Anomaly]:
        """EligibleInItsLife: who is eligible has not been restarted since, but after a clean stop: it may have lost what it had."""
        before, self._lives = self._lives, {}
        for partition, stored in context.leaderships.items():
            if partition.topic in context.topics_to_delete:
                continue
            for broker in stored.leader_and_isr.elr:
                known = before.get((partition, broker))
                registration = context.brokers.get(broker)
                if registration is None:
                    if known is not None:
                        self._lives[partition, broker] = known
                    continue
                self._lives[partition, broker] = registration.epoch
                if known not in (None, registration.epoch, registration.clean_epoch):
                    yield Anomaly(
                        "EligibleInItsLife",
                        partition,
                        f"broker {broker} is eligible, and has been restarted: it was {known}, and is {registration.epoch}",
                    )


def _too_many_eligible(context: ControllerContext, changed: Iterable[TopicPartition]) -> Iterator[Anomaly]:
    """EligibleWhileTooFew: somebody is eligible outside the ISR only as long as that is smaller than min.insync.replicas: with enough
    of them records are committed without it (KIP-966)."""
    for partition in changed:
        state = context.leaderships[partition].leader_and_isr
        if not state.elr or partition not in context.assignments:
            continue
        needed = min(
            context.min_insync_replicas(partition.topic), len(context.assignments[partition].replicas)
        )
        if len(state.isr) >= needed:
            yield Anomaly(
                "EligibleWhileTooFew",
                partition,
                f"brokers {list(state.elr)} are eligible, and the ISR {list(state.isr)} is large enough",
            )


def _could_go_on(context: ControllerContext) -> Iterator[Anomaly]:
    """ReassignmentGoesOn: none waits, between two events, for what is so already."""
    for partition, moving in context.reassignments.items():
        if partition.topic in context.topics_to_delete:
            continue
        if moving.phase is ReassignmentPhase.STOPPING and not context.removals.get(partition):
            yield Anomaly(
                "ReassignmentGoesOn",
                partition,
                "every removed replica has gone, and it goes on waiting for them",
            )


def _never_again(context: ControllerContext) -> Iterator[Anomaly]:
    """TriesAgain: for whatever waits for more than an answer there is a deadline: a poll ends without those that say nothing, and a live
    broker that could not delete its replica is told so again."""
    deadlines = context.deadlines
    for partition, poll in context.polls.items():
        if deadlines.get(unclean.DEADLINE, poll.deadline_ms + 1) > poll.deadline_ms:
            yield Anomaly(
                "TriesAgain",
                partition,
                f"its poll ends at {poll.deadline_ms}, and there is no deadline by then",
            )
    leaving = [(partition, replica_removal.RETRY) for partition in context.removals]
    going = [
        (tp, topic_deletion.RETRY)
        for topic in context.topics_to_delete
        for tp in context.partitions_of(topic)
    ]
    for partition, deadline in leaving + going:
        for broker, state in context.replica_state_overrides.get(partition, {}).items():
            if state is INELIGIBLE and broker in context.brokers and deadline not in deadlines:
                yield Anomaly(
                    "TriesAgain",
                    partition,
                    f"broker {broker} could not delete its replica, and is not told again",
                )


def _of_nothing(context: ControllerContext) -> Iterator[Anomaly]:
    """GoneIsForgotten: what is remembered of a partition goes with what it is about: its topic, its having no leader, its being moved."""
    for partition in {*context.removals, *context.polls, *chain(*context.offline_directories.values())}:
        if partition not in context.assignments:
            yield Anomaly("GoneIsForgotten", partition, "there is none, and something is remembered of it")
    for partition in context.polls:
        stored = context.leaderships.get(partition)
        if stored is not None and stored.leader_and_isr.leader >= 0:
            yield Anomaly(
                "GoneIsForgotten",
                partition,
                "it has a leader, and brokers are still asked what they hold of it",
            )
    for partition in context.removals:
        if partition.topic in context.topics_to_delete:
            yield Anomaly("GoneIsForgotten", partition, "it is deleted, and its move goes on")
