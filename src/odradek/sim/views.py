"""Snapshots of a world for the checkers: a plain `ClusterView`, made so that the next one costs what has changed.

Nothing here asks a broker to do anything. A node of the store is decoded again when it was written; of a log only what was
appended since the last look is read, unless its files were cut, which the disk's own trace tells. What is as it was at the
last look is the same object as then: a partition about which nothing has changed is the same `PartitionView`.
"""

from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from operator import is_
from typing import TYPE_CHECKING, Any

from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import BrokerId, TopicId, TopicPartition
from odradek.records.batch import BATCH_OVERHEAD, BatchHeader, iter_batches
from odradek.records.control import end_marker_of
from odradek.records.reader import decode_batch
from odradek.sim.checkers.batches import Batches, BatchList, BatchView
from odradek.sim.checkers.history import Value
from odradek.sim.checkers.keys import Keys
from odradek.sim.checkers.replicas import ClusterView, PartitionView, ReplicaView
from odradek.sim.decoded import Decoded
from odradek.store import layout
from odradek.store.fields import Unreadable

if TYPE_CHECKING:
    from odradek.sim.world import SimBroker, World

MIN_ISR, DEFAULT_MIN_ISR = "min.insync.replicas", 1
POLICY, COMPACT = "cleanup.policy", "compact"
NO_BATCHES = BatchList().snapshot()
_NOT_SHOWN: tuple[PartitionView | None, tuple[Any, ...]] = (None, ())
TOPIC_CONFIGS = "/config/topics"
OUT_OF_THE_ISR = -1  # in place of the life in which the ISR counts on a broker: older than all of them
CHANGES_A_LOG = ("truncate", "remove", "rename", "create")


class LogReader:
    """The batches of one log, read as they come."""

    __slots__ = ("_log", "_start", "batches", "is_over", "next_offset")

    def __init__(self, log: Any) -> None:
        self._log = log
        self._start = log.log_start_offset
        self.batches = BatchList()
        self.next_offset = self._start
        self.is_over = False  # the log was cut, and another reader begins anew

    def is_of(self, log: Any) -> bool:
        return log is self._log and log.log_start_offset == self._start

    def read(self) -> Batches:
        log = self._log
        while self.next_offset < log.log_end_offset:
            read = log.read(
                self.next_offset, max_bytes=1 << 20, upper_bound_offset=log.log_end_offset, min_one_batch=True
            )
            data = b"".join(piece.read() for piece in read.slices)
            if not data:
                break
            view = memoryview(data)
            for position, header in iter_batches(view):
                self._note(header, view[position : position + header.size_bytes])
                self.next_offset = header.next_offset
        return self.batches.snapshot()

    def _note(self, header: BatchHeader, batch: memoryview) -> None:
        last = header.base_offset + header.last_offset_delta
        self.batches.append(BatchView(header.base_offset, last, header.leader_epoch, header.crc))


class KeyReader(LogReader):
    """The last record of each key of a compacted log. What compaction has put in place is read from the start."""

    __slots__ = ("keys",)

    def __init__(self, log: Any) -> None:
        super().__init__(log)
        self.keys = Keys()

    def _note(self, header: BatchHeader, batch: memoryview) -> None:
        self.keys.note(header.base_offset, header.next_offset)
        if header.is_control:
            marker = end_marker_of(header, batch[BATCH_OVERHEAD:])
            if marker is not None:
                self.keys.decide(header.producer_id, header.base_offset, is_commit=marker.is_commit)
            return
        for key, offset, value in _records_with_keys(bytes(batch)):
            if header.is_transactional:
                self.keys.put_undecided(header.producer_id, key, offset, value)
            else:
                self.keys.put(key, offset, value)


@lru_cache(maxsize=4096)
def _records_with_keys(batch: bytes) -> list[tuple[Value, int, Value | None]]:
    """(key, offset, value) of each. All replicas hold the same batches, byte for byte, until one compacts them."""
    return [
        (record.key, record.offset, record.value) for record in decode_batch(batch) if record.key is not None
    ]


class BrokerLogs:
    """What has been read of the logs of one broker's disk."""

    def __init__(self, broker: "SimBroker") -> None:
        self._broker = broker
        self._readers: dict[TopicPartition, LogReader] = {}
        self._seen_steps: dict[str, int] = {}  # of each disk's trace

    def reader(self, partition: TopicPartition, log: Any, *, is_compacted: bool) -> LogReader:
        """It has read all there is. Keys, of a compacted log, are good until the next call."""
        kind = KeyReader if is_compacted else LogReader
        reader = self._readers.get(partition)
        if reader is None or not reader.is_of(log) or type(reader) is not kind:
            self._forget(partition)
            reader = self._readers[partition] = kind(log)
        if reader.next_offset < log.log_end_offset:
            with self._broker.undisturbed():
                reader.read()
        return reader

    def forget(self) -> None:
        """Somebody changed the disk behind everybody's back."""
        for partition in list(self._readers):
            self._forget(partition)

    def _forget(self, partition: TopicPartition) -> None:
        reader = self._readers.pop(partition, None)
        if reader is not None:
            reader.is_over = True

    def forget_what_was_cut(self) -> None:
        """Before anything is read for a look."""
        for disk in self._broker.disks:
            seen = self._seen_steps.get(disk.path, 0)
            if len(disk.trace) > seen:
                for step in disk.trace[seen:]:
                    if ".log" in step and not step.startswith("append "):
                        operation, _, path = step.partition(" ")
                        if operation in CHANGES_A_LOG and ".log" in path:
                            self._forget(_partition_of(path))
                self._seen_steps[disk.path] = len(disk.trace)


def _partition_of(path: str) -> TopicPartition:
    directory = path.split(" ")[0].split("/")[-2]
    topic, _, number = directory.rpartition("-")
    return TopicPartition(topic, int(number) if number.isdigit() else -1)


class Shown:
    """A replica as it was shown last, and by what it is known that it would be shown so again."""

    __slots__ = (
        "_end_offset",
        "_high_watermark",
        "_is_compacted",
        "_is_leader",
        "_leader_epoch",
        "_log",
        "_reader",
        "_stable_offset",
        "_start_offset",
        "_state",
        "made_of",
        "shows",
        "view",
    )

    def __init__(self, made_of: tuple[Any, ...], shows: BatchList | Keys | None, view: ReplicaView) -> None:
        self.made_of = made_of
        self.shows = shows
        self.view = view
        self._is_leader, self._leader_epoch = view.is_leader, view.leader_epoch
        self._start_offset, self._end_offset = view.log_start_offset, view.log_end_offset
        self._high_watermark, self._stable_offset = view.high_watermark, view.last_stable_offset

    def found_again(self, replica: Any, reader: LogReader | None, *, is_compacted: bool) -> None:
        """`made_of` was made of these."""
        self._log, self._state, self._reader = replica.log, replica.state, reader
        self._is_compacted = is_compacted

    def is_as_it_was(self, replica: Any, *, is_compacted: bool) -> bool:
        """Asked of every replica at every look, so what is a value is compared by its identity."""
        log, reader = replica.log, self._reader
        return (
            log is self._log
            and log.log_end_offset == self._end_offset
            and replica.high_watermark == self._high_watermark
            and replica.state is self._state
            and replica.leader_epoch == self._leader_epoch
            and replica.is_leader is self._is_leader
            and log.log_start_offset == self._start_offset
            and is_compacted is self._is_compacted
            and (reader is None or (not reader.is_over and reader.next_offset >= self._end_offset))
            and (not self._is_leader or _stable_offset(replica) == self._stable_offset)
        )


class Seen:
    """What was shown last, by those who ask for the same."""

    def __init__(self) -> None:
        self.replicas: dict[BrokerId, dict[TopicPartition, Shown]] = defaultdict(dict)
        self._partitions: dict[TopicPartition, tuple[PartitionView | None, tuple[Any, ...]]] = {}

    def replica(
        self,
        broker: BrokerId,
        replica: Any,
        partition: TopicPartition,
        logs: BrokerLogs | None,
        *,
        is_compacted: bool,
    ) -> ReplicaView:
        log, state = replica.log, replica.state
        is_leader = replica.is_leader
        shows: BatchList | Keys | None = None
        length = 0
        reader = None if logs is None else logs.reader(partition, log, is_compacted=is_compacted)
        if isinstance(reader, KeyReader):
            shows = reader.keys
            length = shows.end_offset
        elif reader is not None:
            shows = reader.batches
            length = len(shows.items)
        made_of = (
            is_leader,
            replica.leader_epoch,
            log.log_start_offset,
            log.log_end_offset,
            replica.high_watermark,
            state.isr,
            state.maximal_isr,
            _stable_offset(replica) if is_leader else -1,
            length,
        )
        known = self.replicas[broker].get(partition)
        if known is None or known.shows is not shows or known.made_of != made_of:
            view = ReplicaView(
                broker=broker,
                is_alive=True,
                is_leader=is_leader,
                leader_epoch=made_of[1],
                log_start_offset=made_of[2],
                log_end_offset=made_of[3],
                high_watermark=made_of[4],
                isr=made_of[5],
                maximal_isr=made_of[6],
                batches=shows.snapshot() if isinstance(shows, BatchList) else NO_BATCHES,
                keys=shows if isinstance(shows, Keys) else None,
                last_stable_offset=made_of[7],
            )
            known = self.replicas[broker][partition] = Shown(made_of, shows, view)
        known.found_again(replica, reader, is_compacted=is_compacted)
        return known.view

    def partition(
        self, partition: TopicPartition, replicas: list[ReplicaView], rest: tuple[Any, ...]
    ) -> PartitionView:
        """`rest`: the other fields of `PartitionView`, in their order."""
        known, of = self._partitions.get(partition, _NOT_SHOWN)
        if (
            known is not None
            and len(known.replicas) == len(replicas)
            and all(map(is_, known.replicas, replicas))  # to compare them would be to compare their batches
            and of == rest
        ):
            return known
        view = PartitionView(tuple(replicas), *rest)
        self._partitions[partition] = view, rest
        return view


class Views:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._seen: dict[tuple[bool, bool], Seen] = defaultdict(Seen)
        self._last: tuple[tuple[int, int, bool], ClusterView] | None = None
        self._decoded = Decoded()
        self._logs = {broker_id: BrokerLogs(broker) for broker_id, broker in world.brokers.items()}
        self._zxid = -1
        self._written: list[tuple[str, int]] = []
        self._stored: dict[TopicPartition, LeaderAndIsr] = {}
        self._lives: dict[TopicPartition, dict[BrokerId, int]] = {}
        self._assignments: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        self._topic_ids: dict[str, TopicId | None] = {}
        self._moving: dict[TopicPartition, None] = {}
        self._moved: dict[TopicPartition, None] = {}
        self._min_isr: dict[str, int] = {}
        self._compacted: set[str] = set()
        self._to_delete: tuple[str, ...] = ()
        self._rests: dict[TopicPartition, tuple[Any, ...]] = {}  # until the store changes

    def forget(self, broker_id: BrokerId) -> None:
        self._last = None
        self._logs[broker_id].forget()

    def incarnation_in_isr(self, broker_id: BrokerId, partition: TopicPartition) -> int | None:
        """The broker epoch with which the stored ISR names it (-1: it does not say), None if it does not."""
        self._read_store()
        return self._lives.get(partition, {}).get(broker_id)

    def view(self, *, with_batches: bool = True, with_knowledge: bool = True) -> ClusterView:
        """Brokers that do not run are left out: their disks are judged when they are back. `with_knowledge`: what brokers and
        the controller know of each other, and what is left of deletions, of which nothing is asked before all is quiescent.
        """
        world = self._world
        if not with_batches or with_knowledge:
            return self._view(with_batches, with_knowledge)
        # A controller may take several steps in one turn, in which no broker does anything.
        at = world.loop.events, world.store.ensemble.tree.zxid, world.is_healed
        if self._last is None or self._last[0] != at:
            self._last = at, self._view(with_batches, with_knowledge)
        return self._last[1]

    def _view(self, with_batches: bool, with_knowledge: bool) -> ClusterView:
        world = self._world
        self._read_store()
        stored = self._stored
        self._exempt_given_up()
        self._drop_exemptions(stored)
        seen = self._seen[with_batches, with_knowledge]
        replicas: dict[TopicPartition, list[ReplicaView]] = {p: [] for p in self._assignments}
        metadata: dict[tuple[BrokerId, TopicPartition], tuple[int, int]] = {}
        controllers: list[tuple[BrokerId, int]] = []
        cached: dict[TopicPartition, LeaderAndIsr] = {}
        cached_epoch = -1
        strays: list[tuple[BrokerId, TopicPartition]] = []
        exempt, topic_ids = world.exempt, self._topic_ids
        is_told = world.topics.is_told if world.topics.has_unclean_elections else None
        for broker in world.brokers.values():
            runtime = broker.runtime
            if not broker.is_running or runtime is None or runtime.parts is None:
                continue
            broker_id = broker.broker_id
            logs = self._logs[broker_id] if with_batches else None
            if logs is not None:
                logs.forget_what_was_cut()
            shown, compacted = seen.replicas[broker_id], self._compacted
            for partition, replica in runtime.broker.replicas.partitions.items():
                topic = partition.topic
                shown_with = replicas.get(partition)
                if (
                    shown_with is not None
                    and replica.log.failure
                    is None  # its directory is offline, and the broker will see in a moment
                    and replica.topic_id == topic_ids[topic]
                    and (not exempt or (broker_id, partition) not in exempt)
                    and (is_told is None or is_told(partition, broker_id, stored.get(partition)))
                ):
                    is_compacted = topic in compacted
                    before = shown.get(partition)
                    if before is not None and before.is_as_it_was(replica, is_compacted=is_compacted):
                        shown_with.append(before.view)
                        continue
                    view = seen.replica(broker_id, replica, partition, logs, is_compacted=is_compacted)
                    shown_with.append(view)
            term = runtime.controller.term
            if term is not None:
                controllers.append((broker_id, term.epoch))
            if not with_knowledge:
                continue
            for partition in runtime.broker.replicas.logs.logs:
                if broker_id not in self._assignments.get(partition, ()):
                    strays.append((broker_id, partition))
            known_by = runtime.broker.metadata
            for partition in replicas:
                known = known_by.partition(partition.topic, partition.partition)
                if known is not None:
                    metadata[(broker_id, partition)] = (known.leader, known.leader_epoch)
            if term is not None:
                # None as well once it has resigned, in the very step we look after
                context = term.core.context
                if term.is_loaded and context is not None and term.epoch > cached_epoch:
                    cached_epoch = term.epoch
                    cached = {p: s.leader_and_isr for p, s in context.leaderships.items()}
        rests = self._rests = self._rests or dict(self._made_of_the_store())
        if cached or is_told is not None:
            rests = {
                partition: (
                    rest[0], cached.get(partition), rest[2], rest[3], world.topics.unclean_elections_of(partition),
                    *rest[5:],
                )
                for partition, rest in rests.items()
            }  # fmt: skip
        return ClusterView(
            partitions={
                partition: seen.partition(partition, replicas[partition], rest)
                for partition, rest in rests.items()
            },
            controllers=tuple(controllers),
            live_brokers=tuple(b.broker_id for b in world.brokers.values() if b.is_running),
            metadata=metadata,
            has_controller=cached_epoch >= 0,
            strays=tuple(sorted(strays)),
            topics_to_delete=self._to_delete,
        )

    def _made_of_the_store(self) -> Iterator[tuple[TopicPartition, tuple[Any, ...]]]:
        """Of each partition the fields of its `PartitionView` behind the replicas, as far as the store tells them: what the
        controller knows and unclean elections are put in at each look."""
        topics = self._world.topics
        for partition, assignment in self._assignments.items():
            if partition.topic not in self._to_delete:  # of these nothing is promised any more
                yield (
                    partition,
                    (
                        self._stored.get(partition),
                        None,
                        assignment,
                        topics.incarnation_of(partition.topic, self._topic_ids[partition.topic]),
                        0,
                        partition in self._moving,
                        partition in self._moved,
                        min(self._min_isr.get(partition.topic, DEFAULT_MIN_ISR), max(len(assignment), 1)),
                    ),
                )

    def _read_store(self) -> None:
        tree = self._world.store.ensemble.tree
        if tree.zxid == self._zxid:
            return
        self._zxid = tree.zxid
        written = tree.written(TOPIC_CONFIGS, layout.TOPICS, layout.DELETE_TOPICS)
        if written == self._written:
            return
        self._written = written
        self._rests = {}
        self._to_delete = self._world.topics.to_delete()
        stored: dict[TopicPartition, LeaderAndIsr] = {}
        assignments: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        self._topic_ids, self._moving, self._lives = {}, {}, {}
        self._min_isr = {}
        self._compacted = set()
        for path, node in tree.walk(TOPIC_CONFIGS):
            configured = self._decoded.config(path, node)
            if MIN_ISR in configured:
                self._min_isr[path.rsplit("/", 1)[1]] = int(configured[MIN_ISR])
            if COMPACT in configured.get(POLICY, ""):
                self._compacted.add(path.rsplit("/", 1)[1])
        for path, node in tree.walk(layout.TOPICS):
            parts = path.split("/")
            try:
                if len(parts) == 7 and parts[6] == "state":
                    state = self._decoded.state(path, node)
                    partition = TopicPartition(parts[3], int(parts[5]))
                    stored[partition] = state.leader_and_isr
                    epochs = state.isr_broker_epochs or (-1,) * len(state.leader_and_isr.isr)
                    self._lives[partition] = dict(zip(state.leader_and_isr.isr, epochs, strict=True))
                elif len(parts) == 4:
                    topic = self._decoded.topic(path, node)
                    self._topic_ids[parts[3]] = topic.topic_id
                    for number, assignment in topic.partitions.items():
                        partition = TopicPartition(parts[3], number)
                        assignments[partition] = assignment.replicas
                        if assignment.adding_replicas or assignment.removing_replicas:
                            self._moving[partition] = self._moved[partition] = None
            except Unreadable:
                continue
        self._stored = stored
        self._assignments = dict(sorted(assignments.items()))

    def _exempt_given_up(self) -> None:
        """A broker that gave a log up has said so by registering anew; what it begins in its place is judged once nobody counts
        on what it had. Its leader may not have heard yet: then it counts on where the old log was, and on no fetch of the new
        one, which comes in a later leader epoch. The stored ISR may be without it by then: who is out of it counts for nobody
        but that leader.
        """
        exempt = self._world.exempt
        for broker in self._world.brokers.values():
            if broker.is_running and broker.is_serving and broker.runtime is not None:
                own = broker.runtime.broker.broker_epoch  # None: not registered yet
                for partition in broker.runtime.broker.replicas.logs.refused:
                    life = self._lives.get(partition, {}).get(broker.broker_id)
                    if life is not None and (own is None or life <= own):
                        exempt.setdefault((broker.broker_id, partition), life)
                    elif life is None and self._has_left_unheard(broker.broker_id, partition):
                        exempt.setdefault((broker.broker_id, partition), OUT_OF_THE_ISR)

    def _has_left_unheard(self, broker_id: BrokerId, partition: TopicPartition) -> bool:
        state = self._stored.get(partition)
        return state is not None and self._is_counted_on(broker_id, partition, state)

    def _drop_exemptions(self, stored: dict[TopicPartition, LeaderAndIsr]) -> None:
        """Once the ISR does not count on the life any more that lost records, or counts on a later one."""
        exempt = self._world.exempt
        for (broker_id, partition), epoch in list(exempt.items()):
            state = stored.get(partition)
            counted_on = self._lives.get(partition, {}).get(broker_id)
            if state is None or (
                (counted_on is None or counted_on > epoch or self._is_as_before(broker_id, partition))
                and not self._is_counted_on(broker_id, partition, state)
                and not self._is_damaged(broker_id, partition)
            ):
                del exempt[(broker_id, partition)]
                self._world.damage.pop((broker_id, partition), None)

    def _is_damaged(self, broker_id: BrokerId, partition: TopicPartition) -> bool:
        damage = self._world.damage.get((broker_id, partition))
        return damage is not None and damage.is_there()

    def _is_as_before(self, broker_id: BrokerId, partition: TopicPartition) -> bool:
        """The damage may be gone, but nothing was lost: the process never went."""
        damage = self._world.damage.get((broker_id, partition))
        return damage is not None and damage.host is self._world.brokers[broker_id].host

    def _is_counted_on(self, broker_id: BrokerId, partition: TopicPartition, stored: LeaderAndIsr) -> bool:
        """A leader that has not heard of what is stored has the broker in the ISR it believes in."""
        for broker in self._world.brokers.values():
            if broker.is_running and broker.is_serving and broker.runtime is not None:
                replica = broker.runtime.broker.replicas.partitions.get(partition)
                if (
                    replica is not None
                    and replica.is_leader
                    and (replica.leader_epoch, replica.partition_epoch)
                    < (stored.leader_epoch, stored.partition_epoch)
                    and broker_id in replica.state.maximal_isr
                ):
                    return True
        return False


def _stable_offset(replica: Any) -> int:
    """Whoever asks makes the log forget what is decided for good; whoever only looks does not."""
    producers = replica.log.producers
    ended = producers._ended
    try:
        return int(replica.last_stable_offset)
    finally:
        producers._ended = ended
