"""What a broker asked for (`broker.effects`), done: each effect once, in order, and its outcome told.

Drained at the end of every turn of the loop; when nothing is left, the timer is set for the broker's next deadline.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from odradek.broker import effects
from odradek.broker.coordinator_load import Piece
from odradek.broker.coordinator_shards import Making
from odradek.broker.core import Broker
from odradek.broker.log_moves import data_of
from odradek.log.errors import StorageError
from odradek.log.log_manager import LogManager
from odradek.model.printable import LONGEST_LINE, shown
from odradek.server import log_levels, state_change_log, store_questions
from odradek.server.broker_links import BrokerLinks
from odradek.server.controller_channel import ControllerChannel
from odradek.server.controller_runtime import ControllerRuntime
from odradek.server.environment import Environment
from odradek.server.fetchers import Fetchers
from odradek.server.gateway import Gateway
from odradek.server.log_limits import LimitedLog
from odradek.server.log_maintenance import LogMaintenance
from odradek.server.store_sessions import RETRY_S, StoreSessions
from odradek.store import api, layout

logger = logging.getLogger("odradek.server")

# Turns of the loop until it has polled anew, and told of the connections that it found closed in that.
TURNS_OF_A_POLL = 3
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def check_directories(logs: LogManager) -> None:
    """Without a single directory there is nothing to serve, and others can: StorageError."""
    if not any(directory.is_online for directory in logs.directories):
        raise next(iter(logs.offline_directories.values()))


class BrokerEffects:
    def __init__(
        self,
        *,
        broker: Broker,
        logs: LogManager,
        environment: Environment,
        sessions: StoreSessions,
        controller: ControllerRuntime,
        channel: ControllerChannel,
        links: BrokerLinks,
        fetchers: Fetchers,
        gateway: Gateway,
        disk: LogMaintenance,
        on_broken: Callable[[BaseException], None],
        log: LimitedLog,
    ) -> None:
        self._broker = broker
        self._logs = logs
        self._environment = environment
        self._loop = environment.loop
        self._now_ms = environment.clock.now_ms
        self._sessions = sessions
        self._channel = channel
        self._links = links
        self._fetchers = fetchers
        self._end_turn = gateway.end_turn
        self._on_broken = on_broken
        self._log = log
        self._questions: set[asyncio.Task[None]] = set()
        self._deadline: asyncio.TimerHandle | None = None
        self._deadline_ms = 0
        self._is_going_on = False
        self._slice_ns = environment.slice_ns
        self._stopwatch_ns = environment.stopwatch_ns
        self._is_stopping = False
        self._does: dict[type, Callable[[Any], None]] = {
            effects.SendToController: self._send_to_controller,
            effects.SendToBroker: self._send_to_broker,
            effects.ControllerRequest: controller.ask,
            effects.StoreRequest: self._ask_store,
            effects.StartFetcher: self._start_fetcher,
            effects.StopFetcher: lambda effect: fetchers.stop(effect.leader),
            effects.WakeFetcher: lambda effect: fetchers.wake(effect.leader),
            effects.FlushLog: disk.flush,
            effects.ReadSlices: lambda effect: self._start(self._read_slices(effect)),
            effects.RunAside: lambda effect: self._start(self._run_aside(effect)),
            effects.CheckpointHighWatermarks: disk.checkpoint_high_watermarks,
            effects.LogDirectoryFailed: self._log_directory_failed,
            effects.RegisterAgain: lambda effect: sessions.register_again(effect.reason),
            effects.LoggersAsked: self._tell_loggers,
            effects.GoOn: lambda effect: self._go_on_soon(),
            effects.PollConnections: lambda effect: self._poll_connections(
                effect.request_id, TURNS_OF_A_POLL
            ),
            effects.HandleAgain: lambda effect: gateway.handle_again(effect.request, effect.place),
            effects.LogLine: self._write_line,
        }

    def drain(self) -> bool:
        """Does what the broker asked for; False when there was nothing."""
        try:
            taken = self._broker.take_effects()
            if not taken:
                return False
            does = self._does
            lines: list[state_change_log.Line] = []
            for effect in taken:
                if type(effect) is effects.StateChangeLine:
                    lines.append((effect.level.upper(), effect.text))
                else:
                    does[type(effect)](effect)
            if lines:  # together, and last: there is one for each partition of a LeaderAndIsr
                state_change_log.write_lines(lines, self._now_ms())
        except Exception as error:
            # Effects, or those who were to be answered, are lost with it: nobody could say who waits in vain now.
            self._on_broken(error)
            raise
        return True

    def stop_moving(self) -> None:
        self._is_stopping = True
        if self._deadline is not None:
            self._deadline.cancel()

    def cancel_questions(self) -> None:
        """Whatever the store is being asked: nobody waits for the answer any more."""
        for question in list(self._questions):
            question.cancel()

    # --- time

    def set_deadline(self) -> None:
        """At the end of a turn, when nothing is due at once any more."""
        try:
            at_ms = self._broker.next_deadline_ms()
        except Exception as error:
            self._on_broken(error)
            raise
        if self._deadline is not None:
            if self._deadline_ms <= at_ms:
                return  # it fires, checks, and sets the next
            self._deadline.cancel()
        if self._is_stopping:
            return
        self._deadline_ms = at_ms
        delay_s = max(0, at_ms - self._now_ms()) / 1000
        self._deadline = self._loop.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._deadline = None
        try:
            self._broker.tick(self._now_ms())
        except Exception as error:
            self._on_broken(error)
            raise
        self._end_turn()

    def _poll_connections(self, request_id: int, turns: int) -> None:
        if turns:
            self._loop.call_soon(self._poll_connections, request_id, turns - 1)
            return
        self._broker.answered(request_id, None, self._now_ms())
        self._end_turn()

    # --- what is done in slices

    def _go_on_soon(self) -> None:
        if not self._is_going_on:
            self._is_going_on = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        """A slice in a turn of its own: in between the loop serves whoever has come."""
        self._is_going_on = False
        if (
            not self._is_stopping
        ):  # what is not begun stays undone then, as in a crash: the controller tells the next life
            with self._environment.making_what_stays():
                self._next_slice()
        self._end_turn()
        if self._is_going_on:
            self._environment.give_way()

    def _next_slice(self) -> None:
        began = self._stopwatch_ns()
        try:
            while self._broker.go_on(self._now_ms()):
                if self._stopwatch_ns() - began >= self._slice_ns:
                    self._go_on_soon()
                    break
        except Exception as error:
            self._log.failure(
                f"obeying {type(error).__name__}",
                f"a request of the controller could not be obeyed: {error!r}",
                error,
            )

    # --- the effects that take more than a call

    async def _read_slices(self, effect: effects.ReadSlices) -> None:
        data: bytes | None = None
        try:
            data = await self._environment.run_blocking(data_of, effect.slices)
        except StorageError as error:  # cut meanwhile; or the directory failed, and has told so
            self._log.warning(f"copy {error}", f"{effect.topic_partition} cannot be copied: {error}")
        except Exception as error:
            # No memory, say: else this copy and those that wait for its place stand still.
            what = f"{effect.topic_partition} cannot be copied: {error!r}"
            self._log.failure(f"copy {type(error).__name__}", what, error)
        self._broker.answered(effect.request_id, data, self._now_ms())
        self._end_turn()

    async def _run_aside(self, effect: effects.RunAside) -> None:
        result: Any = None
        # A million offsets are three million values, and so are a hundred thousand members; one look of the collector at all of
        # them takes longer than any turn of the loop may, and a thread that looks holds up all others.
        lives_on = isinstance(effect.work, Piece | Making)
        stays = self._environment.making_what_stays() if lives_on else nullcontext()
        try:
            with stays:
                result = await self._environment.run_aside(effect.work.run)
        except Exception as error:
            # A mistake of ours. Whoever asked is told, and what waits behind it goes on.
            what = f"{type(effect.work).__name__} failed: {error!r}"
            self._log.failure(f"aside {type(effect.work).__name__}", what, error)
        self._broker.answered(effect.request_id, result, self._now_ms())
        self._end_turn()

    def _send_to_controller(self, effect: effects.SendToController) -> None:
        def answered(message: Any | None) -> None:
            self._broker.answered(effect.request_id, message, self._now_ms())

        self._channel.send(effect.api_key, effect.message, effect.max_version, answered)

    def _send_to_broker(self, effect: effects.SendToBroker) -> None:
        def answered(message: Any | None) -> None:
            self._broker.answered(effect.request_id, message, self._now_ms())

        self._links.send(effect, answered)

    def _ask_store(self, effect: effects.StoreRequest) -> None:
        self._start(self._answer_store_request(effect))

    async def _answer_store_request(self, effect: effects.StoreRequest) -> None:
        result = await self._result_of(effect.question)
        self._broker.answered(effect.request_id, result, self._now_ms())
        self._end_turn()

    async def _result_of(self, question: effects.StoreQuestion) -> effects.StoreResult:
        store = self._sessions.store
        if store is None:
            return effects.StoreFailed("there is no session with the store")
        try:
            return await store_questions.answer(store, question)
        except Exception as error:
            # A mistake of ours, or a tree that is not as we know it. Whoever asked waits for an answer.
            what = f"asking the store for {type(question).__name__} failed: {error!r}"
            self._log.failure(f"store {type(question).__name__}", what, error)
            return effects.StoreFailed(what)

    def _start_fetcher(self, effect: effects.StartFetcher) -> None:
        if not self._is_stopping:
            self._fetchers.start(effect.leader, effect.endpoint, effect.fetcher)

    def _tell_loggers(self, effect: effects.LoggersAsked) -> None:
        log_levels.set_levels(effect.levels)
        self._broker.answered(effect.request_id, log_levels.levels(), self._now_ms())

    def _write_line(self, effect: effects.LogLine) -> None:
        if effect.key:
            self._log.warning(effect.key, effect.text)
        else:
            logger.log(_LEVELS[effect.level], "%s", shown(effect.text, LONGEST_LINE))

    def _log_directory_failed(self, effect: effects.LogDirectoryFailed) -> None:
        try:
            check_directories(self._logs)
        except StorageError as error:
            self._on_broken(error)
            return
        if not self._is_stopping:  # else its session ends, which says more
            self._start(self._tell_of_failed_directory())

    async def _tell_of_failed_directory(self) -> None:
        """Until it stands in the store; the controller then asks about all our replicas again."""
        value = layout.encode_log_dir_event(self._broker.broker_id)
        node = api.Create(layout.LOG_DIR_EVENT, value, sequential=True)
        event = api.ConditionalOps((node,), parents=(layout.LOG_DIR_EVENTS,))
        while True:
            store = self._sessions.store
            try:
                if store is not None:
                    await store.write([event], fence=None)
                    return
            except (api.StoreUnavailable, api.SessionExpired) as error:
                self._log.warning("store", f"the failed log directory cannot be reported yet: {error}")
            await asyncio.sleep(RETRY_S)

    def _start(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._questions.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._questions.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._log.failure("store", f"work with the store failed: {error!r}", error)
