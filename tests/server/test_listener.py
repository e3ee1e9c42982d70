"""Addresses: where a broker listens, and what it tells others."""

import asyncio
import resource
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from odradek.model.errors import ConfigurationError
from odradek.model.listeners import ListenerAddress, parse_advertised, parse_listeners
from odradek.model.settings import BrokerSettings
from odradek.server.listener import (
    CannotListen,
    Listeners,
    PortInUse,
    inter_broker_listener,
)


def settings(**given: str) -> BrokerSettings:
    return BrokerSettings({name.replace("_", "."): value for name, value in given.items()})


def test_listeners_are_read_as_written() -> None:
    assert parse_listeners("listeners", "PLAINTEXT://:9092, internal://[::1]:9093,X://h:0") == (
        ListenerAddress("PLAINTEXT", "", 9092),
        ListenerAddress("INTERNAL", "::1", 9093),
        ListenerAddress("X", "h", 0),
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "localhost:9092", "PLAINTEXT://localhost", "PLAINTEXT://h:x", "A://h:70000", "A://h:1,A://h:2"),
        *(
            "A://h:²",
            "A://h:000065536",
            "A://a b:1",
            "A://\x1b[31m:1",
            "A://[x]y:1",
            "A://a:b:1",
            "A://[h]]:1",
        ),
        *("A b://h:1", "A://h\n:1", "A://" + "h" * 254 + ":1", "A://\u202eh:1"),
    ],
)
def test_what_is_no_listener_is_said(text: str) -> None:
    with pytest.raises(ConfigurationError, match="listeners"):
        parse_listeners("listeners", text)


def test_a_port_beyond_the_last_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"^listeners: 'A://h:65536': 65535 is the last port$"):
        parse_listeners("listeners", "A://h:65535,A://h:65536")


def endpoints(host_name: str = "me", **given: str) -> list[tuple[str, str, bool]]:
    async def main() -> list[tuple[str, str, bool]]:
        listeners, wanted = Listeners(), settings(**given)
        await listeners.open(asyncio.get_running_loop(), wanted, lambda name: asyncio.Protocol())
        try:
            found = listeners.endpoints(wanted, lambda: host_name)
        finally:
            listeners.close()
        return [(e.listener, e.host, e.port > 0) for e in found]

    return asyncio.run(main())


@pytest.mark.parametrize("text", ["PLAINTEXT://0.0.0.0:1", "PLAINTEXT://[::]:1", "OTHER://h:1"])
def test_what_nobody_could_connect_to_is_not_advertised(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^advertised\.listeners: "):
        parse_advertised(text, ["PLAINTEXT"])


def test_no_host_is_advertised_as_the_name_of_this_machine() -> None:
    assert endpoints(listeners="PLAINTEXT://localhost:0", advertised_listeners="PLAINTEXT://:0") == [
        ("PLAINTEXT", "me", True)
    ]


def test_thousands_may_ask_to_connect_at_once_and_a_turn_of_the_loop_accepts_some_of_them() -> None:
    """Whom the kernel has no room for tries again after a second; whoever accepts all of them in one turn holds it."""
    room = int(Path("/proc/sys/net/core/somaxconn").read_text()) if sys.platform == "linux" else 128
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    crowd = min(room, 3000, hard // 2 - 100)  # both ends are ours

    async def accepted_by_turn() -> list[int]:
        loop = asyncio.get_running_loop()
        accepted: list[str] = []
        by_turn = []

        def made(name: str) -> asyncio.Protocol:
            accepted.append(name)
            return asyncio.Protocol()

        listeners = Listeners()
        await listeners.open(loop, settings(listeners="PLAINTEXT://localhost:0"), made)
        clients = []
        try:
            for _ in range(crowd):  # the loop takes no turn meanwhile: each of them waits in the kernel
                clients.append(socket.create_connection(("127.0.0.1", listeners.bound[0].port), timeout=0.5))
            while len(accepted) < crowd:
                before = len(accepted)
                await asyncio.sleep(0)
                by_turn.append(len(accepted) - before)
            return by_turn
        finally:
            for client in clients:
                client.close()
            listeners.close()

    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        by_turn = asyncio.run(asyncio.wait_for(accepted_by_turn(), 60))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert sum(by_turn) == crowd
    assert max(by_turn) <= 100  # of some 60 us each


def test_localhost_is_told_as_an_ipv4_address_where_nothing_else_is_advertised() -> None:
    assert endpoints(listeners="PLAINTEXT://localhost:0") == [("PLAINTEXT", "127.0.0.1", True)]
    assert endpoints(listeners="PLAINTEXT://localhost:0", advertised_listeners="PLAINTEXT://localhost:0") == [
        ("PLAINTEXT", "localhost", True)
    ]


def test_every_interface_is_told_as_the_name_of_this_machine() -> None:
    assert endpoints(listeners="PLAINTEXT://:0") == [("PLAINTEXT", "me", True)]
    assert endpoints(listeners="PLAINTEXT://0.0.0.0:0") == [("PLAINTEXT", "me", True)]


def test_advertised_listeners_are_told_as_they_stand() -> None:
    found = endpoints(
        listeners="PLAINTEXT://127.0.0.1:0,OUT://127.0.0.1:0",
        advertised_listeners="OUT://example.org:443",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OUT:PLAINTEXT",
    )
    assert found == [("OUT", "example.org", True)]


def test_an_advertised_listener_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="OUT is not among listeners"):
        endpoints(listeners="PLAINTEXT://127.0.0.1:0", advertised_listeners="OUT://h:1")


def test_a_listener_without_a_protocol_or_with_one_not_served_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="add OUT:PLAINTEXT"):
        endpoints(listeners="OUT://127.0.0.1:0")
    with pytest.raises(ConfigurationError, match="PLAINTEXT is what is served so far"):
        endpoints(listeners="SSL://127.0.0.1:0")


def test_the_second_listener_failing_closes_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[asyncio.Server] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        wanted = settings(
            listeners=f"PLAINTEXT://127.0.0.1:0,B://127.0.0.1:{taken.getsockname()[1]}",
            listener_security_protocol_map="PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
        )

        async def main() -> None:
            listeners, loop = Listeners(), asyncio.get_running_loop()
            create_server = loop.create_server

            async def remembered(*args: Any, **options: Any) -> asyncio.Server:
                opened.append(await create_server(*args, **options))
                return opened[-1]

            monkeypatch.setattr(loop, "create_server", remembered)
            with pytest.raises(PortInUse):
                await listeners.open(loop, wanted, lambda name: asyncio.Protocol())
            (first,) = opened
            assert first.sockets == (), "it does not listen any more"

        asyncio.run(main())


def test_a_listener_with_a_name_nobody_knows_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def main() -> None:
        wanted = settings(listeners="PLAINTEXT://nowhere.invalid:9092")
        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        with pytest.raises(CannotListen, match=r"the name nowhere\.invalid is not known .*choose a name"):
            await Listeners().open(asyncio.get_running_loop(), wanted, lambda name: asyncio.Protocol())

    asyncio.run(main())


@pytest.mark.parametrize("host", ["kafka..example", "k" * 64 + ".example"])
def test_a_listener_with_a_name_that_is_none_is_said_so(host: str) -> None:
    async def main() -> None:
        wanted = settings(listeners=f"PLAINTEXT://{host}:0")
        with pytest.raises(CannotListen, match=rf"the name {host} .*choose a name"):
            await Listeners().open(asyncio.get_running_loop(), wanted, lambda name: asyncio.Protocol())

    asyncio.run(main())


def test_brokers_talk_over_the_listener_that_is_named_or_that_has_the_protocol() -> None:
    protocols = "A:SSL,B:PLAINTEXT,PLAINTEXT:PLAINTEXT"
    assert inter_broker_listener(settings()) == "PLAINTEXT"
    named = settings(
        listeners="B://h:1,PLAINTEXT://h:2",
        listener_security_protocol_map=protocols,
        inter_broker_listener_name="PLAINTEXT",
    )
    assert inter_broker_listener(named) == "PLAINTEXT"
    with pytest.raises(ConfigurationError, match=r"not among listeners \(B\)"):
        inter_broker_listener(
            settings(
                listeners="B://h:1",
                listener_security_protocol_map=protocols,
                inter_broker_listener_name="OTHER",
            )
        )


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::"])
def test_of_every_interface_the_name_of_this_machine_is_told(host: str) -> None:
    listeners = Listeners()
    listeners.bound = [ListenerAddress("PLAINTEXT", host, 9_092)]
    (told,) = listeners.endpoints(BrokerSettings({}), lambda: "me")
    assert (told.host, told.port) == ("me", 9_092)
