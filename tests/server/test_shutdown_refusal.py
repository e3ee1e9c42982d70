"""`odradek.controlled.shutdown.refuse`: a broker that stays up because of what stopping it would cost."""

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from odradek.advisor import shutdown_impact
from odradek.controller.context import ControllerContext, ControllerSettings
from odradek.model.ids import BrokerId, TopicPartition
from odradek.model.settings import BrokerSettings
from odradek.server import broker_runtime
from odradek.server.shutdown_refusal import ShutdownRefused, agree, fell_under_min, only_here
from odradek.store.memory_session import MemoryEnsemble
from odradek.testing.process_cluster import ProcessCluster
from tests.clients.support import retrying
from tests.controller.world import World, three
from tests.server.moves import Moves, moves
from tests.support import eventually

QUICK = {"controlled_shutdown_retry_backoff_ms": "10"}
# Longer than any machine takes until a follower has caught up: a minute.
PATIENT = {"controlled_shutdown_retry_backoff_ms": "100", "controlled_shutdown_max_retries": "600"}


def stop(cluster: Moves, broker: int) -> None:
    """Asks it to stop, as SIGTERM does; ShutdownRefused."""
    cluster.running.call(cluster.cluster.runtimes[broker].stop())


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], str]]:
    with caplog.at_level(logging.WARNING, "odradek.server"):
        yield lambda: "\n".join(record.getMessage() for record in caplog.records)


@pytest.mark.behaviour(126)
def test_the_only_replica_keeps_its_broker_up_until_it_was_moved_away(
    tmp_path: Path, said: Callable[[], str]
) -> None:
    refuse = {"odradek_controlled_shutdown_refuse": "offline"}
    with moves(tmp_path, brokers=3, **refuse, **QUICK) as three:
        three.create("single", 1)
        three.create("safe", 1, 2, 3)
        with pytest.raises(ShutdownRefused, match="1 partition would go offline, first single-0"):
            stop(three, 1)
        assert "single-0 goes offline: broker 1 is the only one in sync" in said()
        assert "first reassign single-0 to [2]" in said() or "first reassign single-0 to [3]" in said()
        assert "attempt 3 of 3 to stop" in said()
        three.produce("single", 3)
        three.produce("safe", 3)
        assert three.leader("safe") == 1, "nothing was moved"
        assert three.move("single", 2) is None
        eventually(lambda: three.settled("single", 2), what="moved as the impact said")
        stop(three, 1)
        three.cluster.runtimes.pop(1)
        three.produce("single", 1)


@pytest.mark.behaviour(126)
def test_without_a_policy_it_is_said_and_done(tmp_path: Path, said: Callable[[], str]) -> None:
    with moves(tmp_path, brokers=2) as two:
        two.create("single", 1)
        two.running.stop_in_order(1)
        assert "broker 1 holds the only replica of 1 partitions: single-0" in said()


async def at_once(work: Callable[[], Any]) -> Any:
    return work()


def test_what_stopping_would_cost_is_reckoned_while_clients_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 40,000 partitions it takes two seconds, each time it is asked; of the context there is one that nobody else steps."""
    world = three("t", [1, 2])
    real = shutdown_impact.shutdown_impact
    asked: list[tuple[int, ControllerContext]] = []

    def impact(context: ControllerContext, brokers: list[BrokerId]) -> shutdown_impact.ShutdownImpact:
        asked.append((threading.get_ident(), context))
        return real(context, brokers)

    monkeypatch.setattr(shutdown_impact, "shutdown_impact", impact)

    async def scenario() -> None:
        settings = BrokerSettings({"odradek.controlled.shutdown.refuse": "offline"})
        aside = partial(asyncio.get_running_loop().run_in_executor, None)
        await agree(lambda: None, lambda: world.core, settings, BrokerId(1), asyncio.Event(), aside)

    asyncio.run(scenario())
    ((thread, context),) = asked
    assert thread != threading.get_ident() and context is not world.context


def test_each_attempt_asks_for_the_core_anew() -> None:
    """In the pause between two a thread may have begun to step it, or another broker may have been elected."""
    world = three("single", [1])
    cores = [world.core, None, world.core]

    async def scenario() -> None:
        settings = BrokerSettings(
            {
                "odradek.controlled.shutdown.refuse": "offline",
                "controlled.shutdown.max.retries": "3",
                "controlled.shutdown.retry.backoff.ms": "1",
            }
        )
        await agree(lambda: None, lambda: cores.pop(0), settings, BrokerId(1), asyncio.Event(), at_once)

    with pytest.raises(ShutdownRefused):
        asyncio.run(scenario())
    assert cores == []


def test_a_store_in_which_nodes_are_missing_is_no_reason_to_stop_at_any_price() -> None:
    """Somebody deleted /brokers/topics. Whoever asks hears a sentence; the process used to end with its logs open."""

    async def scenario() -> None:
        store = MemoryEnsemble().open()
        settings = BrokerSettings(
            {"odradek.controlled.shutdown.refuse": "offline", "controlled.shutdown.max.retries": "1"}
        )
        with pytest.raises(ShutdownRefused, match=r"cannot be read from the store: .*/brokers/ids"):
            await agree(lambda: store, lambda: None, settings, BrokerId(1), asyncio.Event(), at_once)
        promised = frozenset({TopicPartition("t", 0)})
        why = await fell_under_min(store, None, settings, BrokerId(1), promised, at_once)
        assert why is not None and "cannot be read" in why

    asyncio.run(scenario())


@pytest.mark.parametrize("isr", [[2, 1], [2, 3]])
def test_a_broker_that_goes_does_not_count_among_those_that_stay_in_sync(isr: list[int]) -> None:
    """Taken in again by a leader that had another controller by then, it promised itself."""
    world = World(settings=ControllerSettings(min_insync_replicas=2)).brokers(1, 2, 3)
    world.elect(1)
    world.create("t", [2, 1, 3])
    world.alter("t-0", isr)
    promised = frozenset({TopicPartition("t", 0)})

    async def scenario() -> str | None:
        return await fell_under_min(None, world.core, BrokerSettings(), BrokerId(1), promised, at_once)

    why = asyncio.run(scenario())
    assert (why is None) == (1 not in isr)


def test_a_broker_whose_session_is_over_is_told_so_when_it_is_to_stop() -> None:
    """Before it is registered again the cluster takes it for dead. The process used to end with its logs open."""
    world = three("t", [1, 2])
    world.kill(1)

    async def scenario() -> None:
        settings = BrokerSettings(
            {"odradek.controlled.shutdown.refuse": "offline", "controlled.shutdown.max.retries": "1"}
        )
        with pytest.raises(ShutdownRefused, match="it is not registered at the moment"):
            await agree(lambda: None, lambda: world.core, settings, BrokerId(1), asyncio.Event(), at_once)

    asyncio.run(scenario())


@pytest.mark.parametrize("retries", ["0", "-1"])
def test_without_a_retry_it_is_asked_once(tmp_path: Path, retries: str) -> None:
    """Apache's brokers take any number. None is no reason to stop at any price, nor never to stop."""
    refuse = {"odradek_controlled_shutdown_refuse": "offline", "controlled_shutdown_max_retries": retries}
    with moves(tmp_path, brokers=2, **refuse) as two:
        two.create("single", 1)
        two.create("safe", 1, 2)
        with pytest.raises(ShutdownRefused, match="1 partition would go offline, first single-0"):
            stop(two, 1)
        assert two.move("single", 2) is None
        eventually(lambda: two.settled("single", 2), what="moved away")
        two.running.stop_in_order(1)
        eventually(lambda: two.leader("safe") == 2, what="2 has taken over")


def test_min_insync_replicas_counts_only_where_it_was_asked_for(tmp_path: Path) -> None:
    settings = {"min_insync_replicas": "2", **QUICK}
    with moves(tmp_path / "1", brokers=2, odradek_controlled_shutdown_refuse="under-min", **settings) as two:
        two.create("t", 1, 2)
        with pytest.raises(ShutdownRefused, match=r"would fall under min\.insync\.replicas, first t-0"):
            stop(two, 1)
    with moves(tmp_path / "2", brokers=2, odradek_controlled_shutdown_refuse="offline", **settings) as two:
        two.create("t", 1, 2)
        two.running.stop_in_order(1)


def test_a_follower_that_comes_back_in_time_is_all_it_takes(tmp_path: Path) -> None:
    """Brokers restarted one after the other, a little too fast: the second waits for the first to be in sync."""
    with moves(tmp_path, brokers=3, odradek_controlled_shutdown_refuse="offline", **PATIENT) as three:
        three.create("t", 1, 2)
        three.running.stop_in_order(2)
        stopping: Future[None] = Future()
        runtime = three.cluster.runtimes[1]

        async def ask() -> None:
            await runtime.stop()
            three.cluster.runtimes.pop(1)
            stopping.set_result(None)

        runtime._loop.call_soon_threadsafe(lambda: runtime._loop.create_task(ask()))
        three.running.start(2)
        stopping.result(60)
        eventually(lambda: three.leader("t") == 2, what="2 has taken over")


def test_a_broker_that_could_not_hand_over_stays_and_is_one_of_them_again(tmp_path: Path) -> None:
    """Two leave at the same moment: each was told that the other stays. The second finds nobody to hand over to."""
    with moves(tmp_path, brokers=3, odradek_controlled_shutdown_refuse="offline", **QUICK) as three:
        three.create("t", 1, 2)
        before = three.cluster.runtimes[1].registration
        with pytest.MonkeyPatch.context() as patch:
            # What the impact could not know: between it and the request, broker 2 leaves.
            hand_over = broker_runtime.hand_over

            async def late(*args: object) -> bool:
                await three.cluster.stop_broker(2)
                return await hand_over(*args)  # type: ignore[arg-type]

            async def once(*args: object) -> bool:
                patch.setattr(broker_runtime, "hand_over", hand_over)
                return await late(*args)

            patch.setattr(broker_runtime, "hand_over", once)
            with pytest.raises(ShutdownRefused, match="leadership could not be handed over"):
                stop(three, 1)
        eventually(lambda: three.cluster.runtimes[1].registration != before, what="registered again")
        eventually(lambda: three.leader("t") == 1, what="and it leads")
        three.produce("t", 2)


@pytest.mark.parametrize("refuse", ["under-min", "offline"])
def test_two_that_leave_at_once_do_not_leave_too_few_behind(tmp_path: Path, refuse: str) -> None:
    """Of three, two must stay in sync. Each was told that the other two stay; the one that is let go second finds out."""
    settings = {"min_insync_replicas": "2", **QUICK}
    with moves(tmp_path, brokers=3, odradek_controlled_shutdown_refuse=refuse, **settings) as three:
        three.create("t", 1, 2, 3)
        before = three.cluster.runtimes[1].registration
        hand_over = broker_runtime.hand_over

        async def late(*args: object) -> bool:
            patch.setattr(broker_runtime, "hand_over", hand_over)
            await three.cluster.stop_broker(2)
            return await hand_over(*args)  # type: ignore[arg-type]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(broker_runtime, "hand_over", late)
            if refuse == "offline":
                stop(three, 1)
                three.cluster.runtimes.pop(1)
                return
            with pytest.raises(
                ShutdownRefused, match=r"1 partition fell under min\.insync\.replicas while it left"
            ):
                stop(three, 1)
        eventually(lambda: three.cluster.runtimes[1].registration != before, what="registered again")
        eventually(lambda: sorted(three.hosted(3, "t").isr) == [1, 3], what="and in sync again")
        three.produce("t", 2)


@pytest.mark.process
def test_a_process_that_refuses_to_stop_goes_on_and_may_be_asked_again(tmp_path: Path) -> None:
    settings = {
        "odradek.controlled.shutdown.refuse": "offline",
        "controlled.shutdown.retry.backoff.ms": "10",
        "offsets.topic.replication.factor": "1",
    }
    with ProcessCluster(tmp_path, brokers=1, settings=settings) as cluster:
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        admin.create_topics({"single": {"num_partitions": 1, "replication_factor": 1}})
        process = cluster.brokers[1]

        def refusals() -> int:
            return process.log_file.read_text(encoding="utf-8").count("broker 1 stays up")

        def is_answered() -> bool:
            """Asked to stop: it says why it stays, or is gone."""
            before = refusals()
            process.signal(signal.SIGTERM)
            retrying(lambda: refusals() > before or not process.is_running, "an answer to SIGTERM")
            return True

        assert is_answered() and refusals() == 1
        assert "single-0 goes offline" in process.log_file.read_text(encoding="utf-8")
        assert process.is_running and admin.describe_topics(["single"])
        admin.alter_configs(
            [
                ConfigResource(
                    ConfigResourceType.BROKER, "1", configs={"odradek.controlled.shutdown.refuse": "none"}
                )
            ]
        )
        admin.close()
        # The new policy takes a moment to arrive.
        retrying(lambda: is_answered() and not process.is_running, "it stops")
        assert process.wait(1) == 0


def test_partitions_are_named_by_whom_they_are_of(tmp_path: Path) -> None:
    with moves(tmp_path, brokers=2) as two:
        two.create("single", 1)
        two.create("other", 2)
        two.create("both", 1, 2)
        assert only_here(two.cluster.runtimes[1].broker) == [TopicPartition("single", 0)]
