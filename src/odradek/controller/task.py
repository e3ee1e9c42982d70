"""A task: one piece of work inside an event, planned in one go and stored in one batch.

An event is a short list of tasks (a bounced broker: failure, then start-up). Each is planned on the context
its predecessor left behind. A task is a value with everything it needs to be planned again after a conflict:
no suspended function, so that a controller can be copied, printed and asked what-if at any point.
"""

from collections.abc import Mapping

from odradek.controller.context import ControllerContext
from odradek.controller.effects import Answer, Write
from odradek.controller.events import Event, WriteAnswer
from odradek.controller.plan import Plan
from odradek.model.ids import TopicPartition

LED_ANEW = object()  # among the outcomes of any task


class Task:
    """Every verb but `plan` is optional."""

    __slots__ = ()

    def reason(self) -> str:
        """Why this happens, as a sentence: it stands in every change of the task."""
        return type(self).__name__

    def commit_facts(self, context: ControllerContext) -> None:
        """Before planning, once: put into memory what the store already holds. No decision here."""

    def plan(self, plan: Plan) -> None:
        """Write on the plan what this task wants. Reads the context, changes nothing."""
        raise NotImplementedError

    def commit_answer(self, context: ControllerContext, write: Write, answer: WriteAnswer) -> bool:
        """The store answered a write of `plan.other_writes`. True: plan the task again, whole."""
        return False

    def answers(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Answer, ...]:
        """After the last write: what to answer to whoever asked."""
        return ()

    def commit_done(self, context: ControllerContext, outcomes: dict[object, object], now_ms: int) -> None:
        """After the last write, once: put into memory what follows from all of it together."""

    def follow_up(self, context: ControllerContext, outcomes: dict[object, object]) -> tuple[Event, ...]:
        """The next phase of a work of several steps: events of their own, each kept in the store before the next is planned."""
        return ()


def led_anew(outcomes: Mapping[object, object]) -> tuple[TopicPartition, ...]:
    """Partitions that are being reassigned, and whose leader or ISR the task has changed. Whoever elects asks for them whether
    the reassignment can go on (`steps_after`): a leader that was elected alone into the target has no ISR to ask for, and
    nothing else would make it go on.
    """
    found = outcomes.get(LED_ANEW, ())
    assert isinstance(found, tuple)
    return found
