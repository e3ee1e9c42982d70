"""Requests about configuration, and a store that answers the broker's questions about it."""

from typing import Any

from odradek.broker import effects as fx
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages import alter_configs as am
from odradek.protocol.messages import describe_configs as dm
from odradek.protocol.messages import incremental_alter_configs as im
from tests.broker.world import Pending, World

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8


class Store:
    """Plays the store for broker 1's questions about configurations."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.nodes: dict[tuple[str, str], tuple[dict[str, str], int]] = {}
        self.unreadable: dict[tuple[str, str], str] = {}
        self.interfere: dict[tuple[str, str], dict[str, str]] = {}
        self.written: list[fx.ConfigWrite] = []
        self.slices = 0  # with another one behind them

    def serve(self) -> None:
        node = self.world[1]
        while taken := node.broker.take_effects():
            for effect in taken:
                if isinstance(effect, fx.StoreRequest):
                    node.broker.answered(effect.request_id, self._answer(effect.question), self.world.now_ms)
                elif isinstance(effect, fx.RunAside):
                    node.broker.answered(effect.request_id, effect.work.run(), self.world.now_ms)
                elif isinstance(effect, fx.GoOn):
                    while node.broker.go_on(self.world.now_ms):
                        self.slices += 1

    def _answer(self, question: Any) -> Any:
        if isinstance(question, fx.ReadConfigs):
            found = {}
            for entity in question.entities:
                overrides, version = self.nodes.get(entity, ({}, -1))
                found[entity] = fx.StoredConfig(dict(overrides), version)
            return fx.ConfigsRead(found, {e: w for e, w in self.unreadable.items() if e in found})
        if isinstance(question, fx.ListConfigs):
            return fx.ConfigsRead(
                {
                    entity: fx.StoredConfig(dict(overrides), version)
                    for entity, (overrides, version) in self.nodes.items()
                    if entity[0] in question.kinds
                }
            )
        outcomes = []
        for write in question.writes:
            entity = (write.kind, write.name)
            if entity in self.interfere:
                _, version = self.nodes.get(entity, ({}, -1))
                self.nodes[entity] = (self.interfere.pop(entity), version + 1)
            _, version = self.nodes.get(entity, ({}, -1))
            if version != write.expected_version:
                outcomes.append("conflict")
                continue
            self.nodes[entity] = (dict(write.overrides), version + 1)
            self.unreadable.pop(entity, None)
            self.written.append(write)
            outcomes.append("stored")
        return fx.ConfigsWritten(tuple(outcomes))


def describe(
    world: World, store: Store, *resources: tuple[int, str, list[str] | None], version: int = 4
) -> Any:
    request = dm.DescribeConfigsRequest(
        resources=[
            dm.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name, keys in resources
        ],
        include_synonyms=True,
        include_documentation=True,
    )
    pending = world.send(1, request, version)
    store.serve()
    return pending.message.results


def alter(
    world: World,
    store: Store,
    configs: dict[str, str | None],
    *,
    kind: int = TOPIC,
    name: str = "t",
    **options: Any,
) -> tuple[ErrorCode, str | None]:
    rows = [am.AlterableConfig(name=key, value=value) for key, value in configs.items()]
    request = am.AlterConfigsRequest(
        resources=[am.AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)], **options
    )
    return _outcome(world, store, world.send(1, request, 2))


def change(
    world: World,
    store: Store,
    *operations: tuple[str, int, str | None],
    kind: int = TOPIC,
    name: str = "t",
    **options: Any,
) -> tuple[ErrorCode, str | None]:
    rows = [im.AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in operations]
    request = im.IncrementalAlterConfigsRequest(
        resources=[im.AlterConfigsResource(resource_type=kind, resource_name=name, configs=rows)], **options
    )
    return _outcome(world, store, world.send(1, request, 1))


def _outcome(world: World, store: Store, pending: Pending) -> tuple[ErrorCode, str | None]:
    store.serve()
    (row,) = pending.message.responses
    return ErrorCode(row.error_code), row.error_message


SET, DELETE, APPEND, SUBTRACT = range(4)
