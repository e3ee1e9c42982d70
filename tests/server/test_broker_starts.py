"""A start over log directories of which one is of no use: the others are served, in whatever order they are named."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.log.checkpoints import META_PROPERTIES
from odradek.log.errors import StorageError
from odradek.log.files import LOCK_NAME, TEMPORARY_SUFFIX
from odradek.log.log_manager import LogManager
from odradek.model.cluster import ReplicaAssignment
from odradek.model.facts import TopicAssignment
from odradek.model.ids import BrokerId, TopicId, TopicPartition
from odradek.model.settings import BrokerSettings
from odradek.server import broker_runtime
from odradek.server.broker_runtime import BrokerRuntime
from odradek.server.cut_off import SO_OFTEN
from odradek.server.environment import Environment
from odradek.server.exit_codes import STORE, exit_code_of
from odradek.server.registration import prepare_tree
from odradek.server.unknown_topics import logs_of_unknown_topics
from odradek.store import api, layout, pending_deletions, transactions
from odradek.store.memory_session import MemoryEnsemble


def started(
    *paths: Path,
) -> list[str]:
    """Which directories are offline once it serves."""

    async def run() -> list[str]:
        environment = Environment(asyncio.get_running_loop())
        ensemble = MemoryEnsemble()
        settings = {
            "broker.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": ",".join(map(str, paths)),
        }
        runtime = BrokerRuntime(BrokerSettings(settings), environment, ensemble)
        try:
            await runtime.start()
            return sorted(runtime.logs.offline_directories)
        finally:
            await runtime.stop(is_controlled=False)
            await asyncio.to_thread(environment.close)

    return asyncio.run(run())


def none_at_all(path: Path) -> None:
    path.touch()


def no_lock(path: Path) -> None:
    """As on a disk that is full, or where another user made the file."""
    (path / LOCK_NAME).mkdir(parents=True)


def nothing_may_be_written(path: Path) -> None:
    (path / (META_PROPERTIES + TEMPORARY_SUFFIX)).mkdir(parents=True)


FAULTS = (none_at_all, no_lock, nothing_may_be_written)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_directory_of_no_use_is_left_out_and_the_other_serves(
    tmp_path: Path, fault: Callable[[Path], None], is_first: bool
) -> None:
    bad, good = tmp_path / "bad", tmp_path / "good"
    fault(bad)
    assert started(*((bad, good) if is_first else (good, bad))) == [str(bad)]
    assert (good / META_PROPERTIES).is_file()


@pytest.mark.parametrize("fault", FAULTS)
def test_where_none_is_of_use_the_start_says_why(tmp_path: Path, fault: Callable[[Path], None]) -> None:
    bad = tmp_path / "bad"
    fault(bad)
    with pytest.raises(StorageError, match=str(bad)):
        started(bad)


def test_logs_of_topics_that_the_store_does_not_know_are_named_at_the_start_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an older copy of the store was restored. Of a topic that is deleted the controller has the log deleted."""
    directories = [tmp_path / "a", tmp_path / "b"]
    names = ("newer-0", "newer-1", "known-0", "deleted-0")
    logs = [*(directories[0] / name for name in names), *(directory / "twice-0" for directory in directories)]
    for log in logs:
        log.mkdir(parents=True)
        (log / f"{0:020d}.log").touch()
    for topic_id, log in zip(("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"), logs[-2:], strict=True):
        (log / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    (directories[0] / "refused-0").mkdir()
    open_log = LogManager.open_log

    def opened(manager: LogManager, directory: Any, topic_partition: TopicPartition, *asked: Any) -> Any:
        if topic_partition.topic == "refused":
            raise StorageError("a gap in its segments")
        return open_log(manager, directory, topic_partition, *asked)

    monkeypatch.setattr(LogManager, "open_log", opened)

    async def run() -> None:
        environment = Environment(asyncio.get_running_loop())
        ensemble = MemoryEnsemble()
        store = await ensemble.open_session()
        topic = TopicId(b"\1" * 16)
        owed = pending_deletions.write_pending_deletions(BrokerId(1), {TopicPartition("deleted", 0): topic})
        node = layout.encode_topic(TopicAssignment("known", topic, {0: ReplicaAssignment((BrokerId(2),))}))
        known = api.ConditionalOps(
            (api.Put(layout.topic_path("known"), node),), parents=("/brokers", layout.TOPICS)
        )
        await store.write([owed, known], None)
        settings = {"broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0"}
        settings["log.dirs"] = ",".join(map(str, directories))
        runtime = BrokerRuntime(BrokerSettings(settings), environment, ensemble)
        try:
            await runtime.start()
        finally:
            await runtime.stop(is_controlled=False)
            await asyncio.to_thread(environment.close)

    asyncio.run(run())
    (said,) = [m for m in caplog.messages if "the store does not know" in m]
    named = "newer-0, newer-1, refused-0, twice-0"
    assert said.startswith(f"4 logs of topics that the store does not know: {named}. Nobody ")
    assert all(log.is_dir() for log in logs)
    caplog.clear()
    started(tmp_path / "new")
    assert not [m for m in caplog.messages if "the store does not know" in m]


@pytest.mark.parametrize("deletions", [None, b"written by hand"])
def test_logs_of_unknown_topics_are_known_without_a_readable_node_of_deletions(
    deletions: bytes | None,
) -> None:
    async def unknown() -> list[TopicPartition]:
        store = await MemoryEnsemble().open_session()
        await store.write([api.ConditionalOps((), parents=("/brokers", layout.TOPICS))], None)
        if deletions is not None:
            put = api.Put(pending_deletions.pending_deletions_path(BrokerId(1)), deletions)
            parents = (pending_deletions.OURS, pending_deletions.ROOT)
            await store.write([api.ConditionalOps((put,), parents=parents)], None)
        return await logs_of_unknown_topics(store, BrokerId(1), {newer, known}, {"known"})

    newer, known = TopicPartition("newer", 0), TopicPartition("known", 0)
    assert asyncio.run(unknown()) == [newer]
    nobody: Any = None
    asked_without_need = logs_of_unknown_topics(nobody, BrokerId(1), {known}, {"known"})
    assert asyncio.run(asked_without_need) == [], "the store is not asked"


def deleted(kind: str, name: str) -> api.ConditionalOps:
    return api.ConditionalOps((api.Delete(layout.config_path(kind, name)),))


@pytest.mark.parametrize("entity", ["<default>", "1"])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_setting_that_is_taken_back_while_the_logs_are_read_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entity: str, is_deleted: bool
) -> None:
    """A start may take minutes, and retention would delete by what nobody wants any more."""
    ensemble = MemoryEnsemble()

    async def change(group: api.ConditionalOps) -> None:
        (outcome,) = await ensemble.open().write([group], None)
        assert isinstance(outcome, api.Stored)

    async def run() -> None:
        environment = Environment(asyncio.get_running_loop())
        await prepare_tree(ensemble.open(), environment)
        await change(transactions.write_config("brokers", entity, {"log.retention.ms": "1000"}))
        read = BrokerRuntime._load_logs

        async def reads(runtime: BrokerRuntime, logs: LogManager) -> None:
            assert logs.config_of("t").retention_ms == 1000
            logs.forget_config("t")
            back = (
                deleted("brokers", entity) if is_deleted else transactions.write_config("brokers", entity, {})
            )
            await change(back)
            await read(runtime, logs)

        monkeypatch.setattr(BrokerRuntime, "_load_logs", reads)
        settings = {"broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
        runtime = BrokerRuntime(BrokerSettings(settings), environment, ensemble)
        try:
            await runtime.start()
            assert runtime.logs.config_of("t").retention_ms == 7 * 24 * 3_600_000
        finally:
            await runtime.stop(is_controlled=False)
            await asyncio.to_thread(environment.close)

    asyncio.run(run())


@pytest.mark.parametrize("entity", ["<default>", "1"])
def test_where_the_settings_of_brokers_cannot_be_read_at_the_start_nothing_is_deleted_by_the_file(
    tmp_path: Path, entity: str
) -> None:
    """They may have said that nothing ever is. Once they can be read they count."""
    ensemble = MemoryEnsemble()

    async def run() -> None:
        environment = Environment(asyncio.get_running_loop())
        admin = ensemble.open()
        await prepare_tree(admin, environment)
        damaged = api.Put(layout.config_path("brokers", entity), b"{not json")
        await admin.write([api.ConditionalOps((damaged,))], None)
        settings = {
            "broker.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(tmp_path),
            "log.retention.ms": "1000",
            "log.cleanup.policy": "compact",
        }
        runtime = BrokerRuntime(BrokerSettings(settings), environment, ensemble)
        try:
            await runtime.start()
            config = runtime.logs.config_of("t")
            assert (config.retention_ms, config.retention_bytes, config.cleanup_policy) == (
                -1,
                -1,
                ("delete",),
            )
            await admin.write(
                [transactions.write_config("brokers", entity, {"log.retention.ms": "5000"})], None
            )
            async with asyncio.timeout(60):
                while runtime.logs.config_of("t").retention_ms != 5000:
                    runtime.logs.forget_config("t")
                    await asyncio.sleep(0)
            assert runtime.logs.config_of("t").cleanup_policy == ("compact",)
        finally:
            await runtime.stop(is_controlled=False)
            await asyncio.to_thread(environment.close)

    asyncio.run(run())


class ComesBack:
    """The way to the store is lost with one of the questions of a start, and is there again a moment later."""

    def __init__(self, ensemble: MemoryEnsemble, before: str, call: str) -> None:
        self._ensemble = ensemble
        self._at = (before, call)
        self.is_lost = False

    async def before(self, session_id: int, call: str) -> None:
        await self._met(session_id, ("before", call))

    async def after(self, session_id: int, call: str) -> None:
        await self._met(session_id, ("after", call))

    async def _met(self, session_id: int, here: tuple[str, str]) -> None:
        if here == self._at and not self.is_lost:
            self.is_lost = True
            session = self._ensemble.sessions[session_id]
            session.disconnect()
            asyncio.get_running_loop().call_later(0.05, session.connect)


@pytest.mark.parametrize("before", ["before", "after"])
@pytest.mark.parametrize("call", ["get", "write", "children", "get_many"])
def test_a_start_outlives_the_loss_of_the_way_to_the_store_for_a_moment(
    tmp_path: Path, before: str, call: str
) -> None:
    """A member of its ensemble dies, and another one has the session a moment later: the process used to end."""

    async def run() -> None:
        environment = Environment(asyncio.get_running_loop())
        ensemble = MemoryEnsemble()
        gate = ComesBack(ensemble, before, call)
        if call == "children":
            await prepare_tree(ensemble.open(), environment)
        ensemble.gate = gate
        settings = {"broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
        runtime = BrokerRuntime(BrokerSettings(settings), environment, ensemble)
        try:
            await runtime.start()
            assert gate.is_lost
        finally:
            await runtime.stop(is_controlled=False)
            await asyncio.to_thread(environment.close)

    asyncio.run(run())


@pytest.mark.parametrize("is_lost_first", [True, False])
def test_a_start_whose_session_ends_says_what_to_do(tmp_path: Path, is_lost_first: bool) -> None:
    """The whole ensemble stays away. "session 0x1 is expired; open another one" is a word to whoever holds the session."""

    async def run() -> str:
        environment = Environment(asyncio.get_running_loop())
        ensemble = MemoryEnsemble()
        met: list[str] = []

        class Gone:
            async def before(self, session_id: int, call: str) -> None:
                session = ensemble.sessions[session_id]
                met.append(call)
                session.disconnect()
                if not is_lost_first or len(met) == 3:
                    session.give_up()

            async def after(self, session_id: int, call: str) -> None:
                """Nothing is answered."""

        ensemble.gate = Gone()
        settings = {"broker.id": "1", "listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(tmp_path)}
        runtime = BrokerRuntime(BrokerSettings(settings), environment, ensemble)
        try:
            with pytest.raises(api.StoreError) as caught:
                await runtime.start()
            assert len(met) == (3 if is_lost_first else 1)
            assert exit_code_of(caught.value) == STORE
            return str(caught.value)
        finally:
            await runtime.stop(is_controlled=False)
            await asyncio.to_thread(environment.close)

    said = asyncio.run(run())
    assert (
        "the session with the store ended before broker 1 was registered" in said and "start it again" in said
    )


def test_a_start_that_is_cut_off_at_one_question_names_it_and_goes_on_asking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A line every ten seconds said that the connection was lost, and nothing that led to the reason."""
    monkeypatch.setattr(broker_runtime, "RETRY_S", 0.0)

    async def run() -> str:
        environment = Environment(asyncio.get_running_loop())
        settings = BrokerSettings({"broker.id": "1", "log.dirs": str(tmp_path)})
        runtime = BrokerRuntime(settings, environment, MemoryEnsemble())
        asked = 0

        async def ask() -> str:
            nonlocal asked
            asked += 1
            if asked <= SO_OFTEN:
                raise api.OutOfTouch("/config/topics/huge", "the connection to ZooKeeper was lost on the way")
            return "answered"

        try:
            return await runtime._answered(ask)
        finally:
            await asyncio.to_thread(environment.close)

    assert asyncio.run(run()) == "answered"
    named = [line for line in caplog.messages if "when it was asked for /config/topics/huge" in line]
    assert len(named) == 1 and len(caplog.messages) == 2
