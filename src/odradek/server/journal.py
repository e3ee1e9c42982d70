"""The state-change journal: what the controller of this process was told, decided and changed, a line a step.
With each step go its classic lines in the state-change log.

A file per controller, JSON lines, append-only: `controller-<broker>.jsonl`. Every line holds the event, the writes, the
requests and the changes of one `core.step`, so that a run can be read, compared and played again. The journal is for
people: it is not flushed, and a journal that cannot be written is said and left up to the next election, the controller goes on.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from odradek.log.files import Directory
from odradek.model.ids import BrokerId, ControllerEpoch
from odradek.server import state_change_log
from odradek.server.appended_file import AppendedFile
from odradek.server.environment import Environment
from odradek.server.log_limits import LimitedLog

if TYPE_CHECKING:
    from odradek.controller.effects import Effects
    from odradek.controller.events import Event

# A step of this many values is written as it happens; that costs less than a millisecond.
MOST_WRITTEN_AT_ONCE = 300
# A larger one, the election of thousands of partitions, must not hold up what it is about: it waits this long, and is
# then put into words by a thread, piece by piece while the controller has nothing to do.
LARGE_STEPS_WAIT_S = 0.2
LINES_AT_ONCE = 1_000
# So many values may wait to be put into words, some hundred megabytes of them; one step always may. Beyond that steps
# are left out, up to the next election: from there a journal can be played again.
MOST_WAITING = 3_000_000

T = TypeVar("T")
_Step = tuple[int, ControllerEpoch, "Event", "Effects", int]  # the last: its `_weight`


class Journal:
    def __init__(
        self, directory: Directory, broker: BrokerId, log: LimitedLog, environment: Environment
    ) -> None:
        self._broker = broker
        self._log = log
        self._file = AppendedFile(directory, f"controller-{broker}.jsonl", log)
        self._environment = environment
        self._waiting: deque[_Step] = deque()
        self._waiting_values = 0
        self._leaves_out = False
        self._has_hole = False  # a line could not be written
        self._is_closed = False
        self._writing: asyncio.Task[None] | None = None
        self._is_free = asyncio.Event()
        self._is_free.set()

    def hold(self) -> None:
        """The controller is at work: words for large steps wait, for they would take its processor's time."""
        self._is_free.clear()

    def release(self) -> None:
        """A piece or two are written now, even when the next event holds the journal at once."""
        self._is_free.set()

    def record(self, now_ms: int, epoch: ControllerEpoch, event: "Event", effects: "Effects") -> None:
        self._environment.controller_stepped(event, effects)
        weight = _weight(event, effects)
        step = (now_ms, epoch, event, effects, weight)
        if self._leaves_out and not _is_election(event):
            return
        if not self._waiting and self._writing is None and weight <= MOST_WRITTEN_AT_ONCE:
            self._leaves_out = False
            try:
                if self._is_wanted(event):
                    self._append("".join(self._pieces(step)))
                for lines in self._lines(step):
                    state_change_log.write_lines(lines, now_ms)
            except Exception as mistake:
                self._not_written(mistake)
            return
        self._leaves_out = bool(self._waiting) and self._waiting_values + weight > MOST_WAITING
        if self._leaves_out:
            self._log.warning(
                "journal",
                f"the journal is {self._waiting_values} values behind: what happens from here to the next election of a "
                "controller is not in it",
            )
            return
        self._waiting.append(step)
        self._waiting_values += weight
        if self._writing is None:
            self._writing = self._environment.loop.create_task(self._write_later())

    async def finish(self) -> None:
        """Everything recorded so far is written when this returns."""
        if self._writing is not None:
            await asyncio.wait({self._writing})

    def close(self) -> None:
        """At once, whatever is not written yet; nothing is written behind it."""
        self._is_closed = True
        self._file.close()

    async def _write_later(self) -> None:
        try:
            await asyncio.sleep(LARGE_STEPS_WAIT_S)
            while self._waiting:
                step = self._waiting.popleft()
                self._waiting_values -= step[4]
                await self._write_large(step)
        finally:
            self._writing = None

    async def _write_large(self, step: _Step) -> None:
        goes_on = False
        try:
            if self._is_wanted(step[2]):
                async for piece in self._one_by_one(self._pieces(step)):
                    if not self._has_hole:
                        self._append(piece, goes_on=goes_on)
                        goes_on = True
            goes_on = False
            async for lines in self._one_by_one(self._lines(step)):
                state_change_log.write_lines(lines, step[0])
        except Exception as mistake:
            if goes_on:
                self._file.append(b"\n", goes_on=True)  # the next line is to be readable
            self._not_written(mistake)

    def _is_wanted(self, event: "Event") -> bool:
        """Behind a line that could not be written the journal begins again with an election: from there it can be played."""
        if _is_election(event):
            self._has_hole = False
        return not self._has_hole

    def _append(self, text: str, *, goes_on: bool = False) -> None:
        if not self._file.append(text.encode(), goes_on=goes_on) and not self._is_closed:
            self._has_hole = True
            self._log.warning(
                "hole",
                "a line of the journal could not be written: what happens from here to the next election of a controller is not "
                "in it",
            )

    def _not_written(self, mistake: Exception) -> None:
        """A step that has no words yet. The controller knows what it did; only people miss a line."""
        self._log.failure("journal", f"a step is missing in the journal: {mistake!r}", mistake)

    async def _one_by_one(self, made: Iterator[T]) -> AsyncIterator[T]:
        """Each made by a thread while the controller has nothing to do."""
        while True:
            await self._is_free.wait()
            found = await self._environment.run_blocking(next, made, None)
            if found is None:
                return
            yield found

    def _lines(self, step: _Step) -> Iterator[list[state_change_log.Line]]:
        """The lines of a step, some at a time."""
        _, epoch, _, effects, _ = step
        if not (effects.changes or effects.requests) or not state_change_log.is_wanted():
            return
        from odradek.controller.state_change_log import lines

        with_trace = state_change_log.is_wanted(state_change_log.TRACE)
        every = lines(effects, self._broker, epoch, with_trace=with_trace)
        while some := list(islice(every, LINES_AT_ONCE)):
            yield some

    def _pieces(self, step: _Step) -> Iterator[str]:
        # Not above: only a broker that leads writes one, and all brokers start.
        from odradek.controller.journal_text import json_pieces, text_of

        now_ms, epoch, event, effects, weight = step
        if weight <= MOST_WRITTEN_AT_ONCE:
            # To look where it could be cut takes longer than to write it, and so does a mapping of what stands in it.
            resign = "" if effects.resign is None else f',"resign":{text_of(effects.resign)}'
            yield (
                f'{{"at_ms":{now_ms},"controller":{self._broker},"epoch":{epoch},"event":{text_of(event)},'
                f'"writes":{text_of(effects.writes)},"requests":{text_of(effects.requests)},'
                f'"changes":{text_of(effects.changes)},"answers":{text_of(effects.answers)}{resign}}}\n'
            )
            return
        line: dict[str, object] = {
            "at_ms": now_ms,
            "controller": self._broker,
            "epoch": epoch,
            "event": event,
            "writes": effects.writes,
            "requests": effects.requests,
            "changes": effects.changes,
            "answers": effects.answers,
        }
        if effects.resign is not None:
            line["resign"] = effects.resign
        yield from json_pieces(line)
        yield "\n"


def _is_election(event: "Event") -> bool:
    return type(event).__name__ == "Elected"  # by its name: only a broker that leads imports the controller


def _weight(event: "Event", effects: "Effects") -> int:
    """About how many values there are to put into words."""
    told = sum([len(getattr(request, "partitions", ())) for request in effects.requests])
    snapshot = getattr(event, "snapshot", None)
    read = 0 if snapshot is None else len(snapshot.states)
    answered = len(getattr(event, "answers", ())) + len(getattr(event, "told", ()))
    return len(effects.writes) + len(effects.changes) + told + read + answered
