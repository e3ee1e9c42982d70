"""What the log directories need from time to time: each chore at its own interval."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.effects import FlushLog
from odradek.model.ids import TopicPartition
from odradek.model.settings import BrokerSettings
from odradek.server.disk import Disk
from odradek.server.log_limits import LimitedLog


class Logs:
    """Counts what is asked of it; there is nothing to flush."""

    def __init__(self) -> None:
        self.logs: dict[object, object] = {}
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., list[str]]:
        def ask(*arguments: object) -> list[str]:
            self.asked.append(name)
            return []

        return ask


class Seams:
    """A clock moved by hand; what may block is done at once."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.clock = self
        self.time_ms = 1_000_000

    def now_ms(self) -> int:
        return self.time_ms

    async def run_blocking(self, function: Callable[..., Any], *arguments: object) -> Any:
        return function(*arguments)


def test_every_checkpoint_is_written_at_its_own_interval() -> None:
    async def scenario() -> None:
        logs, seams = Logs(), Seams()
        settings = BrokerSettings(
            {
                "log.flush.offset.checkpoint.interval.ms": "5000",
                "log.flush.start.offset.checkpoint.interval.ms": "20000",
                "log.retention.check.interval.ms": "10000",
            }
        )
        disk = Disk(
            logs,  # type: ignore[arg-type]
            seams,  # type: ignore[arg-type]
            settings,
            on_flushed=lambda effect, error: None,
            high_watermarks=dict,
            log=LimitedLog(logging.getLogger("odradek.server"), lambda: 0.0),
        )
        for _ in range(60):
            seams.time_ms += 1_000
            disk.housekeep()
            await disk.finish()
        counts = {name: logs.asked.count(name) for name in set(logs.asked)}
        assert counts["checkpoint_recovery_points"] == 12
        assert counts["checkpoint_log_start_offsets"] == 3
        assert counts["apply_retention"] == 6

    asyncio.run(scenario())


def test_a_flush_that_ends_in_a_mistake_of_ours_is_a_flush_that_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever waits for it would wait for ever, and no other flush of that log would be asked for."""

    class Plan:
        def run(self) -> None:
            raise TypeError("nothing foreseen")

    async def scenario() -> list[tuple[object, str | None]]:
        flushed: list[tuple[object, str | None]] = []
        disk = Disk(
            Logs(),  # type: ignore[arg-type]
            Seams(),  # type: ignore[arg-type]
            BrokerSettings({}),
            on_flushed=lambda effect, error: flushed.append((effect, error)),
            high_watermarks=dict,
            log=LimitedLog(logging.getLogger("odradek.server"), lambda: 0.0),
        )
        effect = FlushLog(TopicPartition("t", 0), None, Plan())  # type: ignore[arg-type]
        disk.flush(effect)
        await disk.finish()
        assert flushed[0][0] is effect
        return flushed

    ((_, error),) = asyncio.run(scenario())
    assert error is not None
    assert "nothing foreseen" in error
    assert [record.exc_info is not None for record in caplog.records] == [True]
