"""Requests about topics, for the tests of those who answer them."""

from typing import Any

from odradek.protocol.messages import create_partitions as cp
from odradek.protocol.messages import create_topics as ct
from tests.broker.world import Pending, World


def create(
    world: World, *topics: ct.CreatableTopic, to: int = 1, version: int = 7, **options: Any
) -> Pending:
    request = ct.CreateTopicsRequest(topics=list(topics), **{"timeout_ms": 5_000, **options})
    return world.send(to, request, version)


def topic(name: str, partitions: int = 1, factor: int = 1, **options: Any) -> ct.CreatableTopic:
    return ct.CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **options)


def grow(world: World, count: int, assignments: Any = None, name: str = "t", **options: Any) -> Pending:
    request = cp.CreatePartitionsRequest(
        topics=[cp.CreatePartitionsTopic(name=name, count=count, assignments=assignments)],
        timeout_ms=5_000,
        **options,
    )
    return world.send(1, request, 3)
