"""Whoever can reach a port of a broker and is nobody's client: who does not read, sends half of a frame, claims epochs that
are not so, or produces what is no batch.

Nothing that they ask for may be granted: what is, stands in `World.let_in`. What they hold costs memory and turns of
the loop, which are bounded (`burden`).
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from odradek.model.error_codes import ErrorCode
from odradek.model.ids import LAST_PORT, BrokerEpoch, BrokerId, TopicPartition
from odradek.protocol.headers import encode_request
from odradek.protocol.messages import (
    alter_partition,
    fetch,
    list_offsets,
    metadata,
    stop_replica,
    update_metadata,
)
from odradek.protocol.messages import controlled_shutdown as shutdown
from odradek.protocol.messages import leader_and_isr as lai
from odradek.records.batch import (
    ATTRIBUTES_OFFSET,
    CONTROL,
    CRC_OFFSET,
    LENGTH_OFFSET,
    MAGIC_OFFSET,
    RECORD_COUNT_OFFSET,
    TRANSACTIONAL,
)
from odradek.records.builder import NewRecord, build_batch
from odradek.records.checksum import crc32c
from odradek.sim.checkers.history import Anomaly
from odradek.sim.clients.client import EPOCH_MS, RequestFailed, SimClient
from odradek.sim.clients.producer import produce_request
from odradek.sim.faults.targets import controller, later, leader, pick, table_of
from odradek.sim.loop import Host
from odradek.sim.plan import Fault
from odradek.sim.world import PORT, SimBroker, World

MACHINE, NUMBER = "s1", 103
NO_BROKER = 99
# One that is near may come true before the claim is read: a broker that stood still reads first what it was told meanwhile.
NO_LEADER_EPOCH = NO_CONTROLLER_EPOCH = 1 << 30
MOST_DEAF, MOST_UNREAD = 6, 600
# Handled in one turn these are more steps than it may take, so only a world that counts them has something of more than the others.
MOST_COUNTED = 4_000
LARGEST_CLAIM_BYTES = 100 << 20  # socket.request.max.bytes
HALF_FRAMES = 12
LAST_OFFSET_DELTA_OFFSET, PRODUCER_ID_OFFSET = ATTRIBUTES_OFFSET + 2, RECORD_COUNT_OFFSET - 14


# --- connections


class _Deaf(asyncio.Protocol):
    """Never reads, as far as its receive buffer allows."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.pause_reading()


def _connect(world: World, broker: SimBroker, fault: Fault, count: int, say: Callable[[int], bytes]) -> bool:
    """`count` connections, each of which says something once, and is reset when the fault ends."""
    host = Host(MACHINE, NUMBER)

    async def talk(number: int) -> None:
        try:
            async with asyncio.timeout(2.0):
                transport, _ = await world.loop.create_connection(_Deaf, broker.name, PORT)
        except (OSError, TimeoutError):
            return
        transport.write(say(number))  # type: ignore[attr-defined]
        world.strangers.append(transport)  # type: ignore[arg-type]
        later(world, fault.lasts_s, transport.abort)  # type: ignore[attr-defined]

    for number in range(count):
        world.spawn(host, talk(number))
    return True


def deaf_clients(world: World, fault: Fault) -> bool:
    """They ask for everything, hundreds of times over each connection, or for next to nothing, and read no answer."""
    broker = leader(world, fault)
    if broker is None:
        return False
    topics = [
        fetch.FetchTopic(
            topic=partition.topic,
            partitions=[
                fetch.FetchPartition(
                    partition=partition.partition, fetch_offset=0, partition_max_bytes=1 << 20
                )
            ],
        )
        for partition in world.view(with_batches=False).partitions
    ]
    everything = fetch.FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=50 << 20, isolation_level=0, topics=topics
    )
    nothing = list_offsets.ListOffsetsRequest(replica_id=-1, topics=[])
    most_small = MOST_COUNTED if world.counts_steps else MOST_UNREAD
    asks = (
        (1, 12, everything.encode(12), MOST_UNREAD),
        (3, 9, metadata.MetadataRequest(topics=None).encode(9), MOST_UNREAD),
        (2, 5, nothing.encode(5), most_small),
    )

    def say(number: int) -> bytes:
        key, version, body, count = asks[number % len(asks)]
        return b"".join(encode_request(key, version, n, MACHINE, body) for n in range(count))

    return _connect(world, broker, fault, 1 + int(fault.amount * MOST_DEAF), say)


def half_frames(world: World, fault: Fault) -> bool:
    """The beginning of a frame that never ends: half of its length, a length alone, a header alone, the most that is allowed."""
    broker = pick(world, fault)
    if broker is None:
        return False
    whole = encode_request(3, 9, 1, MACHINE, metadata.MetadataRequest(topics=None).encode(9))
    largest = LARGEST_CLAIM_BYTES.to_bytes(4, "big") + whole[4:] + bytes(100_000)
    halves = (whole[:2], whole[:4], whole[: len(whole) // 2], whole[:-1], whole + whole[:-1], largest)
    return _connect(world, broker, fault, HALF_FRAMES, lambda number: halves[number % len(halves)])


# --- claims


class Claim(NamedTuple):
    """Granted is what is answered without an error. `may_be_so`: by then somebody else may have asked for the same. `number`: of its
    request, asked when it leaves."""

    what: str
    message: Any
    code_of: Callable[[Any], int]
    may_be_so: Callable[[], bool] = lambda: False
    number: Callable[[], int] = lambda: 0


def _ask(world: World, broker: SimBroker, *claims: Claim) -> None:
    """One after the other, each over a connection of its own."""
    host = Host(MACHINE, NUMBER)

    async def ask() -> None:
        address = broker.name, PORT
        for claim in claims:
            client = SimClient(world.loop, host, [address], first_correlation_id=claim.number())
            try:
                answer = await client.ask(address, claim.message)
            except RequestFailed:
                # Of this one alone: its broker may have died meanwhile, or closed the connection.
                world.note(f"stranger to {broker.name}: {claim.what}: no answer")
                continue
            code = ErrorCode(claim.code_of(answer))
            world.note(f"stranger to {broker.name}: {claim.what}: {code.name}")
            if code is ErrorCode.NONE and not claim.may_be_so():
                world.let_in.append(
                    Anomaly("StrangerIsRefused", None, f"{broker.name} granted {claim.what} to a stranger")
                )

    world.spawn(host, ask())


def _partition(fault: Fault, broker: SimBroker, *, is_led: bool = False) -> tuple[TopicPartition, Any] | None:
    """One that this broker hosts, or leads, and its replica."""
    assert broker.runtime is not None
    hosted = broker.runtime.broker.replicas.partitions
    names = sorted(name for name, replica in hosted.items() if replica.is_leader or not is_led)
    if not names:
        return None
    name = names[int(fault.amount * len(names))]
    return name, hosted[name]


def false_control_requests(world: World, fault: Fault) -> bool:
    """LeaderAndIsr, StopReplica and UpdateMetadata of a controller that has been, and to a life that has been."""
    broker = pick(world, fault)
    found = None if broker is None else _partition(fault, broker)
    if broker is None or found is None or broker.runtime is None:
        return False
    partition, replica = found
    own = broker.runtime.broker
    gate = own.replicas
    if own.broker_epoch is None or gate.controller_epoch < 1:
        return False
    for what, controller_epoch, broker_epoch in (
        ("a controller epoch that is over", gate.controller_epoch - 1, own.broker_epoch),
        ("a broker epoch that is over", gate.controller_epoch, own.broker_epoch - 1),
        ("a broker epoch that nobody has", gate.controller_epoch, 1 << 62),
        ("a controller epoch that nobody has", NO_CONTROLLER_EPOCH, own.broker_epoch),
    ):
        for name, message in _control_requests(
            world, broker, partition, replica, controller_epoch, broker_epoch
        ):
            _ask(world, broker, Claim(f"{name} with {what}", message, lambda answer: answer.error_code))
    return True


def _control_requests(
    world: World,
    broker: SimBroker,
    partition: TopicPartition,
    replica: Any,
    controller_epoch: int,
    broker_epoch: int,
) -> Iterator[tuple[str, Any]]:
    me = int(broker.broker_id)
    term: dict[str, Any] = {
        "controller_id": me,
        "controller_epoch": controller_epoch,
        "broker_epoch": broker_epoch,
    }
    leadership: dict[str, Any] = {
        "partition_index": partition.partition,
        "controller_epoch": controller_epoch,
        "leader": me,
        "leader_epoch": replica.leader_epoch + 7,
        "isr": [me],
        "replicas": [me],
    }
    topic: dict[str, Any] = {"topic_name": partition.topic, "topic_id": replica.topic_id}
    yield (
        "LeaderAndIsr",
        lai.LeaderAndIsrRequest(
            **term,
            type=1,
            topic_states=[
                lai.LeaderAndIsrTopicState(
                    **topic,
                    partition_states=[lai.LeaderAndIsrPartitionState(**leadership, partition_epoch=999)],
                )
            ],
            live_leaders=[lai.LeaderAndIsrLiveLeader(broker_id=me, host_name=MACHINE, port=PORT)],
        ),
    )
    yield (
        "StopReplica",
        stop_replica.StopReplicaRequest(
            **term,
            topic_states=[
                stop_replica.StopReplicaTopicState(
                    topic_name=partition.topic,
                    partition_states=[
                        stop_replica.StopReplicaPartitionState(
                            partition_index=partition.partition,
                            leader_epoch=replica.leader_epoch + 7,
                            delete_partition=True,
                        )
                    ],
                )
            ],
        ),
    )
    yield (
        "UpdateMetadata",
        update_metadata.UpdateMetadataRequest(
            **term,
            topic_states=[
                update_metadata.UpdateMetadataTopicState(
                    **topic,
                    partition_states=[
                        update_metadata.UpdateMetadataPartitionState(**leadership, zk_version=999)
                    ],
                )
            ],
        ),
    )


def impossible_addresses(world: World, fault: Fault) -> bool:
    """UpdateMetadata with the epochs of now, in which the broker that hears it is where nobody can connect to it. Believed, no client
    would find it until the controller speaks again."""
    broker = pick(world, fault)
    if broker is None or broker.runtime is None:
        return False
    own = broker.runtime.broker
    named = own.metadata.controller_id
    if own.broker_epoch is None or named is None or own.replicas.controller_epoch < 1:
        return False
    me = int(broker.broker_id)
    places = (
        ("no port", broker.name, 0),
        ("a negative port", broker.name, -1),
        ("a port that there is not", broker.name, LAST_PORT + 1),
        ("no host", "", PORT),
    )
    # One of them: the controller has to number above it what it says next, and asks again until it does.
    what, host, port = places[int(fault.amount * len(places))]
    place = update_metadata.UpdateMetadataEndpoint(
        port=port, host=host, listener="PLAINTEXT", security_protocol=0
    )
    message = update_metadata.UpdateMetadataRequest(
        controller_id=named,
        controller_epoch=own.replicas.controller_epoch,
        broker_epoch=own.broker_epoch,
        live_brokers=[update_metadata.UpdateMetadataBroker(id=me, endpoints=[place])],
    )
    claim = f"UpdateMetadata with {what}"
    _ask(
        world,
        broker,
        Claim(claim, message, lambda answer: answer.error_code, number=partial(_next_told, own)),
    )
    return True


def _next_told(own: Any) -> int:
    """The first number above what this broker has obeyed of its controller."""
    return int(own.control_order._last) + 1


def false_isr_changes(world: World, fault: Fault) -> bool:
    """AlterPartition and ControlledShutdown by a broker of a former incarnation, by one that does not lead, and by none at all."""
    target = controller(world)
    source = pick(world, fault)
    found = None if source is None else _partition(fault, source)
    registered = world.registered()
    if target is None or source is None or found is None or source.broker_id not in registered:
        return False
    _, replica = found
    epoch = registered[source.broker_id]
    claims = _former_members(world, target, fault)
    for what, broker, broker_epoch, leader_epoch in (
        ("a leader epoch that nobody has", source.broker_id, epoch, NO_LEADER_EPOCH),
        ("a life that is over", source.broker_id, epoch - 1, replica.leader_epoch),
        ("no broker", NO_BROKER, epoch, replica.leader_epoch),
    ):
        message = _isr_change(
            replica, int(broker), broker_epoch, leader_epoch, members=[(source.broker_id, epoch)]
        )
        number = partial(_next_number, target, message)
        claims.append(Claim(f"AlterPartition of {what}", message, _of_the_partition, number=number))
    leaving = shutdown.ControlledShutdownRequest(broker_id=int(source.broker_id), broker_epoch=epoch - 1)
    what = "ControlledShutdown of a life that is over"
    claims.append(Claim(what, leaving, lambda answer: answer.error_code))
    _ask(world, target, *claims)
    return True


def _isr_change(
    replica: Any, broker: int, broker_epoch: int, leader_epoch: int, members: Sequence[tuple[int, int]]
) -> alter_partition.AlterPartitionRequest:
    """By this broker, in this life and leader epoch. `members`: of the ISR that it asks for, and their lives."""
    change = alter_partition.AlterPartitionRequestPartitionData(
        partition_index=replica.topic_partition.partition,
        leader_epoch=leader_epoch,
        new_isr_with_epochs=[
            alter_partition.BrokerState(broker_id=int(member), broker_epoch=life) for member, life in members
        ],
        partition_epoch=int(replica.partition_epoch),
    )
    topics = [alter_partition.AlterPartitionRequestTopicData(topic_id=replica.topic_id, partitions=[change])]
    return alter_partition.AlterPartitionRequest(broker_id=broker, broker_epoch=broker_epoch, topics=topics)


def _next_number(target: SimBroker, claim: alter_partition.AlterPartitionRequest) -> int:
    """The first above those of all proposals of that broker that this controller has read: what is not above is a late copy to it,
    and it looks no further. What the broker itself proposes below is one too, so it is no higher."""
    if target.runtime is None or target.runtime.parts is None:  # it has gone meanwhile, or just begins
        return 0
    read = target.runtime.broker.proposal_order._last
    return 1 + read.get((BrokerId(claim.broker_id), BrokerEpoch(claim.broker_epoch)), -1)


def _former_members(world: World, target: SimBroker, fault: Fault) -> list[Claim]:
    """All of it is as its leader would ask, but for the life in which a member is to be in sync (KIP-903)."""
    source = leader(world, fault)
    found = None if source is None else _partition(fault, source, is_led=True)
    if source is None or found is None:
        return []
    _, replica = found
    registered = world.registered()
    epoch = registered.get(source.broker_id)
    others = sorted(b for b in replica.followers if b in registered)
    if epoch is None or not others or not replica.is_isr_settled:
        return []
    # Not the ISR that is stored: what is so already is granted to whoever asks.
    named = next((b for b in others if {source.broker_id, b} != set(replica.isr)), None)
    if named is None:
        return []
    members = [(source.broker_id, epoch), (named, registered[named] - 1)]
    message = _isr_change(replica, int(source.broker_id), epoch, int(replica.leader_epoch), members)

    def may_be_so() -> bool:
        return not replica.is_isr_settled or {source.broker_id, named} == set(replica.isr)

    what = "AlterPartition with a member in a life that is over"
    return [Claim(what, message, _of_the_partition, may_be_so, partial(_next_number, target, message))]


def _of_the_partition(answer: Any) -> int:
    return int(answer.error_code or answer.topics[0].partitions[0].error_code)


def false_followers(world: World, fault: Fault) -> bool:
    """Fetches of a follower's former incarnation, of a broker that has no replica, and of a leader epoch that nobody has, from the
    end of the log: believed, they would commit what nobody has."""
    broker = leader(world, fault)
    found = None if broker is None else _partition(fault, broker, is_led=True)
    if broker is None or found is None:
        return False
    partition, replica = found
    claims = [("no replica", NO_BROKER, 1, replica.leader_epoch)]
    for follower in replica.followers.values():
        if follower.broker_epoch > 0:
            claims += [
                (
                    "a life that is over",
                    int(follower.broker),
                    follower.broker_epoch - 1,
                    replica.leader_epoch,
                ),
                (
                    "a leader epoch that nobody has",
                    int(follower.broker),
                    follower.broker_epoch,
                    NO_LEADER_EPOCH,
                ),
            ]
    for what, replica_id, epoch, leader_epoch in claims:
        message = fetch.FetchRequest(
            replica_state=fetch.ReplicaState(replica_id=replica_id, replica_epoch=epoch),
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=0,
            session_id=0,
            topics=[
                fetch.FetchTopic(
                    topic_id=replica.topic_id,
                    partitions=[
                        fetch.FetchPartition(
                            partition=partition.partition,
                            current_leader_epoch=leader_epoch,
                            fetch_offset=replica.log.log_end_offset,
                            log_start_offset=0,
                            partition_max_bytes=1 << 20,
                        )
                    ],
                )
            ],
        )
        _ask(world, broker, Claim(f"a fetch of {what}", message, _of_the_fetch))
    return True


def _of_the_fetch(answer: Any) -> int:
    return int(answer.error_code or answer.responses[0].partitions[0].error_code)


# --- batches


def hostile_batches(world: World, fault: Fault) -> bool:
    """Everything that is no batch a client may write."""
    broker = leader(world, fault)
    found = None if broker is None else _partition(fault, broker, is_led=True)
    if broker is None or found is None:
        return False
    now_ms = EPOCH_MS + int(world.loop.time() * 1000)
    for what, records in hostile(now_ms):
        for acks in (-1, 1):
            claim = Claim(
                f"a batch with {what}",
                produce_request(found[0], records, acks),
                lambda answer: answer.responses[0].partition_responses[0].error_code,
            )
            _ask(world, broker, claim)
    return True


def hostile(now_ms: int) -> Iterator[tuple[str, bytes]]:
    """What is wrong with it, and the bytes. The checksum is right, where that is not what is wrong."""
    good = build_batch([NewRecord(None, b"hostile", now_ms)])
    several = build_batch([NewRecord(None, b"hostile", now_ms) for _ in range(3)])

    def patched(at: int, value: int, size: int, batch: bytes = good) -> bytes:
        changed = bytearray(batch)
        changed[at : at + size] = value.to_bytes(size, "big", signed=value < 0)
        return _summed(changed)

    yield "no bytes", b""
    yield "half of its bytes", good[: len(good) // 2]
    yield "a wrong checksum", good[:-1] + bytes([good[-1] ^ 1])
    yield "a length beyond its end", patched(LENGTH_OFFSET, 1 << 24, 4)
    yield "a negative length", patched(LENGTH_OFFSET, -5, 4)
    yield "another behind it", good + several
    yield "the message format of old", patched(MAGIC_OFFSET, 1, 1)
    yield "a message format to come", patched(MAGIC_OFFSET, 3, 1)
    yield "a codec nobody knows", patched(ATTRIBUTES_OFFSET, 7, 2)
    yield "a codec it is not packed with", patched(ATTRIBUTES_OFFSET, 1, 2)
    yield "a transaction nobody began", patched(ATTRIBUTES_OFFSET, TRANSACTIONAL, 2)
    yield "a control record", patched(ATTRIBUTES_OFFSET, CONTROL, 2)
    yield "more records than it has", patched(RECORD_COUNT_OFFSET, 1 << 30, 4)
    yield "no records", patched(RECORD_COUNT_OFFSET, 0, 4)
    yield "a last offset before its first", patched(LAST_OFFSET_DELTA_OFFSET, -1, 4, several)
    yield "offsets that leave room", patched(LAST_OFFSET_DELTA_OFFSET, 1000, 4, several)
    yield "a base offset of its own", patched(0, 5, 8)
    yield "a producer without a sequence", patched(PRODUCER_ID_OFFSET, 77, 8)


def _summed(batch: bytearray) -> bytes:
    batch[CRC_OFFSET:ATTRIBUTES_OFFSET] = crc32c(bytes(batch[ATTRIBUTES_OFFSET:])).to_bytes(4, "big")
    return bytes(batch)


TABLE = table_of(
    deaf_clients, half_frames, false_control_requests, impossible_addresses, false_isr_changes, false_followers,
    hostile_batches,
)  # fmt: skip
