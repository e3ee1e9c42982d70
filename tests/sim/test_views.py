"""What the checkers see: read as it comes, and the same as if all of it were read anew."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import BrokerId, LeaderEpoch, TopicPartition
from odradek.records.builder import NewRecord, build_batch
from odradek.replication.isr import Committed
from odradek.sim.checkers.batches import Batches, BatchList, BatchView
from odradek.sim.checkers.replicas import ReplicaView, first_difference
from odradek.sim.observed.views import OUT_OF_THE_ISR, BrokerLogs, LogReader, Seen, Views
from odradek.sim.observed.watch import OBEYED, Watch
from odradek.sim.plan import draw
from odradek.sim.run import OK, describe, run
from odradek.sim.world import SimBroker, World
from tests.support import each

PARTITION = TopicPartition("orders", 2)


@pytest.mark.parametrize("seed", [2, 5, 24, 33])
def test_a_view_that_grows_is_the_view_read_anew(seed: int) -> None:
    """Through truncations, restarts and deletions of whatever the seed brings."""
    compared = 0

    def compare(world: World) -> None:
        nonlocal compared
        seen, anew = world.view(), Views(world).view()
        for partition, state in seen.partitions.items():
            assert replace(state, has_moved=False) == replace(anew.partitions[partition], has_moved=False)
        compared += sum(
            len(replica.batches) for state in seen.partitions.values() for replica in state.replicas
        )

    outcome = run(draw(seed), observe=compare)

    assert outcome.code == OK, describe(outcome)
    assert compared > 100


def test_a_log_that_was_cut_is_shown_anew_where_it_ends_as_before() -> None:
    """Cut and written again between two looks: only the disk's trace tells."""
    disk = SimpleNamespace(path="/b2", trace=["append /b2/orders-2/00000000000000000000.log"])
    logs, seen = BrokerLogs(SimpleNamespace(disks=[disk])), Seen()  # type: ignore[arg-type]
    replica = SimpleNamespace(
        log=SimpleNamespace(log_start_offset=0, log_end_offset=0, failure=None),
        topic_id=None,
        state=Committed((BrokerId(2),)),
        is_leader=False,
        leader_epoch=0,
        high_watermark=0,
    )

    def look() -> tuple[bool, ReplicaView]:
        logs.forget_what_was_cut()
        known = seen.replicas[BrokerId(2)].get(PARTITION)
        is_as_it_was = known is not None and known.is_as_it_was(replica)
        return is_as_it_was, seen.replica(BrokerId(2), replica, PARTITION, logs, is_compacted=False)

    is_known, first = look()
    assert not is_known
    is_known, second = look()
    assert is_known and second is first
    disk.trace.append("truncate /b2/orders-2/00000000000000000000.log 0")
    is_known, third = look()
    assert not is_known and third is not first


def test_watching_every_step_of_the_controller_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = run(draw(7))
    monkeypatch.setattr(Watch, "_controller_stepped", lambda self, broker, event, effects: None)
    unwatched = run(draw(7))

    assert (watched.trace_hash, watched.events) == (unwatched.trace_hash, unwatched.events)


def test_invariants_are_looked_at_after_every_step_of_a_controller_that_changes_something() -> None:
    looks: dict[int, int] = {0: -1}  # after so many steps, and what the store had written last
    steps: list[bool] = []  # whether it has an effect, or the store was written since the last look

    def prepare(world: World, history: object) -> None:
        tree, before = world.store.ensemble.tree, world.view

        def stepped(broker: SimBroker, event: object, effects: Any) -> None:
            has_effects = bool(effects.writes or effects.requests or effects.follow_up) or isinstance(
                event, OBEYED
            )
            steps.append(has_effects or tree.zxid != looks[max(looks)])

        def view(*, with_batches: bool = True, with_knowledge: bool = True) -> object:
            if with_batches:
                looks[len(steps)] = tree.zxid
            return before(with_batches=with_batches, with_knowledge=with_knowledge)

        world.on_controller_step.append(stepped)
        world.view = view  # type: ignore[method-assign, assignment]

    run(draw(3), prepare=prepare)

    assert steps.count(True) > 30
    assert {number for number, changes in enumerate(steps, 1) if changes} <= looks.keys()


@pytest.mark.parametrize(
    ("leader_epoch", "exempt"),
    [(3, {(BrokerId(2), PARTITION): OUT_OF_THE_ISR}), (4, {})],
    ids=["its leader counts on it: it has not heard", "nobody counts on it"],
)
def test_who_gave_a_log_up_outside_of_the_isr_is_exempt_while_a_leader_counts_on_it(
    leader_epoch: int, exempt: dict[tuple[BrokerId, TopicPartition], int]
) -> None:
    """It came back without the log after its ISR had been stored without it, and its leader was cut off from the store."""
    leader = SimpleNamespace(
        is_leader=True,
        leader_epoch=leader_epoch,
        partition_epoch=0,
        state=SimpleNamespace(maximal_isr={1, 2}),
    )
    world = SimpleNamespace(
        exempt={},
        damage={},
        brokers={
            BrokerId(1): broker_with(BrokerId(1), replicas={PARTITION: leader}),
            BrokerId(2): broker_with(BrokerId(2), refused={PARTITION}),
        },
    )
    views = Views(world)  # type: ignore[arg-type]
    views._stored = {PARTITION: LeaderAndIsr(BrokerId(1), 4, (BrokerId(1),), 0)}
    views._exempt_given_up()
    assert world.exempt == exempt

    leader.leader_epoch = 4
    views._drop_exemptions(views._stored)
    assert world.exempt == {}


@pytest.mark.parametrize(
    ("host", "is_there", "stays"),
    [("the process", False, False), ("one before", False, True), ("the process", True, True)],
)
def test_what_was_damaged_is_exempt_until_it_is_whole_again_in_the_process_that_had_it(
    host: str, is_there: bool, stays: bool
) -> None:
    """Where that process went in between the damage may be gone with the records, and the ISR counts on them as before."""
    follower, key = broker_with(BrokerId(2)), (BrokerId(2), PARTITION)
    follower.host = "the process"
    world: Any = SimpleNamespace(
        exempt={key: 9},
        damage={key: SimpleNamespace(host=host, is_there=lambda: is_there)},
        brokers={BrokerId(2): follower},
    )
    views = Views(world)
    views._lives = {PARTITION: {BrokerId(2): 9}}
    views._drop_exemptions({PARTITION: LeaderAndIsr(BrokerId(1), LeaderEpoch(4), (BrokerId(2),))})
    assert bool(world.exempt) is bool(world.damage) is stays


def broker_with(broker_id: BrokerId, replicas: Any = (), refused: Any = ()) -> Any:
    logs = SimpleNamespace(refused=refused)
    manager = SimpleNamespace(partitions=dict(replicas), logs=logs)
    core = SimpleNamespace(broker_epoch=9, replicas=manager)
    runtime = SimpleNamespace(broker=core, parts=SimpleNamespace(broker=core))
    return SimpleNamespace(broker_id=broker_id, is_running=True, is_serving=True, runtime=runtime)


def test_a_snapshot_does_not_change_when_the_log_goes_on() -> None:
    batches = BatchList([batch(0), batch(1)])
    before = batches.snapshot()
    batches.append(batch(2))

    assert list(before) == [batch(0), batch(1)] == before[0:9]
    assert before != batches.snapshot()
    assert before == Batches(batches, 2)
    with pytest.raises(IndexError):
        before[2]


def test_logs_with_the_same_batches_have_the_same_digest_at_every_length() -> None:
    one, other = BatchList([batch(0), batch(3, 7)]), BatchList([batch(0), batch(3, 8)])

    assert one.snapshot().digest(1) == other.snapshot().digest(1)
    assert one.snapshot().digest(2) != other.snapshot().digest(2)
    assert one.snapshot().count_below(3) == 1
    assert one.snapshot().count_below(4) == 2


def test_batches_out_of_order_are_remembered() -> None:
    batches = BatchList([batch(0), batch(0), batch(1)])

    assert batches.snapshot().disorder() == [1]


def batch(offset: int, crc: int = 1) -> BatchView:
    return BatchView(offset, offset, 0, crc)


def test_what_is_appended_is_noted_even_where_it_overlaps_what_was_read() -> None:
    """A batch at offsets that the log has already is out of order, and not what a reader has seen before."""
    data = bytearray(batch_of(0, 3) + batch_of(3, 2))
    file = SimpleNamespace(_inode=SimpleNamespace(data=data), size_bytes=len(data))
    segment = SimpleNamespace(_file=file)
    log = SimpleNamespace(
        log_start_offset=3, log_end_offset=5, segments=SimpleNamespace(since=lambda offset: (segment,))
    )
    reader = LogReader(log)
    reader.read()
    assert [one.base_offset for one in reader.batches.snapshot()] == [3], (
        "what lies below the start is not shown"
    )

    data += batch_of(4, 1) + batch_of(5, 1)
    file.size_bytes, log.log_end_offset = len(data), 6
    reader.read()

    assert [one.base_offset for one in reader.batches.snapshot()] == [3, 4, 5]
    assert reader.batches.snapshot().disorder() == [1]


def batch_of(base_offset: int, count: int) -> bytes:
    return build_batch([NewRecord(None, b"v", 0)] * count, base_offset=base_offset, leader_epoch=0)


APART = {
    "nothing else": ([0, 1, 2], {}, None),
    "another batch where both have one": ([0, 1, 2], {1: 9}, 1),
    "no batch where the other has one": ([0, 2], {}, 1),
    "another one below the start of the other": ([0, 1, 2], {0: 9}, None),
    "another one above the limit": ([0, 1, 2], {2: 9}, None),
    "one twice": ([0, 1, 1, 2], {}, None),
}


@each(APART)
def test_logs_that_begin_apart_are_compared_where_both_are(why: str) -> None:
    offsets, checksums, found = APART[why]
    one = replica_of([batch(offset, checksums.get(offset, 1)) for offset in offsets], start=0)
    other = replica_of([batch(1), batch(2)], start=1)

    assert first_difference(one, other, 2) == first_difference(other, one, 2) == found, why


def test_a_log_whose_last_batches_are_missing_differs_there() -> None:
    one, other = (replica_of([batch(offset) for offset in range(count)], start=0) for count in (3, 2))

    assert first_difference(one, other, 3) == first_difference(other, one, 3) == 2


def replica_of(batches: list[BatchView], start: int) -> ReplicaView:
    return ReplicaView(BrokerId(1), True, False, 0, start, 3, 3, batches=BatchList(batches).snapshot())
