"""The settle loop without waiting: hand writes to a store that answers at once, until the event is done.

`server/controller_term` does the same with a store one has to wait for. Tests, what-if and replay use this.
"""

from collections.abc import Callable

from odradek.controller.core import ControllerCore
from odradek.controller.effects import CreatePartitionState, Effects, Write
from odradek.controller.events import Event, Stored, WriteAnswer, WritesAnswered

AnswerWrites = Callable[[tuple[Write, ...]], tuple[WriteAnswer, ...]]


def settle(core: ControllerCore, event: Event, now_ms: int, answer: AnswerWrites | None = None) -> Effects:
    """Everything the event led to, follow-up events included, as one Effects without writes."""
    answer = answer or always_stored
    done = Effects()
    events = [event]
    while events:
        effects = core.step(events.pop(0), now_ms)
        while effects.writes:
            effects = core.step(WritesAnswered(answer(effects.writes)), now_ms)
        done = Effects(
            requests=done.requests + effects.requests,
            changes=done.changes + effects.changes,
            answers=done.answers + effects.answers,
            resign=done.resign or effects.resign,
        )
        events = [*effects.follow_up, *events]
    return done


def always_stored(writes: tuple[Write, ...]) -> tuple[WriteAnswer, ...]:
    """A store in which nobody else writes."""
    return tuple(
        Stored(0 if isinstance(write, CreatePartitionState) else getattr(write, "expected_version", -1) + 1)
        for write in writes
    )
