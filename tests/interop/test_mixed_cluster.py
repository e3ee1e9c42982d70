"""Two of our brokers and two of Apache's share a cluster, under our controller and under Apache's.

Idempotent producers write with acks=all while brokers of both kinds are killed, stopped in order and started
again, partitions move from one kind to the other, and topics are deleted and made again. In the end nothing that
was acknowledged is missing, and the files of all replicas hold the same batches.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.store import layout
from tests.interop.apache import Tools
from tests.interop.cluster import APACHES, OURS, STOPPED_IN_ORDER, MixedCluster
from tests.interop.load import Writing, check_replicas
from tests.interop.replicas import batches_of, end_of, epochs_of, topic_id_of

# Each kind leads two partitions; each partition has followers of both kinds.
ORDERS = {0: [1, 3, 2], 1: [3, 1, 4], 2: [2, 4, 1], 3: [4, 2, 3]}


@pytest.fixture(params=[OURS, APACHES])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MixedCluster]:
    with MixedCluster(tmp_path, first=request.param) as running:
        controller = running.controller
        assert controller is not None
        assert running.kind_of(controller) == request.param
        yield running


def test_nothing_acknowledged_is_lost_in_a_cluster_of_both_kinds(cluster: MixedCluster) -> None:
    kind = cluster.kind_of(cluster.controller or 0)
    other = APACHES if kind == OURS else OURS
    cluster.create_topic("orders", ORDERS, min_insync_replicas="2")
    cluster.create_topic("moving", {0: [1, 2], 1: [3, 4]}, min_insync_replicas="1")
    cluster.create_topic("doomed", ORDERS, min_insync_replicas="2")
    with (
        Writing(cluster, "orders", len(ORDERS)) as orders,
        Writing(cluster, "moving", 2) as moving,
        Writing(cluster, "doomed", len(ORDERS)) as doomed,
    ):
        orders.wait_for_more()
        doomed.wait_for_more()
        doomed.stop()

        # Partitions move from one kind to the other and back, by both of Apache's ways to ask for it.
        cluster.reassign("moving", {0: [3, 4], 1: [1, 2]})
        moving.wait_for_more()
        cluster.reassign_by_node("moving", {0: [2, 3], 1: [4, 1]})
        moving.wait_for_more()
        for broker_id in (1, 4):
            kept = cluster.data_of(broker_id) / "moving-0"
            cluster.wait_until(
                lambda kept=kept: not kept.exists(), f"broker {broker_id} left moving-0, and {kept} is gone"
            )

        # A topic deleted and made again under its name is another topic to everybody.
        old = topic_id_of(cluster.data_of(1), "doomed", 0)
        cluster.delete_topic("doomed")
        cluster.create_topic("doomed", ORDERS, min_insync_replicas="2")
        new = {topic_id_of(cluster.data_of(broker), "doomed", 0) for broker in ORDERS[0]}
        assert len(new) == 1 and old not in new
        again = Writing(cluster, "doomed", len(ORDERS))
        with again:
            # kill -9, one of each kind; not the controller, that is test_handover's. One is missed at once, for
            # one the session has to time out.
            for victim, end_session in ((_one_of(cluster, kind), True), (_one_of(cluster, other), False)):
                cluster.kill(victim, end_session=end_session)
                orders.wait_for_more()
                cluster.restart(victim)
                cluster.wait_full("orders")
            again.wait_for_more()
        again.check()

        # Stopped in order: leadership is handed over first.
        for stopped in (_one_of(cluster, kind), _one_of(cluster, other)):
            assert cluster.terminate(stopped) in STOPPED_IN_ORDER
            assert stopped not in [cluster.leader("orders", partition) for partition in ORDERS]
            orders.wait_for_more()
            cluster.restart(stopped)
            cluster.wait_full("orders")

        cluster.elect_preferred("orders", list(ORDERS))
        cluster.wait_until(
            lambda: [cluster.leader("orders", p) for p in ORDERS] == [r[0] for r in ORDERS.values()],
            "every partition is led by its first replica again",
        )
        orders.wait_for_more()
    orders.check()
    moving.check()
    for partition, replicas in ORDERS.items():
        epochs = {broker: epochs_of(cluster.data_of(broker), "orders", partition) for broker in replicas}
        assert len({tuple(found) for found in epochs.values()}) == 1, epochs
    # Either kind of controller numbers what it tells a broker so that nothing in order is taken for late (decisions/0008).
    for broker_id in cluster.of_kind(OURS):
        said = cluster.brokers[broker_id].directory.joinpath("broker.log").read_text(encoding="utf-8")
        assert "comes late" not in said


def _one_of(cluster: MixedCluster, kind: str) -> int:
    return next(b for b in cluster.of_kind(kind) if b != cluster.controller)


@pytest.mark.parametrize("kind", [OURS, APACHES])
def test_topics_that_somebody_wrote_into_the_tree_are_taken_in(
    kind: str, tmp_path: Path, tools: Tools
) -> None:
    """Apache's brokers create topics by themselves, without a fence; old tools do so without an id."""
    settings = {"auto.create.topics.enable": "true", "num.partitions": "2", "default.replication.factor": "2"}
    with MixedCluster(tmp_path, ours=(1,), apaches=(3,), first=kind, settings=settings) as cluster:
        cluster.tree.create(layout.config_path("topics", "bare"), layout.encode_config({}))
        cluster.tree.create(layout.topic_path("bare"), b'{"version":1,"partitions":{"0":[3,1],"1":[1,3]}}')
        made = tools.run("produce", cluster.brokers[3].address, "made-by-apache", 2, 100, "acks=all")
        assert made.code == 0, made
        made = tools.run("produce", cluster.brokers[1].address, "made-by-ours", 2, 100, "acks=all")
        assert made.code == 0, made
        cluster.wait_full("bare")
        with Writing(cluster, "bare", 2) as writing:
            writing.wait_for_more()
        writing.check()
        for topic in ("bare", "made-by-apache", "made-by-ours"):
            check_replicas(cluster, topic)
            ids = {topic_id_of(cluster.data_of(b), topic, p) for b in (1, 3) for p in (0, 1)}
            assert len(ids) == 1, f"{topic} has the ids {ids}"


def test_a_broker_changes_its_kind_on_its_own_files(tmp_path: Path) -> None:
    """The files are the same, so a cluster can be moved over broker by broker, and back."""
    with MixedCluster(tmp_path, ours=(1,), apaches=(2, 3)) as cluster:
        cluster.create_topic("t", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}, min_insync_replicas="2")
        with Writing(cluster, "t", 3) as writing:
            for broker_id in (2, 1, 1, 3):
                writing.wait_for_more()
                cluster.change_kind(broker_id)
                cluster.wait_full("t")
            writing.wait_for_more()
        writing.check()
        assert cluster.of_kind(OURS) == [1, 2, 3]


def test_an_unclean_election_counts_what_apaches_survivors_hold(tmp_path: Path) -> None:
    """They do not tell their epochs to whoever is not their follower, but where their log ends."""
    with MixedCluster(tmp_path, ours=(1, 2, 4), apaches=(3,)) as cluster:
        cluster.make_controller(OURS)
        cluster.create_topic("t", {0: [1, 2, 3]})
        for victim in (2, 3, 1):
            with Writing(cluster, "t", 1) as writing:
                writing.wait_for_more()
            cluster.kill(victim)
        held = {broker: end_of(batches_of(cluster.data_of(broker), "t", 0)) for broker in (1, 2, 3)}
        assert held[2] < held[3] < held[1]
        cluster.restart(2)
        cluster.restart(3)  # waits until they can be asked: an unclean election gives them half a second
        assert cluster.leader("t") == -1
        cluster.configure_topic("t", {"unclean.leader.election.enable": "true"})
        cluster.wait_until(lambda: cluster.leader("t") >= 0, "somebody leads")
        assert cluster.leader("t") == 3, held
