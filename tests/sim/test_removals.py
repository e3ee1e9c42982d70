"""When a group was removed, as its log tells."""

from dataclasses import replace

from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from odradek.sim.checkers import replicas as r
from odradek.sim.checkers.keys import Keys
from odradek.sim.checkers.removals import Removal, Removals, life

T = TopicPartition("__consumer_offsets", 0)
STORED = LeaderAndIsr(BrokerId(1), LeaderEpoch(3), (BrokerId(1), BrokerId(2)), PartitionEpoch(0))
SET, GONE = b"a group", None


def log(*values: bytes | None, key: bytes = b"g") -> Keys:
    found = Keys()
    for offset, value in enumerate(values):
        found.put(key, offset, value)
    return found


def view(held: Keys, of_follower: Keys | None = None, *, mark: int = 10, epoch: int = 3) -> r.ClusterView:
    leader = r.ReplicaView(BrokerId(1), True, True, epoch, 0, 10, mark, keys=held)
    follower = replace(leader, broker=BrokerId(2), is_leader=False, keys=of_follower or Keys())
    return r.ClusterView({T: r.PartitionView((leader, follower), STORED)})


def removals(*views: r.ClusterView) -> list[Removal]:
    """A look a second."""
    found = Removals({b"g": "group"})
    for second, one in enumerate(views):
        found.observe(one, float(second))
    return list(found.of("group"))


def test_a_tombstone_is_seen_once_it_is_committed_and_once() -> None:
    gone = view(log(SET, GONE))
    assert removals(view(log(SET)), gone, gone) == [Removal(0.0, 1.0)]
    assert removals(view(log(SET)), view(log(SET, GONE), mark=1), gone) == [Removal(1.0, 2.0)]
    assert removals(view(log(SET, GONE)), view(log(SET, GONE, SET, GONE))) == [
        Removal(0.0, 0.0),
        Removal(0.0, 1.0),
    ]


def test_it_is_seen_behind_what_the_next_group_wrote_and_where_its_leader_has_cleaned_it_away() -> None:
    assert removals(view(log(SET)), view(log(SET, GONE, SET))) == [Removal(0.0, 1.0)]
    assert removals(view(log(SET)), view(log(), log(SET, GONE))) == [Removal(0.0, 1.0)]


def test_while_no_elected_leader_is_seen_it_may_have_been_at_any_time() -> None:
    deposed = view(log(SET, GONE), epoch=2)
    assert removals(view(log(SET)), deposed) == []
    assert removals(view(log(SET)), deposed, deposed, view(log(SET, GONE))) == [Removal(0.0, 3.0)]


def test_a_value_or_a_tombstone_of_something_else_removes_nothing() -> None:
    assert removals(view(log(SET, SET)), view(log(SET, GONE, key=b"an offset"))) == []


def test_what_is_asked_and_told_is_in_one_life_or_in_none() -> None:
    two = Removal(1.0, 1.1), Removal(3.0, 3.1)
    assert [life(two, 0.0, 1.0), life(two, 1.1, 3.0), life(two, 3.1, 9.0)] == [0, 1, 2]
    assert [life(two, 0.0, 1.05), life(two, 1.05, 2.0), life(two, 0.0, 9.0), life(two, 2.0, 3.2)] == [
        None
    ] * 4
    assert life((), 0.0, 9.0) == 0
