"""Between the broker's words and the controller's: what a peer asks as an event, what is answered back.

The two speak of the same things with types of their own, because neither room may import the other.
"""

from odradek.broker import effects as broker
from odradek.controller import effects, events


def event_of(request: broker.ControllerRequest) -> events.Event:
    ask, request_id = request.ask, request.request_id
    match ask:
        case broker.AlterPartitionAsked():
            return _alter_partition(request_id, ask)
        case broker.AllocateProducerIdsAsked():
            return events.AllocateProducerIdsRequested(request_id, ask.broker, ask.broker_epoch)
        case broker.ControlledShutdownAsked():
            return events.ControlledShutdownRequested(request_id, ask.broker, ask.broker_epoch)
        case broker.ElectLeadersAsked():
            return events.ElectLeadersRequested(request_id, ask.unclean, ask.partitions)
        case broker.AlterReassignmentsAsked():
            return events.AlterReassignmentsRequested(request_id, ask.targets)
        case broker.ListReassignmentsAsked():
            return events.ListReassignmentsRequested(request_id, ask.partitions)


def _alter_partition(request_id: int, ask: broker.AlterPartitionAsked) -> events.AlterPartitionRequested:
    return events.AlterPartitionRequested(
        request_id=request_id,
        version=ask.version,
        broker=ask.broker,
        broker_epoch=ask.broker_epoch,
        partitions=tuple(
            events.AlterPartitionItem(
                topic=item.topic,
                topic_id=item.topic_id,
                partition=item.partition,
                leader_epoch=item.leader_epoch,
                partition_epoch=item.partition_epoch,
                new_isr=tuple(events.IsrMember(m.broker, m.broker_epoch) for m in item.new_isr),
                leader_recovery_state=item.leader_recovery_state,
            )
            for item in ask.partitions
        ),
    )


def answer_of(body: effects.AnswerBody) -> broker.ControllerAnswer:
    match body:
        case effects.AlterPartitionAnswer():
            return broker.AlterPartitionAnswered(body.error, tuple(map(_outcome, body.partitions)))
        case effects.AllocateProducerIdsAnswer():
            return broker.AllocateProducerIdsAnswered(body.error, body.first_producer_id, body.length)
        case effects.ControlledShutdownAnswer():
            return broker.ControlledShutdownAnswered(body.error, body.remaining)
        case effects.ElectLeadersAnswer():
            return broker.ElectLeadersAnswered(body.error, body.partitions, body.elected)
        case effects.AlterReassignmentsAnswer():
            return broker.AlterReassignmentsAnswered(body.error, body.message, body.partitions)
        case effects.ListReassignmentsAnswer():
            return broker.ListReassignmentsAnswered(body.error, body.partitions)


def _outcome(result: effects.AlterPartitionResult) -> broker.AlterPartitionOutcome:
    return broker.AlterPartitionOutcome(
        topic=result.topic_partition.topic if result.topic_partition is not None else None,
        topic_id=result.topic_id,
        partition=result.partition,
        error=result.error,
        leader_and_isr=result.leader_and_isr,
    )
