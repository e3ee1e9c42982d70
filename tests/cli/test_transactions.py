"""`odradek txn`: against brokers in this process, and a producer that is another client."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest

from odradek.client import sync_transactions
from odradek.client.sync import SyncClient
from odradek.client.sync_connection import Unreachable
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages import produce as pm
from odradek.protocol.messages.list_transactions import ListTransactionsRequest
from odradek.testing.running_cluster import running_cluster
from tests.broker.world import batch
from tests.cli.conftest import Shell
from tests.cli.test_sources import view
from tests.support import eventually

PLACE = TopicPartition("orders", 0)


def test_an_open_transaction_is_listed_described_and_left_to_its_coordinator() -> None:
    settings = {"transaction.state.log.num.partitions": "3", "offsets.topic.num.partitions": "1"}
    with running_cluster(brokers=3, settings=settings) as cluster:
        shell = Shell(cluster.bootstrap)
        shell.ok("topic", "create", "orders", "-p", 1, "-r", 3)
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": cluster.bootstrap, "transactional.id": "till-1"}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", b"one")
        assert producer.flush(30) == 0

        (row,) = shell.json("txn", "list", "--state", "Ongoing")
        assert row["transactional_id"] == "till-1"
        told = shell.json("txn", "describe", "till-1")
        assert (told["state"], told["partitions"]) == ("Ongoing", ["orders-0"])
        assert shell("txn", "describe", "nobody")[0] != 0
        assert shell.json("txn", "find-hanging", "--older-than-ms", 0) == []
        asked = ("txn", "abort", "orders", 0, "--producer", told["producer_id"], "--yes")
        code, _, err = shell(*asked)
        assert code != 0 and "nothing is written" in err

        producer.commit_transaction(30)
        assert shell.json("txn", "list", "--state", "Ongoing") == []
        assert "no transaction open" in shell(*asked)[2]


def test_a_transaction_that_no_coordinator_knows_is_found_and_ended() -> None:
    """As one that an old client opened behind the marker of its transaction, where nobody verifies."""
    settings = {"transaction.partition.verification.enable": "false"}
    with running_cluster(brokers=1, settings=settings) as cluster:
        shell = Shell(cluster.bootstrap)
        shell.ok("topic", "create", "orders", "-p", 1, "-r", 1)
        with SyncClient(cluster.bootstrap) as client:
            records = batch(b"lost", producer_id=77, producer_epoch=3, base_sequence=0, is_transactional=True)
            leader, _ = client.leader(PLACE)
            rows = [pm.PartitionProduceData(index=0, records=records)]
            client.call(
                leader,
                pm.ProduceRequest(
                    transactional_id="gone",
                    acks=-1,
                    timeout_ms=10_000,
                    topic_data=[pm.TopicProduceData(name="orders", partition_data=rows)],
                ),
                max_version=11,  # from 12 on the leader adds the partition to the transaction
            )
            find = ("txn", "find-hanging", "--older-than-ms", 0)
            for missing in ((*find, "--topic", "order"), ("txn", "abort", "order", 0, "--producer", 77)):
                code, _, err = shell(*missing)
                assert (code, err) == (1, "odradek: there is no topic order; did you mean orders?\n")
            (row,) = shell.json(*find)
            assert (row["partition"], row["producer_id"], row["start_offset"]) == ("orders-0", 77, 0)
            assert shell(*find)[0] == 1
            age_ms = int(time.time() * 1000) - row["last_timestamp"]
            younger = ("txn", "find-hanging", "--older-than-ms", age_ms + 60_000)
            assert shell.json(*younger) == [], "its coordinator may have opened it since it was asked"

            (would,) = shell.json("txn", "abort", "orders", 0, "--producer", 77)["results"]
            assert (would["target"], would["done"], would["start_offset"]) == ("orders-0", False, 0)
            code, said, _ = shell("txn", "abort", "orders", 0, "--producer", 77)
            assert (code, said.split()[:2]) == (1, ["would", "abort"])  # nothing was done, as of every --yes
            assert shell(*find)[0] == 1
            assert shell.ok("txn", "abort", "orders", 0, "--producer", 77, "--yes").startswith("aborted")

            assert shell.json(*find) == []
            (known,) = sync_transactions.producers(client, PLACE)
            assert known.current_txn_start_offset == -1


def test_one_of_a_producer_that_has_another_transaction_open_elsewhere_is_found_and_ended_too() -> None:
    """Its coordinator will never send a marker to a partition that is not of the transaction it knows (KIP-664)."""
    settings = {
        "transaction.partition.verification.enable": "false",
        "transaction.state.log.num.partitions": "1",
    }
    with running_cluster(brokers=1, settings=settings) as cluster:
        shell = Shell(cluster.bootstrap)
        shell.ok("topic", "create", "orders", "-p", 1, "-r", 1)
        shell.ok("topic", "create", "audit", "-p", 1, "-r", 1)
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": cluster.bootstrap, "transactional.id": "till-2"}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("audit", b"one")
        assert producer.flush(30) == 0
        told = shell.json("txn", "describe", "till-2")
        number, epoch = told["producer_id"], told["producer_epoch"]
        with SyncClient(cluster.bootstrap) as client:
            records = batch(
                b"lost", producer_id=number, producer_epoch=epoch, base_sequence=0, is_transactional=True
            )
            rows = [pm.PartitionProduceData(index=0, records=records)]
            request = pm.ProduceRequest(
                transactional_id="till-2",
                acks=-1,
                timeout_ms=10_000,
                topic_data=[pm.TopicProduceData(name="orders", partition_data=rows)],
            )
            client.call(client.leader(PLACE)[0], request, max_version=11)
        (row,) = shell.json("txn", "find-hanging", "--older-than-ms", 0)
        assert (row["partition"], row["producer_id"]) == ("orders-0", number)
        code, _, err = shell("txn", "abort", "audit", 0, "--producer", number, "--yes")
        assert code == 1 and "till-2 is Ongoing" in err and err.endswith("nothing is written\n")
        assert shell.ok("txn", "abort", "orders", 0, "--producer", number, "--yes").startswith("aborted")
        assert shell.json("txn", "find-hanging", "--older-than-ms", 0) == []
        producer.commit_transaction(30)


def test_a_partition_without_a_leader_does_not_keep_back_what_hangs_elsewhere(
    start_cluster: Callable[..., Any],
) -> None:
    cluster, shell = start_cluster(2)
    controller = shell.json("cluster", "health")["controller"]
    victim = 3 - controller
    shell.ok("topic", "create", "lonely", "--assign", victim)
    shell.ok("topic", "create", "orders", "--assign", controller)
    find = ("txn", "find-hanging", "--older-than-ms", 0)
    assert shell(*find, "--json") == (0, "[]\n", "")
    cluster.kill(victim)
    eventually(lambda: shell.json("cluster", "health")["missing_brokers"] == [victim], what="it is missed")
    told = "odradek: not known: lonely-0: lonely-0 has no leader at the moment\n"
    assert shell(*find, "--json") == (1, "[]\n", told)
    assert shell(*find, "--json", "--topic", "orders") == (0, "[]\n", "")


def test_a_silent_leader_is_not_waited_for_with_each_of_its_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each took up to half a minute, of a thousand partitions hours."""
    asked: list[str] = []

    def call(_client: object, broker: int, request: Any, *_: object) -> Any:
        (topic,) = request.topics
        asked.append(f"{topic.name}-{topic.partition_indexes[0]}")
        if broker == 1:
            raise Unreachable("broker 1: h:1 accepts connections but gives no answer in time")
        row = SimpleNamespace(partition_index=topic.partition_indexes[0], error_code=0, active_producers=[])
        return SimpleNamespace(topics=[SimpleNamespace(name=topic.name, partitions=[row])])

    seen = view([1, 2], t=[([1], []), ([2], []), ([1], []), ([1], [])])
    monkeypatch.setattr(SyncClient, "cluster", lambda *_: seen)
    monkeypatch.setattr(
        SyncClient, "leader", lambda _, where: (seen.topics["t"].partitions[where.partition].leader, None)
    )
    monkeypatch.setattr(SyncClient, "_call", call)
    monkeypatch.setattr(sync_transactions, "list_transactions", lambda *_: sync_transactions.Listed([], {}))
    code, out, err = Shell("h:1")("txn", "find-hanging")
    assert asked == ["t-0", "t-1"]
    assert (code, out.count("\n")) == (1, 1)
    assert err == (
        "odradek: not known: t-0 and 2 more: broker 1: h:1 accepts connections but gives no answer in time\n"
    )


def test_a_broker_that_comes_back_meanwhile_tells_its_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    """It restarted while its log was asked for, and was not asked again for what it coordinates."""
    asked: list[int] = []

    def call(_client: object, broker: int, request: Any, *_: object) -> Any:
        if isinstance(request, ListTransactionsRequest):
            asked.append(broker)
            return SimpleNamespace(error_code=0, transaction_states=[])
        raise Unreachable("no broker answers at h:1: connection refused")

    seen = view([1], t=[([1], [])])
    monkeypatch.setattr(SyncClient, "cluster", lambda *_, **__: seen)
    monkeypatch.setattr(SyncClient, "leader", lambda *_: (1, None))
    monkeypatch.setattr(SyncClient, "_call", call)
    code, out, err = Shell("h:1")("txn", "find-hanging", "--json")
    assert asked == [1]
    assert (code, out) == (1, "[]\n")
    assert err == "odradek: not known: t-0: no broker answers at h:1: connection refused\n"


def test_a_coordinator_that_does_not_answer_does_not_keep_back_what_the_others_say(
    start_cluster: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `group list`."""
    cluster, shell = start_cluster(2)
    shell.ok("topic", "create", "orders", "-p", 1, "-r", 1)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": "till-3"}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("orders", b"one")
    assert producer.flush(30) == 0
    (row,) = shell.json("txn", "list")
    silent = 3 - row["coordinator"]
    call = SyncClient.call

    def answers_but_one(client: SyncClient, broker: int, request: Any, **options: Any) -> Any:
        if broker == silent and isinstance(request, ListTransactionsRequest):
            raise ProtocolError(ErrorCode.UNKNOWN_SERVER_ERROR, "no answer in time")
        return call(client, broker, request, **options)

    monkeypatch.setattr(SyncClient, "call", answers_but_one)
    told = f"odradek: transactions of broker {silent} are not known: no answer in time\n"
    code, out, err = shell("txn", "list")
    assert (code, err) == (1, told) and "till-3" in out
    assert shell.json("txn", "list") == [row]
    assert "Ongoing" in shell.ok("txn", "describe", "till-3")
    code, out, err = shell("txn", "describe", "till-4")
    assert (code, out) == (1, "")
    assert err == "odradek: no broker that answers knows transactional id till-4; " + told.removeprefix(
        "odradek: "
    )
    code, out, err = shell("txn", "find-hanging", "--older-than-ms", 0)
    assert code == 1 and f"odradek: not known: transactions of broker {silent}: no answer in time\n" in err
    assert "orders-0: whether that of producer" not in err, "its coordinator has told that it is open"
    monkeypatch.setattr(sync_transactions, "OPEN_STATES", ("Dead",))  # nobody who answers knows it
    code, out, err = shell("txn", "find-hanging", "--older-than-ms", 0, "--json")
    assert (code, out) == (1, "[]\n"), "whether it hangs only all of them together can say"
    assert f"orders-0: whether that of producer {row['producer_id']} hangs" in err
    code, out, err = shell("txn", "abort", "orders", 0, "--producer", row["producer_id"], "--yes")
    assert (code, out) == (1, "") and err == told.removesuffix("\n") + ": nothing is written\n"
    producer.abort_transaction(30)
