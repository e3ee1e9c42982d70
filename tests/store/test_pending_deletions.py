"""The node of ours that says what a broker must still delete."""

import pytest

from odradek.model.ids import BrokerId, TopicId, TopicPartition
from odradek.store.api import ConditionalOps, Put
from odradek.store.facts import ControllerFacts
from odradek.store.fields import Unreadable
from odradek.store.pending_deletions import (
    ROOT,
    decode_pending_deletions,
    encode_pending_deletions,
    pending_deletions_path,
    write_pending_deletions,
)
from tests.store.test_facts import Cluster, in_a_cluster

BROKER = BrokerId(3)
ONE, OTHER = TopicId(bytes(15) + b"\x01"), TopicId(bytes(range(16)))
STRAYS = {
    TopicPartition("orders", 0): ONE,
    TopicPartition("orders", 7): ONE,
    TopicPartition("a.b", 2): OTHER,
}


def test_partitions_of_a_topic_stand_together() -> None:
    assert encode_pending_deletions(STRAYS) == (
        b'{"version":1,"topics":[{"topic":"a.b","id":"AAECAwQFBgcICQoLDA0ODw","partitions":[2]},'
        b'{"topic":"orders","id":"AAAAAAAAAAAAAAAAAAAAAQ","partitions":[0,7]}]}'
    )
    assert decode_pending_deletions(BROKER, encode_pending_deletions(STRAYS)) == STRAYS


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", "not JSON"),
        (b'{"version":2,"topics":[]}', "unknown version 2"),
        (b'{"version":1}', "topics is missing"),
        (b'{"version":1,"topics":[7]}', "expected objects with topic, id and partitions"),
        (b'{"version":1,"topics":[{"topic":"t","id":"short","partitions":[0]}]}', "expected 22 characters"),
        (b'{"version":1,"topics":[{"topic":"a/b","id":"short","partitions":[0]}]}', "no name of a topic"),
        (
            b'{"version":1,"topics":[{"topic":"t","id":"AAAAAAAAAAAAAAAAAAAAAQ"}]}',
            "expected a list of numbers",
        ),
        (
            b'{"version":1,"topics":[{"topic":"t","id":"AAAAAAAAAAAAAAAAAAAAAQ","partitions":["0"]}]}',
            "expected a whole number",
        ),
    ],
)
def test_a_value_that_cannot_be_trusted_says_which_node_and_why(data: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=f"^/odradek/strays/3: .*{reason}"):
        decode_pending_deletions(BROKER, data)


@in_a_cluster
async def test_a_controller_loads_what_the_last_one_left(cluster: Cluster) -> None:
    assert (
        await ControllerFacts(cluster.controller, cluster.wake).load(cluster.fence)
    ).pending_deletions == {}
    await cluster.do(
        write_pending_deletions(BROKER, STRAYS),
        write_pending_deletions(BrokerId(4), {TopicPartition("orders", 1): OTHER}),
    )
    await cluster.do(write_pending_deletions(BrokerId(4), {}))
    await cluster.do(ConditionalOps((Put(pending_deletions_path(BrokerId(5)), b"nonsense"),)))
    for name in ("seven", "03", "9" * 5000):  # nobody's
        await cluster.do(ConditionalOps((Put(f"{ROOT}/{name}", b"nonsense"),)))
    loaded = await ControllerFacts(cluster.controller, cluster.wake).load(cluster.fence)
    assert loaded.pending_deletions == {BROKER: STRAYS}
    assert [node.path for node in loaded.unreadable] == ["/odradek/strays/5"]
