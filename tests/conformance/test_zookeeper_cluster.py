"""Brokers as processes on a real ZooKeeper: what the store is for."""

import asyncio
import json
from collections.abc import Iterator

import psutil
import pytest
from kazoo.client import KazooClient

from odradek.client.sync import SyncClient
from odradek.model.errors import OdradekError
from odradek.model.ids import TopicPartition
from odradek.server import exit_codes
from odradek.server.main import LAST_SESSION_FILE
from odradek.store.zookeeper.last_session import LastSession, end_session
from odradek.store.zookeeper.link import SessionKey
from odradek.store.zookeeper.security import Security
from odradek.testing.process_cluster import ProcessCluster
from odradek.testing.zookeeper import ZooKeeperServer
from tests.conformance import live
from tests.support import eventually

pytestmark = [pytest.mark.process, pytest.mark.slow]

# Far longer than a busy machine keeps a broker from its beats: where a session is to end, a test ends it.
SESSION_TIMEOUT_MS = 60_000
SETTINGS = {"zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS), "auto.leader.rebalance.enable": "false"}


class View:
    """The tree as another client of ZooKeeper sees it, below the chroot."""

    def __init__(self, connect: str) -> None:
        self.client = KazooClient(connect)
        self.client.start()

    def close(self) -> None:
        self.client.stop()
        self.client.close()

    def json(self, path: str) -> dict[str, object]:
        value: dict[str, object] = json.loads(self.client.get(path)[0])
        return value


def kill(cluster: ProcessCluster, broker_id: int, zookeeper: ZooKeeperServer) -> None:
    """`kill -9`, and the end of its session."""
    key = key_of(cluster, broker_id)
    cluster.kill(broker_id)
    end(key, zookeeper)


def key_of(cluster: ProcessCluster, broker_id: int) -> SessionKey:
    key = LastSession(cluster.brokers[broker_id].directory / "data" / LAST_SESSION_FILE).read()
    assert key is not None
    return key


def end(key: SessionKey, zookeeper: ZooKeeperServer) -> None:
    """As ZooKeeper does it after the timeout."""
    eventually(
        lambda: asyncio.run(end_session(zookeeper.address, key, Security(), patience_s=20)),
        90,
        "the session is ended",
    )


@pytest.fixture(scope="module")
def cluster(zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    """On a chroot that is not there yet; what its brokers took of a processor until it serves is kept."""
    directory = tmp_path_factory.mktemp("cluster")
    made = ProcessCluster(
        directory, brokers=3, settings=SETTINGS, zookeeper=f"{zookeeper.address}/shared/cluster-a"
    )
    with made:
        made.taken_s = sum(taken_s(broker.pid) for broker in made.brokers.values())  # type: ignore[attr-defined]
        yield made


def taken_s(pid: int) -> float:
    """Of a processor."""
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


@pytest.fixture(scope="module")
def view(zookeeper: ZooKeeperServer, cluster: ProcessCluster) -> Iterator[View]:
    shown = View(f"{zookeeper.address}/shared/cluster-a")
    yield shown
    shown.close()


def test_every_node_is_as_apache_writes_it(cluster: ProcessCluster, view: View) -> None:
    """As tests/golden/controller has them: names, versions from birth, and null where nothing is said."""
    live.create(cluster, "t", partitions=3)
    get = view.client.get
    for path in (
        *("/consumers", "/brokers", "/brokers/ids", "/brokers/topics", "/brokers/seqid", "/config"),
        *(
            "/config/changes",
            "/config/topics",
            "/config/clients",
            "/config/users",
            "/config/brokers",
            "/config/ips",
        ),
        *("/admin", "/admin/delete_topics", "/isr_change_notification", "/latest_producer_id_block"),
        *(
            "/log_dir_event_notification",
            "/cluster",
            "/brokers/topics/t/partitions",
            "/brokers/topics/t/partitions/0",
        ),
    ):
        data, stat = get(path)
        # None is null; an empty value would be b"", which Apache's brokers take for a damaged one.
        assert (data, stat.version, stat.ephemeralOwner) == (None, 0, 0), path
    assert view.json("/cluster/id")["version"] == "1"
    assert view.json("/feature") == {"features": {}, "version": 2, "status": 1}
    assert int(get("/controller_epoch")[0]) >= 1
    controller = view.json("/controller")
    assert {name: controller[name] for name in ("version", "kraftControllerEpoch")} == {
        "version": 2,
        "kraftControllerEpoch": -1,
    }
    for broker_id in cluster.brokers:
        data, stat = get(f"/brokers/ids/{broker_id}")
        assert stat.version == 1
        assert stat.ephemeralOwner != 0
        assert json.loads(data)["version"] == 5
    assert view.json("/config/topics/t") == {"version": 1, "config": {}}
    assert view.json("/brokers/topics/t")["version"] == 3
    data, stat = get("/brokers/topics/t/partitions/0/state")
    assert json.loads(data)["leader_epoch"] == 0
    assert view.client.get_acls("/brokers")[0][0].perms == 31


def test_it_takes_little_to_be_ready(cluster: ProcessCluster) -> None:
    """Whatever else the machine does: three interpreters, and most of it is theirs."""
    assert cluster.taken_s < 15  # type: ignore[attr-defined]


def test_a_killed_leader_that_was_controller_costs_no_record(
    cluster: ProcessCluster, view: View, zookeeper: ZooKeeperServer
) -> None:
    live.create(cluster, "killed")
    live.produce(cluster, "killed", "before")
    controller = live.controller(cluster)
    # Let the controller lead it.
    elected = live.leader(cluster, "killed")
    if elected != controller:
        cluster.terminate(elected)
        eventually(lambda: live.leader(cluster, "killed") not in (-1, elected), 60)
        cluster.restart(elected)
        eventually(lambda: live.in_sync(cluster, "killed") == {0: 3}, 60)
    victim = live.leader(cluster, "killed")
    epoch = int(view.client.get("/controller_epoch")[0])
    kill(cluster, victim, zookeeper)
    live.produce(cluster, "killed", "during")
    assert live.leader(cluster, "killed") != victim
    if victim == controller:
        assert int(view.client.get("/controller_epoch")[0]) > epoch
    cluster.restart(victim)
    eventually(lambda: live.in_sync(cluster, "killed") == {0: 3}, 60)
    live.produce(cluster, "killed", "after")
    found = live.values(cluster, "killed")
    assert sorted(set(found), key=found.index) == ["before", "during", "after"]


def test_a_session_that_ends_under_a_living_broker_begins_again(
    cluster: ProcessCluster, view: View, zookeeper: ZooKeeperServer
) -> None:
    live.create(cluster, "expired")
    live.produce(cluster, "expired", "before")
    victim = live.leader(cluster, "expired")
    path = f"/brokers/ids/{victim}"
    before = view.client.get(path)[1]
    # SIGSTOP for longer than its session: it is ended, and the broker finds that out when it goes on.
    key = key_of(cluster, victim)
    cluster.pause(victim)
    stopped = psutil.Process(cluster.brokers[victim].pid)
    try:
        eventually(lambda: stopped.status() == psutil.STATUS_STOPPED, 60, "it stands still")
        end(key, zookeeper)
        eventually(lambda: view.client.exists(path) is None, 60, "the session ends")
        live_leader = eventually(
            lambda: (
                (found := _leader_seen_by_others(cluster, "expired", victim)) not in (-1, victim) and found
            ),
            60,
        )
        assert live_leader != victim
    finally:
        cluster.resume(victim)
    after = eventually(lambda: view.client.exists(path), 60, "it is registered again")
    assert after.czxid > before.czxid
    assert after.ephemeralOwner != before.ephemeralOwner
    eventually(lambda: live.in_sync(cluster, "expired") == {0: 3}, 60)
    live.produce(cluster, "expired", "after")
    assert set(live.values(cluster, "expired")) == {"before", "after"}


def _leader_seen_by_others(cluster: ProcessCluster, topic: str, but: int) -> int:
    others = ",".join(b.address for b in cluster.brokers.values() if b.is_running and b.broker_id != but)
    try:
        with SyncClient(others) as client:
            return client.leader(TopicPartition(topic, 0), refresh=True)[0]
    except OdradekError:
        return -1


def test_a_controlled_shutdown_hands_over_first(cluster: ProcessCluster, view: View) -> None:
    live.create(cluster, "stopped")
    live.produce(cluster, "stopped", "before")
    leader = live.leader(cluster, "stopped")
    assert cluster.terminate(leader) == exit_codes.STOPPED_IN_ORDER
    # Its node went with it, not with a timeout; and its place was taken before that.
    eventually(
        lambda: view.client.exists(f"/brokers/ids/{leader}") is None, SESSION_TIMEOUT_MS / 1000 / 2, "gone"
    )
    live.produce(cluster, "stopped", "after")
    cluster.restart(leader)
    eventually(lambda: live.in_sync(cluster, "stopped") == {0: 3}, 60)
    assert set(live.values(cluster, "stopped")) == {"before", "after"}


DAMAGE = {
    "not-json": ("state", b"{", "not JSON"),
    "stranger-leads": ("state", {"leader": 9, "isr": [9]}, "leader 9 is not among the assigned replicas"),
    "from-the-future": ("state", {"controller_epoch": 10_000}, "controller_epoch 10000 was not reached yet"),
    "twice": ("state", {"isr": [1, 1]}, "isr: expected each broker once, found [1, 1]"),
    "negative": ("topic", {"partitions": {"0": [-1, 2]}}, "partitions.0: expected broker ids of 0 or more"),
    "unknown-version": ("topic", {"version": 9}, "unknown version 9; known: 1, 2, 3"),
    "without-partitions": ("topic", {"partitions": None}, "partitions: expected an object, found None"),
}


def test_damaged_topics_are_out_of_service_each_for_its_reason_and_the_others_go_on(
    cluster: ProcessCluster, view: View, zookeeper: ZooKeeperServer
) -> None:
    """Edited by hand beside a healthy topic; then the controller changes, and then a leader dies."""
    live.create(cluster, "healthy")
    live.produce(cluster, "healthy", "before")
    mended = {}
    for topic, (which, damage, _) in DAMAGE.items():
        live.create(cluster, topic, replicas=2)
        path = f"/brokers/topics/{topic}" + ("/partitions/0/state" if which == "state" else "")
        mended[path] = view.client.get(path)[0]
        value = damage if isinstance(damage, bytes) else json.dumps({**view.json(path), **damage}).encode()
        view.client.set(path, value)
    epoch = int(view.client.get("/controller_epoch")[0])
    view.client.delete("/controller")
    eventually(lambda: int(view.client.get("/controller_epoch")[0]) > epoch, 60, "another controller")
    for topic, (_, _, reason) in DAMAGE.items():
        eventually(lambda reason=reason: _journal_says(cluster, reason), 60, f"{topic}: {reason}")
    # One election was enough: nobody resigns over what cannot be read.
    assert int(view.client.get("/controller_epoch")[0]) == epoch + 1
    victim = live.leader(cluster, "healthy")
    kill(cluster, victim, zookeeper)
    live.produce(cluster, "healthy", "during")
    cluster.restart(victim)
    eventually(lambda: live.in_sync(cluster, "healthy") == {0: 3}, 60)
    live.create(cluster, "new")
    # Nothing was written over what was damaged; mended, it serves again.
    for path, value in mended.items():
        assert view.client.get(path)[0] != value
        view.client.set(path, value)
    view.client.delete("/controller")
    for topic in DAMAGE:
        live.produce(cluster, topic, "mended")
    assert live.values(cluster, "healthy")[-1] == "during"


def _journal_says(cluster: ProcessCluster, words: str) -> bool:
    return any(
        words in file.read_text(errors="replace").replace('\\"', '"')
        for broker in cluster.brokers.values()
        for file in broker.directory.rglob("*")
        if file.is_file() and file.suffix in (".log", ".jsonl")
    )
