"""Apache's kafka-reassign-partitions sends replicas of ours to log directories, while they are written."""

from pathlib import Path

from tests.interop.apache import Tools
from tests.interop.cluster import MixedCluster
from tests.interop.load import Writing
from tests.interop.test_tools import LOG_DIRS, REASSIGN, Session

RATE = "50000000"


def test_apaches_tool_moves_replicas_between_directories_and_brokers(tmp_path: Path, tools: Tools) -> None:
    with MixedCluster(tmp_path, ours=(1, 2), apaches=(), disks=2) as cluster:
        cluster.create_topic("t", {0: [1]})
        session = Session(cluster, tools)
        here = cluster.disk_of(1, "t", 0)
        there = next(disk for disk in cluster.disks_of(1) if disk != here)
        beyond = cluster.disks_of(2)[1]
        with Writing(cluster, "t", 1) as writing:
            writing.wait_for_more()
            for name, broker, disk in (("within.json", 1, there), ("across.json", 2, beyond)):
                wanted = {"topic": "t", "partition": 0, "replicas": [broker], "log_dirs": [str(disk)]}
                file = session.file(name, {"version": 1, "partitions": [wanted]})
                started = session.look(
                    REASSIGN,
                    "--reassignment-json-file",
                    file,
                    "--execute",
                    "--additional",
                    "--replica-alter-log-dirs-throttle",
                    RATE,
                )
                assert "Successfully started" in started, started
                cluster.wait_until(
                    lambda disk=disk: (disk / "t-0").is_dir() and not list(disk.glob("t-0.*-future")),
                    f"t-0 is in {disk}",
                )
                cluster.wait_until(
                    lambda file=file: (
                        "Reassignment of partition t-0 is completed." in _verified(session, file)
                    ),
                    "the tool says so",
                    pause_s=0.5,
                )
                assert "still in progress" not in (said := _verified(session, file)), said
                writing.wait_for_more()
            described = session.look(LOG_DIRS, "--describe", "--broker-list", "2", "--topic-list", "t")
            assert '"partition":"t-0"' in described and '"isFuture":false' in described, described
        writing.check()
        assert not (here / "t-0").exists() and not (there / "t-0").exists()


def _verified(session: Session, file: str) -> str:
    return str(session.look(REASSIGN, "--reassignment-json-file", file, "--verify", "--preserve-throttles"))
