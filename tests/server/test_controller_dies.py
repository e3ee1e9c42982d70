"""The controller dies between every two writes of a move and of a deletion; its successor finishes (row 120).

Whole brokers in one process. The death is that of `kill -9`: the write before it is stored, the next one is not, and
nobody hears of either.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from odradek.client.sync import CONTROLLER, SyncClient
from odradek.model.errors import OdradekError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from odradek.store import api, layout
from odradek.store.embedded import EmbeddedStores
from odradek.testing.running_cluster import LocalCluster
from odradek.testing.zookeeper import ZooKeeperServer, missing
from tests.server.moves import Moves, moves
from tests.support import eventually

MOST_WRITES = 40


class Dying:
    """The store of a controller that is killed when `left` groups of its writes are stored."""

    def __init__(self, store: Any, left: int, die: Callable[[], None]) -> None:
        self._store = store
        self._die = die
        self.left = left
        self.is_dead = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(
        self, groups: Sequence[api.ConditionalOps], fence: api.Fence | None
    ) -> list[api.WriteAnswer]:
        answers: list[api.WriteAnswer] = []
        for group in groups:
            if self.left == 0 and not self.is_dead:
                self.is_dead = True
                self._die()
            if self.is_dead:
                raise api.SessionExpired(message="killed")
            answers += await self._store.write([group], fence)
            self.left -= 1
        return answers


def arm(cluster: Moves, writes: int) -> Dying:
    """Kills whoever is controller now behind its next `writes` writes."""
    local, broker = cluster.cluster, cluster.controller
    runtime = local.runtimes[broker]

    def die() -> None:
        runtime._loop.create_task(local.kill_broker(broker))

    term = runtime.controller.term
    assert term is not None
    dying = Dying(term._store, writes, die)
    term._store = dying  # type: ignore[assignment]
    return dying


def disarm(cluster: Moves, dying: Dying) -> bool:
    """Whether it died. Whoever was killed is started again."""
    local = cluster.cluster

    async def live_on() -> None:  # where the writes happen, so between two of them
        dying.left = MOST_WRITES * 100

    cluster.running.call(live_on())
    if dying.is_dead:
        eventually(
            lambda: len(local.runtimes) < len(local.ids), deadline_s=60, what="the controller is killed"
        )
    for broker in sorted(set(local.ids) - set(local.runtimes)):
        cluster.running.start(broker)
    cluster.running.call(local.until(lambda: is_led(local), "everybody knows who leads the cluster"))
    return dying.is_dead


def is_led(local: LocalCluster) -> bool:
    leading = [
        b for b, r in local.runtimes.items() if r.controller.is_leading and r.controller.core is not None
    ]
    known = [r.broker.metadata for r in local.runtimes.values()]
    return len(leading) == 1 and all(
        metadata.controller_id == leading[0] and set(local.ids) <= set(metadata.brokers) for metadata in known
    )


def ask(cluster: Moves, request: Any) -> None:
    """The answer may never come: who dies closes the connection. What is too short for a busy machine never gets there."""
    try:
        with SyncClient(cluster.running.bootstrap, request_timeout_s=30.0) as client:
            client.call(CONTROLLER, request)
    except OdradekError:
        return


def move(topic: str, *replicas: int) -> AlterPartitionReassignmentsRequest:
    partition = ReassignablePartition(partition_index=0, replicas=list(replicas))
    return AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=topic, partitions=[partition])], timeout_ms=3_000
    )


@pytest.fixture(params=["memory", "embedded", pytest.param("zookeeper", marks=pytest.mark.process)])
def five(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    stores = stores_of(request.param, tmp_path, request)
    with moves(tmp_path, brokers=5, stores=stores, auto_leader_rebalance_enable="false") as cluster:
        yield cluster


def stores_of(kind: str, directory: Path, request: pytest.FixtureRequest) -> api.StoreProvider | None:
    if kind == "memory":
        return None
    if kind == "embedded":
        return EmbeddedStores(directory / "store.sqlite")
    server = request.getfixturevalue("zookeeper")
    from odradek.store.zookeeper.stores import ZooKeeperStores

    return ZooKeeperStores(f"{server.address}/{directory.name}")


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    """One for all; each test below a node of its own."""
    if reason := missing():
        pytest.skip(reason)
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"))
    try:
        yield server.start()
    finally:
        server.kill()


@pytest.mark.behaviour(120)
def test_a_move_survives_the_death_of_the_controller_between_any_two_writes(five: Moves) -> None:
    deaths = 0
    for writes in range(MOST_WRITES):
        topic = f"move-{writes}"
        # Not on the controller: that it comes back must not be what makes the move go on.
        one, two, three, four = (b for b in five.cluster.ids if b != five.controller)
        five.create(topic, one, two)
        five.produce(topic, 5)

        def is_done(topic: str = topic, target: tuple[int, int] = (three, four)) -> bool:
            return five.settled(topic, *target)

        dying = arm(five, writes)
        ask(five, move(topic, three, four))
        eventually(
            lambda dying=dying, is_done=is_done: dying.is_dead or is_done(),
            60,
            what=f"{topic}: dead after {writes} writes, or done",
        )
        if not disarm(five, dying):
            break
        deaths += 1
        if five.node(topic) == (one, two):
            ask(five, move(topic, three, four))
        eventually(is_done, 60, what=f"{topic} after {writes} writes")
        with SyncClient(five.running.bootstrap) as client:
            assert client.end_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 5}
    assert deaths >= 5, f"only {deaths} places to die at"


@pytest.mark.behaviour(169)
def test_a_deletion_survives_the_death_of_the_controller_between_any_two_writes(five: Moves) -> None:
    deaths = 0
    for writes in range(MOST_WRITES):
        topic = f"gone-{writes}"
        five.create(topic, 1, 2, 3)
        five.produce(topic, 5)
        dying = arm(five, writes)
        ask(
            five,
            DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], topic_names=[topic], timeout_ms=3_000),
        )

        def is_gone(topic: str = topic) -> bool:
            paths = (
                layout.delete_topic_path(topic),
                layout.topic_path(topic),
                layout.config_path("topics", topic),
            )
            return not any(map(five.exists, paths)) and five.directories(topic) == set()

        eventually(
            lambda dying=dying, is_gone=is_gone: dying.is_dead or is_gone(),
            60,
            what=f"{topic} or the controller",
        )
        if not disarm(five, dying):
            break
        deaths += 1
        eventually(is_gone, 60, what=f"{topic} is gone after {writes} writes")
    assert deaths >= 4, f"only {deaths} places to die at"
