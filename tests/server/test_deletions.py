"""Topics deleted over the wire while a broker is away, and what becomes of the data it kept."""

from pathlib import Path

import pytest

from odradek.client.sync import SyncClient
from odradek.model.ids import BrokerId, TopicPartition
from odradek.store import layout
from odradek.store.pending_deletions import pending_deletions_path
from tests.server.moves import moves
from tests.support import eventually


@pytest.mark.behaviour(101, 169)
def test_a_deletion_halts_while_a_replica_is_dead_and_ends_when_it_returns(tmp_path: Path) -> None:
    with moves(tmp_path) as four:
        four.create("d", 1, 2, 3)
        four.produce("d", 5)
        four.running.kill(3)
        four.delete("d")
        eventually(lambda: four.directories("d") == {3}, what="the living have deleted it")
        assert four.exists(layout.topic_path("d")) and four.exists(layout.delete_topic_path("d"))
        four.running.kill(four.controller)
        eventually(
            lambda: any(r.controller.core for r in four.cluster.runtimes.values()), what="another leads"
        )
        assert four.exists(layout.topic_path("d")), "it halts for whoever leads"
        for broker in sorted(set(four.cluster.ids) - set(four.cluster.runtimes)):
            four.running.start(broker)
        eventually(lambda: not four.exists(layout.delete_topic_path("d")), what="the deletion is done")
        assert not four.exists(layout.topic_path("d")) and four.directories("d") == set()


def test_what_a_dead_broker_kept_of_a_deleted_topic_goes_when_it_returns_whoever_leads_then(
    tmp_path: Path,
) -> None:
    """The name is in use again by then: the new topic's replicas must not meet the old one's data."""
    strays = pending_deletions_path(BrokerId(3))
    with moves(tmp_path, odradek_delete_topic_with_offline_replicas="true") as four:
        four.create("d", 1, 2, 3)
        four.produce("d", 5)
        four.running.kill(3)
        four.delete("d")
        eventually(lambda: not four.exists(layout.topic_path("d")), what="deleted without broker 3")
        assert four.exists(strays) and four.directories("d") == {3}
        four.create("d", 1, 2)
        four.produce("d", 3)
        four.running.kill(four.controller)
        for broker in sorted(set(four.cluster.ids) - set(four.cluster.runtimes)):
            four.running.start(broker)
        eventually(lambda: not four.exists(strays), what="broker 3 has deleted what it kept")
        eventually(lambda: four.directories("d") == {1, 2})
        assert four.move("d", 1, 3) is None
        eventually(lambda: four.settled("d", 1, 3), what="broker 3 hosts the new topic")
        with SyncClient(four.running.bootstrap) as client:
            assert client.end_offsets([TopicPartition("d", 0)]) == {TopicPartition("d", 0): 3}
