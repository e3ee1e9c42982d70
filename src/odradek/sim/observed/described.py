"""Brokers of a cluster at rest are asked what tools of administrators ask, and the store is looked through, for `checkers.described`."""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from odradek.client.sync import by_topic
from odradek.coordinator.partitioning import partition_of
from odradek.coordinator.stored import Stored
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId, TopicPartition
from odradek.model.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from odradek.protocol.messages import (
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_transactions,
    fetch,
    find_coordinator,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
)
from odradek.sim.checkers.described import Facts, told_as_it_is
from odradek.sim.checkers.described import tidy as tidy_of
from odradek.sim.checkers.history import Anomaly
from odradek.sim.clients.client import Address, SimClient
from odradek.sim.clients.coordinator_client import OF_GROUPS, OF_TRANSACTIONS
from odradek.sim.clients.operations import TOPIC_RESOURCE
from odradek.sim.faults.targets import serving
from odradek.sim.loop import Host
from odradek.sim.observed.decoded import config_of
from odradek.sim.observed.instants import found_at, instants
from odradek.sim.observed.log_files import segment_files
from odradek.sim.world import PORT, SimBroker, World
from odradek.store import layout
from odradek.store.pending_deletions import ROOT as PENDING_DELETIONS
from odradek.store.pending_deletions import decode_pending_deletions

WITHIN_S = 10.0
OF_A_TOPIC = 1  # the source of a setting
COORDINATED_IN = {OF_GROUPS: GROUPS_TOPIC, OF_TRANSACTIONS: TRANSACTIONS_TOPIC}
Truth = dict[str, object]
Instants = dict[TopicPartition, list[int]]  # in ms since 1970


def described_wrongly(
    world: World, connected: Callable[[], Awaitable[SimClient]], host: Host
) -> list[Anomaly]:
    """`connected`: a client that knows the brokers.

    Which times are asked for is settled before: logs may be compacted meanwhile, and have other records each time they are looked at.
    """
    brokers = serving(world)
    wanted = {broker.broker_id: _instants(broker) for broker in brokers}

    def look() -> dict[BrokerId, Truth]:
        return {broker.broker_id: _truth(world, broker, wanted[broker.broker_id]) for broker in brokers}

    before = look()

    async def ask() -> dict[BrokerId, Facts]:
        client = await connected()
        return {
            broker.broker_id: await _told(client, world, broker, wanted[broker.broker_id])
            for broker in brokers
        }

    told = world.call(host, ask(), within_s=WITHIN_S)
    after = look()
    return [
        anomaly
        for broker_id, facts in told.items()
        for anomaly in told_as_it_is(broker_id, facts, before[broker_id], after[broker_id])
    ]


# --- what is so


def _instants(broker: SimBroker) -> Instants:
    """Of the logs that it leads."""
    assert broker.runtime is not None
    return {
        partition: instants(replica.log)
        for partition, replica in broker.runtime.broker.replicas.partitions.items()
        if replica.is_leader and replica.log.failure is None
    }


def _truth(world: World, broker: SimBroker, wanted: Instants) -> Truth:
    """As the store, the disks and the memory of who coordinates have it."""
    assert broker.runtime is not None
    core = broker.runtime.broker
    found: Truth = {"the controller": next((b.broker_id for b in serving(world) if b.is_controller), None)}
    for other in world.brokers.values():
        if other.is_running:
            found[f"broker {other.broker_id}"] = (other.name, PORT)
    for topic in _topics(world):
        assignment = world.topics.assignment(topic)
        assert assignment is not None
        found[f"topic {topic}"] = 0, assignment.topic_id, topic in COORDINATED_IN.values()
        found[f"configuration of {topic}"] = 0, _configured(world, topic)
    for kind, key in _coordinated(world):
        found[f"coordinator of {key}"] = _leader(world, partition_that_coordinates(world, kind, key))
    led = [shard for shard in core.groups.shards.values() if shard.partition.is_leader]
    for shard in led:
        if shard.coordinator is not None and isinstance(shard.load.loaded.stored, Stored):
            for name in (*shard.coordinator.shard.groups, *shard.coordinator.shard.consumer_groups):
                found[f"group {name}"] = True
    for kind, key in _coordinated(world):
        if (
            kind == OF_TRANSACTIONS
            and _leader(world, partition_that_coordinates(world, kind, key)) == broker.broker_id
        ):
            found |= _transaction(core, key)
    for partition, replica in core.replicas.partitions.items():
        log = replica.log
        if log.failure is not None:
            continue
        size = _size(broker, log)
        if size is not None:
            found[f"size of {partition}"] = size, 0, False
        producers = sorted(
            (
                one.producer_id,
                one.producer_epoch,
                one.last_sequence,
                one.last_timestamp,
                one.coordinator_epoch,
                one.transaction_first_offset,
            )
            for one in map(log.producers.get, log.producers.ids())
            if one is not None
        )
        found[f"producers of {partition}"] = 0, producers
        if replica.is_leader:
            marks = replica.high_watermark, int(replica.last_stable_offset), log.log_start_offset
            found[f"marks of {partition}"] = 0, *marks
            found_of = found_at(log, replica.high_watermark, wanted.get(partition, ()))
            for asked_ms, there in found_of.items():
                found[f"offset of {partition} at {asked_ms}"] = 0, *there
    return found


def _transaction(core: Any, key: str) -> Truth:
    shards: Iterable[Any] = core.transactions.shards.values()
    for shard in shards:
        value = None if shard.coordinator is None else shard.load.loaded.stored.by_id.get(key)
        if value is not None:
            return {
                f"transactional id {key}": (
                    0,
                    value.state.title,
                    value.timeout_ms,
                    value.started_at_ms,
                    value.producer_id,
                    value.epoch,
                ),
                f"transaction of {key}": (value.producer_id, value.state.title),
            }
    return {}


def _topics(world: World) -> list[str]:
    gone = world.topics.to_delete()
    names = [
        path.removeprefix(layout.TOPICS + "/")
        for path, _ in world.store.ensemble.tree.walk(layout.TOPICS)
        if path.count("/") == 3
    ]
    return [name for name in names if name not in gone and world.topics.assignment(name) is not None]


def _configured(world: World, topic: str) -> dict[str, str]:
    for path, node in world.store.ensemble.tree.walk(layout.config_path("topics", topic)):
        return dict(config_of(path, node))
    return {}


def _coordinated(world: World) -> Iterator[tuple[int, str]]:
    """Kind and key of all that some coordinator has stored."""
    groups: dict[str, None] = {}
    ids: dict[str, None] = {}
    for broker in serving(world):
        assert broker.runtime is not None
        core: Any = broker.runtime.broker
        for shard in core.groups.shards.values():
            if shard.coordinator is not None and shard.partition.is_leader:
                groups |= dict.fromkeys(shard.load.loaded.stored.group_ids())
        for shard in core.transactions.shards.values():
            if shard.coordinator is not None and shard.partition.is_leader:
                ids |= dict.fromkeys(shard.load.loaded.stored.by_id)
    yield from ((OF_GROUPS, name) for name in groups)
    yield from ((OF_TRANSACTIONS, name) for name in ids)


def partition_that_coordinates(world: World, kind: int, key: str) -> TopicPartition:
    topic = COORDINATED_IN[kind]
    assignment = world.topics.assignment(topic)
    return TopicPartition(topic, 0 if assignment is None else partition_of(key, len(assignment.partitions)))


def _leader(world: World, partition: TopicPartition) -> int:
    state = world.view_of(partition)
    return -1 if state is None or state.stored is None else state.stored.leader


def _size(broker: SimBroker, log: Any) -> int | None:
    """Of the files of its segments, as they lie on the disk."""
    files = [file for _, file in segment_files(log)]
    return None if None in files else sum(len(file.data) for file in files)


# --- what is told


async def _told(client: SimClient, world: World, broker: SimBroker, wanted: Instants) -> Facts:
    address = broker.name, PORT
    found: dict[str, object] = {}
    names = await _metadata(client, address, found)
    await _configurations(client, address, list(names), found)
    by_kind: dict[int, list[str]] = {}
    for kind, key in _coordinated(world):
        by_kind.setdefault(kind, []).append(key)
    for kind, keys in by_kind.items():
        request = find_coordinator.FindCoordinatorRequest(key_type=kind, coordinator_keys=keys)
        for one in (await client.ask(address, request)).coordinators:
            found[f"coordinator of {one.key}"] = one.node_id
    listed = await client.ask(address, list_groups.ListGroupsRequest(states_filter=[], types_filter=[]))
    found |= {f"group {one.group_id}": True for one in listed.groups}
    await _transactions(client, address, by_kind.get(OF_TRANSACTIONS, []), found)
    sizes = await client.ask(address, describe_log_dirs.DescribeLogDirsRequest(topics=None))
    for directory in sizes.results:
        for topic in directory.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.name, row.partition_index)
                found[f"size of {partition}"] = row.partition_size, row.offset_lag, row.is_future_key
    assert broker.runtime is not None
    held = broker.runtime.broker.replicas.partitions
    await _producers(client, address, list(held), found)
    led = {
        tp: replica.log.log_start_offset
        for tp, replica in held.items()
        if replica.is_leader and replica.log.failure is None
    }
    await _marks(client, address, led, names, found)
    for place in range(max(map(len, wanted.values()), default=0)):
        asked = {tp: instants_ms[place] for tp, instants_ms in wanted.items() if place < len(instants_ms)}
        await _at(client, address, asked, found)
    return found


async def _metadata(client: SimClient, address: Address, found: dict[str, object]) -> dict[str, Any]:
    """The topics and their ids."""
    request = metadata.MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answer = await client.ask(address, request)
    found["the controller"] = answer.controller_id
    found |= {f"broker {one.node_id}": (one.host, one.port) for one in answer.brokers}
    for topic in answer.topics:
        errors = [topic.error_code, *(row.error_code for row in topic.partitions)]
        error = next((code for code in errors if code), 0)
        found[f"topic {topic.name}"] = error, topic.topic_id, topic.is_internal
    return {topic.name: topic.topic_id for topic in answer.topics}


async def _configurations(
    client: SimClient, address: Address, topics: list[str], found: dict[str, object]
) -> None:
    resources = [
        describe_configs.DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic)
        for topic in topics
    ]
    answer = await client.ask(
        address, describe_configs.DescribeConfigsRequest(resources=resources, include_synonyms=True)
    )
    for row in answer.results:
        own = {one.name: one.value for one in row.configs if one.config_source == OF_A_TOPIC}
        found[f"configuration of {row.resource_name}"] = row.error_code, own


async def _transactions(
    client: SimClient, address: Address, ids: list[str], found: dict[str, object]
) -> None:
    """Of those that are coordinated here."""
    if not ids:
        return
    request = describe_transactions.DescribeTransactionsRequest(transactional_ids=ids)
    for one in (await client.ask(address, request)).transaction_states:
        if one.error_code != ErrorCode.NOT_COORDINATOR:
            found[f"transactional id {one.transactional_id}"] = (
                one.error_code,
                one.transaction_state,
                one.transaction_timeout_ms,
                one.transaction_start_time_ms,
                one.producer_id,
                one.producer_epoch,
            )
    listed = await client.ask(
        address, list_transactions.ListTransactionsRequest(state_filters=[], producer_id_filters=[])
    )
    for row in listed.transaction_states:
        found[f"transaction of {row.transactional_id}"] = row.producer_id, row.transaction_state


async def _producers(
    client: SimClient, address: Address, partitions: list[TopicPartition], found: dict[str, object]
) -> None:
    topics = [
        describe_producers.TopicRequest(name=topic, partition_indexes=[tp.partition for tp in of_topic])
        for topic, of_topic in by_topic(sorted(partitions)).items()
    ]
    answer = await client.ask(address, describe_producers.DescribeProducersRequest(topics=topics))
    for topic in answer.topics:
        for row in topic.partitions:
            producers = sorted(
                (
                    one.producer_id,
                    one.producer_epoch,
                    one.last_sequence,
                    one.last_timestamp,
                    one.coordinator_epoch,
                    one.current_txn_start_offset,
                )
                for one in row.active_producers
            )
            partition = TopicPartition(topic.name, row.partition_index)
            found[f"producers of {partition}"] = row.error_code, producers


async def _marks(
    client: SimClient,
    address: Address,
    starts: dict[TopicPartition, int],
    ids: dict[str, Any],
    found: dict[str, object],
) -> None:
    """By a fetch at the start of each."""
    topics = {name: of_topic for name, of_topic in by_topic(sorted(starts)).items() if name in ids}
    names = {ids[name]: name for name in topics}
    request = fetch.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        session_id=0,
        session_epoch=-1,
        topics=[
            fetch.FetchTopic(
                topic_id=ids[name],
                partitions=[
                    fetch.FetchPartition(
                        partition=tp.partition, fetch_offset=starts[tp], partition_max_bytes=1
                    )
                    for tp in of_topic
                ],
            )
            for name, of_topic in topics.items()
        ],
    )
    answer = await client.ask(address, request)
    for topic in answer.responses:
        for row in topic.partitions:
            partition = TopicPartition(names[topic.topic_id], row.partition_index)
            marks = row.high_watermark, row.last_stable_offset, row.log_start_offset
            found[f"marks of {partition}"] = row.error_code, *marks


async def _at(
    client: SimClient, address: Address, asked_ms: dict[TopicPartition, int], found: dict[str, object]
) -> None:
    """A partition may be asked about once in a request."""
    request = list_offsets.ListOffsetsRequest(
        replica_id=-1,
        topics=[
            list_offsets.ListOffsetsTopic(
                name=topic,
                partitions=[
                    list_offsets.ListOffsetsPartition(partition_index=tp.partition, timestamp=asked_ms[tp])
                    for tp in of_topic
                ],
            )
            for topic, of_topic in by_topic(sorted(asked_ms)).items()
        ],
    )
    for topic in (await client.ask(address, request)).topics:
        for row in topic.partitions:
            partition = TopicPartition(topic.name, row.partition_index)
            there = row.error_code, row.offset, row.timestamp, row.leader_epoch
            found[f"offset of {partition} at {asked_ms[partition]}"] = there


# --- the store


def untidy_store(world: World) -> list[Anomaly]:
    """Of a cluster at rest."""
    tree, topics = world.store.ensemble.tree, set(_topics(world))
    left: dict[str, str] = {}
    for path, node in tree.walk("/"):
        above, _, name = path.rpartition("/")
        if above == "/config/topics" and name not in topics:
            left[path] = "there is no such topic"
        elif above in (layout.DELETE_TOPICS, layout.ISR_CHANGES, layout.LOG_DIR_EVENTS) or path in (
            layout.REASSIGN_PARTITIONS,
            layout.PREFERRED_ELECTION,
        ):
            left[path] = "nothing is to be done any more"
        elif above == PENDING_DELETIONS and decode_pending_deletions(BrokerId(int(name)), node.data):
            left[path] = "every broker runs, and has deleted what it had to"
    return list(tidy_of(left))
