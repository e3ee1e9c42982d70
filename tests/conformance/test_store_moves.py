"""A cluster moves from the embedded store to ZooKeeper and back: `odradek store export` and `import`."""

import json
from pathlib import Path

import pytest

from odradek.cli import main
from odradek.testing.process_cluster import ProcessCluster
from odradek.testing.zookeeper import ZooKeeperServer
from tests.conformance import live
from tests.support import eventually

pytestmark = [pytest.mark.process, pytest.mark.slow]

TOPIC = "moved"


def odradek(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main.main([str(argument) for argument in arguments])
    said = capfd.readouterr()
    return code, said.out, said.err


def test_a_cluster_moves_to_zookeeper_and_back_and_nothing_is_lost(
    zookeeper: ZooKeeperServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home, connect = tmp_path / "cluster", f"{zookeeper.address}/moved"
    export, back = tmp_path / "there.jsonl", tmp_path / "back.jsonl"
    # The last one to stop has nobody to hand over to.
    settings = {"zookeeper.session.timeout.ms": "60000", "controlled.shutdown.retry.backoff.ms": "50"}

    with ProcessCluster(home, brokers=2, settings=settings) as cluster:
        live.create(cluster, TOPIC, replicas=2)
        live.produce(cluster, TOPIC, "on a file")
        code, _, err = odradek(capfd, "store", "export", export, "--dir", home)
        assert code == 0
        assert (
            "brokers 1, 2 are registered: what they change from now on, if they run, is not in the export"
            in err
        )
        code, _, err = odradek(capfd, "store", "import", export, "--dir", home, "--force")
        assert code == 1
        assert "brokers are registered here (1, 2); stop them first" in err
        epochs = live.partitions(cluster, TOPIC)[0].leader_epoch
        # In order: what is acknowledged is in both copies, and the files are closed.
        for broker_id in cluster.brokers:
            cluster.terminate(broker_id)

    assert odradek(capfd, "store", "export", export, "--dir", home)[0] == 0
    code, out, _ = odradek(capfd, "store", "import", export, "--zookeeper", connect)
    assert code == 0
    assert f"in ZooKeeper at {connect}; its brokers can start" in out
    code, _, err = odradek(capfd, "store", "import", export, "--zookeeper", connect)
    assert code == 1
    assert "there is a cluster here already (admin, brokers, cluster, " in err
    code, out, _ = odradek(capfd, "store", "get", f"/brokers/topics/{TOPIC}", "--zookeeper", connect)
    assert code == 0
    assert '"partitions":{"0":' in out
    code, out, _ = odradek(capfd, "store", "stat", "--zookeeper", connect, "--json")
    facts = json.loads(out)
    assert (code, facts["zookeeper"], facts["brokers"]) == (0, connect, None)
    assert facts["cluster_id"] == json.loads(export.read_text().splitlines()[0])["cluster_id"]
    # A broker's properties name the same place, with all that goes with it.
    properties = tmp_path / "server.properties"
    properties.write_text(f"broker.id=1\nlog.dirs={tmp_path}/data\nzookeeper.connect={connect}\n")
    listed = [
        odradek(capfd, "store", "ls", "/brokers/topics", "--all", *place)[1]
        for place in (("--zookeeper", connect), ("--store", properties))
    ]
    assert listed[0] == listed[1]
    assert f"/brokers/topics/{TOPIC}/partitions/0/state" in listed[0]
    code, _, err = odradek(capfd, "store", "get", "/brokers/topics/none", "--zookeeper", connect)
    assert code == 1
    assert f"there is no node /brokers/topics/none; below /brokers/topics there are: {TOPIC}" in err

    with ProcessCluster(home, brokers=2, settings=settings, zookeeper=connect) as cluster:
        eventually(lambda: live.in_sync(cluster, TOPIC) == {0: 2}, 60)
        assert live.values(cluster, TOPIC) == ["on a file"]
        assert live.partitions(cluster, TOPIC)[0].leader_epoch > epochs
        live.produce(cluster, TOPIC, "on ZooKeeper")
        for broker_id in cluster.brokers:
            cluster.terminate(broker_id)

    assert odradek(capfd, "store", "export", back, "--zookeeper", connect)[0] == 0
    (home / "odradek-store.sqlite").rename(tmp_path / "kept.sqlite")
    assert odradek(capfd, "store", "import", back, "--store", home / "odradek-store.sqlite")[0] == 0

    with ProcessCluster(home, brokers=2, settings=settings) as cluster:
        eventually(lambda: live.in_sync(cluster, TOPIC) == {0: 2}, 60)
        live.produce(cluster, TOPIC, "on a file again")
        found = live.values(cluster, TOPIC)
        assert sorted(set(found), key=found.index) == ["on a file", "on ZooKeeper", "on a file again"]


def test_a_chroot_that_is_not_there_is_said_and_not_made(
    zookeeper: ZooKeeperServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A backup of a mistyped chroot would hold nothing, and a look would leave a node in the ensemble."""
    export = tmp_path / "nothing.jsonl"
    for words in (
        ["ls"],
        ["stat"],
        ["get", "/controller"],
        ["export", export],
        ["delete", "/controller", "--yes"],
    ):
        code, out, err = odradek(capfd, "store", *words, "--zookeeper", f"{zookeeper.address}/mistyped/twice")
        assert (code, out) == (1, "")
        assert (
            err
            == f"odradek: there is no /mistyped/twice in ZooKeeper at {zookeeper.address}; is the chroot right?\n"
        )
    assert not export.exists()
    code, out, _ = odradek(capfd, "store", "ls", "--zookeeper", zookeeper.address)
    assert code == 0 and "/mistyped" not in out
