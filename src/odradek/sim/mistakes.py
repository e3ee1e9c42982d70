"""What raised where nobody expected it: a run that has any ends with 127, however well the cluster coped.

Production survives its own mistakes where it can: a request is refused and asked again, a controller resigns, a
process that stopped is started by whoever watches over it. All of that would pass for one more fault. So a run listens
in four places: callbacks of the loop, errors that are logged with their trace, brokers that stop for anything but an
error with a name of ours, and tasks that fail and that nobody asks how they ended.
"""

import asyncio
import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from odradek.model.errors import OdradekError
from odradek.sim.loop import SimLoop
from odradek.sim.world import SimBroker, World

# Whoever waits for a task is told in a later turn, and a turn may be late: so long a failure may go unasked.
GRACE_S = 1.0
OURS = "a mistake of ours"


class Mistake(NamedTuple):
    where: str
    error: BaseException | None

    def __str__(self) -> str:
        return f"{self.where}: {self.error!r}"

    def traceback(self) -> str:
        return "" if self.error is None else "".join(traceback.format_exception(self.error)).rstrip()


class Mistakes(logging.Handler):
    """Of one world. The first one counts: what follows may follow from it."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self.found: list[Mistake] = []
        self._loop: SimLoop = world.loop
        self._unasked: dict[asyncio.Task[Any], float] = {}
        world.on_broker_stopped.append(self._stopped)

    def first(self, *, grace_s: float = GRACE_S) -> Mistake | None:
        self.check(grace_s=grace_s)
        return self.found[0] if self.found else None

    def check(self, *, grace_s: float = GRACE_S) -> None:
        """`found` holds what there is by now."""
        for context in self._loop.unhandled:
            self.found.append(Mistake(str(context.get("message")), context.get("exception")))
        self._loop.unhandled.clear()
        self._check_failed_tasks(grace_s)

    def emit(self, record: logging.LogRecord) -> None:
        """The handler of the package's logger: what is said with a trace was not expected. A room without logging has its own
        in its text (a coordinator that is loaded again, because it cannot trust what it remembers)."""
        if record.exc_info and record.exc_info[1] is not None:
            self.found.append(Mistake(record.getMessage(), record.exc_info[1]))
        elif OURS in record.getMessage():
            self.found.append(Mistake(record.getMessage(), None))

    def _stopped(self, broker: SimBroker, error: BaseException) -> None:
        if not isinstance(error, OdradekError):
            self.found.append(Mistake(f"{broker.host} stopped", error))

    def _check_failed_tasks(self, grace_s: float) -> None:
        now = self._loop.time()
        failed = self._loop.unasked_failures()
        self._unasked = {task: self._unasked.get(task, now) for task in failed}
        for task, since in self._unasked.items():
            if now - since >= grace_s:
                self.found.append(Mistake(f"a task failed and nobody asked: {_name(task)}", _error(task)))


def _name(task: "asyncio.Task[Any]") -> str:
    return str(getattr(task.get_coro(), "__qualname__", task))


def _error(task: "asyncio.Task[Any]") -> BaseException | None:
    error = task.exception()
    assert error is not None, "it has failed"
    return error


@contextmanager
def quiet_but_for(mistakes: Mistakes) -> Iterator[None]:
    """Lines of thousands of brokers that die are of no use to anybody; those of mistakes are kept."""
    logger = logging.getLogger("odradek")
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.ERROR)  # the method, not the attribute: loggers cache what they let through
    logger.propagate = False
    logger.addHandler(mistakes)
    try:
        yield
    finally:
        logger.removeHandler(mistakes)
        logger.propagate = propagate
        logger.setLevel(level)
