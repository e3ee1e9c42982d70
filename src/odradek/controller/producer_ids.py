"""Producer ids are given out in blocks of 1000, so that a broker asks once for many producers (KIP-730).

The node holds the last block; the next one begins after it. A block that was written and whose answer got
lost is never given again: ids may be skipped, never doubled.
"""

from odradek.controller.context import ControllerContext
from odradek.controller.effects import Answer, Write, WriteProducerIdBlock
from odradek.controller.events import Conflict, Stored, WriteAnswer
from odradek.controller.plan import Plan
from odradek.controller.task import Task
from odradek.model.controller_requests import AllocateProducerIdsAnswer, AllocateProducerIdsAsked
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import ProducerIdBlock
from odradek.model.ids import BrokerId
from odradek.model.values import dataclass

BLOCK_SIZE = 1000
LAST_PRODUCER_ID = 2**63 - 1


def refusal(context: ControllerContext, asked: AllocateProducerIdsAsked) -> ErrorCode | None:
    registration = context.brokers.get(asked.broker)
    if registration is None:
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    if asked.broker_epoch != registration.epoch:
        return ErrorCode.STALE_BROKER_EPOCH
    return None


@dataclass(frozen=True, slots=True)
class AllocateProducerIds(Task):
    request_id: int
    broker: BrokerId

    def reason(self) -> str:
        return f"broker {self.broker} asked for producer ids"

    def plan(self, plan: Plan) -> None:
        last = plan.context.producer_ids
        if last is None:
            # The node cannot be read, so nobody knows which ids were given out: rather none than one twice.
            plan.outcomes["block"] = None
            return
        start = last.block_end + 1
        if start > LAST_PRODUCER_ID - BLOCK_SIZE:
            plan.outcomes["block"] = None
            return
        block = ProducerIdBlock(self.broker, start, start + BLOCK_SIZE - 1, last.version)
        plan.outcomes["block"] = block
        plan.other_writes.append(WriteProducerIdBlock(block, last.version))
        plan.note("producer ids", str(self.broker), str(last.block_end), str(block.block_end))

    def commit_answer(self, context: ControllerContext, write: Write, answer: WriteAnswer) -> bool:
        assert isinstance(write, WriteProducerIdBlock)
        if isinstance(answer, Stored):
            block = write.block
            context.producer_ids = ProducerIdBlock(
                block.broker, block.block_start, block.block_end, answer.version
            )
            return False
        assert isinstance(answer, Conflict)
        # Ours or not, that block is taken: go on after it. A node that is gone or cannot be read ends it.
        context.producer_ids = answer.current if isinstance(answer.current, ProducerIdBlock) else None
        return True

    def answers(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Answer, ...]:
        block = outcomes["block"]
        if block is None:
            return (Answer(self.request_id, AllocateProducerIdsAnswer(ErrorCode.UNKNOWN_SERVER_ERROR)),)
        assert isinstance(block, ProducerIdBlock)
        return (
            Answer(self.request_id, AllocateProducerIdsAnswer(ErrorCode.NONE, block.block_start, BLOCK_SIZE)),
        )
