"""What a broker's log directories need from time to time, blocking work in a thread.

Flushes before an acknowledgement, checkpoints, retention, files whose time has come. The log decides what is
due (`log.log_manager`, `log.flushing`); here it is done and its outcome told.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from odradek.broker.effects import CheckpointHighWatermarks, FlushLog
from odradek.log.errors import StorageError
from odradek.log.log_manager import LogManager
from odradek.log.partition_log import PartitionLog
from odradek.model.settings import BrokerSettings
from odradek.server.cleaning import LogCleaning
from odradek.server.environment import Environment
from odradek.server.log_limits import LimitedLog

logger = logging.getLogger("odradek.server")

# How often flushes by age and files pending removal are checked; they are due in seconds or more.
MAINTENANCE_MS = 1000
# Of retention in one turn, in logs that are looked at, and where their size counts in segments: some two milliseconds. One that loses segments counts for so many more.
MOST_LABOUR, CHANGED_LABOUR = 500, 50
# Logs that are asked in one turn whether a flush is due: half a millisecond.
ASKED_AT_ONCE = 1_000


class LogMaintenance:
    def __init__(
        self,
        logs: LogManager,
        environment: Environment,
        settings: BrokerSettings,
        *,
        on_flushed: Callable[[FlushLog, str | None], None],
        high_watermark_of: Callable[[PartitionLog], int | None],
        on_start_moved: Callable[[PartitionLog], None],
        cleaning: LogCleaning,
        log: LimitedLog,
    ) -> None:
        self._logs = logs
        self._environment = environment
        self._on_flushed = on_flushed
        self._high_watermark_of = high_watermark_of
        self._on_start_moved = on_start_moved
        self._log = log
        self._tasks: set[asyncio.Task[None]] = set()
        # Their flush is somebody's acknowledgement, and under way
        self._waited_for: set[PartitionLog] = set()
        self._in_background: PartitionLog | None = None  # one at a time
        self._background_done = asyncio.Event()
        self._is_checkpointing = False
        self._pending_high_watermarks: CheckpointHighWatermarks | None = None
        now_ms = environment.clock.now_ms()
        self._checkpoint_ms: int = settings.log_flush_offset_checkpoint_interval_ms
        self._checkpoint_at_ms = now_ms + self._checkpoint_ms
        self._start_offsets_ms: int = settings.log_flush_start_offset_checkpoint_interval_ms
        self._start_offsets_at_ms = now_ms + self._start_offsets_ms
        self._retention_ms: int = settings.log_retention_check_interval_ms
        # As Apache does: the first pass comes half a minute after the start.
        self._retention_at_ms = now_ms + min(30_000, self._retention_ms)
        self._maintain_at_ms = now_ms + MAINTENANCE_MS
        self._scrub_bytes: int = settings.odradek_log_scrub_bytes_per_second
        self._is_maintaining = False
        self._cleaning = cleaning
        self._clean_at_ms = now_ms + cleaning.backoff_ms
        self._is_cleaning = False

    # --- asked for by the broker

    def flush(self, effect: FlushLog) -> None:
        """Group commit: whoever waits for this log is answered when it is on the disk."""
        self._waited_for.add(effect.log)
        self._spawn(self._flush(effect))

    async def _flush(self, effect: FlushLog) -> None:
        error: Exception | None
        try:
            if self._in_background is effect.log:
                # What the other one does need not be done again.
                await self._background_done.wait()
                effect = effect._replace(plan=effect.log.plan_flush())
            error = await self._run(effect.plan.run)
            if error is not None:
                # Nobody may wait for a second try: an acknowledgement hangs on it.
                effect.log.give_up(error)
        except StorageError as refused:  # not even what is to be synced can be said, for want of a descriptor
            error = effect.log.give_up(refused)
        except Exception as mistake:  # of ours: whether it is on the disk nobody can say, so it is not
            self._failed(mistake)
            error = mistake
        self._waited_for.discard(effect.log)
        self._on_flushed(effect, None if error is None else str(error))

    def checkpoint_high_watermarks(self, effect: CheckpointHighWatermarks) -> None:
        """One at a time; while one is being written only the newest waits."""
        self._pending_high_watermarks = effect
        if not self._is_checkpointing:
            self._is_checkpointing = True
            self._spawn(self._write_high_watermarks())

    async def _write_high_watermarks(self) -> None:
        try:
            while self._pending_high_watermarks is not None:
                told, self._pending_high_watermarks = self._pending_high_watermarks, None
                await self._run(self._logs.checkpoint_high_watermarks, told.high_watermarks, told.said_at)
        finally:
            self._is_checkpointing = False

    # --- from time to time

    def housekeep(self) -> None:
        """Called about once a second."""
        now_ms = self._environment.clock.now_ms()
        if now_ms >= self._maintain_at_ms and not self._is_maintaining:
            self._maintain_at_ms = now_ms + MAINTENANCE_MS
            self._is_maintaining = True
            self._spawn(self._maintain(now_ms))
        if now_ms >= self._clean_at_ms and not self._is_cleaning:
            self._is_cleaning = True
            self._spawn(self._clean())

    async def _clean(self) -> None:
        """As long as there is something to be cleaned; then again after the pause."""
        try:
            while await self._cleaning.round():
                pass
        finally:
            self._clean_at_ms = self._environment.clock.now_ms() + self._cleaning.backoff_ms
            self._is_cleaning = False

    async def _maintain(self, now_ms: int) -> None:
        try:
            if now_ms >= self._retention_at_ms:
                self._retention_at_ms = now_ms + self._retention_ms
                await self._apply_retention(now_ms)
            await self._flush_what_is_due(now_ms)
            if now_ms >= self._checkpoint_at_ms:
                self._checkpoint_at_ms = now_ms + self._checkpoint_ms
                await self._run(self._logs.checkpoint_recovery_points)
            if now_ms >= self._start_offsets_at_ms:
                self._start_offsets_at_ms = now_ms + self._start_offsets_ms
                await self._run(self._logs.checkpoint_log_start_offsets)
            await self._run(self._logs.maintain, now_ms, self._scrub_bytes)
            self._logs.scrubber.judge()
        finally:
            self._is_maintaining = False

    async def _apply_retention(self, now_ms: int) -> None:
        """The segments of many partitions expire together, and each is renamed: others have their turns in between."""
        labour = 0
        for lines, looked_at in self._logs.retention(now_ms, self._high_watermark_of, self._on_start_moved):
            for line in lines:
                logger.info("%s", line)
            labour += looked_at + CHANGED_LABOUR * len(lines)
            if labour >= MOST_LABOUR:
                labour = 0
                await asyncio.sleep(0)

    async def _flush_what_is_due(self, now_ms: int) -> None:
        """Of the logs to which something came, and of those that waited for their time: a log that is idle costs nothing."""
        logs = self._logs
        for asked, topic_partition in enumerate(list(logs.to_flush), 1):
            del logs.to_flush[topic_partition]
            log = logs.logs.get(topic_partition)
            if log is not None:
                log.flushed.settled()  # before it is asked, so that nothing that comes meanwhile is missed
                try:
                    if log.flush_is_due(now_ms):
                        await self._flush_in_background(log)
                finally:
                    if log.flush_is_due_later():
                        log.flushed.came()
            if not asked % ASKED_AT_ONCE:
                await asyncio.sleep(0)

    async def _flush_in_background(self, log: PartitionLog) -> None:
        """Rolled segments, cuts, flush.messages above 1, flush.ms: no request waits for it."""
        if log.failure is not None or log in self._waited_for:
            return
        self._in_background = log
        self._background_done.clear()
        try:
            try:
                plan = log.plan_flush()
            except StorageError as error:
                self._log.warning(f"disk {error}", f"{error}")
                return
            fault = None if plan.is_empty else await self._run(plan.run)
            if fault is None:
                log.commit_flush(plan, self._environment.clock.now_ms())
            else:
                log.broken(fault)  # unless it was deleted meanwhile
        finally:
            self._in_background = None
            self._background_done.set()

    # --- threads

    async def _run(self, function: Callable[..., object], *arguments: object) -> StorageError | None:
        """What went wrong, if anything did. The directory has then taken itself offline; here it is only
        said.
        """
        try:
            await self._environment.run_blocking(function, *arguments)
        except StorageError as error:
            self._log.warning(f"disk {error}", f"{error}")
            return error
        return None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._environment.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._failed(error)

    def _failed(self, mistake: BaseException) -> None:
        self._log.failure("disk", f"work on the log directories failed: {mistake!r}", mistake)

    async def finish(self) -> None:
        """Waits for what is under way; a cleaning is abandoned."""
        self._cleaning.stop()
        while self._tasks:
            await asyncio.wait(self._tasks)
