"""One session with the store after the other: what was wished while the store was away is still wished after it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.log.errors import CorruptLog, StorageError, WrongDirectory
from odradek.model.cluster import Endpoint
from odradek.model.ids import BrokerEpoch, BrokerId, TopicPartition
from odradek.model.settings import BrokerSettings
from odradek.server import store_sessions as module
from odradek.server.environment import Environment
from odradek.server.log_limits import LimitedLog
from odradek.server.metrics import Metrics
from odradek.server.registration import prepare_tree, register, register_again, rewrite
from odradek.server.store_sessions import StoreSessions
from odradek.store import api, layout, transactions
from odradek.store.memory_session import MemoryEnsemble
from tests.broker.world import World

CLEAN = 3  # the incarnation before, which has lost nothing
RATE = {"producer_byte_rate": "1000"}


def at(port: int) -> tuple[Endpoint, ...]:
    return (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port),)


class Away:
    """The store does not answer one call of that name, and something happens meanwhile."""

    def __init__(
        self,
        call: str,
        meanwhile: Callable[[], None],
        error: type[api.StoreUnavailable] = api.StoreUnavailable,
    ) -> None:
        self._call = call
        self._error = error
        self._meanwhile: Callable[[], None] | None = meanwhile

    async def before(self, session_id: int, call: str) -> None:
        if call == self._call and self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()
            raise self._error(message="out of touch")

    async def after(self, session_id: int, call: str) -> None:
        """Nothing is lost here."""


class Scene:
    """The sessions of broker 1: a real broker, a store in memory, and a controller that never stands."""

    def __init__(self, path: Path, ensemble: MemoryEnsemble, **settings: str) -> None:
        loop = asyncio.get_running_loop()
        self.ensemble = ensemble
        self.admin = ensemble.open()
        self.broker = World(path, brokers=(1,))[1].broker
        self.endpoints = at(9092)
        self.connected: list[tuple[BrokerId | None, Endpoint | None]] = []

        async def never(store: api.Store) -> None:
            await asyncio.Event().wait()

        parts: dict[str, Any] = {
            "broker": self.broker,
            "gateway": SimpleNamespace(end_turn=lambda: None, settings_changed=lambda settings: None),
            "controller": SimpleNamespace(run=never, controller_seen=lambda controller: None),
            "channel": SimpleNamespace(controller_is=lambda *connected: self.connected.append(connected)),
        }
        self.sessions = StoreSessions(
            store=ensemble.open(),
            stores=ensemble,
            environment=Environment(loop),
            settings=BrokerSettings({"broker.id": "1", **settings}),
            endpoints=self.endpoints,
            endpoints_of=lambda settings: self.endpoints,
            inter_broker_listener="PLAINTEXT",
            clean_epoch=-1,
            log=LimitedLog(logging.getLogger("odradek.server"), loop.time),
            metrics=Metrics(),
            **parts,
        )

    @property
    def path(self) -> str:
        return layout.broker_path(self.broker.broker_id)

    async def node(self) -> api.Node:
        return await self.admin.get(self.path)


def live(path: Path, body: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        scene = Scene(path, MemoryEnsemble())
        await prepare_tree(scene.admin, Environment(asyncio.get_running_loop()))
        await scene.admin.set(layout.CLUSTER_ID, layout.encode_cluster_id(scene.broker.cluster_id))
        await body(scene)

    asyncio.run(main())


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0)


def test_a_new_registration_wished_while_the_session_begins_is_made_when_the_store_is_back(
    tmp_path: Path,
) -> None:
    """The session lives on, and with it our node: nothing else would bring another epoch, and whom the controller
    told to lead in its former incarnation would never lead."""

    async def body(scene: Scene) -> None:
        epochs: list[int] = []

        def wish() -> None:
            assert scene.sessions.registration is not None
            epochs.append(scene.sessions.registration.epoch)
            scene.sessions.register_again("told to lead in an epoch of a former incarnation")

        scene.ensemble.gate = Away("get_many", wish)
        await scene.admin.create(layout.config_path("topics", "t"), layout.encode_config({}))
        await scene.admin.create(layout.config_path("topics", "u"), layout.encode_config({}))
        task = asyncio.ensure_future(scene.sessions.live())

        async def is_made() -> bool:
            return bool(epochs) and (scene.broker.broker_epoch or 0) > epochs[0]

        await until(is_made)
        assert (await scene.node()).stat.czxid == scene.broker.broker_epoch
        task.cancel()

    live(tmp_path, body)


class Behind:
    """Something happens behind the next transaction, before whoever made it hears of it; its answer may be lost."""

    def __init__(self, meanwhile: Callable[[], None], *, is_lost: bool = False) -> None:
        self._meanwhile: Callable[[], None] | None = meanwhile
        self._is_lost = is_lost

    async def before(self, session_id: int, call: str) -> None:
        """Nothing is held up here."""

    async def after(self, session_id: int, call: str) -> None:
        if call == "multi" and self._meanwhile is not None:
            meanwhile, self._meanwhile = self._meanwhile, None
            meanwhile()
            if self._is_lost:
                raise api.StoreUnavailable(message="out of touch")


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_new_registration_wished_while_one_is_made_is_made_behind_it(tmp_path: Path, is_lost: bool) -> None:
    """A log is found damaged when the controller knows the new registration and has asked for its replicas already."""

    async def body(scene: Scene) -> None:
        task = asyncio.ensure_future(scene.sessions.live())

        async def is_registered() -> bool:
            return scene.sessions.is_registered.done()

        await until(is_registered)
        made: list[int] = []

        def wish() -> None:
            scene.sessions.register_again("another log is damaged")
            stat = scene.ensemble.tree.exists(scene.admin.session_id, scene.path)
            assert stat is not None
            made.append(stat.czxid)

        scene.ensemble.gate = Behind(wish, is_lost=is_lost)
        scene.sessions.register_again("a log is damaged")

        async def is_made() -> bool:
            return bool(made) and (scene.broker.broker_epoch or 0) > made[0]

        await until(is_made)
        assert (await scene.node()).stat.czxid == scene.broker.broker_epoch
        task.cancel()

    live(tmp_path, body)


@pytest.mark.parametrize("call", ["get_many", "multi"])
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (api.StoreUnavailable, "the store cannot be reached: out of touch"),
        (api.NotAllowed, "the store refuses it: out of touch"),
        (api.StoreGone, "the store cannot be used: out of touch"),
    ],
)
def test_a_store_that_answers_with_a_refusal_is_not_said_to_be_out_of_reach(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    call: str,
    error: type[api.StoreUnavailable],
    said: str,
) -> None:
    """While the session begins, and later."""

    async def body(scene: Scene) -> None:
        if call == "get_many":
            scene.ensemble.gate = Away(call, lambda: None, error)
        task = asyncio.ensure_future(scene.sessions.live())

        async def is_registered() -> bool:
            return scene.sessions.is_registered.done()

        await until(is_registered)
        if call == "multi":
            scene.ensemble.gate = Away(call, lambda: None, error)
            scene.endpoints = at(9999)
            scene.sessions._advertise(scene.broker.settings)

        async def is_said() -> bool:
            return said in caplog.messages

        await until(is_said)
        task.cancel()

    live(tmp_path, body)


def test_a_controller_whose_session_begins_again_is_not_told_that_its_broker_stops(tmp_path: Path) -> None:
    """It stood before all was read. The broker goes on, and so perhaps does the session."""

    async def body(scene: Scene) -> None:
        told: list[tuple[object, ...]] = []
        stands = asyncio.Event()

        class Later(Away):
            async def before(self, session_id: int, call: str) -> None:
                if call == self._call:
                    await stands.wait()
                await super().before(session_id, call)

        async def until_cancelled(store: api.Store) -> None:
            stands.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError as cancelled:
                told.append(cancelled.args)
                raise

        scene.sessions._controller.run = until_cancelled  # type: ignore[method-assign]
        scene.ensemble.gate = Later("get_many", lambda: None)
        await scene.admin.create(layout.config_path("topics", "t"), layout.encode_config({}))
        task = asyncio.ensure_future(scene.sessions.live())

        async def is_registered() -> bool:
            return scene.sessions.is_registered.done()

        await until(is_registered)
        task.cancel()
        await asyncio.wait({task})
        assert told == [("its session with the store begins again: the store cannot be reached",), ()]

    live(tmp_path, body)


@pytest.mark.parametrize("call", ["get_many", "multi", "open"])
def test_a_want_of_memory_ends_neither_the_sessions_nor_the_broker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    """While the session begins, later, and where another one is opened."""

    class Short(Away):
        async def before(self, session_id: int, call: str) -> None:
            if call == self._call and self._meanwhile is not None:
                self._meanwhile = None
                raise MemoryError

    async def body(scene: Scene) -> None:
        if call == "get_many":
            scene.ensemble.gate = Short(call, lambda: None)
        opened = scene.sessions._stores.open_session

        async def short(timeout_ms: int) -> api.Store:
            scene.sessions._stores.open_session = opened  # type: ignore[method-assign]
            raise MemoryError

        if call == "open":
            scene.sessions.store = None
            scene.sessions._stores.open_session = short  # type: ignore[method-assign]
        task = asyncio.ensure_future(scene.sessions.live())

        async def is_registered() -> bool:
            if task.done():
                task.result()
            return scene.sessions.is_registered.done()

        await until(is_registered)
        if call == "multi":
            scene.ensemble.gate = Short(call, lambda: None)
            scene.endpoints = at(9999)
            scene.sessions._advertise(scene.broker.settings)

        async def has_moved() -> bool:
            if task.done():
                task.result()
            return b"9999" in (await scene.node()).data

        if call == "multi":
            await until(has_moved)
        assert (
            "no memory for a session with the store: give the machine, or the container, more memory"
            in caplog.messages
        )
        task.cancel()

    live(tmp_path, body)


@pytest.mark.parametrize("lost", ["", "a log", "a directory"])
def test_another_session_is_one_registration_that_claims_what_it_may(tmp_path: Path, lost: str) -> None:
    """The session's end brings the new epoch that was wished for; the life before lost nothing, unless a log of it was
    found damaged, or all that is in a directory that failed."""

    async def body(scene: Scene) -> None:
        epochs: list[int] = []
        registered = scene.broker.registered

        def noted(epoch: BrokerEpoch, now_ms: int) -> None:
            epochs.append(epoch)
            registered(epoch, now_ms)

        scene.broker.registered = noted  # type: ignore[method-assign]
        task = asyncio.ensure_future(scene.sessions.live())

        async def has_registered(times: int) -> bool:
            return len(epochs) == times and scene.sessions.is_registered.done()

        await until(lambda: has_registered(1))
        assert scene.sessions.store is not None
        logs = scene.broker.replicas.logs
        if lost == "a log":
            logs.refused[TopicPartition("t", 0)] = CorruptLog("damaged")
        elif lost:
            logs.left_out["/mnt/gone"] = StorageError("no such device")
        scene.sessions.register_again("told to lead in an epoch of a former incarnation")
        scene.ensemble.expire(scene.sessions.store.session_id)
        await until(lambda: has_registered(2))
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(epochs) == 2
        found = layout.decode_registration(scene.broker.broker_id, await scene.node())
        assert (found.epoch, found.clean_epoch) == (epochs[1], -1 if lost else epochs[0])
        task.cancel()

    live(tmp_path, body)


def test_damage_found_while_the_session_of_the_life_before_is_waited_for_is_not_claimed_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(scene: Scene) -> None:
        before, environment = scene.ensemble.open(120_000), Environment(asyncio.get_running_loop())
        last = await register(before, environment, scene.broker.broker_id, scene.endpoints, None)
        scene.sessions._clean_epoch = last.epoch
        task = asyncio.ensure_future(scene.sessions.live())

        async def is_waiting() -> bool:
            return "waiting for that session to end" in caplog.text

        await until(is_waiting)
        scene.broker.replicas.logs.refused[TopicPartition("t", 0)] = CorruptLog("damaged")
        scene.ensemble.expire(before.session_id)

        async def is_registered() -> bool:
            return scene.sessions.is_registered.done()

        await until(is_registered)
        found = layout.decode_registration(scene.broker.broker_id, await scene.node())
        assert found.epoch > last.epoch and found.clean_epoch == -1
        task.cancel()

    live(tmp_path, body)


def test_addresses_that_could_not_be_written_are_written_when_the_store_is_back(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        tries: list[int] = []
        task = asyncio.ensure_future(scene.sessions.live())

        async def is_registered() -> bool:
            return scene.sessions.is_registered.done()

        await until(is_registered)
        scene.ensemble.gate = Away("multi", lambda: tries.append(1))
        scene.endpoints = at(9999)
        scene.sessions._advertise(scene.broker.settings)

        async def is_written() -> bool:
            return b"9999" in (await scene.node()).data

        await until(is_written)
        assert tries == [1]
        task.cancel()

    live(tmp_path, body)


def test_addresses_that_changed_while_the_session_begins_are_written_when_the_store_is_back(
    tmp_path: Path,
) -> None:
    async def body(scene: Scene) -> None:
        def move() -> None:
            scene.endpoints = at(9999)
            scene.sessions._advertise(scene.broker.settings)

        scene.ensemble.gate = Away("get_many", move)
        scene.sessions._clean_epoch = CLEAN
        await scene.admin.create(layout.config_path("topics", "t"), layout.encode_config({}))
        await scene.admin.create(layout.config_path("topics", "u"), layout.encode_config({}))
        task = asyncio.ensure_future(scene.sessions.live())

        async def is_written() -> bool:
            return scene.sessions.is_registered.done() and b"9999" in (await scene.node()).data

        await until(is_written)
        found = layout.decode_registration(scene.broker.broker_id, await scene.node())
        assert found.clean_epoch == CLEAN, "it is the same incarnation, and claims what it claimed"
        task.cancel()

    live(tmp_path, body)


def test_a_session_that_ends_while_it_begins_is_followed_by_another(tmp_path: Path) -> None:
    async def body(scene: Scene) -> None:
        task = asyncio.ensure_future(scene.sessions.live())
        await scene.sessions.is_registered
        assert scene.sessions.store is not None
        before = scene.sessions.store
        opened = scene.ensemble.open
        errors = [api.SessionExpired(message="it was paused for longer than its timeout")]

        async def open_session(session_timeout_ms: int) -> api.Store:
            if errors:
                raise errors.pop()
            return opened(session_timeout_ms)

        scene.ensemble.open_session = open_session  # type: ignore[method-assign,assignment]
        scene.ensemble.expire(before.session_id)

        async def is_back() -> bool:
            if task.done():
                task.result()
            return scene.sessions.store not in (None, before)

        await until(is_back)
        assert not errors
        task.cancel()

    live(tmp_path, body)


def test_a_broker_whose_ensemble_was_emptied_waits_for_its_cluster_and_joins_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its logs belong to the cluster that it was started in."""

    async def main() -> None:
        scene = Scene(tmp_path, MemoryEnsemble(), **{"zookeeper.connect": "localhost:2181"})
        await prepare_tree(scene.admin, Environment(asyncio.get_running_loop()))
        ours = layout.encode_cluster_id(scene.broker.cluster_id)
        await scene.admin.set(layout.CLUSTER_ID, ours)
        task = asyncio.ensure_future(scene.sessions.live())
        await scene.sessions.is_registered
        before = scene.broker.broker_epoch

        async def lose(*doomed: str) -> None:
            assert scene.sessions.store is not None
            scene.ensemble.expire(scene.sessions.store.session_id)
            await scene.admin.write([api.ConditionalOps((api.DeleteTree(path),)) for path in doomed], None)

        await lose("/cluster", "/brokers")

        async def is_said() -> bool:
            if task.done():
                task.result()
            return "it was emptied" in caplog.text

        await until(is_said)
        await scene.admin.write(
            [
                api.ConditionalOps((), parents=("/brokers", layout.BROKER_IDS, "/cluster")),
                api.ConditionalOps((api.Create(layout.CLUSTER_ID, ours),)),
            ],
            None,
        )

        async def is_back() -> bool:
            return scene.broker.broker_epoch not in (None, before)

        await until(is_back)
        await lose(layout.CLUSTER_ID)
        await scene.admin.create(layout.CLUSTER_ID, layout.encode_cluster_id("another"))
        with pytest.raises(WrongDirectory, match="has cluster another now"):
            await task

    asyncio.run(main())


def test_a_broker_whose_file_got_another_cluster_joins_it_neither(tmp_path: Path) -> None:
    """`sqlite3 STORE ".restore COPY"`, with a copy of another cluster that has had more transactions."""

    async def body(scene: Scene) -> None:
        task = asyncio.ensure_future(scene.sessions.live())
        await scene.sessions.is_registered
        assert scene.sessions.store is not None
        before = scene.broker.broker_epoch
        scene.ensemble.expire(scene.sessions.store.session_id)
        await scene.admin.set(layout.CLUSTER_ID, layout.encode_cluster_id("another"))

        async def is_over() -> bool:
            return task.done() or scene.broker.broker_epoch not in (None, before)

        await until(is_over)
        with pytest.raises(WrongDirectory, match="has cluster another now"):
            task.result()

    live(tmp_path, body)


def test_a_new_registration_wished_while_the_store_is_empty_waits_for_the_cluster(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All below the root was removed, and the session lives on: nothing else says so to this broker."""

    async def body(scene: Scene) -> None:
        task = asyncio.ensure_future(scene.sessions.live())
        await scene.sessions.is_registered
        before = scene.broker.broker_epoch
        doomed = [
            api.ConditionalOps((api.DeleteTree(f"/{name}"),)) for name in await scene.admin.children("/")
        ]
        await scene.admin.write(doomed, None)
        scene.sessions.register_again("a log directory is back")

        async def is_said() -> bool:
            if task.done():
                task.result()
            return "it was emptied" in caplog.text

        await until(is_said)
        await prepare_tree(scene.admin, Environment(asyncio.get_running_loop()))
        await scene.admin.set(layout.CLUSTER_ID, layout.encode_cluster_id(scene.broker.cluster_id))

        async def is_back() -> bool:
            return scene.broker.broker_epoch not in (None, before)

        await until(is_back)
        task.cancel()

    live(tmp_path, body)


def test_a_new_registration_wished_where_another_cluster_is_by_now_stops_the_broker(tmp_path: Path) -> None:
    """The session lives on: only who registers can see that its store is another's."""

    async def body(scene: Scene) -> None:
        task = asyncio.ensure_future(scene.sessions.live())
        await scene.sessions.is_registered
        before = scene.broker.broker_epoch
        await scene.admin.write([api.ConditionalOps((api.DeleteTree("/brokers"),))], None)
        await scene.admin.set(layout.CLUSTER_ID, layout.encode_cluster_id("another"))
        scene.sessions.register_again("a log directory is back")

        async def is_over() -> bool:
            return task.done() or scene.broker.broker_epoch not in (None, before)

        await until(is_over)
        with pytest.raises(WrongDirectory, match="has cluster another now"):
            task.result()

    live(tmp_path, body)


def test_a_new_session_makes_nodes_again_that_somebody_deleted(tmp_path: Path) -> None:
    """As a start does. Else one `deleteall /brokers` would end all brokers, one after the other."""

    async def body(scene: Scene) -> None:
        task = asyncio.ensure_future(scene.sessions.live())
        await scene.sessions.is_registered
        assert scene.sessions.store is not None
        before = scene.broker.broker_epoch
        await scene.admin.write([api.ConditionalOps((api.DeleteTree("/brokers"),))], None)
        scene.ensemble.expire(scene.sessions.store.session_id)

        async def is_back() -> bool:
            if task.done():
                task.result()
            return scene.broker.broker_epoch not in (None, before)

        await until(is_back)
        assert (await scene.node()).stat.czxid == scene.broker.broker_epoch
        task.cancel()

    live(tmp_path, body)


def test_a_setting_whose_node_went_between_two_sessions_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody was there to hear of it, and the next session reads what is there."""

    async def body(scene: Scene) -> None:
        heard: dict[str, dict[str, str]] = {}
        changed = scene.broker.broker_config_changed

        def note(name: str, config: Any, now_ms: int) -> None:
            heard[name] = dict(config)
            changed(name, config, now_ms)

        monkeypatch.setattr(scene.broker, "broker_config_changed", note)
        setting = {"message.max.bytes": "2000000"}
        for name in ("1", layout.DEFAULT_ENTITY):
            await scene.admin.write([transactions.write_config("brokers", name, setting)], fence=None)
        task = asyncio.ensure_future(scene.sessions.live())
        await scene.sessions.is_registered
        assert heard == {"1": setting, layout.DEFAULT_ENTITY: setting}
        assert scene.sessions.store is not None
        scene.ensemble.expire(scene.sessions.store.session_id)
        for name in ("1", layout.DEFAULT_ENTITY):
            await scene.admin.delete(layout.config_path("brokers", name))

        async def is_taken_back() -> bool:
            return heard == {"1": {}, layout.DEFAULT_ENTITY: {}}

        await until(is_taken_back)
        task.cancel()

    live(tmp_path, body)


@pytest.mark.parametrize("wish", ["another epoch", "other addresses"])
def test_a_registration_that_somebody_deleted_is_made_anew_and_no_session_is_left_behind(
    tmp_path: Path, wish: str
) -> None:
    """An old session that stays open keeps /controller, if we were that, for ever."""

    async def body(scene: Scene) -> None:
        task = asyncio.ensure_future(scene.sessions.live())
        await scene.sessions.is_registered
        before = scene.broker.broker_epoch
        assert before is not None
        await scene.admin.delete(layout.broker_path(scene.broker.broker_id))
        if wish == "another epoch":
            scene.sessions.register_again("told to lead in an epoch of a former incarnation")
        else:
            scene.endpoints = at(9999)
            scene.sessions._advertise(scene.broker.settings)

        async def is_made() -> bool:
            if task.done():
                task.result()
            return scene.sessions.store is not None and (scene.broker.broker_epoch or 0) > before

        await until(is_made)
        node = await scene.node()
        assert node.stat.czxid == scene.broker.broker_epoch
        assert set(scene.ensemble.tree.sessions) == {scene.admin.session_id, node.stat.ephemeral_owner}
        task.cancel()

    live(tmp_path, body)


def test_a_controller_that_moves_within_its_session_is_asked_at_its_new_address(tmp_path: Path) -> None:
    """`advertised.listeners` changed while it serves: `/controller` stays as it is, and at the old address there may be
    nobody."""

    async def body(scene: Scene) -> None:
        controller = scene.ensemble.open()
        environment, broker = Environment(asyncio.get_running_loop()), BrokerId(2)
        registration = await register(controller, environment, broker, at(9002), None)
        value = layout.encode_controller(broker, timestamp_ms=0)
        await controller.create(layout.CONTROLLER, value, ephemeral=True)
        task = asyncio.ensure_future(scene.sessions.live())
        await scene.sessions.is_registered
        assert scene.connected == [(broker, *at(9002))]
        await rewrite(controller, environment, registration, at(9999))

        async def has_moved() -> bool:
            return len(scene.connected) > 1

        await until(has_moved)
        assert scene.connected[1:] == [(broker, *at(9999))]
        await rewrite(controller, environment, registration, at(9003))

        async def has_moved_again() -> bool:
            return len(scene.connected) > 2

        await until(has_moved_again)
        assert scene.connected[2:] == [(broker, *at(9003))]
        task.cancel()

    live(tmp_path, body)


def test_a_controller_whose_registration_was_gone_for_a_while_is_connected_to_again(tmp_path: Path) -> None:
    """Somebody deleted it, and its broker has made it anew in its session: `/controller` has not changed meanwhile."""

    async def body(scene: Scene) -> None:
        controller = scene.ensemble.open()
        environment, broker = Environment(asyncio.get_running_loop()), BrokerId(2)
        registration = await register(controller, environment, broker, at(9002), None)
        value = layout.encode_controller(broker, timestamp_ms=0)
        await controller.create(layout.CONTROLLER, value, ephemeral=True)
        task = asyncio.ensure_future(scene.sessions.live())
        await scene.sessions.is_registered
        await scene.admin.delete(layout.broker_path(broker))

        async def is_missed() -> bool:
            return scene.connected[1:] == [(broker, None)]

        await until(is_missed)
        await register_again(controller, environment, registration)

        async def is_back() -> bool:
            return scene.connected[2:] == [(broker, *at(9002))]

        await until(is_back)
        task.cancel()

    live(tmp_path, body)


def test_a_controller_whose_address_cannot_be_looked_up_for_a_moment_is_connected_to_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store tells once that there is a controller; where it is, is asked for when that is delivered."""

    async def body(scene: Scene) -> None:
        task = asyncio.ensure_future(scene.sessions.live())
        await scene.sessions.is_registered
        controller, broker = scene.ensemble.open(), BrokerId(2)
        await register(controller, Environment(asyncio.get_running_loop()), broker, at(9002), None)
        failed: list[int] = []

        def seen(known: BrokerId | None) -> None:
            if known is not None and not failed:
                scene.ensemble.gate = Away("exists", lambda: failed.append(1))

        monkeypatch.setattr(scene.sessions._controller, "controller_seen", seen)
        value = layout.encode_controller(broker, timestamp_ms=0)
        await controller.create(layout.CONTROLLER, value, ephemeral=True)

        async def is_connected() -> bool:
            return scene.connected[-1] == (broker, *at(9002))

        await until(is_connected)
        assert failed == [1]
        task.cancel()

    live(tmp_path, body)


@pytest.mark.parametrize("is_loaded", [True, False])
def test_others_have_their_turns_while_a_broker_hears_of_many_configurations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_loaded: bool
) -> None:
    """Those of 10,000 clients with quotas took 70 ms, when its session began and when a tool set all of them."""
    monkeypatch.setattr(module, "FACTS_A_TURN", 10, raising=False)

    async def body(scene: Scene) -> None:
        turns = 0
        heard: list[int] = []
        changed = scene.broker.client_quota_changed

        def turn() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(turn)

        def note(*told: Any) -> None:
            heard.append(turns)
            changed(*told)

        async def make() -> None:
            write = [transactions.write_config("clients", f"c{number}", RATE) for number in range(50)]
            await scene.admin.write(write, fence=None)

        async def is_known() -> bool:
            return len(heard) == 50

        monkeypatch.setattr(scene.broker, "client_quota_changed", note)
        if is_loaded:
            await make()
        turn()
        task = asyncio.ensure_future(scene.sessions.live())
        await scene.sessions.is_registered
        if not is_loaded:
            await make()
        await until(is_known)
        task.cancel()
        assert len(set(heard)) >= 5

    live(tmp_path, body)
