"""What one broker does with one event: production objects are made from a value, act, and become a value again.

LeaderAndIsr goes through `ReplicaManager.commit_slice`, fetches through the Fetch handler's look at a partition
and the follower's handling of its row, ISR changes through `Partition`. Time is left open: whatever is not younger
than the lag limit may be older, so every follower that is behind may be found lagging at any moment.
"""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

from odradek.broker.effects import Effect, RegisterAgain
from odradek.broker.fetch_sessions import NO_SESSION, FetchSession
from odradek.broker.handlers import offset_for_leader_epoch
from odradek.broker.handlers.fetch import FetchWait
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.pending_calls import PendingCalls
from odradek.broker.replica_manager import Leadership, ReplicaManager
from odradek.broker.slices import Slices
from odradek.broker.topic_configs import TopicConfigs
from odradek.controller.broker_requests import AskEndOffsets
from odradek.log.leader_epochs import LeaderEpochs
from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicPartition
from odradek.model.settings import BrokerSettings
from odradek.protocol.flat.fetch_request import FetchRequest
from odradek.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from odradek.replication.followed import FetchLimits, FollowedPartition
from odradek.replication.follower import FollowerFetcher
from odradek.replication.followers import NEVER_MS, UNKNOWN_OFFSET
from odradek.replication.isr import (
    Committed,
    IsrAnswer,
    IsrProposal,
    IsrState,
    PendingExpandIsr,
    PendingShrinkIsr,
)
from odradek.replication.partition import Partition
from odradek.replication.partition_image import FollowerImage, PartitionImage
from odradek.replication.purgatory import Purgatory
from odradek.replication.throttle import ReplicationThrottle
from odradek.replication.waiting import Outbox
from odradek.server.end_offset_queries import (
    DEBUGGING_REPLICA_ID,
    OFFSET_FOR_LEADER_EPOCH,
    VERSIONS,
    decode_end_offsets,
    encode_end_offsets,
)
from odradek.sim.explore.values import (
    COMMITTED,
    PENDING_EXPAND,
    PENDING_SHRINK,
    TOPIC_ID,
    TP,
    AlterPartitionAnswer,
    AlterPartitionMessage,
    EndOffsetAnswer,
    EndOffsetQuestion,
    FetchAnswer,
    FetchMessage,
    Follower,
    LeaderAndIsrMessage,
    ReplicaValue,
    TinyLog,
)

NOW_MS = 1_000_000
LAG_MS = 10_000
SETTINGS = BrokerSettings({})
# All that a look at one partition asks of its broker: nothing is held back here (KIP-73), and nobody sent elsewhere (KIP-392).
UNTHROTTLED = cast(
    Any,
    SimpleNamespace(
        replicas=SimpleNamespace(leader_throttle=ReplicationThrottle()), selects_replicas_by_rack=False
    ),
)


class Replicas:
    """The steps of the replicas of a cluster of `brokers` with this min.insync.replicas."""

    def __init__(self, brokers: int, min_insync_replicas: int) -> None:
        self.brokers = tuple(BrokerId(b) for b in range(brokers))
        self.live = frozenset(self.brokers)  # metadata is old news: anybody may still be taken for live
        self.assignment = ReplicaAssignment(self.brokers)
        self.min_insync_replicas = min_insync_replicas

    # -------------------------------------------------------------------------------------- value <-> object

    def partition(self, broker: int, value: ReplicaValue, outbox: Outbox | None = None) -> Partition:
        isr = tuple(map(BrokerId, value.isr))
        moving = tuple(map(BrokerId, value.moving))
        state: IsrState = Committed(isr)
        if value.kind != COMMITTED:
            pending = PendingExpandIsr if value.kind == PENDING_EXPAND else PendingShrinkIsr
            state = pending(isr, moving)
        image = PartitionImage(
            self.assignment,
            BrokerId(value.leader),
            LeaderEpoch(value.leader_epoch),
            PartitionEpoch(value.partition_epoch),
            value.is_leader,
            value.epoch_start,
            value.high_watermark,
            state,
            tuple(
                FollowerImage(
                    BrokerId(known.broker),
                    BrokerEpoch(known.broker_epoch),
                    known.log_end_offset,
                    NOW_MS if known.has_fetched else NEVER_MS,
                    # A member of the ISR was caught up a moment ago. That of others is too long ago to hold up
                    # the mark.
                    NOW_MS if known.broker in value.isr and known.broker not in value.moving else NEVER_MS,
                    known.proposed_epoch,
                )
                for known in value.followers
            ),
        )
        return Partition.of(
            image,
            cast(Any, TinyLog(value.log, value.epochs)),
            topic_partition=TP,
            topic_id=TOPIC_ID,
            broker=BrokerId(broker),
            min_insync_replicas=self.min_insync_replicas,
            replica_lag_time_max_ms=LAG_MS,
            live_brokers=self.live,
            outbox=outbox if outbox is not None else Outbox(Purgatory()),
        )

    def value(self, partition: Partition, before: ReplicaValue) -> ReplicaValue:
        log = cast(TinyLog, partition.log)
        image = partition.image()
        state = image.state
        kind = COMMITTED
        moving: tuple[BrokerId, ...] = ()
        if isinstance(state, PendingExpandIsr):
            kind, moving = PENDING_EXPAND, state.joining
        elif isinstance(state, PendingShrinkIsr):
            kind, moving = PENDING_SHRINK, state.leaving
        return before._replace(
            log=log.records,
            epochs=tuple(log.epochs.entries),
            is_hosted=True,
            high_watermark=image.high_watermark,
            is_leader=image.is_leader,
            leader=image.leader,
            leader_epoch=image.leader_epoch,
            partition_epoch=image.partition_epoch,
            epoch_start=image.leader_epoch_start_offset,
            kind=kind,
            isr=tuple(sorted(state.isr)),
            moving=tuple(sorted(moving)),
            followers=tuple(
                sorted(
                    Follower(
                        f.broker,
                        f.log_end_offset,
                        f.log_end_offset != UNKNOWN_OFFSET,
                        f.broker_epoch,
                        f.proposed_epoch,
                    )
                    for f in image.followers
                )
            ),
        )

    # --------------------------------------------------------------------------------------------- processes

    def crashed(self, value: ReplicaValue) -> ReplicaValue:
        """kill -9: what was written stays; the high watermark was never written, which is the worst case."""
        return ReplicaValue(
            is_alive=False,
            registered=value.registered,
            broker_epoch=value.broker_epoch,
            log=value.log,
            epochs=value.epochs,
            lost_life=value.lost_life,
        )

    def registered_again(self, value: ReplicaValue) -> ReplicaValue:
        """The process goes on, and says that it has lost nothing (`StoreSessions`)."""
        epoch = value.broker_epoch + 1
        return value._replace(broker_epoch=epoch, registered=epoch, clean_epoch=value.broker_epoch)

    def power_cut(self, value: ReplicaValue, keeps: int) -> ReplicaValue:
        """Of what was not synced any prefix is left. Recovery ends the epochs where the log ends (KIP-101); it would
        make them anew from the batches where they contradict it, and says the same then."""
        epochs = LeaderEpochs(value.epochs)
        epochs.truncate_from_end(keeps)
        return self.crashed(value)._replace(
            log=value.log[:keeps], epochs=tuple(epochs.entries), lost_life=value.broker_epoch
        )

    # -------------------------------------------------------------------------------------- controller's word

    def become(
        self, broker: int, value: ReplicaValue, message: LeaderAndIsrMessage
    ) -> tuple[ReplicaValue, bool]:
        """Leader or follower; the second is True when the broker wants to register again instead."""
        if message.broker_epoch < value.broker_epoch:
            return value, False  # STALE_BROKER_EPOCH (KIP-380)
        effects: list[Effect] = []
        outbox = Outbox(Purgatory())
        logs = _Logs(value)
        manager = ReplicaManager(
            broker=BrokerId(broker),
            settings=SETTINGS,
            logs=cast(Any, logs),
            topic_configs=_known_topics(),
            inter_broker_listener="PLAINTEXT",
            metadata=_metadata(self.live),
            outbox=outbox,
            effects=effects,
            calls=PendingCalls(),
            slices=Slices(effects),
            broker_epoch=lambda: BrokerEpoch(value.broker_epoch),
        )
        manager.controller_epoch = cast(Any, value.controller_epoch)
        if not manager.accept_controller_epoch(message.controller_epoch):
            return value, False
        if value.is_hosted:
            manager.partitions[TP] = self.partition(broker, value, outbox)
        told = Leadership(
            TP,
            TOPIC_ID,
            LeaderAndIsr(
                BrokerId(message.leader),
                LeaderEpoch(message.leader_epoch),
                tuple(map(BrokerId, message.isr)),
                PartitionEpoch(message.partition_epoch),
            ),
            self.assignment,
            False,
        )
        former: list[TopicPartition] = []
        manager.commit_slice([told], former, NOW_MS)
        manager.refuse_to_lead(former)
        after = value._replace(controller_epoch=manager.controller_epoch)
        if any(isinstance(effect, RegisterAgain) for effect in effects):
            return after, True
        hosted = manager.partitions.get(TP)
        if hosted is None:
            return after, False
        hosted.set_min_insync_replicas(self.min_insync_replicas, NOW_MS)
        after = self.value(hosted, after)
        if not value.is_hosted or after.leader_epoch != value.leader_epoch:
            fetcher = manager.fetchers.get(hosted.leader)
            followed = fetcher.partitions.get(TP) if fetcher is not None else None
            after = after._replace(
                fetch_state=followed.state if followed is not None else ReplicaValue().fetch_state,
                leader_high_watermark_seen=-1,
                is_prefix=False,
            )
        return after, False

    # ---------------------------------------------------------------------------------------------- the leader

    def write(self, broker: int, value: ReplicaValue, number: int) -> ReplicaValue:
        partition = self.partition(broker, value)
        partition.append(cast(Any, number), acks=1, now_ms=NOW_MS)
        return self.value(partition, value)

    def handle_fetch(
        self, broker: int, value: ReplicaValue, message: FetchMessage
    ) -> tuple[ReplicaValue, FetchAnswer | None]:
        """The Fetch handler. No answer: refused, or nothing to say yet (the fetch is parked; asked again it says the
        same, so a parked one need not be kept)."""
        partition = self.partition(broker, value)
        session = FetchSession(
            NO_SESSION,
            replica_id=message.source,
            replica_epoch=BrokerEpoch(message.broker_epoch),
            by_id=True,
            purgatory=Purgatory(),
            now_ms=NOW_MS,
        )
        session.last_fetch_time_ms = NOW_MS
        wanted = session.want(
            TOPIC_ID, 0, message.leader_epoch, message.offset, message.last_epoch, 0, 1 << 20
        )
        wanted.partition = partition
        body = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=0,
            topics=[],
            forgotten_topics_data=[],
            rack_id="",
            cluster_id=None,
            replica_state=(message.source, message.broker_epoch),
        )
        wait = FetchWait(UNTHROTTLED, 17, body, session, cast(Any, None))
        try:
            row, _, _ = wait._read_partition(wanted, 0, NOW_MS)
        except ProtocolError:
            return value, None
        after = self.value(partition, value)
        answer = FetchAnswer(
            "FetchAnswer",
            broker,
            message.source,
            message.leader_epoch,
            message.offset,
            row[2],
            tuple(row[7]) if row[8] is None else (),
            row[8],
        )
        return after, answer

    def shrink(self, broker: int, value: ReplicaValue, follower: int) -> ReplicaValue:
        """`follower` has not caught up for longer than the lag limit."""
        partition = self.partition(broker, value)
        partition.followers[BrokerId(follower)].last_caught_up_time_ms = NEVER_MS
        partition.shrink_if_lagging(NOW_MS)
        return self.value(partition, value)

    def propose_again(self, broker: int, value: ReplicaValue) -> ReplicaValue:
        partition = self.partition(broker, value)
        partition.propose_again(NOW_MS)
        return self.value(partition, value)

    def proposal(self, broker: int, value: ReplicaValue) -> AlterPartitionMessage | None:
        if value.kind == COMMITTED or not value.is_leader:
            return None
        asked = self.partition(broker, value).proposal(BrokerEpoch(value.broker_epoch))
        return None if asked is None else AlterPartitionMessage(
            "AlterPartition",
            broker,
            value.broker_epoch,
            asked.leader_epoch,
            asked.partition_epoch,
            tuple(sorted(asked.new_isr)),
        )  # fmt: skip

    def isr_answered(self, broker: int, value: ReplicaValue, message: AlterPartitionAnswer) -> ReplicaValue:
        partition = self.partition(broker, value)
        asked = message.asked
        proposal = IsrProposal(
            TP,
            TOPIC_ID,
            LeaderEpoch(asked.leader_epoch),
            PartitionEpoch(asked.partition_epoch),
            cast(Any, asked.new_isr),
        )
        leadership = LeaderAndIsr(
            BrokerId(message.leader),
            LeaderEpoch(message.leader_epoch),
            tuple(map(BrokerId, message.isr)),
            PartitionEpoch(message.partition_epoch),
        )
        partition.isr_answered(proposal, IsrAnswer(ErrorCode(message.error), leadership), NOW_MS)
        return self.value(partition, value)

    def end_offset(
        self, broker: int, value: ReplicaValue, message: EndOffsetQuestion
    ) -> EndOffsetAnswer | None:
        """OffsetForLeaderEpoch of the controller, through both codecs. None: refused, or not hosted yet."""
        if not value.is_hosted:
            return None
        wanted = LeaderEpoch(message.leader_epoch)
        question = AskEndOffsets(BrokerId(broker), BrokerEpoch(-1), ((TP, wanted),), message.number)
        asked = OffsetForLeaderEpochRequest.decode(
            VERSIONS[OFFSET_FOR_LEADER_EPOCH], encode_end_offsets(question)
        )
        partition = self.partition(broker, value)
        hosting = cast(Any, SimpleNamespace(replicas=SimpleNamespace(hosted=lambda topic, index: partition)))
        response = OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[
                        offset_for_leader_epoch._partition(
                            hosting, topic.topic, row, any_replica=asked.replica_id == DEBUGGING_REPLICA_ID
                        )
                        for row in topic.partitions
                    ],
                )
                for topic in asked.topics
            ]
        )
        body = memoryview(response.encode(VERSIONS[OFFSET_FOR_LEADER_EPOCH]))
        answered = decode_end_offsets(BrokerId(broker), body, message.number)
        if TP not in answered.ends:
            return None
        last_epoch, end = answered.ends[TP]
        return EndOffsetAnswer(
            "EndOffsetsAnswered", broker, message.controller_epoch, message.number, last_epoch, end
        )

    # -------------------------------------------------------------------------------------------- the follower

    def fetch(self, broker: int, value: ReplicaValue) -> FetchMessage | None:
        """What the follower asks its leader now."""
        if not value.is_hosted or value.is_leader or value.leader < 0:
            return None
        log = TinyLog(value.log, value.epochs)
        return FetchMessage(
            "Fetch",
            broker,
            value.leader,
            value.leader_epoch,
            log.log_end_offset,
            log.latest_epoch,
            value.broker_epoch,
        )

    def fetched(
        self, broker: int, value: ReplicaValue, message: FetchAnswer, *, remembers: bool = False
    ) -> ReplicaValue:
        """`remembers`: what answers before this one said counts as well (`FollowedPartition`)."""
        outbox = Outbox(Purgatory())
        partition = self.partition(broker, value, outbox)
        fetcher = FollowerFetcher(
            broker=BrokerId(broker),
            leader=BrokerId(message.source),
            limits=FetchLimits(),
            outbox=outbox,
            broker_epoch=lambda: BrokerEpoch(value.broker_epoch),
        )
        fetcher.add(partition)
        followed: FollowedPartition = fetcher.partitions[TP]
        fetcher._waiting.clear()
        followed.leader_epoch = LeaderEpoch(message.leader_epoch)
        number = followed.named_at
        followed.asked_end = message.asked_end
        if message.is_of_former_fetch:
            number -= 1
            followed.asked_end = partition.log.log_end_offset
        if remembers:
            followed.leader_high_watermark_seen, followed.is_prefix = (
                value.leader_high_watermark_seen,
                value.is_prefix,
            )
        followed.asked_start = 0
        mark = message.high_watermark
        row = (0, 0, mark, mark, 0, None, -1, message.records, message.diverging, None, None)
        fetcher._partition_fetched(followed, cast(Any, row), number, NOW_MS)
        after = self.value(partition, value)
        if remembers:
            after = after._replace(
                leader_high_watermark_seen=followed.leader_high_watermark_seen, is_prefix=followed.is_prefix
            )
        return after


class _Logs:
    """What `ReplicaManager` asks of a `LogManager`."""

    def __init__(self, value: ReplicaValue) -> None:
        self.log = TinyLog(value.log, value.epochs)
        self.offline_directories: dict[str, str] = {}
        self.directories: tuple[object, ...] = ()
        self.futures: dict[object, object] = {}  # nothing moves from one directory to another
        self.refused: dict[object, object] = {}
        # A replica that never held anything has no directory either.
        self.logs = {TP: self.log}
        self.mark = value.high_watermark

    def resolve_topic_id(
        self, topic_partition: object, topic_id: object, now_ms: int, *, is_counted_on: bool
    ) -> list[str]:
        return []  # nothing of another topic

    def config_of(self, topic: object) -> object:
        return self.log.config

    def get_or_create(self, topic_partition: object, topic_id: object, *, now_ms: int) -> TinyLog:
        return self.log

    def high_watermark_of(self, topic_partition: object) -> int:
        return min(self.mark, self.log.log_end_offset)


def _known_topics() -> TopicConfigs:
    return TopicConfigs(SETTINGS)


def _metadata(live: Iterable[int]) -> MetadataCache:
    metadata = MetadataCache()
    metadata.live_brokers.update(live)
    return metadata
