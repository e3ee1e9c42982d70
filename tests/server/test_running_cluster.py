"""Several whole brokers in one process: sessions that end, stores out of reach, disks that fail, buffers
reused.
"""

import asyncio
import gc
import os
import random
import signal
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition

from odradek.broker.effects import CreateTopics, NewTopic
from odradek.controller.events import Requested
from odradek.log.errors import DiskFault
from odradek.model.controller_requests import ControlledShutdownAsked
from odradek.model.errors import ConfigurationError
from odradek.model.ids import BrokerId, TopicId, TopicPartition
from odradek.model.properties import parse_properties
from odradek.protocol.headers import encode_request
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.server import store_questions
from odradek.server.broker_runtime import BrokerRuntime
from odradek.server.environment import Environment
from odradek.server.fetchers import Fetching
from odradek.server.gateway import Gateway
from odradek.store.memory_session import MemorySession
from odradek.testing import process_cluster as process_cluster_module
from odradek.testing import running_cluster as running_cluster_module
from odradek.testing.process_cluster import BrokerProcess, ProcessCluster
from odradek.testing.running_cluster import LocalCluster, running_cluster
from tests.clients.support import number_in, value_of
from tests.support import no_collector, open_under, without_assertions

ORDERS = TopicPartition("orders", 0)


def in_loop(tmp_path: Path, body: Callable[[LocalCluster], Awaitable[None]], **settings: str) -> None:
    """A cluster of three on this test's own loop, with the topic `orders`, one partition on all three."""

    async def main() -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        cluster = LocalCluster(tmp_path, 3, {"min.insync.replicas": "2", **named})
        try:
            async with asyncio.timeout(120):
                await cluster.start()
                await create(cluster, "orders", (1, 2, 3))
                await body(cluster)
        finally:
            await cluster.stop()

    asyncio.run(main())


async def create(cluster: LocalCluster, topic: str, replicas: tuple[int, ...]) -> None:
    store = cluster.ensemble.open()
    new = NewTopic(topic, TopicId(random.randbytes(16)), {0: tuple(BrokerId(r) for r in replicas)})
    await store_questions.answer(store, CreateTopics((new,)))
    await cluster.until(
        lambda: leads(cluster, replicas[0], isr=set(replicas), topic=topic), f"{topic} is led"
    )


def leads(
    cluster: LocalCluster, broker_id: int, *, isr: set[int] | None = None, topic: str = "orders"
) -> bool:
    runtime = cluster.runtimes.get(broker_id)
    partition = runtime and runtime.broker.replicas.partitions.get(TopicPartition(topic, 0))
    if not partition or not partition.is_leader:
        return False
    return isr is None or set(partition.isr) == isr


def session_of(cluster: LocalCluster, broker_id: int) -> MemorySession:
    session = cluster.runtimes[broker_id].store
    assert isinstance(session, MemorySession)
    return session


def controller_of(cluster: LocalCluster) -> int:
    (leading,) = [b for b, runtime in cluster.runtimes.items() if runtime.controller.is_leading]
    return leading


def test_a_broker_whose_session_ends_registers_again_and_comes_back_into_the_isr(tmp_path: Path) -> None:
    async def body(cluster: LocalCluster) -> None:
        follower = next(b for b in (2, 3) if b != controller_of(cluster))
        runtime = cluster.runtimes[follower]
        assert runtime.registration is not None
        old_epoch = runtime.registration.epoch
        partition = cluster.runtimes[1].broker.replicas.partitions[ORDERS]
        old_version = partition.partition_epoch

        cluster.ensemble.expire(session_of(cluster, follower).session_id)
        # Counted, not looked at: the ISR without it may last too short a moment to be seen.
        await cluster.until(
            lambda: partition.partition_epoch >= old_version + 2, "two other ISRs were written"
        )
        await cluster.until(lambda: leads(cluster, 1, isr={1, 2, 3}), "it left the ISR and is back in it")

        assert runtime.registration.epoch > old_epoch
        assert runtime.registration.clean_epoch == old_epoch, "the process went on, so nothing was lost"
        assert runtime.metrics.session_expirations == 1

    in_loop(tmp_path, body)


def test_when_the_controllers_session_ends_another_leads_and_everybody_hears_of_it(tmp_path: Path) -> None:
    async def body(cluster: LocalCluster) -> None:
        first = controller_of(cluster)

        cluster.ensemble.expire(session_of(cluster, first).session_id)
        await cluster.until(
            lambda: all(
                runtime.broker.metadata.controller_id not in (None, first)
                for runtime in cluster.runtimes.values()
            ),
            "everybody knows the new controller",
        )

        assert controller_of(cluster) != first
        await cluster.until(
            lambda: any(leads(cluster, b, isr={1, 2, 3}) for b in cluster.runtimes), "the ISR is full"
        )

    in_loop(tmp_path, body)


def test_a_broker_out_of_touch_with_the_store_goes_on_and_catches_up(tmp_path: Path) -> None:
    async def body(cluster: LocalCluster) -> None:
        away = next(b for b in (2, 3) if b != controller_of(cluster))
        session = session_of(cluster, away)

        session.disconnect()
        await create(cluster, "while-away", tuple({1, 2, 3} - {away}))
        session.connect()
        await create(cluster, "afterwards", (1, 2, 3))

        assert cluster.runtimes[away].store is session
        assert cluster.runtimes[away].metrics.session_expirations == 0

    in_loop(tmp_path, body)


def test_a_controller_that_cannot_write_resigns_and_the_cluster_goes_on(tmp_path: Path) -> None:
    async def body(cluster: LocalCluster) -> None:
        first = controller_of(cluster)
        session = session_of(cluster, first)

        session.disconnect()
        victim = next(b for b in (2, 3) if b != first)
        await cluster.kill_broker(victim)
        # Its session ends, as it would after the timeout; the client gave itself up before.
        session.give_up()
        cluster.ensemble.expire(session.session_id)
        rest = {1, 2, 3} - {victim}

        await cluster.until(
            lambda: any(leads(cluster, b, isr=rest) for b in rest), "the two that live are in sync"
        )
        assert controller_of(cluster) in rest

    in_loop(tmp_path, body)


def test_a_failed_log_directory_moves_its_leaders_and_leaves_the_broker_alive(tmp_path: Path) -> None:
    async def body(cluster: LocalCluster) -> None:
        runtime = cluster.runtimes[1]
        path = runtime.logs.directory_of(ORDERS)
        (directory,) = [d for d in runtime.logs.directories if d.path == path]

        directory.root.health.fail(DiskFault("the disk hums and is no more"))

        await cluster.until(lambda: any(leads(cluster, b, isr={2, 3}) for b in (2, 3)), "another one leads")
        assert not runtime.broken.done()
        await create(cluster, "elsewhere", (1, 2, 3))
        assert runtime.logs.directory_of(TopicPartition("elsewhere", 0)) != path

    in_loop(tmp_path, body, log_dirs=f"{tmp_path}/$broker/a,{tmp_path}/$broker/b")


def test_a_batch_damaged_on_the_leaders_disk_is_found_and_the_replica_fetched_anew(tmp_path: Path) -> None:
    """Nobody reads it: the walk over all logs finds it (decisions/0010)."""
    keys = [str(n).encode() for n in range(20)]

    def produce(bootstrap: str) -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        for key in keys:
            producer.produce("orders", key)
            producer.flush(10)

    async def body(cluster: LocalCluster) -> None:
        await asyncio.to_thread(produce, cluster.bootstrap)
        home = tmp_path / "broker-1"
        path = home / "orders-0" / f"{0:020d}.log"
        before = path.read_bytes()
        with path.open("r+b") as file:
            file.seek(len(before) // 2)
            file.write(bytes([before[len(before) // 2] ^ 4]))

        await cluster.until(lambda: leads(cluster, 2, isr={1, 2, 3}), "2 leads, and 1 is back", 60)
        assert path.read_bytes() == before
        (kept,) = home.glob("orders-0.*-stray")
        assert (kept / path.name).read_bytes() != before

    in_loop(tmp_path, body, auto_leader_rebalance_enable="false")


def test_a_broker_without_a_disk_says_that_it_is_broken(tmp_path: Path) -> None:
    async def body(cluster: LocalCluster) -> None:
        runtime = cluster.runtimes[3]

        runtime.logs.directories[0].root.health.fail(DiskFault("gone"))
        runtime.broker.tick(0)
        runtime.parts.gateway.end_turn()  # type: ignore[union-attr]
        error = await asyncio.wait_for(runtime.broken, 60)

        assert isinstance(error, DiskFault)

    in_loop(tmp_path, body)


@pytest.mark.parametrize("brokers", [1, 3])
def test_nobody_keeps_a_frame_after_the_call_that_brought_it(
    tmp_path: Path, brokers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Receive buffers are used again: each frame is overwritten as soon as its handler returns."""
    handle, answered = Gateway.handle_frame, Fetching.answered

    def spoil(frame: memoryview) -> None:
        frame[:] = b"\xdd" * len(frame)

    def handle_and_spoil(self: Gateway, connection: Any, frame: memoryview) -> None:
        handle(self, connection, frame)
        spoil(frame)

    def answered_and_spoil(self: Fetching, connection: Any, frame: memoryview) -> None:
        answered(self, connection, frame)
        spoil(frame)

    monkeypatch.setattr(Gateway, "handle_frame", handle_and_spoil)
    monkeypatch.setattr(Fetching, "answered", answered_and_spoil)
    settings = {"default.replication.factor": str(brokers)}
    with running_cluster(brokers=brokers, settings=settings, directory=tmp_path) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 5})
        failed: list[str] = []
        for number in range(3000):
            producer.produce(
                "orders",
                value_of(number, 1000),
                on_delivery=lambda e, m: failed.append(str(e)) if e else None,
            )
        assert producer.flush(30) == 0
        assert failed == []
        assert read(cluster.bootstrap, 3000) == list(range(3000))


def read(bootstrap: str, count: int) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([ClientPartition("orders", 0, 0)])
    found: list[int] = []
    for _ in range(200):
        found += [number_in(m.value()) for m in consumer.consume(500, timeout=0.2) if m.error() is None]
        if len(found) >= count:
            break
    consumer.close()
    return found


def test_a_worker_that_was_forked_keeps_nothing_of_a_broker_that_is_killed(tmp_path: Path) -> None:
    """It could still be connected to, and did not come back: its directory was locked."""
    with running_cluster(brokers=2, directory=tmp_path) as cluster:
        port = cluster.cluster._ports[2]
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.settimeout(60)
            client.sendall(encode_request(ApiVersionsRequest.KEY, 0, 1, "me", ApiVersionsRequest().encode(0)))
            assert client.recv(1) == b"\0", "it is accepted, and has its answer"
            begins, let_it_end = os.pipe()
            worker = os.fork()
            if worker == 0:
                os.close(let_it_end)
                os.read(begins, 1)
                os._exit(0)
            try:
                cluster.kill(2)
                while client.recv(4096):
                    """The rest of that answer."""
                with pytest.raises(ConnectionRefusedError):
                    socket.create_connection(("127.0.0.1", port))
                cluster.start(2)
            finally:
                os.close(let_it_end)
                os.close(begins)
                os.waitpid(worker, 0)


def test_a_killed_broker_comes_back_in_the_same_process(tmp_path: Path) -> None:
    with running_cluster(
        brokers=3, settings={"default.replication.factor": "3"}, directory=tmp_path
    ) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
        for number in range(100):
            producer.produce("orders", value_of(number))
        assert producer.flush(30) == 0
        cluster.kill(1)
        for number in range(100, 200):
            producer.produce("orders", value_of(number))
        assert producer.flush(30) == 0
        cluster.start(1)
        cluster.stop_in_order(2)

        assert read(cluster.bootstrap, 200) == list(range(200))


def test_stopping_in_order_is_a_controlled_shutdown_and_killing_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[object] = []
    monkeypatch.setattr(
        Environment, "controller_stepped", lambda environment, event, effects: events.append(event)
    )

    async def body(cluster: LocalCluster) -> None:
        first = controller_of(cluster)
        stopped, killed = (number for number in cluster.ids if number != first)
        await cluster.stop_broker(stopped)
        await cluster.kill_broker(killed)
        asked = [event.body for event in events if isinstance(event, Requested)]
        assert [body.broker for body in asked if isinstance(body, ControlledShutdownAsked)] == [stopped]

    in_loop(tmp_path, body)


def test_a_cluster_of_tests_leaves_no_thread_no_loop_and_nothing_frozen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("odradek.server.collector.MOST_YOUNG_OBJECTS", 0)  # a broker would freeze any step
    frozen = gc.get_freeze_count()
    with running_cluster(brokers=1) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "allow.auto.create.topics": True})
        producer.produce("orders", b"one")
        assert producer.flush(30) == 0
        loop = cluster._loop
    assert loop.is_closed()
    assert "odradek-cluster" not in {thread.name for thread in threading.enumerate()}
    assert gc.get_freeze_count() <= frozen, "what is let go of goes, also of what was frozen before"


@pytest.mark.parametrize("value", ["C:\\logs\\new", "\\u0041", "a=b:c #d", "a\r\nb", "", " a ", "\ta", "\f"])
def test_a_setting_of_a_process_is_read_as_it_was_given(value: str, tmp_path: Path) -> None:
    cluster = ProcessCluster(tmp_path, brokers=1, settings={"broker.rack": value})
    cluster.write_configurations()
    text = cluster.brokers[1].config_file.read_text("utf-8")
    assert parse_properties(text)["broker.rack"] == value


def test_who_edits_the_settings_of_a_process_reads_there_that_they_are_written_anew(tmp_path: Path) -> None:
    """`odradek up --dir` a second time took the edits back without a word."""
    cluster = ProcessCluster(tmp_path, brokers=1)
    cluster.write_configurations()
    text = cluster.brokers[1].config_file.read_text("utf-8")
    assert (
        text.startswith("# Written anew at each start of the whole cluster")
        and "--set" in text.split("\n")[0]
    )
    assert parse_properties(text) == cluster.properties_of(cluster.brokers[1])


def test_a_cluster_of_processes_is_ready_when_each_knows_all_and_a_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = ProcessCluster(tmp_path, brokers=2)
    told = [
        None,
        SimpleNamespace(brokers={1}, controller_id=1),
        SimpleNamespace(brokers={1, 2}, controller_id=-1),
        SimpleNamespace(brokers={1, 2}, controller_id=2),
    ]
    monkeypatch.setattr(BrokerProcess, "is_running", True)
    monkeypatch.setattr(cluster, "_view_of", lambda broker: told.pop(0))
    cluster._wait_for(cluster.brokers[1], {1, 2}, time.monotonic() + 60)
    assert told == []


def test_a_broker_that_was_started_beside_a_cluster_of_processes_may_be_its_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `odradek start`, to expand it: the next `odradek up` gave up a cluster that was well after a minute."""
    cluster = ProcessCluster(tmp_path, brokers=3)
    told = [
        SimpleNamespace(brokers={1, 2, 3, 4}, controller_id=3),  # it has ended, and not everybody knows
        SimpleNamespace(brokers={1, 2, 3}, controller_id=4),
        SimpleNamespace(brokers={1, 2, 3, 4}, controller_id=4),
    ]
    monkeypatch.setattr(BrokerProcess, "is_running", True)
    monkeypatch.setattr(cluster, "_view_of", lambda broker: told.pop(0))
    cluster._wait_for(cluster.brokers[1], {1, 2}, time.monotonic() + 1)
    assert told == []


def test_a_wrong_question_to_a_cluster_of_tests_names_what_would_have_worked(tmp_path: Path) -> None:
    with running_cluster(brokers=2, directory=tmp_path) as cluster:
        for wrong in (cluster.kill, cluster.stop_in_order):
            with pytest.raises(ConfigurationError, match=r"there is no broker 9; there are \[1, 2\]"):
                wrong(9)
        cluster.kill(2)
        with pytest.raises(AssertionError, match=r"broker 2 does not run; there run 1$"):
            cluster.kill(2)
        with pytest.raises(AssertionError, match="broker 1 runs already"):
            cluster.start(1)


@pytest.mark.parametrize(
    ("of_the_first", "of_the_second", "ready"),
    [
        (({1, 2}, 1), ({1, 2}, 1), True),
        (({1, 2}, 1), ({2}, 1), False),
        (({1, 2}, 1), ({1, 2}, None), False),
        (({1, 2, 3}, 3), ({1, 2, 3}, 3), False),
    ],
    ids=["ready", "one knows itself alone", "one knows no controller", "the controller is gone"],
)
def test_a_cluster_is_ready_when_each_broker_knows_all_others_and_a_controller_that_runs(
    of_the_first: tuple[set[int], int], of_the_second: tuple[set[int], int], ready: bool, tmp_path: Path
) -> None:
    cluster = LocalCluster(tmp_path, 2, {})
    told: Any = {
        number: SimpleNamespace(
            broker=SimpleNamespace(metadata=SimpleNamespace(brokers=brokers, controller_id=controller_id))
        )
        for number, (brokers, controller_id) in enumerate((of_the_first, of_the_second), start=1)
    }
    cluster.runtimes = told
    assert cluster.is_ready() is ready


@pytest.mark.parametrize("cluster", [running_cluster, ProcessCluster])
def test_a_cluster_of_tests_that_cannot_be_is_refused_before_anything_is_started(
    cluster: Callable[..., AbstractContextManager[Any]], tmp_path: Path
) -> None:
    wrong: Any
    for wrong, sentence in (
        ({"brokers": 0}, "0 brokers: a cluster has one at least"),
        ({"settings": {"num.partitions": 3}}, "num.partitions: 3 is no text; as in a file: '3'"),
        ({"settings": {"auto.create.topics.enable": True}}, "enable: True is no text; as in a file: 'true'"),
    ):
        with pytest.raises(ConfigurationError, match=sentence), cluster(directory=tmp_path / "c", **wrong):
            pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("cluster", [running_cluster, ProcessCluster])
@pytest.mark.parametrize("name", ["a,b", "\udcff"], ids=["comma", "no text"])
def test_a_directory_that_settings_cannot_name_is_refused(
    cluster: Callable[..., AbstractContextManager[Any]], name: str, tmp_path: Path
) -> None:
    """Logs were in `a`, which two clusters would share, and in `b` of the current directory."""
    with (
        pytest.raises(ConfigurationError, match=r"directory .* name (one without|another)$"),
        cluster(directory=tmp_path / name),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_a_cluster_whose_start_is_interrupted_leaves_no_broker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By Ctrl-C, or by a time limit of the test: the start went on, and what it started was never stopped."""

    class Interrupt(BaseException):
        pass

    def interrupt(_number: int, _frame: object) -> None:
        raise Interrupt

    async def start(runtime: BrokerRuntime) -> None:
        await really_start(runtime)
        ports.append(runtime.endpoints[0].port)
        if len(ports) == 2:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            await asyncio.Event().wait()  # until it is given up

    ports: list[int] = []
    really_start = BrokerRuntime.start
    monkeypatch.setattr(BrokerRuntime, "start", start)
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(Interrupt), running_cluster(brokers=3):
            pass
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(ports) == 2
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
    assert "odradek-cluster" not in {thread.name for thread in threading.enumerate()}
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_a_broker_process_that_there_is_not_is_named_with_those_there_are(tmp_path: Path) -> None:
    cluster = ProcessCluster(tmp_path, brokers=2)
    for wrong in (cluster.kill, cluster.terminate, cluster.restart):
        with pytest.raises(AssertionError, match="there is no broker 3; there are 1, 2"):
            wrong(3)
    with pytest.raises(AssertionError, match="broker 1 was never started"):
        cluster.kill(1)


def test_a_broker_that_ended_keeps_no_file_open(tmp_path: Path) -> None:
    """As if its process had ended, in whichever way; descriptors of a process are few, and tests start many brokers."""

    async def body(cluster: LocalCluster) -> None:
        ended = [controller_of(cluster), next(b for b in cluster.ids if b != controller_of(cluster))]
        homes = [tmp_path / f"broker-{number}" for number in ended]
        with no_collector():
            assert all(len(open_under(home)) >= 2 for home in homes)
            await cluster.kill_broker(ended[0])
            await cluster.stop_broker(ended[1])
            assert [open_under(home) for home in homes] == [[], []]

    in_loop(tmp_path, body)


@pytest.mark.parametrize("end", [LocalCluster.kill_broker, LocalCluster.stop_broker])
def test_a_broker_that_is_started_again_and_again_leaves_nothing_behind(
    tmp_path: Path, end: Callable[[LocalCluster, int], Awaitable[None]]
) -> None:
    """Neither threads of its former lives nor the ports that they had."""

    async def body(cluster: LocalCluster) -> None:
        def held() -> list[int]:
            return [len(cluster._environments), len(cluster.links._listening)]

        before = held()
        for _ in range(3):
            await end(cluster, 3)
            await cluster.start_broker(3)
        await cluster.until(cluster.is_ready, "all know each other again")
        assert held() == before
        names = [thread.name for thread in threading.enumerate() if "odradek-blocking" in thread.name]
        assert len(names) <= 2 * len(cluster.ids)

    in_loop(tmp_path, body, odradek_metrics_listener="http://127.0.0.1:0")


def test_the_port_of_a_broker_that_is_down_is_nobody_elses(tmp_path: Path) -> None:
    """An outgoing connection of any process might be given it, and the broker could not come back."""

    def connect_from(port: int) -> None:
        with socket.socket() as stranger, socket.create_server(("127.0.0.1", 0)) as somewhere:
            try:
                # IP_LOCAL_PORT_RANGE, the first and the last.
                stranger.setsockopt(socket.IPPROTO_IP, 51, struct.pack("=I", port | port << 16))
            except OSError:
                pytest.skip("only Linux 6.3 and newer let us choose where the kernel looks")
            stranger.connect(somewhere.getsockname())

    async def body() -> None:
        cluster = LocalCluster(tmp_path, 1, {})
        port = cluster._ports[1] = cluster._reserve_port()
        try:
            with pytest.raises(OSError, match="Cannot assign requested address"):
                connect_from(port)
            await cluster.start()
            assert cluster.runtimes[1].endpoints[0].port == port
            await cluster.kill_broker(1)
            await cluster.start_broker(1)
            assert cluster.runtimes[1].endpoints[0].port == port
        finally:
            await cluster.stop()
        assert cluster._held == []

    asyncio.run(body())


def test_a_cluster_ends_without_a_word_and_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """One after the other, the controller would be told of each death, and try to tell those that are gone too."""
    # What could be waited for is longer than any machine is slow.
    long_ms = {
        name: "600000"
        for name in (
            "controlled.shutdown.retry.backoff.ms",
            "request.timeout.ms",
            "zookeeper.session.timeout.ms",
        )
    }
    with caplog.at_level("WARNING"):
        with running_cluster(brokers=3, settings=long_ms) as cluster:
            producer = Producer({"bootstrap.servers": cluster.bootstrap, "allow.auto.create.topics": True})
            producer.produce("orders", b"one")
            assert producer.flush(60) == 0
            del producer
            begun = time.monotonic()
        took_s = time.monotonic() - begun
    assert [record.getMessage() for record in caplog.records] == []
    assert took_s < 60, "nothing is waited for: a tenth of a second on a quiet machine"


def test_a_wrong_question_is_answered_without_assertions_too() -> None:
    """Under `python -O` a broker that runs was started once more."""
    running, process = without_assertions(running_cluster_module), without_assertions(process_cluster_module)
    cluster = SimpleNamespace(check_id=lambda broker_id: None, runtimes={1: None})
    with pytest.raises(AssertionError, match="broker 2 does not run; there run 1"):
        running.LocalCluster._running(cluster, 2)
    with pytest.raises(AssertionError, match="broker 1 runs already"):
        asyncio.run(running.LocalCluster._start_broker(cluster, 1))
    with pytest.raises(AssertionError, match="broker 1 runs already"):
        process.BrokerProcess.start(SimpleNamespace(broker_id=1, is_running=True))
    with pytest.raises(AssertionError, match="there is no broker 9; there are 1"):
        process.ProcessCluster._broker(SimpleNamespace(brokers={1: None}), 9)
