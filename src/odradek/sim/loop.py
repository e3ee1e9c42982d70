"""An asyncio loop over virtual time whose ready callbacks run in an order the seed chooses.

Three promises:

1. *Same seed, same run.* The order of callbacks, every delay and every fault come from one `random.Random`; the
   running `trace_hash` covers who ran when, and what was delivered.
2. *Time passes only when nothing is ready.* The clock then jumps to the next timer.
3. *A dead host runs nothing.* Every callback belongs to the host in whose context it was made; `Host.kill` drops them
   all between two callbacks, exactly as `kill -9` would, and their `finally` blocks never run.

asyncio promises first-in first-out among ready callbacks. We break that on purpose: whoever relies on it between two
tasks has a bug that a busy machine would show as well. What TCP keeps in order is kept by `network`.
"""

import asyncio
import inspect
import random
from asyncio import events as asyncio_events
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from functools import partial
from heapq import heappop, heappush
from math import inf
from types import CodeType, FunctionType, MethodType
from typing import Any, Protocol
from zlib import crc32

from odradek.sim.meter import Meter

_MASK = (1 << 64) - 1
MOST_WAITS_IN_FINALLY = 20
MOST_ENDED_TASKS = 100  # that a host still holds on to


class Host:
    """One simulated process. `incarnation` counts its starts; a restarted process is a new `Host`."""

    __slots__ = (
        "_keep_at_most",
        "_kept",
        "incarnation",
        "is_alive",
        "is_of_threads",
        "mark",
        "name",
        "number",
        "paused_until",
        "postponed",
        "threads",
    )

    def __init__(self, name: str, number: int, incarnation: int = 0) -> None:
        self.name = name
        self.number = number
        self.mark = number << 40  # in the hash of a trace
        self.incarnation = incarnation
        self.is_alive = True
        self.is_of_threads = False
        self.paused_until = 0.0  # SIGSTOP: its callbacks wait until then
        self.postponed: list[Handle] = []  # those that do
        self.threads: Host | None = None  # where its blocking work is done, should only its loop stand still
        self._kept: list[asyncio.Task[Any] | Coroutine[Any, Any, Any]] = []
        self._keep_at_most = MOST_ENDED_TASKS

    def keep(self, thing: "asyncio.Task[Any] | Coroutine[Any, Any, Any]") -> None:
        """Holds on to a dead host's tasks: collecting one would run its `finally` blocks."""
        self._kept.append(thing)
        if len(self._kept) >= self._keep_at_most:
            self.unasked_failures()
            self._keep_at_most = 2 * len(self._kept) + MOST_ENDED_TASKS

    def unasked_failures(self) -> "list[asyncio.Task[Any]]":
        """Tasks that have failed, and nobody has asked them how they ended. All others that have ended are let go of: nothing of
        them would run any more, and nothing of them is worth knowing."""
        failed: list[asyncio.Task[Any]] = []
        kept: list[asyncio.Task[Any] | Coroutine[Any, Any, Any]] = []
        for thing in self._kept:
            if isinstance(thing, asyncio.Task):
                if thing.done():
                    if not _is_unasked_failure(thing):
                        continue
                    failed.append(thing)
            elif inspect.getcoroutinestate(thing) == inspect.CORO_CLOSED:
                continue
            kept.append(thing)
        self._kept = kept
        return failed

    def end(self) -> None:
        """Closes what was kept, here and now, so that nothing of it runs later, in the middle of another world.

        A `finally` block that waits is closed again at that place. Whatever these blocks raise is no news: their
        process is dead, its disk and its sockets with it.
        """
        for thing in reversed(self._kept):
            coroutine = thing.get_coro() if isinstance(thing, asyncio.Task) else thing
            for _ in range(MOST_WAITS_IN_FINALLY):
                try:
                    coroutine.close()
                    break
                except RuntimeError:  # it waits again: "coroutine ignored GeneratorExit"
                    continue
                except KeyboardInterrupt:
                    raise
                except BaseException:
                    break
        self._kept.clear()

    def kill(self) -> None:
        self.is_alive = False
        if self.threads is not None:
            self.threads.is_alive = False

    def hang(self, until: float) -> None:
        """Its loop stands still; its threads work on what they are given."""
        self.paused_until = until

    def pause(self, until: float) -> None:
        """All of it stands still."""
        self.paused_until = until
        if self.threads is not None:
            self.threads.paused_until = until

    def __repr__(self) -> str:
        return f"{self.name}#{self.incarnation}"


def _is_unasked_failure(task: "asyncio.Task[Any]") -> bool:
    """asyncio's own mark for "exception was never retrieved"; asking the task itself would take it off."""
    return bool(task._log_traceback)


NOBODY = Host("world", 0)
current_host: ContextVar[Host] = ContextVar("current_host", default=NOBODY)


class Handle:
    """What `call_soon` returns. The loop's own, so that a run of the loop allocates little."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context", "_when", "host")
    _callback: Callable[..., object]
    _args: tuple[Any, ...]
    _context: Context
    _cancelled: bool
    _when: float
    host: Host

    def cancel(self) -> None:
        self._cancelled = True

    def cancelled(self) -> bool:
        return self._cancelled

    def when(self) -> float:
        return self._when

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()


_new = object.__new__


def _made(
    callback: Callable[..., object], args: tuple[Any, ...], context: Context, host: Host, when: float
) -> Handle:
    """One for every event: a constructor, which the interpreter calls from C, takes a third more time."""
    handle = _new(Handle)
    handle._callback = callback
    handle._args = args
    handle._context = context
    handle._cancelled = False
    handle._when = when
    handle.host = host
    return handle


class Moment:
    """To be awaited: as a future that a timer sets, but that the task goes on in the timer's own turn. So a wait is one event."""

    __slots__ = (
        "_asyncio_future_blocking",
        "_callback",
        "_context",
        "_handle",
        "_is_cancelled",
        "_loop",
        "_when",
    )

    def __init__(self, loop: "SimLoop", when: float) -> None:
        self._asyncio_future_blocking = False
        self._loop = loop
        self._when = when
        self._handle: Handle | None = None
        self._is_cancelled = False

    def __await__(self) -> "Generator[Moment, None, None]":
        self._asyncio_future_blocking = True
        yield self

    # --- what a task asks of a future

    def get_loop(self) -> "SimLoop":
        return self._loop

    def add_done_callback(self, callback: "Callable[[Moment], object]", *, context: Context) -> None:
        assert self._handle is None, "one task waits for it"
        self._callback, self._context = callback, context
        self._handle = self._loop.call_at(self._when, callback, self, context=context)

    def result(self) -> None:
        """Asked when the task goes on."""
        if self._is_cancelled:
            raise asyncio.CancelledError

    def cancel(self, msg: object = None) -> bool:
        """False: it has been cancelled before. A task that goes on waits for it no more, and does not ask."""
        if self._is_cancelled or self._handle is None:
            return False
        self._is_cancelled = True
        self._handle.cancel()
        self._loop.call_soon(self._callback, self, context=self._context)
        return True


class SimulationEnded(Exception):
    """The loop has nothing left to do, yet somebody still waits."""


class Connections(Protocol):
    """Where a loop listens and connects: `network.Network`, which is made for a loop and puts itself into it."""

    def listen(
        self, host: Host, factory: Callable[[], Any], address: Any, port: Any, sock: Any = None
    ) -> asyncio.AbstractServer: ...

    async def connect(
        self, host: Host, factory: Callable[[], Any], address: Any, port: Any
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]: ...


class SimLoop(asyncio.AbstractEventLoop):
    """See the module. Implements what production code asks of a loop, and refuses the rest by name."""

    def __init__(self, seed: int, network: Connections | None = None) -> None:
        self.random = random.Random(seed)
        self.events = 0
        self.trace_hash = seed & _MASK
        self.network = network
        self.unhandled: list[dict[str, Any]] = []
        self.now = 0.0  # `time()`, for those who ask at every event
        self._now_us = 0
        self._ready: list[Handle] = []
        self._timers: list[tuple[float, int, Handle]] = []
        self._timer_count = 0
        self._is_running = False
        self._is_closed = False
        self._stopping = False
        self._most_events: float = inf  # of the run that goes on; -1: it was interrupted, or the next one is
        self.after_event: Callable[[Host], None] | None = None  # whoever records a run
        self.meter: Meter | None = None
        # Of callbacks, in a trace: by the function of a method, by the type of what is no function of Python's, and by the identity of
        # any other function's code, for code is hashed anew each time.
        self._names: dict[Any, int] = {}
        self._named: list[CodeType] = []  # which keep their identities
        self._contexts: dict[Host, Context] = {}

    # --- time

    def time(self) -> float:
        return self.now

    # --- scheduling

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        if context is None:
            context = copy_context()
        handle = _made(callback, args, context, context.get(current_host, NOBODY), self.now)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        if context is None:
            context = copy_context()
        handle = _made(callback, args, context, context.get(current_host, NOBODY), when)
        self._timer_count += 1
        now = self.now
        heappush(self._timers, (when if when > now else now, self._timer_count, handle))
        return handle

    def world_at(self, when: float, callback: Callable[[], object]) -> None:
        """`call_at` of the world itself, which cancels nothing."""
        self._timer_count += 1
        now = self.now
        handle = _made(callback, (), self._contexts.get(NOBODY) or self.context_of(NOBODY), NOBODY, when)
        heappush(self._timers, (when if when > now else now, self._timer_count, handle))

    def context_of(self, host: Host) -> Context:
        """The context in which callbacks of `host` run."""
        context = self._contexts.get(host)
        if context is None:
            context = copy_context()
            context.run(current_host.set, host)
            self._contexts[host] = context
        return context

    def call_as(self, host: Host, callback: Callable[..., object], *args: Any) -> Handle:
        handle = _made(callback, args, self._contexts.get(host) or self.context_of(host), host, self.now)
        self._ready.append(handle)
        return handle

    def go_on(self, host: Host) -> None:
        """What was due while the host stood still is due now; if it stands still for longer by now, later."""
        if host.threads is not None:
            self.go_on(host.threads)
        if host.postponed and host.paused_until > self.now:
            self.call_at(host.paused_until, self.go_on, host)
        elif host.postponed:
            self._ready += host.postponed
            host.postponed.clear()

    # --- running

    def _passed_to(self, when: float) -> float:
        """The clock stands there now, or where it stood, if that is later."""
        if when > self.now:
            self.now = when
            self._now_us = int(when * 1e6)
        return self.now

    def _run(self, when: float, stop: Callable[[], bool] | None = None, most_events: float = inf) -> bool:
        """Runs ready callbacks, and moves the clock from timer to timer, no further than `when`; before each callback
        it asks whether that is enough. False: nothing is left to run by then.

        The one place that every event of every world goes through: what it needs each time is at hand.
        """
        ready, timers, random = self._ready, self._timers, self.random.random
        if self._most_events != -1:
            self._most_events = most_events
        while True:
            if stop is not None and stop():
                return True
            if self.events >= self._most_events:
                self._most_events = inf
                return True
            if not ready:
                while timers and timers[0][2]._cancelled:
                    heappop(timers)
                if not timers or timers[0][0] > when:
                    return False
                now = timers[0][0]
                if now > self.now:
                    self.now = now
                    self._now_us = int(now * 1e6)
                else:
                    now = self.now
                while timers and timers[0][0] <= now:
                    handle = heappop(timers)[2]
                    if not handle._cancelled:
                        ready.append(handle)
                if stop is not None:
                    continue  # the clock may be what it waits for
            handle = ready.pop()
            if ready:
                index = int(random() * (len(ready) + 1))
                if index < len(ready):
                    handle, ready[index] = ready[index], handle
            host = handle.host
            if handle._cancelled or not host.is_alive:
                continue
            if host.paused_until > self.now:
                if not host.postponed:
                    self.call_at(host.paused_until, self.go_on, host)
                host.postponed.append(handle)
                continue
            self._turn(host, handle._context, handle._callback, handle._args)

    def at_once(self, host: Host, callback: Callable[[], object]) -> None:
        """A turn of `host` right behind what brought it about, where it can take one; else when it can."""
        if host is NOBODY or host.paused_until > self.now:
            self.call_as(host, callback)
        elif host.is_alive:
            self._turn(host, self._contexts.get(host) or self.context_of(host), callback, ())

    def _turn(
        self, host: Host, context: Context, callback: Callable[..., object], args: tuple[Any, ...]
    ) -> None:
        self.events += 1
        kind: Any = type(callback)
        if kind is MethodType:
            kind = callback.__func__  # type: ignore[attr-defined]
        elif kind is FunctionType:
            kind = id(callback.__code__)
        name = self._names.get(kind) or self._name(kind, callback)
        self.trace_hash = (self.trace_hash * 1000003 ^ self._now_us ^ host.mark ^ name) & _MASK
        try:
            if self.meter is None or host.name not in self.meter.hosts:
                if args:
                    context.run(callback, *args)
                else:  # most: nothing is packed for the call
                    context.run(callback)
            else:
                turn = partial(context.run, callback, *args)
                self.meter.run(host.name, turn, is_turn=not host.is_of_threads)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            if host.is_alive:  # else it died in the midst of this one
                self.call_exception_handler(
                    {
                        "message": f"exception in a callback of {host}",
                        "exception": error,
                        "host": host,
                    }
                )
        if self.after_event is not None:
            self.after_event(host)

    def _name(self, key: Any, callback: Any) -> int:
        """Of a function's code, or of the type of a callback that has none: the same in every process."""
        kind = type(callback)
        if kind is MethodType or kind is FunctionType:
            text = callback.__code__.co_qualname
            if kind is FunctionType:
                self._named.append(callback.__code__)
        else:
            text = kind.__qualname__
        name = self._names[key] = crc32(text.encode()) << 8
        return name

    def note_bytes(self, data: bytes | bytearray | memoryview) -> None:
        """What travelled is part of the trace."""
        self.trace_hash = (self.trace_hash * 1000003 ^ crc32(data)) & _MASK

    def run_until_complete(self, future: Any) -> Any:
        is_coroutine = not asyncio.isfuture(future)
        with self._running():
            task = asyncio.ensure_future(future, loop=self)
            if is_coroutine:
                task._log_destroy_pending = False
            while not task.done():
                if not self._run(inf, task.done):
                    raise SimulationEnded("nothing is left to run, yet the future is not done")
        return task.result()

    def run_until(
        self, when: float, stop: Callable[[], bool] | None = None, max_events: int | None = None
    ) -> None:
        """Runs until virtual time `when`, or until `stop()` is true, or for `max_events` callbacks."""
        most_events = inf if max_events is None else self.events + max_events
        with self._running():
            if not self._run(when, stop, most_events):
                self._passed_to(when)

    def interrupt(self) -> None:
        """`run_until` returns before its next callback: whoever watches has seen enough."""
        self._most_events = -1

    def run_forever(self) -> None:
        self._stopping = False
        with self._running():
            while not self._stopping and self._run(inf, lambda: self._stopping):
                pass

    def _running(self) -> "_Running":
        return _Running(self)

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._is_running

    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """The world is over: nothing runs any more, and nothing is left that would run when it is collected."""
        self._is_closed = True
        self._ready.clear()
        self._timers.clear()
        for host in self._contexts:
            host.end()
        self._contexts.clear()

    async def shutdown_asyncgens(self) -> None:
        pass

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        pass

    # --- futures and tasks

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any], *, name: object = None,
        context: Context | None = None,
    ) -> "asyncio.Task[Any]":  # fmt: skip
        task: asyncio.Task[Any] = asyncio.Task(
            coro, loop=self, name=None if name is None else str(name), context=context
        )
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        host = (context.get(current_host) if context is not None else None) or current_host.get()
        host.keep(task)
        return task

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        return self.run_blocking(0.0, func, *args)

    def run_blocking(self, longer_s: float, func: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """Blocking work is done in one piece, at a moment the seed chooses after `longer_s`."""
        future = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        # Whoever waits for the future goes on in its own host, when that can.
        self.call_later(longer_s + self.random.random() * 0.005, work, context=self.context_of_threads())
        return future

    def context_of_threads(self) -> Context | None:
        """Of the host that runs now, or of which a thread does; None: nobody's."""
        host = current_host.get()
        if host.is_of_threads:
            return self.context_of(host)
        if host.threads is None and host is not NOBODY:
            host.threads = Host(host.name, host.number, host.incarnation)
            host.threads.is_of_threads = True
            host.threads.paused_until = host.paused_until
        return None if host.threads is None else self.context_of(host.threads)

    # --- errors

    def unasked_failures(self) -> "list[asyncio.Task[Any]]":
        """Of hosts that are alive and not stopped: there somebody could have asked."""
        return [
            task
            for host in self._contexts
            if host._kept and host.is_alive and host.paused_until <= self.now
            for task in host.unasked_failures()
        ]

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.unhandled.append(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.unhandled.append(context)

    def set_exception_handler(self, handler: Any) -> None:
        pass

    def get_exception_handler(self) -> Any:
        return None

    get_debug = bool  # False, without a frame of Python's: every future asks when it is made

    def set_debug(self, enabled: bool) -> None:
        pass

    def get_task_factory(self) -> Any:
        return None

    def set_task_factory(self, factory: Any) -> None:
        raise NotImplementedError("the simulator makes the tasks")

    def add_signal_handler(  # type: ignore[override]
        self, sig: int, callback: Callable[..., object], *args: Any
    ) -> None:
        """A simulated process is told to stop by calling what the handler would call."""

    def remove_signal_handler(self, sig: int) -> bool:
        return False

    # --- the network

    def _network(self) -> Connections:
        assert self.network is not None, "this loop has no network"
        return self.network

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: Any = None,
        **options: Any,
    ) -> asyncio.AbstractServer:
        return self._network().listen(current_host.get(), protocol_factory, host, port, options.get("sock"))

    async def getaddrinfo(  # type: ignore[override]
        self, host: str, port: int, **options: Any
    ) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        """A host of this network is addressed by its name."""
        return [(0, 0, 0, "", (host, port))]

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: Any = None,
        port: Any = None,
        **options: Any,
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]:
        return await self._network().connect(current_host.get(), protocol_factory, host, port)


class _Running:
    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._before: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> None:
        self._before = asyncio_events._get_running_loop()
        assert self._before is None, "a simulated loop runs alone in its thread"
        asyncio_events._set_running_loop(self._loop)
        self._loop._is_running = True

    def __exit__(self, *exc: object) -> None:
        asyncio_events._set_running_loop(None)
        self._loop._is_running = False
