"""What Apache Kafka 3.9.1 says to bad administrative requests (tests/golden/admin_errors.json), and where it puts
replicas (tests/golden/assignments.json; tests/golden/record_admin.py recorded both): ours says and does the same, or
one of the differences named here."""

import json
from pathlib import Path
from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.broker.assignment import Assignment, assign_replicas
from odradek.broker.config_description import TYPES, BrokerLayers, broker_entries
from odradek.broker.metadata_cache import LiveBroker, PartitionMetadata
from odradek.model.controller_requests import AllocateProducerIdsAnswer, AllocateProducerIdsAsked
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch
from odradek.protocol.messages import delete_topics as dt
from tests.broker.admin_cases import CASES, create, delete, grow, topic
from tests.broker.admin_cases import told as errors_of
from tests.broker.configs import Store
from tests.broker.configs import describe as describe_all
from tests.broker.world import Pending, World
from tests.support import GOLDEN

APACHE = json.loads((GOLDEN / "admin_errors.json").read_text(encoding="utf-8"))
PLACED = json.loads((GOLDEN / "assignments.json").read_text(encoding="utf-8"))
# What ours says, and why not the same.
DIFFERENCES: dict[str, tuple[list[list[Any]], str]] = {
    "create: negative partition": (
        [[39, "partitions should be a consecutive 0-based integer sequence"]],
        "Apache fails inside (-1); it is the client's mistake",
    ),
    "create: no replicas": (
        [[39, "Partition 0 has no replicas."]],
        "Apache makes a topic that nobody can ever lead, and the request times out",
    ),
    "delete: name and id": (
        [[42, "Topic name and topic ID can not both be specified."]],
        "the sentence Apache only logs",
    ),
    "change: append to unknown": (
        [[40, "Config value append is not allowed for config key: no.such.key"]],
        "Apache fails inside (-1)",
    ),
    "change: unknown operation": (
        [[42, "Unknown operation 9 for retention.ms"]],
        "Apache fails inside (-1)",
    ),
    "change: loggers of another": (
        [[42, "Unexpected broker id, expected 1, but received 2"]],
        "Apache names itself twice",
    ),
    "replace: resource twice": (
        [[42, "Each resource must appear at most once."]] * 2,
        "Apache fails inside and never answers",
    ),
    "describe: unknown resource type": (
        [[42, "Unsupported resource type: 77"]],
        "Apache says the general words of the code",
    ),
}


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, brokers=(1,))
    for number, (name, index) in enumerate((("existing", 0), ("existing", 1), ("a.b", 0))):
        topic_id = bytes([50 + (number > 1)] * 16)
        world.lead(1, isr=(1,), replicas=(1,), topic=name, index=index, topic_id=topic_id, is_new=True)
    world[1].broker.controller_status(True, 1, world.now_ms)
    return world


def answered(world: World, pending: Pending) -> Any:
    """With a store that has nothing in it, and a controller that knows nobody."""
    broker = world[1].broker
    while not pending.is_answered:
        for effect in broker.take_effects():
            if isinstance(effect, fx.LoggersAsked):
                broker.answered(effect.request_id, {"root": "INFO"}, world.now_ms)
            elif isinstance(effect, fx.ControllerRequest):
                assert isinstance(effect.ask, AllocateProducerIdsAsked)
                known = effect.ask.broker == 1
                code = ErrorCode.STALE_BROKER_EPOCH if known else ErrorCode.BROKER_ID_NOT_REGISTERED
                broker.answered(effect.request_id, AllocateProducerIdsAnswer(code), world.now_ms)
            elif isinstance(effect, fx.StoreRequest):
                question = effect.question
                result: Any
                if isinstance(question, fx.ReadConfigs):
                    result = fx.ConfigsRead({e: fx.StoredConfig({}, -1) for e in question.entities})
                elif isinstance(question, fx.ReadFeatures):
                    result = fx.FeaturesRead({}, 0)
                else:
                    raise AssertionError(f"nothing is written for a request that is refused: {question}")
                broker.answered(effect.request_id, result, world.now_ms)
    return pending.message


@pytest.mark.parametrize("name", CASES)
def test_a_bad_request_is_told_what_apache_tells_it(world: World, name: str) -> None:
    version, request = CASES[name]
    ours = [list(row) for row in errors_of(answered(world, world.send(1, request, version)))]
    theirs = APACHE["errors"][name]
    if name in DIFFERENCES:
        assert ours == DIFFERENCES[name][0]
        assert ours != theirs, f"{name} is no difference any more"
    else:
        assert ours == theirs


def test_a_new_topic_is_described_with_the_same_settings(world: World) -> None:
    wanted = create(topic("made", 3), validate_only=True)
    (row,) = world.call(1, wanted, 7).topics
    ours = sorted([c.name, c.value, c.read_only, c.config_source] for c in row.configs)
    assert ours == sorted(APACHE["answers"]["create: configs"])
    assert (row.num_partitions, row.replication_factor) == (3, 1)


def test_an_empty_list_of_names_means_all_of_them(world: World) -> None:
    store = Store(world)
    (all_of_them,) = describe_all(world, store, (2, "existing", []))
    assert len(all_of_them.configs) == APACHE["answers"]["describe: no keys"]


def test_the_rates_of_replication_are_described_alike(world: World) -> None:
    name, *_ = APACHE["answers"]["describe: rate"][0]
    layers = BrokerLayers(world[1].settings, {name: "1000"}, {name: "2000"})
    ours = [
        [
            entry.setting.name,
            entry.value,
            entry.is_read_only,
            entry.source,
            entry.is_sensitive,
            TYPES[entry.setting.type],
            [list(synonym) for synonym in entry.synonyms],
        ]
        for entry in broker_entries(layers, {name: None})
    ]
    assert ours == APACHE["answers"]["describe: rate"]


def test_the_quota_on_mutations_refuses_and_holds_up_the_same_requests(world: World) -> None:
    """Rate 1, burst 11; Apache's run took no time worth a token."""
    world[1].broker.client_quota_changed("users", "<default>", {"controller_mutation_rate": "1"})
    steps: dict[str, tuple[Any, int]] = {
        "create 30": (create(topic("q1", 30), timeout_ms=0), 7),
        "create 1": (create(topic("q2", 1), timeout_ms=0), 7),
        "validate 1": (create(topic("q3", 1), validate_only=True), 7),
        "create 1, version 5": (create(topic("q4", 1), timeout_ms=0), 5),
        "grow by 1": (grow("existing", 3), 3),
        "grow by 1, version 2": (grow("existing", 3), 2),
        "delete 1, version 4": (dt.DeleteTopicsRequest(topic_names=["a.b"], timeout_ms=0), 4),
        "delete 3": (delete(("existing", bytes(16))), 6),
    }
    throttled = ErrorCode.THROTTLING_QUOTA_EXCEEDED
    for name, errors, is_held_up in APACHE["quota"]:
        request, version = steps[name]
        request.timeout_ms = 0
        pending = world.send(1, request, version)
        for effect in world[1].broker.take_effects():
            assert isinstance(effect, fx.StoreRequest)
            question: Any = effect.question
            names = [question.topic] if isinstance(question, fx.AddPartitions) else question.topics
            written = {getattr(n, "topic", n): (ErrorCode.NONE, "") for n in names}
            world[1].broker.answered(effect.request_id, fx.TopicsWritten(written), world.now_ms)
        answer = pending.message
        assert (errors_of(answer)[0][0] == throttled) == (errors[0][0] == throttled), name
        assert (answer.throttle_time_ms > 0) == is_held_up, name
        if errors[0][0] == throttled:
            assert [list(row) for row in errors_of(answer)] == errors


# ------------------------------------------------------------------------------------------------- assignments

RACKS: dict[int, str | None] = {int(broker): rack for broker, rack in PLACED["racks"].items()}


def recorded(partitions: dict[str, list[int]]) -> Assignment:
    return {int(p): tuple(replicas) for p, replicas in partitions.items()}  # type: ignore[arg-type]


@pytest.mark.parametrize("placed", PLACED["topics"], ids=lambda t: f"{t['partitions']}x{t['factor']}")
def test_replicas_go_where_apache_puts_them(placed: dict[str, Any]) -> None:
    """Its start and shift are drawn; from one of their pairs ours gives the whole assignment."""
    made = recorded(placed["made"])
    drawn = [
        (start, shift)
        for start in range(len(RACKS))
        for shift in range(len(RACKS))
        if made
        == assign_replicas(
            RACKS,
            partitions=placed["partitions"],
            replication_factor=placed["factor"],
            start=start,
            shift=shift,
        )
    ]
    assert drawn


@pytest.mark.parametrize("placed", PLACED["topics"], ids=lambda t: f"{t['partitions']}x{t['factor']}")
def test_replicas_of_added_partitions_go_where_apache_puts_them(
    tmp_path: Path, placed: dict[str, Any]
) -> None:
    """Nothing is drawn here: the place follows from the first replica of partition 0."""
    world = World(tmp_path, brokers=(1,))
    broker = world[1].broker
    broker.controller_status(True, 1, world.now_ms)
    for number, rack in RACKS.items():
        broker.metadata.brokers[number] = LiveBroker(BrokerId(number), {}, rack)
    made, grown = recorded(placed["made"]), recorded(placed["grown"])
    epoch = PartitionEpoch(0)
    broker.metadata.topics["t"] = {
        p: PartitionMetadata(replicas[0], LeaderEpoch(0), [], list(replicas), [], epoch, ControllerEpoch(1))
        for p, replicas in made.items()
    }
    world.send(1, grow("t", len(grown)), 3)
    (effect,) = [e for e in broker.take_effects() if isinstance(e, fx.StoreRequest)]
    assert isinstance(effect.question, fx.AddPartitions)
    assert effect.question.assignment == {p: grown[p] for p in sorted(set(grown) - set(made))}
