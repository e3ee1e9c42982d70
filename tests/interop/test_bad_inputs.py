"""What Apache's broker answers to 95 inputs that nobody should send: as recorded, for who has no Apache at hand."""

import json
from pathlib import Path

from odradek.client.sync import TopicView
from odradek.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.interop.cluster import APACHES, MixedCluster
from tests.server.bad_inputs import answers_of
from tests.support import GOLDEN

RECORDED = GOLDEN / "bad_inputs.json"


def test_apache_answers_bad_inputs_as_was_recorded(tmp_path: Path) -> None:
    """Where Apache's answers have changed, `found` below is what to write into the file."""
    with MixedCluster(tmp_path, ours=(), apaches=(1,), first=APACHES) as cluster:
        topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
        cluster.ask_controller(CreateTopicsRequest(topics=[topic], timeout_ms=30_000))
        cluster.wait_until(lambda: _is_led(cluster.view("t")), "the topic has its leader")
        found = answers_of(cluster.brokers[1].port, "t")
    assert found == json.loads(RECORDED.read_text(encoding="utf-8"))


def _is_led(view: TopicView | None) -> bool:
    return view is not None and view.partitions[0].leader == 1
