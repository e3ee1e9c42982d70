"""What the log directories need from time to time: each chore at its own interval."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.effects import FlushLog
from odradek.log.checkpoints import LEADER_EPOCHS
from odradek.log.errors import NoDescriptor
from odradek.log.flushing import FlushPlan
from odradek.log.log_manager import LogManager
from odradek.log.memory_files import MemoryDisk
from odradek.log.partition_log import PartitionLog
from odradek.model.ids import LeaderEpoch, TopicPartition
from odradek.model.settings import BrokerSettings, TopicSettings
from odradek.server.log_limits import LimitedLog
from odradek.server.log_maintenance import CHANGED_LABOUR, MOST_LABOUR, LogMaintenance
from tests.log.logs import batch, produce
from tests.replication.partitions import a_batch, a_log


class Logs:
    """Counts what is asked of it; there is nothing to flush."""

    def __init__(self) -> None:
        self.logs: dict[object, object] = {}
        self.to_flush: dict[object, None] = {}
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., list[str]]:
        def ask(*arguments: object) -> list[str]:
            self.asked.append(name)
            return []

        return ask


class Environment:
    """A clock moved by hand; what may block is done at once."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.clock = self
        self.time_ms = 1_000_000

    def now_ms(self) -> int:
        return self.time_ms

    async def run_blocking(self, function: Callable[..., Any], *arguments: object) -> Any:
        return function(*arguments)


class NoCleaning:
    """Never due."""

    backoff_ms = 10**9

    def stop(self) -> None:
        pass


def maintenance(
    logs: Any,
    environment: Any,
    settings: BrokerSettings | None = None,
    *,
    on_flushed: Callable[[FlushLog, str | None], None] = lambda effect, error: None,
    on_start_moved: Callable[[Any], None] = lambda log: None,
) -> LogMaintenance:
    return LogMaintenance(
        logs,
        environment,
        settings or BrokerSettings({}),
        on_flushed=on_flushed,
        high_watermark_of=lambda log: None,
        on_start_moved=on_start_moved,
        cleaning=NoCleaning(),  # type: ignore[arg-type]
        log=LimitedLog(logging.getLogger("odradek.server"), lambda: 0.0),
    )


def test_every_checkpoint_is_written_at_its_own_interval() -> None:
    async def scenario() -> None:
        logs, environment = Logs(), Environment()
        settings = BrokerSettings(
            {
                "log.flush.offset.checkpoint.interval.ms": "5000",
                "log.flush.start.offset.checkpoint.interval.ms": "20000",
                "log.retention.check.interval.ms": "10000",
            }
        )
        disk = maintenance(logs, environment, settings)
        for _ in range(60):
            environment.time_ms += 1_000
            disk.housekeep()
            await disk.finish()
        counts = {name: logs.asked.count(name) for name in set(logs.asked)}
        assert counts["checkpoint_recovery_points"] == 12
        assert counts["checkpoint_log_start_offsets"] == 3
        assert counts["retention"] == 6

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("steps", "step"),
    [
        (10 * MOST_LABOUR // CHANGED_LABOUR, (["a segment is gone"], 1)),
        (100, ([], MOST_LABOUR // 10)),
    ],
    ids=["that-lose-segments", "of-which-each-segment-is-asked-for-its-size"],
)
def test_retention_of_many_logs_lets_others_have_their_turns(steps: int, step: tuple[list[str], int]) -> None:
    class Many(Logs):
        def retention(
            self, now_ms: int, high_watermark_of: object, start_moved: Callable[[object], None]
        ) -> Iterator[tuple[list[str], int]]:
            for _ in range(steps):
                start_moved(self)
                yield step

    moved: list[object] = []

    async def scenario() -> int:
        environment = Environment()
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            environment.loop.call_soon(turn)

        disk = maintenance(Many(), environment, on_start_moved=moved.append)
        environment.time_ms += 10**9
        disk.housekeep()
        turn()
        await disk.finish()
        return turns

    assert asyncio.run(scenario()) >= 10
    assert len(moved) == steps


def test_a_flush_that_ends_in_a_mistake_of_ours_is_a_flush_that_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever waits for it would wait for ever, and no other flush of that log would be asked for."""

    class Plan:
        def run(self) -> None:
            raise TypeError("nothing foreseen")

    async def scenario() -> list[tuple[object, str | None]]:
        flushed: list[tuple[object, str | None]] = []
        disk = maintenance(
            Logs(), Environment(), on_flushed=lambda effect, error: flushed.append((effect, error))
        )
        effect = FlushLog(0, TopicPartition("t", 0), object(), Plan())  # type: ignore[arg-type]
        disk.flush(effect)
        await disk.finish()
        assert flushed[0][0] is effect
        return flushed

    ((_, error),) = asyncio.run(scenario())
    assert error is not None
    assert "nothing foreseen" in error
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_a_log_whose_flush_failed_is_used_no_more(tmp_path: Path) -> None:
    """A second try may say that all is well (fsync forgets its errors), and an acknowledgement hangs on it."""

    class Plan:
        def run(self) -> None:
            raise NoDescriptor("too many open files")

    async def scenario() -> None:
        log = a_log(tmp_path)
        told: list[str | None] = []
        disk = maintenance(Logs(), Environment(), on_flushed=lambda effect, error: told.append(error))
        disk.flush(FlushLog(0, log.topic_partition, log, Plan()))  # type: ignore[arg-type]
        await disk.finish()
        assert told == ["too many open files"]
        assert isinstance(log.failure, NoDescriptor)

    asyncio.run(scenario())


class SlowEnvironment(Environment):
    """A thread that takes its time: what may block is done when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    async def run_blocking(self, function: Callable[..., Any], *arguments: object) -> Any:
        done: asyncio.Future[Any] = self.loop.create_future()
        self.held.append((lambda: function(*arguments), done))
        return await done

    async def let_one_go(self) -> None:
        work, done = self.held.pop(0)
        done.set_result(work())
        await settled()


def test_only_logs_to_which_something_came_are_asked_whether_a_flush_is_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    overrides = {"timed": {"flush.ms": "4000"}, "counted": {"flush.messages": "2"}}
    settings = BrokerSettings({})
    logs = LogManager(
        [MemoryDisk().root],
        settings,
        topic_settings=lambda topic: TopicSettings(settings, overrides.get(topic, {})),
    )
    logs.load(0)
    asked: list[str] = []
    is_due = PartitionLog.flush_is_due

    def noted(log: PartitionLog, now_ms: int) -> bool:
        asked.append(log.topic_partition.topic)
        return is_due(log, now_ms)

    monkeypatch.setattr(PartitionLog, "flush_is_due", noted)

    async def scenario() -> None:
        environment = Environment()
        disk = maintenance(logs, environment, BrokerSettings({"odradek.log.scrub.bytes.per.second": "0"}))
        now = environment.time_ms
        log = {
            topic: logs.get_or_create(TopicPartition(topic, 0), now_ms=now)
            for topic in ("plain", "timed", "counted", "idle")
        }
        for one in log.values():
            one.flush(now)

        async def second() -> list[str]:
            asked.clear()
            environment.time_ms += 1_000
            disk.housekeep()
            await disk.finish()
            return list(asked)

        assert await second() == [], "nothing came"
        for topic in ("plain", "timed", "counted"):
            produce(log[topic], batch())
        assert await second() == ["plain", "timed", "counted"]
        assert await second() == ["timed"], "whose time will come; of the others the next record tells"
        assert await second() == ["timed"] and log["timed"].recovery_point == 1
        assert await second() == []
        produce(log["counted"], batch())
        assert await second() == ["counted"] and log["counted"].recovery_point == 2
        log["plain"].roll(now)
        assert await second() == ["plain"] and log["plain"].recovery_point == 1
        assert await second() == []
        # What may be due by the settings of today is asked when they come.
        produce(log["plain"], batch())
        assert await second() == ["plain"] and log["plain"].recovery_point == 1
        overrides["plain"] = {"flush.messages": "1"}
        logs.forget_config("plain")
        logs.update_config("plain", [TopicPartition("plain", 0)])
        assert await second() == ["plain"] and log["plain"].recovery_point == 2
        # One that is gone asks for nothing.
        produce(log["timed"], batch())
        logs.delete(TopicPartition("timed", 0), environment.time_ms)
        assert await second() == [] and not logs.to_flush

    asyncio.run(scenario())


def test_a_log_that_was_flushed_for_an_acknowledgement_is_flushed_in_the_background_from_then_on() -> None:
    settings = BrokerSettings({})
    logs = LogManager(
        [MemoryDisk().root],
        settings,
        topic_settings=lambda topic: TopicSettings(settings, {"flush.ms": "1500"}),
    )
    logs.load(0)

    async def scenario() -> None:
        environment = Environment()
        disk = maintenance(
            logs,
            environment,
            BrokerSettings({"odradek.log.scrub.bytes.per.second": "0"}),
            on_flushed=lambda effect, error: effect.log.commit_flush(effect.plan, environment.time_ms),
        )
        log = logs.get_or_create(TopicPartition("t", 0), now_ms=environment.time_ms)
        produce(log, batch())
        disk.flush(FlushLog(0, log.topic_partition, log, log.plan_flush()))
        await disk.finish()
        assert log.recovery_point == 1
        produce(log, batch())
        for _ in range(3):
            environment.time_ms += 1_000
            disk.housekeep()
            await disk.finish()
        assert log.recovery_point == 2

    asyncio.run(scenario())


def test_a_flush_that_ends_in_a_mistake_of_ours_keeps_no_other_log_from_being_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One that waits for its time is asked again by nothing but the round before."""
    settings = BrokerSettings({})
    logs = LogManager(
        [MemoryDisk().root],
        settings,
        topic_settings=lambda topic: TopicSettings(settings, {"flush.ms": "1500"}),
    )
    logs.load(0)

    class Mistaken(Environment):
        is_mistaken = False

        async def run_blocking(self, function: Callable[..., Any], *arguments: object) -> Any:
            if self.is_mistaken:
                raise TypeError("nothing foreseen")
            return await super().run_blocking(function, *arguments)

    async def scenario() -> None:
        environment = Mistaken()
        disk = maintenance(logs, environment, BrokerSettings({"odradek.log.scrub.bytes.per.second": "0"}))
        waits, due = (
            logs.get_or_create(TopicPartition(topic, 0), now_ms=environment.time_ms)
            for topic in ("waits", "due")
        )

        async def second() -> None:
            environment.time_ms += 1_000
            disk.housekeep()
            await disk.finish()

        await second()
        waits.flush(environment.time_ms)
        produce(waits, batch())
        produce(due, batch())
        environment.is_mistaken = True
        await second()
        assert "nothing foreseen" in caplog.text
        environment.is_mistaken = False
        await second()
        await second()
        assert (waits.recovery_point, due.recovery_point) == (1, 1)

    asyncio.run(scenario())


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("first", ["for an acknowledgement", "in the background"])
def test_two_flushes_of_one_log_come_one_behind_the_other(tmp_path: Path, first: str) -> None:
    """What one syncs the other need not, and neither counts names that changed since and were never synced."""

    async def scenario() -> None:
        log = a_log(tmp_path)
        log.append_as_follower(a_batch(b"a", epoch=1), now_ms=0)
        logs, environment = Logs(), SlowEnvironment()
        logs.logs = {log.topic_partition: log}
        disk = maintenance(
            logs, environment, on_flushed=lambda effect, error: effect.log.commit_flush(effect.plan)
        )

        def acknowledge() -> None:
            disk.flush(FlushLog(0, log.topic_partition, log, log.plan_flush()))

        def in_background() -> None:
            disk._spawn(disk._flush_in_background(log))

        begin = [acknowledge, in_background]
        for start in begin if first == "for an acknowledgement" else reversed(begin):
            start()
            await settled()  # so the first is under way
        assert len(environment.held) == 1
        await environment.let_one_go()
        log.assign_epoch(LeaderEpoch(2), log.log_end_offset)  # writes a file anew
        while environment.held:
            await environment.let_one_go()
        state = log.flushed
        assert log.recovery_point == 1
        assert list(state._changed_names) == [LEADER_EPOCHS] or state.names_are_synced
        assert state.directory_synced <= state._directory_changes

    asyncio.run(scenario())


def test_a_flush_that_was_planned_in_the_turn_in_which_another_ended_counts_nothing_twice(
    tmp_path: Path,
) -> None:
    """It had no time to wait for the other one, and was planned before that was counted."""

    async def scenario() -> None:
        log = a_log(tmp_path)
        log.append_as_follower(a_batch(b"a", epoch=1), now_ms=0)
        logs, environment = Logs(), SlowEnvironment()
        disk = maintenance(
            logs, environment, on_flushed=lambda effect, error: effect.log.commit_flush(effect.plan)
        )
        disk._spawn(disk._flush_in_background(log))
        await settled()
        work, done = environment.held.pop(0)
        done.set_result(work())
        disk.flush(FlushLog(0, log.topic_partition, log, log.plan_flush()))
        await settled()
        await environment.let_one_go()
        assert log.flushed.names_are_synced
        log.assign_epoch(LeaderEpoch(2), log.log_end_offset)
        assert not log.plan_flush().is_empty

    asyncio.run(scenario())


def test_a_log_whose_flush_cannot_be_planned_behind_another_is_given_up_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its directory is sound: no descriptor is left."""

    async def scenario() -> None:
        log = a_log(tmp_path)
        log.append_as_follower(a_batch(b"a", epoch=1), now_ms=0)
        logs, environment = Logs(), SlowEnvironment()
        told: list[str | None] = []
        disk = maintenance(logs, environment, on_flushed=lambda effect, error: told.append(error))
        disk._spawn(disk._flush_in_background(log))
        await settled()
        disk.flush(FlushLog(0, log.topic_partition, log, log.plan_flush()))

        def nothing_left() -> FlushPlan:
            raise NoDescriptor("no descriptor is left")

        monkeypatch.setattr(log, "plan_flush", nothing_left)
        await environment.let_one_go()
        await disk.finish()
        assert told == ["no descriptor is left"]
        assert isinstance(log.failure, NoDescriptor) and log.directory.health.failure is None

    asyncio.run(scenario())
    assert caplog.records == []
