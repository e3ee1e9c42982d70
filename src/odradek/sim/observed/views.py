"""Snapshots of a world for the checkers: a plain `ClusterView`, made so that the next one costs what has changed.

Nothing here asks a broker to do anything. A node of the store is decoded again when it was written; of a log only what was
appended since the last look is read, unless its files were cut, which the disk's own trace tells. What is as it was at the
last look is the same object as then: a partition about which nothing has changed is the same `PartitionView`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from operator import attrgetter, is_
from typing import Any

from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import BrokerId, TopicId, TopicPartition
from odradek.records.batch import BATCH_OVERHEAD, BatchHeader, read_header
from odradek.records.control import end_marker_of
from odradek.records.errors import CorruptBatch
from odradek.records.reader import decode_batch
from odradek.sim.checkers.batches import BatchList, BatchView
from odradek.sim.checkers.history import Value
from odradek.sim.checkers.keys import Keys
from odradek.sim.checkers.replicas import ClusterView, PartitionView, ReplicaView
from odradek.sim.observed.decoded import config_of, state_of, topic_of
from odradek.sim.observed.viewed import ViewedBroker, ViewedWorld
from odradek.store import layout
from odradek.store.api import Node
from odradek.store.fields import Unreadable

MIN_ISR, DEFAULT_MIN_ISR = "min.insync.replicas", "1"
POLICY, COMPACT = "cleanup.policy", "compact"
NO_BATCHES = BatchList().snapshot()
TOPIC_CONFIGS = "/config/topics"
OUT_OF_THE_ISR = -1  # in place of the life in which the ISR counts on a broker: older than all of them
# By the first part of a path, and how many there are.
_DECODED: dict[tuple[str, int], Callable[[str, Node], Any]] = {
    ("config", 4): config_of,
    ("brokers", 4): topic_of,
    ("brokers", 7): state_of,
}
CHANGES_A_LOG = ("truncate", "remove", "rename", "create")


class LogReader:
    """The batches of one log, read as they come, and straight from what stands on the disk: to look at a log opens no file for its
    broker and asks none of its indexes."""

    __slots__ = ("_log", "_position", "_segment", "_start", "batches", "is_over", "next_offset")

    def __init__(self, log: Any) -> None:
        self._log = log
        self._start = log.log_start_offset
        self._segment: Any = None  # that was read last, up to `_position`
        self._position = 0
        self.batches = BatchList()
        self.next_offset = self._start
        self.is_over = False  # the log was cut, and another reader begins anew

    def is_of(self, log: Any) -> bool:
        return log is self._log and log.log_start_offset == self._start

    def read(self) -> None:
        is_below_the_start = self._segment is None
        for segment in self._log.segments.since(self.next_offset):
            at = self._position if segment is self._segment else 0
            data, end = _bytes_of(segment)
            while at < end:
                header = read_header(data, at)
                if header.size_bytes > end - at:
                    raise CorruptBatch(
                        f"{segment.name()}: a batch of {header.size_bytes} bytes at {at} of {end}"
                    )
                if not is_below_the_start or header.next_offset > self._start:
                    is_below_the_start = False
                    self._note(header, data, at)
                    self.next_offset = header.next_offset
                at += header.size_bytes
            self._segment, self._position = segment, at

    def _note(self, header: BatchHeader, data: bytearray, at: int) -> None:
        base_offset, _, leader_epoch, _, crc, _, last_offset_delta, *_ = header
        self.batches.append(BatchView(base_offset, base_offset + last_offset_delta, leader_epoch, crc))


def _bytes_of(segment: Any) -> tuple[bytearray, int]:
    """What stands in its log file, and where that ends."""
    file = segment._file
    if file is not None:
        return file._inode.data, file.size_bytes
    directory = segment.directory
    data = directory.disk._node(directory._parts).entries[segment.name()].data
    return data, len(data)


class KeyReader(LogReader):
    """The last record of each key of a compacted log. What compaction has put in place is read from the start."""

    __slots__ = ("keys",)

    def __init__(self, log: Any) -> None:
        super().__init__(log)
        self.keys = Keys()

    def _note(self, header: BatchHeader, data: bytearray, at: int) -> None:
        keys = self.keys
        keys.note(header.base_offset, header.next_offset)
        batch = bytes(data[at : at + header.size_bytes])
        if header.is_control:
            is_commit = _is_commit(batch)
            if is_commit is not None:
                keys.decide(header.producer_id, header.base_offset, is_commit=is_commit)
            return
        records = _records_with_keys(batch)
        if header.is_transactional:
            for key, offset, value in records:
                keys.put_undecided(header.producer_id, key, offset, value)
        else:
            for key, offset, value in records:
                keys.put(key, offset, value)


@lru_cache(maxsize=4096)
def _is_commit(batch: bytes) -> bool | None:
    """What a control batch says; None: it ends no transaction."""
    marker = end_marker_of(read_header(batch), memoryview(batch)[BATCH_OVERHEAD:])
    return None if marker is None else marker.is_commit


@lru_cache(maxsize=4096)
def _records_with_keys(batch: bytes) -> list[tuple[Value, int, Value | None]]:
    """(key, offset, value) of each. All replicas hold the same batches, byte for byte, until one compacts them."""
    return [
        (record.key, record.offset, record.value) for record in decode_batch(batch) if record.key is not None
    ]


class BrokerLogs:
    """What has been read of the logs of one broker's disk."""

    def __init__(self, broker: ViewedBroker) -> None:
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
            reader.read()
        return reader

    def _forget(self, partition: TopicPartition) -> None:
        reader = self._readers.pop(partition, None)
        if reader is not None:
            reader.is_over = True

    def forget_what_was_cut(self) -> None:
        """Before anything is read for a look."""
        for disk in self._broker.disks:
            trace, seen = disk.trace, self._seen_steps.get(disk.path, 0)
            if len(trace) > seen:
                for step in trace[seen:]:
                    # Nearly all are appends and syncs.
                    if step[0] in "trc" and ".log" in step:
                        operation, _, path = step.partition(" ")
                        if operation in CHANGES_A_LOG:
                            self._forget(_partition_of(path))
                self._seen_steps[disk.path] = len(trace)


def _partition_of(path: str) -> TopicPartition:
    directory = path.split(" ")[0].split("/")[-2]
    topic, _, number = directory.rpartition("-")
    return TopicPartition(topic, int(number) if number.isdigit() else -1)


@lru_cache(maxsize=4096)
def _about(path: str) -> tuple[Callable[[str, Node], Any] | None, str, TopicPartition | None]:
    """What makes something of this node, and which topic and partition it is about. Asked of every node after every write."""
    parts = path.split("/")
    decode = _DECODED.get((parts[1], len(parts)))
    if decode is None or (decode is state_of and parts[6] != "state"):
        return None, "", None
    return decode, parts[3], TopicPartition(parts[3], int(parts[5])) if decode is state_of else None


class Shown:
    """A replica as it was shown last, and by what it is known that it would be shown so again."""

    __slots__ = ("_facts", "_reader", "is_compacted", "made_of", "shows", "view")

    def __init__(self, made_of: tuple[Any, ...], shows: BatchList | Keys | None, view: ReplicaView) -> None:
        self.made_of = made_of
        self.shows = shows
        self.view = view

    def found_again(self, replica: Any, reader: LogReader | None, *, is_compacted: bool) -> None:
        """`made_of` was made of these."""
        self._facts, self._reader = _facts_of(replica), reader
        self.is_compacted = is_compacted

    def is_as_it_was(self, replica: Any) -> bool:
        """Asked of every replica at every look."""
        if _facts_of(replica) != self._facts:
            return False
        reader, view = self._reader, self.view
        return (reader is None or (not reader.is_over and reader.next_offset >= view.log_end_offset)) and (
            not view.is_leader or _stable_offset(replica) == view.last_stable_offset
        )


# Equal where the replica shows the same, but for what its log says behind its back, and its last stable offset.
_facts_of = attrgetter(
    "log", "log.failure", "log.log_start_offset", "log.log_end_offset", "high_watermark", "state", "is_leader",
    "leader_epoch", "topic_id",
)  # fmt: skip


class Seen:
    """What was shown last, by those who ask for the same."""

    def __init__(self) -> None:
        # None but those that are shown.
        self.replicas: dict[BrokerId, dict[TopicPartition, Shown]] = defaultdict(dict)
        self._changed: dict[TopicPartition, None] = {}  # since `partitions` was asked
        self.rests: Mapping[TopicPartition, tuple[Any, ...]] = {}  # at that time
        self._partitions: dict[TopicPartition, PartitionView] = {}

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
            self._changed[partition] = None
        known.found_again(replica, reader, is_compacted=is_compacted)
        return known.view

    def hide(self, broker: BrokerId, partition: TopicPartition) -> None:
        if self.replicas[broker].pop(partition, None) is not None:
            self._changed[partition] = None

    def hide_all(self, broker: BrokerId) -> None:
        self._changed.update(dict.fromkeys(self.replicas[broker]))
        self.replicas[broker].clear()

    def partitions(
        self, rests: Mapping[TopicPartition, tuple[Any, ...]], brokers: Iterable[BrokerId]
    ) -> Mapping[TopicPartition, PartitionView]:
        """The same mapping as before when nothing has changed. `rests`: the other fields of `PartitionView`, in their order;
        `brokers`: whose replicas come first."""
        if rests is not self.rests:
            before, self.rests = self.rests, rests
            self._partitions = {
                partition: self._partitions[partition]
                if before.get(partition) == rest and partition not in self._changed
                else self.partition(partition, rest, brokers)
                for partition, rest in rests.items()
            }
        elif self._changed:
            changed = {
                partition: self.partition(partition, rests[partition], brokers)
                for partition in self._changed
                if partition in rests
            }
            self._partitions = {**self._partitions, **changed}
        self._changed.clear()
        return self._partitions

    def partition(
        self, partition: TopicPartition, rest: tuple[Any, ...], brokers: Iterable[BrokerId]
    ) -> PartitionView:
        """As `partitions` will show it."""
        known = self._partitions.get(partition)
        replicas = [
            shown.view for broker in brokers if (shown := self.replicas[broker].get(partition)) is not None
        ]
        if (
            known is not None
            and len(known.replicas) == len(replicas)
            and all(map(is_, known.replicas, replicas))  # to compare them would be to compare their batches
            and _rest_of(known) == rest
        ):
            return known
        return PartitionView(tuple(replicas), *rest)


_rest_of = attrgetter(
    "stored", "cached", "assignment", "incarnation", "unclean_elections", "is_moving", "has_moved", "min_insync_replicas"
)  # fmt: skip


class Views:
    def __init__(self, world: ViewedWorld) -> None:
        self._world = world
        self._seen: dict[tuple[bool, bool], Seen] = defaultdict(Seen)
        self._last: tuple[tuple[int, int, bool], ClusterView] | None = None
        # path -> the transaction that wrote it, and what it says
        self._decoded: dict[str, tuple[int, Any]] = {}
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

    def partition(self, partition: TopicPartition) -> PartitionView | None:
        """As `view(with_knowledge=False)` shows it. No other log is read for it."""
        world = self._world
        if world.topics.has_unclean_elections:
            return self.view(with_knowledge=False).partitions.get(partition)
        self._read_store()
        self._exempt_given_up()
        self._drop_exemptions(self._stored)
        rest = self._rests_of_the_store().get(partition)
        if rest is None:
            return None
        seen, is_compacted = self._seen[True, False], partition.topic in self._compacted
        for broker_id, broker in world.brokers.items():
            runtime = broker.runtime
            replica = None
            if broker.is_running and runtime is not None and runtime.parts is not None:
                replica = runtime.broker.replicas.partitions.get(partition)
            if replica is None or not self._is_shown(broker_id, partition, replica):
                seen.hide(broker_id, partition)
                continue
            logs = self._logs[broker_id]
            logs.forget_what_was_cut()
            before = seen.replicas[broker_id].get(partition)
            if before is None or before.is_compacted is not is_compacted or not before.is_as_it_was(replica):
                seen.replica(broker_id, replica, partition, logs, is_compacted=is_compacted)
        return seen.partition(partition, rest, world.brokers)

    def _is_shown(self, broker_id: BrokerId, partition: TopicPartition, replica: Any) -> bool:
        world = self._world
        return (
            partition in self._assignments
            # else its directory is offline, and the broker will see in a moment
            and replica.log.failure is None
            and replica.topic_id == self._topic_ids[partition.topic]
            and (not world.exempt or (broker_id, partition) not in world.exempt)
            and (
                not world.topics.has_unclean_elections
                or world.topics.is_told(partition, broker_id, self._stored.get(partition))
            )
        )

    def _view(self, with_batches: bool, with_knowledge: bool) -> ClusterView:
        world = self._world
        self._read_store()
        self._exempt_given_up()
        self._drop_exemptions(self._stored)
        seen, compacted = self._seen[with_batches, with_knowledge], self._compacted
        metadata: dict[tuple[BrokerId, TopicPartition], tuple[int, int]] = {}
        controllers: list[tuple[BrokerId, int]] = []
        cached: dict[TopicPartition, LeaderAndIsr] = {}
        cached_epoch = -1
        strays: list[tuple[BrokerId, TopicPartition]] = []
        live: list[BrokerId] = []
        rests = self._rests_of_the_store()
        # Of what was shown at the last look: only what a replica says itself can have changed.
        are_the_same_shown = (
            rests is seen.rests and not world.exempt and not world.topics.has_unclean_elections
        )
        for broker_id, broker in world.brokers.items():
            is_running, runtime = broker.is_running, broker.runtime
            shown = seen.replicas[broker_id]
            if is_running:
                live.append(broker_id)
            if not is_running or runtime is None or runtime.parts is None:
                if shown:
                    seen.hide_all(broker_id)
                continue
            logs = self._logs[broker_id] if with_batches else None
            if logs is not None:
                logs.forget_what_was_cut()
            core = runtime.parts.broker
            held, count = core.replicas.partitions, 0
            for partition, replica in held.items():
                before = shown.get(partition)
                if before is not None and not before.is_as_it_was(replica):
                    before = None
                if before is not None and are_the_same_shown:
                    count += 1
                elif self._is_shown(broker_id, partition, replica):
                    count += 1
                    is_compacted = partition.topic in compacted
                    if before is None or before.is_compacted is not is_compacted:
                        seen.replica(broker_id, replica, partition, logs, is_compacted=is_compacted)
            if count < len(shown):
                for partition in list(shown):
                    if partition not in held or not self._is_shown(broker_id, partition, held[partition]):
                        seen.hide(broker_id, partition)
            term = runtime.parts.controller.term
            if term is not None:
                controllers.append((broker_id, term.epoch))
            if not with_knowledge:
                continue
            for partition in core.replicas.logs.logs:
                if broker_id not in self._assignments.get(partition, ()):
                    strays.append((broker_id, partition))
            known_by = core.metadata
            for partition in self._assignments:
                known = known_by.partition(partition.topic, partition.partition)
                if known is not None:
                    metadata[(broker_id, partition)] = (known.leader, known.leader_epoch)
            if term is not None:
                # None as well once it has resigned, in the very step we look after
                context = term.core.context
                if term.is_loaded and context is not None and term.epoch > cached_epoch:
                    cached_epoch = term.epoch
                    cached = {p: s.leader_and_isr for p, s in context.leaderships.items()}
        if cached or world.topics.has_unclean_elections:
            rests = {
                partition: (
                    rest[0], cached.get(partition), rest[2], rest[3], world.topics.unclean_elections_of(partition),
                    *rest[5:],
                )
                for partition, rest in rests.items()
            }  # fmt: skip
        return ClusterView(
            partitions=seen.partitions(rests, world.brokers),
            controllers=tuple(controllers),
            live_brokers=tuple(live),
            metadata=metadata,
            has_controller=cached_epoch >= 0,
            strays=tuple(sorted(strays)),
            topics_to_delete=self._to_delete,
        )

    def _rests_of_the_store(self) -> dict[TopicPartition, tuple[Any, ...]]:
        """The same as before until the store changes."""
        if not self._rests:
            self._rests = dict(self._made_of_the_store())
        return self._rests

    def _made_of_the_store(self) -> Iterator[tuple[TopicPartition, tuple[Any, ...]]]:
        """Of each partition the fields of its `PartitionView` behind the replicas, as far as the store tells them: what the
        controller knows and unclean elections are put in at each look."""
        topics = self._world.topics
        default_min_isr = int(self._world.settings.get(MIN_ISR, DEFAULT_MIN_ISR))
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
                        min(self._min_isr.get(partition.topic, default_min_isr), max(len(assignment), 1)),
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
        for path, zxid in written:
            decode, topic, partition = _about(path)
            if decode is None:
                continue
            value = self._value(decode, path, zxid)
            if value is None:
                continue
            if decode is config_of:
                if MIN_ISR in value:
                    self._min_isr[topic] = int(value[MIN_ISR])
                if COMPACT in value.get(POLICY, ""):
                    self._compacted.add(topic)
            elif partition is not None:
                stored[partition] = value.leader_and_isr
                epochs = value.isr_broker_epochs or (-1,) * len(value.leader_and_isr.isr)
                self._lives[partition] = dict(zip(value.leader_and_isr.isr, epochs, strict=True))
            else:
                self._topic_ids[topic] = value.topic_id
                for number, assignment in value.partitions.items():
                    partition = TopicPartition(topic, number)
                    assignments[partition] = assignment.replicas
                    if assignment.adding_replicas or assignment.removing_replicas:
                        self._moving[partition] = self._moved[partition] = None
        self._stored = stored
        self._assignments = dict(sorted(assignments.items()))

    def _value(self, decode: Callable[[str, Node], Any], path: str, zxid: int) -> Any:
        """Of a node that was written last in that transaction; None: nobody can read it."""
        known = self._decoded.get(path)
        if known is None or known[0] != zxid:
            _, node = next(self._world.store.ensemble.tree.walk(path))
            try:
                known = zxid, decode(path, node)
            except Unreadable:
                if decode is config_of:
                    raise
                known = zxid, None
            self._decoded[path] = known
        return known[1]

    def _exempt_given_up(self) -> None:
        """A broker that gave a log up has said so by registering anew; what it begins in its place is judged once nobody counts
        on what it had. Its leader may not have heard yet: then it counts on where the old log was, and on no fetch of the new
        one, which comes in a later leader epoch. The stored ISR may be without it by then: who is out of it counts for nobody
        but that leader.
        """
        exempt = self._world.exempt
        for broker in self._world.brokers.values():
            parts = None if broker.runtime is None else broker.runtime.parts
            if parts is not None and parts.broker.replicas.logs.refused and broker.is_running:
                own = parts.broker.broker_epoch  # None: not registered yet
                for partition in parts.broker.replicas.logs.refused:
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
        if not exempt:
            return
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
    if not producers._ended:  # as of nearly all: there is nothing to be forgotten
        return int(replica.last_stable_offset)
    ended, producers._ended = producers._ended, producers._ended.copy()
    try:
        return int(replica.last_stable_offset)
    finally:
        producers._ended = ended
