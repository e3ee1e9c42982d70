"""The replicas this broker hosts: what LeaderAndIsr and StopReplica make of them, and who fetches for them.

Epochs guard every step. A controller of an older epoch is refused as a whole (row 146); a leader epoch that
is not larger than ours is refused for its partition, which acknowledges it and changes nothing (row 147); so
a request may come twice, or late, and do no harm.

One fetcher per leader broker. A leader of -1 stops fetching and is no error (row 168).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from odradek.broker.damaged_logs import DamagedLogs
from odradek.broker.effects import (
    CheckpointHighWatermarks,
    Effect,
    LogLine,
    RegisterAgain,
    StartFetcher,
    StateChangeLine,
    StopFetcher,
    WakeFetcher,
)
from odradek.broker.log_moves import LogMoves
from odradek.broker.log_retries import LogRetries
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.organs import RoleChange
from odradek.broker.pending_calls import PendingCalls
from odradek.broker.slices import Slices
from odradek.broker.topic_configs import TopicConfigs, usable
from odradek.log.errors import NoDescriptor, StorageError
from odradek.model.cluster import Endpoint, LeaderAndIsr, ReplicaAssignment
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import (
    EPOCH_DURING_DELETE,
    NO_EPOCH,
    NO_TOPIC_ID,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    TopicId,
    TopicPartition,
    topic_id_to_text,
)
from odradek.model.settings import BrokerSettings, TopicSettings
from odradek.protocol.messages.fetch import TopicKey
from odradek.replication.followed import FetchLimits
from odradek.replication.follower import FollowerFetcher
from odradek.replication.partition import Partition
from odradek.replication.throttle import ReplicationThrottle
from odradek.replication.traffic import TopicTraffic
from odradek.replication.waiting import Outbox

if TYPE_CHECKING:
    from odradek.log.log_manager import LogManager

# Partitions that are told of other settings at once, half a millisecond; a topic costs as much as some of them.
CONFIGURED_AT_ONCE = 200
COST_OF_A_TOPIC = 3
# Partitions that are asked at once whether a follower lags, or is back: some milliseconds; where all are to leave an ISR, ten times
# that. The others are asked in slices of so many.
ASKED_AT_ONCE, ASKED_IN_A_SLICE = 1_000, 50


class Leadership(NamedTuple):
    """One partition of LeaderAndIsr."""

    topic_partition: TopicPartition
    topic_id: TopicId
    leader_and_isr: LeaderAndIsr
    assignment: ReplicaAssignment
    is_new: bool


class Stop(NamedTuple):
    """One partition of StopReplica."""

    topic_partition: TopicPartition
    leader_epoch: LeaderEpoch
    delete: bool


class ReplicaManager:
    def __init__(
        self,
        *,
        broker: BrokerId,
        settings: BrokerSettings,
        logs: "LogManager",
        topic_configs: TopicConfigs,
        inter_broker_listener: str,
        metadata: MetadataCache,
        outbox: Outbox,
        effects: list[Effect],
        calls: PendingCalls,
        slices: Slices,
        broker_epoch: Callable[[], BrokerEpoch],
    ) -> None:
        self.broker = broker
        self.settings = settings
        self.logs = logs
        self.topic_configs = topic_configs
        self.listener = inter_broker_listener
        self.metadata = metadata
        self.controller_epoch = ControllerEpoch(0)
        self.partitions: dict[TopicPartition, Partition] = {}
        self.offline: dict[TopicPartition, str] = {}  # hosted, but the disk is gone: why
        self.damaged = DamagedLogs(broker, logs, metadata, effects, broker_epoch)
        self.retries = LogRetries(logs, self.offline, effects, calls)
        self.moves = LogMoves(logs, self.partitions, settings, effects, calls, self.wake_fetcher_of)
        # Hosted, their configuration still to be read. The object: a later topic of that name has another.
        self.unread_topics: dict[str, object] = {}
        # Whose settings changed: what they are once the first was told, and the partitions that were not told yet.
        self._unconfigured: dict[str, tuple[TopicSettings | None, list[TopicPartition]]] = {}
        self._is_configuring = False  # in slices
        self._is_shrinking = False  # in slices
        self._slices = slices
        self.role_changes: list[RoleChange] = []  # emptied by the hub at the end of the turn
        self._by_id: dict[tuple[bytes, int], Partition] = {}
        self._of_topic: dict[str, dict[TopicPartition, Partition]] = {}  # all of `partitions`
        # Of topics hosted here, and of those that were once, together.
        self.traffic: dict[str, TopicTraffic] = {}
        self.former_traffic = TopicTraffic()
        self._outbox = outbox
        self._effects = effects
        self._broker_epoch = broker_epoch
        self.fetchers: dict[BrokerId, FollowerFetcher] = {}
        self._connected: dict[BrokerId, Endpoint] = {}  # fetchers that were started, and where
        self._woken_at: dict[BrokerId, int] = {}  # where among the effects, if those are not done yet
        self._fetched_from: dict[TopicPartition, BrokerId] = {}
        windows = settings.replication_quota_window_num
        window_ms = settings.replication_quota_window_size_seconds * 1000
        self.leader_throttle = ReplicationThrottle(window_count=windows, window_ms=window_ms)
        self.follower_throttle = ReplicationThrottle(window_count=windows, window_ms=window_ms)
        self._set_throttled_rates()

    # ------------------------------------------------------------------------------------------ looking up

    def hosted(self, topic: str, index: int) -> Partition:
        partition = self.partitions.get(TopicPartition(topic, index))
        if partition is None:
            raise self.why_not_hosted(topic, index)
        return partition

    def wanted(self, key: TopicKey, index: int) -> Partition:
        """What a Fetch means by a topic id (from v13) or a name."""
        if isinstance(key, str):
            return self.hosted(key, index)
        if key == NO_TOPIC_ID:  # there may be several without one
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self._by_id.get((key, index))
        if partition is not None:
            return partition
        topic = self.metadata.names.get(key)
        if topic is None:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_ID)
        known = self.partitions.get(TopicPartition(topic, index))
        if known is not None and known.topic_id != NO_TOPIC_ID:
            raise ProtocolError(ErrorCode.INCONSISTENT_TOPIC_ID)
        if known is not None:
            return known
        raise self.why_not_hosted(topic, index)

    def partitions_of(self, topic: str) -> int:
        """How many of them are hosted here."""
        return len(self._of_topic.get(topic, ()))

    def why_not_hosted(self, topic: str, index: int) -> ProtocolError:
        reason = self.offline.get(TopicPartition(topic, index))
        if reason is not None:
            return ProtocolError(ErrorCode.KAFKA_STORAGE_ERROR, reason)
        if self.metadata.partition(topic, index) is not None:
            return ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def current_leader(self, key: TopicKey, index: int) -> tuple[int, int] | None:
        """(leader, leader epoch) as far as known here: what a refused reader or writer should try."""
        topic = key if isinstance(key, str) else self.metadata.names.get(key)
        if topic is None:
            return None
        told = self.metadata.partition(topic, index)
        hosted = self.partitions.get(TopicPartition(topic, index))
        if hosted is not None and (told is None or hosted.leader_epoch > told.leader_epoch):
            return (hosted.leader, hosted.leader_epoch) if hosted.leader >= 0 else None
        return (told.leader, told.leader_epoch) if told is not None and told.leader >= 0 else None

    # ---------------------------------------------------------------------------------------- LeaderAndIsr

    def accept_controller_epoch(self, controller_epoch: int) -> bool:
        """False if a larger one was seen; the largest is kept (row 146)."""
        if controller_epoch < self.controller_epoch:
            return False
        self.controller_epoch = ControllerEpoch(controller_epoch)
        return True

    def commit_slice(
        self, told: Iterable[Leadership], former: list[TopicPartition], now_ms: int
    ) -> dict[TopicPartition, ErrorCode]:
        """Become leader or follower of each, as far as its epoch allows; an answer for every one. Of a request that is
        obeyed in slices: to `former` goes what `refuse_to_lead` is to be told of at the end."""
        errors: dict[TopicPartition, ErrorCode] = {}
        for leadership in told:
            topic_partition = leadership.topic_partition
            try:
                if topic_partition not in self.partitions:
                    state = leadership.leader_and_isr
                    set_aside = self.logs.resolve_topic_id(
                        topic_partition,
                        leadership.topic_id,
                        now_ms,
                        is_counted_on=not self.damaged.is_out(state.leader, state.isr),
                    )
                    if set_aside:  # and offline perhaps: nobody knew which topic was meant, or it was damaged
                        self._effects += [LogLine("warning", line) for line in set_aside]
                        self.offline.pop(topic_partition, None)
                        self.damaged.forget(topic_partition)
                if self._is_of_a_former_life(leadership):
                    former.append(topic_partition)
                    errors[topic_partition] = ErrorCode.STALE_CONTROLLER_EPOCH
                    continue
                errors[topic_partition] = self._commit_one(leadership, now_ms)
            except ProtocolError as refusal:
                errors[topic_partition] = refusal.code
                # Of a want of descriptors one line tells of all; "": each is told.
                key = "LeaderAndIsr, no descriptor" if isinstance(refusal, NoDescriptor) else ""
                self._effects.append(
                    LogLine("error", f"{topic_partition}: LeaderAndIsr refused: {refusal}", key)
                )
                if isinstance(refusal, StorageError):
                    # The controller asks no second time: to it this replica is offline until we register anew.
                    log = self.logs.logs.get(topic_partition)
                    if isinstance(refusal, NoDescriptor) and not self.logs.is_damaged(topic_partition):
                        self.retries.later(topic_partition, leadership.topic_id, now_ms)
                    elif log is not None:
                        log.give_up(refusal)
                    self._take_offline(topic_partition, refusal)
        return errors

    def refuse_to_lead(self, former: list[TopicPartition]) -> None:
        if former:
            named = ", ".join(map(str, former[:3])) + (" ..." if len(former) > 3 else "")
            self._effects.append(
                RegisterAgain(f"told to lead {named} in an epoch of this broker's former incarnation")
            )

    def _is_of_a_former_life(self, told: Leadership) -> bool:
        """We are to lead in an epoch that our log knows already, and this process has not led in it.

        The log, and what was committed of it, may be shorter now than it was then: records appended now would
        give one epoch two histories, and no follower could tell them apart. A controller that took over while we
        were away does not know that we were (Apache's; ours does, by `isr_broker_epochs` in the state node).
        """
        leadership = told.leader_and_isr
        if leadership.leader != self.broker or told.topic_partition in self.partitions:
            return False
        log = self.logs.logs.get(told.topic_partition)
        if log is None or (told.topic_id != NO_TOPIC_ID and log.topic_id not in (NO_TOPIC_ID, told.topic_id)):
            return False
        if log.failure is not None:
            return False  # nobody will lead with it: the controller asks what a failed directory held, and is told
        return log.latest_epoch >= leadership.leader_epoch

    def _commit_one(self, told: Leadership, now_ms: int) -> ErrorCode:
        topic_partition = told.topic_partition
        leadership = told.leader_and_isr
        if self.broker not in told.assignment.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition = self.partitions.get(topic_partition)
        if partition is not None:
            if told.topic_id != NO_TOPIC_ID and partition.topic_id not in (NO_TOPIC_ID, told.topic_id):
                return ErrorCode.INCONSISTENT_TOPIC_ID
            is_named = told.topic_id not in (NO_TOPIC_ID, partition.topic_id)
            is_news = partition.is_news(leadership)
            if is_named and not is_news and leadership.leader_epoch == partition.leader_epoch:
                # Nothing but the id is new: the controller gives one without raising the epoch (KIP-516).
                is_fetched = topic_partition in self._fetched_from
                self._stop_fetching(topic_partition)
                self._assign_topic_id(partition, told.topic_id)
                if is_fetched:
                    self._fetch(partition)
                return ErrorCode.NONE
            if not is_news:
                if leadership.leader_epoch == partition.leader_epoch:
                    partition.take_order(told.assignment)
                return ErrorCode.STALE_CONTROLLER_EPOCH
            self._stop_fetching(topic_partition)  # by the id it had
            if is_named:
                self._assign_topic_id(partition, told.topic_id)
        else:
            partition = self._host(told, now_ms)
            self._stop_fetching(topic_partition)
        if leadership.leader == self.broker:
            partition.make_leader(leadership, told.assignment, now_ms)
            self._note_role(partition, leads=True)
            self._tell_state(
                f"Leader {topic_partition} with topic id {topic_id_to_text(partition.topic_id)} starts at leader "
                f"epoch {leadership.leader_epoch} from offset {partition.leader_epoch_start_offset} with partition "
                f"epoch {leadership.partition_epoch}, high watermark {partition.high_watermark}, ISR "
                f"{_list(leadership.isr)}, adding replicas {_list(told.assignment.adding_replicas)} and removing "
                f"replicas {_list(told.assignment.removing_replicas)}"
            )
        else:
            previous = partition.leader
            partition.make_follower(leadership, told.assignment)
            self._note_role(partition, leads=False)
            self._tell_state(
                f"Follower {topic_partition} starts at leader epoch {leadership.leader_epoch} from offset "
                f"{partition.log.log_end_offset} with partition epoch {leadership.partition_epoch} and high "
                f"watermark {partition.high_watermark}. Current leader is {leadership.leader}. Previous leader "
                f"was {previous}"
            )
            if leadership.leader >= 0:
                self._fetch(partition)
        return ErrorCode.NONE

    def _note_role(self, partition: Partition, *, leads: bool) -> None:
        self.role_changes.append(RoleChange(partition.topic_partition, leads, partition.leader_epoch))

    def _host(self, told: Leadership, now_ms: int) -> Partition:
        topic_partition = told.topic_partition
        is_begun_anew = bool(self.logs.refused) and self.damaged.recreate(
            topic_partition, told.leader_and_isr, now_ms
        )
        if is_begun_anew:
            self.offline.pop(topic_partition, None)
        if topic_partition in self.offline and not told.is_new and topic_partition not in self.retries.wanted:
            raise StorageError(self.offline[topic_partition])
        topic = topic_partition.topic
        is_made = told.is_new or is_begun_anew
        if not is_made and topic_partition not in self.logs.logs and self.logs.may_be_lost(topic_partition):
            # It was here once, so it may be on the disk that is gone: an empty copy in its place would be taken
            # for the real one (docs/mixing.md). Or it never was: who registers anew as it is made is told of it as of any other.
            self.logs.get(topic_partition)
            raise StorageError(f"{topic_partition}: not on the log directories that are left")
        log = self.retries.get_or_create(topic_partition, told.topic_id, now_ms)
        # As it is by now: the log may have lain here unused for long.
        log.configure(self.logs.config_of(topic))
        self.offline.pop(topic_partition, None)
        is_configured = self.topic_configs.is_known(topic)
        if not is_configured:
            self.unread_topics.setdefault(topic, object())
        partition = Partition(
            topic_partition,
            log.topic_id if told.topic_id == NO_TOPIC_ID else told.topic_id,
            log,
            broker=self.broker,
            high_watermark=self.logs.high_watermark_of(topic_partition),
            min_insync_replicas=None,
            replica_lag_time_max_ms=self.settings.replica_lag_time_max_ms,
            live_brokers=self.metadata.live_brokers,
            outbox=self._outbox,
            traffic=self._traffic_of(topic),
        )
        self.partitions[topic_partition] = partition
        self._by_id[partition.topic_id, topic_partition.partition] = partition
        self._of_topic.setdefault(topic, {})[topic_partition] = partition
        if is_configured:
            self._configure(partition, self.topic_configs.settings_of(topic), now_ms)
        else:
            partition.set_flushes_before_ack(self.topic_configs.may_flush_before_ack(topic))
        self.moves.hosted(partition, now_ms)
        return partition

    def _traffic_of(self, topic: str) -> TopicTraffic:
        known = self.traffic.get(topic)
        if known is None:
            known = self.traffic[topic] = TopicTraffic()
        return known

    def _assign_topic_id(self, partition: Partition, topic_id: TopicId) -> None:
        """The topic was made by an old tool and got its id now."""
        partition.log.assign_topic_id(topic_id)
        index = partition.topic_partition.partition
        self._by_id.pop((partition.topic_id, index), None)
        partition.topic_id = topic_id
        self._by_id[topic_id, index] = partition

    # ----------------------------------------------------------------------------------------- StopReplica

    def commit_stops(self, told: Iterable[Stop], now_ms: int) -> dict[TopicPartition, ErrorCode]:
        """Of a request that is obeyed in slices; `sync_stops` follows the last of them."""
        errors: dict[TopicPartition, ErrorCode] = {}
        for stop in told:
            try:
                errors[stop.topic_partition] = self._stop_one(stop, now_ms)
            except ProtocolError as refusal:
                errors[stop.topic_partition] = refusal.code
                self._effects.append(LogLine("error", f"{stop.topic_partition}: StopReplica: {refusal}"))
        return errors

    def sync_stops(self) -> dict[TopicPartition, ErrorCode]:
        """At the end of a request: what was deleted stays so. Those of which that cannot be said."""
        return {tp: fault.code for tp, fault in self.logs.sync_deletions().items()}

    def _stop_one(self, stop: Stop, now_ms: int) -> ErrorCode:
        """Row 148: -2 (topic deletion) and -1 (unknown) bypass the epoch; an older one is fenced (KIP-570)."""
        topic_partition = stop.topic_partition
        if topic_partition in self.offline:
            may_go = (
                topic_partition in self.retries.wanted
                or topic_partition in self.logs.ambiguous
                or self.damaged.is_on_a_good_disk(topic_partition)
            )
            if not stop.delete or not may_go:
                return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self.partitions.get(topic_partition)
        if partition is None:
            # Not hosted as far as we know: leftovers on the disk still go.
            if stop.delete:
                self._delete(topic_partition, now_ms)
                self.retries.forget(topic_partition)
                self.offline.pop(topic_partition, None)
            return ErrorCode.NONE
        if (
            stop.leader_epoch not in (EPOCH_DURING_DELETE, NO_EPOCH)
            and stop.leader_epoch < partition.leader_epoch
        ):
            return ErrorCode.FENCED_LEADER_EPOCH
        self._stop_fetching(topic_partition)
        partition.stop(deleted=stop.delete)
        self._note_role(partition, leads=False)
        if stop.delete:
            self._forget(partition)
            self._delete(topic_partition, now_ms)
        self._tell_state(f"Stopped replica {topic_partition}, delete={str(stop.delete).lower()}")
        return ErrorCode.NONE

    def _delete(self, topic_partition: TopicPartition, now_ms: int) -> None:
        self.logs.delete(topic_partition, now_ms)
        self.damaged.forget(topic_partition)
        if topic_partition.topic not in self._of_topic:
            self.logs.forget_config(topic_partition.topic)

    def _forget(self, partition: Partition) -> None:
        topic, index = topic_partition = partition.topic_partition
        del self.partitions[topic_partition]
        self.moves.forget(topic_partition)
        self.leader_throttle.covered.discard(topic_partition)
        self.follower_throttle.covered.discard(topic_partition)
        self._by_id.pop((partition.topic_id, index), None)
        left = self._of_topic[topic]
        del left[topic_partition]
        if not left:
            del self._of_topic[topic]
            self.former_traffic.add(self.traffic.pop(topic))
            self.topic_configs.forget(topic)
            self.unread_topics.pop(topic, None)

    # --------------------------------------------------------------------------------------------- storage

    def _take_offline(self, topic_partition: TopicPartition, fault: StorageError) -> None:
        """The disk under this replica is gone: neither lead nor follow, and say so to whoever asks."""
        self.offline[topic_partition] = fault.message
        self._stop_fetching(topic_partition)
        partition = self.partitions.get(topic_partition)
        if partition is not None:
            partition.lose_disk()
            self._note_role(partition, leads=False)
            self._forget(partition)

    def take_offline(self, topic_partitions: Iterable[TopicPartition], fault: StorageError) -> None:
        for topic_partition in topic_partitions:
            self._take_offline(topic_partition, fault)

    def logs_broken(self, found: list[tuple[TopicPartition, StorageError]]) -> None:
        """Logs whose disk is well, and which are not what was written: see `damaged_logs`. One that was deleted in this very turn is
        none any more; one that is gone with its disk is offline by now, and the controller asks about the replicas of that disk
        alone."""
        found = [
            (topic_partition, fault)
            for topic_partition, fault in found
            if self.damaged.is_on_a_good_disk(topic_partition)
        ]
        for topic_partition, fault in found:
            if topic_partition in self.partitions:
                self._take_offline(topic_partition, fault)
        self.damaged.found(found)

    def checkpoint_high_watermarks(self) -> CheckpointHighWatermarks:
        """Behaviour 136: of every hosted replica, leader or follower."""
        return CheckpointHighWatermarks(
            {tp: partition.high_watermark for tp, partition in sorted(self.partitions.items())},
            self.logs.cuts,
        )

    # --------------------------------------------------------------------------------------- configuration

    def set_topic_overrides(self, topic: str, overrides: Mapping[str, str], now_ms: int) -> None:
        """Read, or changed. Of a topic that is not hosted here nothing is kept: it is read when it comes."""
        here = self._of_topic.get(topic)
        if here is None:
            return
        good, problems = usable(overrides)
        for problem in problems:
            # Written by hand, or by somebody who knows more than we do: the rest of it counts.
            self._effects.append(LogLine("warning", f"/config/topics/{topic}: left out: {problem}"))
        self.topic_configs.set(topic, good)
        self.unread_topics.pop(topic, None)
        self.logs.forget_config(topic)
        self._unconfigured[topic] = None, list(here)
        self._begin_to_configure(now_ms)

    def _set_throttled_rates(self) -> None:
        self.leader_throttle.rate = self.settings.leader_replication_throttled_rate
        self.follower_throttle.rate = self.settings.follower_replication_throttled_rate

    def _follower_throttle_changed(self, now_ms: int) -> None:
        """Else whoever it holds back would wait as long as it had to before, all of its windows where the rate was small."""
        for leader, fetcher in self.fetchers.items():
            if fetcher.throttle_changed(now_ms) and leader in self._connected:
                self._wake(leader)

    def set_broker_settings(self, settings: BrokerSettings, now_ms: int) -> None:
        self.settings = settings
        self._set_throttled_rates()
        self._follower_throttle_changed(now_ms)
        self.moves.set_settings(settings, now_ms)
        self.topic_configs.set_broker_settings(settings)
        for topic, here in self._of_topic.items():
            self.logs.forget_config(topic)
            self._unconfigured[topic] = None, list(here)
        self._begin_to_configure(now_ms)

    def _begin_to_configure(self, now_ms: int) -> None:
        if not self._is_configuring and self._configure_some(now_ms):
            self._is_configuring = False  # should there be no memory for the slice
            self._slices.begin(self._configure_some)
            self._is_configuring = True

    def _configure_some(self, now_ms: int) -> bool:
        """Whether there are more. Whoever comes to be hosted meanwhile begins with the settings of by then. A topic at which it ends
        in a mistake of ours, for want of memory, say, goes on another time, behind all others: see `shrink_lagging`."""
        self._is_configuring = False
        left = CONFIGURED_AT_ONCE
        while self._unconfigured and left > 0:
            topic, (settings, partitions) = next(iter(self._unconfigured.items()))
            here = self._of_topic.get(topic, {})
            some = [here[topic_partition] for topic_partition in partitions[:left] if topic_partition in here]
            settings = settings or self.topic_configs.settings_of(topic)
            if some:  # else gone meanwhile
                try:
                    self._configure_these(topic, some, settings, now_ms)
                except Exception:
                    self._unconfigured[topic] = self._unconfigured.pop(topic)
                    raise
            if len(partitions) > left:
                self._unconfigured[topic] = settings, partitions[left:]
            else:
                del self._unconfigured[topic]
            left -= COST_OF_A_TOPIC + len(some)
        self._is_configuring = bool(self._unconfigured)
        return self._is_configuring

    def _configure_these(
        self, topic: str, some: list[Partition], settings: TopicSettings, now_ms: int
    ) -> None:
        self.logs.update_config(topic, [partition.topic_partition for partition in some])
        if not self.topic_configs.is_known(topic):
            return
        covered = self.follower_throttle.covered
        before = [partition.topic_partition in covered for partition in some]
        for partition in some:
            self._configure(partition, settings, now_ms)
        if before != [partition.topic_partition in covered for partition in some]:
            self._follower_throttle_changed(now_ms)

    def _configure(self, partition: Partition, settings: TopicSettings, now_ms: int) -> None:
        partition.replica_lag_time_max_ms = self.settings.replica_lag_time_max_ms
        partition.set_flushes_before_ack(settings.flush_messages == 1)
        partition.set_min_insync_replicas(settings.min_insync_replicas, now_ms)
        partition.keeps_tails = settings.unclean_leader_election_enable
        for throttle, listed in (
            (self.leader_throttle, settings.leader_replication_throttled_replicas),
            (self.follower_throttle, settings.follower_replication_throttled_replicas),
        ):
            throttle.cover(partition.topic_partition, listed, self.broker)

    # ------------------------------------------------------------------------------------------------ time

    def shrink_lagging(self, now_ms: int) -> None:
        """Now and then: which replicas lag, and which partitions are still to be told of their settings."""
        try:
            if not self._is_shrinking:
                self._ask_all(Partition.shrink_if_lagging, now_ms, self._shrinks)
        finally:
            self._begin_to_configure(now_ms)

    def _shrinks(self, is_under_way: bool) -> None:
        self._is_shrinking = is_under_way

    def live_brokers_changed(self, now_ms: int) -> None:
        self._ask_all(Partition.live_brokers_changed, now_ms, lambda is_under_way: None)

    def _ask_all(
        self, ask: Callable[[Partition, int], None], now_ms: int, tell: Callable[[bool], None]
    ) -> None:
        """Whoever does not lead any more when its turn comes has nothing to say. `tell`: whether some are left for later."""
        left = list(self.partitions.values())

        def some(now_ms: int, most: int = ASKED_IN_A_SLICE) -> bool:
            asked, left[:most] = left[:most], []
            tell(False)  # should one of them end in a mistake of ours, all are asked again another time
            for partition in asked:
                ask(partition, now_ms)
            tell(bool(left))
            return bool(left)

        if some(now_ms, ASKED_AT_ONCE):
            tell(False)  # nor is there always memory for the slice
            self._slices.begin(some)
            tell(True)

    # -------------------------------------------------------------------------------------------- fetchers

    def _fetch(self, partition: Partition) -> None:
        leader = partition.leader
        fetcher = self.fetchers.get(leader)
        if fetcher is None:
            settings = self.settings
            fetcher = self.fetchers[leader] = FollowerFetcher(
                broker=self.broker,
                leader=leader,
                limits=FetchLimits(
                    wait_max_ms=settings.replica_fetch_wait_max_ms,
                    min_bytes=settings.replica_fetch_min_bytes,
                    response_max_bytes=settings.replica_fetch_response_max_bytes,
                    partition_max_bytes=settings.replica_fetch_max_bytes,
                    backoff_ms=settings.replica_fetch_backoff_ms,
                ),
                outbox=self._outbox,
                broker_epoch=self._broker_epoch,
                throttle=self.follower_throttle,
            )
        fetcher.add(partition)
        self._fetched_from[partition.topic_partition] = leader
        self._connect(leader, fetcher)

    def _connect(self, leader: BrokerId, fetcher: FollowerFetcher) -> None:
        if leader in self._connected:
            self._wake(leader)
            return
        endpoint = self.metadata.leader_endpoint(leader, self.listener)
        if endpoint is not None:  # else UpdateMetadata will tell where it is
            self._connected[leader] = endpoint
            self._effects.append(StartFetcher(leader, endpoint, fetcher))

    def _stop_fetching(self, topic_partition: TopicPartition) -> None:
        leader = self._fetched_from.pop(topic_partition, None)
        if leader is not None:
            self.fetchers[leader].remove(topic_partition)
            if leader in self._connected:
                # It may have waited for this partition to be flushed, with nothing under way that would wake it.
                self._wake(leader)

    def settle_fetchers(self, now_ms: int) -> None:
        """After LeaderAndIsr, StopReplica or UpdateMetadata: fetchers with nothing to fetch go; those whose
        leader became known, or moved to another address, are connected."""
        for leader, fetcher in list(self.fetchers.items()):
            connected = self._connected.get(leader)
            if not fetcher.partitions:
                del self.fetchers[leader]
                if connected is not None:
                    del self._connected[leader]
                    self._effects.append(StopFetcher(leader))
                continue
            endpoint = self.metadata.leader_endpoint(leader, self.listener)
            if endpoint is not None and connected is not None and endpoint != connected:
                self._effects.append(StopFetcher(leader))
                del self._connected[leader]
                fetcher.connection_lost(now_ms)
            if endpoint is not None and leader not in self._connected:
                self._connect(leader, fetcher)

    def wake_fetcher_of(self, partition: Partition) -> None:
        self.wake_fetcher(partition.topic_partition)

    def wake_fetcher(self, topic_partition: TopicPartition) -> None:
        leader = self._fetched_from.get(topic_partition)
        if leader is not None and leader in self._connected:
            self._wake(leader)

    def _wake(self, leader: BrokerId) -> None:
        """Once a turn: of the thousand partitions of one request each would wake it, and it looks at all of them."""
        effects = self._effects
        place = self._woken_at.get(leader, 0)
        there = effects[place] if place < len(effects) else None
        if type(there) is WakeFetcher and there.leader == leader:
            return
        self._woken_at[leader] = len(effects)
        effects.append(WakeFetcher(leader))

    def _tell_state(self, text: str) -> None:
        self._effects.append(StateChangeLine("info", f"[Broker id={self.broker}] {text}"))


def _list(brokers: Iterable[int]) -> str:
    return "[" + ",".join(map(str, brokers)) + "]"
