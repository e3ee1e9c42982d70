"""Asks Apache Kafka 3.9.1 (ZooKeeper mode, one broker) what it says to bad administrative requests, and where it
puts replicas; writes `admin_errors.json` and `assignments.json` beside this file.

    python -m tests.golden.record_admin <directory with Apache's jars>

The brokers of the racks are registrations without a process: a controller gives them replicas all the same.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.clusters import Apache
from benchmarks.raw_frames import RawClient
from kazoo.client import KazooClient
from tests.broker.admin_cases import (
    BROKER,
    BROKER_LOGGER,
    CASES,
    SET,
    TOPIC,
    change,
    create,
    describe,
    grow,
    topic,
)
from tests.broker.admin_cases import told as errors_of

from odradek.protocol import headers
from odradek.protocol.messages import alter_client_quotas as aq
from odradek.protocol.messages import api_versions as av
from odradek.protocol.messages import create_partitions as cp
from odradek.protocol.messages import delete_topics as dt

HERE = Path(__file__).parent
RACKS = {101: "r1", 102: "r3", 103: "r3", 104: "r2", 105: "r2", 106: "r1", 107: "r1"}


NOTICED_S = 3.0  # a change is announced in the store, and noticed a moment later


class SmallApache(Apache):
    def java(self, heap: str, main: str, config: Path) -> list[str]:
        return super().java("384M", main, config)


class Asker:
    def __init__(self, address: str) -> None:
        self._host, _, self._port = address.rpartition(":")
        self.connect()

    def connect(self) -> None:
        self._client = RawClient(self._host, int(self._port), 15)

    def ask(self, message: Any, version: int) -> Any:
        module = sys.modules[type(message).__module__]
        response = getattr(module, type(message).__name__.replace("Request", "Response"))
        frame = headers.encode_request(message.KEY, version, 7, "golden", message.encode(version))
        body = self._client.ask(frame)
        offset = headers.response_header_version(message.KEY, version)  # 1: behind empty tagged fields
        return response.decode(version, body, offset)


def register(zookeeper: KazooClient, broker: int, rack: str | None) -> None:
    value = {
        "version": 5,
        "host": "127.0.0.1",
        "port": 1,
        "endpoints": ["PLAINTEXT://127.0.0.1:1"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "jmx_port": -1,
        "timestamp": "1",
        "features": {},
    }
    if rack is not None:
        value["rack"] = rack
    zookeeper.create(f"/brokers/ids/{broker}", json.dumps(value).encode(), ephemeral=True)


def assignment(zookeeper: KazooClient, name: str) -> dict[str, list[int]]:
    data, _ = zookeeper.get(f"/brokers/topics/{name}")
    partitions: dict[str, list[int]] = json.loads(data)["partitions"]
    return partitions


def recorded_errors(asker: Asker) -> dict[str, Any]:
    assert not errors_of(asker.ask(create(topic("existing", 2), topic("a.b")), 7))[0][0]
    found: dict[str, Any] = {}
    for name, (version, request) in CASES.items():
        try:
            found[name] = errors_of(asker.ask(request, version))
        except TimeoutError:
            found[name] = "no answer"  # it fails inside and forgets the request
            asker.connect()
    return found


def recorded_answers(asker: Asker) -> dict[str, Any]:
    """Answers to requests that are right, where their form is not obvious."""
    found: dict[str, Any] = {}
    made = asker.ask(create(topic("made", 3), topic("late")), 7)
    found["create: configs"] = [
        [c.name, c.value, c.read_only, c.config_source] for c in made.topics[0].configs
    ]
    found["create: no time"] = errors_of(asker.ask(create(topic("no-time"), timeout_ms=0), 7))
    found["create: validated"] = errors_of(asker.ask(create(topic("v", 4), validate_only=True), 7))
    gone = asker.ask(dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name="late")], timeout_ms=9_000), 6)
    found["delete"] = [[r.name, bytes(r.topic_id) == bytes(16), r.error_code] for r in gone.responses]
    rate = "leader.replication.throttled.rate"
    asker.ask(change(BROKER, "1", (rate, SET, "1000")), 1)
    asker.ask(change(BROKER, "", (rate, SET, "2000")), 1)
    time.sleep(NOTICED_S)
    row = describe(BROKER, "1")
    row.resources[0].configuration_keys = [rate]
    row.include_synonyms = True
    answer = asker.ask(row, 4).results[0].configs
    found["describe: rate"] = [
        [c.name, c.value, c.read_only, c.config_source, c.is_sensitive, c.config_type,
         [[s.name, s.value, s.source] for s in c.synonyms]]
        for c in answer
    ]  # fmt: skip
    found["describe: no keys"] = len(asker.ask(describe(TOPIC, "existing"), 4).results[0].configs)
    row = describe(BROKER_LOGGER, "1")
    row.resources[0].configuration_keys = ["root"]
    found["describe: root logger"] = [
        [c.name, c.value, c.read_only, c.config_source, c.is_sensitive, c.config_type]
        for c in asker.ask(row, 4).results[0].configs
    ]
    asker.ask(change(TOPIC, "existing", ("cleanup.policy", 2, "compact")), 1)
    row = describe(TOPIC, "existing")
    row.resources[0].configuration_keys = ["cleanup.policy"]
    found["change: append"] = [c.value for c in asker.ask(row, 4).results[0].configs]
    versions = asker.ask(av.ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
    found["api versions: features"] = [
        [[f.name, f.min_version, f.max_version] for f in versions.supported_features],
        [[f.name, f.max_version_level, f.min_version_level] for f in versions.finalized_features],
        versions.finalized_features_epoch,
    ]
    return found


def recorded_quota(asker: Asker) -> list[Any]:
    """Rate 1, burst 11: [what, error, message, is it held up]."""
    asker.ask(
        aq.AlterClientQuotasRequest(
            entries=[
                aq.AlterClientQuotasRequestEntryData(
                    entity=[aq.EntityData(entity_type="user", entity_name=None)],
                    ops=[aq.OpData(key="controller_mutation_rate", value=1.0)],
                )
            ]
        ),
        1,
    )
    time.sleep(NOTICED_S)
    steps: list[tuple[str, Any, int]] = [
        ("create 30", create(topic("q1", 30)), 7),
        ("create 1", create(topic("q2", 1)), 7),
        ("validate 1", create(topic("q3", 1), validate_only=True), 7),
        ("create 1, version 5", create(topic("q4", 1)), 5),
        ("grow by 1", grow("existing", 3), 3),
        ("grow by 1, version 2", grow("existing", 3), 2),
        ("delete 1, version 4", dt.DeleteTopicsRequest(topic_names=["a.b"], timeout_ms=9_000), 4),
        ("delete 3", dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name="made")], timeout_ms=9_000), 6),
    ]
    found = []
    for name, request, version in steps:
        asker.connect()  # the connection of one who was throttled is not read from for a while
        answer = asker.ask(request, version)
        found.append([name, errors_of(answer), answer.throttle_time_ms > 0])
    return found


def recorded_assignments(asker: Asker, zookeeper: KazooClient) -> dict[str, Any]:
    """Topics on brokers with racks (101-107) beside broker 1 without one would be refused: so 1 gets a rack too."""
    found: dict[str, Any] = {"racks": {str(b): r for b, r in RACKS.items()} | {"1": "r2"}, "topics": []}
    for partitions, factor in ((9, 3), (17, 2), (5, 4), (8, 8), (30, 1)):
        name = f"drawn-{partitions}-{factor}"
        asker.ask(create(topic(name, partitions, factor), timeout_ms=1), 7)
        before = assignment(zookeeper, name)
        asker.ask(
            cp.CreatePartitionsRequest(
                topics=[cp.CreatePartitionsTopic(name=name, count=partitions + 11, assignments=None)],
                timeout_ms=1,
            ),
            3,
        )
        found["topics"].append(
            {"partitions": partitions, "factor": factor, "made": before, "grown": assignment(zookeeper, name)}
        )
    return found


def main(jars: Path) -> None:
    Apache.jars = jars
    with tempfile.TemporaryDirectory() as work:
        for rack in (None, "r2"):
            directory = Path(work) / (rack or "no-rack")
            directory.mkdir()
            cluster = SmallApache(1, directory)
            command = cluster.command(1)
            if rack:
                with (directory / "broker-1.properties").open("a", encoding="utf-8") as config:
                    config.write(f"broker.rack={rack}\n")
            assert command
            try:
                cluster.start().wait()
                asker = Asker(cluster.bootstrap[0])
                if rack is None:
                    found = {
                        "errors": recorded_errors(asker),
                        "answers": recorded_answers(asker),
                        "quota": recorded_quota(asker),
                    }
                    write("admin_errors.json", found)
                else:
                    zookeeper = KazooClient(f"127.0.0.1:{cluster.zookeeper_port}")
                    zookeeper.start()
                    for broker, its_rack in RACKS.items():
                        register(zookeeper, broker, its_rack)
                    wait_for_brokers(asker, len(RACKS) + 1)
                    write("assignments.json", recorded_assignments(asker, zookeeper))
                    zookeeper.stop()
            finally:
                cluster.stop()


def wait_for_brokers(asker: Asker, count: int) -> None:
    """Until the broker's cache has them: a topic that needs them all can be made."""
    for attempt in range(200):
        code, _ = errors_of(asker.ask(create(topic(f"probe-{attempt}", 1, count), validate_only=True), 7))[0]
        if code == 0:
            return
    raise TimeoutError("the controller did not notice the registrations")


def write(name: str, found: Any) -> None:
    text = json.dumps(found, indent=1, ensure_ascii=False, sort_keys=False)
    (HERE / name).write_text(text + "\n", encoding="utf-8")
    print(f"{name} written")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
