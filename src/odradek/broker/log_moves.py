"""Replicas on their way into another log directory of this broker (AlterReplicaLogDirs, KIP-113).

The log in use is the leader of the future one (`log.future_logs`), and it is copied from as a follower fetches: whole
batches, read in a thread, checked and appended as they are, at most `replica.fetch.max.bytes` at a time, and no faster
than `replica.alter.log.dirs.io.max.bytes.per.second`. So many replicas are copied at once as
`num.replica.alter.log.dirs.threads` says, in the order in which they were asked for; the others wait.

Where the log in use was cut since (its `generation` tells), or when the copy is taken up again after a start, the future
log is cut first, to where both have the same epochs (KIP-101, KIP-279): the rule of any follower, with an answer that
takes no request.

With the same end it is flushed once, in a thread, and what was appended meanwhile is copied within one turn; then they are
swapped. Nothing of a client comes in between, so nobody notices but for the directory. Where more of the log in use was flushed
meanwhile, the thread flushes once more, and further flushes of that log, and who waits for them, wait for this one: the swap
comes behind it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from odradek.broker.effects import (
    CheckpointHighWatermarks,
    Effect,
    Flushed,
    FlushLog,
    LogLine,
    ReadSlices,
    RunAside,
)
from odradek.broker.organs import Organ
from odradek.broker.pending_calls import PendingCalls
from odradek.log.errors import CorruptLog, MissingFile, StorageError
from odradek.log.future_logs import is_too_long
from odradek.log.reading import MOST_SEGMENTS_READ
from odradek.log.steps import Steps, Work
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import TopicPartition
from odradek.model.settings import BrokerSettings
from odradek.records.batch import first_batches
from odradek.replication.follower import MOST_BATCHES
from odradek.replication.partition import Partition
from odradek.replication.throttle import ReplicationThrottle
from odradek.replication.truncation import plan_truncation

if TYPE_CHECKING:
    from odradek.log.files import FileSlice
    from odradek.log.future_logs import FutureLog
    from odradek.log.log_manager import LogManager
    from odradek.log.partition_log import PartitionLog
    from odradek.log.reading import LogRead

# What is copied or synced within one turn, before the swap.
LAST_BYTES = 1 << 18
LAST_UNFLUSHED_BYTES = 1 << 22
RETRY_MS = 1000
# Space that is left on the directory a replica goes to: a full disk would take all that is on it offline.
SPARE_BYTES = 1 << 24
MOST_PREFERRED = 100_000


class Move:
    """One replica that is copied. Made anew whenever its partition is hosted anew."""

    __slots__ = (
        "at_ms",
        "awaits",
        "current",
        "doing",
        "generation",
        "holds_flushes",
        "is_flushed",
        "is_near",
        "partition",
        "told",
        "unflushed_bytes",
    )

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.current: PartitionLog | None = None  # what was aligned with, and in which generation of it
        self.generation = -1
        # What is done to the future log, what is left of that, and what came of the work that it asked for.
        self.doing: tuple[object, Steps[None], Any] | None = None
        self.awaits: ReadSlices | FlushLog | RunAside | None = None  # what a thread does for it
        self.holds_flushes = False  # those of the log in use, while the last one of the copy runs
        self.is_near = False  # what was left when it was read last was little
        self.is_flushed = False  # once; from then on only `unflushed_bytes` is not
        self.unflushed_bytes = 0
        self.at_ms = 0  # not before
        self.told = ""  # why it waits, as said last


class LogMoves(Organ):
    def __init__(
        self,
        logs: "LogManager",
        partitions: Mapping[TopicPartition, Partition],
        settings: BrokerSettings,
        effects: list[Effect],
        calls: PendingCalls,
        on_moved: Callable[[Partition], None],
    ) -> None:
        self._logs = logs
        self._futures = logs.futures
        self._partitions = partitions
        self._effects = effects
        self._calls = calls
        self._on_moved = on_moved
        self._moves: dict[TopicPartition, Move] = {}  # the oldest first
        self.throttle = ReplicationThrottle(
            window_count=settings.alter_log_dirs_replication_quota_window_num,
            window_ms=settings.alter_log_dirs_replication_quota_window_size_seconds * 1000,
        )
        self.due_ms = None
        self._take_settings(settings)

    def set_settings(self, settings: BrokerSettings, now_ms: int) -> None:
        self._take_settings(settings)
        for move in self._moves.values():
            move.at_ms = 0  # it may have waited for a rate that is another one now
        self.go_on(now_ms)

    def _take_settings(self, settings: BrokerSettings) -> None:
        self.throttle.rate = settings.replica_alter_log_dirs_io_max_bytes_per_second
        self._at_once = settings.num_replica_alter_log_dirs_threads or max(len(self._logs.directories), 1)
        self._chunk_bytes: int = settings.replica_fetch_max_bytes

    # ------------------------------------------------------------------------------------------------- asked

    def ask(self, topic_partition: TopicPartition, path: str, now_ms: int) -> bool:
        """ProtocolError says why not, as Apache's broker does. False: the replica is not here; should it come, it is made
        there."""
        if is_too_long(topic_partition):
            raise ProtocolError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic_partition}: the name is too long to move it"
            )
        directory = self._logs.directory_at(path)
        if directory is None and path not in self._logs.left_out:
            raise ProtocolError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is no directory of log.dirs")
        if directory is None or not directory.is_online:
            raise StorageError(f"log directory {path} is offline")
        partition = self._partitions.get(topic_partition)
        if partition is None:
            self._prefer(topic_partition, path)
            return False
        log = partition.log
        log.check()
        future = self._futures.get(topic_partition)
        if future is not None and future.directory is directory:
            return True
        is_home = self._logs.home_of(log) is directory
        if not is_home and self._logs.offline_directories:
            # It may lie half done on one of them, and there must not be two.
            raise StorageError(f"{topic_partition} is not moved while a log directory is offline")
        if future is not None:
            self._drop(topic_partition, now_ms)
        if is_home:
            return True
        self._futures.create(topic_partition, directory, now_ms)
        self._effects.append(LogLine("info", f"{topic_partition} is copied to {path}"))
        self._moves[topic_partition] = Move(partition)
        if len(self._moves) <= self._at_once:
            self.go_on(now_ms)
        else:  # of a thousand that are asked for together, each would look at all before it
            self.due_ms = now_ms
        return True

    def _prefer(self, topic_partition: TopicPartition, path: str) -> None:
        preferred = self._futures.preferred
        preferred.pop(topic_partition, None)
        if len(preferred) >= MOST_PREFERRED:
            del preferred[next(iter(preferred))]
        preferred[topic_partition] = path

    def _drop(self, topic_partition: TopicPartition, now_ms: int) -> None:
        self.forget(topic_partition)
        line = self._futures.drop(topic_partition, now_ms)
        self._effects.append(LogLine("info", f"{line}: the move is cancelled"))

    # ------------------------------------------------------------------------------------------------ told

    def hosted(self, partition: Partition, now_ms: int) -> None:
        """A replica that was on its way when the broker stopped, or when its directory failed, goes on."""
        topic_partition = partition.topic_partition
        if self._futures.get(topic_partition) is not None:
            self._moves[topic_partition] = Move(partition)
            self.go_on(now_ms)

    def forget(self, topic_partition: TopicPartition) -> None:
        """Not hosted any more. A future log stays, unless the log is deleted."""
        if self._moves.pop(topic_partition, None) is not None and self._moves:
            self.due_ms = 0  # another one may have its place

    def directory_failed(self, path: str) -> None:
        for topic_partition, future in list(self._futures.logs.items()):
            if future.directory.path == path:
                self._lose(topic_partition, future)

    def _lose(self, topic_partition: TopicPartition, future: "FutureLog") -> None:
        self.forget(topic_partition)
        self._futures.lose(topic_partition)
        self._effects.append(
            LogLine("warning", f"{topic_partition} stays where it is: {future.directory.path} is offline")
        )

    def tick(self, now_ms: int) -> None:
        if self.due_ms is not None and now_ms >= self.due_ms:
            self.go_on(now_ms)

    def _slices_read(self, move: Move, read: ReadSlices, data: bytes | None, now_ms: int) -> None:
        """`data` None: could not be read, or was cut meanwhile."""
        if move.awaits is not read or self._moves.get(read.topic_partition) is not move:
            return  # cancelled, and perhaps asked for again
        move.awaits = None
        if data is None:
            move.at_ms = now_ms + RETRY_MS
        elif self._is_aligned(move) and self._of(move).log_end_offset == read.offset:
            self._try(move, now_ms, partial(self._append, move, data, now_ms))
        self.go_on(now_ms)

    def _flushed(self, move: Move, flush: FlushLog, done: Flushed, now_ms: int) -> None:
        if move.awaits is not flush or self._moves.get(flush.topic_partition) is not move:
            return
        move.awaits = None
        move.holds_flushes = False

        def take() -> None:
            if done.error is not None:
                raise flush.log.fail(StorageError(done.error))
            flush.log.commit_flush(done.plan, now_ms)
            move.is_flushed = not done.plan.is_partial

        self._try(move, now_ms, take)
        self.go_on(now_ms)

    def _was_done(self, move: Move, asked: RunAside, came: Any, now_ms: int) -> None:
        """What a step asked a thread for; None: it failed as nobody foresaw, and is begun anew."""
        if move.awaits is not asked or self._moves.get(move.partition.topic_partition) is not move:
            return
        move.awaits = None
        if came is None or move.doing is None:
            move.doing = None
            move.at_ms = now_ms + RETRY_MS
        else:
            move.doing = (*move.doing[:2], came)
        self.go_on(now_ms)

    def holds_flushes_of(self, topic_partition: TopicPartition) -> bool:
        """They are asked for again once the copy has taken the place of the log, or has not."""
        move = self._moves.get(topic_partition)
        return move is not None and move.holds_flushes

    # ------------------------------------------------------------------------------------------------ copying

    def go_on(self, now_ms: int) -> None:
        """Everything that may be done now. What waits for time is looked at again at `due_ms`."""
        busy = sum(move.awaits is not None for move in self._moves.values())
        self.due_ms = None
        for topic_partition, move in list(self._moves.items()):
            if busy >= self._at_once:
                return  # whoever is busy comes back here
            if move.awaits is not None:
                continue
            if move.at_ms <= now_ms:
                self._try(move, now_ms, partial(self._step, move, now_ms))
                if move.awaits is not None:
                    busy += 1
            left = self._moves.get(topic_partition)  # done, or begun again
            if left is not None and left.awaits is None:
                due_ms = max(left.at_ms, now_ms + 1)
                self.due_ms = due_ms if self.due_ms is None else min(self.due_ms, due_ms)

    def _try(self, move: Move, now_ms: int, step: Callable[[], None]) -> None:
        try:
            try:
                step()
            except ProtocolError as error:
                self._failed(move, error, now_ms)
        except Exception:  # no memory, say, perhaps to ask for what is awaited: the others go on with it
            move.awaits = move.doing = None
            move.at_ms = self.due_ms = now_ms + RETRY_MS
            raise

    def _failed(self, move: Move, error: ProtocolError, now_ms: int) -> None:
        topic_partition = move.partition.topic_partition
        future = self._futures.logs[topic_partition]
        if not future.directory.is_online:
            self._lose(topic_partition, future)
            return
        move.at_ms = now_ms + RETRY_MS
        self._say(move, "warning", f"{topic_partition}: its move to {future.directory.path} waits: {error}")
        if future.log.failure is None and not isinstance(error, CorruptLog | MissingFile):
            return
        # The copy is not what was written, or somebody took it away: it is begun again.
        self._futures.drop(topic_partition, now_ms)
        del self._moves[topic_partition]
        try:
            self._futures.create(topic_partition, future.directory, now_ms)
        except StorageError as another:
            if future.directory.is_online:  # else it has failed, and tells so itself
                text = (
                    f"{topic_partition}: its move to {future.directory.path} is given up: {another.message}"
                )
                self._effects.append(LogLine("warning", text))
            return
        again = self._moves[topic_partition] = Move(move.partition)
        again.at_ms, again.told = move.at_ms, move.told

    def _say(self, move: Move, level: str, text: str) -> None:
        if text != move.told:
            move.told = text
            self._effects.append(LogLine(level, text))

    def _of(self, move: Move) -> "PartitionLog":
        return self._futures.logs[move.partition.topic_partition].log

    def _is_aligned(self, move: Move) -> bool:
        current = move.partition.log
        return move.current is current and move.generation == current.flushed.generation

    def _step(self, move: Move, now_ms: int) -> None:
        """One thing: cut, read in a thread, flush in a thread, or the last batches and the swap."""
        current = move.partition.log
        if current.failure is not None:
            raise _of_the_source(current.failure)
        future = self._of(move)
        future.check()
        if not self._is_aligned(move):
            wanted = current, current.flushed.generation
            if not self._is_done(move, wanted, lambda: self._aligned(move, future, current, now_ms), now_ms):
                return
            move.current, move.generation = wanted
        start = current.log_start_offset
        if start > future.log_end_offset:
            move.is_flushed = False
            if not self._is_done(move, start, lambda: _restarting_at(future, start, now_ms), now_ms):
                return
        elif start > future.log_start_offset:
            future.delete_records_before(start)
        if future.log_end_offset < current.log_end_offset and not self._copy(move, future, current, now_ms):
            return
        self._arrive(move, future, current, now_ms)

    def _is_done(self, move: Move, what: object, begin: Callable[[], Steps[None]], now_ms: int) -> bool:
        """Takes the next step of what is done to the future log, or the first; whether it was the last one. What has failed is
        begun anew."""
        doing = move.doing if move.doing is not None and move.doing[0] == what else (what, begin(), None)
        move.doing = None
        _, steps, came = doing
        try:
            work = steps.send(came)
        except StopIteration:
            return True
        move.doing = what, steps, None
        if work is not None:
            self._do(move, work)
        return False

    def _do(self, move: Move, work: Work) -> None:
        request_id = self._calls.expect(lambda came, now_ms: self._was_done(move, asked, came, now_ms))
        asked = move.awaits = RunAside(request_id, work)
        self._effects.append(asked)

    def _copy(self, move: Move, future: "PartitionLog", current: "PartitionLog", now_ms: int) -> bool:
        """True when the future log ends where the log in use does. What is left at last is copied within the turn: under
        steady writes there would be something left for ever."""
        if self._must_wait(move, now_ms):
            return False
        rest = _read(current, future.log_end_offset, LAST_BYTES)
        was_near, move.is_near = move.is_near, rest.size_bytes < LAST_BYTES and not rest.ends_early
        if was_near and move.is_near:
            if not move.is_flushed or move.unflushed_bytes >= LAST_UNFLUSHED_BYTES:
                self._flush(move, future)
                return False
            try:
                data = data_of(rest.slices)
            except StorageError as error:
                raise _of_the_source(error) from error
            self._append(move, data, now_ms)
            if future.log_end_offset == current.log_end_offset:
                return True
        read = _read(current, future.log_end_offset, self._chunk_bytes)
        request_id = self._calls.expect(lambda data, now_ms: self._slices_read(move, asked, data, now_ms))
        asked = move.awaits = ReadSlices(
            request_id, move.partition.topic_partition, current, future.log_end_offset, read.slices
        )
        self._effects.append(asked)
        return False

    def _must_wait(self, move: Move, now_ms: int) -> bool:
        topic_partition = move.partition.topic_partition
        if self.throttle.is_exceeded(now_ms):
            move.at_ms = self.throttle.free_at_ms(now_ms)
            return True
        directory = self._futures.logs[topic_partition].directory
        _, usable_bytes = directory.root.space()
        if usable_bytes < self._chunk_bytes + SPARE_BYTES:
            move.at_ms = now_ms + RETRY_MS
            text = (
                f"{topic_partition}: its move to {directory.path} waits: {usable_bytes} bytes are left there"
            )
            self._say(move, "warning", text)
            return True
        return False

    def _append(self, move: Move, data: bytes, now_ms: int) -> None:
        future = self._of(move)
        offset, place = future.log_end_offset, len(future.segments) - 1
        before = future.segments.active.file.size_bytes
        try:
            size, _ = first_batches(data, MOST_BATCHES)  # the rest is read again
            future.append_as_follower(memoryview(data)[:size], now_ms=now_ms)
        except StorageError:
            raise
        except ProtocolError:
            if future.log_end_offset == offset:
                try:
                    move.partition.log.check_batch(offset)  # is what we read what was written?
                except StorageError as error:
                    raise _of_the_source(error) from error
            raise
        finally:  # of a batch that was cut short nothing
            written = sum(segment.size_bytes for segment in future.segments[place:]) - before
            self.throttle.record(max(written, 0), now_ms)
            move.unflushed_bytes += max(written, 0)

    def _aligned(
        self, move: Move, future: "PartitionLog", current: "PartitionLog", now_ms: int
    ) -> Steps[None]:
        """Cuts the future log to where it agrees with the log in use, in steps of some milliseconds."""
        end = future.log_end_offset
        is_complete = future.latest_epoch < 0
        while not is_complete:
            # An epoch above its last one the log in use has lost by a cut, and what came in its place may be of an older one. A
            # leader would still know it; a follower names the last that it has.
            epoch = future.latest_epoch
            if 0 <= current.latest_epoch < epoch:
                epoch = current.latest_epoch
            leader_epoch, leader_end_offset = current.end_offset_for_epoch(epoch)
            truncation = plan_truncation(
                future,
                leader_epoch=leader_epoch,
                leader_end_offset=leader_end_offset,
                high_watermark=min(move.partition.high_watermark, current.log_end_offset),
            )
            yield from _cut(future, truncation.offset, now_ms)
            is_complete = truncation.is_complete or future.latest_epoch < 0
        if future.log_end_offset > current.log_end_offset:
            yield from _cut(future, current.log_end_offset, now_ms)
        if future.log_end_offset < end:
            self._effects.append(
                LogLine(
                    "info",
                    f"{move.partition.topic_partition}: the copy is cut from {end} to {future.log_end_offset}, as the log in "
                    "use was",
                )
            )

    # ------------------------------------------------------------------------------------------------ arriving

    def _arrive(self, move: Move, future: "PartitionLog", current: "PartitionLog", now_ms: int) -> None:
        topic_partition = move.partition.topic_partition
        is_flushed = move.is_flushed and future.flushed.is_in_place
        if not is_flushed or future.recovery_point < current.recovery_point:
            # What is flushed of the log in use from here on would have to be flushed of the copy too, without end.
            self._flush(move, future)
            move.holds_flushes = is_flushed
            return
        lines = self._futures.swap(topic_partition, move.partition.high_watermark, now_ms)
        del self._moves[topic_partition]
        move.partition.take_log(self._logs.logs[topic_partition])
        move.partition.flushed(now_ms)
        self._on_moved(move.partition)
        self._effects += [LogLine("info", line) for line in lines]

    def _flush(self, move: Move, future: "PartitionLog") -> None:
        topic_partition = move.partition.topic_partition
        self._futures.prepare(topic_partition)
        plan = future.plan_flush()
        move.unflushed_bytes = 0
        request_id = self._calls.expect(lambda done, now_ms: self._flushed(move, flush, done, now_ms))
        flush = move.awaits = FlushLog(request_id, topic_partition, future, plan)
        self._effects.append(flush)
        self._effects.append(CheckpointHighWatermarks(self._marks(), self._logs.cuts))

    def _marks(self) -> dict[TopicPartition, int]:
        return {tp: partition.high_watermark for tp, partition in sorted(self._partitions.items())}


def _cut(future: "PartitionLog", offset: int, now_ms: int) -> Steps[None]:
    if offset < future.log_end_offset:
        is_all = offset <= future.log_start_offset
        yield from future.preparing_cut(0 if is_all else offset, min(offset, future.log_start_offset))
    yield from future.truncating_to(offset, now_ms)


def _restarting_at(future: "PartitionLog", offset: int, now_ms: int) -> Steps[None]:
    yield from future.preparing_cut(0, min(offset, future.log_start_offset))
    yield from future.restarting_at(offset, now_ms)


def lag_of(future: "PartitionLog", hosted: Partition | None) -> int:
    """What DescribeLogDirs says of a copy: how much it lacks; -1 where nobody knows."""
    return -1 if hosted is None else hosted.log.log_end_offset - future.log_end_offset


def _read(log: "PartitionLog", offset: int, max_bytes: int) -> "LogRead":
    try:
        return log.read(
            offset,
            max_bytes=max_bytes,
            upper_bound_offset=log.log_end_offset,
            min_one_batch=True,
            most_segments=MOST_SEGMENTS_READ,
        )
    except StorageError as error:
        raise _of_the_source(error) from error


def _of_the_source(error: StorageError) -> ProtocolError:
    """No fault of the copy: what becomes of the replica others decide, and the copy waits for that."""
    return ProtocolError(error.code, error.message)


def data_of(slices: "Sequence[FileSlice]") -> bytes:
    """Blocks. StorageError where they were cut since, or the disk does not give them."""
    return b"".join(part.read() for part in slices)
