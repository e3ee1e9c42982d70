"""Groups of KIP-848: what the recorded traces do not show - failed appends, who waits, limits, threads, conversions."""

from typing import Any

import pytest

from odradek.coordinator import asides, classic_members, draft, group_coordinator, upgrading
from odradek.coordinator.asides import Assigned
from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.consumer_asides import MOST_TARGETS
from odradek.coordinator.consumer_image import ConsumerImage
from odradek.coordinator.consumer_leaving import deadlines_passed
from odradek.coordinator.consumer_protocol import read_subscription, write_assignment
from odradek.coordinator.consumer_records import (
    NOTHING,
    Current,
    CurrentRecord,
    MemberRecord,
    MemberState,
    Subscriber,
)
from odradek.coordinator.draft import MOST_AT_ONCE
from odradek.coordinator.effects import Append
from odradek.coordinator.events import Tick, Unloaded
from odradek.coordinator.offsets import NO_PRODUCER
from odradek.coordinator.records import GroupKey, GroupRecord, encode
from odradek.coordinator.settings import MigrationPolicy
from odradek.coordinator.timers import Kind, Timer
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from odradek.protocol.messages.delete_groups import DeleteGroupsRequest
from odradek.protocol.messages.heartbeat import HeartbeatRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.list_groups import ListGroupsRequest
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.records.builder import NewRecord, build_batch
from tests.coordinator.consumers import beat, described, join, subscription, told
from tests.coordinator.groups import GROUP, Bench, commit_request


def classic_member(
    bench: Bench, owned: dict[str, list[int]] | None = None, rack: str = "", **options: Any
) -> str:
    """In a group of the new protocol: its id, once it has joined and asked for its assignment."""
    protocols = {"range": subscription(owned=owned, rack=rack)}
    given = bench.answers.pop(bench.join(protocols=protocols, **options))
    if given.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        given = bench.answers.pop(bench.join(given.member_id, protocols=protocols, **options))
    assert given.error_code == ErrorCode.NONE
    bench.answers.pop(bench.sync(given.member_id, given.generation_id))
    return str(given.member_id)


@pytest.mark.behaviour("K10")
def test_a_fenced_member_that_comes_back_with_its_id_is_told_all_it_has() -> None:
    bench = Bench()
    first = bench.call(join("A"), 1)
    assert told(first) == {"t": [0, 1, 2, 3]}

    again = bench.call(join("A"), 1)

    assert (again.member_epoch, told(again)) == (first.member_epoch, {"t": [0, 1, 2, 3]})
    bench.call(join("B"), 1)
    bench.call(beat("B", -1), 1)
    later = bench.call(beat("A", first.member_epoch), 1)
    assert later.member_epoch == first.member_epoch + 2, "and not only while the epoch before was 0"
    again = bench.call(join("A"), 1)
    assert (again.member_epoch, told(again)) == (later.member_epoch, {"t": [0, 1, 2, 3]})


def test_of_very_many_sessions_that_end_so_many_members_are_removed_in_a_turn() -> None:
    """Each writes the records of a group, 60 us: of a thousand groups that one process read it took more than a turn may."""
    bench = Bench()
    for number in range(600):
        request = join("A")
        request.group_id = f"g{number}"
        bench.call(request, 1)
    bench.held = True
    bench.now_ms += bench.settings.consumer_session_timeout_ms
    removed = []
    for _ in range(3):
        before = len(bench.waiting)
        bench.step(Tick())
        removed.append(len(bench.waiting) - before)

    assert removed == [500, 100, 0]


def group_of(bench: Bench, *members: str) -> None:
    """Whose sessions all end at the same time."""
    bench.topics["t"] = len(members)
    for member in members:
        bench.call(join(member), 1)
    for member in members:
        bench.call(beat(member, described_epoch(bench, member), owned={}), 1)


def described_epoch(bench: Bench, member: str) -> int:
    return bench.coordinator.shard.consumer_groups[GROUP].image.current_of(member).epoch


def members_of(bench: Bench) -> set[str]:
    group = bench.coordinator.shard.consumer_groups[GROUP]
    return set(group.image.members)


def test_sessions_of_one_group_that_end_together_are_few_turns_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn looks at all members: 2 ms with ten thousand, and 500 of them were one turn of a broker that has no followers."""
    monkeypatch.setattr(group_coordinator, "MOST_TOGETHER", 3)
    bench = Bench()
    group_of(bench, *"ABCDEFGH")
    epoch = described(bench).group_epoch
    bench.held = True
    bench.now_ms += bench.settings.consumer_session_timeout_ms
    bench.step(Tick())
    left = []
    while bench.waiting:
        assert len(bench.waiting) == 1, "one turn at a time"
        bench.commit()
        left.append("".join(sorted(members_of(bench))))

    assert left == ["DEFGH", "GH", ""]
    assert described(bench).group_epoch == epoch + 3
    assert "3 members are removed, their sessions have ended; 'A' is one of them" in bench.lines[0]
    assert "2 members are removed" in bench.lines[-1]


def test_a_heartbeat_that_waits_before_the_end_of_its_session_is_not_overtaken_by_those_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_coordinator, "MOST_TOGETHER", 1)
    bench = Bench()
    group_of(bench, *"ABC")
    bench.held = True
    bench.now_ms += bench.settings.consumer_session_timeout_ms
    monkeypatch.setattr(group_coordinator, "MOST_TIMERS", 1)
    bench.step(Tick())  # A is being removed
    alive = bench.ask(beat("C", described_epoch(bench, "C")), 1)
    monkeypatch.undo()
    bench.step(Tick())  # B and C are overdue
    bench.held = False
    while bench.waiting:
        bench.commit()
    assert bench.answers.pop(alive).error_code == ErrorCode.NONE
    assert members_of(bench) == {"C"}


def test_a_session_that_is_looked_at_twice_ends_once() -> None:
    """It was looked at while its group had its turn, was begun anew behind that, and is over by now (seeds 95, 104)."""
    bench = Bench()
    group_of(bench, *"AB")
    bench.now_ms += bench.settings.consumer_session_timeout_ms
    twice = [Timer(bench.now_ms, number, Kind.CONSUMER_SESSION, GROUP, "A") for number in (1, 2)]
    bench.held = True
    deadlines_passed(bench.coordinator.shard, twice, bench.now_ms)
    bench.step(Tick())
    while bench.waiting:
        bench.commit()
    assert not members_of(bench)


def test_members_whose_sessions_end_together_fit_into_batches_however_long_their_names() -> None:
    bench = Bench(max_append_bytes=3_000)
    names = [letter * 600 for letter in "ABCDE"]
    group_of(bench, *names)
    sessions_end_in_batches(bench, most_bytes=3_000)
    assert not members_of(bench)


def test_members_whose_sessions_end_together_fit_into_batches_with_the_expressions_that_go_with_them() -> (
    None
):
    """What was refused as too large would be tried again each second, and none of them would ever go."""
    bench = Bench(max_append_bytes=3_000)
    for name in "ABCDE":
        if name == "E":
            bench.wait(11_000)  # and all of them are resolved
        bench.call(join(name, subscribed_topic_regex=f"t|{name * 900}"), 1)
        bench.do_asides()
    assert len(bench.coordinator.shard.consumer_groups[GROUP].image.regexes) == 5
    sessions_end_in_batches(bench, most_bytes=3_000)
    assert GROUP not in bench.coordinator.shard.consumer_groups or not members_of(bench)


def test_of_members_that_do_not_fit_into_one_batch_none_is_forgotten_while_somebody_else_waits() -> None:
    """Their deadlines have passed, and no timer is left: they would be members for ever."""
    bench = Bench(max_append_bytes=3_000)
    group_of(bench, *[letter * 600 for letter in "ABC"])
    bench.held = True
    bench.ask(join("late"), 1)
    bench.now_ms += bench.settings.consumer_session_timeout_ms
    bench.step(Tick())
    waits = bench.ask(beat("nobody", 1), 1)
    while bench.waiting:
        bench.commit()
    assert bench.answers.pop(waits).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert members_of(bench) == {"late"}


def sessions_end_in_batches(bench: Bench, *, most_bytes: int) -> None:
    """Of all members at the same time."""
    bench.held = True
    bench.now_ms += bench.settings.consumer_session_timeout_ms
    bench.step(Tick())
    while bench.waiting:
        append, _ = bench.waiting[0]
        assert size_of(append) <= most_bytes
        bench.commit()


def size_of(append: Append) -> int:
    return len(build_batch([NewRecord(*encode(one)) for one in append.records]))


@pytest.mark.parametrize("fails", [False, True])
def test_very_many_members_that_leave_together_are_removed_some_at_a_time_within_one_turn_of_the_group(
    monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    monkeypatch.setattr(classic_members, "MOST_LEAVING", 2)
    bench = Bench()
    group_of(bench, *"ABCDE")
    bench.held = True
    rows = [MemberIdentity(member_id=one, group_instance_id=None) for one in "EXDCBD"]
    call = bench.ask(LeaveGroupRequest(group_id=GROUP, members=rows), 5)
    waits = bench.ask(beat("A", described_epoch(bench, "A")), 1)
    bench.commit()
    assert members_of(bench) == set("ABC") and not bench.answers
    if fails:
        bench.fail()
        assert bench.answers.pop(call).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert members_of(bench) == set("ABC")
        return
    bench.commit()
    errors = {(one.member_id, one.error_code) for one in bench.answers.pop(call).members}
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert errors == {("E", 0), ("X", unknown), ("D", 0), ("C", 0), ("B", 0), ("D", unknown)}
    assert members_of(bench) == {"A"}
    bench.commit()
    assert bench.answers.pop(waits).error_code == ErrorCode.NONE


def test_those_of_the_new_protocol_leave_last_so_the_group_is_not_classic_before_all_have_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(classic_members, "MOST_LEAVING", 1)
    bench = Bench()
    bench.call(join("A"), 1)
    stays, goes = classic_member(bench), classic_member(bench)
    rows = [MemberIdentity(member_id=one, group_instance_id=None) for one in ("A", goes)]
    answer = bench.call(LeaveGroupRequest(group_id=GROUP, members=rows), 5)
    assert [one.error_code for one in answer.members] == [0, 0]
    assert list(bench.coordinator.shard.groups[GROUP].members) == [stays]


def test_expressions_that_are_resolved_piece_by_piece_move_the_epoch_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asides, "NAMES_AT_ONCE", 1)
    bench = Bench()
    for member, regex in (("A", "t.*"), ("B", "u.*"), ("C", "[tu]")):
        bench.call(join(member, subscribed_topic_regex=regex), 1)
    epoch = described(bench).group_epoch

    bench.do_asides()

    assert described(bench).group_epoch == epoch + 1
    image = bench.coordinator.shard.consumer_groups[GROUP].image
    assert {regex: found.topics for regex, found in image.regexes.items()} == {"t.*": ("t",)}
    bench.wait(11_000)
    bench.call(beat("A", described(bench).members[0].member_epoch, owned={}), 1)
    bench.do_asides()
    found = {regex: found.topics for regex, found in image.regexes.items()}
    assert found == {"t.*": ("t",), "u.*": ("u",), "[tu]": ("t", "u")}
    assert described(bench).group_epoch == epoch + 2


def test_what_expressions_match_is_looked_for_again_after_a_pause_if_it_could_not_be_stored() -> None:
    """And not with each heartbeat: it looks at the names of all topics."""
    bench = Bench()
    epoch = bench.call(join("A", subscribed_topic_regex="t.*"), 1).member_epoch
    bench.held = True
    (work,) = bench.asides
    bench.asides.clear()
    bench.step(work.run())
    bench.fail()
    bench.held = False
    bench.call(beat("A", epoch), 1)
    bench.wait(9_999)
    bench.call(beat("A", epoch), 1)
    assert not bench.asides
    bench.wait(1)
    bench.call(beat("A", epoch), 1)
    bench.do_asides()
    assert told(bench.call(beat("A", epoch), 1)) == {"t": [0, 1, 2, 3]}


def test_what_many_expressions_match_is_as_many_batches_as_it_needs() -> None:
    """As one batch, six that match ten thousand topics with names of 20 letters each were refused as too large, whenever it was tried:
    their members never had anything to read."""
    bench = Bench(max_append_bytes=3_000)
    names = [f"t{number}".ljust(100, "x") for number in range(20)]
    bench.topics.update(dict.fromkeys(names, 1))
    expressions = ("t1.*", "t.*x", "t1?.*", "t[0-9]*x*")
    for number, regex in enumerate(expressions):
        bench.ask(join(f"m{number}", subscribed_topic_regex=regex), 1)
    bench.asides = [asides.Resolve(GROUP, expressions, tuple(names), 0)]
    bench.held = True
    bench.do_asides()
    sizes = []
    while bench.waiting:
        (append, _), *others = bench.waiting
        sizes.append(len(build_batch(NewRecord(*encode(record)) for record in append.records)))
        assert not others
        bench.commit()

    assert len(sizes) == 4 and max(sizes) <= bench.settings.max_append_bytes
    image = bench.coordinator.shard.consumer_groups[GROUP].image
    assert {regex: len(found.topics) for regex, found in image.regexes.items()} == {
        "t1.*": 11,
        "t.*x": 20,
        "t1?.*": 20,
        "t[0-9]*x*": 20,
    }
    assert image.epoch > image.assignment_epoch, "there is something to assign"


@pytest.mark.behaviour("K34")
def test_nobody_is_answered_by_an_append_that_is_not_committed_and_nothing_is_left_of_one_that_failed() -> (
    None
):
    bench = Bench(held=True)
    call = bench.ask(join("A"), 1)
    assert call not in bench.answers and len(bench.waiting) == 1, "all records of a join are one append"
    bench.fail()
    assert bench.answers.pop(call).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert described(bench).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    call = bench.ask(join("A"), 1)
    bench.commit()

    assert bench.answers.pop(call).member_epoch == 1


def test_who_comes_while_a_group_is_written_waits_and_then_sees_what_was_committed() -> None:
    bench = Bench(held=True)
    first, second = bench.ask(join("A"), 1), bench.ask(join("B"), 1)
    beats = bench.ask(beat("A", 1), 1)
    assert len(bench.waiting) == 1 and not bench.answers

    bench.commit()
    assert told(bench.answers.pop(first)) == {"t": [0, 1, 2, 3]}
    assert second not in bench.answers, "its own records are written now"
    bench.commit()
    assert told(bench.answers.pop(second)) == {}
    bench.commit()

    assert told(bench.answers.pop(beats)) == {"t": [0, 1]}


def test_a_group_whose_append_timed_out_and_then_failed_answers_again() -> None:
    bench = Bench(held=True)
    bench.ask(join("A"), 1)
    late = bench.waiting[0]
    bench.step_late()
    assert bench.call(beat("B", 0), 1).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    bench.fail_late(late)

    joined = bench.ask(join("B"), 1)
    bench.commit()
    assert bench.answers.pop(joined).member_epoch == 1


def test_a_group_whose_append_timed_out_answers_nobody_until_its_fate_is_known() -> None:
    bench = Bench(held=True)
    bench.ask(join("A"), 1)
    waits = bench.ask(join("B"), 1)
    late = bench.waiting[0]
    bench.step_late()
    assert bench.answers.pop(waits).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.call(beat("A", 1), 1).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    bench.commit_late(late)

    assert [one.member_id for one in described(bench).members] == ["A"]
    assert bench.call(beat("A", 1), 1).member_epoch == 1
    bench.wait(bench.settings.consumer_session_timeout_ms)
    bench.commit()
    assert not described(bench).members, "a member that came late has a session like any other"


@pytest.mark.parametrize("is_committed", [True, False])
def test_behind_an_append_whose_fate_came_late_who_comes_waits_for_the_next_one(is_committed: bool) -> None:
    """Told to come again, it would be told so whenever somebody else is just being written."""
    bench = Bench(held=True)
    bench.ask(join("A"), 1)
    late = bench.waiting[0]
    bench.step_late()
    if is_committed:
        bench.commit_late(late)
    else:
        bench.fail_late(late)

    bench.ask(join("B"), 1)
    waits = bench.ask(join("C"), 1)

    assert waits not in bench.answers
    bench.commit()
    bench.commit()
    assert bench.answers.pop(waits).error_code == ErrorCode.NONE


def test_the_session_of_a_member_that_is_told_to_come_again_does_not_end_by_that_and_one_of_who_is_silent_does() -> (
    None
):
    bench = Bench()
    for member in ("new", "silent"):
        bench.call(join(member), 1)
    classic = classic_member(bench)
    epochs = {one.member_id: one.member_epoch for one in described(bench).members}
    bench.held = True
    bench.ask(join("late"), 1)
    late = bench.waiting[0]
    bench.step_late()
    for _ in range(10):
        bench.wait(8_000)
        for request in (
            beat("new", epochs["new"]),
            HeartbeatRequest(group_id=GROUP, member_id=classic, generation_id=epochs[classic]),
        ):
            assert bench.call(request, 1).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    bench.held = False
    bench.commit_late(late)

    assert {one.member_id for one in described(bench).members} == {"new", classic, "late"}


def test_a_member_that_did_not_hear_of_its_epoch_does_not_end_while_it_is_told_to_come_again() -> None:
    bench = Bench()
    for member in ("A", "B"):
        bench.call(join(member), 1)
    bench.call(beat("A", 1), 1)
    assert bench.call(beat("A", 1, owned={"t": [0, 1]}), 1).member_epoch == 2, "which it does not hear"
    bench.held = True
    bench.ask(join("late"), 1)
    late = bench.waiting[0]
    bench.step_late()
    for _ in range(10):
        bench.wait(8_000)
        assert bench.call(beat("A", 1), 1).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.held = False

    bench.commit_late(late)

    assert {one.member_id for one in described(bench).members} == {"A", "late"}


def test_a_member_that_lets_go_while_its_group_cannot_be_written_is_not_removed_for_its_silence() -> None:
    bench = Bench()
    for member in ("A", "B"):
        bench.call(join(member), 1)
    assert told(bench.call(beat("A", 1), 1)) == {"t": [0, 1]}
    bench.held = True
    bench.ask(join("late"), 1)
    late = bench.waiting[0]
    bench.step_late()
    for _ in range(3):
        bench.wait(2_000)
        refused = bench.call(beat("A", 1, owned={"t": [0, 1]}), 1)
        assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.held = False

    bench.commit_late(late)

    assert bench.call(beat("A", 1, owned={"t": [0, 1]}), 1).error_code == ErrorCode.NONE
    bench.call(beat("B", 2), 1)
    bench.wait(5_000)
    assert {one.member_id for one in described(bench).members} == {"A", "B", "late"}


def test_who_waits_for_a_group_is_sent_on_when_another_broker_takes_over() -> None:
    bench = Bench(held=True)
    calls = [bench.ask(join("A"), 1), bench.ask(join("B"), 1)]

    bench.move()

    assert {bench.answers.pop(call).error_code for call in calls} == {ErrorCode.NOT_COORDINATOR}


def test_another_broker_goes_on_with_members_epochs_and_partitions() -> None:
    bench = Bench()
    bench.call(join("A"), 1)
    bench.call(join("B"), 1)
    bench.call(beat("A", 1, owned={"t": [0, 1, 2, 3]}), 1)
    before = described(bench)

    bench.move()

    assert described(bench) == before
    assert bench.call(beat("A", 1, owned={"t": [0, 1]}), 1).member_epoch == 2
    assert told(bench.call(beat("B", 2), 1)) == {"t": [2, 3]}


def test_a_member_that_does_not_let_go_is_removed_after_its_rebalance_timeout_also_by_the_next_coordinator() -> (
    None
):
    bench = Bench()
    bench.call(join("A"), 1)
    bench.call(join("B"), 1)
    bench.call(beat("A", 1), 1)
    bench.move()
    bench.wait(4_999)
    bench.call(beat("A", 1), 1)
    assert len(described(bench).members) == 2

    bench.wait(1)

    assert [one.member_id for one in described(bench).members] == ["B"]
    assert told(bench.call(beat("B", 2), 1)) == {"t": [0, 1, 2, 3]}


@pytest.mark.parametrize("moves", [False, True])
def test_a_static_member_that_leaves_while_it_has_to_let_go_has_its_session_to_come_back(moves: bool) -> None:
    bench = Bench()
    bench.call(join("A", instance_id="one"), 1)
    bench.call(join("B"), 1)
    assert told(bench.call(beat("A", 1, instance_id="one"), 1)) == {"t": [0, 1]}
    bench.call(beat("A", -2, instance_id="one"), 1)
    if moves:
        bench.move()

    bench.wait(6_000)

    assert {one.member_id for one in described(bench).members} == {"A", "B"}
    assert told(bench.call(join("A", instance_id="one"), 1)) == {"t": [0, 1]}


def test_the_session_of_a_member_does_not_end_where_what_it_asks_for_cannot_be_written() -> None:
    bench = Bench()
    for member in ("A", "B"):
        bench.call(join(member), 1)
    bench.held = True
    for _ in range(12):
        bench.wait(5_000)
        bench.ask(beat("B", 2), 1)
        call = bench.ask(beat("A", 1), 1)
        while bench.waiting:
            bench.fail()
        assert bench.answers.pop(call).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.held = False

    bench.wait(1_000)

    assert {one.member_id for one in described(bench).members} == {"A", "B"}
    assert told(bench.call(beat("A", 1), 1)) == {"t": [0, 1]}


def test_a_member_whose_removal_could_not_be_written_is_removed_later() -> None:
    bench = Bench(held=True)
    call = bench.ask(join("A"), 1)
    bench.commit()
    bench.answers.pop(call)
    bench.wait(bench.settings.consumer_session_timeout_ms)
    bench.fail()
    assert len(described(bench).members) == 1

    bench.wait(1_000)
    bench.commit()

    assert described(bench).group_state == "Empty"


@pytest.mark.behaviour("K15")
def test_a_session_ends_each_time_also_where_its_timer_was_looked_at_late() -> None:
    bench = Bench()
    for _ in range(2):
        bench.call(join("A"), 1)
        bench.wait(10_000)
        bench.call(beat("A", described(bench).members[0].member_epoch), 1)
        bench.now_ms += 2 * bench.settings.consumer_session_timeout_ms
        bench.step(Tick())
        assert not described(bench).members
    bench.call(join("A"), 1)

    bench.wait(bench.settings.consumer_session_timeout_ms)

    assert not described(bench).members


@pytest.mark.behaviour("K15")
def test_a_heartbeat_that_changes_nothing_renews_the_session() -> None:
    bench = Bench()
    bench.call(join("A"), 1)
    length_ms = bench.settings.consumer_session_timeout_ms
    for _ in range(3):
        bench.wait(length_ms - 1)
        written = len(bench.log)
        assert bench.call(beat("A", 1), 1).member_epoch == 1
        assert len(bench.log) == written
    bench.wait(length_ms - 1)
    assert described(bench).members
    bench.wait(1)

    assert not described(bench).members


@pytest.mark.behaviour("K21")
def test_a_member_of_either_protocol_commits_in_the_epoch_it_has_and_in_no_other() -> None:
    bench = Bench()
    bench.call(join("A"), 1)
    other = classic_member(bench)
    epochs = {one.member_id: one.member_epoch for one in described(bench).members}
    assert epochs == {"A": 1, other: 2}
    refusals = {"A": ErrorCode.STALE_MEMBER_EPOCH, other: ErrorCode.ILLEGAL_GENERATION}
    for member, epoch in epochs.items():
        for named in (epoch - 1, epoch + 1):
            commit = commit_request(5, member, named, "t", 0, GROUP)
            assert _code(bench.call(commit, 9)) == refusals[member]
            assert _code(bench.call(_in_transaction(member, named), 3)) == ErrorCode.ILLEGAL_GENERATION
        assert _code(bench.call(commit_request(5, member, epoch, "t", 0, GROUP), 9)) == ErrorCode.NONE
        assert _code(bench.call(_in_transaction(member, epoch), 3)) == ErrorCode.NONE


def _in_transaction(member: str, epoch: int) -> TxnOffsetCommitRequest:
    row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    return TxnOffsetCommitRequest(
        group_id=GROUP,
        producer_id=9,
        generation_id=epoch,
        member_id=member,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[row])],
    )


def _code(response: Any) -> int:
    (topic,) = response.topics
    return int(topic.partitions[0].error_code)


@pytest.mark.behaviour("K33")
def test_a_full_group_takes_nobody_and_makes_no_group_of_a_refused_join() -> None:
    bench = Bench(consumer_max_size=1)
    bench.call(join("A"), 1)

    assert bench.call(join("B"), 1).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.answers.pop(bench.join()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert bench.call(join("A"), 1).error_code == ErrorCode.NONE


@pytest.mark.behaviour("K32")
def test_a_static_member_of_the_new_protocol_replaces_the_classic_one_of_its_instance() -> None:
    bench = Bench()
    bench.call(join("A"), 1)
    old = classic_member(bench, instance="i")
    assert {one.instance_id: one.member_type for one in described(bench).members} == {None: 1, "i": 0}

    taken = bench.call(join("new", instance_id="i"), 1)

    assert taken.error_code == ErrorCode.NONE
    assert {one.member_id: one.member_type for one in described(bench).members} == {"A": 1, "new": 1}
    assert bench.heartbeat(old, 2) == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.behaviour("K32")
def test_a_static_member_of_the_classic_protocol_replaces_whoever_has_its_instance() -> None:
    """Also one of the new protocol that has not said that it goes: a process that was killed, and is started with the former
    setting."""
    bench = Bench()
    bench.call(join("A"), 1)
    bench.call(join("old", instance_id="i"), 1)

    first = classic_member(bench, instance="i")
    second = classic_member(bench, instance="i")

    assert {one.member_id: one.instance_id for one in described(bench).members} == {"A": None, second: "i"}
    assert second != first and bench.heartbeat(first, 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.call(beat("old", 2, instance_id="i"), 1).error_code == ErrorCode.FENCED_INSTANCE_ID


def test_a_classic_member_is_described_with_the_rack_that_its_subscription_names() -> None:
    bench = Bench()
    bench.call(join("A"), 1)
    with_rack, without = classic_member(bench, rack="r1"), classic_member(bench)
    racks = {one.member_id: one.rack_id for one in described(bench).members}
    assert racks == {"A": None, with_rack: "r1", without: None}


@pytest.mark.behaviour("K32")
def test_the_last_member_of_the_new_protocol_that_comes_back_as_a_classic_one_makes_the_group_classic() -> (
    None
):
    bench = Bench()
    bench.call(join("A", instance_id="i"), 1)
    other = classic_member(bench)
    bench.call(beat("A", -2, instance_id="i"), 1)

    back = bench.answers.pop(bench.join(protocols={"range": subscription()}, instance="i"))

    assert back.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.state() == "PreparingRebalance"
    assert {other} < set(bench.group.members) and set(bench.group.static_members) == {"i"}
    calls = [
        bench.join(protocols={"range": subscription()}, instance="i"),
        bench.join(other, protocols={"range": subscription()}),
    ]
    assert {bench.answers.pop(call).error_code for call in calls} == {ErrorCode.NONE}


def test_topics_of_which_a_coordinator_hears_after_its_load_are_assigned() -> None:
    """A broker that has just started coordinates before it was told of a topic, with a mapping that is empty by then: seed 914 of the
    simulator, in which groups of that coordinator were assigned nothing for as long as it was theirs."""
    bench = Bench()
    partitions = dict(bench.topics)
    bench.topics.clear()
    bench.move()
    assert told(bench.call(join("A"), 1)) == {}

    for name, count in partitions.items():
        bench.topics.set(name, count)

    assert told(bench.call(beat("A", 1), 1)) == {"t": [0, 1, 2, 3]}


@pytest.mark.behaviour("K19")
def test_partitions_of_which_a_heartbeat_heard_whose_append_failed_are_assigned_by_the_next_one() -> None:
    bench = Bench(held=True)
    bench.ask(join("A"), 1)
    bench.commit()
    bench.topics.set("t", 5)
    call = bench.ask(beat("A", 1), 1)
    bench.fail()
    assert bench.answers.pop(call).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    call = bench.ask(beat("A", 1), 1)
    assert bench.waiting, "the group's epoch moves on"
    bench.commit()

    assert told(bench.answers.pop(call)) == {"t": [0, 1, 2, 3, 4]}


@pytest.mark.behaviour("K30")
def test_members_of_a_group_that_is_classic_again_join_again_also_at_the_next_coordinator() -> None:
    """It never heard that the one that left had partitions, and to it the others had a stable generation: seed 103 of the
    simulator, in which nobody read them any more."""
    bench = Bench()
    bench.call(join("A"), 1)
    stayer = classic_member(bench)
    bench.call(beat("A", -1), 1)
    assert bench.state() == "PreparingRebalance"

    bench.move()

    assert bench.state() == "PreparingRebalance"
    assert bench.heartbeat(stayer) == ErrorCode.REBALANCE_IN_PROGRESS
    joined = bench.answers.pop(bench.join(stayer, protocols={"range": subscription()}))
    assert (joined.error_code, joined.leader) == (ErrorCode.NONE, stayer)
    bench.answers.pop(bench.sync(stayer, joined.generation_id, {stayer: b"all"}))
    bench.move()
    assert (bench.state(), bench.heartbeat(stayer)) == ("Stable", ErrorCode.NONE), "once they have, it stands"


def test_a_member_of_a_group_that_is_classic_again_has_its_session_to_join() -> None:
    bench = Bench()
    bench.call(join("A"), 1)
    classic_member(bench, instance="i", session_ms=10_000)
    bench.call(beat("A", -1), 1)
    bench.wait(9_999)
    assert bench.state() == "PreparingRebalance"

    bench.wait(1)

    assert bench.state() == "Empty"


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_a_group_with_classic_members_stays_classic_where_the_policy_says_so(policy: MigrationPolicy) -> None:
    bench = Bench(migration_policy=policy)
    bench.stable()

    refused = bench.call(join("B"), 1)

    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND and "disabled" in refused.error_message
    assert bench.state() == "Stable"


def test_a_group_whose_last_new_member_leaves_stays_new_where_a_classic_one_may_not_be_so_large() -> None:
    bench = Bench(max_size=1)
    bench.call(join("A"), 1)
    for _ in range(2):
        classic_member(bench)

    bench.call(beat("A", -1), 1)

    assert [one.member_type for one in described(bench).members] == [0, 0]


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
def test_a_group_whose_last_new_member_leaves_stays_new_where_the_policy_says_so(
    policy: MigrationPolicy,
) -> None:
    bench = Bench(migration_policy=policy)
    bench.call(join("A"), 1)
    classic_member(bench)

    bench.call(beat("A", -1), 1)

    assert [one.member_type for one in described(bench).members] == [0]


@pytest.mark.behaviour("K26")
def test_a_group_is_converted_when_its_classic_assignment_is_committed_and_whoever_is_parked_joins_again() -> (
    None
):
    bench = Bench(held=True)
    protocols = {"range": subscription()}
    first, call = bench.new_member(protocols=protocols)
    generation = bench.answers.pop(call).generation_id
    synced = bench.sync(first, generation, {first: b""})
    upgrade = bench.ask(join("B"), 1)
    assert len(bench.waiting) == 1, "the assignment that is being written comes first"

    bench.commit()
    assert bench.answers.pop(synced).error_code == ErrorCode.NONE
    heartbeat = bench.heartbeat_call(first, generation)
    bench.commit()

    assert told(bench.answers.pop(upgrade)) is not None
    assert bench.answers.pop(heartbeat).error_code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.behaviour("K26")
def test_whoever_is_parked_in_a_join_of_a_group_that_is_converted_joins_again() -> None:
    bench = Bench(initial_rebalance_delay_ms=3_000)
    protocols = {"range": subscription()}
    first, parked = bench.new_member(protocols=protocols)
    assert parked not in bench.answers and bench.state() == "PreparingRebalance"

    assert bench.call(join("B"), 1).error_code == ErrorCode.NONE

    assert bench.answers.pop(parked).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    again = bench.answers.pop(bench.join(first, protocols=protocols))
    assert (again.error_code, again.leader) == (ErrorCode.NONE, "")


@pytest.mark.behaviour("K26")
def test_whoever_waits_for_its_share_of_a_group_that_is_converted_joins_again() -> None:
    bench = Bench()
    protocols = {"range": subscription()}
    first, _ = bench.new_member(protocols=protocols)
    second, _ = bench.new_member(protocols=protocols)
    bench.join(first, protocols=protocols)
    parked = bench.sync(second, bench.group.generation)
    assert parked not in bench.answers and bench.state() == "CompletingRebalance"

    assert bench.call(join("B"), 1).error_code == ErrorCode.NONE

    assert bench.answers.pop(parked).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_conversion_leaves_nothing_of_what_the_group_was() -> None:
    bench = Bench()
    bench.call(join("A"), 1)
    stayer = classic_member(bench)
    assert (set(bench.loaded().groups), set(bench.loaded().consumer_groups)) == (set(), {GROUP})

    bench.call(beat("A", -1), 1)

    assert (set(bench.loaded().groups), set(bench.loaded().consumer_groups)) == ({GROUP}, set())

    bench.call(join("B"), 1)

    assert (set(bench.loaded().groups), set(bench.loaded().consumer_groups)) == (set(), {GROUP})
    assert {one.member_id for one in described(bench).members} == {stayer, "B"}


def test_offsets_of_a_group_that_a_refused_classic_join_has_ended_are_still_those_of_a_group() -> None:
    bench = Bench()
    bench.call(join("A"), 1)
    bench.call(commit_request(7, "A", 1, "t", 0, GROUP), 9)
    bench.call(beat("A", -1), 1)

    refused = bench.answers.pop(bench.join("an id of yesterday"))

    assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert [one.group_id for one in bench.call(ListGroupsRequest(), 4).groups] == [GROUP]
    (deleted,) = bench.call(DeleteGroupsRequest(groups_names=[GROUP]), 2).results
    assert deleted.error_code == ErrorCode.NONE
    assert not bench.coordinator.shard.offsets.by_group


def test_offsets_that_come_while_an_empty_group_is_ended_are_those_of_a_group() -> None:
    bench = Bench()
    bench.call(join("A"), 1)
    bench.call(beat("A", -1), 1)
    bench.held = True
    joins = bench.join("an id of yesterday")
    bench.commit_offset(7)

    bench.commit()
    bench.commit()

    assert bench.answers.pop(joins).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert [one.group_id for one in bench.call(ListGroupsRequest(), 4).groups] == [GROUP]


def test_a_partition_that_an_assignor_of_clients_gave_to_two_has_one_owner_once_the_group_is_converted() -> (
    None
):
    bench = Bench()
    protocols = {"range": subscription()}
    first, _ = bench.new_member(protocols=protocols)
    second, _ = bench.new_member(protocols=protocols)
    bench.join(first, protocols=protocols)
    given = {first: write_assignment({"t": (0, 1)}, 0), second: write_assignment({"t": (1, 2)}, 0)}
    for member, assignments in ((second, {}), (first, given)):
        bench.sync(member, bench.group.generation, assignments)
    assert bench.state() == "Stable"

    bench.call(join("C"), 1)

    has = {
        one.member_id: [at for topic in one.assignment.topic_partitions for at in topic.partitions]
        for one in described(bench).members
    }
    owned = sorted(has[first] + has[second])
    assert owned == [0, 1, 2], "the first has what both were given"


@pytest.mark.behaviour("K26")
def test_what_a_cooperative_member_has_still_to_let_go_of_is_given_to_nobody_when_its_group_is_converted() -> (
    None
):
    """Its leader kept 1 back for the next generation, and the coordinator moved before the member heard of that."""
    bench = Bench()
    first, call = bench.new_member(protocols={"cooperative-sticky": subscription(owned={"t": [0, 1]})})
    generation = bench.answers.pop(call).generation_id
    bench.sync(first, generation, {first: write_assignment({"t": (0,)}, 1)})
    bench.move()

    assert told(bench.call(join("B"), 1)) == {"t": [2]}

    protocols = {"cooperative-sticky": subscription(owned={"t": [0]})}
    assert bench.answers.pop(bench.join(first, protocols=protocols)).error_code == ErrorCode.NONE
    assert told(bench.call(beat("B", generation + 1), 1)) == {"t": [1, 2]}


@pytest.mark.behaviour("K28")
def test_what_a_classic_member_says_to_own_is_given_to_nobody_before_it_joins_without_it() -> None:
    bench = Bench()
    bench.call(join("A"), 1)
    member = classic_member(bench)
    bench.call(beat("A", 1, owned={"t": [0, 1]}), 1)

    def joins_with(*owned: int) -> int:
        protocols = {"range": subscription(owned={"t": list(owned)})}
        return int(bench.answers.pop(bench.join(member, protocols=protocols)).generation_id)

    assert joins_with() == 2
    bench.call(join("B"), 1)

    assert joins_with(2, 3) == 2, "as long as it has to let go of one"
    assert told(bench.call(join("B"), 1)) == {}
    assert joins_with(2) == 3
    assert told(bench.call(join("B"), 1)) == {"t": [3]}


@pytest.mark.behaviour("K29")
def test_the_id_of_a_classic_member_has_22_letters_and_says_nothing_of_its_client() -> None:
    bench = Bench()
    bench.call(join("A"), 1)

    given = bench.answers.pop(bench.join(protocols={"range": subscription()}))
    static = bench.answers.pop(bench.join(protocols={"range": subscription()}, instance="i"))

    assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED and static.error_code == ErrorCode.NONE
    assert [len(one.member_id) for one in (given, static)] == [22, 22]


def test_a_classic_member_that_is_told_to_join_and_does_not_is_removed() -> None:
    bench = Bench()
    bench.call(join("A"), 1)
    member = classic_member(bench, rebalance_ms=3_000)
    bench.call(join("B"), 1)
    assert bench.heartbeat(member, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    bench.wait(2_999)
    assert bench.heartbeat(member, 2) == ErrorCode.REBALANCE_IN_PROGRESS

    bench.wait(1)

    assert bench.heartbeat(member, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_member_that_does_in_time_what_it_is_told_stays() -> None:
    bench = Bench()
    bench.call(join("A"), 1)
    member = classic_member(bench, rebalance_ms=3_000)
    bench.call(join("B"), 1)
    assert bench.heartbeat(member, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    bench.wait(2_999)
    protocols = {"range": subscription(owned={})}
    again = bench.answers.pop(bench.join(member, protocols=protocols, rebalance_ms=3_000))
    bench.wait(2_999)
    assert bench.answers.pop(bench.sync(member, again.generation_id)).error_code == ErrorCode.NONE

    bench.wait(3_000)

    assert bench.heartbeat(member, again.generation_id) == ErrorCode.NONE


def test_a_classic_member_that_joins_and_never_asks_for_its_assignment_is_removed() -> None:
    bench = Bench()
    bench.call(join("A"), 1)
    protocols = {"range": subscription()}
    given = bench.answers.pop(bench.join(protocols=protocols))
    joined = bench.answers.pop(bench.join(given.member_id, protocols=protocols, rebalance_ms=3_000))
    assert bench.heartbeat(joined.member_id, 2) == ErrorCode.NONE

    bench.wait(3_000)

    assert [one.member_id for one in described(bench).members] == ["A"]


# ------------------------------------------------------------------------------------------------ threads


def large(bench: Bench) -> None:
    """A group whose target is not computed in a turn."""
    bench.topics.set("wide", MOST_AT_ONCE + 1)
    bench.call(join("A", ("wide",)), 1)


def test_the_target_of_a_large_group_is_computed_by_a_thread_and_written_with_its_epoch() -> None:
    bench = Bench()
    large(bench)
    assert described(bench).group_state == "Assigning"
    assert told(bench.call(beat("A", 1), 1)) is None
    assert len(bench.asides) == 1, "one at a time"

    bench.do_asides()

    assert told(bench.call(beat("A", 1), 1)) == {"wide": list(range(MOST_AT_ONCE + 1))}
    assert described(bench).group_state == "Stable"


def test_a_classic_group_whose_members_fit_no_batch_stays_classic_and_whoever_asks_hears_why() -> None:
    """Of ten thousand members all was read and written, 340 ms of the loop, whenever somebody tried, and refused by the log then."""
    for count, fits in ((8, False), (3, True)):
        bench = Bench(max_append_bytes=1_000)
        bench.stable(count)
        for member in bench.group.members.values():
            member.assignment = b""
        bench.held = True

        call = bench.ask(join("new"), 1)

        assert bool(bench.waiting) == fits
        if fits:
            append, _ = bench.waiting[0]
            assert len(build_batch(NewRecord(*encode(record)) for record in append.records)) <= 1_000
            continue
        answer: Any = bench.answers[call]
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert answer.error_message.endswith("its members do not fit into a batch.")
        assert bench.state() == "Stable"


def test_a_commit_looks_at_no_member_but_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a group is being deleted was asked of each: 2 ms of a commit where there are ten thousand."""
    bench = Bench()
    for number in range(5):
        bench.call(join(f"m{number}"), 1)
    for number in (*range(5), *range(5)):
        epoch = bench.coordinator.shard.consumer_groups[GROUP].image.current_of(f"m{number}").epoch
        bench.call(beat(f"m{number}", epoch, owned={}), 1)
    assert described(bench).group_state == "Stable"
    looks: list[str] = []
    current_of = ConsumerImage.current_of
    monkeypatch.setattr(
        ConsumerImage, "current_of", lambda image, name: (looks.append(name), current_of(image, name))[1]
    )

    answer = bench.call(commit_request(1, "m4", 5, "t", 0, GROUP), 9)

    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert looks == ["m4"]


def test_a_member_that_names_a_topic_twice_owns_what_either_row_says() -> None:
    """The first row counted for nothing: what it still read was given to another."""
    bench = Bench()
    bench.call(join("A"), 1)
    bench.call(join("B"), 1)
    assert told(bench.call(beat("A", 1), 1)) == {"t": [0, 1]}
    request = beat("A", 1, owned={"t": (2, 3)})
    assert request.topic_partitions is not None
    request.topic_partitions += beat("A", 1, owned={"t": (0, 1)}).topic_partitions or []

    assert bench.call(request, 1).member_epoch == 1, "it has not let go yet"
    assert told(bench.call(beat("B", 2), 1)) is None
    assert bench.call(beat("A", 1, owned={"t": (0, 1)}), 1).member_epoch == 2


def test_while_a_thread_computes_a_target_no_heartbeat_looks_at_all_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a group that reads ten thousand topics each of them took 11 ms, to find that it is too large for a turn."""
    bench = Bench()
    large(bench)
    looks = []
    monkeypatch.setattr(draft, "question_of", lambda *of: looks.append(of))

    bench.call(beat("A", 1), 1)
    bench.call(join("B", ("wide",)), 1)

    assert not looks


def test_the_targets_of_many_members_are_written_in_pieces_and_nobody_sees_some_of_them() -> None:
    bench = Bench()
    large(bench)
    bench.do_asides()
    count = MOST_TARGETS + 50
    for number in range(count):
        bench.call(join(f"m{number}", ("wide",)), 1)
    epoch = described(bench).assignment_epoch
    bench.held = True
    bench.do_asides()
    call = bench.ask(beat("m0", epoch), 1)
    assert described(bench).assignment_epoch == epoch and call not in bench.answers
    bench.held = False
    while bench.waiting:
        bench.commit()
    bench.do_asides()
    bench.call(beat("A", 1), 1)
    bench.do_asides()

    found = described(bench)

    sizes = [
        sum(len(topic.partitions) for topic in one.target_assignment.topic_partitions)
        for one in found.members
    ]
    assert found.assignment_epoch == found.group_epoch
    assert sum(sizes) == MOST_AT_ONCE + 1 and max(sizes) - min(sizes) <= 1
    assert call in bench.answers


def test_a_target_that_could_not_be_stored_is_computed_again_later() -> None:
    bench = Bench()
    large(bench)
    bench.held = True
    bench.do_asides()
    bench.fail(ErrorCode.MESSAGE_TOO_LARGE)
    bench.held = False
    assert any("could not be stored" in line for line in bench.lines)
    bench.call(beat("A", 1), 1)
    assert not bench.asides, "not at every heartbeat"
    bench.wait(10_000)

    bench.call(beat("A", 1), 1)

    assert len(bench.asides) == 1


def test_a_target_of_which_it_is_known_late_that_it_could_not_be_stored_is_computed_again() -> None:
    bench = Bench()
    large(bench)
    bench.held = True
    bench.do_asides()
    late = bench.waiting[0]
    bench.step_late()
    bench.fail_late(late)
    bench.held = False
    bench.wait(10_000)

    bench.call(beat("A", 1), 1)

    assert len(bench.asides) == 1


def test_a_target_of_a_former_epoch_or_of_no_group_changes_nothing() -> None:
    bench = Bench()
    bench.call(join("A"), 1)
    bench.step(Assigned(GROUP, 1, {"A": {}}))
    bench.step(Assigned("nobody", 9, {}))

    assert told(bench.call(join("A"), 1)) == {"t": [0, 1, 2, 3]}


def test_a_target_is_computed_again_where_a_static_member_has_another_id_since() -> None:
    bench = Bench()
    bench.topics.set("wide", MOST_AT_ONCE + 1)
    bench.call(join("A", ("wide",), instance_id="one"), 1)
    bench.do_asides()
    bench.call(join("B", ("wide",)), 1)
    bench.call(beat("A", -2, instance_id="one"), 1)
    bench.call(join("A again", ("wide",), instance_id="one"), 1)

    bench.do_asides()
    bench.call(beat("B", 0, owned={}, rebalance_timeout_ms=5_000, subscribed_topic_names=["wide"]), 1)
    bench.do_asides()

    found = described(bench)
    assert found.assignment_epoch == found.group_epoch
    targets = [
        set(topic.partitions) for one in found.members for topic in one.target_assignment.topic_partitions
    ]
    assert sorted(partition for one in targets for partition in one) == list(range(MOST_AT_ONCE + 1))


def test_a_target_of_a_former_epoch_is_none_where_a_static_member_has_another_id_since() -> None:
    """What was that member's stayed its target, beside what others were given of it."""
    bench = Bench()
    bench.topics.set("wide", MOST_AT_ONCE + 1)
    bench.call(join("A", ("wide",), instance_id="one"), 1)
    bench.do_asides()
    bench.call(join("B", ("wide",)), 1)
    bench.call(beat("A", -2, instance_id="one"), 1)
    bench.call(join("A again", ("wide",), instance_id="one"), 1)
    bench.call(join("C", ("wide",)), 1)

    def targets() -> list[int]:
        topics = [
            topic for one in described(bench).members for topic in one.target_assignment.topic_partitions
        ]
        return sorted(partition for topic in topics for partition in topic.partitions)

    bench.step(bench.asides.pop().run())
    assert targets() == list(range(MOST_AT_ONCE + 1))
    bench.call(beat("C", 2, owned={}), 1)
    bench.do_asides()

    assert targets() == list(range(MOST_AT_ONCE + 1))
    assert described(bench).assignment_epoch == described(bench).group_epoch


def test_a_target_of_a_group_that_was_deleted_is_not_that_of_the_next_one_of_its_name() -> None:
    bench = Bench()
    large(bench)
    bench.do_asides()
    bench.call(join("B", ("wide",)), 1)
    for member in "AB":
        bench.call(beat(member, -1), 1)
    bench.call(DeleteGroupsRequest(groups_names=[GROUP]), 2)
    bench.call(join("C", ("wide",)), 1)

    bench.do_asides()

    found = described(bench)
    assert found.assignment_epoch == found.group_epoch
    assert told(bench.call(beat("C", 1), 1)) == {"wide": list(range(MOST_AT_ONCE + 1))}


# ------------------------------------------------------------------------------------------------ expressions


@pytest.mark.behaviour("K20")
def test_an_expression_is_resolved_by_a_thread_and_again_when_topics_changed_and_ten_seconds_have_passed() -> (
    None
):
    bench = Bench()
    bench.call(join("A", subscribed_topic_regex="[tv]"), 1)
    bench.do_asides()
    assert told(bench.call(beat("A", 1), 1)) == {"t": [0, 1, 2, 3]}
    bench.topics.set("v", 1)
    bench.call(beat("A", 2), 1)
    assert not bench.asides
    bench.wait(10_000)

    bench.call(beat("A", 2), 1)
    bench.do_asides()

    assert told(bench.call(beat("A", 2), 1)) == {"v": [0], "t": [0, 1, 2, 3]}


def test_an_expression_is_resolved_again_by_a_coordinator_whose_clock_is_behind() -> None:
    """The time stands in the record: new topics were nobody's until the clock had caught up with it."""
    bench = Bench()
    bench.call(join("A", subscribed_topic_regex="[tv]"), 1)
    bench.do_asides()
    assert told(bench.call(beat("A", 1), 1)) == {"t": [0, 1, 2, 3]}
    bench.now_ms -= 3_600_000
    bench.move()
    bench.topics.set("v", 1)

    bench.call(beat("A", 2), 1)
    bench.do_asides()

    assert told(bench.call(beat("A", 2), 1)) == {"v": [0], "t": [0, 1, 2, 3]}
    bench.topics.set("v", None)
    bench.call(beat("A", 3), 1)
    assert not bench.asides, "not again within ten seconds"


@pytest.mark.behaviour("K20")
def test_topics_of_an_expression_that_could_not_be_stored_are_looked_for_again_after_ten_seconds() -> None:
    bench = Bench(held=True)
    bench.ask(join("A", subscribed_topic_regex="[tv]"), 1)
    bench.commit()
    bench.do_asides()
    bench.commit()
    bench.ask(beat("A", 1), 1)
    bench.commit()
    bench.topics.set("v", 1)
    bench.wait(10_000)
    bench.ask(beat("A", 2), 1)
    bench.do_asides()
    bench.fail()
    bench.wait(10_000)

    bench.ask(beat("A", 2), 1)
    bench.do_asides()
    assert bench.waiting, "the topics are stored"
    bench.commit()

    call = bench.ask(beat("A", 2), 1)
    bench.commit()
    assert told(bench.answers.pop(call)) == {"v": [0], "t": [0, 1, 2, 3]}


def test_after_a_mistake_in_the_thread_an_expression_is_resolved_again_when_ten_seconds_have_passed() -> None:
    bench = Bench()
    bench.call(join("A", subscribed_topic_regex="[tv]"), 1)
    bench.do_asides()
    bench.call(beat("A", 1), 1)
    bench.topics.set("v", 1)
    bench.wait(10_000)
    bench.call(beat("A", 2), 1)
    bench.step(bench.asides.pop().nothing())
    bench.call(beat("A", 2), 1)
    assert not bench.asides, "not at once"
    bench.wait(10_000)

    bench.call(beat("A", 2), 1)
    bench.do_asides()

    assert told(bench.call(beat("A", 2), 1)) == {"v": [0], "t": [0, 1, 2, 3]}


@pytest.mark.behaviour("K20")
def test_a_member_whose_new_expression_matches_nothing_lets_go_of_what_the_former_one_matched() -> None:
    bench = Bench()
    bench.call(join("A", subscribed_topic_regex="[tv]"), 1)
    bench.do_asides()
    for epoch in (1, 2):
        bench.call(beat("A", epoch), 1)
    bench.wait(10_000)

    bench.call(beat("A", 2, subscribed_topic_regex="nothing"), 1)
    bench.do_asides()

    assert told(bench.call(beat("A", 2), 1)) == {}
    image = bench.coordinator.shard.consumer_groups[GROUP].image
    assert set(image.regexes) == {"nothing"}, "of one that nobody has nothing is kept, in the log neither"


def test_who_joins_with_an_expression_that_is_known_has_a_part_of_what_it_matches() -> None:
    bench = Bench()
    bench.call(join("A", subscribed_topic_regex="[tv]"), 1)
    bench.do_asides()
    bench.call(beat("A", 1), 1)

    bench.call(join("B", subscribed_topic_regex="[tv]"), 1)

    assert not bench.asides
    assert told(bench.call(beat("A", 2), 1)) == {"t": [0, 1]}


def test_of_targets_that_a_thread_computed_those_of_who_has_left_meanwhile_are_not_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(draft, "MOST_AT_ONCE", 0)
    bench = Bench()
    for member in ("A", "B"):
        bench.call(join(member), 1)
    (work, *_) = bench.asides
    bench.asides.clear()
    came = work.run()
    bench.call(beat("A", -1), 1)
    bench.step(came)
    bench.do_asides()
    image = bench.coordinator.shard.consumer_groups[GROUP].image
    assert set(image.members) == {"B"} and "A" not in image.targets


def test_what_an_expression_matched_for_a_member_that_has_left_is_not_stored() -> None:
    bench = Bench()
    bench.call(join("A", subscribed_topic_regex="t"), 1)
    bench.call(beat("A", -1), 1)
    written = len(bench.log)

    bench.do_asides()

    assert len(bench.log) == written


# ---------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "request_",
    [
        beat("", 0, owned={}),
        beat("A", -3),
        beat("A", 0, owned={"t": [0]}, rebalance_timeout_ms=1, subscribed_topic_names=[]),
        join("A", instance_id=""),
        join("A", rack_id=""),
    ],
)
def test_what_a_heartbeat_may_not_say_makes_no_group(request_: ConsumerGroupHeartbeatRequest) -> None:
    bench = Bench()

    assert bench.call(request_, 1).error_code == ErrorCode.INVALID_REQUEST
    assert not bench.log and described(bench).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_deletion_meets_a_group_that_is_being_joined_as_one_that_is_not_empty() -> None:
    bench = Bench()
    bench.call(join("A"), 1)
    bench.call(beat("A", -1), 1)
    bench.held = True
    bench.ask(join("B"), 1)

    (row,) = bench.call(DeleteGroupsRequest(groups_names=[GROUP]), 2).results

    assert row.error_code == ErrorCode.NON_EMPTY_GROUP
    bench.commit()
    assert [one.member_id for one in described(bench).members] == ["B"]


def test_a_join_meets_a_group_that_is_being_deleted_when_it_is_gone() -> None:
    bench = Bench()
    bench.call(join("A"), 1)
    bench.call(beat("A", -1), 1)
    bench.held = True
    deleted = bench.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)
    joins = bench.ask(join("B"), 1)
    committed = bench.ask(commit_request(5, "", -1, "t", 0, GROUP), 8)
    bench.held = False
    while bench.waiting:
        bench.commit()

    assert bench.answers.pop(deleted).results[0].error_code == ErrorCode.NONE
    (row,) = bench.answers.pop(committed).topics[0].partitions
    assert row.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.answers.pop(joins).member_epoch == 1


def test_a_commit_to_a_group_that_is_being_made_does_not_make_another() -> None:
    bench = Bench(held=True)
    joins = bench.ask(join("A"), 1)
    commits = bench.ask(commit_request(5, "", -1, "t", 0, GROUP), 8)
    bench.commit()
    bench.commit()
    assert bench.answers.pop(joins).error_code == ErrorCode.NONE
    bench.answers.pop(commits)

    (row,) = bench.call(ListGroupsRequest(), 5).groups

    assert (row.group_type, row.group_state) == ("consumer", "Stable")


def test_an_empty_group_without_offsets_is_removed_by_the_check_and_one_with_members_never() -> None:
    bench = Bench(consumer_session_timeout_ms=10**9)
    bench.call(join("A"), 1)
    bench.wait(bench.settings.offsets_retention_check_interval_ms)
    assert described(bench).error_code == ErrorCode.NONE
    bench.call(beat("A", -1), 1)

    bench.wait(bench.settings.offsets_retention_check_interval_ms)

    assert described(bench).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert not bench.loaded().consumer_groups


def test_offsets_of_a_topic_that_a_group_reads_never_expire_and_others_do() -> None:
    bench = Bench(consumer_session_timeout_ms=10**9, offsets_retention_ms=1_000)
    bench.call(join("A"), 1)
    for topic in ("t", "u"):
        request = commit_request(5, "A", 1, topic, 0, GROUP)
        assert isinstance(request, OffsetCommitRequest)
        bench.call(request, 9)

    bench.wait(bench.settings.offsets_retention_check_interval_ms)

    assert set(bench.loaded().offsets.by_group[GROUP]) == {("t", 0)}


def test_a_classic_group_of_more_members_than_a_turn_converts_stays_classic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of three thousand the turn that begins the conversion took 75 ms, and so did the one that ends it."""
    read: list[bytes] = []

    def counted(data: bytes) -> Any:
        read.append(data)
        return read_subscription(data)

    monkeypatch.setattr(upgrading, "read_subscription", counted)
    monkeypatch.setattr(upgrading, "MOST_CONVERTED", 5)
    for count, is_converted in ((6, False), (5, True)):
        bench = Bench()
        bench.stable(count)
        for member in bench.group.members.values():
            member.assignment = b""

        answer: Any = bench.call(join("new"), 1)

        if is_converted:
            assert answer.error_code == 0 and len(read) == 1, "what all say is read once"
            continue
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND and read == []
        assert answer.error_message.endswith("it has more than 5 members.")
        assert bench.state() == "Stable"


def test_what_a_former_owner_had_is_its_successors_whichever_record_comes_first() -> None:
    """Compaction leaves what each member had last, in any order: of a partition that counts as free two members would read."""
    image, topic = ConsumerImage(), bytes(16)
    has = Current(1, 1, MemberState.STABLE, {topic: (0,)}, NOTHING)
    member = Subscriber("i", None, "c", "/", ("t",), "", 1_000, None, None)
    for name in ("former", "present"):
        image.replay(MemberRecord(GROUP, name, member))
        image.replay(CurrentRecord(GROUP, name, has))
    image.replay(CurrentRecord(GROUP, "former", None))
    image.replay(MemberRecord(GROUP, "former", None))
    assert not image.is_free(topic, 0) and image.static_members == {"i": "present"}
    image.replay(CurrentRecord(GROUP, "present", None))
    image.replay(MemberRecord(GROUP, "present", None))
    assert image.is_free(topic, 0) and not image.static_members


def test_a_group_of_which_an_older_classic_record_was_left_is_one_of_the_new_protocol() -> None:
    """Its tombstone was compacted away, and a replica that was behind may have the record still."""
    bench = Bench()
    bench.call(join("A"), 1)
    stored = ClassicGroup(GROUP, bench.now_ms).as_stored(bench.now_ms, {})
    bench.log.insert(0, (*encode(GroupRecord(GroupKey(GROUP), stored)), NO_PRODUCER))
    bench.move()
    assert [one.member_id for one in described(bench).members] == ["A"]


def test_who_waits_for_its_group_when_the_coordinator_moves_is_answered_once() -> None:
    bench = Bench(held=True)
    first, waits = bench.ask(join("A"), 1), bench.ask(join("B"), 1)
    bench.step(Unloaded())
    told_to = [bench.answers.pop(call).error_code for call in (first, waits)]  # type: ignore[attr-defined]
    assert told_to == [ErrorCode.NOT_COORDINATOR] * 2
    assert len(bench.waiting) == 1, "nothing is appended any more"
