"""Quotas of bytes and of time (KIP-13, 55, 124, 219): what Apache would say, by a clock that the test moves."""

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.answers import NoReply, Reply
from odradek.broker.client_throttles import ClientRate, ClientThrottles
from odradek.broker.quotas import FETCH_RATE, PRODUCE_RATE, REQUEST_PERCENTAGE, ClientQuotas
from odradek.broker.request import ConnectionInfo, Request
from odradek.model.error_codes import ErrorCode
from odradek.model.settings import BrokerSettings
from odradek.protocol.api_keys import BETWEEN_BROKERS, ApiKey
from odradek.protocol.headers import encode_request
from odradek.protocol.messages import add_partitions_to_txn as apt
from odradek.protocol.messages import api_versions as av
from odradek.protocol.messages import (
    consumer_group_heartbeat,
    describe_groups,
    end_txn,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_fetch,
    sync_group,
)
from odradek.protocol.messages import metadata as mm
from odradek.protocol.messages import offset_for_leader_epoch as ofle
from odradek.protocol.messages import produce as pm
from tests.broker.test_fetch import Reader
from tests.broker.world import TOPIC_ID, Pending, World, batch
from tests.support import golden_lines

MS = 1_000_000  # nanoseconds
WINDOWS_MS = 10_000  # all but the last of eleven


# ---------------------------------------------------------------------------------------------------- the rate


def test_one_waits_as_long_as_at_apaches() -> None:
    """tests/golden/client_rates.jsonl, recorded with Apache Kafka 3.9.1 by tests/golden/ClientRates.java."""
    rows = list(golden_lines("client_rates.jsonl"))
    held_up = 0
    for (windows, window_s, quota), story in groupby(
        rows, key=lambda r: (r["windows"], r["window_s"], r["quota"])
    ):
        rate = ClientRate(window_count=windows, window_ms=window_s * 1000)
        for row in story:
            rate.record(row["bytes"], row["at_ms"])
            assert rate.wait_ms(quota, row["at_ms"]) == row["throttle_time_ms"], row
            held_up += row["throttle_time_ms"] > 0
    assert 100 < held_up < len(rows) - 100


def test_the_example_of_apaches_own_tests() -> None:
    """400 bytes a second against 500, then 2300 more at 10.5 s: 6300 bytes are 600 a second, over by 2100 ms."""
    rate = ClientRate(window_count=11, window_ms=1000)
    for second in range(10):
        rate.record(400, second * 1000)
        assert rate.wait_ms(500, second * 1000) == 0
    rate.record(2300, 10_500)
    assert rate.wait_ms(500, 10_500) == 2100
    assert rate.wait_ms(0, 10_500) == 11_000, "a quota of nothing"
    # 2100 ms later the first two seconds are forgotten, what was sent in them and they themselves: 5500 in 10.6 s.
    assert rate.wait_ms(500, 12_600) == 400
    assert rate.wait_ms(500, 13_000) == 200
    assert rate.wait_ms(500, 13_200) == 0
    rate.record(2**40, 13_200)
    assert rate.wait_ms(0.001, 13_200) == 2**31 - 1, "as much as the field holds"


def test_where_nothing_is_allowed_who_did_nothing_waits_for_nothing() -> None:
    rate = ClientRate(window_count=11, window_ms=1000)
    assert rate.wait_ms(0, 5_000) == 0
    rate.record(1, 5_000)
    assert rate.wait_ms(0, 5_000) == 11_000


# ------------------------------------------------------------------------------------------------- world


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, brokers=(1,))
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    return world


def limit(world: World, kind: str = "clients", name: str = "<default>", **quotas: float | None) -> None:
    config = {key: f"{value:g}" for key, value in quotas.items() if value is not None}
    for node in world.nodes.values():
        node.broker.client_quota_changed(kind, name, config)


def throttles(world: World) -> ClientThrottles:
    found: ClientThrottles = world[1].broker.throttles
    return found


def throttle_ms(pending: Pending) -> int:
    """What the client is told, and the shell."""
    assert isinstance(pending.result, Reply)
    told: int = pending.message.throttle_time_ms
    assert pending.result.throttle_time_ms == told
    return told


def produce_request(value: bytes, acks: int = 1) -> pm.ProduceRequest:
    partition = pm.PartitionProduceData(index=0, records=batch(value))
    return pm.ProduceRequest(
        acks=acks,
        timeout_ms=30_000,
        topic_data=[pm.TopicProduceData(name="t", partition_data=[partition])],
    )


def size_of(request: Any, version: int) -> int:
    return len(encode_request(request.KEY, version, 1, "test", request.encode(version))) - 4


# ------------------------------------------------------------------------------------------------ produce


@pytest.mark.parametrize("version", range(3, 12))
def test_a_producer_over_its_rate_is_answered_at_once_and_told_how_long(world: World, version: int) -> None:
    """Also one whose version is older than KIP-219: it would not wait by itself."""
    limit(world, producer_byte_rate=1000)
    request = produce_request(b"x" * 15_000)
    assert throttle_ms(world.send(1, produce_request(b"x" * 500), version)) == 0
    before = size_of(produce_request(b"x" * 500), version)
    pending = world.send(1, request, version)
    assert throttle_ms(pending) == before + size_of(request, version) - WINDOWS_MS > 5000
    assert pending.message.responses[0].partition_responses[0].base_offset == 1, "and it is appended"
    assert throttles(world).counters["produce_throttled"] == 1
    assert throttles(world).counters["produce_throttle_time_ms"] == throttle_ms(pending)


def test_who_waited_as_told_is_let_through(world: World) -> None:
    limit(world, producer_byte_rate=2000)
    world.now_ms += 12_345
    sent, began = 0, world.now_ms
    while world.now_ms < began + 120_000:
        request = produce_request(b"x" * 3_000)
        sent += size_of(request, 9)
        world.now_ms += throttle_ms(world.send(1, request, 9)) + 10
    assert sent / 120 == pytest.approx(2000, rel=0.1), "the first ten seconds' worth may come at once"


def test_no_answer_no_word_but_the_connection_is_held_up(world: World) -> None:
    limit(world, producer_byte_rate=1000, request_percentage=0.001)
    request = produce_request(b"x" * 15_000, acks=0)
    result = world.send(1, request, 9).result
    assert isinstance(result, NoReply)
    assert result.throttle_time_ms == size_of(request, 9) - WINDOWS_MS
    limit(world, producer_byte_rate=1e9, request_percentage=0.001)
    spend(world, 500)
    result = world.send(1, request, 9).result
    assert isinstance(result, NoReply) and result.throttle_time_ms == 0, "time is not asked of acks=0"


def test_an_answer_that_waited_is_counted_when_it_is_given(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.lead(1, is_new=True)
    limit(world, producer_byte_rate=1000)
    request = produce_request(b"x" * 15_000, acks=-1)
    pending = world.send(1, request, 9)
    assert not pending.is_answered
    world.now_ms += 3
    world.settle()
    assert throttle_ms(pending) == size_of(request, 9) - WINDOWS_MS
    world.cut = {(2, 1), (3, 1)}
    late = world.send(1, request, 9)
    world.advance(30_100)
    assert late.message.responses[0].partition_responses[0].error_code == 7
    # What came before is forgotten: this one alone is counted, at the end of its time.
    assert throttle_ms(late) == size_of(request, 9) - WINDOWS_MS


# -------------------------------------------------------------------------------------------------- fetch


def records_of(pending: Pending) -> int:
    return sum(len(p.records or b"") for t in pending.message.responses for p in t.partitions)


@pytest.mark.parametrize("version", range(4, 18))
def test_a_consumer_over_its_rate_gets_nothing_for_a_while_and_then_everything(
    world: World, version: int
) -> None:
    world.produce(1, b"x" * 8_000, acks=1)
    limit(world, consumer_byte_rate=1000)
    first = world.consume(1, 0, version=version)
    assert throttle_ms(first) == 0
    size = len(first.body) + 4
    second = world.consume(1, 0, version=version)
    assert throttle_ms(second) == 2 * size - WINDOWS_MS > 6_000
    assert (second.message.responses, records_of(first)) == ([], len(world[1].raw()))
    # It was not sent, so it does not count: the same again waits no longer.
    assert throttle_ms(world.consume(1, 0, version=version)) == throttle_ms(second)
    world.now_ms += 11_000
    third = world.consume(1, 0, version=version)
    assert (throttle_ms(third), records_of(third)) == (0, records_of(first))
    counters = throttles(world).counters
    assert counters["fetch_throttled"] == 2
    assert counters["fetch_throttle_time_ms"] == 2 * throttle_ms(second)


def test_a_session_is_told_later_what_it_was_not_told(world: World) -> None:
    limit(world, consumer_byte_rate=1000)
    reader = Reader(world)
    assert reader.fetch((TOPIC_ID, 0, 0)).message.session_id > 0
    world.produce(1, b"x" * 8_000, acks=1)
    assert records_of(reader.fetch()) > 8_000
    world.produce(1, b"y" * 8_000, acks=1)
    held_up = reader.fetch((TOPIC_ID, 0, 1))
    assert throttle_ms(held_up) > 0
    assert (held_up.message.session_id, held_up.message.responses) == (reader.session_id, [])
    world.now_ms += 11_000
    late = reader.fetch()
    assert (throttle_ms(late), records_of(late) > 8_000) == (0, True)


def test_a_session_that_would_begin_with_an_empty_answer_does_not(world: World) -> None:
    """As Apache: the reader asks for everything once more."""
    world.produce(1, b"x" * 8_000, acks=1)
    limit(world, consumer_byte_rate=1000)
    world.consume(1, 0)
    sessions = world[1].broker.fetch_sessions
    held_up = Reader(world).fetch((TOPIC_ID, 0, 0))
    assert throttle_ms(held_up) > 0
    assert (held_up.message.session_id, len(sessions)) == (0, 0)


def test_a_parked_fetch_is_held_up_when_its_time_comes(world: World) -> None:
    limit(world, consumer_byte_rate=1000)
    world.produce(1, b"x" * 8_000, acks=1)
    assert throttle_ms(world.consume(1, 0)) == 0
    connection = world.connection()
    reader = Reader(world, connection, max_wait_ms=500)
    pending = reader.fetch((TOPIC_ID, 0, 1))
    assert not pending.is_answered
    world.produce(1, b"y" * 8_000, acks=1)
    world.settle()
    assert throttle_ms(pending) > 0
    assert (pending.message.responses, connection.parked) == ([], None)
    assert len(world[1].broker.fetch_sessions) == 0
    assert world[1].partition().consumer_readers == {}


def test_a_fetch_asks_for_no_more_than_its_rate_lets_through(world: World) -> None:
    for _ in range(5):
        world.produce(1, b"x" * 8_000, acks=1)
    limit(world, consumer_byte_rate=2000)
    first = world.consume(1, 0, min_bytes=1 << 20, max_wait_ms=500)
    assert first.is_answered, "so much will never be there"
    assert throttle_ms(first) == 0
    assert 16_000 < records_of(first) <= 19_000, "ten seconds' worth, and room for what is around it"


def test_what_its_rate_lets_through_is_that_of_all_windows_but_one(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,), quota_window_num="3", quota_window_size_seconds="2")
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    for _ in range(5):
        world.produce(1, b"x" * 8_000, acks=1)
    limit(world, consumer_byte_rate=5000)
    assert 16_000 < records_of(world.consume(1, 0, min_bytes=1)) <= 19_000, "four seconds' worth"


# ------------------------------------------------------------------------------------------- request time


def spend(
    world: World, ms: float, key: int = ApiKey.METADATA, connection: ConnectionInfo | None = None
) -> None:
    """The shell says how long it took to handle a request."""
    request = Request(key, 0, 1, "test", memoryview(b""), connection or world.connection())
    throttles(world).time_spent(request, int(ms * MS), world.now_ms)


def test_the_time_of_requests_is_paid_by_the_next_one(world: World) -> None:
    """1 % is 10 ms a second. 4 ms a second, then 67.1 more at 10.5 s: 10.2 a second, over by 210 ms (Apache's own
    example)."""
    limit(world, request_percentage=1)
    assert throttles(world).counts_time
    for _ in range(10):
        spend(world, 4)
        assert throttle_ms(world.send(1, mm.MetadataRequest(topics=[]), 9)) == 0
        world.now_ms += 1000
    world.now_ms += 500
    spend(world, 67.1)
    assert throttle_ms(world.send(1, mm.MetadataRequest(topics=[]), 9)) == 210
    assert throttles(world).counters["request_throttle_time_ms"] == 210
    spend(world, 500)
    assert throttle_ms(world.send(1, mm.MetadataRequest(topics=[]), 9)) == 1000, "one window at most"
    world.now_ms += 11_000
    assert throttle_ms(world.send(1, mm.MetadataRequest(topics=[]), 9)) == 0


def test_whatever_a_client_asks_is_held_up_and_its_answer_whole(world: World) -> None:
    world.produce(1, b"x", acks=1)
    limit(world, request_percentage=0.01)
    spend(world, 500)
    versions = world.send(1, av.ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)
    assert throttle_ms(versions) == 1000 and len(versions.message.api_keys) > 20
    produced = world.produce(1, b"y", acks=1)
    assert (throttle_ms(produced), world.produced(produced)) == (1000, (0, 1))
    assert (throttle_ms(fetched := world.consume(1, 0)), fetched.message.responses) == (1000, [])
    old = world.send(1, mm.MetadataRequest(topics=None), 1)  # knows nothing of throttles
    assert isinstance(old.result, Reply) and old.result.throttle_time_ms == 1000
    assert [t.name for t in old.message.topics] == ["t"]
    refused = world.send(1, av.ApiVersionsRequest(), 0)
    assert isinstance(refused.result, Reply) and refused.result.throttle_time_ms == 1000


def test_a_version_of_later_clients_is_refused_as_ever_though_they_are_held_up(world: World) -> None:
    """In version 0, which has no throttle time (KIP-511): the client asks again, and in a version that it sees there."""
    limit(world, request_percentage=0.01)
    spend(world, 500)
    unknown = Request(ApiKey.API_VERSIONS, 99, 1, "test", memoryview(b""), world.connection())

    refused = world[1].broker.handle(unknown, world.now_ms)

    assert isinstance(refused, Reply) and refused.throttle_time_ms == 1000
    message = av.ApiVersionsResponse.decode(0, b"".join(bytes(one) for one in refused.buffers))  # type: ignore[arg-type]
    assert message.error_code == ErrorCode.UNSUPPORTED_VERSION and len(message.api_keys) == 1


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (find_coordinator.FindCoordinatorRequest(coordinator_keys=["g"]), 4),
        (join_group.JoinGroupRequest(group_id="g", session_timeout_ms=6000, protocol_type="consumer"), 9),
        (sync_group.SyncGroupRequest(group_id="g"), 5),
        (heartbeat.HeartbeatRequest(group_id="g"), 4),
        (leave_group.LeaveGroupRequest(group_id="g"), 5),
        (offset_commit.OffsetCommitRequest(group_id="g"), 9),
        (offset_fetch.OffsetFetchRequest(groups=[]), 9),
        (describe_groups.DescribeGroupsRequest(groups=["g"]), 5),
        (list_groups.ListGroupsRequest(), 5),
        (consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(group_id="g"), 1),
        (init_producer_id.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000), 4),
        (end_txn.EndTxnRequest(transactional_id="t"), 4),
    ],
)
def test_groups_and_transactions_pay_for_the_time_of_their_requests(
    world: World, request_: Any, version: int
) -> None:
    limit(world, request_percentage=0.01)
    spend(world, 500)

    assert throttle_ms(world.send(1, request_, version)) == 1000


def test_the_longer_of_two_waits_counts(world: World) -> None:
    limit(world, producer_byte_rate=1000, request_percentage=0.01)
    spend(world, 500)
    assert throttle_ms(world.send(1, produce_request(b"x" * 10_100), 9)) == 1000
    assert throttle_ms(world.send(1, produce_request(b"x" * 15_000), 9)) > 10_000
    counters = throttles(world).counters
    assert (counters["request_throttled"], counters["produce_throttled"]) == (1, 1)


def test_a_fetch_that_is_held_up_for_time_alone_is_not_counted_in_bytes(world: World) -> None:
    """It was answered with nothing: the bytes it would have had are still to be paid for."""
    limit(world, consumer_byte_rate=1000, request_percentage=0.01)
    request = Request(ApiKey.FETCH, 12, 1, "test", memoryview(b""), world.connection())
    limits = throttles(world).limits_of(request)
    spend(world, 500)
    for _ in range(3):
        assert throttles(world).fetched(limits, 9_000, world.now_ms) == 1000
    world.now_ms += 11_000
    assert throttles(world).fetched(limits, 9_000, world.now_ms) == 0
    assert throttles(world).counters["fetch_throttled"] == 0


def test_what_only_brokers_send_and_what_followers_fetch_is_not_held_up(tmp_path: Path) -> None:
    world = World(tmp_path)
    limit(world, "users", producer_byte_rate=1e9, consumer_byte_rate=1, request_percentage=0.001)
    world.lead(1, is_new=True)
    spend(world, 500)
    assert throttle_ms(world.send(1, mm.MetadataRequest(topics=[]), 9)) == 1000
    counters = dict(throttles(world).counters)
    pending = world.produce(1, b"x" * 50_000, acks=0)
    world.settle()
    assert world[2].values() == world[3].values() == [b"x" * 50_000], "copied at once"
    world.leadership_told = world.lead(1)
    assert throttles(world).counters == counters
    assert pending.is_answered
    for connection in (world[2].connections[1], world[3].connections[1]):
        assert connection.is_follower
    before = throttles(world)._rates.copy()
    world.now_ms += 60_000
    spend(world, 500, connection=world[2].connections[1])
    for key in BETWEEN_BROKERS:
        spend(world, 500, key)
    assert throttle_ms(world.send(1, mm.MetadataRequest(topics=[]), 9)) == 0
    assert throttles(world)._rates == before


def test_on_a_connection_of_a_broker_nothing_is_held_up_and_no_time_counted(world: World) -> None:
    """Muted for a second, a controller's would keep LeaderAndIsr waiting behind a question about log ends, and a leader's every
    transactional producer behind one about a transaction."""
    limit(world, "users", request_percentage=0.001)
    spend(world, 500)
    ends = ofle.OffsetForLeaderEpochRequest(replica_id=-2, topics=[])
    verified = apt.AddPartitionsToTxnRequest(transactions=[])
    assert throttle_ms(world.send(1, ends, 4)) == 1000, "anybody else's is"
    for flag in ("is_follower", "is_of_broker"):
        connection = world.connection()
        setattr(connection, flag, True)
        assert throttle_ms(world.send(1, ends, 4, connection=connection)) == 0
    assert throttle_ms(world.send(1, verified, 4)) == 0
    assert throttle_ms(world.send(1, apt.AddPartitionsToTxnRequest(), 3)) == 1000

    world.now_ms += 60_000
    asked_by_a_broker = Request(ApiKey.ADD_PARTITIONS_TO_TXN, 4, 1, "", memoryview(b""), world.connection())
    throttles(world).time_spent(asked_by_a_broker, 500 * MS, world.now_ms)
    spend(world, 500, connection=connection)
    assert throttle_ms(world.send(1, ends, 4)) == 0


# ------------------------------------------------------------------------------------------- whose rate it is


def asked(user: str, client: str | None) -> Request:
    return Request(0, 9, 1, client, memoryview(b""), ConnectionInfo(1, "here:1", "PLAINTEXT", f"User:{user}"))


def test_who_shares_an_entity_shares_its_rate_and_a_default_is_for_each_alone() -> None:
    quotas = ClientQuotas()
    throttles = ClientThrottles(quotas, BrokerSettings({}))
    quotas.change("users", "ann%40home", {PRODUCE_RATE: "100"})
    quotas.change("users", "<default>", {PRODUCE_RATE: "200", FETCH_RATE: "300"})
    quotas.change("clients", "app", {REQUEST_PERCENTAGE: "50"})
    throttles.quotas_changed()

    def limits(user: str, client: str | None = "app") -> list[tuple[float, int] | None]:
        found = throttles.limits_of(asked(user, client))
        return [
            None if one is None else (one.quota, id(one.rate))
            for one in (found.produce, found.fetch, found.time)
        ]

    ann, bob = limits("ann@home"), limits("bob")
    assert [one[0] if one else None for one in ann] == [100, 300, 50 * 10 * MS]
    assert [one[0] if one else None for one in bob] == [200, 300, 50 * 10 * MS]
    other = limits("ann@home", "other")
    assert other[0] == ann[0], "one rate for all clients of a user"
    assert other[2] is None
    assert ann[2] == bob[2], "one rate for all users of a client id"
    assert ann[1] is not None and bob[1] is not None
    assert ann[1][1] != bob[1][1], "each user has one of his own by default"


def test_of_what_was_taken_away_unheard_neither_a_client_nor_an_address_has_a_quota_any_more() -> None:
    quotas = ClientQuotas()
    for address, rate in (("10.0.0.1", "5"), ("10.0.0.2", "6"), ("<default>", "7")):
        quotas.change("ips", address, {"connection_creation_rate": rate})
    quotas.keep_only([("ips", "10.0.0.2")])
    assert quotas.connection_rate("10.0.0.2") == 6
    assert quotas.connection_rate("10.0.0.1") is None


def test_a_client_without_a_name_has_only_the_quotas_of_its_user() -> None:
    """As Apache: a default for clients is for those that say who they are."""
    quotas = ClientQuotas()
    throttles = ClientThrottles(quotas, BrokerSettings({}))
    quotas.change("clients", "<default>", {PRODUCE_RATE: "1"})
    quotas.change("users", "<default>/clients/<default>", {FETCH_RATE: "1"})
    quotas.change("users", "<default>", {REQUEST_PERCENTAGE: "1"})
    throttles.quotas_changed()
    for client in (None, ""):
        limits = throttles.limits_of(asked("ann", client))
        assert limits.produce is limits.fetch is None
        assert limits.time is not None
    limits = throttles.limits_of(asked("ann", "app"))
    assert limits.produce is not None and limits.fetch is not None


def test_a_quota_that_is_changed_or_taken_away_counts_at_once(world: World) -> None:
    assert not throttles(world).is_active and not throttles(world).counts_time
    limit(world, producer_byte_rate=1000)
    assert throttles(world).is_active and not throttles(world).counts_time
    request = produce_request(b"x" * 15_000)
    assert throttle_ms(world.send(1, request, 9)) > 0
    limit(world, "users", "ANONYMOUS", producer_byte_rate=1e6)
    assert throttle_ms(world.send(1, request, 9)) == 0
    limit(world, "users", "ANONYMOUS", producer_byte_rate=4000)
    # The user's own rate has counted one of the two; a lower quota is no fresh start.
    size = size_of(request, 9)
    assert throttle_ms(world.send(1, request, 9)) == 0
    assert throttle_ms(world.send(1, request, 9)) == round(3 * size / 4 - WINDOWS_MS)
    limit(world, "users", "ANONYMOUS")
    limit(world)
    assert throttle_ms(world.send(1, request, 9)) == 0
    assert not throttles(world).is_active and not throttles(world).counts_time


def test_whoever_waited_when_a_quota_was_taken_away_is_held_up_by_it_no_more(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.lead(1, is_new=True)
    limit(world, producer_byte_rate=1, consumer_byte_rate=1)
    reader = world.consume(1, 0, max_wait_ms=500)
    pending = world.send(1, produce_request(b"x" * 15_000, acks=-1), 9)
    assert not pending.is_answered and not reader.is_answered
    limit(world)
    world.settle()
    assert (throttle_ms(pending), throttle_ms(reader)) == (0, 0)
    assert records_of(reader) > 15_000


def test_windows_are_those_of_the_settings(tmp_path: Path) -> None:
    world = World(tmp_path, brokers=(1,), quota_window_num="3", quota_window_size_seconds="2")
    world.lead(1, isr=(1,), replicas=(1,), is_new=True)
    limit(world, producer_byte_rate=1000, request_percentage=0.01)
    request = produce_request(b"x" * 15_000)
    assert throttle_ms(world.send(1, request, 9)) == size_of(request, 9) - 4_000
    world.now_ms += 6_000
    spend(world, 500)
    assert throttle_ms(world.send(1, mm.MetadataRequest(topics=[]), 9)) == 2000, "one window at most"


def test_those_who_came_first_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.broker.client_throttles.MOST_BUCKETS", 3)
    quotas = ClientQuotas()
    throttles = ClientThrottles(quotas, BrokerSettings({}))
    quotas.change("clients", "<default>", {PRODUCE_RATE: "1"})
    throttles.quotas_changed()
    for number in range(10):
        throttles.limits_of(asked("ann", f"c{number}"))
        assert len(throttles._rates) <= 3 and len(throttles._limits) <= 3
    one, again = throttles.limits_of(asked("ann", "c9")), throttles.limits_of(asked("ann", "c9"))
    assert one is again


def test_a_rate_that_was_forgotten_is_begun_anew_by_all_who_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.broker.client_throttles.MOST_BUCKETS", 4)
    quotas = ClientQuotas()
    throttles = ClientThrottles(quotas, BrokerSettings({}))
    for user in ("ann", "bob"):
        quotas.change("users", user, {PRODUCE_RATE: "1", FETCH_RATE: "1", REQUEST_PERCENTAGE: "1"})
    throttles.quotas_changed()
    throttles.limits_of(asked("ann", "one"))
    throttles.limits_of(asked("bob", "one"))  # the rates of both are more than are kept
    one, other = (throttles.limits_of(asked("ann", client)) for client in ("one", "other"))
    assert one.produce is not None and other.produce is not None
    assert one.produce.rate is other.produce.rate


def test_names_without_end_are_told_apart_by_their_beginning() -> None:
    quotas = ClientQuotas()
    throttles = ClientThrottles(quotas, BrokerSettings({}))
    quotas.change("clients", "<default>", {PRODUCE_RATE: "1"})
    throttles.quotas_changed()
    one, other = (throttles.limits_of(asked("ann", "c" * 30_000 + end)) for end in "ab")
    assert one is other and one.produce is not None
    assert all(len(name) < 300 for _, name in throttles._limits)
