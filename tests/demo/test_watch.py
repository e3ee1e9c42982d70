"""What the demo's watch makes of what it is told, however seldom it looks."""

from odradek.client.sync import ClusterView, PartitionView, TopicView
from odradek.demo.timeline import Timeline
from odradek.demo.watch import ClusterWatch
from tests.client.support import ScriptedBroker


def view(isr: tuple[int, ...], leader_epoch: int) -> ClusterView:
    partition = PartitionView(isr[0], leader_epoch, (1, 2, 3), isr, ())
    return ClusterView("id", 1, {}, {"t": TopicView(bytes(16), False, {0: partition})}, {})


def watched(*views: ClusterView) -> tuple[ClusterWatch, list[str]]:
    timeline = Timeline(0.0)
    watch = ClusterWatch("127.0.0.1:1", "t", 3, timeline)
    for seen in views:
        watch._observe(seen)
    watch.restarted = True
    return watch, [moment.name for moment in timeline.moments]


def test_what_the_cluster_is_like_is_known_before_the_first_record() -> None:
    with ScriptedBroker() as broker:
        broker.partitions["t"] = [1]
        with ClusterWatch(broker.address, "t", 1, Timeline(0.0)) as watch:
            assert watch.view is not None and watch.view.controller_id == 1


def test_an_isr_that_shrinks_and_is_full_again_is_told() -> None:
    watch, told = watched(view((1, 2, 3), 0), view((2, 3), 1))
    assert told == ["isr-shrunk"]
    watch._observe(view((2, 3, 1), 1))
    assert watch.isr_full_again.is_set()


def test_an_isr_that_was_full_again_before_anybody_looked_is_told_too() -> None:
    watch, told = watched(view((1, 2, 3), 0))
    assert told == [] and not watch.isr_full_again.is_set()
    watch._observe(view((2, 3, 1), 1))
    watch._observe(view((2, 3, 1), 1))
    assert watch.isr_full_again.is_set()


def test_where_nothing_has_happened_nothing_is_told() -> None:
    watch, told = watched(*[view((1, 2, 3), 4)] * 3)
    watch._observe(view((1, 2, 3), 4))
    assert told == [] and not watch.isr_full_again.is_set()
