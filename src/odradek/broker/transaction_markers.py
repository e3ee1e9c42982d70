"""Markers on their way to the leaders of their partitions, as long as it takes.

What waits for one leader goes in one request, and the next when that is answered. What a leader has not written is sent
again to whoever leads then. A partition that this broker has not heard of for long is deleted, and needs no marker; for a
moment it may be one that this broker has not been told of yet.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from odradek.broker.effects import Effect, LogLine
from odradek.broker.metadata_cache import MetadataCache
from odradek.broker.organs import Organ
from odradek.broker.peers import Peers
from odradek.coordinator.transaction_effects import Markers, MarkersWritten
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerId, TopicPartition, in_order
from odradek.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

VERSION = 1
AGAIN_MS = 50
# So many more as wait at that moment make the pause a millisecond longer: to look for a leader takes a microsecond.
TRIED_IN_A_MS = 20
# Of those whose time has come: so many in one turn.
MOST_TRIED = 10_000
# A leader that refuses for good, because its log knows a later epoch, is asked seldom: only a person can end that.
REFUSED_AGAIN_MS = 10_000
UNKNOWN_FOR_MS = 10_000
# Partitions in one request: some milliseconds of the leader.
MOST_PARTITIONS = 1_000
_REFUSED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)

Written = Callable[[int, MarkersWritten, int], None]
WriteHere = Callable[[WriteTxnMarkersRequest, Callable[[Any, int], None], int], None]


class Task(NamedTuple):
    """One marker for one partition."""

    shard: int  # partition of the coordinator
    coordinator_epoch: int
    marker: Markers
    partition: TopicPartition


class TransactionMarkers(Organ):
    def __init__(
        self, broker: BrokerId, metadata: MetadataCache, peers: Peers, effects: list[Effect]
    ) -> None:
        self.on_written: Written = lambda index, written, now_ms: None
        self.write_here: WriteHere | None = None  # of this broker, as `marker_writes` does it
        self._broker = broker
        self._metadata = metadata
        self._peers = peers
        self._effects = effects
        # (coordinator's partition, transactional id) -> what is still to be written of it
        self._open: dict[tuple[int, str], dict[TopicPartition, Task]] = {}
        self._waiting: dict[BrokerId, dict[Task, None]] = {}
        self._is_asked: set[BrokerId] = set()
        self._later: dict[Task, int] = {}  # when it is tried again
        self._unknown_since: dict[Task, int] = {}

    # ------------------------------------------------------------------------------------ for the coordinators

    def send(self, index: int, coordinator_epoch: int, marker: Markers, now_ms: int) -> None:
        tasks = {one: Task(index, coordinator_epoch, marker, one) for one in marker.partitions}
        self._drop(index, marker.transactional_id)
        self._open[index, marker.transactional_id] = tasks
        self._try([tasks[partition] for partition in in_order(marker.partitions)], now_ms)

    def forget(self, index: int) -> None:
        """Another broker coordinates these, and sends their markers."""
        for key in [key for key in self._open if key[0] == index]:
            self._drop(*key)
        self._arm()

    def _drop(self, index: int, transactional_id: str) -> None:
        for task in self._open.pop((index, transactional_id), {}).values():
            self._later.pop(task, None)
            self._unknown_since.pop(task, None)
            for waiting in self._waiting.values():
                waiting.pop(task, None)

    # ------------------------------------------------------------------------------------------------- sending

    def tick(self, now_ms: int) -> None:
        if self.due_ms is None or self.due_ms > now_ms:
            return
        due = list(islice((task for task, due_ms in self._later.items() if due_ms <= now_ms), MOST_TRIED))
        for task in due:
            del self._later[task]
        self._try(due, now_ms)
        self._arm()

    def _try(self, tasks: list[Task], now_ms: int) -> None:
        """What goes to one leader goes together."""
        leaders: dict[BrokerId, None] = {}
        gone = []
        again_ms = now_ms + self._pause_ms(len(tasks))
        for task in tasks:
            known = self._metadata.partition(*task.partition)
            if known is None:
                since_ms = self._unknown_since.setdefault(task, now_ms)
                if now_ms - since_ms < UNKNOWN_FOR_MS:
                    self._put_off(task, again_ms)
                else:
                    gone.append(task)
                continue
            self._unknown_since.pop(task, None)
            if known.leader < 0:
                self._put_off(task, again_ms)
                continue
            self._waiting.setdefault(known.leader, {})[task] = None
            leaders[known.leader] = None
        self._done(gone, now_ms)
        for leader in leaders:
            self._pump(leader, now_ms)

    def _pause_ms(self, more: int) -> int:
        """Where so many `more` may have to wait."""
        return max(AGAIN_MS, (len(self._later) + more) // TRIED_IN_A_MS)

    def _put_off(self, task: Task, due_ms: int) -> None:
        self._later[task] = due_ms
        if self.due_ms is None or due_ms < self.due_ms:
            self.due_ms = due_ms

    def _arm(self) -> None:
        self.due_ms = min(self._later.values(), default=None)

    def _pump(self, leader: BrokerId, now_ms: int) -> None:
        waiting = self._waiting.get(leader)
        if not waiting or leader in self._is_asked:
            return
        tasks = [task for task, _ in zip(waiting, range(MOST_PARTITIONS), strict=False)]
        for task in tasks:
            del waiting[task]
        if not waiting:
            del self._waiting[leader]

        def answered(response: WriteTxnMarkersResponse | None, later_ms: int) -> None:
            self._is_asked.discard(leader)
            self._answered(tasks, response, later_ms)
            self._pump(leader, later_ms)

        self._is_asked.add(leader)
        request = _request(tasks)
        if leader == self._broker:
            assert self.write_here is not None, "the hub says who writes here"
            self.write_here(request, answered, now_ms)
        elif not self._peers.ask(leader, request, VERSION, answered):
            self._is_asked.discard(leader)
            # Nobody asks it again for those behind them, and others may lead by then.
            left = (*tasks, *self._waiting.pop(leader, ()))
            again_ms = now_ms + self._pause_ms(len(left))
            for task in left:
                self._put_off(task, again_ms)

    # ----------------------------------------------------------------------------------------------- answered

    def _answered(self, tasks: list[Task], response: WriteTxnMarkersResponse | None, now_ms: int) -> None:
        errors = {} if response is None else _errors(response)
        done = []
        again_ms = now_ms + self._pause_ms(len(tasks))
        for task in tasks:
            if self._open.get((task.shard, task.marker.transactional_id), {}).get(task.partition) != task:
                continue  # given up meanwhile
            key = task.marker.producer_id, *task.partition
            error = errors.get(key, ErrorCode.NETWORK_EXCEPTION)
            if not error:
                done.append(task)
            elif error in _REFUSED:
                self._complain(task, error)
                self._put_off(task, now_ms + REFUSED_AGAIN_MS)
            else:
                self._put_off(task, again_ms)
        self._done(done, now_ms)

    def _complain(self, task: Task, error: ErrorCode) -> None:
        self._effects.append(
            LogLine(
                "warning",
                f"{task.partition} refuses the marker of {task.marker.transactional_id!r} (producer "
                f"{task.marker.producer_id}, epoch {task.marker.producer_epoch}): {error.name}; tried again",
                key=f"marker refused {task.partition}",
            )
        )

    def _done(self, tasks: list[Task], now_ms: int) -> None:
        found: dict[tuple[int, str], list[Task]] = {}
        for task in tasks:
            self._unknown_since.pop(task, None)
            found.setdefault((task.shard, task.marker.transactional_id), []).append(task)
        for key, written in found.items():
            open_tasks = self._open.get(key)
            if open_tasks is None:
                continue  # given up by what was told of the one before
            for task in written:
                del open_tasks[task.partition]
            if not open_tasks:
                del self._open[key]
            marker = written[0].marker
            partitions = frozenset(task.partition for task in written)
            told = MarkersWritten(
                marker.transactional_id, marker.producer_id, marker.producer_epoch, partitions
            )
            self.on_written(key[0], told, now_ms)


def _request(tasks: list[Task]) -> WriteTxnMarkersRequest:
    rows: dict[tuple[int, str], WritableTxnMarker] = {}
    topics: dict[tuple[int, str], dict[str, WritableTxnMarkerTopic]] = {}
    for task in tasks:
        key = task.shard, task.marker.transactional_id
        if key not in rows:
            rows[key] = WritableTxnMarker(
                producer_id=task.marker.producer_id,
                producer_epoch=task.marker.producer_epoch,
                transaction_result=task.marker.is_commit,
                coordinator_epoch=task.coordinator_epoch,
                topics=[],
            )
            topics[key] = {}
        topic = topics[key].get(task.partition.topic)
        if topic is None:
            topic = topics[key][task.partition.topic] = WritableTxnMarkerTopic(
                name=task.partition.topic, partition_indexes=[]
            )
            rows[key].topics.append(topic)
        topic.partition_indexes.append(task.partition.partition)
    return WriteTxnMarkersRequest(markers=list(rows.values()))


def _errors(response: WriteTxnMarkersResponse) -> Mapping[tuple[int, str, int], ErrorCode]:
    """By producer id and partition. A code that is not known here is an error like any other."""
    return {
        (row.producer_id, topic.name, one.partition_index): _code(one.error_code)
        for row in response.markers
        for topic in row.topics
        for one in topic.partitions
    }


def _code(number: int) -> ErrorCode:
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
