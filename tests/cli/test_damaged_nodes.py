"""Nodes edited by hand under a running cluster: the controller goes on with what it can trust, says what it cannot, and
takes it back when it is mended."""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from odradek.testing.running_cluster import RunningCluster
from tests.cli.conftest import Shell
from tests.support import eventually

TOPICS = ("json", "version", "no-isr", "stranger", "node", "config", "number", "healthy")


def state(topic: str) -> str:
    return f"/brokers/topics/{topic}/partitions/0/state"


class Editor:
    """Somebody with a shell on the store."""

    def __init__(self, cluster: RunningCluster) -> None:
        self._cluster = cluster
        self._session = cluster.cluster.ensemble.open()

    def read(self, path: str) -> bytes:
        return self._cluster.call(self._session.get(path)).data

    def write(self, path: str, value: bytes) -> bytes:
        """The value it had."""
        before = self.read(path)
        self._cluster.call(self._session.set(path, value))
        return before

    def change(self, path: str, **fields: object) -> bytes:
        value = {**json.loads(self.read(path)), **fields}
        return self.write(path, json.dumps({k: v for k, v in value.items() if v is not None}).encode())

    def create(self, path: str, value: bytes, *, sequential: bool = False) -> None:
        self._cluster.call(self._session.create(path, value, sequential=sequential))

    def delete(self, path: str) -> None:
        self._cluster.call(self._session.delete(path))

    def announce(self, topic: str) -> None:
        value = json.dumps({"version": 2, "entity_path": f"topics/{topic}"}).encode()
        self.create("/config/changes/config_change_", value, sequential=True)


def test_a_cluster_goes_on_among_damaged_nodes(
    start_cluster: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "odradek")
    cluster, shell = start_cluster(3)
    for topic in TOPICS:
        shell.ok("topic", "create", topic, "--assign", "1,2", "-c", "retention.ms=5000")
    editor = Editor(cluster)
    before = {
        state("json"): editor.write(state("json"), b"{not json"),
        state("version"): editor.change(state("version"), version=9),
        state("no-isr"): editor.change(state("no-isr"), isr=None),
        state("stranger"): editor.change(state("stranger"), leader=77, isr=[77]),
        "/brokers/topics/node": editor.change("/brokers/topics/node", partitions={"0": [1, 1]}),
        "/config/topics/config": editor.write("/config/topics/config", b"{bad}"),
        # `str.isdigit` says yes to it, `int` says no.
        "/config/topics/number": editor.change(
            "/config/topics/number", config={"min.insync.replicas": "\u00b2"}
        ),
    }
    editor.create("/brokers/ids/\u00b2", b"{}")
    editor.announce("number")
    editor.announce("config")
    editor.create("/admin/reassign_partitions", b"nonsense")

    def says(words: str) -> None:
        eventually(lambda: words in caplog.text, 60, words)

    says(
        "/brokers/topics/node cannot be read: partitions.0: expected each broker once, found [1, 1]; topic node is out of"
    )
    says("/config/topics/config is not applied: not JSON")
    says("/admin/reassign_partitions cannot be read: not JSON")
    editor.delete("/controller")  # the next one reads everything
    says(f"{state('json')} cannot be read: not JSON")
    says(f"{state('version')} cannot be read: unknown version 9; known: 1; topic version is out of service")
    says(f"{state('no-isr')} cannot be read: isr is missing")
    says(f"{state('stranger')} cannot be read: leader 77 is not among the assigned replicas [1, 2]")

    _goes_on(shell)
    found = shell.json("cluster", "health")
    assert (found["offline"], found["missing_brokers"]) == ([], []), "who leads leads on"
    note, number = found["unknown"]
    assert note.startswith(
        "the settings of topic config: UNKNOWN_SERVER_ERROR, /config/topics/config: not JSON"
    )
    assert number == "topic number: min.insync.replicas=\u00b2 is no number, and taken as 1"
    assert "not known: the settings of topic config" in shell("cluster", "health")[1]
    for topic in ("json", "version", "no-isr", "stranger", "node"):
        journal = shell("why", topic, "--journal", cluster.cluster.directory, offline=True)[1]
        assert f"topic {topic} is out of service" in journal, journal

    # Metadata is as it was: without the controller's journal the topic was called well.
    code, text, _ = shell("why", "json")
    assert code == 1 and text.startswith("json-0 is well: broker 1, "), text
    assert (
        f"json is out of service at the controller, while its leaders serve as long as they live: the nodes of json cannot be read ({state('json')}: not JSON"
        in text
    )
    told = text.rpartition("As Metadata has it the node is ")[2].splitlines()[0]
    assert {**json.loads(told), "controller_epoch": 1} == {
        "controller_epoch": 1,
        "leader": 1,
        "version": 1,
        "leader_epoch": 0,
        "isr": [1, 2],
    }
    found = shell.json("why", "json")
    assert not found["well"] and [answer["target"] for answer in found["answers"]] == ["json-0", "json"]
    assert shell("why", "new")[0] == 0, "of the others nothing is said"

    cluster.kill(1)
    text = eventually(lambda: (out := shell("why", "json"))[0] == 1 and out[1], 20, "its leader is gone")
    assert f"the nodes of json cannot be read ({state('json')}: not JSON" in text, text
    assert (
        f"-> repair the node: odradek store set {state('json')} FILE --yes; then odradek store delete /controller --yes: the next "
        "controller reads it"
    ) in text

    cluster.start(1)
    for path, value in before.items():
        editor.write(path, value)
    editor.announce("config")
    editor.write(
        "/admin/reassign_partitions",
        b'{"version":1,"partitions":[{"topic":"node","partition":0,"replicas":[1,3]}]}',
    )
    editor.delete("/controller")
    eventually(
        lambda: _replicas(shell, "node") == [1, 3], 20, "what was wished for in the older node is done"
    )
    for topic in TOPICS[:-1]:  # the last one was deleted meanwhile
        eventually(lambda topic=topic: shell("why", topic)[0] == 0, 20, topic)
    cluster.kill(2)
    eventually(lambda: shell.json("why", "json")["answers"][0]["trees"][0]["detail"].endswith("ISR [1]"), 20)


def _goes_on(shell: Shell) -> None:
    shell.ok("topic", "create", "new", "--assign", "3,1")
    assert shell("topic", "delete", "healthy", "--yes")[0] == 0


def _replicas(shell: Shell, topic: str) -> list[int]:
    (found,) = shell.json("topic", "describe", topic)
    replicas: list[int] = found["partitions"][0]["replicas"]
    return replicas
