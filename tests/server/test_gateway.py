"""Limits and turns at the door: who is let in, what closes a connection, what one callback brings to its end."""

import asyncio
import struct
from collections.abc import Callable, Iterator

import pytest
import uvloop

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.quotas import PRODUCE_RATE, REQUEST_PERCENTAGE
from odradek.broker.request import HeldRequest, Request
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.settings import BrokerSettings
from odradek.server.connection import MOST_TURN_NS, Connection
from odradek.server.gateway import CLOSED_A_TURN, RELEASED_A_TURN
from odradek.server.outgoing import ENOUGH_BYTES_A_TURN
from tests.old_asyncio import begin_to_read_though_paused
from tests.server.door import LIST_OFFSETS, Door, request
from tests.server.memory_transport import connect

METADATA = 3


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.AbstractEventLoop]:
    """Never run, and its clock stands still: rates and limits are the same however slow this machine is."""
    loop = asyncio.new_event_loop()
    monkeypatch.setattr(loop, "time", lambda: 1000.0)
    yield loop
    loop.close()


def test_a_request_carries_its_header_and_its_connection(loop: asyncio.AbstractEventLoop) -> None:
    door = Door(loop)
    connection, transport = door.connect()

    transport.feed(request(7, body=b"\0"))

    (seen,) = door.requests
    assert (seen.api_key, seen.api_version, seen.correlation_id, seen.client_id) == (LIST_OFFSETS, 6, 7, "me")
    assert (seen.connection.id, seen.connection.listener) == (connection.connection_id, "PLAINTEXT")
    # Version 6 of ListOffsets is flexible: a byte for no tagged fields follows the correlation id.
    assert transport.written == struct.pack(">iix", 7, 7) + b"ok"


def test_an_unknown_key_gets_an_answer_with_the_oldest_header(loop: asyncio.AbstractEventLoop) -> None:
    door = Door(loop)
    _, transport = door.connect()

    transport.feed(struct.pack(">ihhih", 10, 999, 0, 5, -1))

    assert transport.written == struct.pack(">ii", 6, 5) + b"ok"


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">ihhi", 8, METADATA, 9, 1),  # ends before the client id
        struct.pack(">ihhih", 10, METADATA, 9, 1, 5),  # a client id longer than the frame
        struct.pack(">ihhih", 10, METADATA, 9, 1, -7),  # a length that cannot be
        struct.pack(">ihhih", 12, METADATA, 1, 1, 2) + b"\xff\xfe",  # not UTF-8
        struct.pack(">ihhih", 11, METADATA, 9, 1, -1) + b"\xff",  # a tag count that never ends
    ],
)
def test_a_header_of_nonsense_closes_the_connection_with_one_line(
    loop: asyncio.AbstractEventLoop, frame: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    door = Door(loop)
    _, transport = door.connect()

    transport.feed(frame)

    assert transport.was_closed
    assert door.requests == []
    (record,) = caplog.records
    assert record.getMessage().startswith("connection from 127.0.0.1:40001 closed: ")
    assert record.exc_info is None


def test_a_body_of_nonsense_closes_the_connection(loop: asyncio.AbstractEventLoop) -> None:
    door = Door(loop)
    _, transport = door.connect()

    def refuse(request: Request) -> Answer:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "an array of 2147483647 elements in 12 bytes")

    door.decide = refuse
    transport.feed(request(1))

    assert transport.was_closed
    assert transport.written == b""


def test_a_flood_of_nonsense_is_one_line(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    door = Door(loop)

    for _ in range(100):
        _, transport = door.connect()
        transport.feed(struct.pack(">i", -1))
        assert transport.was_closed

    assert len(caplog.records) == 1
    assert door.metrics.nonsense_frames == 100


def test_a_mistake_of_ours_costs_the_connection_and_not_the_broker(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    door = Door(loop)
    _, transport = door.connect()
    door.decide = lambda request: 1 / 0  # type: ignore[return-value,assignment]

    transport.feed(request(1))

    assert transport.was_closed
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "(key, version and correlation id: 0002000600000001)" in record.getMessage()
    door.decide = lambda request: Reply([b"ok"])
    _, transport = door.connect()
    transport.feed(request(2))
    assert transport.written != b""


def test_an_answer_for_which_there_is_no_memory_costs_its_connection_and_no_other_ones_answer(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several are answered in one turn, as all who wait for one high watermark are: those behind it would wait for ever."""
    door = Door(loop)
    parked: list[Park] = []

    def park(request: Request) -> Answer:
        parked.append(Park())
        return parked[-1]

    door.decide = park
    (_, poor), (_, other) = door.connect(), door.connect()
    for transport in (poor, other):
        transport.feed(request())

    def no_memory(data: object) -> None:
        raise MemoryError

    monkeypatch.setattr(poor, "write", no_memory)
    for place in parked:
        place.complete(Reply([b"ok"]))
    door.gateway.end_turn()
    assert other.written.endswith(b"ok")
    assert poor.was_closed and not other.was_closed
    assert door.metrics.requests_failed_inside == 1


def test_an_answer_whose_want_of_memory_cannot_be_told_either_leaves_those_behind_it_to_the_next_turn(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To tell of a mistake takes memory, too. They counted as ready, and in no line of those that are."""
    door = Door(loop)
    parked: list[Park] = []

    def park(request: Request) -> Answer:
        parked.append(Park())
        return parked[-1]

    door.decide = park
    (_, poor), (_, other) = door.connect(), door.connect()
    for transport in (poor, other):
        transport.feed(request())

    def no_memory(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(poor, "write", no_memory)
    for place in parked:
        place.complete(Reply([b"ok"]))
    with monkeypatch.context() as patch:
        patch.setattr(door.gateway, "refused", no_memory)
        with pytest.raises(MemoryError):
            door.gateway.end_turn()
    door.gateway.end_turn()
    assert other.written.endswith(b"ok")
    assert poor.was_closed and not other.was_closed


def test_what_one_read_makes_due_is_done_before_the_callback_ends(loop: asyncio.AbstractEventLoop) -> None:
    """A produce on one connection wakes the fetch parked on another: no further turn of the loop."""
    door = Door(loop)
    _, fetching = door.connect()
    _, producing = door.connect()
    parked = Park()
    door.decide = lambda request: parked
    fetching.feed(request(1))

    def produce(request: Request) -> Answer:
        parked.complete(Reply([b"records"]))
        door.effects.append(lambda: None)
        return Reply([b"appended"])

    door.decide = produce
    producing.feed(request(2))

    assert fetching.written.endswith(b"records")
    assert producing.written.endswith(b"appended")
    assert door.effects == []


def test_a_connection_with_two_large_answers_writes_no_more_in_a_turn_than_one_may(
    loop: asyncio.AbstractEventLoop,
) -> None:
    door = Door(loop)
    _, transport = door.connect()
    size = ENOUGH_BYTES_A_TURN - 1_000
    door.decide = lambda request: Reply([bytes(size)])

    transport.feed(request(1) + request(2))

    assert len(door.requests) == 2
    assert ENOUGH_BYTES_A_TURN <= len(transport.written) < 2 * size


def test_effects_of_requests_that_waited_for_room_are_done_too(loop: asyncio.AbstractEventLoop) -> None:
    door = Door(loop, queued_max_requests="1")
    _, transport = door.connect()
    parks = [Park(), Park()]
    done: list[int] = []

    def park(request: Request) -> Answer:
        door.effects.append(lambda: done.append(request.correlation_id))
        return parks[request.correlation_id]

    door.decide = park
    transport.feed(request(0) + request(1))
    assert done == [0]

    parks[0].complete(Reply([b""]))
    door.gateway.end_turn()

    assert done == [0, 1]


def test_connections_beyond_the_limits_are_refused(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    door = Door(loop, max_connections="2")
    first, second = door.connect(), door.connect()
    _, third = door.connect()
    assert third.was_closed
    assert not first[1].was_closed and not second[1].was_closed
    assert "max.connections=2" in caplog.text

    door = Door(loop, max_connections_per_ip="1")
    kept = door.connect()
    refused = door.connect()
    assert refused[1].was_closed
    refused[0].connection_lost(None)
    kept[0].connection_lost(None)
    assert not door.connect()[1].was_closed, "places are given back"


def test_where_clients_took_every_place_a_broker_gets_the_one_of_the_idlest(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """KIP-402: a listener of the brokers' own is protected from the others."""
    door = Door(loop, max_connections="3", max_connection_creation_rate="3")
    door.decide = lambda request: Park() if request.correlation_id == 1 else Reply([b"ok"])
    waiting, idlest, idle = door.connect(), door.connect(), door.connect()
    waiting[1].feed(request(1))
    monkeypatch.setattr(loop, "time", lambda: 1001.0)
    idle[1].feed(request(2))

    _, broker = door.connect("INTERNAL")

    assert not broker.was_closed and broker.is_reading_allowed, "it is neither refused nor made to wait"
    assert idlest[1].was_closed and "max.connections=3" in caplog.text
    assert not waiting[1].was_closed and not idle[1].was_closed
    idlest[0].connection_lost(None)
    assert door.connect()[1].was_closed, "a client gets no place of others"

    _, second = door.connect("INTERNAL")
    assert idle[1].was_closed, "who waits for an answer is not idle"
    _, third = door.connect("INTERNAL")
    assert waiting[1].was_closed
    _, fourth = door.connect("INTERNAL")
    assert not any(transport.was_closed for transport in (broker, second, third, fourth))
    assert door.metrics.connections_refused == 4


def test_limits_change_while_the_broker_runs(loop: asyncio.AbstractEventLoop) -> None:
    door = Door(loop)
    kept = [door.connect() for _ in range(3)]
    door.gateway.settings_changed(BrokerSettings({"max.connections": "3"}))
    assert door.connect()[1].was_closed
    assert not any(transport.was_closed for _, transport in kept)
    overrides = {"max.connections.per.ip": "4", "max.connections.per.ip.overrides": "127.0.0.1:3"}
    door.gateway.settings_changed(BrokerSettings(overrides))
    refused = door.connect()
    assert refused[1].was_closed
    refused[0].connection_lost(None)
    door.gateway.settings_changed(BrokerSettings({}))
    assert not door.connect()[1].was_closed


def test_connections_that_come_too_fast_wait_their_turn(loop: asyncio.AbstractEventLoop) -> None:
    door = Door(loop, max_connection_creation_rate="2")
    transports = [door.connect()[1] for _ in range(4)]
    for number, transport in enumerate(transports):
        transport.feed(request(number, body=b"\0"))
    assert len(door.requests) == 2
    assert [transport.was_closed for transport in transports] == [False] * 4
    assert [transport.is_reading_allowed for transport in transports] == [True, True, False, False]


def test_who_has_not_logged_in_may_send_half_a_mebibyte(loop: asyncio.AbstractEventLoop) -> None:
    door = Door(loop)

    assert door.gateway.make_connection("EXTERNAL", "SASL_SSL").max_frame_bytes == 524_288
    smaller = Door(loop, sasl_server_max_receive_size="1000")
    assert smaller.gateway.make_connection("EXTERNAL", "SASL_SSL").max_frame_bytes == 1000
    assert door.gateway.make_connection("PLAINTEXT").max_frame_bytes == 100 * 1024 * 1024


def test_idle_connections_are_closed_and_busy_ones_are_not() -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        door = Door(loop, connections_max_idle_ms="1000")
        _, idle = door.connect()
        _, parked = door.connect()
        door.decide = lambda request: Park()
        parked.feed(request(1))
        _, unfinished = door.connect()
        unfinished.feed(request(1)[:-1])
        # The moment all of this happened is moved two seconds back instead of waiting.
        for connection in door.gateway._connections.values():
            connection.last_active_at -= 2.0
        door.gateway.start_closing_idle()
        async with asyncio.timeout(60):
            while not idle.was_closed:
                await asyncio.sleep(0.01)
        assert not parked.was_closed, "it waits for its answer"
        assert unfinished.was_closed, "one byte now and then is no request"
        assert door.metrics.connections_idle_closed == 2
        door.gateway.close()

    asyncio.run(scenario())


class Timers:
    def __init__(self) -> None:
        self.now = 1000.0
        self.due: list[tuple[float, Callable[..., None], tuple[object, ...]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay_s: float, callback: Callable[..., None], *arguments: object) -> None:
        self.due.append((self.now + delay_s, callback, arguments))

    def next(self) -> None:
        when, callback, arguments = self.due.pop()
        self.now = max(self.now, when)
        callback(*arguments)


def test_a_request_that_came_in_time_is_read_before_its_connection_is_closed_as_idle() -> None:
    """The loop comes late to its timer, and the bytes are in the kernel already: timers run before they are read."""

    timers = Timers()
    door = Door(timers, connections_max_idle_ms="1000")  # type: ignore[arg-type]
    (_, in_time), (_, silent) = door.connect(), door.connect()
    door.gateway.start_closing_idle()
    timers.now += 5
    timers.next()
    in_time.feed(request(1))
    timers.next()
    assert len(door.requests) == 1 and not in_time.was_closed
    assert silent.was_closed
    assert len(timers.due) == 1, "and it looks again"


def test_of_thousands_that_are_idle_some_are_closed_in_a_turn() -> None:
    """A load balancer holds them open, and all came in the same second."""
    timers = Timers()
    door = Door(timers, connections_max_idle_ms="1000")  # type: ignore[arg-type]
    many = [door.connect() for _ in range(2 * CLOSED_A_TURN + 1)]
    (_, in_time) = many[-1]
    door.gateway.start_closing_idle()
    timers.now += 5
    timers.next()
    timers.next()
    assert sum(transport.was_closed for _, transport in many) == CLOSED_A_TURN
    in_time.feed(request(1))
    timers.next()
    timers.next()
    assert [transport.was_closed for _, transport in many] == [*[True] * (2 * CLOSED_A_TURN), False]
    assert len(timers.due) == 1, "and it looks again"


def test_a_client_that_was_answered_just_now_is_not_idle() -> None:
    """JoinGroup waits for as long as the other members have, which may be more than connections.max.idle.ms."""
    timers = Timers()
    door = Door(timers, connections_max_idle_ms="1000")  # type: ignore[arg-type]
    (_, waiting), (_, silent) = door.connect(), door.connect()
    park = Park()
    door.decide = lambda request: park
    waiting.feed(request(1))
    door.gateway.start_closing_idle()
    timers.now += 5
    timers.next()
    park.complete(Reply([b"joined"]))
    door.gateway.end_turn()
    timers.next()
    assert b"joined" in waiting.written and not waiting.was_closed
    assert silent.was_closed
    timers.now += 5
    timers.next()
    timers.next()
    assert waiting.was_closed


def test_a_client_that_reads_none_of_its_answers_is_idle_and_a_slow_reader_is_not() -> None:
    timers = Timers()
    door = Door(timers, connections_max_idle_ms="1000")  # type: ignore[arg-type]
    door.decide = lambda request: Reply([bytes(10 << 20)])
    deaf, slow = (door.gateway.make_connection("PLAINTEXT") for _ in range(2))
    transports = [connect(connection, high_water_bytes=1_000) for connection in (deaf, slow)]
    for transport in transports:
        transport.feed(request(1))
    door.gateway.start_closing_idle()
    for _ in range(2):
        timers.now += 0.9
        transports[1].peer_reads()
        timers.next()
    timers.next()
    assert deaf.is_closing and not slow.is_closing
    assert door.metrics.connections_idle_closed == 1


# --- requests that the broker holds


def metadata(correlation_id: int) -> bytes:
    return request(correlation_id, key=METADATA, version=9)


class Holding:
    """A broker that holds questions about the cluster, until it is told to let them go."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.held: list[tuple[HeldRequest, Park]] = []
        door.decide = self.decide

    def decide(self, request: Request) -> Answer:
        if request.api_key != METADATA or request.was_held:
            return Reply([b"ok"])
        self.held.append((request.held(), Park()))
        return self.held[-1][1]

    def let_go(self) -> None:
        for held, place in self.held:
            self.door.gateway.handle_again(held, place)
        self.held = []
        self.door.gateway.end_turn()


def test_a_question_that_was_held_keeps_its_place(loop: asyncio.AbstractEventLoop) -> None:
    door = Door(loop)
    _, transport = door.connect()
    broker = Holding(door)
    transport.feed(request(1) + metadata(2) + request(3))
    broker.let_go()
    assert [seen.correlation_id for seen in door.requests] == [1, 2, 3, 2]
    answered = [struct.unpack_from(">i", transport.written, 4 + 11 * n)[0] for n in range(3)]
    assert answered == [1, 2, 3], "answers leave in the order of requests all the same"


def test_a_held_question_may_be_parked_again_or_fail(loop: asyncio.AbstractEventLoop) -> None:
    door = Door(loop)
    connection, transport = door.connect()
    _, other = door.connect()
    broker = Holding(door)
    transport.feed(metadata(1))
    other.feed(metadata(2))
    inner = Park()

    def decide(request: Request) -> Answer:
        if request.correlation_id == 2:
            raise ValueError("our own mistake")
        return inner

    door.decide = decide
    broker.let_go()
    assert other.was_closed and connection.requests_in_flight == 1, (
        "the mistake costs its own connection alone"
    )
    inner.complete(Reply([b"late"]))
    door.gateway.end_turn()
    assert transport.written.endswith(b"late")
    assert connection.requests_in_flight == 0


def test_the_time_of_requests_is_told_only_while_somebody_has_a_quota_of_it(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = Door(loop)
    connection, transport = door.connect()
    told: list[tuple[str | None, int]] = []
    monkeypatch.setattr(
        door.throttles,
        "time_spent",
        lambda request, nanoseconds, now_ms: told.append((request.client_id, nanoseconds)),
    )
    now_ns = 7_000_000
    monkeypatch.setattr(door.gateway, "stopwatch_ns", lambda: now_ns)

    def work(request: Request) -> Answer:
        nonlocal now_ns
        now_ns += 2_000_000
        return Reply([b"ok"])

    door.decide = work
    door.quotas.change("clients", "<default>", {PRODUCE_RATE: "1"})
    door.throttles.quotas_changed()
    transport.feed(request(1))
    assert told == []
    door.quotas.change("clients", "me", {REQUEST_PERCENTAGE: "1"})
    door.throttles.quotas_changed()
    transport.feed(request(2))
    door.gateway.handle_again(HeldRequest(LIST_OFFSETS, 6, 3, "me", memoryview(b""), connection.info), Park())
    assert told == [("me", 2_000_000)] * 2
    assert door.gateway.describe()["request_throttled"] == 0


def run_once(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_soon(loop.stop)
    loop.run_forever()


def test_whoever_has_used_up_a_quota_goes_on_when_it_is_another_one(loop: asyncio.AbstractEventLoop) -> None:
    """Else it would wait as long as it had to before: weeks, where somebody has set a byte a second by mistake."""
    door = Door(loop)
    held = [door.connect() for _ in range(RELEASED_A_TURN + 1)]
    door.decide = lambda request: Reply([b"ok"], throttle_time_ms=1_000_000_000)
    for _, transport in held:
        transport.feed(request(1) + request(2))
    assert len(door.requests) == len(held)
    door.quotas.change("clients", "me", {PRODUCE_RATE: "1"})
    door.throttles.quotas_changed()
    door.gateway.end_turn()
    assert len(door.requests) == len(held), "in turns of their own, for each may have a request that waits"
    run_once(loop)
    assert len(door.requests) == len(held) + RELEASED_A_TURN
    run_once(loop)
    assert len(door.requests) == 2 * len(held)
    assert not any(transport.is_reading_allowed for _, transport in held), "held to what there is now"

    for told in ({PRODUCE_RATE: "1"}, {PRODUCE_RATE: "2"}, {}):
        door.quotas.change("clients", "me", told)
        door.throttles.quotas_changed()
        door.gateway.end_turn()
        for _ in held:
            run_once(loop)
        is_other = told != {PRODUCE_RATE: "1"}  # what is told again after a new session is no news
        assert all(transport.is_reading_allowed is is_other for _, transport in held)


def test_requests_that_waited_for_a_quota_and_take_long_are_handled_in_several_turns(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Each connection may have as much as a read brings."""
    door = Door(loop)
    spent_ns = 0
    door.gateway.stopwatch_ns = lambda: spent_ns
    held = [door.connect() for _ in range(RELEASED_A_TURN)]
    door.decide = lambda request: Reply([b"ok"], throttle_time_ms=1_000_000_000)
    for _, transport in held:
        transport.feed(request(1) + request(2))

    def slow(request: Request) -> Reply:
        nonlocal spent_ns
        spent_ns += MOST_TURN_NS
        return Reply([b"ok"])

    door.decide = slow
    door.quotas.change("clients", "me", {PRODUCE_RATE: "1"})
    door.throttles.quotas_changed()
    door.gateway.end_turn()
    for turns in range(1, 4):
        run_once(loop)
        assert len(door.requests) == len(held) + turns


def test_who_waits_for_a_turn_to_be_let_in_is_not_let_in_because_a_quota_is_another_one(
    loop: asyncio.AbstractEventLoop,
) -> None:
    door = Door(loop, max_connection_creation_rate="1")
    door.connect()
    _, waiting = door.connect()
    assert not waiting.is_reading_allowed
    door.quotas.change("clients", "me", {PRODUCE_RATE: "1"})
    door.throttles.quotas_changed()
    door.gateway.end_turn()
    run_once(loop)
    assert not waiting.is_reading_allowed


@pytest.mark.parametrize("loops", ["asyncio", "asyncio before 3.11.4", "uvloop"])
def test_a_client_may_send_much_while_it_waits_for_its_turn(
    loops: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is muted before its transport has begun to read. Some begin all the same."""
    if loops == "asyncio before 3.11.4":
        begin_to_read_though_paused(monkeypatch)
    count = 40_000

    async def main() -> None:
        loop = asyncio.get_running_loop()
        door = Door(loop)
        made: list[Connection] = []

        def make_connection() -> Connection:
            made.append(door.gateway.make_connection("PLAINTEXT"))
            return made[-1]

        server = await loop.create_server(make_connection, "127.0.0.1", 0)
        address = server.sockets[0].getsockname()
        early_reader, early = await asyncio.open_connection(*address)
        early.write(request())
        size = len(await early_reader.readexactly(4 + 4 + 1 + 2))  # size, correlation id, no tags, "ok"
        monkeypatch.setattr(door.gateway._limits, "opened", lambda *_, **__: 3600.0)
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"".join(request(number) for number in range(count)))
        for _ in range(10):
            early.write(request())
            await early_reader.readexactly(size)
        waiting = made[1]
        assert waiting.transport is not None and not waiting.transport.is_reading()
        assert len(door.requests) == 11

        waiting._muted_until = loop.time()
        waiting._unmute()
        answers = await reader.readexactly(count * size)
        assert [number for _, number in struct.iter_unpack(f">ii{size - 8}x", answers)] == list(range(count))
        server.close()
        writer.close()
        early.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop if loops == "uvloop" else None) as runner:
        runner.run(main())
    assert not caplog.records


def test_a_broker_that_stops_waits_for_its_answers_to_leave() -> None:
    """Larger than what the kernel takes, to a client that begins to read when the door is closed already. Before it came
    there was a time without any connection."""
    size = 32 << 20

    async def main() -> int:
        loop = asyncio.get_running_loop()
        door = Door(loop)
        door.decide = lambda request: Reply([bytes(size)])
        earlier, _ = door.connect()
        earlier.connection_lost(None)
        server = await loop.create_server(lambda: door.gateway.make_connection("PLAINTEXT"), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname(), limit=2**16)
        writer.write(request())
        while not door.requests:
            await asyncio.sleep(0)
        server.close()
        door.gateway.close()
        stopped = loop.create_task(door.gateway.drained())
        await asyncio.sleep(0)
        assert not stopped.done()
        received = 0
        while data := await reader.read(2**20):
            received += len(data)
        await stopped
        writer.close()
        return received

    assert asyncio.run(main()) > size


def test_a_door_with_nothing_to_say_is_closed_at_once(loop: asyncio.AbstractEventLoop) -> None:
    door = Door(loop)
    _, transport = door.connect()
    door.gateway.close()
    assert transport.was_closed
    with pytest.raises(StopIteration):
        door.gateway.drained().send(None)
