"""Which tasks follow from which event; who is refused before anything is planned.

One place that names every event: a new one that is missing here does nothing.
"""

from collections.abc import Mapping

from odradek.controller import alter_partition, controlled_shutdown, producer_ids
from odradek.controller.alter_partition import AlterPartition
from odradek.controller.broker_changes import (
    DirectoriesChanged,
    ReannounceReplicas,
    TakeTheirPlace,
    tasks_of_brokers,
)
from odradek.controller.context import ControllerContext
from odradek.controller.controlled_shutdown import ControlledShutdown
from odradek.controller.effects import Answer
from odradek.controller.events import (
    Elected,
    EndOffsetsAnswered,
    Event,
    LeaderAndIsrAnswered,
    ReassignmentStep,
    Requested,
    StopReplicaAnswered,
    TellingsLost,
    Tick,
    UpdateMetadataAnswered,
)
from odradek.controller.failover import (
    Startup,
    newest_controller_epoch,
)
from odradek.controller.metadata_changes import AdoptStates, config_tasks, tasks_of_void
from odradek.controller.pending_deletions import RETRY as RETRY_PENDING_DELETIONS
from odradek.controller.pending_deletions import RetryPendingDeletions, answered_by
from odradek.controller.producer_ids import AllocateProducerIds
from odradek.controller.reassignment import tasks_of_step
from odradek.controller.reassignment_requests import list_answer
from odradek.controller.reassignment_requests import tasks_of_node as tasks_of_reassignment_node
from odradek.controller.reassignment_requests import tasks_of_request as tasks_of_reassignments
from odradek.controller.rebalance_leaders import CHECK as IMBALANCE_CHECK
from odradek.controller.rebalance_leaders import FIRST_CHECK_MS, tasks_of_check
from odradek.controller.rebalance_leaders import tasks_of_node as tasks_of_election_node
from odradek.controller.rebalance_leaders import tasks_of_request as tasks_of_election
from odradek.controller.replica_removal import RETRY as RETRY_REMOVALS
from odradek.controller.replica_removal import RetryRemovals
from odradek.controller.replica_removal import tasks_of_answer as tasks_of_removal_answer
from odradek.controller.states import DELETED, ReplicaState
from odradek.controller.stop_answers import commit_stop_answered
from odradek.controller.task import Task
from odradek.controller.telling_anew import TellAnew
from odradek.controller.topic_changes import GiveTopicIds, OutOfService, tasks_of_assignments, tasks_of_topics
from odradek.controller.topic_deletion import RETRY as RETRY_DELETIONS
from odradek.controller.topic_deletion import (
    CompleteDeletions,
    DeleteTopics,
    ForgetDeletions,
    ResumeDeletions,
    tasks_of_deletions,
    unfinished_names,
)
from odradek.controller.topic_deletion import tasks_of_answer as tasks_of_deletion_answer
from odradek.controller.unassigned import as_assigned
from odradek.controller.unclean import DEADLINE as UNCLEAN_DEADLINE
from odradek.controller.unclean import tasks_of_answer as tasks_of_end_offsets
from odradek.controller.unclean import tasks_of_deadline as tasks_of_unclean_deadline
from odradek.model.controller_requests import (
    AllocateProducerIdsAsked,
    AlterPartitionAsked,
    AlterReassignmentsAsked,
    ControlledShutdownAsked,
    ControllerAsk,
    ElectLeadersAsked,
    ListReassignmentsAsked,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import OdradekError
from odradek.model.facts import (
    BrokersChanged,
    ConfigChanged,
    ControllerChanged,
    DeleteTopicsRequested,
    IsrChangeNotified,
    LogDirFailed,
    PartitionStatesLoaded,
    PreferredElectionRequested,
    ReassignmentRequested,
    StoredPartitionState,
    TopicAssignmentsChanged,
    TopicsChanged,
    UnreadableNode,
)
from odradek.model.ids import BrokerId, TopicPartition


class Resign(OdradekError):
    """We are no longer sure of being controller, or of what we believe. Ends the event and our term."""


def tasks_of(context: ControllerContext, event: Event, now_ms: int) -> list[Task]:
    """What follows from an event, in order. What the store says is remembered on the way."""
    match event:
        case UpdateMetadataAnswered():  # most of them
            _check_answer(context, event.broker, event.error)
            return []
        case LeaderAndIsrAnswered():
            return _told_to_lead(context, event)
        case BrokersChanged():
            return tasks_of_brokers(context, event)
        case TopicsChanged():
            _check_epochs(context, event.states)
            return tasks_of_topics(context, event)
        case TopicAssignmentsChanged():
            return tasks_of_assignments(context, event)
        case IsrChangeNotified() | PartitionStatesLoaded():
            _check_epochs(context, event.states)
            states = {tp: as_assigned(context, tp, known) for tp, known in event.states.items()}
            strange = [found for _, found in sorted(states.items()) if isinstance(found, UnreadableNode)]
            good = {tp: found for tp, found in states.items() if not isinstance(found, UnreadableNode)}
            bad = (*event.unreadable, *strange)
            tasks: list[Task] = [AdoptStates(good)]
            return [OutOfService(bad), *tasks] if bad else tasks
        case LogDirFailed():
            return [ReannounceReplicas(event.brokers)]
        case ConfigChanged():
            return config_tasks(context, event)
        case ControllerChanged():
            if event.controller != context.broker:
                raise Resign(f"/controller names {event.controller}, not {context.broker}")
            return []
        case Requested():
            return _tasks_of_request(context, event.request_id, event.body)
        case DeleteTopicsRequested():
            return tasks_of_deletions(context, event)
        case StopReplicaAnswered():
            _check_answer(context, event.broker, event.error)
            return _tasks_of_stop(context, event)
        case TellingsLost():
            registration = context.brokers.get(event.broker)
            is_there = registration is not None and registration.epoch == event.broker_epoch
            return [TellAnew(event.broker)] if is_there else []  # else it is told everything when it starts
        case ReassignmentStep():
            return tasks_of_step(context, event)
        case ReassignmentRequested():
            return tasks_of_reassignment_node(context, event)
        case PreferredElectionRequested():
            return tasks_of_election_node(context, event)
        case EndOffsetsAnswered():
            return tasks_of_end_offsets(context, event)
        case Tick():
            return _tasks_of_tick(context, context.commit_due(now_ms), now_ms)
        case _:
            return []


def _tasks_of_request(context: ControllerContext, request_id: int, asked: ControllerAsk) -> list[Task]:
    match asked:
        case AlterPartitionAsked():
            return [AlterPartition(request_id, asked)]
        case ControlledShutdownAsked():
            return [ControlledShutdown(request_id, asked.broker)]
        case AllocateProducerIdsAsked():
            return [AllocateProducerIds(request_id, asked.broker)]
        case ElectLeadersAsked():
            return tasks_of_election(context, request_id, asked)
        case AlterReassignmentsAsked():
            return tasks_of_reassignments(context, request_id, asked)
        case ListReassignmentsAsked():  # answered at once
            return []


def tasks_of_election_won(context: ControllerContext, event: Elected, now_ms: int) -> list[Task]:
    """Row 144: the machines, reassignments, deletions, preferred elections; then the clock starts."""
    nameless = tuple(sorted(n.topic for n in event.snapshot.topics if n.topic_id is None))
    tasks: list[Task] = [GiveTopicIds(nameless)] if nameless else []
    tasks.append(Startup())
    if context.pending_deletions:
        # A predecessor may have died before it took out those that are wanted again.
        tasks.append(RetryPendingDeletions())
    tasks += tasks_of_void(context, context.leaderships, "min.insync.replicas was lowered")
    nobodys = tuple(node for node in event.snapshot.unreadable if node.topic is None)
    if nobodys:  # of no topic, so nothing is out of service; but somebody should know
        tasks.append(OutOfService(nobodys))
    tasks += tasks_of_reassignment_node(context, event.snapshot.reassignment)
    tasks += _deletions_taken_up(context)
    tasks += tasks_of_election_node(context, event.snapshot.preferred_election)
    if context.settings.auto_leader_rebalance_enable:
        context.commit_deadline(IMBALANCE_CHECK, now_ms + FIRST_CHECK_MS)
    return tasks


def _deletions_taken_up(context: ControllerContext) -> list[Task]:
    """What a predecessor had begun to delete, and what it had nearly finished."""
    requested = context.topics_to_delete
    if not requested:
        return []
    if not context.settings.delete_topic_enable:
        context.topics_to_delete = set()
        return [ForgetDeletions(tuple(sorted(requested)), "delete.topic.enable is false")]
    context.deletions_requested = frozenset(requested)
    unfinished = unfinished_names(context, requested)
    context.topics_to_delete = {topic for topic in requested if topic in context.topics}
    tasks: list[Task] = []
    if unfinished:
        tasks.append(ForgetDeletions(unfinished, "its node is gone already", with_config=True))
    if context.topics_to_delete:
        tasks.append(
            DeleteTopics(tuple(sorted(context.topics_to_delete)), "deletion taken up by this controller")
        )
        tasks.append(CompleteDeletions())
    return tasks


def _tasks_of_stop(context: ControllerContext, event: StopReplicaAnswered) -> list[Task]:
    registration = context.brokers.get(event.broker)
    if registration is None or registration.epoch != event.broker_epoch:
        return []  # an answer of a broker that has died or bounced since
    event = commit_stop_answered(context, event)
    tasks = [*tasks_of_deletion_answer(context, event), *tasks_of_removal_answer(context, event)]
    answered = answered_by(context, event)
    if answered is not None:
        tasks += [answered, TakeTheirPlace(event.broker, answered.gone)]
    return tasks


def _tasks_of_tick(context: ControllerContext, due: tuple[str, ...], now_ms: int) -> list[Task]:
    tasks: list[Task] = []
    if UNCLEAN_DEADLINE in due:
        tasks += tasks_of_unclean_deadline(context, now_ms)
    if IMBALANCE_CHECK in due:
        tasks += tasks_of_check(context, now_ms)
    if RETRY_DELETIONS in due:
        tasks.append(ResumeDeletions("deletion tried again"))
    if RETRY_REMOVALS in due:
        tasks.append(RetryRemovals())
    if RETRY_PENDING_DELETIONS in due:
        tasks.append(RetryPendingDeletions())
    return tasks


def _told_to_lead(context: ControllerContext, event: LeaderAndIsrAnswered) -> list[Task]:
    """KAFKA_STORAGE_ERROR takes a replica offline, also one that was told as Online what it had lost before; told again without
    that error, it is well (row 150). Not one that has been told to delete since: its answer to StopReplica is on the way, and
    says whether it could. Nor one that is not assigned, whatever its broker says of it.
    """
    _check_answer(context, event.broker, event.error)
    registration = context.brokers.get(event.broker)
    if registration is None or registration.epoch != event.broker_epoch:
        return []  # an answer of a broker that has died or bounced since
    known = context.offline_directories.get(event.broker, frozenset())
    failed = frozenset(
        tp
        for tp, error in event.partition_errors.items()
        if error is ErrorCode.KAFKA_STORAGE_ERROR
        and tp in context.assignments
        and (tp not in known or context.replica_state(tp, event.broker) is ReplicaState.ONLINE)
        and context.replica_state(tp, event.broker) not in DELETED
    )
    recovered: frozenset[TopicPartition] = frozenset()
    if known and event.error is ErrorCode.NONE:  # else it has not looked at them
        well = {p.topic_partition for p in event.told} - set(event.partition_errors)
        recovered = known & well
    return [DirectoriesChanged(event.broker, failed, recovered)] if failed or recovered else []


def _check_answer(context: ControllerContext, broker: BrokerId, error: ErrorCode) -> None:
    """Of the whole request, this error says that the broker obeys a later controller. Of one partition it
    says that the broker had that leader epoch already, which is no reason for anything (row 147)."""
    if error is ErrorCode.STALE_CONTROLLER_EPOCH:
        raise Resign(f"broker {broker} has heard of a controller epoch above {context.controller_epoch}")


def _check_epochs(context: ControllerContext, states: Mapping[TopicPartition, StoredPartitionState]) -> None:
    epoch, where = newest_controller_epoch(states)
    if epoch > context.controller_epoch:
        raise superseded(where, epoch, context.controller_epoch)


def superseded(where: TopicPartition | None, theirs: int, ours: int) -> Resign:
    return Resign(
        f"{where} was written by controller epoch {theirs}, ours is {ours}: another controller leads"
    )


def immediate_answer(context: ControllerContext, event: Event) -> Answer | None:
    """An answer that needs no plan: a refusal of the whole request, or a list."""
    if not isinstance(event, Requested):
        return None
    asked = event.body
    error = None
    match asked:
        case ListReassignmentsAsked():
            return Answer(event.request_id, list_answer(context, asked))
        case AlterPartitionAsked():
            error = alter_partition.refusal(context, asked)
        case ControlledShutdownAsked():
            error = controlled_shutdown.refusal(context, asked)
        case AllocateProducerIdsAsked():
            error = producer_ids.refusal(context, asked)
    return Answer(event.request_id, asked.refused(error)) if error is not None else None


def not_controller(event: Event) -> Answer | None:
    if not isinstance(event, Requested):
        return None
    return Answer(event.request_id, event.body.refused(ErrorCode.NOT_CONTROLLER))
