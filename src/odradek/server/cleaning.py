"""Compaction at work: one log at a time, by a process of its own, in slices and at a rate.

`log.compaction` decides what stays; the loop hands it what is true at this moment (last stable offsets, producers), and puts
in place what was made. A loop that is busy waits for no more than one rename. A thread looks for the log that is next, and
waits for the process (`cleaning_process`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Iterator

from odradek.log.compaction.cleaner import NEVER_MS, Cleaner, Found
from odradek.log.compaction.cleaning import Cleaning
from odradek.log.compaction.passes import Uncleanable
from odradek.log.errors import CorruptLog, MissingFile, StorageError
from odradek.log.log_manager import LogManager
from odradek.log.partition_log import PartitionLog
from odradek.model.settings import BrokerSettings
from odradek.server.environment import Environment
from odradek.server.log_limits import LimitedLog

logger = logging.getLogger("odradek.server")

LARGEST_RATE = 1e18  # bytes a second; the default is the largest double
MOST_PAUSE_S = 1.0  # before it is asked again whether there is a reason to pause


class LogCleaning:
    """`round` is called from time to time, one call at a time."""

    def __init__(
        self,
        logs: LogManager,
        environment: Environment,
        settings: Callable[[], BrokerSettings],
        *,
        high_watermark_of: Callable[[PartitionLog], int | None],
        passed_by_all: Callable[[PartitionLog, int], Awaitable[int]],
        log: LimitedLog,
    ) -> None:
        """`passed_by_all`: see `ReplicaPositions`."""
        self._logs = logs
        self._environment = environment
        self._settings = settings
        self._high_watermark_of = high_watermark_of
        self._passed_by_all = passed_by_all
        self._log = log
        self._is_stopping = False
        # Bytes read and written that no time has passed for, as of that moment.
        self._ahead_bytes = 0.0
        self._ahead_at_ms = 0
        self.cleaner = Cleaner(
            lambda: list(logs.logs.values()),
            logs.cleaned_to,
            environment.random_bytes(16),
            environment.passes_of,
        )

    @property
    def backoff_ms(self) -> int:
        backoff_ms: int = self._settings().log_cleaner_backoff_ms
        return max(backoff_ms, 1)

    def stop(self) -> None:
        """What is under way is abandoned."""
        self._is_stopping = True
        self._environment.abandon_cleaning()

    async def round(self) -> bool:
        """Cleans the log that needs it most; whether there was one. After a disk has failed there is none, until the next round."""
        if self._is_stopping or not self._settings().log_cleaner_enable:
            return False
        try:
            return await self._round()
        except StorageError as error:  # the directory says itself whether it is offline now
            self._log.warning(f"disk {error}", f"{error}")
            return False

    async def _round(self) -> bool:
        candidates = await self._environment.run_blocking(self.cleaner.candidates)
        stable = []
        for log in candidates:
            high_watermark = self._high_watermark_of(log)
            if high_watermark is not None:
                stable.append((log, log.last_stable_offset(high_watermark)))
        if not stable or self._is_stopping:
            await self._rest()
            return False
        now_ms = self._environment.clock.now_ms()
        found = await self._environment.run_blocking(self.cleaner.most_dirty, stable, now_ms)
        self.cleaner.judge()
        if found is None or found.log.failure is not None:
            await self._rest()
            return False
        return await self._clean(found)

    async def _rest(self) -> None:
        if self._environment.cleaning_is_idle():
            await self._environment.run_blocking(self._environment.end_cleaning)

    async def _clean(self, found: Found) -> bool:
        log = found.log
        droppable_below = await self._passed_by_all(log, found.part.end)
        if log.failure is not None or self._is_stopping:
            return False
        settings = self._settings()
        started_ms = self._environment.clock.now_ms()
        patience_ms = settings.odradek_compaction_coordination_timeout_ms
        cleaning = self.cleaner.cleaning_of(
            found,
            now_ms=started_ms,
            map_bytes=settings.log_cleaner_dedupe_buffer_size,
            load_factor=min(max(settings.log_cleaner_io_buffer_load_factor, 0.01), 0.99),
            droppable_below=droppable_below,
            overdue_before_ms=NEVER_MS if patience_ms < 0 else started_ms - patience_ms,
        )
        try:
            done = await self._walk(cleaning.build_map())
            while done and not cleaning.is_done:
                done = await self._walk(cleaning.write_segment()) and cleaning.put()
        except Uncleanable as error:
            self.cleaner.uncleanable[log] = str(error)
            logger.error("%s; the log is not compacted any more until this broker is started again", error)
            return True
        except (CorruptLog, MissingFile) as error:
            # Either it was damaged, or cut, deleted or moved meanwhile.
            if cleaning.is_of_what_is_there:
                log.broken(error)
            return True
        except StorageError:
            self.cleaner.was_cleaned(log, done=False)
            raise
        if done:
            self.cleaner.was_cleaned(log, done=True)
            await self._environment.run_blocking(
                self._logs.is_cleaned_to, log, cleaning.end_offset, cleaning.generation
            )
            self._say(cleaning, self._environment.clock.now_ms() - started_ms)
        return done

    async def _walk(self, steps: Generator[int]) -> bool:
        """To its end, at the rate of `log.cleaner.io.max.bytes.per.second`. False: the broker stops."""
        while True:
            await self._pause()
            if self._is_stopping:
                await self._environment.run_blocking(steps.close)
                return False
            try:
                count, is_done = await self._environment.run_blocking(
                    _slice, steps, self._environment.cleaner_slice_bytes
                )
            except StorageError:
                if self._is_stopping:  # and so the process is gone that was asked
                    return False
                raise
            self._ahead_bytes += count
            if is_done:
                return True

    async def _pause(self) -> None:
        """Until as much time has passed as what was moved may take, by this log or the one before. At a low rate that is many minutes
        for one slice, in which the broker may be stopped, or the rate changed. Before a slice, not behind it: what a walk has made is
        put in place at once."""
        while not self._is_stopping:
            rate = min(max(self._settings().log_cleaner_io_max_bytes_per_second, 1.0), LARGEST_RATE)
            now_ms = self._environment.clock.now_ms()
            passed = rate * max(now_ms - self._ahead_at_ms, 0) / 1000
            self._ahead_bytes, self._ahead_at_ms = max(self._ahead_bytes - passed, 0.0), now_ms
            ahead_ms = 1000 * self._ahead_bytes / rate
            if ahead_ms < 1:
                return
            await asyncio.sleep(min(ahead_ms / 1000, MOST_PAUSE_S))

    def _say(self, cleaning: Cleaning, took_ms: int) -> None:
        logger.info(
            "%s: compacted up to offset %d in %d ms, %d bytes became %d",
            cleaning.log.topic_partition,
            cleaning.end_offset,
            took_ms,
            cleaning.bytes_read,
            cleaning.bytes_written,
        )


def _slice(steps: Iterator[int], most_bytes: int) -> tuple[int, bool]:
    """How many bytes were read and written, `most_bytes` and the rest of a batch; and whether that was all."""
    moved = 0
    for count in steps:
        moved += count
        if moved >= most_bytes:
            return moved, False
    return moved, True
