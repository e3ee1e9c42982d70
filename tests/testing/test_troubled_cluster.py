"""What `running_cluster` does to its brokers on demand, as a client of somebody else sees it."""

import asyncio
import gc
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka import TopicPartition as ClientPartition

from odradek.client.sync import ANY, SyncClient
from odradek.client.sync_connection import ConnectionLost
from odradek.model.errors import ConfigurationError, ProtocolError
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.create_topics import CreateTopicsRequest
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest
from odradek.testing import administration
from odradek.testing.running_cluster import LocalCluster, RunningCluster, running_cluster

TOPIC = "orders"
ORDERS = TopicPartition(TOPIC, 0)
SETTINGS = {"min.insync.replicas": "2", "log.retention.check.interval.ms": "60000"}


@pytest.fixture(scope="module")
def shared() -> Iterator[RunningCluster]:
    with running_cluster(brokers=3, settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, replication_factor=3)
        yield cluster


@pytest.fixture
def cluster(shared: RunningCluster) -> Iterator[RunningCluster]:
    yield shared
    assert shared.cluster.injections.all == ()
    shared.wait_until(lambda: len(shared.isr(TOPIC)) == 3, "the ISR is full for the next test")


def produced(cluster: RunningCluster, *, timeout_s: float = 60.0, **settings: object) -> KafkaError | int:
    """One record with acks=all: its offset, or why not."""
    outcome: list[KafkaError | int] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "message.timeout.ms": int(timeout_s * 1000),
            "retry.backoff.ms": 10,
            **settings,
        }
    )
    producer.produce(
        TOPIC,
        b"one",
        partition=0,
        on_delivery=lambda error, record: outcome.append(record.offset() if error is None else error),
    )
    assert producer.flush(timeout_s + 10) == 0
    return outcome[0]


def end_offset(cluster: RunningCluster) -> int:
    with SyncClient(cluster.bootstrap) as client:
        return client.end_offsets([ORDERS])[ORDERS]


def other_than(cluster: RunningCluster, *brokers: int) -> int:
    return next(broker for broker in cluster.cluster.ids if broker not in brokers)


def test_a_topic_is_created_and_its_leader_moves(cluster: RunningCluster) -> None:
    cluster.create_topic("audit", partitions=2, replication_factor=2, configs={"retention.ms": "1000"})
    leader = cluster.leader("audit", 1)
    (follower,) = (broker for broker in cluster.isr("audit", 1) if broker != leader)

    cluster.move_leader("audit", 1, to=follower)

    assert cluster.leader("audit", 1) == follower
    with pytest.raises(ProtocolError, match=r"topic audit: TOPIC_ALREADY_EXISTS"):
        cluster.create_topic("audit")
    with pytest.raises(ConfigurationError, match="has no replica of it"):
        cluster.move_leader("audit", 1, to=other_than(cluster, leader, follower))
    with pytest.raises(ConfigurationError, match="audit has 2 partitions"):
        cluster.leader("audit", 2)


def test_a_leader_moves_also_where_the_controller_has_just_died(cluster: RunningCluster) -> None:
    """Nobody was controller for the moment in which the election was to be asked for: Unreachable."""
    name = "moved-without-a-controller"
    cluster.create_topic(name, replication_factor=3)
    controller = cluster.controller
    assert controller is not None
    target = other_than(cluster, cluster.leader(name), controller)
    original = SyncClient.call
    met: list[int] = []

    def call(self: SyncClient, broker: int, request: Any, **options: Any) -> Any:
        if isinstance(request, ElectLeadersRequest) and not met:
            met.append(controller)
            cluster.kill(controller)
        return original(self, broker, request, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SyncClient, "call", call)
        cluster.move_leader(name, to=target)
    cluster.start(controller)
    assert (met, cluster.leader(name)) == ([controller], target)


def test_a_topic_that_was_created_and_whose_answer_was_lost_is_there(cluster: RunningCluster) -> None:
    """It was asked for again, and refused: TOPIC_ALREADY_EXISTS. One that was there before is refused as ever."""
    original = SyncClient.call
    lost: list[str] = []

    def call(self: SyncClient, broker: int, request: Any, **options: Any) -> Any:
        answer = original(self, broker, request, **options)
        if isinstance(request, CreateTopicsRequest) and not lost:
            lost.append(request.topics[0].name)
            raise ConnectionLost("closed by the other side")
        return answer

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SyncClient, "call", call)
        cluster.create_topic("created-and-lost")
    assert lost == ["created-and-lost"] and cluster.leader("created-and-lost") in cluster.cluster.ids
    with pytest.raises(ProtocolError, match="TOPIC_ALREADY_EXISTS"):
        cluster.create_topic("created-and-lost")


def test_a_topic_has_all_the_time_that_was_given_to_it(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(administration, "ANSWER_S", 0.001)  # of other questions
    cluster.create_topic("wide", partitions=100, deadline_s=60)
    monkeypatch.undo()
    assert cluster.leader("wide", 99) in cluster.cluster.ids


def test_a_producer_tries_again_after_an_error_and_no_record_is_there_twice(cluster: RunningCluster) -> None:
    before = end_offset(cluster)
    with cluster.inject("Produce", error="NOT_LEADER_OR_FOLLOWER", topic=TOPIC, partition=0, times=2) as met:
        assert produced(cluster) == before

    assert met.hits == 2
    assert end_offset(cluster) == before + 1


def test_an_idempotent_producer_survives_a_lost_answer_and_another_writes_twice(
    cluster: RunningCluster,
) -> None:
    before = end_offset(cluster)
    with cluster.inject("Produce", close=True, after=True, times=1) as met:
        assert produced(cluster, **{"enable.idempotence": True}) == before
    assert (met.hits, end_offset(cluster)) == (1, before + 1)

    with cluster.inject("Produce", close=True, after=True, times=1) as met:
        assert produced(cluster) == before + 2
    assert (met.hits, end_offset(cluster)) == (1, before + 3)


def test_a_consumer_hears_an_error_in_what_it_fetches(cluster: RunningCluster) -> None:
    last = produced(cluster)
    assert isinstance(last, int)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
    consumer.assign([ClientPartition(TOPIC, 0, last)])
    with cluster.inject("Fetch", error="NOT_LEADER_OR_FOLLOWER", topic=TOPIC, times=3) as met:
        record = consumer.poll(60)

    assert record is not None and record.error() is None
    assert record.offset() == last
    assert met.hits == 3
    consumer.close()


def test_below_min_isr_acks_all_is_refused_and_afterwards_the_isr_fills(cluster: RunningCluster) -> None:
    leader = cluster.leader(TOPIC)
    first, second = (broker for broker in cluster.isr(TOPIC) if broker != leader)

    with cluster.shrink_isr(TOPIC, without=first):
        assert set(cluster.isr(TOPIC)) == {leader, second}
        assert isinstance(produced(cluster), int)
        with cluster.shrink_isr(TOPIC, without=second):
            assert cluster.isr(TOPIC) == (leader,)
            before = end_offset(cluster)
            refused = produced(cluster, timeout_s=1.0)
            assert isinstance(refused, KafkaError)
            assert end_offset(cluster) == before
        cluster.wait_until(lambda: second in cluster.isr(TOPIC), "the second is back")
        assert first not in cluster.isr(TOPIC)

    with (
        pytest.raises(AssertionError, match="move the leader first"),
        cluster.shrink_isr(TOPIC, without=cluster.leader(TOPIC)),
    ):
        pass


def test_a_follower_stays_out_of_the_isr_however_much_time_passes(cluster: RunningCluster) -> None:
    leader = cluster.leader(TOPIC)
    follower = other_than(cluster, leader)

    with cluster.shrink_isr(TOPIC, without=follower):
        for _ in range(2):
            cluster.advance(days=400)
            assert isinstance(produced(cluster), int)
            assert follower not in cluster.isr(TOPIC)


@pytest.mark.parametrize("is_awaited", [True, False])
def test_a_follower_that_has_left_the_isr_already_stays_out(
    cluster: RunningCluster, is_awaited: bool
) -> None:
    follower = other_than(cluster, cluster.leader(TOPIC))

    with cluster.paused(follower):
        if is_awaited:
            cluster.wait_until(lambda: follower not in cluster.isr(TOPIC), "its session has ended")
    with cluster.shrink_isr(TOPIC, without=follower):
        assert isinstance(produced(cluster), int)
        assert follower not in cluster.isr(TOPIC)


def test_who_leads_is_looked_at_behind_the_wait_for_what_the_controller_tells(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leader from before it was asked for its followers."""
    leader = cluster.leader(TOPIC)
    follower, next_leader = (broker for broker in cluster.isr(TOPIC) if broker != leader)
    is_told = LocalCluster._is_told
    mover = threading.Thread(target=lambda: cluster.move_leader(TOPIC, to=next_leader))

    def moves_meanwhile(local: LocalCluster, broker_id: int) -> bool:
        if mover.ident is None:
            mover.start()
        return not mover.is_alive() and is_told(local, broker_id)

    monkeypatch.setattr(LocalCluster, "_is_told", moves_meanwhile)
    with cluster.shrink_isr(TOPIC, without=follower):
        assert cluster.leader(TOPIC) == next_leader
        assert follower not in cluster.isr(TOPIC)


def test_a_follower_that_does_not_run_is_named(cluster: RunningCluster) -> None:
    """It was a KeyError."""
    leader = cluster.leader(TOPIC)
    follower = other_than(cluster, leader)
    cluster.kill(follower)
    try:
        with (
            pytest.raises(AssertionError, match=f"broker {follower} does not run; there run "),
            cluster.shrink_isr(TOPIC, without=follower),
        ):
            pass
    finally:
        cluster.start(follower)
    cluster.wait_until(lambda: len(cluster.isr(TOPIC)) == 3, "it follows")


def test_a_follower_that_cannot_leave_the_isr_goes_on(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cluster.leader(TOPIC) == cluster.controller:
        cluster.move_leader(TOPIC, to=other_than(cluster, cluster.leader(TOPIC)))
    leader, controller = cluster.leader(TOPIC), cluster.controller
    assert controller is not None
    follower = other_than(cluster, leader, controller)
    until = LocalCluster.until

    async def impatient(local: LocalCluster, holds: Callable[[], bool], what: str) -> None:
        """Only with what cannot come about: how long the steps before it take is the machine's."""
        await until(local, holds, what, 0.5 if "has left the ISR" in what else 60.0)

    with (
        monkeypatch.context() as patched,
        cluster.partition([leader], [controller]),
        pytest.raises(AssertionError, match=f"broker {follower} has left the ISR of orders-0"),
    ):
        patched.setattr(LocalCluster, "until", impatient)
        with cluster.shrink_isr(TOPIC, without=follower):
            pass

    assert isinstance(produced(cluster), int)
    cluster.wait_until(lambda: len(cluster.isr(TOPIC)) == 3, "it follows")


def test_a_paused_leader_is_replaced_and_comes_back(cluster: RunningCluster) -> None:
    leader = cluster.leader(TOPIC)

    with cluster.paused(leader):
        cluster.wait_until(lambda: cluster.leader(TOPIC) not in (leader, -1), "another leads")
        assert leader not in cluster.isr(TOPIC)
        assert isinstance(produced(cluster), int)

    cluster.wait_until(lambda: leader in cluster.isr(TOPIC), "it is back in the ISR")


def test_a_paused_broker_that_the_store_does_not_give_up_keeps_its_place(cluster: RunningCluster) -> None:
    leader = cluster.leader(TOPIC)

    with cluster.paused(leader, session_ends_after_s=None):
        late = produced(cluster, timeout_s=1.0)
        assert isinstance(late, KafkaError)
        assert cluster.leader(TOPIC) == leader

    assert isinstance(produced(cluster), int)


def test_a_paused_broker_that_the_store_has_given_up_comes_back_when_it_is_resumed(
    cluster: RunningCluster,
) -> None:
    cluster.create_topic("alone", replication_factor=1)
    leader = cluster.leader("alone")

    with cluster.paused(leader):
        cluster.wait_until(lambda: cluster.leader(TOPIC) not in (leader, -1), "another leads the rest")
        cluster.create_topic("meanwhile", partitions=3, replication_factor=1)
        assert cluster.leader("alone") == -1
        assert leader not in {cluster.leader("meanwhile", partition) for partition in range(3)}
        assert cluster.controller != leader
    cluster.wait_until(lambda: cluster.leader("alone") == leader, "it leads again")


def test_time_passes_for_the_others_while_a_broker_is_paused_or_dead(cluster: RunningCluster) -> None:
    paused, dead = (broker for broker in cluster.cluster.ids if broker != cluster.leader(TOPIC))

    with cluster.paused(paused):
        cluster.advance(hours=1)
        cluster.wait_until(lambda: paused not in cluster.isr(TOPIC), "it has left the ISR")
    cluster.wait_until(lambda: len(cluster.isr(TOPIC)) == 3, "the ISR is full")
    cluster.kill(dead)
    cluster.advance(hours=1)
    cluster.start(dead)


def test_time_passes_while_a_follower_is_out_of_reach_that_the_store_still_knows(
    cluster: RunningCluster,
) -> None:
    """It leaves the ISR then, and is not waited for."""
    follower = other_than(cluster, cluster.leader(TOPIC), cluster.controller or 0)
    with cluster.paused(follower, session_ends_after_s=60):
        cluster.advance(hours=1)
        cluster.wait_until(lambda: follower not in cluster.isr(TOPIC), "it has left the ISR")
    cluster.wait_until(lambda: len(cluster.isr(TOPIC)) == 3, "the ISR is full")
    for silent in (cluster.paused(follower, session_ends_after_s=None), cluster.partition([follower])):
        with silent:
            assert isinstance(produced(cluster, acks=1), int)
            cluster.advance(hours=1)
            cluster.wait_until(lambda: follower not in cluster.isr(TOPIC), "it has left the ISR")
        cluster.wait_until(lambda: len(cluster.isr(TOPIC)) == 3, "the ISR is full")


def test_a_broker_that_is_killed_while_it_is_paused_starts_again(cluster: RunningCluster) -> None:
    broker = other_than(cluster, cluster.leader(TOPIC))

    with cluster.paused(broker):
        cluster.kill(broker)
    cluster.start(broker)

    cluster.wait_until(lambda: broker in cluster.isr(TOPIC), "it is back in the ISR")


def test_a_broker_that_is_paused_is_not_stopped_in_order(cluster: RunningCluster) -> None:
    broker = other_than(cluster, cluster.leader(TOPIC))

    with (
        cluster.paused(broker, session_ends_after_s=None),
        pytest.raises(AssertionError, match=r"is paused and hears nothing; resume or kill it"),
    ):
        cluster.stop_in_order(broker)
    cluster.stop_in_order(broker)
    cluster.start(broker)


def test_the_end_of_a_session_is_that_of_its_own_pause(cluster: RunningCluster) -> None:
    broker = other_than(cluster, cluster.leader(TOPIC))
    cluster.pause(broker, session_ends_after_s=3600)
    cluster.resume(broker)

    with cluster.paused(broker, session_ends_after_s=None):
        cluster.advance(hours=2)
        assert broker in cluster.isr(TOPIC)


def test_what_a_paused_broker_held_back_does_not_leave_when_it_is_killed(cluster: RunningCluster) -> None:
    broker = cluster.leader(TOPIC)
    order: list[str] = []
    runtime, links = cluster.cluster.runtimes[broker], cluster.cluster.links
    crash, let_speak = runtime.crash, links.let_speak

    with cluster.paused(broker), pytest.MonkeyPatch.context() as patched:
        patched.setattr(runtime, "crash", lambda: (order.append("crash"), crash()))
        patched.setattr(links, "let_speak", lambda id: (order.append("speaks"), let_speak(id)))
        cluster.kill(broker)
    cluster.start(broker)

    assert order == ["crash", "speaks"]


def test_a_broker_that_there_is_not_is_neither_started_nor_met(cluster: RunningCluster) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no broker 4; there are \[1, 2, 3\]"):
        cluster.start(4)
    with pytest.raises(ConfigurationError, match="there is no broker 4"):
        cluster.inject("Produce", close=True, broker=4)
    with pytest.raises(ConfigurationError, match="there is no broker 4"):
        cluster.resume(4)
    with pytest.raises(ConfigurationError, match="there is no broker '1'"):
        cluster.kill("1")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="orders has 1 partition, and no 7"):
        cluster.leader(TOPIC, 7)


@pytest.mark.filterwarnings("error")
def test_a_cluster_that_has_ended_says_so() -> None:
    with running_cluster(brokers=1) as cluster:
        pass

    with pytest.raises(ConfigurationError, match="the cluster has ended"):
        cluster.kill(1)
    gc.collect()  # a coroutine that nobody awaits warns then


def test_what_is_not_done_in_time_is_named(cluster: RunningCluster) -> None:
    may_end = asyncio.Event()

    async def wait_for_it() -> None:
        await may_end.wait()

    async def let_it_end() -> None:
        may_end.set()

    async def fail() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match=r"wait_for_it: not done within 0\.01 s"):
        cluster.call(wait_for_it(), 0.01)
    cluster.call(let_it_end())
    with pytest.raises(TimeoutError, match="its own"):
        cluster.call(fail())


def test_a_leader_cut_off_from_its_followers_acknowledges_nothing_until_it_heals(
    cluster: RunningCluster,
) -> None:
    leader = cluster.leader(TOPIC)

    with cluster.partition([leader]):
        assert isinstance(produced(cluster, timeout_s=1.0), KafkaError)
    assert isinstance(produced(cluster), int)


def test_a_week_passes_and_retention_deletes_what_is_older() -> None:
    with running_cluster(brokers=3, settings=SETTINGS) as cluster:
        cluster.create_topic(TOPIC, replication_factor=3, configs={"retention.ms": str(6 * 86_400_000)})
        assert produced(cluster) == 0
        consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([TOPIC])
        record = consumer.poll(60)
        assert record is not None and record.offset() == 0

        cluster.advance(days=7)

        def begins_at() -> int:
            with SyncClient(cluster.bootstrap) as client:
                return client.begin_offsets([ORDERS])[ORDERS]

        cluster.wait_until(lambda: begins_at() == 1, "the record is gone")
        assert len(cluster.isr(TOPIC)) == 3
        assert produced(cluster) == 1
        record = consumer.poll(60)  # its session is over, and it has joined again
        assert record is not None and record.offset() == 1
        consumer.close()
        for days in (-1.0, math.nan, math.inf, 1e300):
            with pytest.raises(ConfigurationError, match="time only goes forward, and by 100 years at most"):
                cluster.advance(days=days)


def test_nobody_can_be_asked_where_everybody_is_paused(cluster: RunningCluster) -> None:
    for broker in (1, 2, 3):
        cluster.pause(broker, session_ends_after_s=None)
    try:
        with pytest.raises(ConfigurationError, match="no broker can be asked"):
            cluster.leader(TOPIC)
    finally:
        for broker in (1, 2, 3):
            cluster.resume(broker)
    assert cluster.controller in (1, 2, 3)


def test_what_the_cluster_says_is_not_asked_of_a_broker_that_its_controller_does_not_reach(
    cluster: RunningCluster,
) -> None:
    first = next(iter(cluster.cluster.runtimes))
    with cluster.paused(first):
        cluster.wait_until(lambda: cluster.controller not in (None, first), "another is controller")
        cluster.wait_until(lambda: cluster.leader(TOPIC) not in (-1, first), "another leads")
    led = cluster.cluster._led
    cluster.wait_until(lambda: len(led(ORDERS)[1].isr) == 3, "the ISR is full")
    with cluster.partition([first]):
        assert isinstance(produced(cluster, acks=1), int)
        cluster.advance(hours=1)
        cluster.wait_until(lambda: first not in cluster.isr(TOPIC), "it has left the ISR")


def test_the_connections_of_a_paused_broker_stay_open_however_much_time_passes(
    cluster: RunningCluster,
) -> None:
    broker = cluster.leader(TOPIC)
    with SyncClient(cluster.cluster.address(broker)) as client:
        client.cluster([])
        connection = client.connection_to(ANY, client.deadline())
        parts = cluster.cluster.runtimes[broker].parts
        assert parts is not None
        metrics = parts.gateway._metrics
        before = metrics.connections_idle_closed
        with cluster.paused(broker):
            cluster.advance(hours=1)
            cluster.wait_until(lambda: metrics.connections_idle_closed > before, "it would be closed")
            cluster.wait_until(lambda: cluster.leader(TOPIC) not in (-1, broker), "another leads")
            assert connection.is_open
        cluster.wait_until(lambda: not connection.is_open, "what was idle is closed")
    with SyncClient(cluster.cluster.address(broker)) as client:
        client.cluster([])
        connection = client.connection_to(ANY, client.deadline())
        with cluster.paused(broker):
            cluster.kill(broker)
            cluster.wait_until(lambda: not connection.is_open, "a process that is dead has no connections")
    cluster.start(broker)
