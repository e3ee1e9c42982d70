"""A partition of which this broker has a copy, and which it may lead: followers, ISR, high watermark.

The leader's promises, in the order a record meets them:

1. It appends only in its own epoch, and with acks=all only while the committed ISR is not below
   min(min.insync.replicas, number of replicas).
2. A follower's fetch from offset N says that it has everything below N.
3. The high watermark is the smallest end of the maximal ISR; it never goes back in an epoch, and stands
   still while the committed ISR is too small (KAFKA-15583), or the controller calls a replica outside it eligible (KIP-966).
4. acks=all is answered when the high watermark is past the records.
5. Who lags leaves the ISR, who has caught up joins it, both only by the controller's word (`isr`).

Nothing here waits or calls out. What has to follow is put on the shared `Outbox` and done before the turn ends.
"""

from collections.abc import Set
from typing import TYPE_CHECKING

from odradek.model.cluster import LeaderAndIsr, ReplicaAssignment
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import (
    NO_LEADER,
    UNKNOWN_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    TopicId,
    TopicPartition,
)
from odradek.replication.followers import NEVER_MS, UNKNOWN_OFFSET, FetchSource, FollowerState
from odradek.replication.high_watermark import high_watermark
from odradek.replication.isr import (
    AWAIT_LEADERSHIP,
    ROLL_BACK,
    Committed,
    IsrAnswer,
    IsrProposal,
    IsrState,
    PendingExpandIsr,
    PendingShrinkIsr,
    effective_min_isr,
    move,
)
from odradek.replication.partition_image import FollowerImage, PartitionImage
from odradek.replication.replica import Replica
from odradek.replication.traffic import TopicTraffic
from odradek.replication.waiting import AckQueue, Outbox

if TYPE_CHECKING:
    from odradek.log.appending import AppendResult
    from odradek.log.partition_log import PartitionLog
    from odradek.records.batch import BatchHeader

# A refused ISR change is not proposed again before this: a follower fetches thousands of times a second.
REFUSED_RETRY_MS = 250
# The controller could not say (NOT_CONTROLLER, a lost connection, ...): the same proposal again.
UNSETTLED_RETRY_MS = 50
# The controller is ahead of us; should its LeaderAndIsr not come, ask again.
AWAIT_LEADERSHIP_MS = 1_000


class Partition(Replica):
    """See the module. Attributes without underscore may be read by anybody, changed only here."""

    __slots__ = (
        "_followers",
        "_followers_in_isr",
        "_last_refused",
        "_live_brokers",
        "_proposed_epochs",
        "_retry_isr_at_ms",
        "commit_waiters",
        "effective_min_isr",
        "flush_waiters",
        "followers",
        "has_eligible",
        "has_unassigned_in_isr",
        "is_under_min_isr",
        "leader_epoch_start_offset",
        "min_insync_replicas",
        "replica_lag_time_max_ms",
        "state",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        log: "PartitionLog",
        *,
        broker: BrokerId,
        high_watermark: int,
        min_insync_replicas: int | None,
        replica_lag_time_max_ms: int,
        live_brokers: Set[int],
        outbox: Outbox,
        traffic: TopicTraffic | None = None,
    ) -> None:
        super().__init__(
            topic_partition,
            topic_id,
            log,
            broker=broker,
            high_watermark=high_watermark,
            outbox=outbox,
            traffic=traffic,
        )
        self.min_insync_replicas = min_insync_replicas
        self.replica_lag_time_max_ms = replica_lag_time_max_ms
        # Invariant: UNKNOWN_OFFSET unless `is_leader`, then where the log ended when this leadership began.
        self.leader_epoch_start_offset = UNKNOWN_OFFSET
        self.state: IsrState = Committed(())
        self.effective_min_isr = 1
        self.has_eligible = False
        self.is_under_min_isr = False
        # Invariant: empty unless `is_leader`, then exactly the assigned replicas but this broker.
        self.followers: dict[BrokerId, FollowerState] = {}
        self.commit_waiters = AckQueue()  # acks=all
        self.flush_waiters = AckQueue()  # acks=1 with flush.messages=1
        self._followers: tuple[FollowerState, ...] = ()  # Invariant: the values of `followers`
        self._followers_in_isr = 0  # Invariant: how many of them have `is_in_maximal_isr`
        self.has_unassigned_in_isr = False
        self._proposed_epochs: dict[BrokerId, BrokerEpoch] = {}
        self._retry_isr_at_ms = NEVER_MS
        # Of the last proposal to add: who was refused alone; NO_LEADER: several together; None: it was not refused.
        self._last_refused: BrokerId | None = None
        self._live_brokers = live_brokers

    # --------------------------------------------------------------------------------------------- as a value

    def image(self) -> PartitionImage:
        is_open = not isinstance(self.state, Committed)
        return PartitionImage(
            self.assignment,
            self.leader,
            self.leader_epoch,
            self.partition_epoch,
            self.is_leader,
            self.leader_epoch_start_offset,
            self.high_watermark,
            self.state,
            tuple(
                FollowerImage(
                    follower.broker,
                    follower.broker_epoch,
                    follower.log_end_offset,
                    follower.last_fetch_time_ms,
                    follower.last_caught_up_time_ms,
                    self._proposed_epochs[follower.broker] if is_open else -1,
                )
                for follower in self.followers.values()
            ),
            self.is_leader and self.has_eligible,
        )

    @classmethod
    def of(
        cls,
        image: PartitionImage,
        log: "PartitionLog",
        *,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        broker: BrokerId,
        min_insync_replicas: int | None,
        replica_lag_time_max_ms: int,
        live_brokers: Set[int],
        outbox: Outbox,
    ) -> "Partition":
        """Goes on as the one that `image` was made of, over a log that fits."""
        made = cls(
            topic_partition,
            topic_id,
            log,
            broker=broker,
            high_watermark=image.high_watermark,
            min_insync_replicas=min_insync_replicas,
            replica_lag_time_max_ms=replica_lag_time_max_ms,
            live_brokers=live_brokers,
            outbox=outbox,
        )
        made._take(image)
        return made

    def _take(self, image: PartitionImage) -> None:
        self.assignment = image.assignment
        self.leader = image.leader
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch
        self.is_leader = image.is_leader
        self.leader_epoch_start_offset = image.leader_epoch_start_offset
        self.has_eligible = image.has_eligible
        for known in image.followers:
            follower = self.followers[known.broker] = FollowerState(known.broker)
            follower.broker_epoch = known.broker_epoch
            follower.log_end_offset = known.log_end_offset
            follower.last_fetch_time_ms = known.last_fetch_time_ms
            follower.last_caught_up_time_ms = known.last_caught_up_time_ms
        self._followers = tuple(self.followers.values())
        self._set_state(image.state)
        if not isinstance(image.state, Committed):
            self._proposed_epochs = {f.broker: BrokerEpoch(f.proposed_epoch) for f in image.followers}

    # ---------------------------------------------------------------------------------------------- roles

    def make_leader(self, leadership: LeaderAndIsr, assignment: ReplicaAssignment, now_ms: int) -> None:
        """Lead in this epoch.

        The epoch's start is written to the epoch file before anything is served (KAFKA-7415): a leader that
        forgot it would answer a follower's truncation question with an older epoch's end.
        """
        self._assert_newer(leadership)
        self.log.assign_epoch(leadership.leader_epoch, self.log.log_end_offset)
        self._take_epochs(leadership, assignment)
        self.leader_epoch_start_offset = self.log.log_end_offset
        self.is_leader = True
        known = self.followers
        self.followers = {
            replica: known.get(replica) or FollowerState(replica)
            for replica in assignment.replicas
            if replica != self.broker
        }
        self._followers = tuple(self.followers.values())
        self.has_eligible = bool(leadership.elr)
        self._set_state(Committed(leadership.isr))
        for follower in self._followers:
            # A member of the ISR has the whole lag time to make its first fetch.
            follower.reset(caught_up_at_ms=now_ms if follower.is_in_maximal_isr else NEVER_MS)
        self._retry_isr_at_ms, self._last_refused = NEVER_MS, None
        if self.flushes_before_ack and self.log.recovery_point < self.log.log_end_offset:
            self._ask_for_flush()
        self._answer_if_under_min_isr()
        self._advance_high_watermark(now_ms)
        self._outbox.purgatory.wake_key(self.topic_partition)  # DeleteRecords waits for nobody who has left
        self._wake_readers()

    def make_follower(self, leadership: LeaderAndIsr, assignment: ReplicaAssignment) -> None:
        """Follow in this epoch (leader -1: nobody leads, wait).

        Every parked acks=all request is answered NOT_LEADER_OR_FOLLOWER and every parked fetch woken: what
        they wait for is no longer decided here.
        """
        self._assert_newer(leadership)
        self._take_epochs(leadership, assignment)
        self._resign(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._set_state(Committed(leadership.isr))

    def stop(self, *, deleted: bool = False) -> None:
        """StopReplica: neither lead nor follow. With `deleted`, whoever waits hears that it is unknown."""
        self.is_deleted = deleted
        self.is_hosted = self.is_stopped = not deleted
        self.leader = NO_LEADER
        self._resign(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if deleted else ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def lose_disk(self) -> None:
        """The log cannot be used any more, and so this object neither."""
        self.is_hosted = False
        self.leader = NO_LEADER
        self._resign(ErrorCode.KAFKA_STORAGE_ERROR)

    def _resign(self, error: ErrorCode) -> None:
        self.is_leader = self.is_under_min_isr = False
        self.leader_epoch_start_offset = UNKNOWN_OFFSET
        self.followers = {}
        self._followers = ()
        self.commit_waiters.complete(error)
        self.flush_waiters.complete(error)
        self._outbox.purgatory.wake_key(self.topic_partition)  # DeleteRecords waits for nothing any more
        self._wake_readers()

    # ------------------------------------------------------------------------------------------ the leader

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        return self.state.isr

    def append(
        self,
        records: memoryview,
        *,
        acks: int,
        now_ms: int,
        from_coordinator: bool = False,
        headers: "list[BatchHeader] | None" = None,
    ) -> "AppendResult":
        """Append as leader, tell whoever reads. ProtocolError says why not, TakesLong why not now; nothing is appended
        then. `headers`: as the log's own `append_as_leader` takes them.
        """
        if not self.is_leader:
            raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if acks == -1 and self.is_under_min_isr:
            raise ProtocolError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.topic_partition}: {len(self.state.isr)} in sync, {self.effective_min_isr} needed"
                + (", and others are eligible to lead" if self.has_eligible else ""),
            )
        result = self.log.append_as_leader(
            records,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            from_coordinator=from_coordinator,
            from_client=not from_coordinator,
            headers=headers,
        )
        traffic = self.traffic
        traffic.produce_requests += 1
        if result.duplicate:
            return result
        base_offset = result.base_offset
        traffic.bytes_in += result.size_bytes
        traffic.messages_in += result.last_offset + 1 - base_offset
        for follower in self._followers:
            # Had everything until now: was caught up when it last fetched, whatever partitions that named.
            if follower.log_end_offset >= base_offset:
                source = follower.source
                if source is not None and source.last_fetch_time_ms > follower.last_caught_up_time_ms:
                    follower.last_caught_up_time_ms = source.last_fetch_time_ms
        for reader in self.follower_readers:
            if not reader.is_dirty:
                reader.wake()
        if self.flushes_before_ack:
            self._ask_for_flush()
        elif not self._followers_in_isr:
            # With others in the ISR the mark is at most where they are, and only their fetches move it.
            self._advance_high_watermark(now_ms)
        return result

    def follower_fetched(
        self,
        broker: BrokerId,
        fetch_offset: int,
        *,
        follower_log_start: int,
        broker_epoch: BrokerEpoch,
        source: FetchSource,
        now_ms: int,
    ) -> None:
        """A follower asks for `fetch_offset` on: it has everything below.

        The caller has checked epochs, range and divergence: with a divergence there is nothing to learn from
        the offset, and counting it would let the mark pass records the follower does not have (KAFKA-13141).
        """
        follower = self.followers.get(broker)
        if follower is None:
            raise ProtocolError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{broker} is no replica of {self.topic_partition}"
            )
        if broker_epoch < follower.broker_epoch and broker_epoch != UNKNOWN_BROKER_EPOCH:
            # KAFKA-15221: a fetch sent before the follower restarted says nothing about its log now.
            raise ProtocolError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"stale fetch of broker {broker}: epoch {broker_epoch}, known {follower.broker_epoch}",
            )
        former = follower.source
        if former is not source and former is not None:
            if broker_epoch <= follower.broker_epoch and self._is_late(source, former, now_ms):
                source.note_again(self)
                return
            former.note_again(self)
        follower.broker_epoch = broker_epoch
        leader_end = self.log.log_end_offset
        if fetch_offset >= leader_end:
            follower.last_caught_up_time_ms = now_ms
        elif fetch_offset >= follower.last_fetch_leader_end:
            # It has all we had when it asked before: it was caught up then.
            follower.last_caught_up_time_ms = max(
                follower.last_caught_up_time_ms, follower.last_fetch_time_ms
            )
        before = follower.log_end_offset
        if fetch_offset == before and fetch_offset < follower.last_fetch_leader_end:
            # It asked for this before, and we had it. Perhaps it did not take what it got: is it us? Nothing on the
            # wire says so, and a look at one batch costs nothing; StorageError if it is.
            self.log.check_batch(fetch_offset)
        follower.log_end_offset = fetch_offset
        if follower.log_start_offset != follower_log_start:
            follower.log_start_offset = follower_log_start
            self._outbox.purgatory.wake_key(self.topic_partition)  # DeleteRecords waits for it
        follower.last_fetch_leader_end = leader_end
        follower.last_fetch_time_ms = now_ms
        follower.source = source
        if fetch_offset > before and before <= self.high_watermark:
            self._advance_high_watermark(now_ms)
        if not follower.is_in_maximal_isr:
            self._propose_expansion(now_ms)

    def _is_late(self, source: FetchSource, former: FetchSource, now_ms: int) -> bool:
        """Sent over a connection that the follower has given up since: it fetches over a newer one, and did so just now.

        Which connection is newer the leader sees only as they are accepted, and a proxy may open them in another order
        than the follower did. So a newer one that has gone silent is not believed for long, compared with the lag
        that costs a place in the ISR: whoever goes on fetching is right.
        """
        return (
            source.connection_id < former.connection_id
            and now_ms - former.last_fetch_time_ms < self.replica_lag_time_max_ms // 4
        )

    def delete_records(self, up_to_offset: int) -> int:
        """DeleteRecords: the log begins at `up_to_offset` now, -1 means the high watermark. Returns the offset."""
        if not self.is_leader:
            raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not self.log.config.is_deleted:
            raise ProtocolError(
                ErrorCode.POLICY_VIOLATION, f"{self.topic_partition}: cleanup.policy does not delete records"
            )
        offset = self.high_watermark if up_to_offset == -1 else up_to_offset
        if not 0 <= offset <= self.high_watermark:
            raise ProtocolError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition}: delete up to {up_to_offset}, the high watermark is {self.high_watermark}",
            )
        self.log.delete_records_before(offset)
        self._wake_readers()
        return offset

    @property
    def low_watermark(self) -> int:
        """The smallest log start of the live replicas."""
        starts = [f.log_start_offset for f in self._followers if f.broker in self._live_brokers]
        return min([self.log.log_start_offset, *starts])

    def follower_left(self, broker: BrokerId, source: FetchSource) -> None:
        """The session no longer fetches this partition: its later fetches say nothing about it."""
        follower = self.followers.get(broker)
        if follower is not None and follower.source is source:
            if source.last_fetch_time_ms > follower.last_caught_up_time_ms and (
                follower.log_end_offset >= self.log.log_end_offset
            ):
                follower.last_caught_up_time_ms = source.last_fetch_time_ms
            follower.source = None

    def is_in_sync(self, follower: FollowerState) -> bool:
        """`Follower in sync`: it could be elected now without losing anything acknowledged.

        At or above the start of our epoch as well (KAFKA-7128): below it the follower may hold records of an
        older epoch that we do not have. One that we have not heard in this epoch is at -1.
        """
        return (
            follower.log_end_offset >= self.high_watermark
            and follower.log_end_offset >= self.leader_epoch_start_offset
        )

    # ------------------------------------------------------------------------------------- high watermark

    def _advance_high_watermark(self, now_ms: int) -> None:
        if self.is_under_min_isr or self.has_unassigned_in_isr:
            return
        mark = high_watermark(
            self.log.recovery_point if self.flushes_before_ack else self.log.log_end_offset,
            self._followers,
            live_brokers=self._live_brokers,
            now_ms=now_ms,
            replica_lag_time_max_ms=self.replica_lag_time_max_ms,
        )
        # Monotone on the leader within an epoch; a follower we have not heard in this epoch is at -1.
        if mark <= self.high_watermark:
            return
        self.high_watermark = mark
        self.log.note_high_watermark(mark)
        if self.commit_waiters.next_offset <= mark:
            # The check after the append uses the maximal ISR (row 157). It cannot fail here: the mark stands
            # still while the committed ISR, which is part of it, is too small.
            assert len(self.state.maximal_isr) >= self.effective_min_isr
            self.commit_waiters.complete(ErrorCode.NONE, up_to=mark)
        for reader in self.consumer_readers:
            if not reader.is_dirty:
                reader.wake()
        self._news_for_followers(now_ms)

    def log_start_moved(self, now_ms: int) -> None:
        """By retention, which runs on each replica by itself. A follower that keeps more would begin earlier, should it lead."""
        self._news_for_followers(now_ms)

    def _news_for_followers(self, now_ms: int) -> None:
        for reader in self.follower_readers:
            if not reader.is_dirty:
                reader.on_high_watermark(now_ms)

    def _answer_if_under_min_isr(self) -> None:
        """Row 158: the mark stands still now, so a parked request would only time out. The records are in
        the log and may be read later: NOT_ENOUGH_REPLICAS_AFTER_APPEND."""
        if self.is_under_min_isr:
            self.commit_waiters.complete(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def forget_expired_waiters(self) -> None:
        """A parked request was answered by its deadline."""
        self.commit_waiters.forget_expired()
        self.flush_waiters.forget_expired()

    # ------------------------------------------------------------------------------------------------- ISR

    def _set_state(self, state: IsrState) -> None:
        self.state = state
        # KIP-903: found in sync is this life of a follower, and a proposal sent again must not name its next one.
        self._proposed_epochs = {f.broker: f.broker_epoch for f in self._followers}
        maximal = state.maximal_isr
        for follower in self._followers:
            follower.is_in_maximal_isr = follower.broker in maximal
        self._followers_in_isr = sum(follower.is_in_maximal_isr for follower in self._followers)
        # At the end of a reassignment the new leader is told of the targets alone while those that leave are still
        # in the ISR, for one write more. The controller that makes it may die first, and its successor may elect one
        # of them; none of them fetches from us, so nothing is committed before the ISR is without them.
        self.has_unassigned_in_isr = any(b != self.broker and b not in self.followers for b in state.isr)
        self._measure_min_isr()

    def _measure_min_isr(self) -> None:
        """Too few are in sync; or the controller says so, by naming who is eligible. It may have heard of a larger
        min.insync.replicas before us, and of a smaller one after us, and may elect whom it names (decisions/0011)."""
        self.effective_min_isr = effective_min_isr(self.min_insync_replicas, self.assignment.replicas)
        is_too_small = len(self.state.isr) < self.effective_min_isr or self.has_eligible
        self.is_under_min_isr = self.is_leader and is_too_small

    def set_min_insync_replicas(self, value: int | None, now_ms: int) -> None:
        self.min_insync_replicas = value
        self._measure_min_isr()
        self._answer_if_under_min_isr()
        if self.is_leader:
            self._advance_high_watermark(now_ms)

    def _propose_expansion(self, now_ms: int) -> None:
        """Behaviour 132: every live follower outside the ISR that is in sync, in one proposal."""
        if type(self.state) is not Committed or now_ms < self._retry_isr_at_ms:
            return
        heard_since = now_ms - self.replica_lag_time_max_ms
        joining = tuple(
            follower.broker
            for follower in self._followers
            if not follower.is_in_maximal_isr
            and follower.broker in self._live_brokers
            and follower.last_heard_ms >= heard_since
            and self.is_in_sync(follower)
        )
        refused = self._last_refused
        if refused is not None and len(joining) > 1:
            # One that is leaving may take its time, and whoever is proposed with it is refused as well: one after the other.
            joining = (min((b for b in joining if b > refused), default=min(joining)),)
        if joining:
            self._set_state(
                move(self.state, PendingExpandIsr(self.state.isr, joining), what=str(self.topic_partition))
            )
            self._outbox.proposals.append(self)

    @property
    def is_isr_settled(self) -> bool:
        """No proposal is under way."""
        return type(self.state) is Committed

    def propose_again(self, now_ms: int) -> None:
        """A while ago the controller refused, or could not say. What is it now?

        A follower that has nothing to fetch does not name the partition, so nobody else would ask.
        """
        if not self.is_leader:
            return
        if type(self.state) is Committed:
            self._propose_expansion(now_ms)
        else:
            self._outbox.proposals.append(self)

    def live_brokers_changed(self, now_ms: int) -> None:
        """Who was not live before may join now. Who is live no more holds back neither the mark nor DeleteRecords, and whoever waits
        hears of it now."""
        if not self.is_leader:
            return
        # Of each partition led here, within one turn: most have nothing that is not committed, and everybody in the ISR.
        if self.high_watermark < self.log.log_end_offset:
            self._advance_high_watermark(now_ms)
        self._outbox.purgatory.wake_key(self.topic_partition)
        if self._followers_in_isr < len(self._followers) and self.is_isr_settled:
            self._propose_expansion(now_ms)

    def shrink_if_lagging(self, now_ms: int) -> None:
        """Behaviour 131. A follower whose end is ours never leaves for its lag (KAFKA-7152): there is nothing
        it could have fetched."""
        if not self.is_leader:
            return
        # Who was counted because it was caught up a moment ago may be so no longer.
        if self.high_watermark < self.log.log_end_offset:
            self._advance_high_watermark(now_ms)
        if type(self.state) is not Committed or now_ms < self._retry_isr_at_ms:
            return
        leader_end = self.log.log_end_offset
        limit = now_ms - self.replica_lag_time_max_ms
        leaving = tuple(
            follower.broker
            for follower in self._followers
            if follower.is_in_maximal_isr
            and follower.log_end_offset != leader_end
            and follower.last_caught_up_time_ms < limit
        )
        if leaving:
            self.propose_without(leaving)

    def propose_without(self, leaving: tuple[BrokerId, ...]) -> None:
        """An ISR without members that lag, or that a test takes for such. Of a leader without a proposal under way."""
        self._set_state(
            move(self.state, PendingShrinkIsr(self.state.isr, leaving), what=str(self.topic_partition))
        )
        self._outbox.proposals.append(self)

    def proposal(self, own_broker_epoch: BrokerEpoch) -> IsrProposal | None:
        """What to ask of the controller; None when there is nothing (any more) to ask."""
        state = self.state
        if isinstance(state, Committed) or not self.is_leader:
            return None

        epochs = {**self._proposed_epochs, self.broker: own_broker_epoch}
        return IsrProposal(
            topic_partition=self.topic_partition,
            topic_id=self.topic_id,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            new_isr=tuple((b, epochs.get(b, UNKNOWN_BROKER_EPOCH)) for b in state.proposed_isr),
        )

    def isr_answered(self, proposal: IsrProposal, answer: IsrAnswer, now_ms: int) -> int | None:
        """The controller answered `proposal`: None, or how long to wait before it is sent again; see `isr`."""
        state = self.state
        if (
            not self.is_leader
            or isinstance(state, Committed)
            or proposal.leader_epoch != self.leader_epoch
            or proposal.partition_epoch != self.partition_epoch
        ):
            return None  # new leadership has settled it meanwhile, or it is stopped
        if answer.error == ErrorCode.NONE:
            return None if self._commit_isr(answer.leader_and_isr, now_ms) else AWAIT_LEADERSHIP_MS
        if answer.error in ROLL_BACK:
            self._outbox.messages.append(
                (
                    "warning",
                    f"{self.topic_partition}: ISR {list(state.proposed_isr)} refused with {answer.error.name}",
                )
            )
            self._retry_isr_at_ms = now_ms + REFUSED_RETRY_MS
            if isinstance(state, PendingExpandIsr):
                self._last_refused = state.joining[0] if len(state.joining) == 1 else NO_LEADER
            self._set_state(move(state, Committed(state.isr), what=str(self.topic_partition)))
            self._advance_high_watermark(now_ms)
            return REFUSED_RETRY_MS
        return AWAIT_LEADERSHIP_MS if answer.error in AWAIT_LEADERSHIP else UNSETTLED_RETRY_MS

    def _commit_isr(self, leadership: LeaderAndIsr | None, now_ms: int) -> bool:
        """False: this is of another leadership than ours, or of before it, and settles nothing."""
        if leadership is None or leadership.leader_epoch != self.leader_epoch:
            return False
        if leadership.partition_epoch < self.partition_epoch:
            return False
        self.partition_epoch = leadership.partition_epoch
        self._last_refused = None
        self.leader_recovery_state = leadership.leader_recovery_state
        self.has_eligible = bool(leadership.elr)
        self._set_state(move(self.state, Committed(leadership.isr), what=str(self.topic_partition)))
        self._answer_if_under_min_isr()
        # Behaviour 131: with a laggard gone, what waited for it alone is committed now.
        self._advance_high_watermark(now_ms)
        # Others may have caught up while this proposal was under way, and have nothing more to fetch.
        self._propose_expansion(now_ms)
        return True

    # ---------------------------------------------------------------------------- flush before acknowledging

    def flushed(self, now_ms: int) -> None:
        """Group commit: one flush covers every append made before it began; the next covers the rest."""
        self.is_flushing = False
        self.flush_waiters.complete(ErrorCode.NONE, up_to=self.log.recovery_point)
        if self.is_leader:
            self._advance_high_watermark(now_ms)
        is_wanted = self.flushes_before_ack or self.flush_waiters.next_offset <= self.log.log_end_offset
        if is_wanted and self.log.recovery_point < self.log.log_end_offset:
            self._ask_for_flush()
