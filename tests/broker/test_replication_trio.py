"""Three brokers replicate one partition: what the whole of the data path promises."""

from pathlib import Path

import pytest

from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.replication.partition import Partition
from tests.broker.world import World

T0 = TopicPartition("t", 0)


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.lead(1, is_new=True)
    return world


def test_a_record_reaches_all_three_and_is_acknowledged_without_any_time_passing(world: World) -> None:
    asked = world.produce(1, b"a")
    assert not asked.is_answered
    world.settle()
    assert world.produced(asked) == (ErrorCode.NONE, 0)
    assert world[1].partition().high_watermark == 1
    world.advance(10)
    for number in (1, 2, 3):
        assert world[number].values() == [b"a"]
        assert world[number].partition().high_watermark == 1, "followers hear of it within moments"


@pytest.mark.behaviour(127)
def test_a_broker_that_does_not_lead_refuses_to_append(world: World) -> None:
    asked = world.produce(2, b"a", version=10)
    row = asked.message.responses[0].partition_responses[0]
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (row.current_leader.leader_id, row.current_leader.leader_epoch) == (1, 0)
    assert [(e.node_id, e.host, e.port) for e in asked.message.node_endpoints] == [(1, "localhost", 9001)]
    assert world[2].values() == []


@pytest.mark.behaviour(128)
def test_the_leader_appends_and_waits_for_its_own_log_end(world: World) -> None:
    world.cut |= {(2, 1), (3, 1)}
    asked = world.produce(1, b"a", b"b")
    world.settle()
    leader = world[1].partition()
    assert leader.log.log_end_offset == 2
    assert leader.commit_waiters.next_offset == 2
    assert len(leader.commit_waiters) == 1
    assert not asked.is_answered


@pytest.mark.behaviour(129)
def test_requests_of_a_partition_are_answered_in_the_order_of_their_offsets(world: World) -> None:
    world.cut |= {(2, 1), (3, 1)}
    asked = [world.produce(1, b"%d" % n) for n in range(5)]
    assert not any(pending.is_answered for pending in asked)
    world.completed.clear()
    world.cut.clear()
    world.settle()
    assert [pending for pending in world.completed if pending in asked] == asked
    assert [world.produced(pending) for pending in asked] == [(ErrorCode.NONE, n) for n in range(5)]


@pytest.mark.behaviour(130, 133, 134)
def test_nothing_is_committed_before_every_member_of_the_isr_has_it(world: World) -> None:
    world.cut.add((3, 1))
    asked = world.produce(1, b"a")
    world.settle()
    leader = world[1].partition()
    assert leader.followers[2].log_end_offset == 1, "2 has it"
    assert leader.high_watermark == 0, "3 has not, and 3 is in the ISR"
    assert not asked.is_answered
    assert world.consume(1, 0).message.responses[0].partitions[0].records == b"", "nor is it shown to anybody"
    world.cut.clear()
    world.settle()
    assert leader.high_watermark == 1
    assert world.produced(asked) == (ErrorCode.NONE, 0)


@pytest.mark.behaviour(131)
def test_a_member_that_lags_leaves_the_isr_and_what_waited_for_it_is_committed_once_that_is_confirmed(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, replica_lag_time_max_ms="10000")
    world.lead(1, is_new=True)
    world.cut.add((3, 1))
    world.on_alter = "hold"
    asked = world.produce(1, b"a", timeout_ms=60_000)
    world.advance(9_000)
    leader = world[1].partition()
    assert not world[1].alters
    world.advance(11_000)
    assert len(world[1].alters) == 1
    _, message = world[1].alters[0]
    (data,) = message.topics[0].partitions
    assert [(m.broker_id, m.broker_epoch) for m in data.new_isr_with_epochs] == [
        (1, world[1].epoch),
        (2, world[2].epoch),
    ]
    assert leader.high_watermark == 0, "until the controller confirms, 3 may still be elected"
    assert not asked.is_answered
    world.answer_alter(world[1], "commit")
    world.settle()
    assert leader.isr == (1, 2)
    assert leader.high_watermark == 1
    assert world.produced(asked) == (ErrorCode.NONE, 0)


@pytest.mark.behaviour(132, 156)
def test_a_follower_that_has_caught_up_is_proposed_and_counts_from_then_on(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.on_alter = "hold"
    world.cut.add((3, 1))
    world.lead(1, isr=(1, 2), is_new=True)
    asked = world.produce(1, b"a")
    world.settle()
    assert world.produced(asked)[0] == ErrorCode.NONE
    leader = world[1].partition()
    assert not world[1].alters
    world.cut.clear()
    world.settle()
    assert len(world[1].alters) == 1
    (data,) = world[1].alters[0][1].topics[0].partitions
    assert [m.broker_id for m in data.new_isr_with_epochs] == [1, 2, 3]
    assert data.new_isr_with_epochs[2].broker_epoch == world[3].epoch, "as its fetch said (KIP-903)"
    assert leader.isr == (1, 2)
    assert leader.state.maximal_isr == (1, 2, 3)
    world.cut.add((3, 1))
    second = world.produce(1, b"b")
    world.settle()
    assert not second.is_answered, "the controller may have added 3 already, and may elect it"
    world.answer_alter(world[1], "commit")
    assert leader.isr == (1, 2, 3)
    world.cut.clear()
    world.settle()
    assert world.produced(second)[0] == ErrorCode.NONE


def test_when_brokers_become_live_each_partition_without_a_proposal_under_way_asks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.on_alter = "hold"
    world.lead(1, isr=(1, 2), is_new=True)
    world.settle()
    assert len(world[1].alters) == 1, "of 3"
    asked: list[Partition] = []
    monkeypatch.setattr(Partition, "_propose_expansion", lambda partition, now_ms: asked.append(partition))
    replicas = world[1].broker.replicas
    replicas.live_brokers_changed(world.now_ms)
    assert not asked
    world.answer_alter(world[1], ErrorCode.INELIGIBLE_REPLICA)
    asked.clear()
    replicas.live_brokers_changed(world.now_ms)
    assert asked == [world[1].partition()]


@pytest.mark.behaviour(136)
def test_high_watermarks_outlive_a_crash_as_checkpointed_also_on_followers(world: World) -> None:
    world.produce(1, b"a", b"b")
    world.settle()
    world.advance(5_000)
    world.produce(1, b"c")
    world.advance(10)
    for number in (1, 2, 3):
        assert world[number].partition().high_watermark == 3
    for number in (1, 2, 3):
        world.kill(number)
    for number in (1, 2, 3):
        world.restart(number)
        assert world[number].logs.high_watermark_of(T0) == 2, "as written last, not as it was"
    world.cut |= {(2, 1), (3, 1)}
    world.notify_metadata()
    world.lead(1)
    assert world[1].partition().high_watermark == 2
    assert world[2].partition().high_watermark == 2


@pytest.mark.behaviour(136)
def test_what_is_written_down_is_how_far_a_replica_is_committed_and_not_how_far_its_log_goes(
    world: World,
) -> None:
    world.produce(1, b"a")
    world.settle()
    world.cut |= {(2, 1), (3, 1)}
    world.produce(1, b"b", acks=1)
    world.advance(5_001)
    assert (world[1].partition().log.log_end_offset, world[1].logs.high_watermark_of(T0)) == (2, 1)


@pytest.mark.behaviour(136)
def test_a_replica_that_lost_leadership_keeps_its_checkpoint_entry_and_a_clean_stop_writes_it(
    world: World,
) -> None:
    world.produce(1, b"a")
    world.settle()
    world.lead(2)
    world[1].broker.close(world.now_ms)
    world.settle()
    assert world[1].logs.high_watermark_of(T0) == 1


@pytest.mark.behaviour(143)
def test_commits_ask_nothing_of_the_controller_only_a_change_of_the_isr_does(world: World) -> None:
    for n in range(20):
        world.produce(1, b"%d" % n)
        world.settle()
    assert not world[1].alters
    assert world.leadership[T0]["partition_epoch"] == 0
    world.cut.add((3, 1))
    world.produce(1, b"x", timeout_ms=100_000)
    world.advance(50_000)
    assert world.leadership[T0]["partition_epoch"] == 1
    assert world[1].partition().partition_epoch == 1


@pytest.mark.behaviour(146)
def test_requests_of_an_older_controller_are_refused_as_a_whole_and_the_newest_epoch_is_kept(
    world: World,
) -> None:
    world.controller_epoch = 7
    world.lead(1)
    before = world[2].partition().leader_epoch
    world.controller_epoch = 6
    world.leadership[T0]["leader_epoch"] += 1
    assert world.tell_leader(2, T0) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert world.stop_replica(2, T0, leader_epoch=99, delete=True) == ErrorCode.STALE_CONTROLLER_EPOCH
    with pytest.raises(AssertionError):
        world.notify_metadata([2])
    assert world[2].partition().leader_epoch == before
    world.controller_epoch = 7
    assert world.tell_leader(2, T0) == ErrorCode.NONE


@pytest.mark.behaviour(147)
@pytest.mark.parametrize("step", [0, -1])
def test_an_equal_or_lower_leader_epoch_is_answered_stale_and_changes_nothing(
    world: World, step: int
) -> None:
    world.lead(2)
    fetched_from_2 = set(world[3].fetchers)
    state = world.leadership[T0]
    state["leader"] = 3
    state["leader_epoch"] += step
    assert world.tell_leader(3, T0) == ErrorCode.STALE_CONTROLLER_EPOCH
    world.settle()
    assert world[3].partition().leader == 2
    assert not world[3].partition().is_leader
    assert set(world[3].fetchers) == fetched_from_2 == {2}


@pytest.mark.parametrize("to", [1, 2])
def test_another_order_of_the_same_replicas_is_taken_in_the_epoch_that_is_known(
    world: World, to: int
) -> None:
    """A controller that was elected anew behind the topic node, and before the leader epoch, tells it so (seed 1782)."""
    world.lead(1)
    for replicas in ([1, 3, 2], [1, 2], [1, 2, 3, 4]):
        world.leadership[T0]["replicas"] = replicas
        assert world.tell_leader(to, T0) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert world[to].partition().assignment.replicas == (1, 3, 2)
    world.leadership[T0] |= {"replicas": [2, 1, 3], "leader_epoch": world.leadership[T0]["leader_epoch"] - 1}
    assert world.tell_leader(to, T0) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert world[to].partition().assignment.replicas == (1, 3, 2)


@pytest.mark.parametrize("epochs_on", [0, 1])
def test_what_was_stopped_follows_again_in_the_epoch_that_it_knew(world: World, epochs_on: int) -> None:
    """The controller takes a replica offline for one answer, and back for the next: StopReplica, then the same LeaderAndIsr
    (seed 692)."""
    world.lead(1)
    epoch = world.leadership[T0]["leader_epoch"]
    assert world.stop_replica(2, T0, leader_epoch=epoch) == ErrorCode.NONE
    world.settle()
    assert not world[2].fetchers
    world.leadership[T0]["leader_epoch"] = epoch + epochs_on
    assert world.tell_leader(2, T0) == ErrorCode.NONE
    world.settle()
    assert set(world[2].fetchers) == {1}
    assert world[2].partition().leader == 1
    assert world.tell_leader(2, T0) == ErrorCode.STALE_CONTROLLER_EPOCH, "it is stopped no more"
    world.stop_replica(2, T0, leader_epoch=epoch + epochs_on)
    world.leadership[T0]["leader_epoch"] = epoch + epochs_on - 1
    assert world.tell_leader(2, T0) == ErrorCode.STALE_CONTROLLER_EPOCH
    world.settle()
    assert not world[2].fetchers


def test_a_leader_that_was_stopped_does_not_lead_again_in_its_epoch(world: World) -> None:
    world.lead(1)
    world.stop_replica(1, T0, leader_epoch=world.leadership[T0]["leader_epoch"])
    assert world.tell_leader(1, T0) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert not world[1].partition().is_leader


@pytest.mark.behaviour(168)
def test_a_broker_told_that_nobody_leads_stops_fetching_and_answers_no_error(world: World) -> None:
    world.produce(1, b"a")
    world.settle()
    world.kill(1)
    state = world.leadership[T0]
    state["leader"], state["leader_epoch"], state["isr"] = -1, state["leader_epoch"] + 1, [1]
    assert world.tell_leader(2, T0) == ErrorCode.NONE
    world.settle()
    assert world[2].fetchers == {}
    assert world[2].broker.replicas.fetchers == {}, "nor does it wait for a broker -1 to appear"
    assert world[2].partition().leader == -1
    assert world[2].values() == [b"a"]
    asked = world.produce(2, b"b")
    assert world.produced(asked)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER


# ----------------------------------------------------------------------------------------- min.insync.replicas


@pytest.fixture
def strict(tmp_path: Path) -> World:
    """min.insync.replicas=2, and a short lag limit."""
    world = World(tmp_path, replica_lag_time_max_ms="10000")
    world.configs["topics", "t"] = {"min.insync.replicas": "2"}
    world.lead(1, is_new=True)
    return world


@pytest.mark.behaviour(157)
def test_with_too_small_an_isr_nothing_is_appended_for_acks_all(strict: World) -> None:
    strict.lead(1, isr=(1,), tell=(1,))
    asked = strict.produce(1, b"a")
    assert strict.produced(asked)[0] == ErrorCode.NOT_ENOUGH_REPLICAS
    assert strict[1].values() == []


@pytest.mark.behaviour(157)
def test_with_too_small_an_isr_the_high_watermark_stands_still_and_hides_acks_1_records(
    strict: World,
) -> None:
    strict.lead(1, isr=(1,), tell=(1,))
    strict.cut |= {(2, 1), (3, 1)}
    asked = strict.produce(1, b"a", acks=1)
    assert strict.produced(asked) == (ErrorCode.NONE, 0)
    assert strict[1].partition().high_watermark == 0
    assert strict.consume(1, 0).message.responses[0].partitions[0].records == b""
    strict.cut.clear()
    strict.lead(1, isr=(1,))  # the others follow again, and are let in
    strict.watch(lambda: strict[1].partition().high_watermark == 1)
    assert len(strict[1].partition().isr) >= 2


@pytest.mark.behaviour(157)
def test_one_replica_can_be_written_whatever_min_insync_replicas_says(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,))
    world.configs["topics", "t"] = {"min.insync.replicas": "2"}
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    asked = world.produce(1, b"a")
    assert world.produced(asked) == (ErrorCode.NONE, 0)
    assert world[1].partition().high_watermark == 1


@pytest.mark.behaviour(158)
def test_a_parked_request_is_answered_at_once_when_the_isr_falls_below_the_minimum(strict: World) -> None:
    strict.cut |= {(2, 1), (3, 1)}
    asked = strict.produce(1, b"a", timeout_ms=120_000)
    strict.advance(20_000)
    assert strict[1].partition().isr == (1,)
    assert strict.produced(asked)[0] == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert strict[1].values() == [b"a"], "the record stays, and may be read later"
    strict.cut.clear()
    strict.watch(lambda: strict[1].partition().high_watermark == 1)


def test_until_the_configuration_of_a_topic_is_known_the_strictest_minimum_holds(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.lead(1, is_new=True, settle=False)
    leader = world[1].partition()
    assert leader.effective_min_isr == 3
    world.settle()
    assert leader.effective_min_isr == 1


@pytest.mark.parametrize("at_start", [None, {"flush.messages": "1"}, {}])
def test_until_the_configuration_of_a_topic_is_known_it_is_flushed_before_a_fetch_acknowledges_it(
    tmp_path: Path, at_start: dict[str, str] | None
) -> None:
    """As it stood when the broker started; of a topic that was not there then the strictest."""
    world = World(tmp_path)
    if at_start is not None:
        configs = world[1].broker.replicas.topic_configs
        configs.at_start(configs.settings, {"t": at_start})
    world.lead(1, is_new=True, settle=False)
    assert world[1].partition().flushes_before_ack is (at_start != {})
    world.settle()
    assert not world[1].partition().flushes_before_ack, "it was read, and says nothing of it"


# ------------------------------------------------------------------------------------------ failover and epochs


def test_a_new_leader_has_all_that_was_acknowledged_and_the_old_one_drops_what_was_not(world: World) -> None:
    world.produce(1, b"a")
    world.settle()
    world.cut |= {(2, 1), (3, 1)}
    lost = world.produce(1, b"x", b"y")
    assert not lost.is_answered
    world.kill(1)
    world.lead(2, isr=(2, 3))
    asked = world.produce(2, b"b")
    world.settle()
    assert world.produced(asked) == (ErrorCode.NONE, 1)
    world.restart(1)
    world.notify_metadata()
    world.lead(2, isr=(2, 3))
    world.watch(lambda: world[2].partition().isr == (2, 3, 1))
    assert world[1].values() == world[2].values() == world[3].values() == [b"a", b"b"]
    assert world[1].raw() == world[2].raw() == world[3].raw(), (
        "batches are identical, epochs and offsets included"
    )
    assert world[1].epochs() == [(0, 0), (1, 1)], "of epoch 2 there is no batch yet"


def test_losing_leadership_answers_whoever_waits(world: World) -> None:
    world.cut |= {(2, 1), (3, 1)}
    produced = world.produce(1, b"a")
    fetched = world.consume(1, 0, max_wait_ms=60_000, leader_epoch=0)
    assert not produced.is_answered
    assert not fetched.is_answered
    world.lead(2, tell=(1,))
    assert world.produced(produced)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched.message.responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize("version", [4, 10, 11, 17])
def test_losing_leadership_answers_every_parked_fetch_whatever_it_says_of_epochs(
    world: World, version: int
) -> None:
    fetched = world.consume(1, 0, max_wait_ms=60_000, version=version)
    assert not fetched.is_answered
    world.lead(2, tell=(1,))
    assert fetched.is_answered
    row = fetched.message.responses[0].partitions[0]
    # From version 11 on a consumer may read on from what is a follower now.
    assert row.error_code == (ErrorCode.NOT_LEADER_OR_FOLLOWER if version < 11 else ErrorCode.NONE)


def test_stopping_a_replica_answers_every_parked_fetch(world: World) -> None:
    fetched = world.consume(1, 0, max_wait_ms=60_000)
    assert world.stop_replica(1, T0, leader_epoch=0) == ErrorCode.NONE
    world.settle()
    assert fetched.is_answered


def test_deletion_answers_whoever_waits_that_there_is_no_such_partition(world: World) -> None:
    world.cut |= {(2, 1), (3, 1)}
    produced = world.produce(1, b"a")
    fetched = world.consume(1, 0, max_wait_ms=60_000)
    del world.leadership[T0]
    assert world.stop_replica(1, T0, leader_epoch=-2, delete=True) == ErrorCode.NONE
    world.settle()
    assert world.produced(produced)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    error = fetched.message.responses[0].partitions[0].error_code
    assert error in (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    )
    assert T0 not in world[1].logs.logs


def test_a_zombie_leader_cannot_get_a_follower_back_nor_commit_anything(world: World) -> None:
    """1 does not hear that 2 was elected. What it appends is never acknowledged, and goes when it hears."""
    world.lead(2, tell=(2, 3))
    zombie = world.produce(1, b"zombie")
    asked = world.produce(2, b"real")
    world.settle()
    world.advance(2_000)
    assert not zombie.is_answered
    assert world[1].partition().is_leader
    assert world[1].partition().high_watermark == 0
    assert not asked.is_answered, "1 is in the ISR of epoch 1 and has not followed yet"
    world.tell_leader(1, T0)
    world.settle()
    assert world.produced(zombie)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert world.produced(asked) == (ErrorCode.NONE, 0)
    assert world[1].values() == world[2].values() == world[3].values() == [b"real"]


def test_a_fast_double_failover_leaves_no_fork(world: World) -> None:
    """KIP-279: 1 leads epoch 0, 2 leads epoch 1 and dies before anybody follows, 3 leads epoch 2. Each wrote alone."""
    world.produce(1, b"a")
    world.settle()
    world.cut |= {(2, 1), (3, 1)}
    world.produce(1, b"one", acks=1)
    world.kill(1)
    world.cut |= {(3, 2)}
    world.lead(2, isr=(2, 3))
    world.produce(2, b"two-a", acks=1)
    world.produce(2, b"two-b", acks=1)
    world.kill(2)
    world.lead(3, isr=(3,))
    asked = world.produce(3, b"three")
    assert world.produced(asked) == (ErrorCode.NONE, 1)
    world.cut.clear()
    world.restart(1)
    world.restart(2)
    world.notify_metadata()
    world.lead(3, isr=(3,))
    world.watch(lambda: set(world[3].partition().isr) == {1, 2, 3})
    assert world[1].raw() == world[2].raw() == world[3].raw()
    assert world[3].values() == [b"a", b"three"]


def test_records_acknowledged_just_before_two_failovers_survive_them(world: World) -> None:
    """KIP-101: the follower knows the record but not yet that it is committed; cutting by its mark would lose it."""
    asked = world.produce(1, b"a")
    world.settle()
    assert world.produced(asked) == (ErrorCode.NONE, 0)
    for number in (1, 2, 3):
        world.kill(number)
    world.restart(2)
    world[2].logs.checkpoint_high_watermarks({T0: 0})
    world.kill(2)
    world.restart(2)
    world.restart(3)
    world.notify_metadata()
    world.lead(3, isr=(2, 3))
    assert world[2].values() == [b"a"]
    world.kill(3)
    world.lead(2, isr=(2,))
    assert world[2].values() == [b"a"]
    world.watch(lambda: world[2].partition().high_watermark == 1)


def test_a_follower_far_behind_catches_up_batch_by_batch(tmp_path: Path) -> None:
    world = World(tmp_path, replica_fetch_max_bytes="2000", replica_fetch_response_max_bytes="2000")
    world.cut |= {(3, 1)}
    world.lead(1, isr=(1, 2), is_new=True)
    for n in range(200):
        world.produce(1, b"%d" % n)
        world.settle()
    world.cut.clear()
    world.watch(lambda: set(world[1].partition().isr) == {1, 2, 3})
    assert world[3].values() == [b"%d" % n for n in range(200)]


def test_a_follower_whose_end_is_below_the_leaders_start_begins_anew_there(world: World) -> None:
    world.cut.add((3, 1))
    for n in range(10):
        world.produce(1, b"%d" % n, acks=1)
    world.lead(1, isr=(1, 2))
    assert world[1].partition().high_watermark == 10
    world[1].partition().delete_records(7)
    world.cut.clear()
    world.settle()
    assert world[3].partition().log.log_start_offset == 7
    assert world[3].values() == [b"7", b"8", b"9"]
    assert world[3].partition().high_watermark == 10


def test_a_follower_longer_than_a_leader_from_outside_the_isr_is_cut_to_the_leaders_end(world: World) -> None:
    for n in range(5):
        world.produce(1, b"%d" % n)
        world.settle()
    world.advance(5_000)
    world.kill(1)
    world.kill(2)
    world.kill(3)
    # 2 lost its disk and is elected all the same: an unclean election.
    world[2].path.rename(world[2].path.with_name("gone"))
    world.restart(2)
    world.restart(3)
    world.notify_metadata()
    world.lead(2, isr=(2,))
    asked = world.produce(2, b"new")
    world.settle()
    assert world.produced(asked) == (ErrorCode.NONE, 0)
    world.watch(lambda: world[2].partition().isr == (2, 3))
    assert world[3].values() == [b"new"]
    assert any(
        "below the high watermark" in effect.text for effect in world[3].told if hasattr(effect, "text")
    )


# ------------------------------------------------------------------------------------------ new leaders and fetches


def test_a_partition_that_moves_to_an_idle_leader_is_fetched_at_once_and_not_after_the_long_poll(
    tmp_path: Path,
) -> None:
    """3 has a fetch parked at 2 for another partition; the new one must not wait behind it."""
    world = World(tmp_path)
    world.lead(2, topic="idle", topic_id=bytes([9] * 16), is_new=True)
    world.lead(1, is_new=True)
    world.lead(2)
    before = world.now_ms
    asked = world.produce(2, b"a")
    world.settle()
    assert world.produced(asked) == (ErrorCode.NONE, 0)
    assert world.now_ms == before, "no time passed"


def test_a_quiet_partition_does_not_shrink_its_isr_when_it_is_written_after_a_long_silence(
    world: World,
) -> None:
    world.produce(1, b"a")
    world.settle()
    world.advance(120_000)
    world.cut.add((3, 1))
    world.produce(1, b"b", acks=1)
    world.advance(20_000)
    assert world[1].partition().isr == (1, 2, 3), "3 was caught up until 20 s ago"
    world.advance(30_000)
    assert world[1].partition().isr == (1, 2)


def test_consumers_read_committed_records_from_followers(world: World) -> None:
    world.produce(1, b"a")
    world.advance(10)
    row = world.consume(3, 0).message.responses[0].partitions[0]
    assert row.error_code == 0
    assert row.high_watermark == 1
    assert bytes(row.records) == world[1].raw()


def test_a_consumer_parked_at_a_follower_is_woken_when_the_mark_comes(world: World) -> None:
    fetched = world.consume(3, 0, max_wait_ms=60_000)
    assert not fetched.is_answered
    world.produce(1, b"a")
    world.advance(10)
    assert bytes(fetched.message.responses[0].partitions[0].records) == world[3].raw()


def test_who_is_stopped_and_follows_again_hears_of_the_mark_that_was_under_way(tmp_path: Path) -> None:
    """Nothing is written any more, so it would not hear of it with the next record."""
    world = World(tmp_path, brokers=(1, 2))
    for index in (0, 1):  # the other one keeps the connection, and its session
        world.lead(1, isr=(1, 2), replicas=(1, 2), index=index, is_new=True)
    world.produce(1, b"a", acks=1)
    while world[1].partition().high_watermark == 0:
        world._do_effects(world[1])
        world._carry(world[2])
    flights = world[2].in_flight[1]
    while not flights or not flights[0][1].is_answered:
        world.now_ms += 1
        world[1].broker.tick(world.now_ms)
        world._do_effects(world[1])
    assert world[2].partition().high_watermark == 0, "the word of it is under way"
    assert world.stop_replica(2, T0, leader_epoch=0) == ErrorCode.NONE
    assert world.tell_leader(2, T0) == ErrorCode.NONE
    world.advance(2_000)
    assert world[2].partition().high_watermark == 1
