"""Who is in sync: who is proposed to join or to leave, and what the controller's answer makes of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import BrokerEpoch, LeaderEpoch
from odradek.replication.isr import (
    AWAIT_LEADERSHIP,
    ROLL_BACK,
    TRANSITIONS,
    Committed,
    IsrAnswer,
    IsrState,
    PendingExpandIsr,
    PendingShrinkIsr,
    move,
)
from odradek.replication.partition import AWAIT_LEADERSHIP_MS, REFUSED_RETRY_MS, UNSETTLED_RETRY_MS, Partition
from tests.replication.partitions import LAG_MS, Led, answer, b, expanding, leadership

STATES: list[IsrState] = [
    Committed((b(1), b(2))),
    PendingExpandIsr((b(1), b(2)), (b(3),)),
    PendingShrinkIsr((b(1), b(2)), (b(2),)),
]


@pytest.mark.parametrize(
    ("kind", "moving"),
    [
        (PendingExpandIsr, ()),
        (PendingExpandIsr, (2, 3)),  # 2 is in it
        (PendingShrinkIsr, ()),
        (PendingShrinkIsr, (3,)),  # 3 is not
        (PendingShrinkIsr, (1, 2)),  # nobody would stay
    ],
)
def test_a_change_of_the_isr_that_is_none_cannot_be_proposed(kind: type, moving: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError, match="in the ISR"):
        kind((b(1), b(2)), tuple(map(b, moving)))


@pytest.mark.parametrize("state", STATES, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("to", STATES, ids=lambda s: type(s).__name__)
def test_every_move_of_the_isr_is_in_the_table_or_is_refused(state: IsrState, to: IsrState) -> None:
    if type(to) in TRANSITIONS[type(state)]:
        assert move(state, to, what="t-0") is to
    else:
        with pytest.raises(
            AssertionError, match=f"t-0: {type(state).__name__} -> {type(to).__name__}; legal: "
        ):
            move(state, to, what="t-0")


def test_the_maximal_isr_counts_whoever_could_be_elected() -> None:
    committed, expanding, shrinking = STATES
    assert committed.maximal_isr == (1, 2)
    assert expanding.maximal_isr == (1, 2, 3)
    assert expanding.isr == (1, 2)
    assert shrinking.maximal_isr == (1, 2)
    assert isinstance(shrinking, PendingShrinkIsr)
    assert shrinking.proposed_isr == (1,)


# ---------------------------------------------------------------------------------------------------- in sync


@pytest.mark.behaviour(132, 156)
def test_a_follower_joins_at_the_mark_and_not_before(tmp_path: Path) -> None:
    led = Led(tmp_path, isr=(1, 2))
    led.append(b"a", b"b")
    led.fetched(2, 2)
    assert led.partition.high_watermark == 2
    led.fetched(3, 1)
    assert led.proposed() is None
    led.fetched(3, 2)
    assert led.proposed() == (1, 2, 3)


def test_a_follower_at_the_mark_joins_although_it_was_never_at_the_end(tmp_path: Path) -> None:
    """Another member holds the mark back, and the load does not pause for whoever wants to join."""
    led = Led(tmp_path, isr=(1, 2))
    led.append(b"a", b"b", b"c")
    led.fetched(2, 1)
    assert led.partition.high_watermark == 1
    led.append(b"d")
    led.fetched(3, 1)
    assert led.proposed() == (1, 2, 3)


@pytest.mark.behaviour(156)
def test_a_follower_below_the_start_of_the_epoch_does_not_join_although_it_is_at_the_mark(
    tmp_path: Path,
) -> None:
    """KAFKA-7128: the mark of a new leader lags. Below the start of its epoch the follower may hold a fork."""
    led = Led(tmp_path, isr=(1, 2))
    led.append(b"a", b"b")
    led.lead((1, 2))
    assert led.partition.leader_epoch_start_offset == 2
    assert led.partition.high_watermark == 0
    led.fetched(3, 1)
    assert led.proposed() is None
    led.fetched(3, 2)
    assert led.proposed() == (1, 2, 3)


@pytest.mark.behaviour(156)
def test_a_dead_broker_is_not_proposed_however_far_it_is(tmp_path: Path) -> None:
    led = Led(tmp_path, isr=(1, 2))
    led.live.discard(3)
    led.fetched(3, 0)
    assert led.proposed() is None
    led.live.add(3)
    led.partition.propose_again(led.now_ms)
    assert led.proposed() == (1, 2, 3)


def test_a_follower_not_heard_of_for_the_lag_time_is_not_proposed(tmp_path: Path) -> None:
    led = Led(tmp_path, isr=(1, 2))
    led.live.discard(3)
    led.fetched(3, 0)
    led.live.add(3)
    led.now_ms += LAG_MS + 1
    led.partition.propose_again(led.now_ms)
    assert led.proposed() is None


def test_a_follower_whose_session_goes_on_without_naming_the_partition_is_heard_of(tmp_path: Path) -> None:
    led = Led(tmp_path, isr=(1, 2))
    led.live.discard(3)
    led.fetched(3, 0)
    led.live.add(3)
    led.now_ms += LAG_MS + 1
    led.sources[3].last_fetch_time_ms = led.now_ms - LAG_MS
    led.partition.propose_again(led.now_ms)
    assert led.proposed() == (1, 2, 3)


def test_a_follower_that_left_the_session_is_not_heard_of_by_what_the_session_goes_on_to_fetch(
    tmp_path: Path,
) -> None:
    led = Led(tmp_path)
    led.fetched(2, 0)
    led.fetched(3, 0)
    led.partition.follower_left(b(3), led.sources[3])
    led.now_ms += LAG_MS + 1
    for source in led.sources.values():
        source.last_fetch_time_ms = (
            led.now_ms
        )  # of other partitions; of 2 of this one too, which it need not name
    led.append(b"a")
    led.partition.shrink_if_lagging(led.now_ms)
    assert led.proposed() == (1, 2)


@pytest.mark.behaviour(131)
def test_a_member_leaves_only_when_it_lags_by_time_and_by_records(tmp_path: Path) -> None:
    led = Led(tmp_path)
    led.fetched(2, 0)
    led.fetched(3, 0)
    led.now_ms += 10 * LAG_MS
    led.partition.shrink_if_lagging(led.now_ms)
    assert led.proposed() is None, "KAFKA-7152: whose end is ours has nothing to fetch"
    for source in led.sources.values():
        source.last_fetch_time_ms = led.now_ms  # their sessions go on fetching
    led.append(b"a")
    led.fetched(2, 1)
    led.now_ms += LAG_MS
    led.partition.shrink_if_lagging(led.now_ms)
    assert led.proposed() is None
    led.now_ms += 1
    led.fetched(2, 1)
    led.partition.shrink_if_lagging(led.now_ms)
    assert led.proposed() == (1, 2)


def test_a_follower_that_keeps_up_with_a_steady_load_stays_although_it_is_never_at_the_end(
    tmp_path: Path,
) -> None:
    led = Led(tmp_path, replicas=(1, 2), isr=(1, 2))
    end = led.append(b"a")
    for _ in range(50):
        led.fetched(2, end)
        end = led.append(b"x")
        led.now_ms += LAG_MS // 2
        led.partition.shrink_if_lagging(led.now_ms)
        assert led.proposed() is None


def test_a_follower_that_always_has_all_there_was_when_it_asked_before_stays(tmp_path: Path) -> None:
    """It is answered at once, and while the answer travels there is more: it never asks from the end, and never from beyond
    where the log ended at its last fetch."""
    led = Led(tmp_path, replicas=(1, 2), isr=(1, 2))
    led.fetched(2, 0)
    end = led.append(b"a")
    for _ in range(50):
        led.now_ms += LAG_MS // 2
        before, end = end, led.append(b"x")
        led.fetched(2, before)
        led.partition.shrink_if_lagging(led.now_ms)
        assert led.proposed() is None


def test_a_follower_that_leaves_the_session_was_caught_up_at_its_last_fetch(tmp_path: Path) -> None:
    """An idle partition is named once, and its follower begins another session hours later: what is written then is new to it."""
    led = Led(tmp_path, replicas=(1, 2), isr=(1, 2))
    led.fetched(2, 0)
    led.now_ms += 100 * LAG_MS
    led.sources[2].last_fetch_time_ms = led.now_ms
    led.partition.follower_left(b(2), led.sources[2])
    led.append(b"a")
    led.partition.shrink_if_lagging(led.now_ms)
    assert led.proposed() is None
    led.now_ms += LAG_MS + 1
    led.partition.shrink_if_lagging(led.now_ms)
    assert led.proposed() == (1,)


def test_a_stale_fetch_of_an_earlier_life_of_a_follower_is_refused(tmp_path: Path) -> None:
    """KAFKA-15221: sent before it restarted, it says nothing about the log it has now."""
    led = Led(tmp_path)
    led.append(b"a", b"b")
    led.fetched(2, 0, broker_epoch=20)
    with pytest.raises(ProtocolError) as refusal:
        led.fetched(2, 2, broker_epoch=19)
    assert refusal.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert led.partition.followers[b(2)].log_end_offset == 0


def test_a_stale_fetch_is_refused_also_by_the_next_leadership_of_the_same_broker(tmp_path: Path) -> None:
    """What a follower said of its log in an earlier leader epoch does not count; which life it is in does."""
    led = Led(tmp_path)
    led.append(b"a", b"b")
    led.fetched(2, 0, broker_epoch=20)
    led.lead((1, 2, 3))
    with pytest.raises(ProtocolError, match="stale fetch of broker 2: epoch 19, known 20"):
        led.fetched(2, 2, broker_epoch=19)


@pytest.mark.parametrize("end", [Partition.stop, Partition.lose_disk])
def test_who_leads_no_more_proposes_nothing_though_it_had_begun_to(
    tmp_path: Path, end: Callable[[Partition], None]
) -> None:
    led = expanding(tmp_path)
    end(led.partition)
    assert led.partition.proposal(BrokerEpoch(7)) is None


def test_only_replicas_count_as_followers(tmp_path: Path) -> None:
    led = Led(tmp_path)
    with pytest.raises(ProtocolError):
        led.fetched(9, 0)


# ------------------------------------------------------------------------------------- answers of the controller


@pytest.mark.behaviour(159)
def test_success_commits_what_the_controller_says_now(tmp_path: Path) -> None:
    led = expanding(tmp_path)
    epoch = led.partition.leader_epoch
    assert answer(led, ErrorCode.NONE, leadership(1, epoch, (1, 2, 3), partition_epoch=9)) is None
    assert led.partition.state == Committed((b(1), b(2), b(3)))
    assert led.partition.partition_epoch == 9


@pytest.mark.behaviour(159)
@pytest.mark.parametrize("error", sorted(ROLL_BACK))
def test_a_refusal_rolls_back_and_waits_a_while(tmp_path: Path, error: ErrorCode) -> None:
    led = expanding(tmp_path)
    assert answer(led, error) == REFUSED_RETRY_MS
    assert led.partition.state == Committed((b(1), b(2)))
    assert led.outbox.messages == [("warning", f"t-0: ISR [1, 2, 3] refused with {error.name}")]
    led.fetched(3, 1)
    assert led.proposed() is None, "not again with the very next fetch"
    led.now_ms += REFUSED_RETRY_MS
    led.fetched(3, 1)
    assert led.proposed() == (1, 2, 3)


def test_who_may_not_join_keeps_nobody_else_out_of_the_isr(tmp_path: Path) -> None:
    """One that is leaving, and that may take its time: the controller refuses every ISR that names it (KIP-841)."""
    led = Led(tmp_path, isr=(1,))
    led.append(b"a")
    led.live.clear()
    led.fetched(2, 1)
    led.fetched(3, 1)
    led.live.update({1, 2, 3})
    led.partition.propose_again(led.now_ms)
    tried = []
    while led.partition.isr == (1,):
        tried.append(led.partition.state.proposed_isr)  # type: ignore[union-attr]
        assert len(tried) < 4
        if 2 in tried[-1]:
            pause_ms = answer(led, ErrorCode.INELIGIBLE_REPLICA)
            assert pause_ms == REFUSED_RETRY_MS
            led.now_ms += pause_ms
            led.partition.propose_again(led.now_ms)
        else:
            told = leadership(1, led.partition.leader_epoch, tried[-1], partition_epoch=9)
            assert answer(led, ErrorCode.NONE, told) is None
    assert tried == [(1, 2, 3), (1, 2), (1, 3)]


def test_a_refusal_commits_what_waited_for_the_one_that_was_refused(tmp_path: Path) -> None:
    """It died while the proposal was on its way, and the others have nothing more to fetch."""
    led = expanding(tmp_path)
    waits = led.append_and_wait(b"b")
    led.fetched(2, 2)
    assert waits.told == []
    led.live.discard(3)
    answer(led, ErrorCode.INELIGIBLE_REPLICA)
    assert waits.told == [ErrorCode.NONE] and led.partition.high_watermark == 2


@pytest.mark.behaviour(159)
@pytest.mark.parametrize("error", sorted(AWAIT_LEADERSHIP))
def test_where_the_controller_is_ahead_the_maximal_isr_stays(tmp_path: Path, error: ErrorCode) -> None:
    """A lost answer may have said "committed": leaving 3 out now could commit what 3, elected, lacks."""
    led = expanding(tmp_path)
    assert answer(led, error) == AWAIT_LEADERSHIP_MS
    assert led.partition.state.maximal_isr == (1, 2, 3)
    led.append(b"b")
    led.fetched(2, 2)
    assert led.partition.high_watermark == 1
    led.lead((1, 2))
    assert led.partition.state == Committed((b(1), b(2)))


@pytest.mark.behaviour(159)
@pytest.mark.parametrize(
    "error", [ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR]
)
def test_an_answer_that_says_nothing_is_asked_for_again_with_the_same_proposal(
    tmp_path: Path, error: ErrorCode
) -> None:
    led = expanding(tmp_path)
    before = led.partition.proposal(BrokerEpoch(7))
    assert answer(led, error) == UNSETTLED_RETRY_MS
    assert led.partition.proposal(BrokerEpoch(7)) == before
    led.partition.propose_again(led.now_ms)
    assert led.proposed() == (1, 2, 3)


def test_an_answer_to_a_proposal_of_an_older_epoch_changes_nothing(tmp_path: Path) -> None:
    led = expanding(tmp_path)
    proposal = led.partition.proposal(BrokerEpoch(7))
    assert proposal is not None
    led.lead((1, 2))
    told = IsrAnswer(ErrorCode.NONE, leadership(1, 0, (1, 2, 3), 5))
    assert led.partition.isr_answered(proposal, told, led.now_ms) is None
    assert led.partition.isr == (1, 2)


def test_a_refusal_of_an_older_proposal_does_not_take_back_the_present_one(tmp_path: Path) -> None:
    led = expanding(tmp_path)
    older = led.partition.proposal(BrokerEpoch(7))
    assert older is not None
    led.lead((1, 2))
    led.fetched(2, 1)
    led.fetched(3, 1)
    assert led.proposed() == (1, 2, 3)
    refusal = IsrAnswer(ErrorCode.INELIGIBLE_REPLICA)
    assert led.partition.isr_answered(older, refusal, led.now_ms) is None
    assert led.partition.state == PendingExpandIsr((b(1), b(2)), (b(3),))


def test_a_second_answer_to_a_proposal_says_nothing_of_the_one_that_followed_it(tmp_path: Path) -> None:
    led = Led(tmp_path, isr=(1, 2), replicas=(1, 2, 3, 4))
    led.append(b"a")
    led.fetched(2, 1)
    led.fetched(3, 1)
    first = led.partition.proposal(BrokerEpoch(7))
    assert first is not None
    answer(led, ErrorCode.NONE, leadership(1, led.partition.leader_epoch, (1, 2, 3), partition_epoch=5))
    led.fetched(4, 1)
    pending = PendingExpandIsr((b(1), b(2), b(3)), (b(4),))
    assert led.partition.state == pending
    for again in (
        IsrAnswer(ErrorCode.INELIGIBLE_REPLICA),
        IsrAnswer(ErrorCode.NONE, leadership(1, led.partition.leader_epoch, (1, 2, 3), partition_epoch=5)),
    ):
        assert led.partition.isr_answered(first, again, led.now_ms) is None
        assert led.partition.state == pending


def test_what_is_answered_when_nothing_is_asked_changes_nothing(tmp_path: Path) -> None:
    led = expanding(tmp_path)
    proposal = led.partition.proposal(BrokerEpoch(7))
    assert proposal is not None
    assert answer(led, ErrorCode.INELIGIBLE_REPLICA) is not None
    assert led.partition.proposal(BrokerEpoch(7)) is None, "there is nothing to ask any more"
    for error in (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.NOT_CONTROLLER):
        assert led.partition.isr_answered(proposal, IsrAnswer(error), led.now_ms) is None


def test_an_answer_that_comes_when_it_leads_no_more_commits_nothing(tmp_path: Path) -> None:
    """Stopped, it knows of no followers, and asks for no minimum."""
    led = Led(tmp_path, isr=(1, 2), replicas=(1, 2), min_isr=2)
    led.append(b"a")
    led.now_ms += LAG_MS + 1
    led.partition.shrink_if_lagging(led.now_ms)
    proposal = led.partition.proposal(BrokerEpoch(7))
    assert proposal is not None
    led.partition.stop()
    told = leadership(1, led.partition.leader_epoch, (1,), led.partition_epoch + 1)
    assert led.partition.isr_answered(proposal, IsrAnswer(ErrorCode.NONE, told), led.now_ms) is None
    assert led.partition.high_watermark == 0


def test_a_refusal_in_an_older_leader_epoch_is_none_of_the_present_proposal(tmp_path: Path) -> None:
    led = expanding(tmp_path)
    proposal = led.partition.proposal(BrokerEpoch(7))
    assert proposal is not None
    older = proposal._replace(leader_epoch=LeaderEpoch(proposal.leader_epoch - 1))
    assert led.partition.isr_answered(older, IsrAnswer(ErrorCode.INELIGIBLE_REPLICA), led.now_ms) is None
    assert led.partition.proposal(BrokerEpoch(7)) == proposal


def test_a_success_that_names_another_leader_epoch_commits_nothing_and_is_asked_for_again(
    tmp_path: Path,
) -> None:
    led = expanding(tmp_path)
    for epoch in (led.partition.leader_epoch + 1, led.partition.leader_epoch - 1):
        told = leadership(1, epoch, (1, 2, 3), led.partition_epoch + 1)
        assert answer(led, ErrorCode.NONE, told) == AWAIT_LEADERSHIP_MS
        assert not led.partition.is_isr_settled
    assert answer(led, ErrorCode.NONE) == AWAIT_LEADERSHIP_MS and not led.partition.is_isr_settled


def test_a_success_says_what_the_partition_epoch_is_and_whether_the_leader_recovers(tmp_path: Path) -> None:
    led = expanding(tmp_path)
    told = leadership(1, led.partition.leader_epoch, (1, 2, 3), led.partition_epoch, recovery_state=1)
    assert answer(led, ErrorCode.NONE, told) is None
    assert led.partition.is_isr_settled, "the same partition epoch: it was committed before"
    assert led.partition.leader_recovery_state == 1


def test_nobody_is_asked_to_leave_while_a_proposal_is_open_or_was_refused_a_moment_ago(
    tmp_path: Path,
) -> None:
    led = Led(tmp_path)
    led.append(b"a")
    led.now_ms += LAG_MS + 1
    led.partition.shrink_if_lagging(led.now_ms)
    assert led.proposed() == (1,)
    led.partition.shrink_if_lagging(led.now_ms)
    assert led.proposed() is None
    answer(led, ErrorCode.INELIGIBLE_REPLICA)
    led.now_ms += REFUSED_RETRY_MS - 1
    led.partition.shrink_if_lagging(led.now_ms)
    assert led.proposed() is None
    led.now_ms += 1
    led.partition.shrink_if_lagging(led.now_ms)
    assert led.proposed() == (1,)


def test_an_answer_from_before_the_present_partition_epoch_commits_nothing(tmp_path: Path) -> None:
    led = expanding(tmp_path)
    epoch, known = led.partition.leader_epoch, led.partition.partition_epoch
    told = leadership(1, epoch, (1,), partition_epoch=known - 1)
    assert answer(led, ErrorCode.NONE, told) == AWAIT_LEADERSHIP_MS
    assert led.partition.partition_epoch == known
    assert led.partition.state.maximal_isr == (1, 2, 3)


def test_a_new_leadership_proposes_at_once_what_was_refused_in_the_one_before(tmp_path: Path) -> None:
    led = expanding(tmp_path)
    assert answer(led, ErrorCode.INELIGIBLE_REPLICA) == REFUSED_RETRY_MS
    led.lead((1, 2))
    led.fetched(2, 1)
    led.fetched(3, 1)
    assert led.proposed() == (1, 2, 3)


def test_a_shrink_takes_effect_only_when_it_is_confirmed(tmp_path: Path) -> None:
    led = Led(tmp_path)
    waits = led.append_and_wait(b"a")
    led.fetched(2, 1)
    led.now_ms += LAG_MS + 1
    led.fetched(2, 1)
    led.partition.shrink_if_lagging(led.now_ms)
    assert led.proposed() == (1, 2)
    assert led.partition.high_watermark == 0
    epoch = led.partition.leader_epoch
    answer(led, ErrorCode.NONE, leadership(1, epoch, (1, 2), partition_epoch=9))
    assert led.partition.high_watermark == 1
    assert waits.told == [ErrorCode.NONE]


def test_two_followers_that_catch_up_meanwhile_join_with_the_next_proposal(tmp_path: Path) -> None:
    led = Led(tmp_path, isr=(1,))
    led.fetched(2, 0)
    assert led.proposed() == (1, 2)
    led.fetched(3, 0)
    assert led.proposed() is None, "one proposal at a time"
    answer(led, ErrorCode.NONE, leadership(1, led.partition.leader_epoch, (1, 2), 9))
    assert led.proposed() == (1, 2, 3), "3 has nothing to fetch, so nobody else would ask"


def test_members_are_named_with_the_broker_epochs_their_fetches_told(tmp_path: Path) -> None:
    led = Led(tmp_path, isr=(1, 2))
    led.fetched(2, 0, broker_epoch=22)
    led.fetched(3, 0)
    proposal = led.partition.proposal(BrokerEpoch(11))
    assert proposal is not None
    assert proposal.new_isr == ((1, 11), (2, 22), (3, -1))
