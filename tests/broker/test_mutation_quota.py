"""Quotas on topics made, grown and deleted (KIP-599), and those of clients in the store (KIP-546)."""

from pathlib import Path
from time import process_time
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.broker import row_limits
from odradek.broker.answers import Reply
from odradek.broker.quotas import MUTATION_RATE, REQUEST_PERCENTAGE, ClientQuotas, TokenBucket
from odradek.broker.request import Request
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import LEADER_DURING_DELETE
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages import alter_client_quotas as aq
from odradek.protocol.messages import delete_topics as dt
from odradek.protocol.messages import describe_client_quotas as dq
from odradek.protocol.messages import metadata as mm
from tests.broker.configs import Store
from tests.broker.topics import create, grow, topic
from tests.broker.world import T0, Pending, World, told

RATE = {MUTATION_RATE: "2.0"}
BURST = 22  # 11 windows of a second


def entity(**names: str | None) -> list[Any]:
    return [aq.EntityData(entity_type=kind.replace("_", "-"), entity_name=n) for kind, n in names.items()]


# ------------------------------------------------------------------------------------------- whose quota it is


def test_the_closest_entity_counts_and_a_default_gives_everybody_a_bucket_of_his_own() -> None:
    quotas = ClientQuotas()
    nodes = [
        ("clients", "<default>", "1"),
        ("clients", "app", "2"),
        ("users", "<default>", "3"),
        ("users", "<default>/clients/<default>", "4"),
        ("users", "<default>/clients/app", "5"),
        ("users", "ann", "6"),
        ("users", "ann/clients/<default>", "7"),
        ("users", "ann/clients/app", "8"),
    ]
    found = []
    for kind, name, rate in nodes:
        assert quotas.change(kind, name, {MUTATION_RATE: rate}) == []
        found.append(quotas.find(MUTATION_RATE, "ann", "app"))
    assert found == [
        (1, (None, "app")),
        (2, (None, "app")),
        (3, ("ann", None)),
        (4, ("ann", "app")),
        (5, ("ann", "app")),
        (6, ("ann", None)),
        (7, ("ann", "app")),
        (8, ("ann", "app")),
    ]
    for kind, name, _ in reversed(nodes):
        assert quotas.find(MUTATION_RATE, "ann", "app") == found.pop()
        quotas.change(kind, name, {})
    assert quotas.find(MUTATION_RATE, "ann", "app") is None


def test_a_rate_that_is_none_is_left_out_and_the_others_count() -> None:
    quotas = ClientQuotas()
    for bad in ("many", "-1", "nan", "inf"):
        (problem,) = quotas.change("users", "ann", {MUTATION_RATE: bad, "SCRAM-SHA-256": "salt=x"})
        assert MUTATION_RATE in problem
        assert "salt" not in problem
        assert quotas.find(MUTATION_RATE, "ann", "x") is None
    for good, rate in (("0", 0.0), ("-0", 0.0), ("0.5", 0.5), ("1e300", 1e300)):
        assert quotas.change("users", "ann", {MUTATION_RATE: good}) == []
        quota = quotas.find(MUTATION_RATE, "ann", "x")
        assert quota is not None and quota.rate == rate
    (problem,) = quotas.change("users", "ann/clients", RATE)
    assert "names no user and no client" in problem


def test_a_bucket_fills_with_time_up_to_its_burst_and_not_while_the_clock_runs_back() -> None:
    bucket = TokenBucket(10, now_ms=1_000)
    bucket.tokens -= 30
    assert bucket.wait_ms(2) == 10_000
    bucket.fill(2, 10, 6_000)
    assert bucket.wait_ms(2) == 5_000
    bucket.fill(2, 10, 1_000)
    assert bucket.wait_ms(2) == 5_000
    bucket.fill(2, 10, 1_500)
    assert bucket.wait_ms(2) == 4_500
    bucket.fill(2, 10, 1_000_000)
    assert bucket.tokens == 10


# ------------------------------------------------------------------------------------------------- enforced


@pytest.fixture
def limited(world: World) -> World:
    world[1].broker.client_quota_changed("users", "<default>", RATE)
    return world


def answer_store(world: World) -> None:
    for request in told(world, fx.StoreRequest):
        question = request.question
        names = (
            [question.topic]
            if isinstance(question, fx.AddPartitions)
            else [getattr(t, "topic", t) for t in question.topics]
        )
        written = fx.TopicsWritten({name: (ErrorCode.NONE, "") for name in names})
        world[1].broker.answered(request.request_id, written, world.now_ms)
    world.settle()


def made(world: World, pending: Pending) -> tuple[ErrorCode, int]:
    """The one topic's error, after the store took it and the time-out passed; and the throttle time."""
    answer_store(world)
    if not pending.is_answered:
        world.advance(5_100)
    answer = pending.message
    rows = getattr(answer, "topics", None) or getattr(answer, "results", None) or answer.responses
    assert isinstance(pending.result, Reply)
    assert pending.result.throttle_time_ms == answer.throttle_time_ms, "and the connection is held up"
    return ErrorCode(rows[0].error_code), answer.throttle_time_ms


TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT  # made: no controller elects leaders here


def test_a_client_that_owes_nothing_may_take_more_than_there_is_and_then_waits(limited: World) -> None:
    assert made(limited, create(limited, topic("a", BURST + 10))) == (TIMED_OUT, 0)
    # 10 are owed, 5 s have passed: nothing is owed, and not one more is there.
    assert made(limited, create(limited, topic("b", 4))) == (TIMED_OUT, 0)
    assert made(limited, create(limited, topic("c", 20))) == (TIMED_OUT, 0)
    refused = create(limited, topic("d", 1))
    code, throttle_time_ms = made(limited, refused)
    assert code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert throttle_time_ms > 0
    assert refused.message.topics[0].error_message is None
    limited.advance(throttle_time_ms)
    assert made(limited, create(limited, topic("d", 1))) == (TIMED_OUT, 0)


def test_names_without_end_are_told_apart_by_their_beginning(world: World) -> None:
    broker = world[1].broker
    broker.client_quota_changed("clients", "<default>", RATE)
    for end in "ab":
        asked = Request(ApiKey.CREATE_TOPICS, 6, 1, "\n" * 30_000 + end, memoryview(b""), world.connection())
        broker.mutation_quota(asked, strict_since=6, now_ms=T0)
    ((_, client),) = broker.mutation_quotas._buckets
    assert client is not None and len(client) < 1_000


def test_what_was_refused_is_not_written_and_costs_nothing(limited: World) -> None:
    made(limited, create(limited, topic("a", BURST + 100)))
    before = limited[1].broker.mutation_quotas
    for _ in range(3):
        pending = create(limited, topic("b", 1_000))
        assert told(limited, fx.StoreRequest) == []
        assert pending.message.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert before is limited[1].broker.mutation_quotas
    wait_ms = pending.message.throttle_time_ms
    limited.advance(wait_ms)
    assert made(limited, create(limited, topic("b", 1))) == (TIMED_OUT, 0)


@pytest.mark.parametrize(("version", "is_strict"), [(5, False), (6, True)])
def test_a_client_that_does_not_know_the_error_is_let_through_and_held_up(
    limited: World, version: int, is_strict: bool
) -> None:
    made(limited, create(limited, topic("a", BURST + 40), version=version))
    pending = create(limited, topic("b", 1), version=version)
    code, throttle_time_ms = made(limited, pending)
    assert code == (ErrorCode.THROTTLING_QUOTA_EXCEEDED if is_strict else TIMED_OUT)
    assert throttle_time_ms > 0


def test_the_wait_for_topics_is_not_shortened_by_a_shorter_one_for_time(limited: World) -> None:
    limited[1].broker.client_quota_changed("users", "<default>", {**RATE, REQUEST_PERCENTAGE: "0.01"})
    made(limited, create(limited, topic("a", BURST + 40)))
    connection = limited.connection()
    spent = Request(ApiKey.METADATA, 9, 1, "test", memoryview(b""), connection)
    limited[1].broker.throttles.time_spent(spent, 10**9, limited.now_ms)
    pending = create(limited, topic("b", 1))
    assert pending.message.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert pending.message.throttle_time_ms > 1_000, "that of time is one window at most"
    assert isinstance(pending.result, Reply)
    assert pending.result.throttle_time_ms == pending.message.throttle_time_ms


def test_growing_and_deleting_count_as_well(limited: World) -> None:
    assert made(limited, grow(limited, BURST + 30))[0] == TIMED_OUT
    pending = grow(limited, 60)
    assert pending.message.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    deletion = dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name="t")], timeout_ms=1_000)
    (row,) = limited.call(1, deletion, 6).responses
    assert row.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    older = limited.send(1, dt.DeleteTopicsRequest(topic_names=["t"], timeout_ms=1_000), 4)
    limited.leadership[T0]["leader"] = LEADER_DURING_DELETE
    answer_store(limited)
    limited.notify_metadata()
    limited.settle()
    assert older.message.responses[0].error_code == 0
    assert older.message.throttle_time_ms > 0


def test_topics_made_by_asking_for_them_count_and_are_never_refused(limited: World) -> None:
    """Made by whichever broker is asked; the bucket is of the broker that makes them."""
    names = [mm.MetadataRequestTopic(name=f"auto-{n}") for n in range(BURST + 30)]
    answer = limited.call(1, mm.MetadataRequest(topics=names, allow_auto_topic_creation=True), 9)
    assert {t.error_code for t in answer.topics} == {ErrorCode.LEADER_NOT_AVAILABLE}
    assert create(limited, topic("b", 1)).message.topics[0].error_code == 89


def test_validation_costs_nothing(limited: World) -> None:
    for _ in range(3):
        row = create(limited, topic("a", 1_000), validate_only=True).message.topics[0]
        assert row.error_code == 0


def test_a_clock_that_was_set_back_neither_forgives_nor_punishes(limited: World) -> None:
    made(limited, create(limited, topic("a", BURST + 30)))
    limited.now_ms -= 3_600_000
    pending = create(limited, topic("b", 1))
    assert pending.message.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert 0 < pending.message.throttle_time_ms <= 15_000


def test_a_quota_that_is_changed_or_taken_away_counts_at_once(limited: World) -> None:
    made(limited, create(limited, topic("a", BURST + 100)))
    assert create(limited, topic("b", 1)).message.topics[0].error_code == 89
    limited[1].broker.client_quota_changed("users", "ANONYMOUS", {MUTATION_RATE: "1000"})
    limited.advance(200)
    assert made(limited, create(limited, topic("b", 1)))[0] == TIMED_OUT
    limited[1].broker.client_quota_changed("users", "ANONYMOUS", {})
    limited[1].broker.client_quota_changed("users", "<default>", {})
    assert made(limited, create(limited, topic("c", 1)))[0] == TIMED_OUT


# -------------------------------------------------------------------------------------- described and altered


@pytest.fixture
def store(tmp_path: Path) -> Store:
    world = World(tmp_path / "quotas", brokers=(1,))
    return Store(world)


def alter(store: Store, *rows: tuple[list[Any], dict[str, float | None]], **options: Any) -> list[Any]:
    request = aq.AlterClientQuotasRequest(
        entries=[
            aq.AlterClientQuotasRequestEntryData(
                entity=names,
                ops=[
                    aq.OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in values.items()
                ],
            )
            for names, values in rows
        ],
        **options,
    )
    pending = store.world.send(1, request, 1)
    store.serve()
    return [(ErrorCode(row.error_code), row.error_message) for row in pending.message.entries]


def described(store: Store, *components: tuple[str, int, str | None], strict: bool = False) -> Any:
    request = dq.DescribeClientQuotasRequest(
        components=[dq.ComponentData(entity_type=t, match_type=m, match=n) for t, m, n in components],
        strict=strict,
    )
    pending = store.world.send(1, request, 1)
    store.serve()
    answer = pending.message
    if answer.error_code:
        return ErrorCode(answer.error_code), answer.error_message
    return [
        ({e.entity_type: e.entity_name for e in row.entity}, {v.key: v.value for v in row.values})
        for row in answer.entries
    ]


def test_quotas_are_kept_where_apache_keeps_them(store: Store) -> None:
    store.nodes["users", "ann%40home"] = ({"SCRAM-SHA-256": "salt=x"}, 3)
    rate = {"producer_byte_rate": 1024.0, MUTATION_RATE: 0.5}
    assert (
        alter(
            store,
            (entity(user="ann@home"), rate),
            (entity(user=None), rate),
            (entity(client_id="a b"), rate),
            (entity(user="ann@home", client_id=None), rate),
            (entity(ip="10.0.0.1"), {"connection_creation_rate": 7}),
        )
        == [(ErrorCode.NONE, None)] * 5
    )
    values = {"producer_byte_rate": "1024", MUTATION_RATE: "0.5"}
    assert {entity: config for entity, (config, _) in store.nodes.items()} == {
        ("users", "ann%40home"): {"SCRAM-SHA-256": "salt=x", **values},
        ("users", "<default>"): values,
        ("clients", "a%20b"): values,
        ("users", "ann%40home/clients/<default>"): values,
        ("ips", "10.0.0.1"): {"connection_creation_rate": "7"},
    }
    assert alter(store, (entity(user="ann@home"), {MUTATION_RATE: None}))[0][0] == 0
    assert store.nodes["users", "ann%40home"][0] == {"SCRAM-SHA-256": "salt=x", "producer_byte_rate": "1024"}


def test_of_one_entity_that_is_named_twice_the_first_counts_and_the_second_is_refused(store: Store) -> None:
    told = alter(
        store,
        (entity(user="x"), {"producer_byte_rate": 1.0}),
        (entity(user="x"), {"consumer_byte_rate": 2.0}),
    )
    refused = (ErrorCode.INVALID_REQUEST, "Each client quota entity must appear at most once.")
    assert told == [(ErrorCode.NONE, None), refused]
    assert {entity: config for entity, (config, _) in store.nodes.items()} == {
        ("users", "x"): {"producer_byte_rate": "1"}
    }


REFUSED: list[tuple[list[Any], dict[str, float | None], str]] = [
    ([], {}, "Invalid empty client quota entity"),
    (entity(group="x"), {}, "Unhandled client quota entity type: group"),
    (entity(user=""), {}, "Empty user not supported"),
    (entity(ip="."), {}, "ip . cannot have quotas of its own"),
    (entity(user="x", client_id=".."), {}, "client-id .. cannot have quotas of its own"),
    (
        entity(user="x", ip="1.1.1.1"),
        {},
        "Invalid quota entity combination, IP entity should not be used with user",
    ),
    (entity(ip="300.1.1.1"), {"connection_creation_rate": 1}, "300.1.1.1 is not a valid IP address"),
    (entity(ip="localhost"), {"connection_creation_rate": 1}, "names of hosts are not looked up"),
    (entity(user="x"), {"speed": 1}, "Invalid configuration key speed"),
    (entity(user="x"), {"connection_creation_rate": 1}, "Invalid configuration key connection_creation_rate"),
    (entity(user="x"), {"producer_byte_rate": 1.5}, "Configuration producer_byte_rate must be a LONG value"),
    (entity(user="x"), {"producer_byte_rate": -1}, "Configuration producer_byte_rate must be a LONG value"),
    (entity(user="x"), {"producer_byte_rate": 1e19}, "Configuration producer_byte_rate must be a LONG value"),
    (
        entity(ip="10.0.0.1"),
        {"connection_creation_rate": 3e9},
        "Configuration connection_creation_rate must be a INT value",
    ),
    (entity(user="x"), {MUTATION_RATE: -1}, "must be 0 or more"),
    (entity(user="x"), {MUTATION_RATE: float("nan")}, "must be 0 or more"),
]


@pytest.mark.parametrize(("names", "values", "sentence"), REFUSED, ids=[row[2] for row in REFUSED])
def test_a_quota_that_cannot_be_is_refused_alone(
    store: Store, names: list[Any], values: dict[str, float | None], sentence: str
) -> None:
    (code, message), fine = alter(store, (names, values), (entity(user="y"), {MUTATION_RATE: 1}))
    assert code == ErrorCode.INVALID_REQUEST
    assert message is not None
    assert sentence in message
    assert fine == (ErrorCode.NONE, None)
    assert list(store.nodes) == [("users", "y")]


def test_thousands_of_entities_are_not_compared_one_by_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_limits, "LEAST_ROWS", 100_000)
    rows: list[tuple[list[Any], dict[str, float | None]]] = [
        (entity(user=f"user {number}"), {}) for number in range(12_000)
    ]
    began = process_time()
    assert set(alter(store, *rows)) == {(ErrorCode.NONE, None)}
    assert process_time() - began < 1.2, "all with all takes two seconds more"


def test_parts_of_an_entity_are_not_compared_with_all_its_operations(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_limits, "LEAST_ROWS", 100_000)
    removed = {f"key {number}": None for number in range(10_000)}
    began = process_time()
    assert alter(store, (entity(user="u") * 10_000, removed)) == [(ErrorCode.NONE, None)]
    assert process_time() - began < 0.8, "each part with each operation takes two seconds more"


def test_what_is_no_quota_is_not_removed(store: Store) -> None:
    store.nodes["users", "ann"] = ({"SCRAM-SHA-256": "salt=x", "producer_byte_rate": "5"}, 3)
    assert alter(store, (entity(user="ann"), {"SCRAM-SHA-256": None, "producer_byte_rate": None})) == [
        (ErrorCode.NONE, None)
    ]
    assert store.nodes["users", "ann"][0] == {"SCRAM-SHA-256": "salt=x"}


def test_only_validated_quotas_are_not_written(store: Store) -> None:
    assert alter(store, (entity(user="y"), {MUTATION_RATE: 1}), validate_only=True)[0][0] == 0
    assert store.written == []


def test_a_filter_names_a_value_the_default_or_any(store: Store) -> None:
    for kind, name in (
        ("users", "ann"),
        ("users", "<default>"),
        ("users", "ann/clients/app"),
        ("users", "ann/clients/<default>"),
        ("clients", "app"),
    ):
        store.nodes[kind, name] = (dict(RATE), 0)
    store.nodes["users", "scram"] = ({"SCRAM-SHA-256": "salt=x"}, 0)
    store.nodes["ips", "10.0.0.1"] = ({"connection_creation_rate": "7"}, 0)

    def entities(*components: tuple[str, int, str | None], strict: bool = False) -> list[dict[str, str]]:
        return [names for names, _ in described(store, *components, strict=strict)]

    ann, everybody = {"user": "ann"}, {"user": None}
    both, any_client = {"user": "ann", "client-id": "app"}, {"user": "ann", "client-id": None}
    assert entities(("user", 0, "ann")) == [ann, any_client, both]
    assert entities(("user", 0, "ann"), strict=True) == [ann]
    assert entities(("user", 1, None)) == [everybody]
    assert entities(("user", 2, None), ("client-id", 1, None)) == [any_client]
    assert entities(("client-id", 0, "app")) == [{"client-id": "app"}, both]
    assert described(store, ("ip", 2, None)) == [({"ip": "10.0.0.1"}, {"connection_creation_rate": 7.0})]
    assert len(entities()) == 6


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("", 0, "x")], "Unexpected empty filter component entity type"),
        ([("group", 0, "x")], "Custom entity type 'group' not supported"),
        ([("user", 0, "x"), ("user", 1, None)], "Duplicate user filter component entity type"),
        ([("user", 0, "x"), ("ip", 2, None)], "Invalid entity filter component combination"),
        ([("user", 9, "x")], "Unexpected match type"),
    ],
)
def test_a_filter_that_says_nothing_is_refused(
    store: Store, components: list[tuple[str, int, str | None]], error: str
) -> None:
    code, message = described(store, *components)
    assert code in (ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION)
    assert error in message


def test_an_address_is_limited_however_it_is_written_and_a_name_limits_nobody() -> None:
    """Nodes have the name escaped, as Apache writes them: that of ::1 is %3A%3A1."""
    quotas = ClientQuotas()
    for name, rate in (("%3A%3A1", "5"), ("2001%3ADB8%3A0%3A0%3A%3A7", "6"), ("10.0.0.1", "7")):
        assert quotas.change("ips", name, {"connection_creation_rate": rate}) == []
    addresses = ("::1", "2001:db8::7", "10.0.0.1", "10.0.0.2")
    assert [quotas.connection_rate(address) for address in addresses] == [5, 6, 7, None]

    (line,) = quotas.change("ips", "some%20host", {"connection_creation_rate": "1"})
    assert line == "/config/ips/some%20host limits nobody: some host is no IP address"
    assert quotas.change("ips", "<default>", {"connection_creation_rate": "9"}) == []
    assert quotas.connection_rate("10.0.0.2") == 9
    assert quotas.change("ips", "%3A%3A1", {}) == []
    assert quotas.connection_rate("::1") == 9


def test_a_quota_of_a_name_of_a_host_can_be_removed(store: Store) -> None:
    """Apache's brokers look names up, and store them."""
    store.nodes["ips", "localhost"] = ({"connection_creation_rate": "7"}, 0)
    assert alter(store, (entity(ip="localhost"), {"connection_creation_rate": None}))[0][0] == 0
    assert not store.nodes["ips", "localhost"][0]
