"""95 inputs that nobody should send: each is answered as Apache Kafka 3.9.1 answers it, or as docs/differences.md says.

Its answers were recorded by tests/interop/test_bad_inputs.py.
"""

import json

import pytest

from odradek.client.sync import CONTROLLER, SyncClient
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from odradek.testing.running_cluster import running_cluster
from tests.server.bad_inputs import Answer, answers_of
from tests.support import GOLDEN, try_all

APACHES: dict[str, Answer] = json.loads((GOLDEN / "bad_inputs.json").read_text(encoding="utf-8"))
# Input -> (what ours answers, the line of docs/differences.md that says why).
DIFFERENT: dict[str, tuple[tuple[Answer, ...], str]] = {
    "produce: codec 5": ((76,), "refusals-named"),
    "produce: codec 7": ((76,), "refusals-named"),
    "produce: length 2147483647": ((87,), "refusals-named"),
    "produce: overlong varint": ((87,), "refusals-named"),
    "produce: gzip garbage": ((87,), "refusals-named"),
    "produce: lz4 garbage": ((87,), "refusals-named"),
    "produce: zstd garbage": ((87,), "refusals-named"),
    "produce: snappy garbage": ((87,), "refusals-named"),
    "fetch with isolation 9": (([0, 0],), "isolation-levels"),
    "config operation 9": (([42],), "refusals-named"),
    "produce: a byte behind it": ((87,), "no-rest"),
    "produce: offset delta 5": ((87,), "no-gaps"),
    "produce: bytes behind zstd": ((0,), "closed-batches"),
    "produce: gzip of half a record": ((0,), "closed-batches"),
    "metadata of a topic not UTF-8": (("closed",), "unreadable-closed"),
    "metadata, bytes behind it": (("closed",), "unreadable-closed"),
    "quota NaN": (([42],), "quotas-are-numbers"),
    "create topic: 32767 characters": (([17, 0],), "long-names"),
}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Answer]:
    with running_cluster(brokers=1) as cluster:
        with SyncClient(cluster.bootstrap) as client:
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            client.call(CONTROLLER, CreateTopicsRequest(topics=[topic], timeout_ms=20_000))
            assert client.topic("t").partitions[0].leader >= 0
        port = int(cluster.bootstrap.rpartition(":")[2])
        return answers_of(port, "t")


def test_there_are_as_many_as_were_recorded(ours: dict[str, Answer]) -> None:
    assert list(ours) == list(APACHES) and len(ours) == 95


def test_a_bad_input_is_answered_as_apache_answers_it(ours: dict[str, Answer]) -> None:
    def one(name: str) -> None:
        if name in DIFFERENT:
            assert ours[name] in DIFFERENT[name][0]
            assert ours[name] != APACHES[name]
        else:
            assert ours[name] == APACHES[name]

    try_all(APACHES, one)


def test_every_difference_has_its_reason_in_the_documents() -> None:
    text = (GOLDEN.parents[1] / "docs/differences.md").read_text(encoding="utf-8")
    assert all(f"| {line} |" in text for _, line in DIFFERENT.values())
