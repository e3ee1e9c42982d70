"""Errors, lost answers and delays that a test asks for: between the connections of a broker and its handlers.

The code of a client for NOT_LEADER_OR_FOLLOWER, for an answer that never comes or for a commit that takes seconds runs when a
cluster is in trouble. A test makes that trouble here, for the requests that it names and no others.
"""

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from odradek.broker.answers import NO_REPLY, Answer, CloseConnection, NoReply, Park, Reply
from odradek.broker.request import Request
from odradek.client.sync_connection import response_type_of
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ConfigurationError, ProtocolError
from odradek.model.settings import nearest
from odradek.protocol import messages
from odradek.protocol.api_keys import APIS, BETWEEN_BROKERS, SERVED, ApiKey
from odradek.protocol.messages.produce import ProduceRequest
from odradek.protocol.schema import Request as Message
from odradek.server.links import is_client_id_of_a_broker
from odradek.testing import administration, error_answers
from odradek.testing.error_answers import ONLY_ASKED, About, Target

if TYPE_CHECKING:
    from odradek.server.broker_runtime import BrokerRuntime
    from odradek.server.environment import Handle

Ended = Reply | NoReply | CloseConnection
Waiting = deque[tuple[Request, int, Park]]  # a request, when it came, and the place of its answer
# What it answers does not stand in the order of the question, so nothing can be said without asking.
CANNOT_MIRROR = frozenset((ApiKey.ALTER_REPLICA_LOG_DIRS,))
_API_NAMES = {api.name.lower(): ApiKey(key) for key, api in APIS.items() if key in SERVED}


class Injection:
    """One fault. `hits`: how many requests it has met; `remove`, or the end of a `with`, ends it."""

    def __init__(
        self,
        owner: "Injections",
        api: str,
        *,
        error: str | None,
        close: bool,
        delay_s: float,
        after: bool,
        broker: int | None,
        client_id: str | None,
        topic: str | None,
        partition: int | None,
        skip: int,
        times: int | None,
        share: float,
        seed: int,
    ) -> None:
        self.api = _api(api)
        self.error = None if error is None else _code(error)
        self.close = close
        self.delay_s = delay_s
        self.after = after
        self.broker = broker
        self.client_id = client_id
        self.topic = topic
        self.partition = partition
        self.hits = 0
        self._owner = owner
        self._skip = skip
        self._times = times
        self._share = share
        self._random = random.Random(seed)
        if error is None and not close and not delay_s:
            raise ConfigurationError(f"{api}: say what goes wrong: error=..., close=True or delay_s=...")
        if error is not None and close:
            raise ConfigurationError(f"{api}: a connection that is closed has no answer; leave error out")
        if not 0 <= delay_s < math.inf:
            raise ConfigurationError(f"{api}: delay_s is {delay_s:g}; seconds from 0 on")
        if partition is not None and topic is None:
            raise ConfigurationError(f"{api}: partition {partition} of which topic? name it with topic=...")
        if partition is not None and partition < 0:
            raise ConfigurationError(f"{api}: partition is {partition}; 0 or more")
        if topic is not None:
            self._check_target(api)
        if skip < 0:
            raise ConfigurationError(f"{api}: skip is {skip}; 0 or more")
        if times is not None and times < 1:
            raise ConfigurationError(f"{api}: times is {times}; 1 or more, or None for all of them")
        if not 0 < share <= 1:
            raise ConfigurationError(f"{api}: share is {share:g}; above 0, and 1 for each request")
        if error is not None and self.api in CANNOT_MIRROR and not after:
            raise ConfigurationError(f"{api}: its error needs after=True: the broker has to be asked")

    def _check_target(self, api: str) -> None:
        """A fault about a topic of which no request, or no answer, says anything would never meet one."""
        wanted, what = (About.TOPICS, "topic") if self.partition is None else (About.PARTITIONS, "partition")
        newest = APIS[self.api].last_version
        request = messages.request_class(self.api)
        if not self.changes_answers and error_answers.asks_about(request, newest) < wanted:
            raise ConfigurationError(f"{api}: no request of it names a {what}; leave {what} out")
        if self.error is not None and error_answers.fails_by(response_type_of(request), newest) < wanted:
            raise ConfigurationError(f"{api}: its answer has no error of one {what}; leave {what} out")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Requests that wait are answered in their time; none is met any more."""
        self._owner.remove(self)

    def is_of(self, broker: int, request: Request) -> bool:
        """As far as the header says."""
        return (
            request.api_key == self.api
            and self._times != 0
            and self.broker in (None, broker)
            and self.client_id in (None, request.client_id)
        )

    @property
    def changes_answers(self) -> bool:
        """The broker is asked, and the error put into what it says."""
        return self.error is not None and (self.after or self.api in ONLY_ASKED)

    def takes(self) -> bool:
        """This request, which it is about: counted, and drawn by lot where only a share is wanted."""
        if self._skip:
            self._skip -= 1
            return False
        if self._times == 0 or (self._share < 1 and self._random.random() >= self._share):
            return False
        if self._times is not None:
            self._times -= 1
        self.hits += 1
        return True


class Injections:
    """Those of one cluster, for all of its brokers. Changed by any thread, read by that of the brokers."""

    def __init__(self) -> None:
        self.all: tuple[Injection, ...] = ()

    def add(self, injection: Injection) -> Injection:
        self.all = (*self.all, injection)
        return injection

    def remove(self, injection: Injection) -> None:
        self.all = tuple(other for other in self.all if other is not injection)


class Intercepted:
    """The `handle` of one broker, with what a test has asked for in between."""

    def __init__(
        self,
        injections: Injections,
        broker: int,
        handle: "Handle",
        loop: asyncio.AbstractEventLoop,
        now_ms: Callable[[], int],
        runtime: Callable[[], "BrokerRuntime | None"],
    ) -> None:
        self._injections = injections
        self._broker = broker
        self._handle = handle
        self._loop = loop
        self._now_ms = now_ms
        self._runtime = runtime
        # Connection -> what it has asked since one of its requests was made to wait.
        self._waiting: dict[int, Waiting] = {}

    def __call__(self, request: Request, now_ms: int) -> Answer:
        waiting = self._waiting.get(request.connection.id)
        if request.was_held:  # it was met when it came
            return self._handle(request, now_ms)
        if waiting is not None:
            place = Park()
            waiting.append((request.kept(), now_ms, place))
            return place
        return self._through(self._injections.all, request, now_ms, now_ms)

    def _through(
        self, injections: Sequence[Injection], request: Request, now_ms: int, came_ms: int
    ) -> Answer:
        """Handled by the broker, past these: the first that is about the request decides, and errors in the place of what the
        broker says come afterwards."""
        if request.client_id == administration.CLIENT_ID:
            return self._handle(request, now_ms)
        changing: list[Injection] = []
        answer: Answer | None = None
        for place, injection in enumerate(injections):
            if not injection.is_of(self._broker, request):
                continue
            message = self._message(request)
            if message is None:
                break
            if injection.changes_answers:
                changing.append(injection)
                continue
            answer = self._met(injection, injections[place + 1 :], message, request, now_ms, came_ms)
            if answer is not None:
                break
        if answer is None:
            answer = self._handle(request, now_ms)
        return self._changed(changing, request, answer) if changing else answer

    def _message(self, request: Request) -> Message | None:
        """None: it is none that faults are for."""
        try:
            message = messages.request_class(request.api_key).decode(request.api_version, request.body)
        except ProtocolError:
            return None  # the broker says what is wrong with it
        return (
            None if request.api_key not in BETWEEN_BROKERS and _is_of_a_broker(request, message) else message
        )

    def _met(
        self,
        injection: Injection,
        others: Sequence[Injection],
        message: Message,
        request: Request,
        now_ms: int,
        came_ms: int,
    ) -> Answer | None:
        """None: it is not about this request."""
        target = self._target(injection)
        part = message
        if not target.is_all:
            taken = error_answers.without(message, request.api_version, target)
            if taken is None:
                return None
            part = taken
        if not injection.takes():
            return None

        def handled(request: Request) -> Answer:
            return self._through(others, request, now_ms, came_ms)

        if injection.error is not None:
            return self._late(
                injection.delay_s, self._failed(injection.error, message, part, request, handled)
            )
        if injection.close:
            closed = CloseConnection(f"{APIS[request.api_key].name}: a test asked for it")
            if injection.after:
                return self._late(injection.delay_s, then(handled(request), lambda _: closed))
            if request.api_key in ONLY_ASKED or _is_whole(part, message, request.api_version):
                return self._late(injection.delay_s, closed)
            rest = _request_of(message, request)
            return self._late(injection.delay_s, then(handled(rest), lambda _: closed))
        if injection.after:
            return self._late(injection.delay_s, handled(request))
        return self._handled_late(injection, others, request, now_ms, came_ms)

    def _handled_late(
        self,
        injection: Injection,
        others: Sequence[Injection],
        request: Request,
        now_ms: int,
        came_ms: int,
    ) -> Answer:
        """What its connection asks meanwhile is handled after it: a broker takes the requests of a connection in their order, and
        an idempotent producer counts on it."""
        kept, place, connection = request.kept(), Park(), request.connection.id
        waiting = self._waiting[connection] = deque()

        def handled() -> Answer:
            still = [other for other in others if other in self._injections.all]
            return self._through(still, kept, self._now_ms(), came_ms)

        def in_time() -> None:
            del self._waiting[connection]
            place.answer(handled)
            self._go_on(connection, waiting)

        self._later(injection.delay_s - (now_ms - came_ms) / 1000, in_time)
        return place

    def _go_on(self, connection: int, waiting: Waiting) -> None:
        while waiting:
            if connection in self._waiting:  # for the request before
                self._waiting[connection].extend(waiting)
                return
            request, came_ms, place = waiting.popleft()
            place.answer(
                lambda request=request, came_ms=came_ms: self._through(  # type: ignore[misc]
                    self._injections.all, request, self._now_ms(), came_ms
                )
            )

    def _target(self, injection: Injection) -> Target:
        runtime = self._runtime()
        ids = {} if runtime is None or runtime.parts is None else runtime.broker.metadata.topic_ids
        topic_id = None if injection.topic is None else ids.get(injection.topic)
        return Target(injection.topic, topic_id, injection.partition)

    def _changed(self, injections: Sequence[Injection], request: Request, answer: Answer) -> Answer:
        """What the broker answers, with errors in the place of what is about their targets."""

        def changed(ended: Ended) -> Answer:
            return self._late(*self._replaced(injections, request, ended))

        if not isinstance(answer, Park):
            return changed(answer)
        place = Park()
        answer.on_complete(lambda ended: place.answer(lambda: changed(ended)))
        return place

    def _replaced(
        self, injections: Sequence[Injection], request: Request, ended: Ended
    ) -> tuple[float, Ended]:
        """How much later, and what. Of several about the same the first."""
        if not isinstance(ended, Reply):
            return 0.0, ended
        key, version = request.api_key, request.api_version
        answer = messages.response_class(key).decode(version, _bytes_of(ended))
        delay_s = 0.0
        replaced: set[Target] = set()
        for injection in injections:
            target = self._target(injection)
            if replaced & {target, Target()}:
                continue
            changed = messages.response_class(key).decode(version, answer.encode(version))
            assert injection.error is not None
            if error_answers.put(changed, version, injection.error, target) and injection.takes():
                answer = changed
                delay_s = max(delay_s, injection.delay_s)
                replaced.add(target)
        return delay_s, Reply([answer.encode(version)], ended.throttle_time_ms) if replaced else ended

    def _failed(
        self,
        error: ErrorCode,
        message: Message,
        part: Message,
        request: Request,
        handled: Callable[[Request], Answer],
    ) -> Answer:
        """`part` has failed; what is left of `message` is handled."""
        key, version = request.api_key, request.api_version
        wants_none = isinstance(message, ProduceRequest) and message.acks == 0
        if _is_whole(part, message, version):
            failed = error_answers.answer_with(part, version, error)
            return NO_REPLY if wants_none else Reply([failed.encode(version)])
        # Encoded at once: its records lie in the frame, which is gone after this call.
        failed = error_answers.answer_with(part, version, error)
        rest = _request_of(message, request)

        def join(ended: Ended) -> Ended:
            if not isinstance(ended, Reply):
                return ended
            answer = messages.response_class(key).decode(version, _bytes_of(ended))
            whole = error_answers.joined(answer, failed, version)
            return Reply([whole.encode(version)], ended.throttle_time_ms)

        return then(handled(rest), join)

    # --- time

    def _late(self, delay_s: float, answer: Answer) -> Answer:
        if not delay_s:
            return answer
        place = Park()

        def ended(result: Ended) -> None:
            self._later(delay_s, lambda: place.complete(result))

        if isinstance(answer, Park):
            answer.on_complete(ended)
        else:
            ended(answer)
        return place

    def _later(self, delay_s: float, do: Callable[[], None]) -> None:
        asked = self._runtime()

        def in_time() -> None:
            runtime = self._runtime()
            if asked is not None and runtime is not asked:
                return  # whoever was asked has ended, and another may run on its files
            do()
            if runtime is not None and runtime.parts is not None:
                runtime.end_turn()

        self._loop.call_later(delay_s, in_time)


def _is_whole(part: Message, message: Message, version: int) -> bool:
    """Nothing is left of `message` beside `part`."""
    return part is message or error_answers.is_empty(message, version)


def _request_of(message: Message, request: Request) -> Request:
    """As `request`, with what is left of it."""
    return Request(
        request.api_key,
        request.api_version,
        request.correlation_id,
        request.client_id,
        memoryview(message.encode(request.api_version)),
        request.connection,
    )


def then(answer: Answer, change: Callable[[Ended], Ended]) -> Answer:
    """`change` of what is answered, now or when it is."""
    if not isinstance(answer, Park):
        return change(answer)
    place = Park()
    answer.on_complete(lambda result: place.complete(change(result)))
    return place


def _bytes_of(reply: Reply) -> bytes:
    return b"".join(
        buffer
        if isinstance(buffer, bytes | bytearray | memoryview)
        else buffer.read_piece(0, buffer.size_bytes)
        for buffer in reply.buffers
    )


def _is_of_a_broker(request: Request, message: Message) -> bool:
    """A follower's Fetch and what it asks of its leader beside it, and what is asked on the ways to another broker: whether a
    transaction is open, and which versions the controller serves."""
    if is_client_id_of_a_broker(request.client_id):
        return True
    state = getattr(message, "replica_state", None)
    return getattr(message, "replica_id", -1) >= 0 or (state is not None and state.replica_id >= 0)


def _api(name: str) -> ApiKey:
    found = _API_NAMES.get(name.lower().replace("_", ""))
    if found is not None:
        return found
    near = nearest(name, {APIS[key].name: key for key in SERVED})
    raise ConfigurationError(
        f"{name}: no such API; "
        + (f"did you mean {near}?" if near else "docs/reference/api-keys.md lists them")
    )


def _code(name: str) -> ErrorCode:
    found = ErrorCode.__members__.get(name.upper())
    if found is not None and found is not ErrorCode.NONE:
        return found
    near = nearest(name.upper(), ErrorCode.__members__)
    raise ConfigurationError(f"{name}: no such error" + (f"; did you mean {near}?" if near else ""))
