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
    led: dict[str, int] = {}
    there, back = {0: [3, 4], 1: [1, 2]}, {0: [1, 2], 1: [3, 4]}
    with Writing(cluster, "orders", len(ORDERS)) as orders, Writing(cluster, "moving", 2) as moving:
        for turn, successor in enumerate((APACHES, OURS, APACHES, OURS)):
            epoch, controller = epoch_of(cluster), cluster.controller
            assert controller is not None
            led[cluster.kind_of(controller)] = controller
            # Half done: a deletion that waits for a dead broker, and a reassignment just begun.
            # KAFKA-12315: an Apache controller that is deposed while it deletes keeps a half-made request for good,
            # and throws at every move of a replica should it lead again. So the one that led before is killed.
            victim = led.get(successor, cluster.of_kind(successor)[0])
            cluster.create_topic(f"short-lived-{turn}", {0: [controller, victim]})
            target = there if turn % 2 == 0 else back
            with cluster.paused([victim]):
                cluster.ask_reassignment("moving", target)
                cluster.kill(victim)
            cluster.ask_deletion(f"short-lived-{turn}")

            led[successor] = cluster.make_controller(successor)
            assert epoch_of(cluster) == epoch + 1
            orders.wait_for_more()

            cluster.restart(victim)
            cluster.wait_reassigned("moving", target)
            cluster.wait_deleted(f"short-lived-{turn}")
            cluster.wait_full("orders")
            cluster.create_topic(f"made-in-turn-{turn}", {0: [1, 3], 1: [4, 2]})
            moving.wait_for_more()

        cluster.kill(led[APACHES])
        cluster.restart(led[APACHES])
        cluster.wait_full("orders")
        for successor in (APACHES, OURS):
            killed = cluster.controller
            assert killed is not None
            cluster.make_controller(successor, kill=True)
            orders.wait_for_more()
            cluster.restart(killed)
            cluster.wait_full("orders")
            cluster.wait_full("moving")
    orders.check()
    moving.check()
    for turn in range(4):
        cluster.wait_full(f"made-in-turn-{turn}")
        for broker in cluster.brokers:
            left = [path.name for path in cluster.data_of(broker).glob(f"short-lived-{turn}-0")]
            assert left == [], f"broker {broker} keeps {left}"
