"""The connection with an ensemble that does not answer. No server but a socket that listens."""

import asyncio
import errno
import os
import re
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.store.api import StoreUnavailable
from odradek.store.zookeeper.security import Security

link_module = pytest.importorskip("odradek.store.zookeeper.link", reason="kazoo is not installed")


@pytest.fixture
def silent() -> Iterator[str]:
    """Takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        yield f"{host}:{port}"


def link_to(hosts: str) -> Any:
    return link_module.KazooLink(
        hosts,
        300,
        Security(),
        on_state=lambda state: None,
        on_negotiated=lambda timeout_s: None,
        on_watch=lambda event: None,
    )


def test_whoever_stops_it_again_waits_for_the_same_end(silent: str) -> None:
    """A refused session stops its connection twice: for the refusal, and for the connect that failed of it."""

    async def scenario() -> None:
        connecting = asyncio.Event()
        link = link_to(silent)
        make = link._client.handler.create_connection

        def making(*arguments: object, **named: object) -> object:
            made = make(*arguments, **named)
            link._post(connecting.set)
            return made

        link._client.handler.create_connection = making
        link.start()
        async with asyncio.timeout(60):
            await connecting.wait()
            first, again = link.stop(), link.stop()
            await again
            assert link._client._connection.connection_stopped.is_set()
            assert link._client._connection._write_sock is None, "kazoo has given its descriptors back"
            await first

    asyncio.run(scenario())


def test_a_link_without_a_session_has_the_number_of_none(silent: str) -> None:
    """It came up, and was refused before that was heard: kazoo has forgotten the number by then."""

    async def scenario() -> None:
        link = link_to(silent)
        link._client._session_id = None
        assert link.session_id == 0

    asyncio.run(scenario())


def test_the_problem_with_a_connection_is_what_kazoo_warned_of_last(silent: str) -> None:
    async def scenario() -> None:
        link = link_to(silent)
        link._client.logger.warning("Connection dropped: %s", "refused")
        link._client.logger.info("Connecting again")
        assert link.last_problem == "Connection dropped: refused"

    asyncio.run(scenario())


def test_one_who_no_longer_waits_takes_the_end_from_nobody(silent: str) -> None:
    async def scenario() -> None:
        link = link_to(silent)
        link.start()
        impatient = asyncio.ensure_future(link.stop())
        impatient.cancel()
        async with asyncio.timeout(60):
            await link.stop()
        assert impatient.cancelled()

    asyncio.run(scenario())


@pytest.mark.parametrize("is_closed", [False, True])
def test_refused_credentials_are_told_to_whoever_asks_however_late(silent: str, is_closed: bool) -> None:
    """kazoo closes a refused connection by itself, and may have done so before the first question is asked."""
    from kazoo.protocol.states import KeeperState

    from odradek.store.api import NotAllowed
    from odradek.store.zookeeper.link import translated

    async def scenario() -> None:
        link = link_to(silent)
        # As kazoo's thread tells it.
        client = link._client
        client._session_callback(KeeperState.CONNECTED)
        client._session_callback(KeeperState.AUTH_FAILED)
        if is_closed:
            client._session_callback(KeeperState.CLOSED)
        told = asyncio.get_running_loop().create_future()
        link.ask(link.exists("/", watch=False), lambda value, error, zxid: told.set_result(error))
        async with asyncio.timeout(60):
            refusal = translated(await told, "/")
        assert isinstance(refusal, NotAllowed)
        assert "refuses this broker's credentials" in str(refusal)

    asyncio.run(scenario())


def test_what_is_asked_at_the_very_end_is_answered(silent: str) -> None:
    """kazoo's thread ends, and clears its queue, between its look at the state and what it puts into the queue."""
    from kazoo.exceptions import ConnectionClosedError
    from kazoo.protocol.states import KeeperState

    async def scenario() -> None:
        link = link_to(silent)
        link._client._session_callback(KeeperState.CONNECTED)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            link._client._connection._write_sock = ours
            assert link._client._connection.connection_stopped.is_set(), "as after its end"
            told = asyncio.get_running_loop().create_future()
            link.ask(link.exists("/", watch=False), lambda value, error, zxid: told.set_result(error))
            async with asyncio.timeout(60):
                assert isinstance(await told, ConnectionClosedError)

    asyncio.run(scenario())


def test_a_session_that_finds_no_descriptor_or_no_thread_can_be_opened_later(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a session ended in such a moment its broker ended too."""
    from odradek.store.zookeeper.session import ZooKeeperStore

    async def scenario() -> None:
        handler = link_module.SequentialThreadingHandler
        for call, error in (
            ("create_socket_pair", OSError(errno.EMFILE, os.strerror(errno.EMFILE))),
            ("spawn", RuntimeError("can't start new thread")),
            ("spawn", MemoryError()),
        ):

            def refuse(*arguments: object, error: Exception = error, **named: object) -> None:
                raise error

            with monkeypatch.context() as patched:
                patched.setattr(handler, call, refuse)
                with pytest.raises(
                    StoreUnavailable, match=f"cannot be begun: {re.escape(str(error) or 'no memory')}; "
                ):
                    await ZooKeeperStore.open(silent, 300, 300)
        before = len(os.listdir("/proc/self/fd"))
        with monkeypatch.context() as patched:
            patched.setattr(handler, "spawn", refuse)
            with pytest.raises(StoreUnavailable):
                await ZooKeeperStore.open(silent, 300, 300)
        assert len(os.listdir("/proc/self/fd")) == before, "nothing of it is left"

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()], ids=repr)
def test_the_end_of_a_connection_waits_until_there_is_a_thread_for_it(
    error: Exception, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        link = link_to(silent)
        link.start()
        start = threading.Thread.start
        refused = []

        def refuse(thread: threading.Thread) -> None:
            refused.append(thread)
            if len(refused) > 1:
                return start(thread)
            raise error

        monkeypatch.setattr(threading.Thread, "start", lambda thread: refuse(thread))
        monkeypatch.setattr(link_module, "THREAD_AGAIN_S", 0.001)
        async with asyncio.timeout(60):
            await link.stop()
        assert len(refused) == 2

    asyncio.run(scenario())
