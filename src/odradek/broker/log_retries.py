"""Logs that could not be opened, made or used though their disk is well, for want of a descriptor, say: tried again.

To the controller these replicas are offline until their broker registers anew, so it does once there are descriptors: not
before, or it would do nothing else as long as the want lasts; and ever more rarely, for there may be enough to look and too
few to go on.

A log that was here at the start and could not be opened is opened by a thread, one after the other: it may have to be
recovered. Where that takes longer than a second, the controller hears of those that can be used before the last one can: again ever
more rarely.
"""

from functools import partial

from odradek.broker.effects import Effect, LogLine, RegisterAgain, RunAside
from odradek.broker.organs import Organ
from odradek.broker.pending_calls import PendingCalls
from odradek.log.checkpoints import PARTITION_METADATA
from odradek.log.errors import NoDescriptor, StorageError
from odradek.log.late_loading import LateLoad
from odradek.log.log_manager import LogManager
from odradek.log.partition_log import PartitionLog
from odradek.model.counted import first_of
from odradek.model.errors import ProtocolError
from odradek.model.ids import TopicId, TopicPartition

FIRST_MS = 1_000
MOST_MS = 60_000


class LogRetries(Organ):
    def __init__(
        self,
        logs: LogManager,
        offline: dict[TopicPartition, str],
        effects: list[Effect],
        calls: PendingCalls,
    ) -> None:
        """`offline`: why replicas are; those that can be used again are taken from it."""
        self._logs = logs
        self._offline = offline
        self._effects = effects
        self._calls = calls
        # Of which topic, as told, each replica is whose log is to be tried again.
        self.wanted: dict[TopicPartition, TopicId] = {}
        self._is_loading = False  # a thread
        self._usable: list[TopicPartition] = []  # of this round, and the controller has not heard yet
        self._wanted_at_ms = 0
        self._round_at_ms: int | None = None
        # Of what is usable by then, if others are still being loaded.
        self._tell_at_ms: int | None = None
        self._tell_wait_ms = FIRST_MS
        self.wait_ms = FIRST_MS  # before the next round
        self.due_ms = None

    def get_or_create(self, topic_partition: TopicPartition, topic_id: TopicId, now_ms: int) -> PartitionLog:
        """The log of a replica that is told to be hosted. StorageError: not now, and it may be tried again."""
        try:
            log = self._logs.get_or_create(topic_partition, topic_id, now_ms=now_ms)
        except ProtocolError as refusal:
            self.wanted.pop(topic_partition, None)
            if not isinstance(refusal, StorageError):
                raise
            # Of a want of descriptors whoever asks takes note: there may be none for what he does before and after, either.
            may_pass = not isinstance(refusal, NoDescriptor) and not self._logs.offline_directories
            if may_pass and not self._logs.is_damaged(topic_partition):
                self.later(topic_partition, topic_id, now_ms)
            raise
        self.wanted.pop(topic_partition, None)
        return log

    def later(self, topic_partition: TopicPartition, topic_id: TopicId, now_ms: int) -> None:
        """Nothing can be done about it now."""
        self.wanted[topic_partition] = topic_id
        if self._round_at_ms is not None or self._is_loading:
            return
        if now_ms - self._wanted_at_ms > 2 * MOST_MS:  # another want than the last one
            self.wait_ms = FIRST_MS
        self._wanted_at_ms = now_ms
        self._arm(now_ms + self.wait_ms, self._tell_at_ms)
        self.wait_ms = min(2 * self.wait_ms, MOST_MS)

    def _arm(self, round_at_ms: int | None, tell_at_ms: int | None) -> None:
        self._round_at_ms, self._tell_at_ms = round_at_ms, tell_at_ms
        due = [at_ms for at_ms in (round_at_ms, tell_at_ms) if at_ms is not None]
        self.due_ms = min(due, default=None)

    def forget(self, topic_partition: TopicPartition) -> None:
        """It is wanted here no more."""
        self.wanted.pop(topic_partition, None)

    def tick(self, now_ms: int) -> None:
        if self._tell_at_ms is not None and now_ms >= self._tell_at_ms:
            self._tell_wait_ms = min(2 * self._tell_wait_ms, MOST_MS)
            self._tell(now_ms)
        if self._round_at_ms is not None and now_ms >= self._round_at_ms:
            self._arm(None, self._tell_at_ms)
            if not self._is_loading:
                try:
                    self._try_again(now_ms)
                except Exception:  # no memory, say: those that are left are tried again
                    self._end_round(now_ms)
                    raise

    def _try_again(self, now_ms: int) -> None:
        for topic_partition, topic_id in list(self.wanted.items()):
            if self._logs.is_unopened(topic_partition):
                continue
            try:
                log = self.get_or_create(topic_partition, topic_id, now_ms)
                log.directory.read(PARTITION_METADATA)
            except NoDescriptor:
                self.later(topic_partition, topic_id, now_ms)
                continue
            except ProtocolError:
                continue
            self._offline.pop(topic_partition, None)
            self._usable.append(topic_partition)
        self._load_next(now_ms)

    def _load_next(self, now_ms: int) -> None:
        for topic_partition in self.wanted:
            if self._logs.is_unopened(topic_partition):
                load = self._logs.load_late(topic_partition, now_ms)
                self._effects.append(RunAside(self._calls.expect(partial(self._loaded, load)), load))
                self._is_loading = True
                if self._usable and self._tell_at_ms is None:
                    self._arm(self._round_at_ms, now_ms + self._tell_wait_ms)
                return
        self._end_round(now_ms)

    def _loaded(self, load: LateLoad, came: object, now_ms: int) -> None:
        """`came` None: the thread failed as nobody foresaw."""
        self._is_loading = False
        try:
            self._take_over(load, now_ms)
        except Exception:  # as in `tick`
            self._end_round(now_ms)
            raise

    def _take_over(self, load: LateLoad, now_ms: int) -> None:
        topic_partition = load.topic_partition
        notes, refusal = self._logs.loaded_late(load)
        self._effects += [LogLine("warning", f"{topic_partition}: {note}") for note in notes]
        if isinstance(refusal, NoDescriptor):
            # There is none for the others either; or it alone takes more than there is, and then it is not to stand before them.
            self.wanted[topic_partition] = self.wanted.pop(topic_partition)
            self._end_round(now_ms)
            return
        self.wanted.pop(topic_partition, None)
        if refusal is None:
            self._offline.pop(topic_partition, None)
            self._usable.append(topic_partition)
        else:
            self._offline[topic_partition] = refusal.message
            self._effects.append(LogLine("error", f"{topic_partition} is refused: {refusal.message}"))
            if self._logs.is_damaged(topic_partition) and load.directory.is_online:
                # Fetched anew, if the next incarnation is told that nobody counts on it: see `damaged_logs`.
                self._usable.append(topic_partition)
        self._load_next(now_ms)

    def _end_round(self, now_ms: int) -> None:
        for topic_partition, topic_id in list(self.wanted.items())[:1]:  # in time, with all others
            self.later(topic_partition, topic_id, now_ms)
        self._tell_wait_ms = FIRST_MS
        self._tell(now_ms)

    def _tell(self, now_ms: int) -> None:
        if self._usable:
            self._arm(self._round_at_ms, now_ms + FIRST_MS)  # should there be no memory to say it
            named = first_of(self._usable, 3)
            self._effects.append(RegisterAgain(f"{named} could not be used at first"))
            self._usable = []
        self._arm(self._round_at_ms, None)
