"""`cluster health`, of what Metadata says."""

import json
import threading
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.cli import cluster_health, main, output, silent_brokers, waiting
from odradek.cli.waiting import wait_for_cluster
from odradek.client import sync
from odradek.client.sync import ClusterView
from odradek.client.sync_connection import Unreachable
from tests.cli.test_sources import view
from tests.support import eventually


def report(monkeypatch: pytest.MonkeyPatch, seen: ClusterView, minimum: int) -> dict[str, Any]:
    monkeypatch.setattr(cluster_health, "min_insync_replicas", lambda *_: dict.fromkeys(seen.topics, minimum))
    monkeypatch.setattr(cluster_health, "silent_brokers", lambda *_: {})
    client: Any = SimpleNamespace(cluster=lambda: seen)
    return cluster_health.health_report(client)


def test_a_topic_with_fewer_replicas_takes_what_all_of_them_have(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = view([1, 2], alone=[([1], [])], pair=[([1, 2], [])])
    found = report(monkeypatch, seen, 2)
    assert found["healthy"] and found["under_min_isr"] == []
    pair = seen.topics["pair"]
    short = pair._replace(partitions={0: pair.partitions[0]._replace(isr=(1,))})
    found = report(monkeypatch, seen._replace(topics={**seen.topics, "pair": short}), 2)
    assert not found["healthy"]
    assert [(p["partition"], p["min_insync_replicas"]) for p in found["under_min_isr"]] == [("pair-0", 2)]


def test_a_cluster_without_a_controller_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = view([1, 2], pair=[([1, 2], [])])
    assert report(monkeypatch, seen, 1)["healthy"]
    for controller in (-1, 3):
        found = report(monkeypatch, seen._replace(controller_id=controller), 1)
        assert (found["healthy"], found["controller"]) == (False, None)


def test_what_is_not_known_is_not_called_healthy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Brokers that have lost the metadata store tell the metadata that they last saw: all was well then."""

    def lost(_client: object, _topics: list[str], unknown: list[str]) -> dict[str, int]:
        unknown.append("the settings of topic pair: there is no session with the store")
        return {}

    seen = view([1, 2], pair=[([1, 2], [])])
    monkeypatch.setattr(cluster_health, "min_insync_replicas", lost)
    monkeypatch.setattr(cluster_health, "silent_brokers", lambda *_: {})
    client: Any = SimpleNamespace(cluster=lambda: seen)
    found = cluster_health.health_report(client)
    assert not found["healthy"]
    cluster_health.show(found)
    assert capsys.readouterr().out.startswith("not known to be healthy: 1 partition, controller 1\n")
    assert found["verdict"] == "unknown"
    cluster_health.show({**found, "verdict": "unhealthy", "offline": [found_offline()]})
    assert capsys.readouterr().out.startswith("NOT healthy: ")


def found_offline() -> dict[str, Any]:
    return {"partition": "t-0", "leader": -1, "replicas": [1], "isr": [1]}


def test_of_very_many_partitions_in_trouble_some_are_shown_and_the_rest_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = view([1, 2], t=[([1, 2], [])] * 2_000)
    partitions = {index: one._replace(isr=(1,)) for index, one in seen.topics["t"].partitions.items()}
    behind = seen._replace(topics={"t": seen.topics["t"]._replace(partitions=partitions)})
    cluster_health.show(report(monkeypatch, behind, 1))
    said = capsys.readouterr().out
    assert said.count("t-") == cluster_health.SHOWN_PARTITIONS
    assert "2000 partitions, replicas behind or away:" in said
    assert f"and {2_000 - cluster_health.SHOWN_PARTITIONS} more; --json lists all" in said


def test_a_client_that_may_not_read_settings_is_told_which_right_it_lacks_and_not_that_the_cluster_is_unwell(
    start_cluster: Callable[..., Any],
) -> None:
    cluster, shell = start_cluster(2)
    for number in range(7):
        shell.ok("topic", "create", f"t{number}", "-p", 1, "-r", 2)
    with cluster.inject("DescribeConfigs", error="TOPIC_AUTHORIZATION_FAILED"):
        code, out, _ = shell("cluster", "health")
        assert code == 3 and out.startswith("not known to be healthy: 7 partitions"), out
        assert out.endswith(
            "not known: the settings of topics t0, t1, t2, t3, t4 and 2 more: TOPIC_AUTHORIZATION_FAILED; this client lacks the "
            "right DescribeConfigs on the topic\n"
        )
        assert shell.json("cluster", "health")["verdict"] == "unknown"
    assert shell.json("cluster", "health")["verdict"] == "healthy"
    cluster.kill(3 - shell.json("cluster", "health")["controller"])
    eventually(lambda: shell.json("cluster", "health")["under_replicated"], what="a replica is missed")
    with cluster.inject("DescribeConfigs", error="TOPIC_AUTHORIZATION_FAILED"):
        code, out, _ = shell("cluster", "health")
        assert code == 1 and out.startswith("NOT healthy: "), "what is seen to be wrong is"


def test_a_broker_that_is_registered_and_does_not_answer_is_not_called_healthy(
    start_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that has died counts as live, and leads, as long as the store has no room to end its session."""
    monkeypatch.setattr(silent_brokers, "ANSWER_WITHIN_S", 0.5)
    cluster, shell = start_cluster(3)
    victim = next(b for b in (2, 3) if b != cluster.controller)
    shell.ok("topic", "create", "t", "--assign", f"{victim},1")
    eventually(lambda: shell("cluster", "health")[0] == 0, what="it is healthy")
    with cluster.paused(victim, session_ends_after_s=None):
        code, out, _ = shell("cluster", "health")
    assert code == 3 and out.startswith("not known to be healthy: 1 partition, "), out
    assert (
        f"not known: whether broker {victim} lives: " in out
        and f"start broker {victim} if it has ended" in out
    )
    assert eventually(lambda: shell("cluster", "health")[0] == 0, what="it answers again")


def test_brokers_that_are_silent_are_waited_for_side_by_side() -> None:
    """One after the other, each of them would cost its whole time."""
    both = threading.Barrier(2)

    class Own:
        def __enter__(self) -> "Own":
            return self

        def __exit__(self, *_: object) -> None: ...

        def call(self, broker: int, _: object) -> None:
            if broker != 2:
                both.wait(30)
                raise Unreachable(f"broker {broker}: it hangs")

    client: Any = SimpleNamespace(another=lambda _: Own())
    assert silent_brokers.silent_brokers(client, [3, 2, 1, 3]) == {1: "it hangs", 3: "it hangs"}


def test_where_nobody_answers_it_is_not_known_that_the_cluster_is_unwell(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An address that is wrong, or a network between, was told as a cluster that is not healthy."""
    for watch in ([], ["--watch"]):
        code = main.main(["cluster", "health", *watch, "--bootstrap", "127.0.0.1:1"])
        said = capsys.readouterr()
        assert (code, said.out) == (3, "")
        assert said.err.startswith("odradek: no broker answers at 127.0.0.1:1: ")
    assert main.main(["cluster", "health", "--json", "--bootstrap", "127.0.0.1:1"]) == 3
    assert json.loads(capsys.readouterr().err)["exit_code"] == 3
    assert main.main(["cluster", "health", "--bootstrap", "nonsense:"]) == 2, "a wrong question"


def test_nor_is_it_where_nobody_answers_who_was_waited_for(
    start_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --wait it was exit code 1."""
    monkeypatch.setattr(output, "wait_for_cluster", partial(wait_for_cluster, deadline_s=0.1))
    assert main.main(["cluster", "health", "--wait", "--bootstrap", "127.0.0.1:1"]) == 3
    assert "odradek: no cluster within 0.1 s: no broker answers at 127.0.0.1:1: " in capsys.readouterr().err
    assert main.main(["topic", "list", "--wait", "--bootstrap", "127.0.0.1:1"]) == 1
    _, shell = start_cluster(1)
    monkeypatch.setattr(waiting, "what_is_missing", lambda _: waiting.NO_CONTROLLER)
    code, _, err = shell("cluster", "health", "--wait")
    assert code == 1 and "the cluster has no controller yet" in err, "that was told"


def test_settings_that_a_broker_does_not_tell_are_asked_of_another(
    start_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that had begun to hang since Metadata was waited for as long as a request may take, and then there was no picture."""
    cluster, shell = start_cluster(2)
    shell.ok("topic", "create", "t", "-r", 2)
    with cluster.inject("DescribeConfigs", delay_s=600), monkeypatch.context() as short:
        short.setattr(cluster_health, "SETTINGS_S", 0.1)
        code, out, _ = shell("cluster", "health")
        assert code == 3 and out.startswith("not known to be healthy: 1 partition, "), out
        assert "not known: the settings of topics, of which min.insync.replicas is taken as 1: " in out
    monkeypatch.setattr(sync, "ANSWER_PATIENCE_S", 0.2)
    hits = 0
    for broker in (1, 2):
        with cluster.inject("DescribeConfigs", delay_s=600, broker=broker) as one:
            assert shell.json("cluster", "health")["verdict"] == "healthy"
            hits += one.hits
    assert hits, "one of them was asked first"
