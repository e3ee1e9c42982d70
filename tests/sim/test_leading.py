"""What leaders know of their followers and of their epoch, what coordinators remember, and what processes leave behind: wrong ones
made by hand, each named; and mutations that a small world shows by them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from odradek.log.checkpoints import CLEAN_SHUTDOWN
from odradek.log.memory_files import MemoryDisk
from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from odradek.protocol.headers import response_header
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from odradek.sim.checkers.acknowledgements import marker_is_committed
from odradek.sim.checkers.coordinators import Coordinating, CoordinatorTerms
from odradek.sim.checkers.endings import Checkpoint, checkpoints_hold, nothing_is_left, stop_is_durable
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.leading import FollowerSeen, Joining, LeaderSeen, Leading, joiners_have_all
from odradek.sim.checkers.replicas import PartitionView
from odradek.sim.observed.endings import Endings, _checkpoints, _volatile
from odradek.sim.observed.markers import MarkerAnswers
from odradek.sim.plan import Fault, Plan
from odradek.sim.run import OK, describe, run
from odradek.sim.scenario import play
from tests.log.logs import NOW, batch
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.test_beliefs import T, healthy_world
from tests.sim.test_further_faults import plan_with
from tests.support import each

ONE, TWO, THREE = map(BrokerId, (1, 2, 3))
FOLLOWER = FollowerSeen(TWO, 7, 10, 1_000, False, True)
LEADER = LeaderSeen(T, ONE, "a life", 3, 3, 10, 1_100, 500, [FOLLOWER])
Looks = Sequence[LeaderSeen]


def led(follower: FollowerSeen, **changes: Any) -> LeaderSeen:
    return LEADER._replace(followers=[follower], **changes)


def looks(seen: Looks) -> list[Anomaly]:
    leading = Leading()
    return [anomaly for leader in seen for anomaly in leading.observe([leader])]


MEMBER = FOLLOWER._replace(is_counted=True, is_member=True)
LAGGARD = MEMBER._replace(log_end_offset=9, caught_up_ms=500)
JOINER = FOLLOWER._replace(could_join=True)


def at_times(seen: Sequence[tuple[float, LeaderSeen]]) -> list[Anomaly]:
    """Each look at its virtual second."""
    leading = Leading()
    return [
        anomaly
        for now_s, leader in seen
        for anomaly in leading.observe([leader._replace(log_end_offset=10)], now_s)
    ]


def deciding(follower: FollowerSeen, **changes: Any) -> LeaderSeen:
    return led(follower, is_deciding=True, now_ms=2_000, **changes)


def joining(*ends: tuple[int, int, int]) -> list[Anomaly]:
    """Each: where it ends, the high watermark, and where the epoch begins."""
    return list(joiners_have_all(Joining(T, ONE, TWO, *one) for one in ends))


PASSED = LEADER._replace(high_watermark=11, now_ms=1_400)

BAD: dict[str, tuple[str, Callable[[Any], list[Anomaly]], Any]] = {
    "an epoch is not written down": ("EpochIsWritten", looks, [LEADER._replace(written_epoch=2)]),
    "none is": ("EpochIsWritten", looks, [LEADER._replace(written_epoch=-1)]),
    "a later one is": ("EpochIsWritten", looks, [LEADER._replace(written_epoch=4)]),
    "a session stands for a follower and does not fetch for it": (
        "FetchStandsFor",
        looks,
        [led(FOLLOWER._replace(is_fetching=False))],
    ),
    "a moment later it does not any more": (
        "FetchStandsFor",
        looks,
        [LEADER, led(FOLLOWER._replace(is_fetching=False))],
    ),
    "the second of two followers": (
        "FetchStandsFor",
        looks,
        [LEADER._replace(followers=[FOLLOWER, FOLLOWER._replace(broker=THREE, is_fetching=False)])],
    ),
    "a follower was caught up earlier than it was": (
        "CaughtUpIsKept",
        looks,
        [LEADER, led(FOLLOWER._replace(caught_up_ms=999))],
    ),
    "it never was": ("CaughtUpIsKept", looks, [LEADER, led(FOLLOWER._replace(caught_up_ms=-1))]),
    "it had more by then": (
        "CaughtUpIsKept",
        looks,
        [LEADER, led(FOLLOWER._replace(caught_up_ms=900, log_end_offset=12))],
    ),
    "it was caught up when it lacked records": (
        "CaughtUpIsTrue",
        looks,
        [LEADER._replace(log_end_offset=11), led(FOLLOWER._replace(caught_up_ms=1_101), now_ms=1_200)],
    ),
    "the mark passes a live follower that was caught up": ("MarkWaits", looks, [LEADER, PASSED]),
    "that has moved, and not enough": (
        "MarkWaits",
        looks,
        [LEADER, led(FOLLOWER._replace(log_end_offset=11), high_watermark=12)],
    ),
    "at the end of its time": ("MarkWaits", looks, [LEADER, PASSED._replace(now_ms=1_500)]),
    "a member is put out that was caught up a moment ago": (
        "LeaverLags",
        looks,
        [led(MEMBER), led(MEMBER._replace(is_member=False), now_ms=1_200)],
    ),
    "at the end of its time to lag": (
        "LeaverLags",
        looks,
        [led(MEMBER), led(MEMBER._replace(is_member=False, is_counted=False), now_ms=1_500)],
    ),
    "the second of two members": (
        "LeaverLags",
        looks,
        [
            LEADER._replace(followers=[LAGGARD, MEMBER._replace(broker=THREE)]),
            LEADER._replace(followers=[LAGGARD, MEMBER._replace(broker=THREE, is_member=False)]),
        ],
    ),
    "a laggard stays": (
        "LaggardLeaves",
        at_times,
        [(0.0, deciding(LAGGARD)), (2.3, deciding(LAGGARD))],
    ),
    "one that has nothing stays": (
        "LaggardLeaves",
        at_times,
        [(n / 4, deciding(LAGGARD._replace(log_end_offset=-1))) for n in range(11)],
    ),
    "one that moves, and not enough": (
        "LaggardLeaves",
        at_times,
        [
            (0.0, deciding(LAGGARD)),
            (1.0, deciding(LAGGARD._replace(caught_up_ms=600))),
            (2.3, deciding(LAGGARD._replace(caught_up_ms=600))),
        ],
    ),
    "who could join is left out": (
        "JoinerIsAsked",
        at_times,
        [(0.0, deciding(JOINER)), (3.1, deciding(JOINER))],
    ),
    "for longer": (
        "JoinerIsAsked",
        at_times,
        [(0.0, deciding(JOINER)), (2.0, deciding(JOINER)), (3.1, deciding(JOINER))],
    ),
    "the second of two is": (
        "JoinerIsAsked",
        at_times,
        [
            (0.0, deciding(JOINER)._replace(followers=[FOLLOWER, JOINER._replace(broker=THREE)])),
            (3.1, deciding(JOINER)._replace(followers=[FOLLOWER, JOINER._replace(broker=THREE)])),
        ],
    ),
    "a joiner ends below the high watermark": ("JoinerHasAll", lambda ends: joining(*ends), [(9, 10, 0)]),
    "below the start of the epoch": ("JoinerHasAll", lambda ends: joining(*ends), [(9, 5, 10)]),
    "the second of two joiners does": (
        "JoinerHasAll",
        lambda ends: joining(*ends),
        [(10, 9, 10), (9, 9, 10)],
    ),
}
GOOD: dict[str, tuple[Callable[[Any], list[Anomaly]], Any]] = {
    "nothing changes": (looks, [LEADER, LEADER]),
    "another life of the follower may know less": (
        looks,
        [LEADER, led(FOLLOWER._replace(life=8, caught_up_ms=-1, log_end_offset=0))],
    ),
    "in another epoch everything begins anew": (
        looks,
        [LEADER, led(FOLLOWER._replace(caught_up_ms=-1), era="another", high_watermark=20)],
    ),
    "who was caught up before they came lacks records": (
        looks,
        [LEADER._replace(log_end_offset=11), led(FOLLOWER._replace(caught_up_ms=1_100), now_ms=1_200)],
    ),
    "who is caught up now has them": (
        looks,
        [
            LEADER._replace(log_end_offset=11),
            led(FOLLOWER._replace(caught_up_ms=1_101, log_end_offset=11), now_ms=1_200),
        ],
    ),
    "a follower that lost records": (
        looks,
        [LEADER, led(FOLLOWER._replace(caught_up_ms=5, log_end_offset=9))],
    ),
    "the mark passes who was caught up too long ago": (looks, [LEADER, PASSED._replace(now_ms=1_501)]),
    "who is dead": (looks, [LEADER, led(FOLLOWER._replace(is_live=False), high_watermark=11)]),
    "who was dead": (looks, [led(FOLLOWER._replace(is_live=False)), PASSED]),
    "who had it when it rose": (
        looks,
        [LEADER, led(FOLLOWER._replace(log_end_offset=11), high_watermark=11)],
    ),
    "of the ISR other checkers judge": (looks, [led(FOLLOWER._replace(is_counted=True)), PASSED]),
    "who lagged is put out": (
        looks,
        [led(MEMBER), led(MEMBER._replace(is_member=False), now_ms=1_501)],
    ),
    "in another life": (
        looks,
        [led(MEMBER), led(MEMBER._replace(is_member=False, life=8), now_ms=1_200)],
    ),
    "a laggard that leaves in time": (
        at_times,
        [
            (0.0, deciding(LAGGARD)),
            (2.2, deciding(LAGGARD)),
            (2.5, deciding(LAGGARD._replace(is_member=False))),
        ],
    ),
    "a laggard that caught up meanwhile": (
        at_times,
        [(0.0, deciding(LAGGARD)), (1.0, deciding(MEMBER)), (2.5, deciding(LAGGARD))],
    ),
    "who could join and did": (
        at_times,
        [(0.0, deciding(JOINER)), (2.9, deciding(JOINER)), (3.2, deciding(MEMBER))],
    ),
    "a proposal is under way now and then": (
        at_times,
        [(0.0, deciding(JOINER)), (1.5, led(JOINER)), (3.2, deciding(JOINER))],
    ),
    "a joiner has all": (lambda ends: joining(*ends), [(10, 10, 10), (11, 10, 3), (11, 3, 10)]),
}


@each(BAD)
def test_what_a_leader_must_not_know_is_named(why: str) -> None:
    name, check, seen = BAD[why]
    assert [anomaly.name for anomaly in check(seen)] == [name]


@each(GOOD)
def test_what_it_may_know_passes(why: str) -> None:
    check, seen = GOOD[why]
    assert check(seen) == []


def stored(*leaders: tuple[int, BrokerId], incarnation: int = 0) -> list[dict[TopicPartition, PartitionView]]:
    """One after the other: in which epoch who was stored as leader."""
    return [
        {
            T: PartitionView(
                (),
                LeaderAndIsr(broker, LeaderEpoch(epoch), (broker,), PartitionEpoch(0)),
                incarnation=incarnation,
            )
        }
        for epoch, broker in leaders
    ]


def goes_on(
    epochs: tuple[int, int], *leaders: tuple[int, BrokerId], is_loaded_again: bool = False
) -> list[str]:
    """Broker 1 coordinates in these epochs."""
    terms, memory = CoordinatorTerms(), object()
    assert list(terms.observe([Coordinating(T, ONE, memory, epochs[0])])) == []
    for view in stored(*leaders):
        terms.note(view)
    memory = object() if is_loaded_again else memory
    return [anomaly.name for anomaly in terms.observe([Coordinating(T, ONE, memory, epochs[1])])]


def test_a_coordinator_that_goes_on_though_another_has_led_is_named() -> None:
    assert goes_on((2, 4), (3, TWO), (4, ONE)) == ["CoordinatorIsFresh"]
    assert goes_on((2, 5), (3, ONE), (4, TWO), (5, ONE)) == ["CoordinatorIsFresh"]
    assert goes_on((2, 5), (3, TWO), (4, THREE)) == ["CoordinatorIsFresh", "CoordinatorIsFresh"]
    assert goes_on((2, 4), (3, ONE), (4, ONE)) == goes_on((2, 3), (3, TWO)) == []
    assert goes_on((2, 4), (3, TWO), is_loaded_again=True) == goes_on((2, 2), (2, TWO)) == []


def test_a_checkpoint_that_says_more_than_is_so_is_named() -> None:
    def found(*offsets: tuple[int, int]) -> list[str]:
        said = [
            Checkpoint(T, ONE, "recovery-point-offset-checkpoint", offset, most) for offset, most in offsets
        ]
        return [anomaly.name for anomaly in checkpoints_hold(said)]

    assert found((1, 0)) == found((0, 0), (9, 8)) == ["CheckpointHolds"]
    assert found((2, 1), (9, 8)) == ["CheckpointHolds"] * 2
    assert found((0, 0), (8, 9)) == []


def test_a_checkpoint_of_what_is_not_committed_is_found_in_a_scenario() -> None:
    """The log ends behind it: as a leader its next life would tell consumers of a record that no follower has."""
    told = """cluster replica.lag.time.max.ms=600000
topic t replicas=2,3 min=1
withhold fetch 3
produce t-0 a acks=1
run 6
kill 2
"""
    at = "broker.replica_manager:ReplicaManager.checkpoint_high_watermarks"
    with applied([Edit(at, "partition.high_watermark", "partition.log.log_end_offset")]):
        broken = play(told)

    assert "\n! CheckpointHolds: t-0: broker 2 ends, and its replication-offset-checkpoint says 1" in broken
    assert "!" not in play(told)


def test_a_checkpoint_on_the_disk_of_a_process_that_ends_is_read() -> None:
    with healthy_world() as (world, leader):
        Endings(world)
        broker = world.brokers[leader.replicas.broker]
        logs = leader.replicas.logs
        directory = next(one for one in logs.directories if one.path == logs.directory_of(T))
        directory.recovery_points.set(T, leader.replicas.partitions[T].log.recovery_point)
        world.brokers[BrokerId(1 + leader.replicas.broker % 3)].kill()
        assert world.let_in == []
        directory.recovery_points.set(T, 99)
        broker.kill()
        assert [(anomaly.name, anomaly.topic_partition) for anomaly in world.let_in] == [
            ("CheckpointHolds", T)
        ]


def test_a_log_that_is_to_be_cut_and_is_not_yet_is_flushed_as_far_as_its_checkpoint_says() -> None:
    with healthy_world() as (world, leader):
        broker = world.brokers[leader.replicas.broker]
        logs = leader.replicas.logs
        directory = next(one for one in logs.directories if one.path == logs.directory_of(T))
        log = logs.logs[T]

        def append() -> None:
            log.append_as_leader(memoryview(batch()), leader_epoch=log.epochs.latest, now_ms=NOW)

        append()
        log.flush()
        directory.recovery_points.set(T, log.log_end_offset)
        log.flushed.cut(log.log_end_offset - 1)
        assert list(checkpoints_hold(_checkpoints(broker))) == []
        append()
        assert [anomaly.name for anomaly in checkpoints_hold(_checkpoints(broker))] == ["CheckpointHolds"]


def test_each_file_that_says_something_of_a_log_is_read() -> None:
    with healthy_world() as (world, leader):
        broker = world.brokers[leader.replicas.broker]
        logs = leader.replicas.logs
        directory = next(one for one in logs.directories if one.path == logs.directory_of(T))
        for file in (
            directory.recovery_points,
            directory.high_watermarks,
            directory.log_starts,
            directory.cleaned_to,
        ):
            file.set(T, 0)
            assert list(checkpoints_hold(_checkpoints(broker))) == []
            file.set(T, 99)
            assert [anomaly.name for anomaly in checkpoints_hold(_checkpoints(broker))] == ["CheckpointHolds"]
            file.set(T, 0)


def test_of_what_is_made_again_the_snapshot_at_the_end_has_to_last() -> None:
    disk = MemoryDisk()
    own = disk.root.make("t-0")
    for name in ("0" * 20 + ".index", "0" * 19 + "3.snapshot", "0" * 19 + "5.snapshot"):
        own.open(name, create=True).append(b"x")
    own.sync()
    disk.root.sync()
    disk.root.open(CLEAN_SHUTDOWN, create=True)
    logs = SimpleNamespace(
        directories=[SimpleNamespace(is_online=True, root=disk.root, path="/a")],
        logs={T: SimpleNamespace(log_end_offset=5, directory=own)},
        directory_of=lambda partition: "/a",
    )
    broker: Any = SimpleNamespace(runtime=SimpleNamespace(logs=logs))
    assert list(_volatile(broker)) == [(T, ["t-0/" + "0" * 19 + "5.snapshot"])]


def test_a_broker_that_stops_at_once_though_it_was_told_what_it_leads_is_named() -> None:
    for left in ((T,), (T, TopicPartition("t", 1)), (TopicPartition("u", 0),)):
        assert [a.name for a in nothing_is_left(ONE, left, has_asked_once=True)] == ["LeaverAsksAgain"]
        assert list(nothing_is_left(ONE, left, has_asked_once=False)) == []
    assert list(nothing_is_left(ONE, (), has_asked_once=True)) == []


def test_a_stop_in_order_that_leaves_something_to_a_power_cut_is_named() -> None:
    found = list(stop_is_durable(ONE, [(T, ["t-0/1.log", "t-0"]), (TopicPartition("u", 0), [])]))
    assert [(anomaly.name, anomaly.topic_partition) for anomaly in found] == [("StopIsDurable", T)]
    assert "t-0/1.log, t-0" in found[0].detail
    assert len(list(stop_is_durable(ONE, [(T, ["t-0"])]))) == 1


def test_what_a_power_cut_may_change_is_told_of_a_directory_and_below() -> None:
    disk = MemoryDisk()
    directory = disk.root.make("t-0")
    file = directory.open("a.log", create=True)
    file.append(b"x")
    assert disk.volatile("t-0") == ["t-0", "t-0/a.log"]
    directory.sync()
    assert disk.volatile("t-0") == ["t-0/a.log"]
    file.sync()
    assert disk.volatile("t-0") == []
    file.truncate(0)
    assert disk.volatile("t-0") == ["t-0/a.log"], "its length is not synced"
    directory.remove("a.log")
    assert disk.volatile("t-0") == ["t-0/a.log"], "it may come back"


def test_a_marker_that_counts_before_it_is_committed_is_named() -> None:
    for offset, mark in ((5, 5), (6, 5), (0, 0)):
        assert [a.name for a in marker_is_committed(ONE, T, 1000, offset, mark)] == ["I15"]
    for offset, mark in ((4, 5), (-1, 0)):
        assert list(marker_is_committed(ONE, T, 1000, offset, mark)) == []


def test_of_two_markers_of_a_producer_the_latest_is_judged() -> None:
    row = WritableTxnMarkerPartitionResult(partition_index=T.partition)
    markers = [
        WritableTxnMarkerResult(
            producer_id=7, topics=[WritableTxnMarkerTopicResult(name=T.topic, partitions=[row])]
        )
    ]
    told = WriteTxnMarkersResponse(markers=markers).encode(1)
    frame = memoryview(response_header(27, 1, 5) + bytes(told))
    ended = [
        SimpleNamespace(producer_id=producer, last_offset=at) for producer, at in ((7, 3), (7, 9), (8, 20))
    ]
    replica = SimpleNamespace(
        is_leader=True, high_watermark=9, log=SimpleNamespace(producers=SimpleNamespace(_ended=ended))
    )
    broker = SimpleNamespace(broker_id=ONE, replica=lambda partition: replica)
    world: Any = SimpleNamespace(network=SimpleNamespace(taps=[]), let_in=[])
    heard: Any = MarkerAnswers(world)
    heard.answers = lambda transport, data: [(broker, 1, frame)]
    heard.answered(None, b"")
    assert [anomaly.name for anomaly in world.let_in] == ["I15"]
    replica.high_watermark = 10
    heard.answered(None, b"")
    assert len(world.let_in) == 1


SHOWN: dict[str, tuple[str, str, str]] = {
    "EpochIsWritten": (
        "replication.partition:Partition.make_leader",
        "self.log.assign_epoch(leadership.leader_epoch, self.log.log_end_offset)",
        "pass",
    ),
    "CaughtUpIsKept": (
        "replication.partition:Partition.append",
        "source is not None and source.last_fetch_time_ms > follower.last_caught_up_time_ms",
        "False",
    ),
    "EpochIsTold": (
        "controller.election:controlled_shutdown_leader",
        "Election(broker, stay, False, reachable, STAYING)",
        "Election(broker, stay, False, stay, STAYING)",
    ),
    "LeaverAsksAgain": ("server.controlled_shutdown:hand_over", "problem is None", "True"),
    "StopIsDurable": ("log.partition_log:PartitionLog.close", "self.flush()", "pass"),
}


def world() -> Plan:
    """Brokers that stop in order, one of them when the others are dead; and a leader that is cut off."""
    faults = [
        Fault(1.0, "stop_in_order", 0.1, 0.0, 0.5),
        Fault(2.5, "cut_leader_from_followers", 0.3, 0.0, 3.5),
        Fault(8.0, "kill_leader", 0.1, 0.5, 2.0),
        Fault(8.1, "kill_leader", 0.1, 0.5, 2.0),
        Fault(8.3, "stop_in_order", 0.1, 0.5, 0.5),
    ]
    plan = plan_with(*faults)
    impatient = {"replica.lag.time.max.ms": "1000", "replica.fetch.wait.max.ms": "500"}
    return replace(plan, brokers=3, has_group=False, settings={**plan.settings, **impatient})


def test_a_world_without_mutation_passes() -> None:
    outcome = run(world())
    assert outcome.code == OK, describe(outcome)


@each(SHOWN)
def test_a_mutation_is_shown_by_it(name: str) -> None:
    with applied([Edit(*SHOWN[name])]):
        assert {anomaly.name for anomaly in run(world()).anomalies} == {name}
