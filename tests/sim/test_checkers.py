"""Every checker is fed histories that are wrong on purpose, and must name exactly what is wrong with each."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from odradek.sim.checkers import replicas as r
from odradek.sim.checkers.deliveries import check
from odradek.sim.checkers.history import Anomaly, History, Polled, Sent
from tests.support import each

T = TopicPartition("t", 0)


def sent(
    producer: str, values: str, offsets: tuple[int, ...] = (), outcome: str = "ok", **more: object
) -> Sent:
    return Sent(producer, T, tuple(v.encode() for v in values.split()), outcome, offsets, **more)  # type: ignore[arg-type]


def polled(consumer: str, *records: tuple[int, str]) -> Polled:
    return Polled(consumer, T, tuple((offset, value.encode()) for offset, value in records))


A, B = sent("p", "a", (0,)), sent("p", "b", (1,))

BAD_DELIVERIES: list[tuple[str, list[str], list[Sent | Polled]]] = [
    ("an acknowledged record is passed over", ["lost-write"], [A, B, polled("c", (1, "b"))]),
    ("the first of a batch is gone", ["lost-write"], [sent("p", "a b", (0, 1)), polled("c", (1, "b"))]),
    ("lost under another producer's record", ["lost-write"], [A, sent("q", "x", (5,)), polled("c", (5, "x"))]),
    ("two lost", ["lost-write", "lost-write"], [A, B, sent("p", "c", (2,)), polled("c", (2, "c"))]),
    (
        "truncated and written over",
        ["inconsistent-offsets", "lost-write"],
        [A, sent("q", "z", (0,), "unknown"), polled("c", (0, "z"))],
    ),
    ("acknowledged, never read", ["unseen"], [A, B, polled("c", (0, "a"))]),
    ("nothing was read at all", ["unseen"], [A]),
    ("a whole batch never read", ["unseen", "unseen"], [sent("p", "a b", (0, 1)), polled("c")]),
    ("a repeat is acknowledged without an offset, and never read", ["unseen"], [A, sent("p", "b"), polled("c", (0, "a"))]),
    (
        "a repeat is acknowledged without an offset, was read once, and is gone in the end",
        ["unseen"],
        [A, sent("p", "b"), polled("c", (0, "a"), (1, "b")), polled("final-0", (0, "a"))],
    ),
    ("the first record was read once, and is gone in the end", ["lost-write"], [A, B, polled("c", (0, "a"), (1, "b")), polled("final-0", (1, "b"))]),
    ("the last one was", ["unseen"], [A, B, polled("c", (0, "a"), (1, "b")), polled("final-0", (0, "a"))]),
    ("all were", ["unseen", "unseen"], [A, B, polled("c", (0, "a"), (1, "b")), polled("final-0")]),
    (
        "one that nobody acknowledged was read, and is gone in the end",
        ["lost-read"],
        [sent("p", "a", (), "unknown"), B, polled("c", (0, "a"), (1, "b")), polled("final-0", (1, "b"))],
    ),
    (
        "one with acks 1 was read, and is gone in the end",
        ["lost-read"],
        [sent("p", "a", (0,), acks=1), polled("c", (0, "a")), polled("final-0")],
    ),
    (
        "what two were given is named once",
        ["lost-read"],
        [polled("c", (0, "a"), (1, "b")), polled("d", (0, "a"), (1, "b")), polled("final-0", (1, "b"))],
    ),
    (
        "two consumers read different values",
        ["inconsistent-offsets"],
        [sent("p", "a", (), "unknown"), sent("p", "b", (), "unknown"), polled("c", (0, "a")), polled("d", (0, "b"))],
    ),
    (
        "the answer names another offset's value",
        ["inconsistent-offsets"],
        [A, sent("q", "b", (0,)), polled("c", (0, "a")), polled("d", (0, "b"))],
    ),
    ("a reread differs", ["inconsistent-offsets"], [polled("c", (3, "a")), polled("d", (3, "b"))]),
    ("a failed send is read", ["G1a"], [sent("p", "a", (), "failed"), polled("c", (0, "a"))]),
    ("one of two failed", ["G1a"], [A, sent("p", "b", (), "failed"), polled("c", (0, "a"), (1, "b"))]),
    ("failed with acks 1", ["G1a"], [sent("p", "a", (), "failed", acks=1), polled("c", (7, "a"))]),
    ("one value twice", ["duplicate"], [A, polled("c", (0, "a"), (1, "a"))]),
    ("twice, far apart", ["duplicate"], [A, B, polled("c", (0, "a"), (1, "b"), (2, "a"))]),
    (
        "an unknown send landed twice",
        ["duplicate"],
        [sent("p", "a", (), "unknown"), polled("c", (4, "a"), (5, "a"))],
    ),
    (
        "sent again after a kill, and there three times",
        ["duplicate"],
        [sent("p", "a", (), "unknown"), sent("p.1", "a", (5,)), polled("c", (4, "a"), (5, "a"), (6, "a"))],
    ),
    (
        "the second send has the lower offset",
        ["nonmonotonic-send"],
        [sent("p", "a", (1,)), sent("p", "b", (0,)), polled("c", (0, "b"), (1, "a"))],
    ),
    (
        "the third send falls back",
        ["nonmonotonic-send"],
        [A, sent("p", "b", (2,)), sent("p", "c", (1,)), polled("c", (0, "a"), (1, "c"), (2, "b"))],
    ),
    ("one offset for two sends of one value", ["nonmonotonic-send"], [A, A, polled("c", (0, "a"))]),
    (
        "a batch falls between",
        ["nonmonotonic-send"],
        [sent("p", "a b", (0, 3)), sent("p", "c", (2,)), polled("c", (0, "a"), (2, "c"), (3, "b"))],
    ),
    (
        "offsets fall inside one send",
        ["int-nonmonotonic-send"],
        [sent("p", "a b", (1, 0)), polled("c", (0, "b"), (1, "a"))],
    ),
    (
        "offsets stand still inside one send",
        ["inconsistent-offsets", "int-nonmonotonic-send", "lost-write"],
        [sent("p", "a b", (0, 0)), polled("c", (0, "a"))],
    ),
    (
        "three in one send, the last falls",
        ["int-nonmonotonic-send"],
        [sent("p", "a b c", (0, 2, 1)), polled("c", (0, "a"), (1, "c"), (2, "b"))],
    ),
    (
        "the next poll starts too late",
        ["poll-skip"],
        [A, B, sent("p", "c", (2,)), polled("d", (0, "a"), (1, "b"), (2, "c")), polled("c", (0, "a")), polled("c", (2, "c"))],
    ),
    ("skipped what only an answer told of", ["lost-write", "poll-skip"], [A, B, sent("p", "c", (2,)), polled("c", (0, "a")), polled("c", (2, "c"))]),
    (
        "skips twice",
        ["poll-skip", "poll-skip"],
        [polled("d", *((n, f"v{n}") for n in range(5))), polled("c", (0, "v0")), polled("c", (2, "v2")), polled("c", (4, "v4"))],
    ),
    ("the next poll goes back", ["nonmonotonic-poll"], [A, B, polled("c", (0, "a"), (1, "b")), polled("c", (0, "a"))]),
    ("the next poll stands still", ["nonmonotonic-poll"], [A, polled("c", (0, "a")), polled("c", (0, "a"))]),
    (
        "back over a gap",
        ["nonmonotonic-poll"],
        [polled("c", (4, "a"), (9, "b")), polled("c", (3, "x"))],
    ),
    (
        "a gap inside one poll",
        ["int-poll-skip"],
        [A, B, sent("p", "c", (2,)), polled("d", (0, "a"), (1, "b"), (2, "c")), polled("c", (0, "a"), (2, "c"))],
    ),
    (
        "two gaps inside one poll",
        ["int-poll-skip", "int-poll-skip"],
        [polled("d", *((n, f"v{n}") for n in range(5))), polled("c", (0, "v0"), (2, "v2"), (4, "v4"))],
    ),
    (
        "a gap at the end of a poll",
        ["int-poll-skip"],
        [polled("d", (0, "a"), (1, "b"), (2, "c"), (3, "d")), polled("c", (0, "a"), (1, "b"), (3, "d"))],
    ),
    ("a poll that goes back", ["int-nonmonotonic-poll"], [A, B, polled("c", (1, "b"), (0, "a"))]),
    (
        "a poll that goes back at its end",
        ["int-nonmonotonic-poll"],
        [polled("c", (0, "a"), (1, "b"), (2, "c"), (1, "b"))],
    ),
    ("a poll that says one offset twice", ["int-nonmonotonic-poll"], [A, polled("c", (0, "a"), (0, "a"))]),
]  # fmt: skip


@pytest.mark.parametrize(("why", "names", "events"), BAD_DELIVERIES, ids=[w for w, _, _ in BAD_DELIVERIES])
def test_a_bad_history_of_clients_is_named(why: str, names: list[str], events: list[Sent | Polled]) -> None:
    assert sorted(a.name for a in check(History(events))) == sorted(names)


GOOD_DELIVERIES: list[tuple[str, list[Sent | Polled]]] = [
    (
        "sent again after a kill, and there twice",
        [sent("p", "a", (), "unknown"), sent("p.1", "a", (5,)), polled("c", (4, "a"), (5, "a"))],
    ),
    ("all read in order", [A, B, polled("c", (0, "a")), polled("c", (1, "b"))]),
    ("an unknown send that was written", [sent("p", "a", (), "unknown"), polled("c", (0, "a"))]),
    ("an unknown send that was not", [sent("p", "a", (), "unknown"), B, polled("c", (1, "b"))]),
    ("a failed send sent again", [sent("p", "a", (), "failed"), A, polled("c", (0, "a"))]),
    ("another producer between two of mine", [A, sent("q", "x", (1,)), sent("p", "b", (2,)), polled("c", (0, "a"), (1, "x"), (2, "b"))]),
    ("acks=1 may be lost", [sent("p", "a", (0,), acks=1), sent("q", "x", (0,)), polled("c", (0, "x"))]),
    ("twice without idempotence", [sent("p", "a", (0,), is_idempotent=False), polled("c", (0, "a"), (1, "a"))]),
    ("a gap that nobody ever filled", [polled("c", (0, "a"), (5, "b"))]),
]  # fmt: skip


@pytest.mark.parametrize(("why", "events"), GOOD_DELIVERIES, ids=[w for w, _ in GOOD_DELIVERIES])
def test_a_good_history_of_clients_passes(why: str, events: list[Sent | Polled]) -> None:
    assert check(History(events)) == []


def test_what_was_read_once_may_be_gone_below_the_start_of_its_log_or_with_its_topic() -> None:
    events = [A, sent("p", "b", (), "unknown"), polled("c", (0, "a"), (1, "b")), polled("final-0")]

    assert len(check(History(events))) == 2
    assert check(History(events), log_starts={T: 2}) == []
    assert check(History(events), gone={T}) == []


def test_of_what_was_acknowledged_without_an_offset_nobody_knows_whether_it_was_deleted_unless_it_was_read() -> (
    None
):
    repeated, end = sent("p", "b"), polled("final-0", (6, "x"))
    assert check(History([repeated, end]), log_starts={T: 5}) == []
    for at, names in ((4, []), (5, ["lost-read"])):
        found = check(History([repeated, polled("c", (at, "b"), (6, "x")), end]), log_starts={T: 5})
        assert [anomaly.name for anomaly in found] == names


def test_what_may_have_been_lost_stands_once_in_the_end_all_the_same() -> None:
    before = Polled("c", T, ((3, b"a"),), leader_epochs=(0,))
    for offsets, names in (((0, 1), ["duplicate"]), ((0,), [])):
        end = Polled("final-0", T, tuple((offset, b"a") for offset in offsets), leader_epochs=offsets)
        found = check(History([sent("p", "a", (3,)), before, end]), lossy={T})
        assert [anomaly.name for anomaly in found] == names


def test_unread_records_are_no_anomaly_while_the_polls_go_on() -> None:
    assert check(History([A, B, polled("c", (0, "a"))], is_final=False)) == []


def test_what_was_sent_while_the_topic_was_made_again_may_stand_in_the_new_one() -> None:
    """A retry goes to whoever has the name by then: twice, where the next life of the producer sends it again."""
    again = TopicPartition("t~2", 0)
    events = [
        replace(e, topic_partition=again) for e in (sent("p.1", "a", (5,)), polled("c", (4, "a"), (5, "a")))
    ]
    adrift = [sent("p", "a", (), "unknown")]

    assert check(History(events, adrift=adrift)) == []
    assert [a.name for a in check(History(events))] == ["duplicate"]
    third = replace(polled("d", (6, "a")), topic_partition=again)
    assert [a.name for a in check(History([*events, third], adrift=adrift))] == ["duplicate"]


def test_a_consumer_that_was_given_what_is_not_committed_is_named() -> None:
    """Also where nothing came of it: the record stayed."""
    history = History([A, polled("c", (0, "a"))])
    assert check(history) == []
    history.uncommitted.append(("c", T, 1, 0))
    assert [anomaly.name for anomaly in check(history)] == ["uncommitted-read"]


# Where what was read ends, and the high watermark that was told with it.
UNCOMMITTED = {
    "the last record of several": (3, 2),
    "nothing is committed yet": (1, 0),
    "a whole batch lies above": (9, 5),
}


@each(UNCOMMITTED)
def test_a_read_above_the_high_watermark_is_named_whatever_came_of_the_records(why: str) -> None:
    """Also in a partition that lost records with consent: what is not committed was nobody's to read there either."""
    end, high_watermark = UNCOMMITTED[why]
    history = History([], uncommitted=[("c", T, end, high_watermark)])

    for lossy in (frozenset[TopicPartition](), frozenset({T})):
        (found,) = check(history, lossy=lossy)
        assert found.name == "uncommitted-read"
        assert f"up to {end - 1}" in found.detail and f"high watermark {high_watermark}" in found.detail


def test_what_is_allowed_is_left_out() -> None:
    history = History([A, B, polled("c", (1, "b"))])

    assert check(history, allowed={"lost-write"}) == []


# ---------------------------------------------------------------------------------------- snapshots of replicas


def batch(offset: int, epoch: int = 0, crc: int = 0) -> r.BatchView:
    return r.BatchView(offset, offset, epoch, crc or 1000 + offset)


def replica(broker: int, ends: int, high_watermark: int, **more: object) -> r.ReplicaView:
    view = r.ReplicaView(
        BrokerId(broker),
        True,
        False,
        0,
        0,
        ends,
        high_watermark,
        batches=tuple(batch(n) for n in range(ends)),
    )
    return replace(view, **more)


def leader(
    broker: int, ends: int, high_watermark: int, isr: tuple[int, ...] = (1, 2), **more: object
) -> r.ReplicaView:
    return replica(
        broker, ends, high_watermark, **{"is_leader": True, "isr": isr, "maximal_isr": isr, **more}
    )


def stored(
    leader_id: int, isr: tuple[int, ...], epoch: int = 0, eligible: tuple[int, ...] = ()
) -> LeaderAndIsr:
    state = LeaderAndIsr(
        BrokerId(leader_id), LeaderEpoch(epoch), tuple(map(BrokerId, isr)), PartitionEpoch(0)
    )
    return replace(state, elr=tuple(map(BrokerId, eligible)))


def with_min_isr(view: r.ClusterView, count: int) -> r.ClusterView:
    return replace(view, partitions={T: replace(view.partitions[T], min_insync_replicas=count)})


def view(*replicas: r.ReplicaView, state: LeaderAndIsr | None = None, **more: object) -> r.ClusterView:
    state = state or stored(1, (1, 2))
    partition = r.PartitionView(replicas, state, state, tuple(map(BrokerId, (1, 2, 3))))
    return r.ClusterView({T: partition}, **more)  # type: ignore[arg-type]


def moved(view: r.ClusterView) -> r.ClusterView:
    return replace(view, partitions={T: replace(view.partitions[T], has_moved=True)})


def written(broker: int, epoch: int, elected: int, path: str = "/brokers/topics/t") -> r.ControllerWrite:
    return r.ControllerWrite(BrokerId(broker), epoch, elected, path)


GOOD = view(leader(1, 3, 2), replica(2, 3, 2))
Memory = Callable[[], "r.HighWatermarks | r.StableOffsets | r.Leaders | r.Committed"]
other_crc = (batch(0), r.BatchView(1, 1, 0, 7), batch(2))

BAD_SNAPSHOTS: list[tuple[str, str, object, list[r.ClusterView]]] = [
    ("leader outside the ISR", "LeaderInIsr", r.leader_in_isr, [view(state=stored(3, (1, 2)))]),
    ("empty ISR", "LeaderInIsr", r.leader_in_isr, [view(state=stored(-1, ()))]),
    ("leader is the one who left", "LeaderInIsr", r.leader_in_isr, [view(state=stored(1, (2,)))]),
    ("negative epoch", "TypeOk", r.type_ok, [view(state=stored(1, (1, 2), epoch=-1))]),
    (
        "negative partition epoch",
        "TypeOk",
        r.type_ok,
        [view(state=replace(stored(1, (1, 2)), partition_epoch=PartitionEpoch(-1)))],
    ),
    ("ISR with a member twice", "TypeOk", r.type_ok, [view(state=stored(1, (1, 1)))]),
    ("ISR with a stranger", "TypeOk", r.type_ok, [view(state=stored(1, (1, 9)))]),
    ("log that ends before it starts", "TypeOk", r.type_ok, [view(replica(1, 0, 0, log_start_offset=4))]),
    ("batches that overlap", "TypeOk", r.type_ok, [view(replica(1, 2, 0, batches=(batch(0), batch(0))))]),
    ("an epoch that falls", "TypeOk", r.type_ok, [view(replica(1, 2, 0, batches=(batch(0, 3), batch(1, 2))))]),
    ("high watermark above the log", "ValidHighWatermark", r.valid_high_watermark, [view(leader(1, 3, 4))]),
    ("follower's high watermark above its log", "ValidHighWatermark", r.valid_high_watermark, [view(replica(2, 1, 2))]),
    (
        "replicas differ below both high watermarks",
        "ValidHighWatermark",
        r.valid_high_watermark,
        [view(leader(1, 3, 3), replica(2, 3, 3, batches=other_crc))],
    ),
    (
        "followers do, and nobody leads",
        "ValidHighWatermark",
        r.valid_high_watermark,
        [view(replica(1, 3, 3), replica(2, 3, 3, batches=other_crc))],
    ),
    (
        "a member that was not moved away ends below what a former leader has committed",
        "WeakIsr",
        r.weak_isr,
        [moved(view(leader(1, 3, 3, (1, 2, 3)), replica(2, 2, 0), replica(3, 0, 0), state=stored(2, (2,), epoch=1)))],
    ),
    ("ISR member ends below", "WeakIsr", r.weak_isr, [view(leader(1, 3, 3), replica(2, 2, 0))]),
    ("ISR member differs below", "WeakIsr", r.weak_isr, [view(leader(1, 3, 2), replica(2, 3, 0, batches=other_crc))]),
    ("dead ISR member ends below", "WeakIsr", r.weak_isr, [view(leader(1, 3, 3), replica(2, 0, 0, is_alive=False))]),
    (
        "stored ISR member ends below although the leader thinks it is out",
        "StrongIsr",
        r.strong_isr,
        [view(leader(1, 3, 3, isr=(1,)), replica(2, 2, 0))],
    ),
    (
        "a zombie leader moved its high watermark alone",
        "StrongIsr",
        r.strong_isr,
        [view(leader(1, 4, 4, isr=(1,)), replica(2, 3, 3), state=stored(2, (2,), epoch=1))],
    ),
    (
        "cut to the high watermark after a failover",
        "StrongIsr",
        r.strong_isr,
        [view(leader(1, 3, 3, isr=(1,)), replica(2, 3, 0, batches=other_crc))],
    ),
    ("two leaders in one epoch", "I10", r.one_leader_and_one_controller, [view(leader(1, 1, 0), leader(2, 1, 0))]),
    (
        "two controllers in one epoch",
        "I10",
        r.one_leader_and_one_controller,
        [view(controllers=((BrokerId(1), 4), (BrokerId(2), 4)))],
    ),
    (
        "one of three believes it leads in another's epoch",
        "I10",
        r.one_leader_and_one_controller,
        [view(leader(1, 1, 0, leader_epoch=3), replica(2, 1, 0), leader(3, 1, 0, leader_epoch=3))],
    ),
    (
        "a state node written by a controller whose successor was elected",
        "I10",
        r.stale_writes_fenced,
        [view(controller_writes=(written(1, 3, 4, "/brokers/topics/t/partitions/0/state"),))],
    ),
    (
        "a topic forgotten by one among writes of its successor",
        "I10",
        r.stale_writes_fenced,
        [
            view(controller_writes=(written(2, 4, 4, "/brokers/topics/t"),)),
            view(controller_writes=(written(2, 4, 4), written(1, 3, 4, "/admin/delete_topics/t"), written(2, 4, 4))),
        ],
    ),
    (
        "a broker that was elected again writes for its former term",
        "I10",
        r.stale_writes_fenced,
        [view(controller_writes=(written(1, 3, 5),))],
    ),
    (
        "a leader is back in an epoch that another has led in since",
        "I10",
        r.Leaders,
        [
            view(leader(1, 1, 0, leader_epoch=2)),
            view(replica(1, 1, 0, leader_epoch=3), leader(2, 1, 0, leader_epoch=3)),
            view(leader(1, 1, 0, leader_epoch=3)),
        ],
    ),
    ("a leader epoch led twice", "I10", r.Leaders, [view(leader(1, 1, 0)), view(replica(1, 1, 0), leader(2, 1, 0))]),
    (
        "a controller epoch held twice",
        "I10",
        r.Leaders,
        [view(controllers=((BrokerId(1), 4),)), view(controllers=((BrokerId(2), 4),))],
    ),
    (
        "a replica that is to join ends below the high watermark",
        "I7",
        r.high_watermark_counts_whom_we_asked_for,
        [view(leader(1, 3, 3, maximal_isr=(1, 2, 3)), replica(2, 3, 3), replica(3, 2, 2))],
    ),
    (
        "an empty one was asked for, and is dead",
        "I7",
        r.high_watermark_counts_whom_we_asked_for,
        [view(leader(1, 3, 1, isr=(1,), maximal_isr=(1, 2)), replica(2, 0, 0, is_alive=False))],
    ),
    (
        "the mark moved on while the one that joins had just been cut",
        "I7",
        r.high_watermark_counts_whom_we_asked_for,
        [
            view(leader(1, 3, 2, isr=(1,), maximal_isr=(1, 2)), replica(2, 2, 2)),
            view(leader(1, 3, 3, isr=(1,), maximal_isr=(1, 2)), replica(2, 1, 1)),
        ],
    ),
    ("a leader's high watermark falls", "I7", r.HighWatermarks, [view(leader(1, 3, 3)), view(leader(1, 3, 2))]),
    (
        "it falls after a rise",
        "I7",
        r.HighWatermarks,
        [view(leader(1, 3, 1)), view(leader(1, 3, 3)), view(leader(1, 3, 2))],
    ),
    (
        "a leader's last stable offset falls",
        "LastStable",
        r.StableOffsets,
        [
            view(leader(1, 3, 3, last_stable_offset=3)),
            view(leader(1, 3, 3, last_stable_offset=2)),
        ],
    ),
    (
        "it falls after a rise",
        "LastStable",
        r.StableOffsets,
        [
            view(leader(1, 3, 3, last_stable_offset=1)),
            view(leader(1, 3, 3, last_stable_offset=2)),
            view(leader(1, 3, 3, last_stable_offset=0)),
        ],
    ),
    (
        "the next leader has not the marker, and is committed as far",
        "LastStable",
        r.StableOffsets,
        [
            view(leader(1, 4, 3, last_stable_offset=3)),
            view(leader(2, 3, 3, leader_epoch=1, last_stable_offset=1), state=stored(2, (1, 2), epoch=1)),
        ],
    ),
    (
        "it is above the high watermark",
        "LastStable",
        r.StableOffsets,
        [view(leader(1, 3, 2, last_stable_offset=3))],
    ),
    (
        "it falls to nothing after a restart in the same epoch",
        "I7",
        r.HighWatermarks,
        [view(leader(1, 3, 3)), view(replica(1, 3, 3, is_alive=False)), view(leader(1, 3, 0))],
    ),
    (
        "an empty replica is in the ISR",
        "I8",
        r.Committed,
        [view(leader(1, 3, 3), replica(2, 3, 3)), view(leader(1, 3, 3), replica(2, 0, 0))],
    ),
    (
        "committed and then replaced everywhere",
        "I8",
        r.Committed,
        [
            view(leader(1, 3, 3), replica(2, 3, 3)),
            view(
                replica(1, 3, 0, batches=other_crc),
                leader(2, 3, 0, batches=other_crc, leader_epoch=1),
                state=stored(2, (2,), epoch=1),
            ),
        ],
    ),
    (
        "the elected one lacks the last committed record",
        "I8",
        r.Committed,
        [
            view(leader(1, 3, 3), replica(2, 3, 3)),
            view(leader(2, 2, 2, leader_epoch=1), state=stored(2, (2,), epoch=1)),
        ],
    ),
    (
        "an eligible replica lacks what the leader committed alone",
        "I8",
        r.Committed,
        [with_min_isr(view(leader(1, 3, 3), replica(2, 2, 2), state=stored(1, (1,), eligible=(2,))), 2)],
    ),
    (
        "an eligible replica holds another record at a committed offset",
        "I8",
        r.Committed,
        [
            with_min_isr(view(leader(1, 3, 3), replica(2, 3, 3)), 2),
            with_min_isr(
                view(replica(2, 3, 0, batches=other_crc), state=stored(-1, (1,), eligible=(2,))), 2
            ),
        ],
    ),
    (
        "a broker tells of the old leader",
        "I11",
        r.converged,
        [view(leader(1, 1, 1), live_brokers=(BrokerId(2),), metadata={(BrokerId(2), T): (3, 0)})],
    ),
    ("a broker knows nothing", "I11", r.converged, [view(leader(1, 1, 1), live_brokers=(BrokerId(2),))]),
    ("the leader does not know it leads", "I11", r.converged, [view(replica(1, 1, 1))]),
    (
        "the controller's cache is old",
        "I11",
        r.converged,
        [r.ClusterView({T: r.PartitionView((leader(1, 1, 1),), stored(1, (1, 2)), stored(1, (1,)))})],
    ),
    ("at rest a replica lags", "I9", r.identical_logs, [view(leader(1, 3, 3), replica(2, 2, 2))]),
    ("at rest a replica differs", "I9", r.identical_logs, [view(leader(1, 3, 3), replica(2, 3, 3, batches=other_crc))]),
    (
        "at rest a replica has a batch of another epoch",
        "I9",
        r.identical_logs,
        [view(leader(1, 2, 2), replica(2, 2, 2, batches=(batch(0), batch(1, 1))))],
    ),
]  # fmt: skip


def judge(checker: object, views: list[r.ClusterView]) -> list[Anomaly]:
    observe = checker().observe if isinstance(checker, type) else checker
    return [anomaly for one in views for anomaly in observe(one)]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("why", "name", "checker", "views"), BAD_SNAPSHOTS, ids=[w for w, *_ in BAD_SNAPSHOTS]
)
def test_a_bad_snapshot_is_named(why: str, name: str, checker: object, views: list[r.ClusterView]) -> None:
    found = judge(checker, views)

    assert {a.name for a in found} == {name}


@pytest.mark.parametrize(
    "checker",
    [*r.STEP_CHECKS, r.identical_logs, r.Leaders, r.HighWatermarks, r.StableOffsets, r.Committed],
    ids=lambda c: c.__name__,
)
def test_a_good_snapshot_passes(checker: object) -> None:
    assert judge(checker, [GOOD, GOOD]) == []


def test_an_eligible_replica_may_lack_what_is_committed_once_one_in_sync_is_enough() -> None:
    """Nobody elects it any more by what is configured now, though the node still names it for a moment."""
    lowered = view(leader(1, 3, 3), replica(2, 2, 2), state=stored(1, (1,), eligible=(2,)))

    assert judge(r.Committed, [with_min_isr(lowered, 1)]) == []


def test_writes_of_the_elected_controller_pass() -> None:
    """Also of one that was deposed while nobody has been elected yet: nothing has been decided over its head."""
    assert judge(r.stale_writes_fenced, [view(controller_writes=(written(1, 3, 3), written(2, 4, 4)))]) == []


def test_a_converged_cluster_passes() -> None:
    metadata = {(BrokerId(b), T): (1, 0) for b in (1, 2)}
    good = view(leader(1, 1, 1), replica(2, 1, 1), live_brokers=(BrokerId(1), BrokerId(2)), metadata=metadata)

    assert judge(r.converged, [good]) == []


def test_there_are_enough_bad_histories() -> None:
    """At least three for each name and for each checker, at least forty in all."""
    names = [name for _, names, _ in BAD_DELIVERIES for name in set(names)]
    names += [name for _, name, _, _ in BAD_SNAPSHOTS]
    checkers = [checker for _, _, checker, _ in BAD_SNAPSHOTS]
    all_checkers = (
        *r.STEP_CHECKS,
        *r.QUIESCENCE_CHECKS,
        r.HighWatermarks,
        r.StableOffsets,
        r.Committed,
        r.Leaders,
    )
    all_checkers += (r.high_watermark_counts_whom_we_asked_for,)

    assert len(BAD_DELIVERIES) + len(BAD_SNAPSHOTS) >= 70
    assert {name: names.count(name) for name in set(names) if names.count(name) < 3} == {}
    assert [c.__name__ for c in all_checkers if checkers.count(c) < 3] == []
