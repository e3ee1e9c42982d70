"""The controller moves from our brokers to Apache's and back, several times, under load.

Each leaves work half done for the other: a reassignment that has begun, a deletion that waits for a broker that is
down, an ISR to be mended. The one that was controller wakes up as a zombie, and must be fenced.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.model.ids import ControllerEpoch
from odradek.store import layout
from tests.interop.cluster import APACHES, OURS, MixedCluster
from tests.interop.load import Writing

ORDERS = {0: [1, 3, 2], 1: [3, 1, 4], 2: [2, 4, 1], 3: [4, 2, 3]}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MixedCluster]:
    with MixedCluster(tmp_path) as running:
        yield running


def epoch_of(cluster: MixedCluster) -> ControllerEpoch:
    return layout.decode_controller_epoch(cluster.tree.get(layout.CONTROLLER_EPOCH)[0])


def test_controllers_hand_over_to_each_other_under_load(cluster: MixedCluster) -> None:
    cluster.create_topic("orders", ORDERS, min_insync_replicas="2")
    cluster.create_topic("moving", {0: [1, 2], 1: [3, 4]})
    orders = Writing(cluster, "orders", len(ORDERS)).start()
    moving = Writing(cluster, "moving", 2).start()
    there, back = {0: [3, 4], 1: [1, 2]}, {0: [1, 2], 1: [3, 4]}
    try:
        for turn, successor in enumerate((APACHES, OURS, APACHES, OURS)):
            epoch = epoch_of(cluster)
            controller = cluster.controller
            # Half done: a deletion that waits for a dead broker, and a reassignment just begun.
            victim = next(b for b in cluster.brokers if b != controller and cluster.kind_of(b) == successor)
            cluster.create_topic(f"short-lived-{turn}", {0: [controller or 0, victim]})
            cluster.kill(victim)
            cluster.ask_deletion(f"short-lived-{turn}")
            target = there if turn % 2 == 0 else back
            cluster.ask_reassignment("moving", target)

            cluster.make_controller(successor)
            assert epoch_of(cluster) == epoch + 1
            orders.wait_for_more()

            cluster.restart(victim)
            cluster.wait_reassigned("moving", target, 60)
            cluster.wait_deleted(f"short-lived-{turn}")
            cluster.wait_full("orders")
            cluster.create_topic(f"made-in-turn-{turn}", {0: [1, 3], 1: [4, 2]})
            moving.wait_for_more()

        for successor in (APACHES, OURS):
            killed = cluster.controller
            assert killed is not None
            cluster.make_controller(successor, kill=True)
            orders.wait_for_more()
            cluster.restart(killed)
            cluster.wait_full("orders")
            cluster.wait_full("moving")
    finally:
        orders.stop()
        moving.stop()
    orders.check()
    moving.check()
    for turn in range(4):
        cluster.wait_full(f"made-in-turn-{turn}")
        for broker in cluster.brokers:
            left = [path.name for path in cluster.data_of(broker).glob(f"short-lived-{turn}-0")]
            assert left == [], f"broker {broker} keeps {left}"
