"""Members of groups take a bounded part of a broker's memory, and give back what they took."""

import tracemalloc
from typing import Any

import pytest

from odradek.coordinator import member_memory
from odradek.coordinator.bounded_memory import SAID_AGAIN_MS, of_text
from odradek.coordinator.consumer_image import size_bytes_of
from odradek.coordinator.later import BYTES_OF_A_ROW, Later
from odradek.coordinator.member_memory import LEAST_OF_A_MEMBER, MemberMemory, of_assignment, of_names
from odradek.coordinator.shard import Shard
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.coordinator.consumers import beat, join, subscription
from tests.coordinator.groups import READS_T, Bench, join_request

# What clients make of these is in decision 0072.
FULL = ErrorCode.COORDINATOR_NOT_AVAILABLE
WAIT = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # to ConsumerGroupHeartbeat
KB = 1_000
LARGE = {"range": READS_T + b"x" * 300 * KB}


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_memory, "MOST_BYTES", 1_000 * KB)
    monkeypatch.setattr(member_memory, "MOST_BYTES_OF_NEW", 900 * KB)


def held_by(shard: Shard) -> int:
    """Looked at one by one, what is counted as it comes and goes."""
    found = sum(shard.brought.values())
    for group in shard.groups.values():
        names = of_text(group.group_id, group.protocol_type or "")
        of_group = sum(
            max(LEAST_OF_A_MEMBER, one.weighed() + names + len(one.assignment))
            for one in group.members.values()
        )
        assert group.size_bytes == of_group, group.group_id
        found += of_group
        found += sum(
            member_memory.BYTES_OF_AN_ID + of_text(group.group_id, name) for name in group.pending_ids
        )
    for stored in shard.stored.groups.values():
        found += sum(len(one.subscription) + len(one.assignment) for one in stored.members)
    for group_id, image in shard.stored.consumer_groups.items():
        found += sum(of_text(group_id, name) + size_bytes_of(one) for name, one in image.members.items())
        found += sum(map(of_assignment, image.targets.values()))
        found += sum(
            of_assignment(one.assigned) + of_assignment(one.revoking) for one in image.current.values()
        )
        found += sum(of_names(one.topics) for one in image.regexes.values())
    return found


def enter(bench: Bench, group: str, protocols: dict[str, bytes] = LARGE) -> int:
    """A member that comes without an id, whose answer waits; or its error."""
    call = bench.ask(join_request(group=group, protocols=protocols), 3)
    answer: Any = bench.answers.pop(call, None)
    return 0 if answer is None else int(answer.error_code)


def test_who_brings_more_than_there_is_room_for_is_to_come_again_and_has_room_when_others_went() -> None:
    bench = Bench(initial_rebalance_delay_ms=60_000)
    assert [enter(bench, name) for name in "abc"] == [0, 0, FULL]
    assert "c" not in bench.coordinator.shard.groups, "nothing is left of who was refused"

    bench.wait(300_000)  # whoever joined for the first time and stays silent is dropped

    assert bench.coordinator.shard.held_bytes == held_by(bench.coordinator.shard) == 0
    assert enter(bench, "c") == 0


def test_members_of_one_group_have_a_bound_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its leader is told what they offer in one answer."""
    monkeypatch.setattr(member_memory, "MOST_BYTES", 9_000 * KB)
    monkeypatch.setattr(member_memory, "MOST_BYTES_OF_NEW", 9_000 * KB)
    monkeypatch.setattr(member_memory, "MOST_BYTES_OF_A_GROUP", 700 * KB)
    monkeypatch.setattr(member_memory, "MOST_BYTES_OF_NEW_IN_A_GROUP", 620 * KB)
    bench = Bench(initial_rebalance_delay_ms=3_000, max_append_bytes=10_000 * KB)
    first, second = bench.new_member(protocols=LARGE), bench.new_member(protocols=LARGE)
    assert enter(bench, "g") == FULL
    assert enter(bench, "another", {"range": READS_T}) == 0
    bench.wait(10_000)
    answer: Any = bench.answers.pop(first[1])
    assert sum(len(one.metadata) for one in answer.members) < 620 * KB
    generation = answer.generation_id
    bench.answers.pop(second[1])
    bench.sync(second[0], generation)
    synced: Any = bench.answers.pop(bench.sync(first[0], generation, {second[0]: b"y" * 90 * KB}))
    assert synced.error_code == 0, "what is assigned is bounded by its record"

    again: Any = bench.answers.pop(bench.join(first[0], protocols={"range": LARGE["range"] + bytes(10 * KB)}))
    assert again.error_code == FULL
    bench.leave(second[0])
    assert enter(bench, "g") == 0
    assert bench.coordinator.shard.held_bytes == held_by(bench.coordinator.shard)


def test_members_of_one_consumer_group_have_the_same_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_memory, "MOST_BYTES_OF_NEW_IN_A_GROUP", 3 * LEAST_OF_A_MEMBER)
    bench = Bench()
    answers = [bench.call(join(name), 1) for name in "abc"]
    assert [one.error_code for one in answers] == [0, 0, WAIT]
    assert "memory" in answers[2].error_message


def test_a_thousand_members_of_twenty_kilobytes_by_two_protocols_are_a_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    bench = Bench(initial_rebalance_delay_ms=60_000)
    offered = {name: READS_T + bytes(20 * KB) for name in ("range", "cooperative-sticky")}
    assert [enter(bench, "g", offered) for _ in range(1_000)] == [0] * 1_000


@pytest.mark.parametrize(
    "question", [DescribeGroupsRequest(groups=["g"]), ConsumerGroupDescribeRequest(group_ids=["c"])]
)
def test_a_thread_tells_what_few_members_with_much_offer(
    question: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    bench = Bench(max_append_bytes=10_000 * KB)
    bench.stable(1, protocols={"range": READS_T + bytes(101 * BYTES_OF_A_ROW)})
    names = [f"{number}{'x' * 20 * KB}" for number in range(101)]
    request = join("a", tuple(names))
    request.group_id = "c"
    assert bench.call(request, 1).error_code == 0
    version = 1 if isinstance(question, ConsumerGroupDescribeRequest) else 5
    answer: Any = bench.call(question, version)
    assert isinstance(answer, Later)
    gone = beat("a", -1)
    gone.group_id = "c"
    assert bench.call(gone, 1).error_code == 0
    assert len(answer.make().groups[0].members) == 1, "as it was when it was asked"  # type: ignore[attr-defined]


def test_a_thread_tells_a_leader_what_few_members_with_much_offer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    bench = Bench()
    _, call = bench.new_member(protocols={"range": READS_T + bytes(101 * BYTES_OF_A_ROW)})
    answer: Any = bench.answers.pop(call)
    assert isinstance(answer, Later) and len(answer.make().members) == 1  # type: ignore[attr-defined]


def test_who_asks_for_an_id_with_what_there_is_no_room_for_is_given_none() -> None:
    bench = Bench()
    members = [bench.new_member(group="a", protocols=LARGE), bench.new_member(group="b", protocols=LARGE)]
    assert len(members) == 2
    refused = bench.call(join_request(group="c", protocols=LARGE), 9)
    assert (refused.error_code, refused.member_id) == (FULL, "")
    assert not bench.coordinator.shard.pending_ids


def test_a_member_that_brings_no_more_than_before_is_not_asked_for_room() -> None:
    bench = Bench(initial_rebalance_delay_ms=0, max_append_bytes=10_000 * KB)
    (member,) = bench.stable(1, protocols=LARGE)
    taken = bench.coordinator.shard.held_bytes
    assert taken > 600 * KB, "what it offers, and what is stored of that"
    assert enter(bench, "b", {"range": b"x" * 200 * KB}) == 0
    assert enter(bench, "c", {"range": b"x" * 200 * KB}) == FULL

    again = bench.answers.pop(bench.join(member, protocols={"range": LARGE["range"][:-1]}))
    assert again.error_code == 0
    smaller = bench.answers.pop(bench.join(member, protocols={"range": READS_T}))
    assert smaller.error_code == 0
    more = bench.answers.pop(bench.join(member, protocols={"range": b"x" * 900 * KB}))
    assert more.error_code == FULL


def test_an_id_that_nobody_has_is_told_so_though_there_is_no_room() -> None:
    bench = Bench()
    bench.stable(1)
    unknown = bench.answers.pop(bench.join("nobody", protocols={"range": b"x" * 2_000 * KB}))
    assert unknown.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_what_is_kept_for_members_that_are_there_is_not_given_to_new_ones() -> None:
    bench = Bench()
    (member,) = bench.stable(1)
    assert enter(bench, "b", {"range": b"x" * 850 * KB}) == 0
    assert enter(bench, "c", {"range": b"x" * 80 * KB}) == FULL
    grown = bench.answers.pop(bench.join(member, protocols={"range": READS_T + b"x" * 80 * KB}))
    assert grown.error_code == 0


def test_assignments_count_and_a_leader_whose_are_too_large_assigns_again_when_there_is_room() -> None:
    bench = Bench(max_append_bytes=10_000 * KB)
    member, call = bench.new_member()
    generation = bench.answers.pop(call).generation_id  # type: ignore[attr-defined]
    other = bench.call(join_request(group="b", protocols={"range": b"x" * 800 * KB}), 3)
    assignment = {member: b"y" * 300 * KB}

    assert bench.answers.pop(bench.sync(member, generation, assignment)).error_code == FULL  # type: ignore[attr-defined]
    leave = LeaveGroupRequest(group_id="b", members=[MemberIdentity(member_id=other.member_id)])
    assert bench.call(leave, 5).error_code == 0
    again = bench.answers.pop(bench.join(member))
    synced = bench.answers.pop(bench.sync(member, again.generation_id, assignment))  # type: ignore[attr-defined]
    assert (synced.error_code, synced.assignment) == (0, assignment[member])  # type: ignore[attr-defined]
    assert bench.coordinator.shard.held_bytes == held_by(bench.coordinator.shard) > 600 * KB


def test_what_a_member_was_assigned_makes_no_room_for_what_it_brings() -> None:
    bench = Bench(max_append_bytes=10_000 * KB)
    member, call = bench.new_member()
    generation = bench.answers.pop(call).generation_id  # type: ignore[attr-defined]
    assigned = bench.sync(member, generation, {member: b"y" * 300 * KB})
    assert bench.answers.pop(assigned).error_code == 0  # type: ignore[attr-defined]
    assert enter(bench, "b", {"range": b"x" * 250 * KB}) == 0
    more = bench.answers.pop(bench.join(member, protocols={"range": READS_T + b"x" * 200 * KB}))
    assert more.error_code == FULL


def test_a_member_of_kip_848_is_refused_by_the_same_rule() -> None:
    bench = Bench(max_append_bytes=10_000 * KB)
    names = tuple(f"{number}{'x' * 25 * KB}" for number in range(16))
    first = bench.call(join("a", names), 1)
    assert first.error_code == 0
    assert enter(bench, "classic", {"range": b"x" * 450 * KB}) == 0
    refused = bench.call(join("b", names), 1)
    assert refused.error_code == WAIT and "memory" in refused.error_message
    assert list(bench.coordinator.shard.consumer_groups["g"].image.members) == ["a"]
    assert bench.call(beat("a", first.member_epoch, subscribed_topic_names=list(names)), 1).error_code == 0
    more = bench.call(
        beat("a", first.member_epoch, subscribed_topic_names=[*names, *(one + "y" for one in names)]), 1
    )
    assert more.error_code == WAIT

    assert bench.call(beat("a", -1), 1).error_code == 0

    assert bench.call(join("b", names), 1).error_code == 0
    assert bench.coordinator.shard.held_bytes == held_by(bench.coordinator.shard)


def test_what_members_take_goes_with_them_when_their_group_is_converted_and_back() -> None:
    bench = Bench(initial_rebalance_delay_ms=3_000)
    shard = bench.coordinator.shard
    protocols = {"range": subscription()}
    classic, parked = bench.new_member(protocols=protocols)
    assert parked not in bench.answers
    assert bench.call(join("B"), 1).error_code == 0
    image = shard.consumer_groups["g"].image
    assert set(image.members) == {classic, "B"}
    assert shard.held_bytes == held_by(shard)
    assert image.copy().held_bytes == image.held_bytes > 0

    assert bench.call(beat("B", -1), 1).error_code == 0
    assert set(bench.group.members) == {classic}
    assert shard.held_bytes == held_by(shard)


def test_all_coordinators_of_a_broker_have_one_bound_and_who_hands_over_gives_its_part_back() -> None:
    memory = MemberMemory()
    one, other = Bench(memory=memory), Bench(memory=memory)
    assert [enter(one, "a"), enter(one, "b"), enter(other, "c")] == [0, 0, FULL]
    assert memory.size_bytes == one.coordinator.shard.held_bytes > 600 * KB
    one.coordinator.tables()
    assert memory.size_bytes == 0
    assert enter(other, "c") == 0
    assert memory.size_bytes == other.coordinator.shard.held_bytes


def test_what_is_loaded_counts_and_is_kept_however_much_it_is() -> None:
    bench = Bench(max_append_bytes=10_000 * KB)
    (member,) = bench.stable(1, protocols=LARGE)
    bench.move()
    shard = bench.coordinator.shard
    assert shard.held_bytes == held_by(shard) > 600 * KB
    assert bench.heartbeat(member) == 0
    assert enter(bench, "b") == FULL


def test_the_operator_is_told_once_a_minute_how_many_were_refused() -> None:
    bench = Bench()
    assert [enter(bench, str(number)) for number in range(5)] == [0, 0, FULL, FULL, FULL]
    assert len(bench.lines) == 1 and "1 times so far" in bench.lines[0]
    bench.now_ms += SAID_AGAIN_MS
    assert enter(bench, "x") == FULL
    assert len(bench.lines) == 2 and "4 times so far" in bench.lines[1]


def test_a_group_whose_ids_nobody_used_is_forgotten_with_the_last_of_them() -> None:
    bench = Bench()
    shard = bench.coordinator.shard
    for number in range(3):
        bench.call(join_request(group=f"{number}{'x' * 30_000}", session_ms=6_000), 9)
    assert len(shard.groups) == 3 and shard.held_bytes == held_by(shard) > 90 * KB
    bench.wait(6_000)
    assert (len(shard.groups), shard.held_bytes) == (0, 0)


def test_a_group_with_offsets_outlives_the_ids_that_nobody_used() -> None:
    bench = Bench()
    bench.answers.pop(bench.commit_offset(5))
    bench.call(join_request(session_ms=6_000), 9)
    bench.wait(6_000)
    assert bench.state() == "Empty"


@pytest.mark.parametrize(
    "filling",
    [
        pytest.param(("", 100), id="little"),
        pytest.param(("", LEAST_OF_A_MEMBER), id="metadata"),
        pytest.param(("x" * 8 * KB + "\N{GRINNING FACE}", 0), id="a name of four bytes a letter"),
    ],
)
def test_a_member_costs_about_what_it_is_counted_for(
    filling: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Traced, of groups with one member each."""
    monkeypatch.undo()
    name, size_bytes = filling
    bench = Bench(initial_rebalance_delay_ms=60_000)
    count = 500
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(count):
            enter(bench, f"group {number}", {f"range{name[number % 7 :]}": bytes(number % 7 + size_bytes)})
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    counted = bench.coordinator.shard.held_bytes
    assert count * LEAST_OF_A_MEMBER <= counted
    assert 0.4 < (after - before) / counted < 2


def test_a_group_goes_on_where_more_than_there_may_be_was_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its members say again is more than a record has, and an assignment of fewer members is a longer one."""
    bench = Bench()
    offered = {"range": READS_T, "cooperative-sticky": READS_T + bytes(8)}
    first, second = bench.stable(2, protocols=offered)
    bench.move()
    monkeypatch.setattr(member_memory, "MOST_BYTES", 1)
    monkeypatch.setattr(member_memory, "MOST_BYTES_OF_NEW", 1)

    assert bench.heartbeat(first) == 0
    joins = [bench.join(one, protocols=offered) for one in (first, second)]
    again = [bench.answers.pop(one) for one in joins]
    assert [one.error_code for one in again] == [0, 0]  # type: ignore[attr-defined]
    leader, generation = again[0].leader, again[0].generation_id  # type: ignore[attr-defined]
    synced = bench.answers.pop(bench.sync(leader, generation, {first: b"y" * 500, second: b"z" * 500}))
    assert synced.error_code == 0  # type: ignore[attr-defined]
    assert enter(bench, "new", offered) == FULL
    assert bench.coordinator.shard.held_bytes == held_by(bench.coordinator.shard)


def test_a_small_classic_member_of_a_group_of_kip_848_goes_on_where_more_than_there_may_be_was_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It says what it owns whenever it joins again, and that is more when another member has gone."""
    bench = Bench()
    classic, _ = bench.new_member(protocols={"range": subscription()})
    assert bench.call(join("B"), 1).error_code == 0
    monkeypatch.setattr(member_memory, "MOST_BYTES", 1)
    monkeypatch.setattr(member_memory, "MOST_BYTES_OF_NEW", 1)

    owned = {"range": subscription(owned={"t": [0, 1, 2, 3]})}
    again = bench.answers.pop(bench.join(classic, protocols=owned))
    assert again.error_code == 0  # type: ignore[attr-defined]
    large = {"range": owned["range"] + bytes(LEAST_OF_A_MEMBER)}
    assert bench.answers.pop(bench.join(classic, protocols=large)).error_code == FULL  # type: ignore[attr-defined]
    assert bench.coordinator.shard.held_bytes == held_by(bench.coordinator.shard)


def test_a_static_member_that_restarts_is_back_where_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    offered = {"range": READS_T, "cooperative-sticky": READS_T + bytes(8)}
    joined = bench.answers.pop(bench.join(instance="i", protocols=offered))
    synced = bench.sync(joined.member_id, joined.generation_id, {joined.member_id: b"x"})  # type: ignore[attr-defined]
    assert bench.answers.pop(synced).error_code == 0  # type: ignore[attr-defined]
    bench.move()
    monkeypatch.setattr(member_memory, "MOST_BYTES", 1)
    monkeypatch.setattr(member_memory, "MOST_BYTES_OF_NEW", 1)

    back = bench.answers.pop(bench.join(instance="i", protocols=offered))
    assert back.error_code == 0 and back.member_id != joined.member_id  # type: ignore[attr-defined]
    assert bench.answers.pop(bench.join(instance="j", protocols=offered)).error_code == FULL  # type: ignore[attr-defined]
    assert bench.coordinator.shard.held_bytes == held_by(bench.coordinator.shard)


def test_an_application_that_restarts_where_there_is_no_room_is_back_when_its_former_sessions_ended() -> None:
    """Under new ids, and without having left."""
    bench = Bench(initial_rebalance_delay_ms=0)
    brings = {"range": READS_T + b"x" * 30 * KB}
    count = 20
    for number in range(count):
        assert bench.call(join_request(group=str(number), protocols=brings), 3).error_code == 0
    assert [enter(bench, str(number), brings) for number in range(count)].count(FULL) > count // 2
    bench.wait(300_000)
    shard = bench.coordinator.shard
    assert shard.held_bytes == held_by(shard) == 0
    again = [bench.call(join_request(group=str(number), protocols=brings), 3) for number in range(count)]
    assert [one.error_code for one in again] == [0] * count


@pytest.mark.parametrize("error", [None, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.REQUEST_TIMED_OUT])
def test_what_is_on_its_way_to_the_log_counts_until_its_fate_is_known(error: ErrorCode | None) -> None:
    bench = Bench(held=True, max_append_bytes=10_000 * KB)
    shard = bench.coordinator.shard
    names = [f"{number}{'x' * 25 * KB}" for number in range(16)]

    def enters(group: str) -> int:
        request = join("a", tuple(names))
        request.group_id = group
        answer: Any = bench.answers.pop(bench.ask(request, 1), None)
        return 0 if answer is None else int(answer.error_code)

    assert [enters(group) for group in "abc"] == [0, 0, WAIT]
    assert shard.held_bytes == held_by(shard) > 800 * KB
    if error is None:
        bench.commit()
        bench.commit()
        assert shard.held_bytes == held_by(shard) > 800 * KB
        return
    bench.fail(error)
    if error is ErrorCode.REQUEST_TIMED_OUT:
        assert enters("c") == WAIT, "the records may be committed yet"
        bench.commit()
        assert shard.held_bytes == held_by(shard) > 800 * KB
    else:
        assert shard.held_bytes == held_by(shard)
        assert enters("c") == 0


def test_assignments_on_their_way_to_the_log_count_and_those_of_others_are_not_kept() -> None:
    bench = Bench(held=True, max_append_bytes=10_000 * KB)
    shard = bench.coordinator.shard
    member, call = bench.new_member()
    generation = bench.answers.pop(call).generation_id  # type: ignore[attr-defined]
    bench.sync(member, generation, {member: b"y" * 500 * KB, "nobody": b"z" * 5_000 * KB})
    assert shard.brought and held_by(shard) == shard.held_bytes < 600 * KB
    assert enter(bench, "b", {"range": b"x" * 450 * KB}) == FULL
    bench.commit()
    assert not shard.brought and shard.held_bytes == held_by(shard) > 1_000 * KB


def test_what_a_static_member_brings_that_is_back_counts_until_its_fate_is_known() -> None:
    bench = Bench()
    joined: Any = bench.answers.pop(bench.join(instance="i"))
    synced = bench.sync(joined.member_id, joined.generation_id, {joined.member_id: b"x"})
    assert bench.answers.pop(synced).error_code == 0  # type: ignore[attr-defined]
    bench.held = True
    back = bench.join(instance="i", protocols={"range": READS_T, "other": LARGE["range"]})
    shard = bench.coordinator.shard
    assert shard.held_bytes == held_by(shard) > 300 * KB
    bench.step_late()
    assert bench.answers.pop(back).error_code and shard.held_bytes > 300 * KB  # type: ignore[attr-defined]


def test_what_a_member_is_to_read_instead_is_refused_where_there_is_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An expression as short as the one before may name ten thousand partitions."""
    bench = Bench()
    first = bench.call(join("a", subscribed_topic_regex="zz"), 1)
    assert first.error_code == 0
    monkeypatch.setattr(member_memory, "MOST_BYTES", 1)
    assert bench.call(beat("a", first.member_epoch, subscribed_topic_regex="t."), 1).error_code == WAIT
    assert bench.call(beat("a", first.member_epoch, subscribed_topic_regex="zz"), 1).error_code == 0
    assert bench.call(beat("a", first.member_epoch, rebalance_timeout_ms=9), 1).error_code == 0
    assert bench.call(beat("a", -1), 1).error_code == 0


def test_what_came_in_the_same_step_counts() -> None:
    bench = Bench()
    shard = bench.coordinator.shard
    group = shard.group("g", bench.now_ms)
    shard.remember_id(group, "x" * 800 * KB, bench.now_ms)
    assert not shard.has_room(200 * KB, bench.now_ms, is_new=True)
    shard.forget(group)
    assert shard.has_room(200 * KB, bench.now_ms, is_new=True)


def test_a_group_that_is_gone_takes_nothing_whatever_becomes_of_it() -> None:
    bench = Bench(initial_rebalance_delay_ms=60_000)
    shard = bench.coordinator.shard
    assert enter(bench, "a") == 0
    group = shard.groups["a"]
    shard.forget(group)
    assert shard.held_bytes == 0
    group.remove(next(iter(group.members)))
    assert shard.held_bytes == 0


@pytest.mark.parametrize("bytes_left", [LEAST_OF_A_MEMBER + 1_000, LEAST_OF_A_MEMBER - 1])
def test_there_is_room_for_a_new_member_if_there_is_for_what_the_least_counts(
    bytes_left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(initial_rebalance_delay_ms=60_000)
    held = bench.coordinator.shard.held_bytes
    monkeypatch.setattr(member_memory, "MOST_BYTES_OF_NEW", held + bytes_left)
    assert enter(bench, "new", {"range": READS_T}) == (0 if bytes_left >= LEAST_OF_A_MEMBER else FULL)


def test_a_new_member_of_kip_848_gets_nothing_of_what_is_kept_for_those_that_are_there() -> None:
    bench = Bench(initial_rebalance_delay_ms=60_000)
    first = bench.call(join("a"), 1)
    assert enter(bench, "classic", {"range": b"x" * 880 * KB}) == 0
    names = [f"{number}{'x' * 25 * KB}" for number in range(2)]
    assert bench.call(join("b", tuple(names)), 1).error_code == WAIT
    assert bench.call(beat("a", first.member_epoch, subscribed_topic_names=names), 1).error_code == 0


def test_of_a_turn_on_its_way_only_what_it_adds_counts() -> None:
    bench = Bench(held=True, max_append_bytes=10_000 * KB)
    names = [f"{number}{'x' * 25 * KB}" for number in range(16)]
    call = bench.ask(join("a", tuple(names)), 1)
    bench.commit()
    epoch = bench.answers.pop(call).member_epoch  # type: ignore[attr-defined]
    shard = bench.coordinator.shard
    assert not shard.brought and shard.held_bytes == held_by(shard) > 400 * KB
    bench.ask(beat("a", epoch, subscribed_topic_names=[*names, "t"]), 1)
    assert 0 < sum(shard.brought.values()) < 10 * KB
    bench.commit()
    bench.ask(beat("a", -1), 1)
    assert not shard.brought, "who leaves brings nothing"
    bench.commit()
    assert shard.held_bytes == 0


def test_an_id_that_goes_unused_takes_no_other_one_of_its_group_with_it() -> None:
    bench = Bench()
    kept = bench.call(join_request(), 9)
    bench.call(join_request(session_ms=6_000), 9)
    left = bench.call(join_request(), 9)
    bench.wait(6_000)
    bench.leave(left.member_id)
    entered = bench.answers.pop(bench.join(kept.member_id))
    assert (entered.error_code, entered.member_id) == (0, kept.member_id)  # type: ignore[attr-defined]


def test_an_id_that_goes_unused_takes_nobody_with_it_who_waits_for_the_first_generation() -> None:
    bench = Bench(initial_rebalance_delay_ms=60_000)
    assert enter(bench, "g", {"range": READS_T}) == 0
    bench.call(join_request(session_ms=6_000), 9)
    bench.wait(6_000)
    assert (bench.state(), len(bench.group.members)) == ("PreparingRebalance", 1)


def test_a_group_that_had_members_outlives_the_ids_that_nobody_used() -> None:
    bench = Bench()
    (member,) = bench.stable(1)
    bench.answers.pop(bench.leave(member))
    bench.call(join_request(session_ms=6_000), 9)
    bench.wait(6_000)
    assert bench.state() == "Empty"


def test_a_group_whose_offsets_are_on_their_way_outlives_the_ids_that_nobody_used() -> None:
    bench = Bench(held=True)
    bench.call(join_request(session_ms=6_000), 9)
    call = bench.commit_offset(5)
    bench.wait(6_000)
    assert bench.state() == "Empty"
    bench.commit()
    assert bench.answers.pop(call) is not None and bench.state() == "Empty"


def test_a_group_whose_only_id_leaves_before_it_is_used_is_forgotten() -> None:
    bench = Bench()
    given = bench.call(join_request(), 9)
    assert bench.coordinator.shard.groups
    left = bench.answers.pop(bench.leave(given.member_id))
    assert left.error_code == 0 and not bench.coordinator.shard.groups  # type: ignore[attr-defined]


def test_a_static_member_that_is_back_counts_with_its_new_id() -> None:
    bench = Bench(initial_rebalance_delay_ms=60_000)
    bench.join(instance="i", protocols=LARGE)
    shard = bench.coordinator.shard
    group = bench.group
    group.rename(next(iter(group.members)), "x" * 1_000)
    assert shard.held_bytes == held_by(shard)


def test_long_names_of_groups_count_with_their_members() -> None:
    """Of 32 kB each, in groups that a client makes up, they took eight times as much as there may be."""
    bench = Bench(initial_rebalance_delay_ms=60_000)
    shard = bench.coordinator.shard
    long = "x" * 30 * KB
    asked = [bench.ask(join_request(group=f"{number}{long}"), 3) for number in range(100)]
    answers = [bench.answers.pop(call, None) for call in asked]
    assert 25 < answers.count(None) < 35
    assert shard.held_bytes == held_by(shard)
    bench.wait(300_000)
    assert shard.held_bytes == held_by(shard) < 100 * KB

    typed = join_request(group="typed")
    typed.protocol_type = long
    bench.ask(typed, 3)
    assert shard.held_bytes == held_by(shard) > 30 * KB


def test_long_names_of_groups_of_kip_848_count_with_their_members() -> None:
    bench = Bench()
    shard = bench.coordinator.shard
    requests = [join("a") for _ in range(100)]
    for number, request in enumerate(requests):
        request.group_id = f"{number}{'x' * 30 * KB}"
    errors = [bench.call(request, 1).error_code for request in requests]
    assert 25 < errors.count(0) < 35 and set(errors) == {0, WAIT}
    assert shard.held_bytes == held_by(shard)


def test_who_waits_keeps_nothing_of_its_request_that_nobody_asks_for() -> None:
    """The request is kept to be refused, should that be; eight megabytes of a member that is no leader were kept with it."""
    bench = Bench(initial_rebalance_delay_ms=0)
    first = bench.call(join_request(), 3)
    joining = join_request()
    joining.reason = "x" * 30_000
    waits = bench.ask(joining, 3)
    bench.join(first.member_id)
    second: Any = bench.answers.pop(waits)
    rows = [SyncGroupRequestAssignment(member_id="z", assignment=b"z" * 8_000 * KB)]
    syncing = SyncGroupRequest(
        group_id="g", generation_id=second.generation_id, member_id=second.member_id, assignments=rows
    )
    assert bench.ask(syncing, 4) not in bench.answers
    assert (syncing.assignments, joining.reason) == ([], None)
