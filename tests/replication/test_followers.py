"""What a leader takes from a fetch: which of two sources it believes, since when a follower is caught up, what it looks at."""

from pathlib import Path

import pytest

from odradek.log.errors import CorruptLog
from odradek.model.ids import BrokerEpoch
from odradek.replication.followers import NEVER_MS, UNKNOWN_OFFSET, FetchSource, FollowerState
from odradek.replication.partition import Partition
from odradek.replication.purgatory import Waiter
from tests.replication.partitions import LAG_MS, T0, Led, b

BELIEVED_AFTER_MS = LAG_MS // 4


class Source(FetchSource):
    """Of a connection with this number; notes for which partitions it is asked to say again where the follower stands."""

    def __init__(self, connection_id: int) -> None:
        super().__init__()
        self.connection_id = connection_id
        self.again: list[Partition] = []

    def note_again(self, partition: Partition) -> None:
        self.again.append(partition)


def fetched_from(led: Led, source: Source, offset: int, *, broker_epoch: int = 20) -> FollowerState:
    led.sources[2] = source
    led.fetched(2, offset, broker_epoch=broker_epoch)
    return led.partition.followers[b(2)]


@pytest.fixture
def led(tmp_path: Path) -> Led:
    led = Led(tmp_path, isr=(1, 2), replicas=(1, 2))
    led.append(b"a", b"b")
    return led


def test_what_comes_late_over_an_older_connection_says_nothing_and_is_to_be_said_again(led: Led) -> None:
    older, newer = Source(1), Source(2)
    fetched_from(led, newer, 1)
    led.now_ms += BELIEVED_AFTER_MS - 1
    follower = fetched_from(led, older, 2)
    assert (follower.log_end_offset, follower.source) == (1, newer)
    assert (older.again, newer.again) == ([led.partition], [])


def test_an_older_connection_is_believed_once_the_newer_one_has_been_silent_for_a_while(led: Led) -> None:
    older, newer = Source(1), Source(2)
    fetched_from(led, newer, 1)
    led.now_ms += BELIEVED_AFTER_MS
    follower = fetched_from(led, older, 2)
    assert (follower.log_end_offset, follower.source) == (2, older)
    assert (older.again, newer.again) == ([], [led.partition])


@pytest.mark.parametrize(
    ("connection_id", "broker_epoch"),
    [(3, 20), (2, 20), (1, 21)],
    ids=["a newer connection", "another session of the same one", "another life of the follower"],
)
def test_another_source_is_believed_at_once(led: Led, connection_id: int, broker_epoch: int) -> None:
    former, source = Source(2), Source(connection_id)
    fetched_from(led, former, 1)
    follower = fetched_from(led, source, 2, broker_epoch=broker_epoch)
    assert (follower.log_end_offset, follower.source, follower.broker_epoch) == (2, source, broker_epoch)
    assert former.again == [led.partition]


def test_one_source_says_again_what_it_likes(led: Led) -> None:
    source = Source(2)
    fetched_from(led, source, 1)
    assert fetched_from(led, source, 2).log_end_offset == 2
    assert source.again == []


@pytest.mark.parametrize("broker_epoch", [20, -1])
def test_a_fetch_in_the_life_that_is_known_counts_and_so_does_one_that_names_none(
    led: Led, broker_epoch: int
) -> None:
    led.fetched(2, 1, broker_epoch=20)
    led.fetched(2, 2, broker_epoch=broker_epoch)
    assert led.partition.followers[b(2)].log_end_offset == 2


def test_who_asks_from_the_end_is_caught_up_and_who_asks_from_what_was_the_end_was_so_then(led: Led) -> None:
    follower = led.partition.followers[b(2)]
    began = led.now_ms
    led.now_ms += 100
    led.fetched(2, 1)
    assert follower.last_caught_up_time_ms == began, "as a member of the ISR, when this leadership began"
    led.append(b"c")
    led.now_ms += 100
    led.fetched(2, 2)
    assert follower.last_caught_up_time_ms == began + 100
    led.now_ms += 100
    led.fetched(2, 3)
    assert follower.last_caught_up_time_ms == led.now_ms


def test_a_batch_that_is_asked_for_again_is_looked_at(led: Led) -> None:
    """The follower may have found it damaged, and cannot say so."""
    led.append(b"c")
    path = Path(led.partition.log.segments.active.file.name)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    led.fetched(2, 0)
    led.fetched(2, 2)
    assert led.partition.followers[b(2)].log_end_offset == 2, "what is asked for once is sent as it is"
    with pytest.raises(CorruptLog):
        led.fetched(2, 2)


class Waits(Waiter):
    """For a key."""


@pytest.mark.parametrize(
    ("log_start", "is_woken"), [(0, False), (1, True)], ids=["where it was", "further on"]
)
def test_who_waits_for_records_to_go_hears_where_the_log_of_a_follower_begins(
    led: Led, log_start: int, *, is_woken: bool
) -> None:
    led.fetched(2, 2, log_start=0)
    waits = Waits()
    led.outbox.purgatory.park(waits, deadline_ms=led.now_ms + 1000, keys=(T0,))
    led.fetched(2, 2, log_start=log_start)
    assert led.outbox.purgatory.ready == ([waits] if is_woken else [])


def test_who_waits_for_records_to_go_hears_that_this_broker_leads_no_more(led: Led) -> None:
    waits = Waits()
    led.outbox.purgatory.park(waits, deadline_ms=led.now_ms + 1000, keys=(T0,))
    led.follow(2)
    assert led.outbox.purgatory.ready == [waits]


def test_who_leaves_a_session_behind_the_end_was_not_caught_up_by_what_the_session_fetched(led: Led) -> None:
    led.fetched(2, 1)
    follower, source = led.partition.followers[b(2)], led.sources[2]
    began = led.now_ms
    source.last_fetch_time_ms = led.now_ms + 100
    led.partition.follower_left(b(2), source)
    assert (follower.last_caught_up_time_ms, follower.source) == (began, None)


def test_a_session_that_is_not_the_follower_s_any_more_leaves_nothing_behind(led: Led) -> None:
    led.fetched(2, 2)
    follower, source = led.partition.followers[b(2)], led.sources[2]
    led.partition.follower_left(b(2), Source(7))
    led.partition.follower_left(b(9), source)
    assert follower.source is source


def test_the_life_that_is_proposed_is_the_one_that_was_found_in_sync(tmp_path: Path) -> None:
    """KIP-903, and behind an image as well: a fetch of the next life does not change what is asked for."""
    led = Led(tmp_path, isr=(1,), replicas=(1, 2))
    led.fetched(2, 0, broker_epoch=7)
    led.fetched(2, 0, broker_epoch=8)
    image = led.partition.image()
    again = Partition.of(
        image,
        led.partition.log,
        topic_partition=T0,
        topic_id=led.partition.topic_id,
        broker=b(1),
        min_insync_replicas=1,
        replica_lag_time_max_ms=LAG_MS,
        live_brokers=led.live,
        outbox=led.outbox,
    )
    for partition in (led.partition, again):
        proposal = partition.proposal(BrokerEpoch(1))
        assert proposal is not None and proposal.new_isr == ((1, 1), (2, 7))
    assert again.image() == image


def known(state: FollowerState) -> dict[str, object]:
    return {name: getattr(state, name) for name in FollowerState.__slots__}


def test_nobody_has_heard_of_a_follower_before_it_fetches() -> None:
    state, source = FollowerState(b(2)), FetchSource()

    assert not state.has_fetched and not state.is_in_maximal_isr
    assert {state.log_end_offset, state.log_start_offset, state.last_fetch_leader_end} == {UNKNOWN_OFFSET}
    assert {state.last_fetch_time_ms, state.last_caught_up_time_ms, state.last_heard_ms} == {NEVER_MS}
    state.source = source
    assert state.last_heard_ms == NEVER_MS


def test_nothing_that_was_heard_counts_in_a_new_leader_epoch() -> None:
    state = FollowerState(b(2))
    state.log_end_offset, state.log_start_offset = 7, 3
    state.last_caught_up_time_ms = state.last_fetch_time_ms = 1_000
    state.last_fetch_leader_end = 9
    state.source = FetchSource()
    new = FollowerState(b(2))
    new.last_caught_up_time_ms = 2_000

    state.reset(caught_up_at_ms=2_000)

    assert known(state) == known(new)


@pytest.mark.parametrize(("named_at", "session_at"), [(5, 9), (9, 5)])
def test_a_follower_is_heard_of_when_it_fetches_or_its_session_does_without_naming_the_partition(
    named_at: int, session_at: int
) -> None:
    state = FollowerState(b(2))
    state.last_fetch_time_ms = named_at
    assert state.last_heard_ms == named_at
    state.source = FetchSource()
    state.source.last_fetch_time_ms = session_at

    assert state.last_heard_ms == 9
