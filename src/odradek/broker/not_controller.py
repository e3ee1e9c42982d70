"""What a broker that is not controller, or is not any more, answers to a question that only the controller may."""

from odradek.broker.effects import (
    AllocateProducerIdsAnswered,
    AllocateProducerIdsAsked,
    AlterPartitionAnswered,
    AlterPartitionAsked,
    AlterReassignmentsAnswered,
    AlterReassignmentsAsked,
    ControlledShutdownAnswered,
    ControlledShutdownAsked,
    ControllerAnswer,
    ControllerAsk,
    ElectLeadersAnswered,
    ElectLeadersAsked,
    ListReassignmentsAnswered,
    ListReassignmentsAsked,
)
from odradek.model.error_codes import ErrorCode

MESSAGE = "This is not the correct controller for this cluster."
ERROR = ErrorCode.NOT_CONTROLLER


def refusal(ask: ControllerAsk) -> ControllerAnswer:
    match ask:
        case AlterPartitionAsked():
            return AlterPartitionAnswered(ERROR)
        case AllocateProducerIdsAsked():
            return AllocateProducerIdsAnswered(ERROR)
        case ControlledShutdownAsked():
            return ControlledShutdownAnswered(ERROR)
        case ElectLeadersAsked():
            return ElectLeadersAnswered(ERROR, dict.fromkeys(ask.partitions or (), (ERROR, "")))
        case AlterReassignmentsAsked():
            return AlterReassignmentsAnswered(ERROR, MESSAGE)
        case ListReassignmentsAsked():
            return ListReassignmentsAnswered(ERROR)
