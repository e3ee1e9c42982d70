"""What an unclean election costs is kept: the tail a follower cuts off can be read back."""

from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.broker import effects as fx
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import TopicPartition
from odradek.records.reader import decode_batch
from tests.broker.world import World, batch, told

T0 = TopicPartition("t", 0)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, brokers=(1, 2))


def tails(world: World, broker: int) -> list[list[bytes]]:
    """Of each cut the values of its records, oldest cut first."""
    found = []
    for directory in sorted((world[broker].path / "t-0" / "truncated").glob("*")):
        values: list[bytes] = []
        for segment in sorted(directory.glob("*.log")):
            data = segment.read_bytes()
            assert int(segment.name.removesuffix(".log")) == int.from_bytes(data[:8], "big"), (
                "named as a segment is"
            )
            while data:
                size = int.from_bytes(data[8:12], "big") + 12
                values += [bytes(record.value or b"") for record in decode_batch(data[:size])]
                data = data[size:]
        found.append(values)
    return found


def led_alone_and_lost(world: World, *values: bytes) -> None:
    """Both have `a`; then 1 leads alone, is acknowledged `values`, and 2 is elected from outside the ISR."""
    world.lead(1, isr=(1, 2), replicas=(1, 2), is_new=True)
    world.produce(1, b"a")
    world.settle()
    world.advance(10)
    world.cut |= {(2, 1)}
    world.lead(1, isr=(1,), replicas=(1, 2), tell=[1])
    for value in values:
        asked = world.produce(1, value)
        world.settle()
        assert asked.is_answered
    world.cut.clear()


def recovering(world: World) -> None:
    """As the controller says it of a leader it had to take from outside the ISR."""
    lead = world.leader_and_isr

    def unclean(key: TopicPartition, **how: object) -> object:
        request = lead(key, **how)  # type: ignore[arg-type]
        request.topic_states[0].partition_states[0].leader_recovery_state = 1
        return request

    world.leader_and_isr = unclean  # type: ignore[assignment,method-assign]


def test_records_that_were_committed_are_kept(world: World) -> None:
    led_alone_and_lost(world, b"b", b"c", b"d")
    world.lead(2, isr=(2,), replicas=(1, 2))
    assert world[1].values() == world[2].values() == [b"a"]
    assert tails(world, 1) == [[b"b", b"c", b"d"]]
    assert tails(world, 2) == []
    said = [
        e.text
        for e in world[1].told
        if "offsets 1 to 3 are cut off behind an unclean leader" in getattr(e, "text", "")
    ]
    assert len(said) == 1 and "kept in" in said[0]


@pytest.mark.parametrize(
    "how",
    [
        recovering,
        lambda world: world.configs.update({("topics", "t"): {"unclean.leader.election.enable": "true"}}),
    ],
    ids=["recovering", "allowed"],
)
def test_so_are_those_of_which_only_the_acknowledgement_was_committed(
    world: World, how: Callable[[World], None]
) -> None:
    """After a kill the high watermark is as old as its last checkpoint: the mark alone would not say it."""
    how(world)
    led_alone_and_lost(world, b"b")
    world[1].partition().high_watermark = 1
    world.lead(2, isr=(2,), replicas=(1, 2))
    assert tails(world, 1) == [[b"b"]]


def test_what_was_never_committed_is_not_kept(world: World) -> None:
    """A clean election: nobody was told that these records are there."""
    world.lead(1, isr=(1, 2), replicas=(1, 2), is_new=True)
    world.produce(1, b"a")
    world.settle()
    world.advance(10)
    world.cut |= {(2, 1)}
    asked = world.produce(1, b"b")
    world.settle()
    assert not asked.is_answered
    world.cut.clear()
    world.lead(2, isr=(2,), replicas=(1, 2))
    assert world[1].values() == [b"a"] and tails(world, 1) == []


def test_several_segments_stay_several(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1, 2), log_segment_bytes="2000")
    led_alone_and_lost(world, *(bytes([65 + n]) * 900 for n in range(6)))
    assert len(world[1].partition().log.segments) > 2
    world.lead(2, isr=(2,), replicas=(1, 2))
    (kept,) = tails(world, 1)
    assert kept == [bytes([65 + n]) * 900 for n in range(6)]
    (directory,) = (world[1].path / "t-0" / "truncated").iterdir()
    assert len(list(directory.glob("*.log"))) > 2
    world.kill(1)
    world.restart(1)
    assert tails(world, 1) == [kept], "a start leaves them alone"


def test_they_go_with_the_partition(world: World) -> None:
    led_alone_and_lost(world, b"b")
    world.lead(2, isr=(2,), replicas=(1, 2))
    assert tails(world, 1) == [[b"b"]]
    world.stop_replica(1, T0, leader_epoch=-2, delete=True)
    assert tails(world, 1) == []
    world[1].logs.purge(world.now_ms + 120_000)
    assert not list(world[1].path.glob("t-0*"))


def test_what_was_said_to_be_committed_before_the_cut_is_not_found_again_behind_a_kill(world: World) -> None:
    """The high watermarks are written by a thread, which may begin when the log has been cut."""
    led_alone_and_lost(world, b"b", b"c")
    said = world[1].broker.replicas.checkpoint_high_watermarks()
    world[1].logs.checkpoint_high_watermarks(said.high_watermarks, said.said_at)
    world.lead(2, isr=(2,), replicas=(1, 2))
    for value in (b"x", b"y"):
        world.produce(2, value, acks=1)
    world.settle()
    assert world[1].values() == [b"a", b"x", b"y"]
    world[1].logs.checkpoint_high_watermarks(said.high_watermarks, said.said_at)
    world.kill(1)
    world.restart(1)
    assert said.high_watermarks == {T0: 3} and world[1].logs.high_watermark_of(T0) == 1


def test_they_are_copied_by_a_thread_and_nothing_is_cut_before(world: World) -> None:
    """It was done in the loop, with a sync of the disk for each segment: of a gigabyte that takes seconds."""
    led_alone_and_lost(world, b"b", b"c")
    world.works = False
    world.lead(2, isr=(2,), replicas=(1, 2))
    (copy,) = told(world, fx.RunAside)
    world.advance(5_000)
    assert world[1].values() == [b"a", b"b", b"c"] and tails(world, 1) == []
    world.produce(2, b"new")
    world.advance(5_000)
    assert world[1].values() == [b"a", b"b", b"c"]
    came = copy.work.run()
    assert tails(world, 1) == [[b"b", b"c"]] and world[1].values() == [b"a", b"b", b"c"]
    world.works = True
    world[1].broker.answered(copy.request_id, came, world.now_ms)
    world.settle()
    world.advance(1)
    assert world[1].values() == world[2].values() == [b"a", b"new"]


def test_a_copy_that_failed_as_nobody_foresaw_leaves_the_log_as_it_is_and_is_made_again(world: World) -> None:
    led_alone_and_lost(world, b"b", b"c")
    world.works = False
    world.lead(2, isr=(2,), replicas=(1, 2))
    (copy,) = told(world, fx.RunAside)
    world[1].broker.answered(copy.request_id, None, world.now_ms)
    world.settle()
    assert world[1].values() == [b"a", b"b", b"c"]
    world.works = True
    world.advance(2_000)
    assert world[1].values() == [b"a"] and tails(world, 1)[-1] == [b"b", b"c"]


def test_a_large_one_is_copied_piece_by_piece(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Producers whose batches must be opened wait for the same thread."""
    monkeypatch.setattr("odradek.log.truncated_tails.PIECE_BYTES", 100)
    led_alone_and_lost(world, *(b"%d" % n * 60 for n in range(8)))
    world.works = False
    world.lead(2, isr=(2,), replicas=(1, 2))
    pieces = 0
    while copies := told(world, fx.RunAside):
        (copy,) = copies
        pieces += 1
        world[1].broker.answered(copy.request_id, copy.work.run(), world.now_ms)
    assert pieces > 5
    assert tails(world, 1) == [[b"%d" % n * 60 for n in range(8)]] and world[1].values() == [b"a"]


def test_a_broker_that_leads_meanwhile_keeps_its_log(world: World) -> None:
    led_alone_and_lost(world, b"b")
    world.works = False
    world.lead(2, isr=(2,), replicas=(1, 2))
    (copy,) = told(world, fx.RunAside)
    world.lead(1, isr=(1,), replicas=(1, 2), tell=[1])
    world[1].broker.answered(copy.request_id, copy.work.run(), world.now_ms)
    world.settle()
    assert world[1].values() == [b"a", b"b"]


def test_a_cut_in_a_large_segment_is_made_in_slices(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a start nothing says how producers stood in the midst of a segment: its batches do, and there may be millions."""
    monkeypatch.setattr("odradek.log.lookups.BATCHES_AT_ONCE", 3)
    world.lead(1, isr=(1, 2), replicas=(1, 2), is_new=True)
    for n in range(20):
        world.produce(1, records=batch(b"%d" % n, producer_id=5, producer_epoch=0, base_sequence=n))
    world.settle()
    world.advance(10)
    world.cut |= {(2, 1)}
    world.produce(1, records=batch(b"lost", producer_id=5, producer_epoch=0, base_sequence=20))
    world.kill(1)
    world.restart(1)
    world.cut.clear()
    log = world[1].logs.logs[T0]
    log.forget_marks()
    asked: list[int] = []
    go_on = world[1].broker.go_on

    def counted(now_ms: int) -> bool:
        asked.append(log.log_end_offset)
        return go_on(now_ms)

    world[1].broker.go_on = counted  # type: ignore[method-assign]
    world.lead(2, isr=(2,), replicas=(1, 2))
    world.advance(10)
    assert world[1].values() == world[2].values() and len(world[1].values()) == 20
    assert asked.count(21) > 5
    pending = world.produce(2, records=batch(b"x", producer_id=5, producer_epoch=0, base_sequence=20))
    world.settle()
    assert world.produced(pending) == (ErrorCode.NONE, 20)
    assert world[1].raw() == world[2].raw()
