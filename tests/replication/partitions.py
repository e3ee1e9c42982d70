"""Real partitions on real logs, without a broker around them."""

from collections.abc import Iterable
from pathlib import Path

from odradek.log.files import OsDirectory
from odradek.log.log_manager import LogManager
from odradek.log.partition_log import PartitionLog
from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicId, TopicPartition
from odradek.model.settings import BrokerSettings
from odradek.records.builder import NewRecord, build_batch
from odradek.records.control import build_end_marker
from odradek.replication.followers import FetchSource
from odradek.replication.isr import IsrAnswer
from odradek.replication.partition import Partition
from odradek.replication.purgatory import Purgatory
from odradek.replication.waiting import AckWaiter, Outbox

T0 = TopicPartition("t", 0)
TOPIC_ID = TopicId(bytes(range(16)))
LAG_MS = 10_000


def b(number: int) -> BrokerId:
    return BrokerId(number)


def a_log(path: Path, name: str = "t", **settings: str) -> PartitionLog:
    properties = {"broker.id": "1", **{key.replace("_", "."): value for key, value in settings.items()}}
    logs = LogManager([OsDirectory.create(str(path))], BrokerSettings(properties))
    return logs.get_or_create(TopicPartition(name, 0), TOPIC_ID, now_ms=0)


def a_batch(*values: bytes, epoch: int = -1, base_offset: int = 0) -> memoryview:
    records = [NewRecord(None, value, 1_000) for value in values]
    return memoryview(bytearray(build_batch(records, leader_epoch=epoch, base_offset=base_offset)))


def a_transaction(base_offset: int = 0) -> memoryview:
    """A record, and the marker behind it."""
    record = build_batch(
        [NewRecord(None, b"x", 1_000)],
        base_offset=base_offset,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    marker = build_end_marker(
        producer_id=7,
        producer_epoch=0,
        is_commit=True,
        coordinator_epoch=0,
        timestamp=1_000,
        base_offset=base_offset + 1,
    )
    return memoryview(bytearray(record + marker))


def leadership(
    leader: int, epoch: int, isr: Iterable[int], partition_epoch: int = 0, recovery_state: int = 0
) -> LeaderAndIsr:
    return LeaderAndIsr(
        b(leader),
        LeaderEpoch(epoch),
        tuple(map(b, isr)),
        PartitionEpoch(partition_epoch),
        leader_recovery_state=recovery_state,
    )


class Waits(AckWaiter):
    """Counts what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[ErrorCode] = []

    def complete(self, slot: int, error: ErrorCode) -> None:
        self.told.append(error)


class Led:
    """A partition that broker 1 leads, with followers the test plays."""

    def __init__(
        self,
        path: Path,
        *,
        isr: Iterable[int] = (1, 2, 3),
        replicas: Iterable[int] = (1, 2, 3),
        min_isr: int | None = 1,
        lead: bool = True,
        high_watermark: int = 0,
    ) -> None:
        self.now_ms = 100_000
        self.live: set[int] = set(replicas)
        self.outbox = Outbox(Purgatory())
        self.replicas = tuple(map(b, replicas))
        self.partition = Partition(
            T0,
            TOPIC_ID,
            a_log(path),
            broker=b(1),
            high_watermark=high_watermark,
            min_insync_replicas=min_isr,
            replica_lag_time_max_ms=LAG_MS,
            live_brokers=self.live,
            outbox=self.outbox,
        )
        self.sources: dict[int, FetchSource] = {}
        self.partition_epoch = 0
        if lead:
            self.lead(isr)

    def lead(self, isr: Iterable[int], epoch: int | None = None) -> None:
        epoch = self.partition.leader_epoch + 1 if epoch is None else epoch
        self.partition_epoch += 1
        told = leadership(1, epoch, isr, self.partition_epoch)
        self.partition.make_leader(told, ReplicaAssignment(self.replicas), self.now_ms)

    def follow(self, leader: int, isr: Iterable[int] = (1, 2, 3)) -> None:
        told = leadership(leader, self.partition.leader_epoch + 1, isr)
        self.partition.make_follower(told, ReplicaAssignment(self.replicas))

    def append(self, *values: bytes, acks: int = 1) -> int:
        return self.partition.append(a_batch(*values), acks=acks, now_ms=self.now_ms).last_offset + 1

    def append_and_wait(self, *values: bytes) -> Waits:
        waits = Waits()
        self.partition.commit_waiters.add(self.append(*values, acks=-1), waits, 0)
        return waits

    def fetched(self, broker: int, offset: int, *, broker_epoch: int = -1, log_start: int = 0) -> None:
        """`broker` asks for `offset` on, and so shows that it has what is below."""
        source = self.sources.setdefault(broker, FetchSource())
        source.last_fetch_time_ms = self.now_ms
        self.partition.follower_fetched(
            b(broker),
            offset,
            follower_log_start=log_start,
            broker_epoch=BrokerEpoch(broker_epoch),
            source=source,
            now_ms=self.now_ms,
        )

    def proposed(self) -> tuple[int, ...] | None:
        """The ISR the partition asks for, taken from the outbox; None if it asks for nothing."""
        proposals, self.outbox.proposals[:] = self.outbox.proposals[:], []
        if not proposals:
            return None
        proposal = proposals[-1].proposal(BrokerEpoch(7))
        assert proposal is not None
        return tuple(broker for broker, _ in proposal.new_isr)


def expanding(path: Path) -> Led:
    led = Led(path, isr=(1, 2))
    led.append(b"a")
    led.fetched(2, 1)
    led.fetched(3, 1)
    assert led.proposed() == (1, 2, 3)
    return led


def answer(led: Led, error: ErrorCode, told: LeaderAndIsr | None = None) -> int | None:
    proposal = led.partition.proposal(BrokerEpoch(7))
    assert proposal is not None
    return led.partition.isr_answered(proposal, IsrAnswer(error, told), led.now_ms)
