"""Every broker of a cluster at rest is asked what it knows of it, as clients ask, for `checkers.answers`."""

from collections.abc import Awaitable, Callable, Mapping

from odradek.client.sync import by_topic
from odradek.model.ids import BrokerId, TopicPartition
from odradek.protocol.messages import list_offsets, metadata, offset_for_leader_epoch
from odradek.sim.checkers.answers import Shown, Told, epochs_of, offsets_as_held, shown_as_stored
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.replicas import PartitionView
from odradek.sim.clients.client import Address, SimClient
from odradek.sim.clients.operations import EARLIEST, LATEST
from odradek.sim.loop import Host
from odradek.sim.world import PORT, World

CONSUMER = -1
WITHIN_S = 5.0  # some twenty round trips
Partitions = Mapping[TopicPartition, PartitionView]
AllTold = dict[TopicPartition, Told]


def wrong_at_rest(world: World, connected: Callable[[], Awaitable[SimClient]], host: Host) -> list[Anomaly]:
    """Of partitions about which nothing has changed while they were asked for. `connected`: a client that knows the brokers."""
    before = world.view(with_knowledge=False).partitions
    running = [b.broker_id for b in world.brokers.values() if b.is_running]

    async def ask() -> list[tuple[BrokerId, list[int], dict[TopicPartition, Shown], AllTold]]:
        client = await connected()
        found = []
        for broker in world.brokers.values():
            address = broker.name, PORT
            live, shown = await _metadata(client, address)
            found.append((broker.broker_id, live, shown, await _offsets(client, address, before)))
        return found

    answers = world.call(host, ask(), within_s=WITHIN_S)
    after = world.view(with_knowledge=False).partitions
    same = {tp: state for tp, state in after.items() if before.get(tp) is state}
    changed = (after.keys() | before.keys()) - same.keys()
    wrong: list[Anomaly] = []
    for broker_id, live, shown, told in answers:
        known = {tp: one for tp, one in shown.items() if tp not in changed}
        wrong += shown_as_stored(broker_id, live, known, same, running)
        for partition, offsets in told.items():
            if partition in same:
                wrong += offsets_as_held(broker_id, partition, offsets, same[partition])
    return wrong


async def _metadata(client: SimClient, address: Address) -> tuple[list[int], dict[TopicPartition, Shown]]:
    request = metadata.MetadataRequest(topics=None, allow_auto_topic_creation=False)
    answer = await client.ask(address, request)
    shown = {
        TopicPartition(topic.name, row.partition_index): Shown(
            row.leader_id,
            row.leader_epoch,
            tuple(row.isr_nodes),
            tuple(row.replica_nodes),
            tuple(row.offline_replicas),
        )
        for topic in answer.topics
        for row in topic.partitions
    }
    return [broker.node_id for broker in answer.brokers], shown


async def _offsets(client: SimClient, address: Address, partitions: Partitions) -> AllTold:
    earliest, latest = [await _list_offsets(client, address, partitions, at) for at in (EARLIEST, LATEST)]
    ends = await _epoch_ends(client, address, partitions)
    return {tp: Told(earliest[tp], latest[tp], ends[tp]) for tp in partitions}


async def _list_offsets(
    client: SimClient, address: Address, partitions: Partitions, timestamp: int
) -> dict[TopicPartition, int]:
    request = list_offsets.ListOffsetsRequest(
        replica_id=CONSUMER,
        topics=[
            list_offsets.ListOffsetsTopic(
                name=topic,
                partitions=[
                    list_offsets.ListOffsetsPartition(partition_index=tp.partition, timestamp=timestamp)
                    for tp in of_topic
                ],
            )
            for topic, of_topic in by_topic(sorted(partitions)).items()
        ],
    )
    answer = await client.ask(address, request)
    return {
        TopicPartition(topic.name, row.partition_index): -int(row.error_code) or int(row.offset)
        for topic in answer.topics
        for row in topic.partitions
    }


async def _epoch_ends(
    client: SimClient, address: Address, partitions: Partitions
) -> dict[TopicPartition, dict[int, int]]:
    """A partition may be asked about once in a request, so there is one for each place in the lists of epochs."""
    found: dict[TopicPartition, dict[int, int]] = {tp: {} for tp in partitions}
    wanted = {tp: _asked_epochs(state) for tp, state in partitions.items()}
    for place in range(max(map(len, wanted.values()), default=0)):
        asked = {tp: epochs[place] for tp, epochs in wanted.items() if place < len(epochs)}
        request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            replica_id=CONSUMER,
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    topic=topic,
                    partitions=[
                        offset_for_leader_epoch.OffsetForLeaderPartition(
                            partition=tp.partition, leader_epoch=asked[tp]
                        )
                        for tp in of_topic
                    ],
                )
                for topic, of_topic in by_topic(sorted(asked)).items()
            ],
        )
        answer = await client.ask(address, request)
        for topic in answer.topics:
            for row in topic.partitions:
                tp = TopicPartition(topic.topic, row.partition)
                found[tp][asked[tp]] = -int(row.error_code) or int(row.end_offset)
    return found


def _asked_epochs(state: PartitionView) -> list[int]:
    """The latest of which some replica has records, and the one before the first of these, which ends where that begins."""
    held = sorted({epoch for replica in state.replicas for epoch in epochs_of(replica.batches)})[-3:]
    return [held[0] - 1, *held] if held and held[0] > 0 else held
