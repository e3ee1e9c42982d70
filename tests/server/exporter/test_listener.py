"""The port of metrics as Prometheus sees it, and as somebody who means no good."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator

import pytest

from odradek.model.errors import ConfigurationError
from odradek.model.listeners import ListenerAddress, parse_metrics_listener
from odradek.server.exporter.listener import (
    LARGEST_REQUEST_BYTES,
    MOST_AT_ONCE,
    PAGE_TIMEOUT_S,
    REQUEST_TIMEOUT_S,
    MetricsListener,
)
from odradek.server.listener import PortInUse
from odradek.server.log_limits import LimitedLog
from odradek.testing.running_cluster import ShiftedLoop

HOME = ListenerAddress("HTTP", "localhost", 0)
GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"


def page() -> Iterator[str]:
    yield "one 1\n"
    yield ""
    yield "two 2\n"


def with_listener(
    test: Callable[[MetricsListener, ShiftedLoop], Awaitable[None]],
    shown: Callable[[], Iterator[str]] | None = page,
) -> None:
    loop = ShiftedLoop()

    async def run() -> None:
        listener = MetricsListener(loop, LimitedLog(logging.getLogger("metrics"), loop.time))
        await listener.open(HOME)
        if shown is not None:
            listener.show(shown)
        try:
            async with asyncio.timeout(3_600):
                await test(listener, loop)
        finally:
            listener.close()

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()


async def opened(listener: MetricsListener) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    assert listener.address is not None
    return await asyncio.open_connection("127.0.0.1", listener.address.port)


async def said(listener: MetricsListener, asked: bytes) -> tuple[str, str, str]:
    """Status line, headers and what follows."""
    reader, writer = await opened(listener)
    writer.write(asked)
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    status, _, headers = head.partition("\r\n")
    return status, headers, body


def test_the_page_comes_in_chunks_that_end() -> None:
    async def test(listener: MetricsListener, loop: ShiftedLoop) -> None:
        status, headers, body = await said(listener, GET)
        assert status == "HTTP/1.1 200 OK"
        assert "Content-Type: text/plain; version=0.0.4; charset=utf-8" in headers
        assert "Transfer-Encoding: chunked" in headers
        assert body == "6\r\none 1\n\r\n6\r\ntwo 2\n\r\n0\r\n\r\n"

    with_listener(test)


@pytest.mark.parametrize(
    ("asked", "status", "sentence"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "404 Not Found", "the metrics are at /metrics"),
        (b"GET http://metrics HTTP/1.1\r\n\r\n", "404 Not Found", "the metrics are at /metrics"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed", "GET is what is served"),
        (b"\x00\x00\x00\x12\x00\x03\r\n\r\n", "400 Bad Request", "GET /metrics HTTP/1.1 would do"),
        (b"GET /metrics HTTP/2\r\n\r\n", "400 Bad Request", "GET /metrics HTTP/1.1 would do"),
        (
            b"x" * (LARGEST_REQUEST_BYTES + 1),
            "431 Request Header Fields Too Large",
            "at most 8192 bytes are read",
        ),
    ],
)
def test_what_is_not_served_is_said(asked: bytes, status: str, sentence: str) -> None:
    async def test(listener: MetricsListener, loop: ShiftedLoop) -> None:
        first, headers, body = await said(listener, asked)
        assert first == f"HTTP/1.1 {status}"
        assert body == f"{sentence}\n"
        assert f"Content-Length: {len(body)}" in headers

    with_listener(test)


def test_other_forms_of_the_question_are_understood() -> None:
    async def test(listener: MetricsListener, loop: ShiftedLoop) -> None:
        status, _, _ = await said(listener, b"GET HTTP://x:9404/metrics?x=1 HTTP/1.1\r\n\r\n")
        assert status == "HTTP/1.1 200 OK"
        _, headers, body = await said(listener, b"GET /metrics?x=1 HTTP/1.0\r\n\r\n")
        assert body == "one 1\ntwo 2\n"
        assert "chunked" not in headers
        status, _, body = await said(listener, b"HEAD /metrics HTTP/1.1\r\n\r\n")
        assert (status, body) == ("HTTP/1.1 200 OK", "")
        reader, writer = await opened(listener)
        for byte in GET:
            writer.write(bytes([byte]))
            await writer.drain()
        writer.write_eof()  # and reads on
        assert (await reader.read()).endswith(b"two 2\n\r\n0\r\n\r\n")
        writer.close()

    with_listener(test)


def test_a_broker_that_starts_says_so() -> None:
    async def test(listener: MetricsListener, loop: ShiftedLoop) -> None:
        status, _, body = await said(listener, GET)
        assert (status, body) == ("HTTP/1.1 503 Service Unavailable", "the broker is starting\n")

    with_listener(test, shown=None)


def test_who_asks_nothing_is_left_in_time() -> None:
    async def test(listener: MetricsListener, loop: ShiftedLoop) -> None:
        reader, writer = await opened(listener)
        writer.write(b"GET /metr")
        await writer.drain()
        assert (await said(listener, GET))[0] == "HTTP/1.1 200 OK"
        loop.ahead_s += REQUEST_TIMEOUT_S
        assert await reader.read() == b""
        writer.close()

    with_listener(test)


def test_a_page_is_made_no_faster_than_it_is_read_and_left_in_time() -> None:
    made = 0

    def endless() -> Iterator[str]:
        nonlocal made
        while True:
            made += 1
            yield "x" * 65_536

    async def test(listener: MetricsListener, loop: ShiftedLoop) -> None:
        reader, writer = await opened(listener)
        writer.write(GET)
        before = -1
        while before != made or not made:  # until nothing more is made
            before = made
            for _ in range(100):
                await asyncio.sleep(0)
        assert made < 500, "what the kernel takes, and a little"
        loop.ahead_s += PAGE_TIMEOUT_S
        assert not (await reader.read()).endswith(b"\r\n0\r\n\r\n"), "it looks like the end of the page"
        writer.close()

    with_listener(test, endless)


def test_who_does_not_take_the_end_of_a_page_is_left_in_time() -> None:
    """What is left of it lies in the broker, and its place is one of a few."""
    listening: list[MetricsListener] = []

    def until_it_lies_here() -> Iterator[str]:
        (conversation,) = listening[0]._conversations
        assert conversation._transport is not None
        while not conversation._transport.get_write_buffer_size():
            yield "x" * 4_096

    async def test(listener: MetricsListener, loop: ShiftedLoop) -> None:
        listening.append(listener)
        _, writer = await opened(listener)
        writer.write(GET)
        while not any(one._transport.is_closing() for one in listener._conversations if one._transport):
            await asyncio.sleep(0)
        loop.ahead_s += REQUEST_TIMEOUT_S
        for _ in range(10):
            await asyncio.sleep(0)
        assert not listener._conversations
        writer.close()

    with_listener(test, until_it_lies_here)


def test_only_a_few_are_answered_at_once_and_others_when_they_have_gone() -> None:
    async def test(listener: MetricsListener, loop: ShiftedLoop) -> None:
        held = [await opened(listener) for _ in range(MOST_AT_ONCE)]
        status, _, body = await said(listener, b"")
        assert status == "HTTP/1.1 503 Service Unavailable"
        assert body == f"{MOST_AT_ONCE} others are being answered; ask again\n"
        for _, writer in held:
            writer.close()
            await writer.wait_closed()
        assert (await said(listener, GET))[0] == "HTTP/1.1 200 OK"

    with_listener(test)


def test_a_page_that_cannot_be_made_is_told_and_seen_to_be_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Iterator[str]:
        yield "one 1\n"
        raise KeyError("what nobody foresaw")

    async def test(listener: MetricsListener, loop: ShiftedLoop) -> None:
        reader, writer = await opened(listener)
        writer.write(GET)
        try:
            answer = await reader.read()
        except ConnectionResetError:
            answer = b""
        assert not answer.endswith(b"0\r\n\r\n")
        writer.close()
        assert (await said(listener, b"GET / HTTP/1.1\r\n\r\n"))[0] == "HTTP/1.1 404 Not Found"

    with_listener(test, broken)
    assert "the page of metrics could not be made: KeyError('what nobody foresaw')" in caplog.text


def test_other_callbacks_run_between_two_pieces() -> None:
    turns = 0
    seen: list[int] = []

    def counting() -> Iterator[str]:
        for _ in range(10):
            seen.append(turns)
            yield ""

    async def test(listener: MetricsListener, loop: ShiftedLoop) -> None:
        def turn() -> None:
            nonlocal turns
            turns += 1
            loop.call_soon(turn)

        loop.call_soon(turn)
        await said(listener, GET)

    with_listener(test, counting)
    assert len(set(seen)) == 10


def test_a_port_in_use_names_the_setting() -> None:
    async def test(listener: MetricsListener, loop: ShiftedLoop) -> None:
        assert listener.address is not None
        other = MetricsListener(loop, LimitedLog(logging.getLogger("metrics"), loop.time))
        with pytest.raises(PortInUse, match=r"choose another port in odradek\.metrics\.listener"):
            await other.open(listener.address)

    with_listener(test)


def test_where_it_listens_is_read_as_written() -> None:
    assert parse_metrics_listener("") is None
    assert parse_metrics_listener("http://0.0.0.0:9404") == ListenerAddress("HTTP", "0.0.0.0", 9404)


@pytest.mark.parametrize(
    "text",
    [
        "9404",
        "localhost:9404",
        "https://h:1",
        "http://h",
        "http://h:70000",
        "http://a:1,http://b:2",
        "http://h:1,x",
    ],
)
def test_what_is_no_address_is_said(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"odradek\.metrics\.listener: .* http://localhost:9404"):
        parse_metrics_listener(text)
