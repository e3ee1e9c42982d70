"""What brokers at rest answer to tools, and what is left in the store: wrong ones made by hand, and planted in a world."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId
from odradek.protocol.messages import describe_configs, describe_producers, metadata
from odradek.sim.checkers.described import Facts, tidy, told_as_it_is
from odradek.sim.checkers.history import History
from odradek.sim.clients.client import Address, SimClient
from odradek.sim.clients.producer import SimProducer
from odradek.sim.observed.described import (
    _configurations,
    _metadata,
    _producers,
    described_wrongly,
    untidy_store,
)
from odradek.sim.observed.instants import Found, found_at, instants
from odradek.sim.plan import Fault
from odradek.sim.run import CORRECTNESS, run
from odradek.sim.world import PORT, World
from odradek.store.api import Create, Op
from tests.mutants.edit import Edit
from tests.mutants.patching import applied
from tests.sim.test_beliefs import HOST, T, connected_to, healthy_world
from tests.sim.test_further_faults import plan_with
from tests.support import each

ONE = BrokerId(1)
SO: Facts = {"a": 1, "b": (2, "x")}
WRONG: dict[str, Facts] = {
    "another value": {"a": 2, "b": (2, "x")},
    "a field of it": {"a": 1, "b": (2, "y")},
    "too little": {"a": 1},
    "too much": {**SO, "c": 3},
}


@each(WRONG)
def test_what_is_told_and_is_not_so_is_named(why: str) -> None:
    assert [anomaly.name for anomaly in told_as_it_is(ONE, WRONG[why], SO, SO)] == ["AnswersAtRest"]


def test_what_has_changed_meanwhile_is_not_judged() -> None:
    assert list(told_as_it_is(ONE, SO, SO, SO)) == []
    assert list(told_as_it_is(ONE, {"a": 1}, {"a": 1}, {"a": 2})) == []
    assert list(told_as_it_is(ONE, {}, {}, {"a": 2})) == []


def _wrong(world: World) -> list[str]:
    return [anomaly.detail for anomaly in described_wrongly(world, connected_to(world), HOST)]


def test_a_healthy_cluster_tells_what_is_so_of_many_things() -> None:
    with healthy_world() as (world, _):
        assert _wrong(world) == []


class _WritesMeanwhile(SimClient):
    """With each of its questions a log takes one more record."""

    producer: SimProducer

    async def ask(self, address: Address, message: Any, version: int | None = None) -> Any:
        assert (await self.producer.send(T, [b"2"])).outcome == "ok"
        return await super().ask(address, message, version)


def _connected_and_writes(world: World) -> Callable[[], Awaitable[SimClient]]:
    async def connected() -> SimClient:
        client = _WritesMeanwhile(world.loop, HOST, world.addresses)
        client.producer = SimProducer(await connected_to(world)(), "p1", History())
        await client.producer.open()
        await client.refresh([])
        return client

    return connected


def test_a_log_that_changes_while_brokers_are_asked_is_asked_for_the_times_it_had_before() -> None:
    """Those of its records in between were asked for: the files had them neither before nor after."""
    with healthy_world() as (world, _):
        assert described_wrongly(world, _connected_and_writes(world), HOST) == []
    with applied([ANOTHER_TIME]), healthy_world() as (world, _):
        (found,) = described_wrongly(world, _connected_and_writes(world), HOST)
        assert f"tells of offset of {T} at " in found.detail


def _another_controller(leader: Any) -> None:
    leader.metadata.controller_id = BrokerId(9)


def _another_id(leader: Any) -> None:
    leader.metadata.topic_ids["t"] = b"0" * 16
    leader.metadata.epoch += 1


def _no_broker(leader: Any) -> None:
    number = next(one for one in leader.metadata.brokers if one != leader.broker_id)
    del leader.metadata.brokers[number]
    leader.metadata.live_brokers.discard(number)
    leader.metadata.epoch += 1


PLANTED: dict[str, tuple[str, Callable[[Any], None]]] = {
    "in who is controller": ("the controller", _another_controller),
    "in the id of a topic": ("topic t", _another_id),
    "in who is there": ("broker ", _no_broker),
}


@each(PLANTED)
def test_what_is_planted_is_found(why: str) -> None:
    about, plant = PLANTED[why]
    with healthy_world() as (world, leader):
        plant(leader)
        found = _wrong(world)
        assert found and any(f"tells of {about}" in one for one in found), found


def test_a_time_behind_all_records_is_asked_for_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [Found(0, 5, 0), Found(1, 9, 0), Found(2, 7, 0)]
    monkeypatch.setattr("odradek.sim.observed.instants.segment_files", lambda log: [(0, None)])
    monkeypatch.setattr("odradek.sim.observed.instants._records_in", lambda file, log_start_offset: records)
    log = cast(Any, SimpleNamespace(log_start_offset=0))
    assert instants(log) == [9, 10]
    assert found_at(log, 3, [9, 10]) == {9: records[1], 10: Found()}
    assert found_at(log, 1, [9, 10]) == {9: Found(), 10: Found()}, "only what is committed"
    records[1:2] = []
    assert instants(log) == [7, 8]
    assert found_at(log, 3, [7, 8]) == {7: records[1], 8: Found()}
    records.clear()
    assert (instants(log), found_at(log, 3, [7])) == ([], {7: Found()})


class _Unwell:
    """Answers with this, whatever it is asked."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    async def ask(self, *_: object) -> Any:
        return self._answer


def test_an_error_below_none_is_one_too() -> None:
    """The largest of all codes was taken, and -1 passed for 0."""
    row = metadata.MetadataResponsePartition(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    topic = metadata.MetadataResponseTopic(name="t", partitions=[row])
    told: dict[str, object] = {}
    answer = metadata.MetadataResponse(topics=[topic])
    asyncio.run(_metadata(cast(SimClient, _Unwell(answer)), ("b1", PORT), told))

    assert cast("tuple[int, ...]", told["topic t"])[0] == ErrorCode.UNKNOWN_SERVER_ERROR


def test_who_is_refused_the_producers_is_not_told_that_there_are_none() -> None:
    refused = describe_producers.PartitionResponse(
        partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER
    )
    topic = describe_producers.TopicResponse(name="t", partitions=[refused])
    told: dict[str, object] = {}
    answer = describe_producers.DescribeProducersResponse(topics=[topic])
    asyncio.run(_producers(cast(SimClient, _Unwell(answer)), ("b1", PORT), [T], told))

    assert told == {f"producers of {T}": (ErrorCode.NOT_LEADER_OR_FOLLOWER, [])}


def test_who_is_refused_a_configuration_is_not_told_that_there_is_none() -> None:
    refused = describe_configs.DescribeConfigsResult(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, resource_name="t"
    )
    told: dict[str, object] = {}
    answer = describe_configs.DescribeConfigsResponse(results=[refused])
    asyncio.run(_configurations(cast(SimClient, _Unwell(answer)), ("b1", PORT), ["t"], told))

    assert told == {"configuration of t": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, {})}


NO_SIZE = Edit("broker.handlers.describe_log_dirs:_add", "log.size_bytes", "log.size_bytes + 1")
ANOTHER_TIME = Edit(
    "broker.handlers.list_offsets:_find",
    "return _found(index, found.offset, found.leader_epoch, timestamp=found.timestamp)",
    "return _found(index, found.offset + 1, found.leader_epoch, timestamp=found.timestamp)",
)
ANOTHER_SEQUENCE = Edit("broker.handlers.describe_producers:_seen", "producer.last_sequence", "0 - 7")


def test_a_field_of_an_answer_that_is_wrong_is_found() -> None:
    for edit, about in (
        (NO_SIZE, f"size of {T}"),
        (ANOTHER_SEQUENCE, f"producers of {T}"),
        (ANOTHER_TIME, f"offset of {T} at "),
    ):
        with applied([edit]), healthy_world() as (world, _):
            assert any(f"tells of {about}" in one for one in _wrong(world)), about


LEFT: dict[str, list[Op]] = {
    "a configuration": [Create("/config/topics/gone", b'{"version":1,"config":{}}')],
    "a deletion": [Create("/admin/delete_topics/gone")],
    "a change of an ISR": [Create("/isr_change_notification/isr_change_0000000001")],
    "an election": [Create("/admin/preferred_replica_election", b"{}")],
}


@each(LEFT)
def test_what_is_left_in_the_store_is_found(why: str) -> None:
    with healthy_world() as (world, _):
        assert untidy_store(world) == []
        session = world.store.ensemble.tree.open_session(6_000)
        world.store.ensemble.tree.multi(session, LEFT[why])
        assert [anomaly.name for anomaly in untidy_store(world)] == ["StoreIsTidy"]


def test_each_path_that_is_left_is_named() -> None:
    assert [anomaly.name for anomaly in tidy({"/a": "why", "/b": "why"})] == ["StoreIsTidy"] * 2
    assert list(tidy({})) == []


KEEPS_CONFIGURATION = Edit(
    "controller.topic_deletion:CompleteDeletions.plan",
    "removals += [RemoveTopic(topic), RemoveTopicConfig(topic), RemoveTopicDeletion(topic)]",
    "removals += [RemoveTopic(topic), RemoveTopicDeletion(topic)]",
)


def test_a_configuration_that_outlives_its_topic_is_found_in_a_world() -> None:
    with applied([KEEPS_CONFIGURATION]):
        outcome = run(plan_with(Fault(1.0, "list_offsets", 0.3, 0.5), duration_s=3.0))
    assert (outcome.code, {anomaly.name for anomaly in outcome.anomalies}) == (CORRECTNESS, {"StoreIsTidy"})
