"""Configuration that somebody else writes into the store: an Apache broker, its ConfigCommand, or a hand. Every
broker notices, applies what it can at once, and says what it cannot."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from odradek.broker.quotas import MUTATION_RATE
from odradek.model.ids import TopicPartition
from odradek.protocol.headers import encode_request
from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.store import api, layout, transactions
from odradek.testing.running_cluster import LocalCluster
from tests.server.test_running_cluster import create


def in_loop(tmp_path: Path, body: Callable[[LocalCluster], Awaitable[None]], brokers: int = 2) -> None:
    async def main() -> None:
        cluster = LocalCluster(tmp_path, brokers, {})
        try:
            async with asyncio.timeout(120):
                await cluster.start()
                await body(cluster)
        finally:
            await cluster.stop()

    asyncio.run(main())


async def write(cluster: LocalCluster, kind: str, name: str, config: Mapping[str, str]) -> None:
    """The node and its announcement, as every tool writes them."""
    await cluster.ensemble.open().write([transactions.write_config(kind, name, config)], None)


async def write_raw(cluster: LocalCluster, kind: str, name: str, data: bytes) -> None:
    announcement = api.Create(
        layout.CONFIG_CHANGE, layout.encode_config_change(f"{kind}/{name}"), sequential=True
    )
    put = api.Put(layout.config_path(kind, name), data)
    await cluster.ensemble.open().write([api.ConditionalOps((put, announcement))], None)


def test_a_default_of_all_brokers_reaches_every_one_and_gives_way_to_its_own(tmp_path: Path) -> None:
    async def body(cluster: LocalCluster) -> None:
        def limits() -> list[int]:
            return [runtime.broker.settings.message_max_bytes for runtime in cluster.runtimes.values()]

        await write(cluster, "brokers", "<default>", {"message.max.bytes": "5000"})
        await cluster.until(lambda: limits() == [5000, 5000], "both know the default")
        await write(cluster, "brokers", "2", {"message.max.bytes": "6000"})
        await cluster.until(lambda: limits() == [5000, 6000], "one has its own")
        await cluster.stop_broker(2)
        await cluster.start_broker(2)
        await cluster.until(lambda: limits() == [5000, 6000], "and after a restart too")
        await write(cluster, "brokers", "2", {})
        await write(cluster, "brokers", "<default>", {})
        await cluster.until(lambda: limits() == [1048588, 1048588], "all is as the file says")

    in_loop(tmp_path, body)


def test_settings_of_the_cleaner_reach_it_while_it_runs(tmp_path: Path) -> None:
    given = {
        "log.cleaner.backoff.ms": "70000",
        "log.cleaner.io.max.bytes.per.second": "5000000",
        "log.cleaner.dedupe.buffer.size": "2097152",
        "log.cleaner.io.buffer.load.factor": "0.5",
    }

    async def body(cluster: LocalCluster) -> None:
        (runtime,) = cluster.runtimes.values()
        assert runtime.parts is not None
        cleaning = runtime.parts.disk._cleaning
        assert cleaning.backoff_ms == 15_000
        await write(cluster, "brokers", "<default>", given)
        await cluster.until(lambda: cleaning.backoff_ms == 70_000, "the cleaner waits longer")
        now = cleaning._settings()
        assert now.log_cleaner_io_max_bytes_per_second == 5_000_000
        assert (now.log_cleaner_dedupe_buffer_size, now.log_cleaner_io_buffer_load_factor) == (2_097_152, 0.5)

    in_loop(tmp_path, body, brokers=1)


def test_bad_nodes_are_named_once_and_what_is_good_is_applied(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(cluster: LocalCluster) -> None:
        await create(cluster, "orders", (1,))
        runtime = cluster.runtimes[1]
        log = runtime.broker.replicas.partitions[TopicPartition("orders", 0)].log
        with caplog.at_level(logging.WARNING, "odradek.server"):
            await write_raw(cluster, "brokers", "1", b"{not json")
            await write_raw(cluster, "topics", "orders", b'{"version":99,"config":{}}')
            await write_raw(cluster, "users", "ann", b"[]")
            await write(
                cluster,
                "brokers",
                "<default>",
                {"no.such.key": "1", "log.retention.ms": "x", "log.roll.ms": "7"},
            )
            await cluster.until(lambda: log.config.segment_ms == 7, "the good one of the three is applied")
        text = caplog.text
        for named in ("/config/brokers/1", "/config/topics/orders", "/config/users/ann"):
            assert named in text
        assert "no.such.key" in text
        assert "log.retention.ms" in text
        assert runtime.controller.is_leading or cluster.runtimes[2].controller.is_leading
        await write(cluster, "topics", "orders", {"segment.ms": "9", "no.such.key": "1"})
        await cluster.until(lambda: log.config.segment_ms == 9, "a topic that is written again is applied")

    in_loop(tmp_path, body)


def test_a_limit_of_connections_holds_for_the_next_one(tmp_path: Path) -> None:
    async def body(cluster: LocalCluster) -> None:
        (endpoint,) = cluster.runtimes[1].endpoints

        async def is_refused() -> bool:
            """Closed without an answer."""
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            question = encode_request(ApiVersionsRequest.KEY, 0, 1, "me", ApiVersionsRequest().encode(0))
            try:
                writer.write(question)
                return await reader.read(1) == b""
            except ConnectionError:
                return True
            finally:
                writer.close()

        assert not await is_refused()
        await write(cluster, "brokers", "1", {"max.connections.per.ip.overrides": "127.0.0.1:0"})
        settings = cluster.runtimes[1].broker
        await cluster.until(
            lambda: settings.settings.max_connections_per_ip_overrides != "", "the limit is known"
        )
        assert await is_refused()
        await write(cluster, "brokers", "1", {})
        await cluster.until(
            lambda: settings.settings.max_connections_per_ip_overrides == "", "the limit is gone"
        )
        assert not await is_refused()

    in_loop(tmp_path, body, brokers=1)


def test_quotas_of_users_and_their_clients_are_noticed_and_found_at_the_start(tmp_path: Path) -> None:
    async def body(cluster: LocalCluster) -> None:
        def rates() -> list[float | None]:
            found = [
                runtime.broker.quotas.find(MUTATION_RATE, "ann", "app")
                for runtime in cluster.runtimes.values()
            ]
            return [None if quota is None else quota.rate for quota in found]

        await write(cluster, "users", "ann/clients/app", {MUTATION_RATE: "2.5"})
        await cluster.until(lambda: rates() == [2.5, 2.5], "both know the quota")
        await cluster.stop_broker(2)
        await cluster.start_broker(2)
        await cluster.until(lambda: rates() == [2.5, 2.5], "and after a restart too")

    in_loop(tmp_path, body)


def test_the_version_of_the_feature_node_is_known_to_all(tmp_path: Path) -> None:
    async def body(cluster: LocalCluster) -> None:
        def epochs() -> set[int]:
            return {runtime.broker.features_epoch for runtime in cluster.runtimes.values()}

        await cluster.until(lambda: epochs() == {0}, "the controller has made /feature")
        await cluster.ensemble.open().set(layout.FEATURE, layout.encode_feature({"theirs": 2}))
        await cluster.until(lambda: epochs() == {1}, "a change of it is noticed")
        assert all(r.broker.finalized_features == {"theirs": 2} for r in cluster.runtimes.values())

    in_loop(tmp_path, body)


def test_an_address_that_is_advertised_anew_reaches_everybody_in_the_same_life(tmp_path: Path) -> None:
    async def body(cluster: LocalCluster) -> None:
        epoch = cluster.runtimes[1].broker.broker_epoch
        port = cluster.runtimes[1].endpoints[0].port

        def hosts() -> list[str]:
            return [
                runtime.broker.metadata.brokers[1].endpoints["PLAINTEXT"].host
                for runtime in cluster.runtimes.values()
            ]

        assert hosts() == ["127.0.0.1"] * 2
        await write(cluster, "brokers", "1", {"advertised.listeners": f"PLAINTEXT://127.0.0.2:{port}"})
        await cluster.until(lambda: hosts() == ["127.0.0.2"] * 2, "both know the new address")
        await write(cluster, "brokers", "1", {"advertised.listeners": "OTHER://127.0.0.3:1"})
        await write(cluster, "brokers", "1", {})
        await cluster.until(lambda: hosts() == ["127.0.0.1"] * 2, "and the old one again")
        assert cluster.runtimes[1].broker.broker_epoch == epoch

    in_loop(tmp_path, body)
