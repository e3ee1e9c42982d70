"""The state-change journal: what the controller of this process was told, decided and changed, a line a step.

A file per controller, JSON lines, append-only: `controller-<broker>.jsonl`. Every line holds the event, the writes, the
requests and the changes of one `core.step`, so that a run can be read, compared and played again. The journal is for
people: it is not flushed, and a journal that cannot be written is said once and left, the controller goes on.
"""

import asyncio
import json
from collections import deque
from typing import TYPE_CHECKING

from odradek.log.files import Directory
from odradek.model.ids import BrokerId, ControllerEpoch
from odradek.server.appended_file import AppendedFile
from odradek.server.log_limits import LimitedLog
from odradek.server.seams import Seams

if TYPE_CHECKING:
    from odradek.controller.effects import Effects
    from odradek.controller.events import Event

# A step of this many values is written as it happens; that costs less than a millisecond.
MOST_WRITTEN_AT_ONCE = 300
# A larger one, the election of thousands of partitions, must not hold up what it is about: it waits this long, and is
# then put into words by a thread.
LARGE_STEPS_WAIT_S = 0.2

_Step = tuple[int, ControllerEpoch, "Event", "Effects"]


class Journal:
    def __init__(self, directory: Directory, broker: BrokerId, log: LimitedLog, seams: Seams) -> None:
        self._broker = broker
        self._file = AppendedFile(directory, f"controller-{broker}.jsonl", log)
        self._seams = seams
        self._waiting: deque[_Step] = deque()
        self._writing: asyncio.Task[None] | None = None

    def record(self, now_ms: int, epoch: ControllerEpoch, event: "Event", effects: "Effects") -> None:
        self._seams.controller_stepped(event, effects)
        step = (now_ms, epoch, event, effects)
        if not self._waiting and self._writing is None and _weight(event, effects) <= MOST_WRITTEN_AT_ONCE:
            self._file.append(self._line(step))
            return
        self._waiting.append(step)
        if self._writing is None:
            self._writing = self._seams.loop.create_task(self._write_later())

    async def finish(self) -> None:
        """Everything recorded so far is written when this returns."""
        if self._writing is not None:
            await asyncio.wait({self._writing})

    async def _write_later(self) -> None:
        try:
            await asyncio.sleep(LARGE_STEPS_WAIT_S)
            while self._waiting:
                step = self._waiting.popleft()
                self._file.append(await self._seams.run_blocking(self._line, step))
        finally:
            self._writing = None

    def _line(self, step: _Step) -> bytes:
        # Not above: only a broker that leads writes one, and all brokers start.
        from odradek.controller.journal import as_json, effects_as_json

        now_ms, epoch, event, effects = step
        line = {
            "at_ms": now_ms,
            "controller": self._broker,
            "epoch": epoch,
            "event": as_json(event),
            **effects_as_json(effects),
        }
        if effects.resign is not None:
            line["resign"] = effects.resign
        return (json.dumps(line, separators=(",", ":")) + "\n").encode()


def _weight(event: "Event", effects: "Effects") -> int:
    """About how many values there are to put into words."""
    told = sum(len(getattr(request, "partitions", ())) for request in effects.requests)
    snapshot = getattr(event, "snapshot", None)
    read = 0 if snapshot is None else len(snapshot.states)
    answered = len(getattr(event, "answers", ())) + len(getattr(event, "told", ()))
    return len(effects.writes) + len(effects.changes) + told + read + answered
