"""The explaining verbs against a cluster of Apache Kafka 3.9.1: through --bootstrap alone, and right.

Run by `make interop`, where Apache's jars are served: what is predicted there is then done to Apache's brokers.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from odradek.client.sync import SyncClient
from odradek.model.ids import TopicPartition
from tests.cli.conftest import Shell
from tests.conformance import zookeeper_server
from tests.interop import apache
from tests.interop.cluster import APACHES, MixedCluster
from tests.records.test_batch import batch
from tests.support import eventually

MISSING = apache.missing() or zookeeper_server.missing()
pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.skipif(MISSING is not None, reason=str(MISSING)),
]


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MixedCluster, Shell]]:
    directory = tmp_path_factory.mktemp("foreign")
    with MixedCluster(directory, ours=(), apaches=(1, 2, 3), first=APACHES) as cluster:
        yield cluster, Shell(cluster.bootstrap)


def test_apaches_cluster_is_explained_predicted_and_moved(
    foreign: tuple[MixedCluster, Shell], tmp_path: Path
) -> None:
    cluster, shell = foreign
    controller = shell.json("cluster", "health")["controller"]
    victim, other = [b for b in (1, 2, 3) if b != controller]
    pair = f"{victim},{other}"
    shell.ok("topic", "create", "s3", "--assign", victim)
    shell.ok("topic", "create", "pair", "--assign", pair, "-c", "min.insync.replicas=2")
    shell.ok("topic", "create", "wide", "--assign", f"{victim},{other},{controller}")
    with SyncClient(shell.bootstrap) as client:
        client.produce(TopicPartition("s3", 0), batch(100), timeout_s=20)
    eventually(lambda: shell("why", "wide")[0] == 0, what="every replica is in sync", deadline_s=30)

    # Settings at three levels.
    shell.ok("config", "set", "--topic", "wide", "retention.ms=600000")
    assert shell.json("config", "get", "retention.ms", "--topic", "wide")["source"] == "topic"
    shell.ok("config", "set", "--cluster", "log.cleaner.threads=2")
    eventually(
        lambda: (
            shell.json("config", "get", "log.cleaner.threads", "--broker", victim)["source"]
            == "cluster default"
        ),
        what="Apache's broker has heard of the cluster's default",
    )
    assert shell.ok("config", "get", "log.cleaner.threads", "--broker", victim) == "2\n"
    shell.ok("config", "delete", "--cluster", "log.cleaner.threads")

    # The impact, the roll plan, and the journal there is not.
    remedy = tmp_path / "remedy.json"
    quote = shell.json("shutdown-impact", "--broker", victim, "--out", remedy)
    assert [p["partition"] for p in quote["goes_offline"]] == ["s3-0"]
    assert [p["partition"] for p in quote["falls_under_min_isr"]] == ["pair-0"]
    assert not shell.json("roll", "plan")["safe"]
    code, _, err = shell("journal", "show")
    assert code == 1 and f"broker {victim} is none of ours and keeps no journal" in err

    # The remedy, moved by Apache's controller; then the same question has another answer.
    moved = shell.json("reassign", "apply", remedy, "--throttle", "50MB", "--wait")
    assert moved["refused"] == {} and moved["done"]
    assert shell.ok("reassign", "status") == "No reassignment runs.\n"
    assert shell.json("shutdown-impact", "--broker", victim)["goes_offline"] == []
    plan = shell.json("reassign", "plan", "--drain", controller)
    assert plan["bytes"] > 0 and "s3-0" in {m["partition"] for m in plan["moves"]}
    assert list(plan["left_out"]) == ["wide-0"], "three replicas need three brokers"

    # What is predicted is what happens.
    predicted = {
        p["partition"]: (p["leader_after"], sorted(p["isr_after"]))
        for p in shell.json("what-if", "--kill", victim)["partitions"]
    }
    cluster.kill(victim)

    def happened() -> dict[str, tuple[int, list[int]]]:
        with SyncClient(shell.bootstrap) as client:
            topics = client.cluster(["s3", "pair", "wide"]).topics
        return {
            f"{name}-{index}": (p.leader, sorted(p.isr))
            for name, topic in topics.items()
            for index, p in topic.partitions.items()
            if f"{name}-{index}" in predicted
        }

    eventually(lambda: happened() == predicted, deadline_s=30, what=f"it is as predicted: {predicted}")
    code, out, _ = shell("why", "wide-0")
    assert code == 1
    assert f"broker {victim} is not in the ISR (not registered)" in out
    cluster.restart(victim, deadline_s=60)
    eventually(lambda: shell("why", "wide")[0] == 0, what="it caught up", deadline_s=60)
    elected = shell.json("elect", "preferred", "wide")
    assert elected["ok"] and {result["target"] for result in elected["results"]} == {"wide-0"}
    assert json.loads(remedy.read_text())["version"] == 1


def test_groups_of_apaches_are_shown_explained_moved_and_deleted(
    foreign: tuple[MixedCluster, Shell],
) -> None:
    _, shell = foreign
    shell.ok("topic", "create", "read", "-p", 2, "-r", 3)
    eventually(lambda: shell("why", "read")[0] == 0, what="every replica is in sync", deadline_s=30)
    with SyncClient(shell.bootstrap) as client:
        for index in (0, 1):
            client.produce(TopicPartition("read", index), batch(10), timeout_s=20)
    options = {"bootstrap.servers": shell.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**options, "enable.auto.commit": False})
    consumer.subscribe(["read"])
    read = 0
    while read < 20:
        message = consumer.poll(60)
        assert message is not None and message.error() is None
        read += 1
    consumer.commit(asynchronous=False)

    (told,) = shell.json("group", "describe", "readers")
    assert (told["state"], told["members"], told["lag"], told["assignor"]) == ("Stable", 1, 0, "range")
    (member,) = shell.json("group", "members", "readers")
    assert member["topics"] == ["read"] and len(member["partitions"]) == 2
    why = shell.json("why", "--group", "readers")
    assert why["well"] and all(p["owned_since_ms"] for p in why["partitions"]), why
    moves = shell.json("what-if", "--kill", told["coordinator"])["coordinators"]
    assert any("readers" in move["groups"] for move in moves)
    assert shell("group", "seek", "readers", "--topic", "read", "--to-earliest", "--yes")[0] == 1
    consumer.close()

    shell.ok("group", "seek", "readers", "--topic", "read", "--by", -3, "--yes")
    assert shell.json("group", "lag", "readers")["lag"] == 6
    assert {"group": "readers", "state": "Empty", "lag": 6} in shell.json("cluster", "health")["groups"]
    shell.ok("group", "delete", "readers", "--yes")
    assert "readers" not in {row["group"] for row in shell.json("group", "list")}


def test_an_unclean_election_of_apaches_is_priced_by_asking_its_brokers(
    foreign: tuple[MixedCluster, Shell],
) -> None:
    cluster, shell = foreign
    controller = shell.json("cluster", "health")["controller"]
    leads, follows = [b for b in (1, 2, 3) if b != controller]
    where = TopicPartition("lossy", 0)
    shell.ok("topic", "create", "lossy", "--assign", f"{leads},{follows}")
    with SyncClient(shell.bootstrap) as client:
        client.produce(where, batch(5), timeout_s=20)
    cluster.kill(follows)
    eventually(
        lambda: shell.json("topic", "describe", "lossy")[0]["partitions"][0]["isr"] == [leads],
        what="the ISR shrank",
        deadline_s=30,
    )
    with SyncClient(shell.bootstrap) as client:
        client.produce(where, batch(7), timeout_s=20)
    cluster.kill(leads)
    cluster.restart(follows, deadline_s=60)
    quote = eventually(
        lambda: (
            (found := shell.json("elect", "unclean", "lossy")["results"][0]["quote"])
            and found["best"] == follows
            and found
        ),
        what="the survivor says what it holds",
        deadline_s=30,
    )
    held = {c["broker"]: c["log_end_offset"] for c in quote["candidates"]}
    assert held == {leads: None, follows: 5}
    out = shell.ok("elect", "unclean", "lossy", "--yes")
    assert f"lossy-0: broker {follows} leads" in out
