"""The high watermark as a function of values."""

from hypothesis import given
from hypothesis import strategies as st

from odradek.replication.followers import NEVER_MS, FollowerState
from odradek.replication.high_watermark import high_watermark
from tests.replication.partitions import b

LAG_MS = 10_000
NOW_MS = 100_000


def follower(broker: int, end: int, *, in_isr: bool = True, caught_up_ms: int = NEVER_MS) -> FollowerState:
    state = FollowerState(b(broker))
    state.log_end_offset = end
    state.is_in_maximal_isr = in_isr
    state.last_caught_up_time_ms = caught_up_ms
    return state


def mark(leader_end: int, *followers: FollowerState, live: set[int] | None = None) -> int:
    return high_watermark(
        leader_end,
        followers,
        live_brokers={1, 2, 3, 4} if live is None else live,
        now_ms=NOW_MS,
        replica_lag_time_max_ms=LAG_MS,
    )


def test_alone_the_leaders_end_is_the_mark() -> None:
    assert mark(7) == 7


def test_every_member_counts_also_one_that_was_not_heard_of_yet() -> None:
    assert mark(7, follower(2, 5), follower(3, 6)) == 5
    assert mark(7, follower(2, 5), follower(3, -1)) == -1


def test_a_follower_outside_the_isr_counts_only_while_it_was_caught_up_a_moment_ago_and_lives() -> None:
    recently = follower(3, 4, in_isr=False, caught_up_ms=NOW_MS - LAG_MS)
    long_ago = follower(3, 4, in_isr=False, caught_up_ms=NOW_MS - LAG_MS - 1)
    assert mark(7, follower(2, 6), recently) == 4
    assert mark(7, follower(2, 6), recently, live={1, 2}) == 6
    assert mark(7, follower(2, 6), long_ago) == 6


@given(
    leader_end=st.integers(0, 100),
    ends=st.lists(st.tuples(st.integers(-1, 100), st.booleans(), st.booleans()), max_size=5),
)
def test_it_never_passes_anybody_who_could_be_elected(
    leader_end: int, ends: list[tuple[int, bool, bool]]
) -> None:
    followers = [
        follower(number, end, in_isr=in_isr, caught_up_ms=NOW_MS if caught_up else NEVER_MS)
        for number, (end, in_isr, caught_up) in enumerate(ends, 2)
    ]
    found = mark(leader_end, *followers, live=set(range(1, 10)))
    members = [leader_end] + [f.log_end_offset for f in followers if f.is_in_maximal_isr]
    assert found <= min(members)
    assert found in {leader_end} | {f.log_end_offset for f in followers}
