"""Groups with very many offsets: no turn looks at all of them."""

from collections.abc import Iterable, Iterator

import pytest

from odradek.coordinator import classic_group, expiry, removing
from odradek.coordinator.consumer_image import ConsumerImage
from odradek.coordinator.consumer_records import RegexRecord, ResolvedRegex
from odradek.coordinator.effects import Append
from odradek.coordinator.events import Tick
from odradek.coordinator.later import Later
from odradek.coordinator.offsets import NO_PRODUCER, Offsets, Stood
from odradek.coordinator.records import NEVER_EXPIRES, CommittedOffset, OffsetKey, encode
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.records.builder import NewRecord, build_batch
from tests.coordinator.consumers import beat, join
from tests.coordinator.groups import GROUP, Bench

HOUR_MS = 60 * 60_000


class Topic(str):
    """Counts how often two of them are compared to be put in order."""

    __slots__ = ()
    compared = 0

    def __lt__(self, other: str) -> bool:
        Topic.compared += 1
        return str.__lt__(self, other)


def with_offsets(count: int) -> Bench:
    """Each of a topic of its own: what they are sorted by. They are kept for an hour, six passes over all of them."""
    bench = Bench(offsets_retention_ms=HOUR_MS)
    bench.commit_offset(1)
    committed = CommittedOffset(5, -1, "", bench.now_ms, NEVER_EXPIRES)
    held = bench.coordinator.shard.offsets.by_group[GROUP]
    held.update({(Topic(f"t{n}"), 0): Stood(committed, n) for n in range(count)})
    Topic.compared = 0
    return bench


def test_to_look_for_what_has_expired_puts_no_offsets_in_order() -> None:
    """Of a hundred thousand it took 0.3 s of one turn, at the beginning of a pass and at its end."""
    bench = with_offsets(5_000)
    bench.wait(bench.settings.offsets_retention_check_interval_ms + 1)
    assert Topic.compared == 0
    bench.wait(bench.settings.offsets_retention_ms)
    assert Topic.compared == 0 and bench.coordinator.shard.offsets.by_group.get(GROUP) is None
    bench.wait(bench.settings.offsets_retention_check_interval_ms)
    assert GROUP not in bench.coordinator.shard.groups


class Topics(tuple[str, ...]):
    """Counts how often it is searched for one."""

    searched = 0

    def __contains__(self, topic: object) -> bool:
        Topics.searched += 1
        return super().__contains__(topic)


def hold_offsets(bench: Bench, count: int) -> None:
    committed = CommittedOffset(5, -1, "", bench.now_ms, NEVER_EXPIRES)
    held = bench.coordinator.shard.offsets.by_group.setdefault(GROUP, {})
    held.update({(f"t{n}", 0): Stood(committed, n) for n in range(count)})


def reads_of_subscriptions(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    reads: list[None] = []
    topics_of_all = classic_group.topics_of_all

    def counted(metadata: Iterable[bytes]) -> frozenset[str] | None:
        reads.append(None)
        return topics_of_all(metadata)

    monkeypatch.setattr(classic_group, "topics_of_all", counted)
    return reads


def test_what_a_group_subscribes_to_is_read_once_for_many_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a hundred members it was read for each of two thousand offsets: a second of one turn, every ten minutes."""
    bench = Bench()
    bench.stable(2, session_ms=1_800_000)
    hold_offsets(bench, 1_000)
    reads = reads_of_subscriptions(monkeypatch)
    bench.now_ms += bench.settings.offsets_retention_check_interval_ms

    bench.step(Tick())

    assert len(reads) == 1


def test_a_turn_reads_the_subscriptions_of_so_many_members_as_of_offsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expiry, "MOST_OFFSETS", 3)
    bench = Bench()
    bench.stable(3, session_ms=1_800_000)
    stored = bench.loaded().groups[GROUP]
    for name in ("a", "b", "c"):
        bench.coordinator.shard.group(name, bench.now_ms).adopt(stored)
        bench.coordinator.shard.offsets.by_group[name] = {
            ("t", 0): Stood(CommittedOffset(5, -1, "", bench.now_ms), 0)
        }
    reads = reads_of_subscriptions(monkeypatch)
    bench.now_ms += bench.settings.offsets_retention_check_interval_ms
    seen = []
    for _ in range(3):
        bench.step(Tick())
        seen.append(len(reads))

    assert seen == [1, 2, 3]


def test_the_topics_of_an_expression_are_not_searched_for_each_offset() -> None:
    """Ten thousand topics and as many offsets: two thirds of a second of one turn."""
    bench = Bench()
    bench.call(join("a", subscribed_topic_regex="t.*"), 1)
    found = ResolvedRegex(Topics(("t", "t1")), 1, bench.now_ms)
    bench.coordinator.shard.stored.replay(RegexRecord(GROUP, "t.*", found), 0, NO_PRODUCER)
    hold_offsets(bench, 1_000)
    Topics.searched = 0
    bench.now_ms += bench.settings.offsets_retention_check_interval_ms

    bench.coordinator.expiry.tick(bench.now_ms)

    assert Topics.searched == 0


def test_a_turn_reads_the_topics_of_so_many_expressions_as_of_offsets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Five hundred groups of which each matches ten thousand topics: half a second of one turn, every ten minutes."""
    monkeypatch.setattr(expiry, "MOST_OFFSETS", 10)
    bench = Bench()
    shard = bench.coordinator.shard
    found = ResolvedRegex(tuple(f"t{n}" for n in range(200)), 1, bench.now_ms)
    for name in ("a", "b", "c"):
        asked = join("m", subscribed_topic_regex="t.*")
        asked.group_id = name
        bench.call(asked, 1)
        shard.stored.replay(RegexRecord(name, "t.*", found), 0, NO_PRODUCER)
        shard.offsets.by_group[name] = {("t", 0): Stood(CommittedOffset(5, -1, "", bench.now_ms), 0)}
    reads: list[ConsumerImage] = []
    read = ConsumerImage.subscribed_topics
    monkeypatch.setattr(
        ConsumerImage, "subscribed_topics", lambda image: (reads.append(image), read(image))[1]
    )
    bench.now_ms += bench.settings.offsets_retention_check_interval_ms
    seen = []
    for _ in range(3):
        bench.coordinator.expiry.tick(bench.now_ms)
        seen.append(len(reads))

    assert seen == [1, 2, 3]


def test_to_delete_one_offset_puts_the_others_in_no_order() -> None:
    bench = with_offsets(5_000)
    rows = [OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])]
    answer = bench.call(OffsetDeleteRequest(group_id=GROUP, topics=rows), 0)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert Topic.compared == 0 and len(bench.coordinator.shard.offsets.by_group[GROUP]) == 5_000


def test_a_group_with_very_many_offsets_is_deleted_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second for a hundred thousand, in the turn of the request."""
    monkeypatch.setattr(removing, "MOST_TOMBSTONES", 10)
    bench = with_offsets(35)
    bench.held = True
    call = bench.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)
    pieces = []
    while bench.waiting:
        ((append, _),) = bench.waiting
        pieces.append(len(append.records))
        assert call not in bench.answers
        bench.commit()
    assert pieces == [10, 10, 10, 6] and Topic.compared == 0
    assert bench.answers.pop(call).results[0].error_code == ErrorCode.NONE
    assert GROUP not in bench.coordinator.shard.groups
    assert GROUP not in bench.coordinator.shard.offsets.by_group


class Pending(dict[int, dict[str, dict[tuple[str, int], Stood]]]):
    """May be asked for one producer, and not for all of them."""

    def __iter__(self) -> Iterator[int]:
        raise AssertionError("every open transaction is looked at")

    items = keys = values = __iter__  # type: ignore[assignment]


def test_to_delete_an_offset_looks_at_no_transaction_but_those_that_hold_it() -> None:
    """Two thousand of one group, and as many producers with one open: four million looks in one turn."""
    offsets = Offsets()
    for producer in range(3):
        offsets.apply(
            OffsetKey(GROUP, "t", producer), CommittedOffset(producer, -1, "", 0), producer, producer
        )
    offsets.apply(OffsetKey(GROUP, "t", 0), CommittedOffset(7, -1, "", 0), 3, 1)
    offsets.pending = Pending(offsets.pending)

    offsets.apply(OffsetKey(GROUP, "t", 0), None, 4, NO_PRODUCER)

    for producer in range(3):
        offsets.end_transaction(producer, is_commit=True)
    assert list(offsets.by_group[GROUP]) == [("t", 1), ("t", 2)] and not offsets.unsettled(GROUP)


def size_bytes(append: Append) -> int:
    return len(build_batch(NewRecord(*encode(record)) for record in append.records))


def of_a_long_name(**settings: int) -> tuple[Bench, str]:
    """A group of ten offsets, of which two fit into a batch."""
    bench = Bench(max_append_bytes=2_000, **settings)
    name = "g" * 600
    bench.commit_offset(1, group=name)
    committed = CommittedOffset(5, -1, "", bench.now_ms, NEVER_EXPIRES)
    held = bench.coordinator.shard.offsets.by_group[name]
    held.update({(f"t{n}", 0): Stood(committed, n) for n in range(9)})
    bench.held = True
    return bench, name


def test_what_takes_a_groups_offsets_away_fits_into_batches_however_long_its_name() -> None:
    """Two thousand of a name of 600 letters were refused as too large, whenever it was tried: nothing ever took them away."""
    bench, name = of_a_long_name()
    call = bench.ask(DeleteGroupsRequest(groups_names=[name]), 2)
    while bench.waiting:
        assert all(size_bytes(append) <= bench.settings.max_append_bytes for append, _ in bench.waiting)
        bench.commit()

    assert bench.answers.pop(call).results[0].error_code == ErrorCode.NONE
    assert name not in bench.coordinator.shard.offsets.by_group


def test_what_takes_expired_offsets_away_fits_into_batches_however_long_the_groups_name() -> None:
    bench, name = of_a_long_name(offsets_retention_ms=HOUR_MS)
    later = CommittedOffset(5, -1, "", bench.now_ms + HOUR_MS, NEVER_EXPIRES)
    bench.coordinator.shard.offsets.by_group[name]["t", 1] = Stood(later, 10)
    bench.now_ms += HOUR_MS

    bench.step(Tick())

    assert sum(len(append.records) for append, _ in bench.waiting) == 10
    assert all(size_bytes(append) <= bench.settings.max_append_bytes for append, _ in bench.waiting)


def delete_all(group: str, topics: Iterable[str]) -> OffsetDeleteRequest:
    rows = [OffsetDeleteRequestPartition(partition_index=0)]
    return OffsetDeleteRequest(
        group_id=group, topics=[OffsetDeleteRequestTopic(name=name, partitions=rows) for name in topics]
    )


def test_what_takes_offsets_away_that_are_named_fits_into_batches_however_long_the_groups_name() -> None:
    """Those of a topic with ten thousand partitions and a name of 100 letters were INVALID_COMMIT_OFFSET_SIZE, as one batch."""
    bench, name = of_a_long_name()
    bench.topics.update({f"t{n}": 1 for n in range(9)})
    call = bench.ask(delete_all(name, ["t", *(f"t{n}" for n in range(9))]), 0)
    while bench.waiting:
        assert call not in bench.answers
        assert all(size_bytes(append) <= bench.settings.max_append_bytes for append, _ in bench.waiting)
        bench.commit()

    response = bench.answers.pop(call)
    assert response.error_code == ErrorCode.NONE and len(response.topics) == 10
    assert name not in bench.coordinator.shard.offsets.by_group
    assert name not in bench.coordinator.shard.groups, "it went with its last offset"


@pytest.mark.parametrize("failing", [0, 1, 4])
def test_offsets_of_which_some_could_not_be_taken_away_are_answered_once_and_the_group_stays(
    failing: int,
) -> None:
    bench, name = of_a_long_name()
    bench.topics.update({f"t{n}": 1 for n in range(9)})
    call = bench.ask(delete_all(name, ["t", *(f"t{n}" for n in range(9))]), 0)
    for at in range(5):
        assert call not in bench.answers
        if at == failing:
            bench.fail()
        else:
            bench.commit()

    assert bench.answers.pop(call).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert len(bench.coordinator.shard.offsets.by_group[name]) == 2
    assert bench.coordinator.shard.groups[name].state.value == "Empty"


def many_groups(monkeypatch: pytest.MonkeyPatch) -> tuple[Bench, list[str]]:
    monkeypatch.setattr(removing, "MOST_AT_ONCE", 2)
    bench = Bench()
    names = [f"g{n}" for n in range(5)]
    for name in names:
        bench.commit_offset(1, group=name)
    bench.held = True
    return bench, names


def test_of_very_many_groups_the_later_ones_are_deleted_behind_the_earlier_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, names = many_groups(monkeypatch)
    call = bench.ask(DeleteGroupsRequest(groups_names=names), 2)
    seen = 0
    while bench.waiting:
        assert len(bench.waiting) <= 2 and call not in bench.answers
        bench.commit()
        seen += 1
    assert seen == 5
    rows = bench.answers.pop(call).results
    assert [(row.group_id, row.error_code) for row in rows] == [(name, ErrorCode.NONE) for name in names]
    assert not bench.coordinator.shard.groups and not bench.coordinator.shard.offsets.by_group


def test_groups_that_wait_behind_one_that_cannot_be_deleted_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, names = many_groups(monkeypatch)
    call = bench.ask(DeleteGroupsRequest(groups_names=names), 2)
    bench.fail()
    assert call not in bench.answers, "the second is under way"
    bench.commit()
    errors = {row.group_id: row.error_code for row in bench.answers.pop(call).results}
    assert errors["g1"] == ErrorCode.NONE and errors["g0"] == errors["g2"] == errors["g4"] != ErrorCode.NONE
    bench.held = False
    for name in ("g0", "g2", "g3", "g4"):
        assert bench.coordinator.shard.offsets.by_group[name]
        answer = bench.answers.pop(bench.commit_offset(2, group=name))
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE  # type: ignore[attr-defined]


def test_a_coordinator_that_moves_answers_for_groups_that_wait_to_be_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, names = many_groups(monkeypatch)
    call = bench.ask(DeleteGroupsRequest(groups_names=names), 2)
    bench.move()
    errors = {row.error_code for row in bench.answers.pop(call).results}
    assert errors == {ErrorCode.NOT_COORDINATOR}


def consumer_group_with_ten() -> Bench:
    """An empty one, with ten offsets."""
    bench = Bench()
    bench.call(join("A"), 1)
    bench.call(beat("A", -1), 1)
    committed = CommittedOffset(5, -1, "", bench.now_ms, NEVER_EXPIRES)
    bench.coordinator.shard.offsets.by_group[GROUP] = {("t", n): Stood(committed, n) for n in range(10)}
    return bench


def test_who_joins_a_consumer_group_while_it_is_deleted_comes_when_it_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between two pieces nothing of the group's own is being written; a member would lose what it commits."""
    monkeypatch.setattr(removing, "MOST_TOMBSTONES", 3)
    bench = consumer_group_with_ten()
    offsets = bench.coordinator.shard.offsets
    bench.held = True
    deleted = bench.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)
    joins = bench.ask(join("B"), 1)
    pieces = 0
    while deleted not in bench.answers:
        assert joins not in bench.answers and len(bench.waiting) == 1
        assert bench.coordinator.next_deadline_ms() != 0, "nothing is to be done before the next commit"
        bench.commit()
        pieces += 1
    assert pieces > 4 and GROUP not in offsets.by_group
    assert bench.answers.pop(deleted).results[0].error_code == ErrorCode.NONE
    bench.held = False
    while bench.waiting:
        bench.commit()
    assert bench.answers.pop(joins).member_epoch == 1  # type: ignore[attr-defined]


def test_a_consumer_group_that_cannot_be_deleted_to_its_end_may_be_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(removing, "MOST_TOMBSTONES", 3)
    bench = consumer_group_with_ten()
    bench.held = True
    deleted = bench.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)
    bench.commit()
    bench.fail()
    assert bench.answers.pop(deleted).results[0].error_code != ErrorCode.NONE
    assert not bench.waiting and len(bench.coordinator.shard.offsets.by_group[GROUP]) == 7
    bench.held = False
    assert bench.call(join("B"), 1).member_epoch > 1


def test_the_answer_about_very_many_deleted_offsets_is_made_by_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    bench.commit_offset(1)
    few = bench.call(delete_all(GROUP, ["t"]), 0)
    bench.commit_offset(1)
    monkeypatch.setattr(removing, "MOST_OFFSETS", len(few.topics[0].partitions) - 1)
    many = bench.call(delete_all(GROUP, ["t"]), 0)
    assert isinstance(many, Later) and many.make() == few
