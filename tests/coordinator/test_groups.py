"""Rules of classic groups that no trace shows whole: what 3.9 forgets, limits, and what an append that fails leaves."""

from collections.abc import Iterator
from typing import Any

import pytest

from odradek.coordinator import joining
from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.group_states import TRANSITIONS, GroupState, IllegalGroupTransition
from odradek.coordinator.later import Later
from odradek.coordinator.member import Client, Member
from odradek.coordinator.partitioning import partition_of, utf16_units
from odradek.coordinator.settings import (
    MINUTE_MS,
    MOST_PENDING_IDS,
    MOST_PROTOCOLS,
    NEW_MEMBER_JOIN_TIMEOUT_MS,
)
from odradek.coordinator.subscription import subscribed_topics
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.describe_groups import DescribeGroupsRequest
from odradek.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from odradek.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from odradek.protocol.messages.sync_group import SyncGroupRequest
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.coordinator.groups import GROUP, READS_T, Bench, join_request


def test_only_moves_of_the_table_are_made() -> None:
    bench = Bench()
    bench.stable()

    with pytest.raises(IllegalGroupTransition, match=r"Stable -> Empty; legal: PreparingRebalance"):
        bench.group.move_to(GroupState.EMPTY, bench.now_ms)
    assert set(TRANSITIONS) == set(GroupState)


@pytest.mark.parametrize(
    ("name", "hashed"), [("", 0), ("a", 97), ("ab", 97 * 31 + 98), ("\U0001f600", 0xD83D * 31 + 0xDE00)]
)
def test_a_group_belongs_to_the_partition_of_javas_hash(name: str, hashed: int) -> None:
    assert partition_of(name, 50) == (hashed & 0x7FFFFFFF) % 50
    assert partition_of("polygenelubricants", 50) == 0  # its hash is -2^31
    assert utf16_units("a\U0001f600") == 3


@pytest.mark.behaviour("G11")
def test_below_version_7_a_refused_join_has_an_empty_protocol_and_from_there_on_none() -> None:
    bench = Bench()

    old = bench.call(join_request("made-up"), 6)
    new = bench.call(join_request("made-up"), 7)

    assert (old.protocol_name, new.protocol_name) == ("", None)
    assert old.encode(6) and new.encode(7)
    assert new.member_id == "made-up"
    assert bench.call(join_request(kind=""), 9).member_id == ""


@pytest.mark.behaviour("G14")
def test_a_first_join_that_stays_silent_is_dropped_after_five_minutes_and_no_sooner() -> None:
    bench = Bench(initial_rebalance_delay_ms=NEW_MEMBER_JOIN_TIMEOUT_MS * 3)
    member, call = bench.new_member(session_ms=6_000, rebalance_ms=NEW_MEMBER_JOIN_TIMEOUT_MS * 3)

    bench.wait(NEW_MEMBER_JOIN_TIMEOUT_MS - 1)
    assert member in bench.group.members
    bench.wait(1)

    assert bench.answers[call].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.state() == "Empty"


@pytest.mark.behaviour("G15")
def test_a_superseded_join_and_a_superseded_sync_are_answered() -> None:
    bench = Bench()
    leader, follower = bench.stable(2)
    bench.join(leader)
    first = bench.join(follower, protocols={"range": b"changed"})
    first_sync = bench.sync(follower, bench.group.generation)
    second_sync = bench.sync(follower, bench.group.generation)

    assert bench.answers[first].error_code == 0
    assert bench.answers[first_sync].error_code == ErrorCode.NOT_COORDINATOR
    assert second_sync not in bench.answers


def test_a_leader_that_asks_again_while_its_assignment_is_stored_is_told_that_one() -> None:
    bench = Bench(held=True)
    member, call = bench.new_member()
    generation: int = bench.answers.pop(call).generation_id  # type: ignore[attr-defined]
    bench.sync(member, generation, {member: b"first"})
    again = bench.sync(member, generation, {member: b"second"})
    assert len(bench.waiting) == 1
    bench.commit()
    assert bench.answers.pop(again).assignment == b"first"  # type: ignore[attr-defined]


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_from_version_5_on_a_sync_names_the_protocol_of_its_group(missing: str) -> None:
    """KIP-559; as Apache 3.9.1, which looks at nothing else before."""
    bench = Bench()
    (member,) = bench.stable()
    named: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": "range", missing: None}
    for group in (GROUP, "unknown", ""):
        request = SyncGroupRequest(
            group_id=group, generation_id=bench.group.generation, member_id=member, **named
        )
        assert bench.call(request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    old = SyncGroupRequest(group_id=GROUP, generation_id=bench.group.generation, member_id=member)
    assert bench.call(old, 4).error_code == 0


@pytest.mark.behaviour("G26")
def test_a_group_without_members_is_empty_whatever_ids_are_pending() -> None:
    bench = Bench()
    (only,) = bench.stable()
    bench.call(join_request(), 9)

    bench.leave(only)

    assert bench.state() == "Empty"
    assert bench.call(join_request(kind="connect"), 9).error_code == ErrorCode.MEMBER_ID_REQUIRED


@pytest.mark.behaviour("G2", "G13")
def test_an_id_that_nobody_uses_holds_a_join_up_no_longer_than_its_session() -> None:
    bench = Bench()
    (member,) = bench.stable()
    bench.call(join_request(session_ms=6_000), 9)
    waits = bench.join(member)
    assert waits not in bench.answers

    bench.wait(5_999)
    assert waits not in bench.answers
    bench.wait(1)

    assert bench.answers[waits].error_code == ErrorCode.NONE


@pytest.mark.behaviour("G25")
def test_an_id_that_nobody_used_may_leave_and_holds_nobody_up_from_then_on() -> None:
    bench = Bench()
    (member,) = bench.stable()
    given = bench.call(join_request(), 9)
    waits = bench.join(member)
    assert waits not in bench.answers

    left = bench.answers.pop(bench.leave(given.member_id))

    assert [one.error_code for one in left.members] == [ErrorCode.NONE]
    assert bench.answers[waits].error_code == ErrorCode.NONE


def test_an_id_that_nobody_used_leaves_whatever_instance_is_named_with_it() -> None:
    bench = Bench()
    given = bench.call(join_request(), 9)
    leaver = MemberIdentity(member_id=given.member_id, group_instance_id="i")

    left = bench.call(LeaveGroupRequest(group_id=GROUP, members=[leaver]), 5)

    assert [one.error_code for one in left.members] == [ErrorCode.NONE]


def test_who_is_turned_away_from_a_full_group_holds_nobody_up_from_then_on() -> None:
    bench = Bench(max_size=1)
    first, surplus = (bench.call(join_request(), 9).member_id for _ in range(2))
    assert bench.answers.pop(bench.join(first)).error_code == ErrorCode.NONE
    bench.sync(first, 1, {first: b""})
    waits = bench.join(first)
    assert waits not in bench.answers

    assert bench.call(join_request(surplus), 9).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED

    assert bench.answers[waits].error_code == ErrorCode.NONE


@pytest.mark.behaviour("G17")
@pytest.mark.parametrize("says", ["Heartbeat", "OffsetCommit", "TxnOffsetCommit", "SyncGroup"])
def test_whatever_a_member_says_in_its_generation_renews_its_session(says: str) -> None:
    bench = Bench()
    (member,) = bench.stable(session_ms=10_000)
    generation = bench.group.generation
    bench.wait(6_000)
    match says:
        case "Heartbeat":
            assert bench.heartbeat(member) == 0
        case "OffsetCommit":
            bench.commit_offset(5, member=member, generation=generation)
        case "TxnOffsetCommit":
            request = TxnOffsetCommitRequest(group_id=GROUP, generation_id=generation, member_id=member)
            bench.ask(request, 3)
        case _:
            bench.sync(member, generation)

    bench.wait(9_999)
    assert bench.state() == "Stable"
    bench.wait(1)

    assert bench.state() == "Empty"


def test_a_member_that_waited_for_its_assignment_longer_than_its_session_has_one_from_there_on() -> None:
    bench = Bench()
    leader, _ = bench.new_member(rebalance_ms=60_000)
    member, _ = bench.new_member(rebalance_ms=60_000)
    bench.join(leader, rebalance_ms=60_000)
    generation = bench.group.generation
    bench.sync(member, generation)
    for _ in range(3):
        bench.wait(4_000)
        bench.heartbeat(leader)
    bench.sync(leader, generation, {member: b"all"})
    bench.wait(9_000)
    bench.heartbeat(leader)
    bench.wait(999)
    assert bench.state() == "Stable"

    bench.wait(1)

    assert bench.heartbeat(member, generation) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_waited_for_its_assignment_longer_than_its_session_has_one_from_the_next_rebalance_on() -> (
    None
):
    bench = Bench()
    leader, _ = bench.new_member(rebalance_ms=60_000)
    member, _ = bench.new_member(rebalance_ms=60_000)
    bench.join(leader, rebalance_ms=60_000)
    waits = bench.sync(member, bench.group.generation)
    for _ in range(3):
        bench.wait(4_000)
        bench.heartbeat(leader)
    _, third = bench.new_member(rebalance_ms=60_000)
    assert bench.answers.pop(waits).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    again = bench.join(leader, rebalance_ms=60_000)

    bench.wait(9_999)
    assert again not in bench.answers and third not in bench.answers
    bench.wait(1)

    assert again in bench.answers and third in bench.answers
    assert member not in {one.member_id for one in bench.answers[again].members}


@pytest.mark.behaviour("G12")
def test_a_first_rebalance_waits_once_more_where_somebody_came_meanwhile_and_not_where_nobody_did() -> None:
    bench = Bench(initial_rebalance_delay_ms=3_000)
    bench.new_member(rebalance_ms=60_000)
    bench.wait(1_000)
    bench.new_member(rebalance_ms=60_000)

    bench.wait(4_999)
    assert bench.state() == "PreparingRebalance"
    bench.wait(1)

    assert bench.state() == "CompletingRebalance"


@pytest.mark.behaviour("G12")
def test_the_further_wait_of_a_first_rebalance_ends_with_the_rebalance_timeout() -> None:
    bench = Bench(initial_rebalance_delay_ms=3_000)
    bench.new_member(rebalance_ms=5_000)
    bench.wait(1_000)
    bench.new_member(rebalance_ms=5_000)

    bench.wait(3_999)
    assert bench.state() == "PreparingRebalance"
    bench.wait(1)

    assert bench.state() == "CompletingRebalance"


def test_members_that_come_one_after_the_other_put_the_first_rebalance_off_to_its_timeout_and_no_further() -> (
    None
):
    bench = Bench(initial_rebalance_delay_ms=3_000)
    for _ in range(4):
        bench.new_member(rebalance_ms=10_000)
        bench.wait(2_400)
    assert bench.state() == "PreparingRebalance"

    bench.new_member(rebalance_ms=10_000)
    bench.wait(400)

    assert bench.state() == "CompletingRebalance"


def test_who_leaves_takes_the_leadership_along_only_if_it_led() -> None:
    bench = Bench()
    first, second, third = bench.stable(3)

    bench.leave(second)
    assert bench.group.leader == first
    bench.leave(first)
    assert bench.group.leader == third


def test_members_that_leave_together_are_one_rebalance_of_the_others() -> None:
    """As in 4.x. One by one, the others could have joined a generation in between whose assignment is void at once."""
    bench = Bench()
    first, second, third, fourth = bench.stable(4)
    generation = bench.group.generation
    rejoined = {one: bench.join(one) for one in (first, third, fourth)}
    assert bench.state() == "PreparingRebalance"

    left = bench.answers.pop(bench.leave(first, second, "nobody", first, third))

    assert [one.error_code for one in left.members] == [0, 0, 25, 25, 0]
    told = {one: bench.answers.pop(call) for one, call in rejoined.items()}
    assert [told[one].error_code for one in (first, third)] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2
    assert (told[fourth].error_code, told[fourth].generation_id) == (0, generation + 1)
    assert told[fourth].leader == fourth and list(bench.group.members) == [fourth]
    assert bench.group.common_protocols() == {"range"}


def test_an_instance_that_leaves_twice_in_one_request_is_known_once() -> None:
    bench = Bench()
    call = bench.join(instance="i")
    member = bench.answers.pop(call).member_id
    bench.answers.pop(bench.sync(member, 1, {}))
    leavers = [("", "i"), ("", "i"), (member, "i"), ("another", "i"), (member, None)]
    request = LeaveGroupRequest(
        group_id=GROUP, members=[MemberIdentity(member_id=one, group_instance_id=two) for one, two in leavers]
    )

    left = bench.call(request, 5)

    assert [one.error_code for one in left.members] == [0, 25, 25, 25, 25]
    assert bench.state() == "Empty" and not bench.group.static_members


def test_a_group_from_which_many_go_at_once_is_as_if_they_went_one_by_one() -> None:
    for gone in ([0], [3, 1], list(range(19)), list(range(20)), [5, 19, 2, 7, 11, 13, 4, 17, 0, 8, 9]):
        groups = []
        for removed_by in ("remove", "remove_all"):
            group = ClassicGroup(GROUP, 0)
            for at in range(20):
                member = member_of(f"m{at}", f"i{at}" if at % 3 else None, ("a", "b") if at % 2 else ("b",))
                group.add(member, "consumer")
                group.unsynced.add(member.member_id)
            ids = [f"m{at}" for at in gone]
            removed = (
                group.remove_all(ids) if removed_by == "remove_all" else [group.remove(one) for one in ids]
            )
            assert [one.member_id for one in removed] == ids
            groups.append(
                (list(group.members), group.offered, group.static_members, group.leader, group.unsynced)
            )
        assert groups[0] == groups[1]


def member_of(member_id: str, instance_id: str | None, protocols: tuple[str, ...]) -> Member:
    return Member(
        member_id=member_id,
        instance_id=instance_id,
        client=Client("c", "/"),
        rebalance_timeout_ms=1,
        session_timeout_ms=1,
        protocols=tuple((name, b"") for name in protocols),
    )


LIES = [
    b"",
    b"\0",
    b"\0\1",
    b"\0\1\xff\xff\xff\xff",
    b"\0\1\x7f\xff\xff\xff",
    b"\0\1\0\0\0\1\x7f\xff",
    b"\xff\xff" * 9,
]
LIES += [b"\0\1\0\0\0\2\0\1t", b"\0\1\0\0\0\1\0\1\xff"]


@pytest.mark.behaviour("G37")
@pytest.mark.parametrize("metadata", LIES)
def test_metadata_that_cannot_be_read_is_an_unknown_subscription_and_ends_no_join(metadata: bytes) -> None:
    assert subscribed_topics(metadata) is None
    bench = Bench()

    bench.stable(2, protocols={"range": metadata})

    request = OffsetDeleteRequest(
        group_id=GROUP,
        topics=[
            OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        ],
    )
    (row,) = bench.call(request, 0).topics[0].partitions
    assert row.error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


@pytest.mark.behaviour("G38")
def test_a_generation_that_was_handed_out_and_not_stored_is_not_used_by_the_next_coordinator() -> None:
    bench = Bench()
    leader, _ = bench.stable(2)
    stored = bench.group.generation
    bench.join(leader)
    bench.wait(10_000)  # the follower is gone, the leader knows generation stored + 1
    handed_out = bench.group.generation

    bench.move()
    assert bench.heartbeat(leader, handed_out) == ErrorCode.ILLEGAL_GENERATION
    call = bench.join(leader)
    bench.wait(10_000)

    assert handed_out == stored + 1
    assert bench.answers[call].generation_id == stored + 2


@pytest.mark.behaviour("G39")
def test_a_group_that_was_loaded_with_too_many_members_prepares_so_that_the_surplus_is_refused() -> None:
    bench = Bench()
    members = bench.stable(3)
    bench.settings = type(bench.settings)(max_size=2, initial_rebalance_delay_ms=0)

    bench.move()

    assert bench.state() == "PreparingRebalance"
    calls = [bench.join(one) for one in members]
    assert bench.answers[calls[2]].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [bench.answers[one].error_code for one in calls[:2]] == [0, 0]


@pytest.mark.behaviour("G42")
def test_the_check_removes_an_empty_group_without_offsets_and_spares_one_with_a_pending_id() -> None:
    bench = Bench()
    (only,) = bench.stable()
    bench.leave(only)
    spared = bench.call(join_request(group="spared", session_ms=15 * MINUTE_MS), 9)

    bench.wait(10 * MINUTE_MS)

    assert set(bench.coordinator.shard.groups) == {"spared"}
    assert bench.log[-1][1] is None, "a tombstone"
    assert bench.call(join_request(spared.member_id, group="spared"), 9).error_code == 0


def test_ids_cost_nothing_so_only_so_many_are_given() -> None:
    bench = Bench()
    for number in range(MOST_PENDING_IDS):
        assert bench.call(join_request(group=f"g{number}"), 9).error_code == ErrorCode.MEMBER_ID_REQUIRED

    assert bench.call(join_request(group="one more"), 9).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "one more" not in bench.coordinator.shard.groups
    bench.wait(10_000)
    given = bench.call(join_request(group="one more"), 9)
    assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert bench.coordinator.shard.pending_ids == 1
    assert bench.coordinator.shard.pending_bytes == len("one more") + len(given.member_id)


def test_ids_of_groups_with_long_names_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.call(join_request(group="a" * 1_000), 9)
    monkeypatch.setattr(joining, "MOST_PENDING_BYTES", bench.coordinator.shard.pending_bytes)
    assert bench.call(join_request(group="b"), 9).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.wait(10_000)
    assert bench.call(join_request(group="b"), 9).error_code == ErrorCode.MEMBER_ID_REQUIRED


def test_a_member_offers_so_many_protocols_and_no_more() -> None:
    """Three hundred that offered five thousand each, a hundred kilobytes, took half a second of one turn when they went."""
    bench = Bench()
    offered = {f"p{number}": READS_T for number in range(MOST_PROTOCOLS)}
    assert bench.answers.pop(bench.join(protocols=offered, version=3)).error_code == ErrorCode.NONE

    call = bench.join(protocols={**offered, "one more": READS_T}, version=3)

    assert bench.answers.pop(call).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_id_fits_a_string_whatever_the_client_is_called() -> None:
    bench = Bench()

    given = bench.call(join_request(), 9, client="\u20ac" * 10_000)

    assert given.encode(9)


@pytest.mark.parametrize("changes", [{"range": b"x"}, {"range": b"x", "other": b"y"}, {"other": b"y"}])
def test_the_protocols_in_common_follow_what_each_member_offers(changes: dict[str, bytes]) -> None:
    bench = Bench()
    both = {"range": b"x", "other": b"y"}
    leader, follower = bench.stable(2, protocols=both)
    bench.join(leader, protocols=both)
    bench.join(follower, protocols=changes)

    assert bench.group.common_protocols() == set(changes)
    newcomer = bench.call(join_request(protocols={"range": b"x"}), 9)
    taken = newcomer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert taken == ("range" in changes)
    bench.leave(follower)
    assert bench.group.common_protocols() == set(both)


class Offered(dict[str, int]):
    """May be asked for a name, and not for all of them."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("whatever anybody offers is looked at")

    items = keys = values = __iter__  # type: ignore[assignment]


def test_what_a_join_costs_does_not_grow_with_what_others_offer() -> None:
    """Each of two hundred members offered 5,000 protocols of its own: every JoinGroup looked at a million, for 200 ms."""
    bench = Bench()
    call = bench.join(instance="i")
    bench.answers.pop(bench.sync(bench.answers.pop(call).member_id, 1, {}))
    bench.group.offered = Offered(bench.group.offered)

    assert bench.answers.pop(bench.join(instance="i")).error_code == ErrorCode.NONE
    _, call = bench.new_member()

    assert call not in bench.answers and bench.state() == "PreparingRebalance"


def test_in_a_group_of_10_000_members_each_is_answered_once_and_told_that_it_fits_no_record() -> None:
    bench = Bench(initial_rebalance_delay_ms=3_000)
    calls = [bench.join(version=3, rebalance_ms=60_000) for _ in range(10_000)]
    bench.wait(6_000)
    answers = [bench.answers.pop(call) for call in calls]
    joined = [one.make() if isinstance(one, Later) else one for one in answers]
    assert {one.generation_id for one in joined} == {1}
    assert [len(one.members) for one in joined if one.members] == [10_000]

    bench.held = True
    ids = [one.member_id for one in joined]
    calls = [bench.sync(one, 1) for one in ids[1:]] + [bench.sync(ids[0], 1, dict.fromkeys(ids, b"x"))]
    other = bench.commit_offset(5, group="another")
    bench.fail(ErrorCode.MESSAGE_TOO_LARGE)
    bench.commit()

    assert {bench.answers.pop(call).error_code for call in calls} == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert bench.answers.pop(other).topics[0].partitions[0].error_code == ErrorCode.NONE
    assert bench.state() == "PreparingRebalance"


# ------------------------------------------------------------------------------------------- appends that fail


def test_nobody_hears_of_an_assignment_before_it_is_committed() -> None:
    bench = Bench(held=True)
    member, call = bench.new_member()
    sync = bench.sync(member, bench.answers[call].generation_id, {member: b"all"})

    assert sync not in bench.answers
    assert bench.state() == "CompletingRebalance"
    bench.commit()

    assert bench.answers[sync].assignment == b"all"
    assert bench.state() == "Stable"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REBALANCE_IN_PROGRESS),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_assignment_that_could_not_be_stored_makes_everybody_join_again(
    error: ErrorCode, told: ErrorCode
) -> None:
    bench = Bench(held=True)
    member, call = bench.new_member()
    generation = bench.answers[call].generation_id
    sync = bench.sync(member, generation, {member: b"all"})

    bench.fail(error)

    assert bench.answers[sync].error_code == told
    assert bench.state() == "PreparingRebalance"
    assert bench.heartbeat(member, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    again = bench.join(member)
    assert bench.answers[again].generation_id == generation + 1


@pytest.mark.behaviour("G28")
def test_a_static_member_that_came_back_takes_its_place_when_that_is_committed_and_not_before() -> None:
    bench = Bench(held=True)
    first = bench.answers.pop(bench.join(instance="i"))
    bench.sync(first.member_id, 1, {first.member_id: b"all"})
    bench.commit()

    back = bench.join(instance="i")
    assert back not in bench.answers
    assert bench.heartbeat(first.member_id) == 0, "its former incarnation is the member until then"
    bench.fail()

    assert bench.answers[back].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.heartbeat(first.member_id) == 0
    again = bench.join(instance="i")
    bench.commit()
    assert bench.answers[again].member_id != first.member_id
    assert bench.heartbeat(first.member_id) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_came_back_and_is_silent_then_goes_with_its_session() -> None:
    bench = Bench()
    first = bench.answers.pop(bench.join(instance="i"))
    bench.sync(first.member_id, 1, {first.member_id: b"all"})
    bench.wait(4_000)
    bench.answers.pop(bench.join(instance="i", session_ms=10_000))

    bench.wait(9_999)
    assert bench.state() == "Stable"
    bench.wait(1)

    assert bench.state() == "Empty"


@pytest.mark.behaviour("G28")
def test_a_static_member_that_came_back_is_known_to_the_next_coordinator() -> None:
    bench = Bench()
    first = bench.answers.pop(bench.join(instance="i"))
    bench.sync(first.member_id, 1, {first.member_id: b"all"})
    back = bench.answers.pop(bench.join(instance="i", session_ms=7_000))

    bench.move()

    assert bench.heartbeat(back.member_id) == 0
    assert bench.heartbeat(first.member_id) == ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.answers.pop(bench.sync(back.member_id, 1)).assignment == b"all"


def test_of_returns_of_one_instance_that_were_on_their_way_together_the_last_stays_also_for_the_next_coordinator() -> (
    None
):
    bench = Bench()
    joined = bench.answers.pop(bench.join(instance="one"))
    bench.answers.pop(bench.sync(joined.member_id, joined.generation_id, {joined.member_id: b"all"}))
    bench.held = True
    returns = [bench.join(instance="one") for _ in range(3)]
    for _ in returns:
        bench.commit()

    ids = [bench.answers.pop(call).member_id for call in returns]

    assert list(bench.group.members) == [ids[-1]]
    bench.move()
    assert list(bench.group.members) == [ids[-1]]


def test_a_return_that_came_between_those_of_two_others_stays_also_for_the_next_coordinator() -> None:
    """It named the id of the first, which the second had replaced: refused, and in the log, which fenced the second."""
    bench = Bench()
    joined = bench.answers.pop(bench.join(instance="one"))
    bench.answers.pop(bench.sync(joined.member_id, joined.generation_id, {joined.member_id: b"all"}))
    bench.held = True
    returns = [bench.join(instance="one"), bench.join(instance="one")]
    bench.commit()
    returns.append(bench.join(instance="one"))
    bench.commit()
    bench.commit()

    ids = [bench.answers.pop(call).member_id for call in returns]

    assert list(bench.group.members) == [ids[-1]]
    bench.move()
    assert list(bench.group.members) == [ids[-1]]


def test_static_members_that_come_back_together_are_all_known_to_the_next_coordinator() -> None:
    """A deployment restarts them all at once. The later record named the former id of the earlier one, which was
    FENCED_INSTANCE_ID at the next coordinator: clients end by that."""
    bench = Bench()
    first = bench.answers.pop(bench.join(instance="i")).member_id
    second = bench.join(instance="j")
    generation = bench.answers.pop(bench.join(first, instance="i")).generation_id
    other = bench.answers.pop(second).member_id
    bench.sync(first, generation, {first: b"some", other: b"others"})
    bench.held = True
    back, again, beside = bench.join(instance="i"), bench.join(instance="i"), bench.join(instance="j")
    bench.fail()
    bench.commit()
    bench.commit()
    assert bench.answers[back].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    ids = {"i": bench.answers.pop(again).member_id, "j": bench.answers.pop(beside).member_id}

    bench.move()

    assert bench.group.static_members == ids
    assert bench.group.leader == ids["i"]
    assert {one.member_id: one.assignment for one in bench.group.members.values()} == {
        ids["i"]: b"some",
        ids["j"]: b"others",
    }


def test_a_static_member_that_comes_back_before_the_assignment_makes_everybody_join_again() -> None:
    bench = Bench()
    first = bench.answers.pop(bench.join(instance="i")).member_id
    second = bench.join(instance="j")
    generation = bench.answers.pop(bench.join(first, instance="i")).generation_id
    member = bench.answers.pop(second).member_id
    waits = bench.sync(member, generation)

    back = bench.join(instance="i")

    assert bench.answers.pop(waits).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.state() == "PreparingRebalance" and back not in bench.answers
    bench.answers.pop(bench.join(member, instance="j"))
    assert bench.answers.pop(back).generation_id == generation + 1


def test_a_static_member_that_is_away_in_a_generation_is_not_removed_for_its_silence_in_the_one_before() -> (
    None
):
    """Its session decides (KIP-345)."""
    bench = Bench()
    away = bench.answers.pop(bench.join(instance="i", session_ms=100_000)).member_id
    leader, _ = bench.new_member()
    bench.answers.pop(bench.join(away, instance="i", session_ms=100_000))
    assert away in bench.group.unsynced
    _, third = bench.new_member()
    again = bench.join(leader)
    bench.wait(20_000)
    generation = bench.answers.pop(again).generation_id
    others = [leader, bench.answers.pop(third).member_id]
    for one in others:
        bench.sync(one, generation, {one: b"all"})

    for _ in range(5):
        bench.wait(5_000)
        for one in others:
            assert bench.heartbeat(one) == ErrorCode.NONE

    assert bench.state() == "Stable" and away in bench.group.members


def test_an_assignment_that_is_committed_when_another_generation_has_begun_is_nobodys() -> None:
    bench = Bench(held=True)
    leader, call = bench.new_member()
    generation = bench.answers.pop(call).generation_id
    first = bench.sync(leader, generation, {leader: b"all"})
    other, _ = bench.new_member()
    assert bench.answers.pop(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    bench.join(leader)
    waits = bench.sync(other, generation + 1)

    bench.commit()

    assert bench.state() == "CompletingRebalance" and waits not in bench.answers


def test_a_deletion_that_fails_leaves_the_group_as_it_was() -> None:
    from odradek.protocol.messages.delete_groups import DeleteGroupsRequest

    bench = Bench(held=True)
    bench.commit_offset(5)
    bench.commit()
    call = bench.ask(DeleteGroupsRequest(groups_names=[GROUP]), 2)
    assert bench.call(join_request(), 9).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    bench.fail()

    assert bench.answers[call].results[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.call(DescribeGroupsRequest(groups=[GROUP]), 5).groups[0].group_state == "Empty"
    assert bench.coordinator.shard.offsets.of(GROUP, ("t", 0)) is not None
