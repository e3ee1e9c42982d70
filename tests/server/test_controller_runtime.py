"""Election, the settle loop, the queues to brokers, resignation: with a store in memory and brokers that are
sockets.
"""

import asyncio
import json
import logging
import struct
import tempfile
import threading
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from odradek.broker.effects import ControllerRequest
from odradek.client.receive_buffers import BufferPool
from odradek.controller.core import ControllerCore
from odradek.controller.events import Tick
from odradek.log.files import OsDirectory
from odradek.model.cluster import BrokerRegistration, Endpoint, ReplicaAssignment
from odradek.model.controller_requests import (
    AlterPartitionAnswer,
    AlterPartitionAsked,
    AlterPartitionItem,
    ControllerAnswer,
    IsrMember,
)
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import ControllerChanged, TopicsChanged
from odradek.model.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from odradek.model.settings import BrokerSettings
from odradek.protocol.headers import decode_request_header, response_header
from odradek.protocol.messages import request_class, response_class
from odradek.server import controller_runtime
from odradek.server.controller_runtime import ControllerRuntime
from odradek.server.environment import Environment
from odradek.server.journal import Journal
from odradek.server.log_limits import LimitedLog
from odradek.server.metrics import Metrics
from odradek.server.registration import prepare_tree, register
from odradek.store import layout, transactions
from odradek.store.api import (
    Applied,
    Check,
    ConditionalOps,
    Fence,
    NotAllowed,
    Op,
    Set,
    StoreUnavailable,
    TooLarge,
    WriteAnswer,
)
from odradek.store.facts import BrokerFacts
from odradek.store.memory_session import MemoryEnsemble, MemorySession

LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA = 4, 5, 6
TOPIC_ID = TopicId(bytes(range(16)))


class FakeBroker:
    """A socket that answers a controller, and remembers what it was told."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = BrokerId(broker_id)
        self.told: list[tuple[int, Any]] = []
        self.numbers: list[int] = []  # their correlation ids
        self.changed = asyncio.Event()
        self.is_silent = False
        self.errors: dict[int, ErrorCode] = {}
        self.server: asyncio.Server | None = None
        self.writers: list[asyncio.StreamWriter] = []
        self.registration: BrokerRegistration | None = None
        self.disowned: list[Any] = []  # what it answered by which it obeys a later controller

    async def start(self) -> None:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        assert self.server is not None
        port = self.server.sockets[0].getsockname()[1]
        return (Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port),)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                key, version, correlation_id, _, offset = decode_request_header(frame)
                self.told.append((key, request_class(key).decode(version, frame, offset)))
                self.numbers.append(correlation_id)
                self.changed.set()
                if not self.is_silent:
                    answer: Any = response_class(key)()
                    answer.error_code = self.errors.get(key, ErrorCode.NONE)
                    payload = response_header(key, version, correlation_id) + answer.encode(version)
                    writer.write(struct.pack(">i", len(payload)) + payload)
        except (asyncio.IncompleteReadError, ConnectionResetError):
            writer.close()

    def disconnect(self) -> None:
        for writer in self.writers:
            writer.close()
        self.writers.clear()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    def api_keys(self) -> list[int]:
        return [key for key, _ in self.told]

    def last(self, key: int) -> Any:
        return [message for told, message in self.told if told == key][-1]


class Member:
    """One broker's share of being controller: its session, its facts, its runtime."""

    def __init__(self, cluster: "Cluster", broker: FakeBroker) -> None:
        self.cluster = cluster
        self.broker = broker
        self.session: MemorySession = cluster.ensemble.open()
        self.answers: dict[int, ControllerAnswer] = {}
        self.answered: list[int] = []
        self.changed = asyncio.Event()
        self.journal = OsDirectory.create(f"{cluster.directory}/{broker.broker_id}")
        log = LimitedLog(logging.getLogger("odradek.server"), cluster.environment.loop.time)
        self.runtime = ControllerRuntime(
            broker=broker.broker_id,
            environment=cluster.environment,
            settings=BrokerSettings({}),
            pool=cluster.pool,
            inter_broker_listener="PLAINTEXT",
            journal=Journal(self.journal, broker.broker_id, log, cluster.environment),
            log=log,
            metrics=Metrics(),
            after_turn=self.changed.set,
            on_answer=self._answered,
            on_term=lambda epoch: self.changed.set(),
        )
        self.tasks: list[asyncio.Task[None]] = []

    def _answered(self, request_id: int, answer: ControllerAnswer) -> None:
        self.answered.append(request_id)
        self.answers[request_id] = answer
        self.changed.set()

    async def start(self) -> None:
        environment = self.cluster.environment
        self.broker.registration = await register(
            self.session, environment, self.broker.broker_id, self.broker.endpoints, None
        )
        self.tasks = [
            environment.loop.create_task(self.runtime.run(self.session)),
            environment.loop.create_task(self._hear()),
        ]

    async def _hear(self) -> None:
        wake = asyncio.Event()
        facts = BrokerFacts(self.session, wake.set)
        for fact in await facts.load():
            if isinstance(fact, ControllerChanged):
                self.runtime.controller_seen(fact.controller)
        while True:
            await wake.wait()
            wake.clear()
            for fact in await facts.take():
                if isinstance(fact, ControllerChanged):
                    self.runtime.controller_seen(fact.controller)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    async def stop(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


class Cluster:
    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.environment = Environment(asyncio.get_running_loop())
        self.pool = BufferPool()
        self.ensemble = MemoryEnsemble()
        self.operator = self.ensemble.open()
        self.brokers = {n: FakeBroker(n) for n in (1, 2, 3)}
        self.members: dict[int, Member] = {}

    async def start(self, *ids: int) -> None:
        await prepare_tree(self.operator, self.environment)
        for broker_id in ids:
            await self.brokers[broker_id].start()
            self.members[broker_id] = Member(self, self.brokers[broker_id])
            await self.members[broker_id].start()

    async def stop(self) -> None:
        for member in self.members.values():
            await member.stop()
        for broker in self.brokers.values():
            broker.disconnect()
            if broker.server is not None:
                broker.server.close()

    async def create_topic(self, name: str, replicas: tuple[int, ...]) -> None:
        assignment = {0: ReplicaAssignment(tuple(BrokerId(r) for r in replicas))}
        await self.operator.write([transactions.create_topic(name, TOPIC_ID, assignment, {})], None)

    async def state_of(self, name: str) -> Any:
        path = layout.state_path(TopicPartition(name, 0))
        node = await self.operator.get(path)
        return layout.decode_partition_state(path, node.data, node.stat.version)

    def leading(self) -> list[int]:
        return [broker_id for broker_id, member in self.members.items() if member.runtime.is_leading]


def scenario(body: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        with tempfile.TemporaryDirectory() as directory:
            cluster = Cluster(directory)
            try:
                async with asyncio.timeout(60):
                    await body(cluster)
            finally:
                await cluster.stop()

    asyncio.run(main())


def leads(cluster: Cluster, broker_id: int) -> Callable[[], bool]:
    return lambda: cluster.members[broker_id].runtime.core is not None


def test_the_first_broker_is_elected_and_tells_everybody() -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        await cluster.brokers[2].until(lambda: UPDATE_METADATA in cluster.brokers[2].api_keys())

        assert cluster.leading() == [1]
        assert {b.id for b in cluster.brokers[2].last(UPDATE_METADATA).live_brokers} == {1, 2}
        assert (await cluster.operator.get(layout.CONTROLLER_EPOCH)).data == b"1"
        assert layout.decode_feature((await cluster.operator.get(layout.FEATURE)).data) == {
            "transaction.version": 2
        }

    scenario(body)


def test_a_new_topic_is_stored_before_anybody_is_told() -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        await cluster.create_topic("orders", (2, 1))
        await cluster.brokers[2].until(lambda: LEADER_AND_ISR in cluster.brokers[2].api_keys())

        stored = await cluster.state_of("orders")
        assert (stored.leader_and_isr.leader, stored.leader_and_isr.isr) == (2, (2, 1))
        told = cluster.brokers[2].last(LEADER_AND_ISR)
        (topic,) = told.topic_states
        assert (topic.topic_name, topic.topic_id) == ("orders", TOPIC_ID)
        assert topic.partition_states[0].leader == 2
        assert topic.partition_states[0].is_new
        assert told.broker_epoch == cluster.brokers[2].registration.epoch
        await cluster.brokers[2].until(
            lambda: any(m.topic_states for k, m in cluster.brokers[2].told if k == UPDATE_METADATA)
        )
        # Row 171: LeaderAndIsr before the UpdateMetadata of the same event.
        keys = cluster.brokers[2].api_keys()
        assert keys[keys.index(LEADER_AND_ISR) + 1] == UPDATE_METADATA

    scenario(body)


def test_each_deadline_of_the_core_has_its_tick_also_behind_an_earlier_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ticks: list[int] = []
    original = ControllerCore.step

    async def body(cluster: Cluster) -> None:
        clock = cluster.environment.clock
        enough = asyncio.Event()

        def step(core: ControllerCore, event: Any, now_ms: int) -> Any:
            if type(event) is Tick:
                ticks.append(now_ms)
                if len(ticks) == 3:
                    enough.set()
            return original(core, event, now_ms)

        def next_deadline_ms(core: ControllerCore) -> int | None:
            return None if enough.is_set() else clock.now_ms() + 1

        monkeypatch.setattr(ControllerCore, "step", step)
        monkeypatch.setattr(ControllerCore, "next_deadline_ms", next_deadline_ms)
        await cluster.start(1)
        await enough.wait()

    scenario(body)


def test_a_large_step_is_made_by_a_thread_while_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decided, encoded and read back there; the loop is in nobody's way, and the core is shown to nobody meanwhile."""
    steps: list[tuple[str, bool]] = []
    loop_goes_on = threading.Event()
    original = ControllerCore.step

    async def body(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        await cluster.brokers[2].until(lambda: UPDATE_METADATA in cluster.brokers[2].api_keys())
        cluster.environment.large_step = 1
        runtime = next(member.runtime for member in cluster.members.values() if member.runtime.is_leading)

        def look() -> None:
            steps.append(("core shown", runtime.core is not None))
            loop_goes_on.set()

        def step(core: ControllerCore, event: Any, now_ms: int) -> Any:
            steps.append((type(event).__name__, threading.current_thread() is threading.main_thread()))
            if isinstance(event, TopicsChanged):
                cluster.environment.loop.call_soon_threadsafe(look)
                assert loop_goes_on.wait(30), "the loop waits for the step"
            return original(core, event, now_ms)

        monkeypatch.setattr(ControllerCore, "step", step)
        await cluster.create_topic("orders", (2, 1))
        await cluster.brokers[2].until(lambda: LEADER_AND_ISR in cluster.brokers[2].api_keys())
        assert cluster.brokers[2].last(LEADER_AND_ISR).topic_states[0].partition_states[0].leader == 2

    scenario(body)
    at = steps.index(("TopicsChanged", False))
    assert steps[at + 1] == ("core shown", False)
    assert steps[at + 2] == ("WritesAnswered", False)


def test_a_controller_cancelled_within_a_large_step_resigns_when_that_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To resign is a step too, and two at a time would leave a core that nobody knows."""
    order: list[str] = []
    begun, goes_on = threading.Event(), threading.Event()
    original = ControllerCore.step

    async def body(cluster: Cluster) -> None:
        await cluster.start(1)
        await cluster.brokers[1].until(lambda: UPDATE_METADATA in cluster.brokers[1].api_keys())
        cluster.environment.large_step = 1

        def step(core: ControllerCore, event: Any, now_ms: int) -> Any:
            if isinstance(event, TopicsChanged):
                begun.set()
                assert goes_on.wait(30)
            effects = original(core, event, now_ms)
            order.append(type(event).__name__)
            return effects

        monkeypatch.setattr(ControllerCore, "step", step)
        await cluster.create_topic("orders", (1,))
        await asyncio.to_thread(begun.wait, 30)
        member = cluster.members[1]
        for _ in range(2):  # as often as somebody hurries
            for task in member.tasks:
                task.cancel()
            await asyncio.sleep(0)
        assert not member.tasks[0].done()
        goes_on.set()
        await asyncio.gather(*member.tasks, return_exceptions=True)

    scenario(body)
    assert order[0] == "TopicsChanged"


def test_a_dead_leader_is_replaced_and_a_silent_broker_delays_no_other() -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        await cluster.create_topic("orders", (2, 1, 3))
        await cluster.brokers[1].until(lambda: LEADER_AND_ISR in cluster.brokers[1].api_keys())
        cluster.brokers[3].is_silent = True
        told_before = len(cluster.brokers[1].told)

        await cluster.members[2].stop()
        cluster.ensemble.expire(cluster.members[2].session.session_id)
        await cluster.brokers[1].until(
            lambda: any(key == LEADER_AND_ISR for key, _ in cluster.brokers[1].told[told_before:])
        )

        stored = (await cluster.state_of("orders")).leader_and_isr
        assert (stored.leader, stored.leader_epoch, set(stored.isr)) == (1, 1, {1, 3})
        assert cluster.members[1].runtime.unanswered()[BrokerId(3)] > 0

    scenario(body)


def test_what_a_broker_did_not_answer_is_sent_again_in_order() -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        silent = cluster.brokers[2]
        await silent.until(lambda: UPDATE_METADATA in silent.api_keys())
        silent.is_silent = True
        told_before = len(silent.told)
        await cluster.create_topic("orders", (2, 1))
        await silent.until(lambda: len(silent.told) >= told_before + 2)
        first = silent.told[told_before : told_before + 2]

        silent.is_silent = False
        at_cut = len(silent.told)
        silent.disconnect()
        await silent.until(lambda: len(silent.told) >= at_cut + 2)

        assert silent.told[at_cut : at_cut + 2] == first
        assert silent.numbers == sorted(set(silent.numbers)), "what is sent again has a new number"
        await cluster.members[1].until(lambda: True)

    scenario(body)


def test_a_broker_whose_registration_cannot_be_read_for_a_while_keeps_its_queue() -> None:
    """The core holds to what it knew of it and tells it nothing twice: what waited for it must not be thrown away."""

    async def body(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        away = cluster.brokers[2]
        await away.until(lambda: UPDATE_METADATA in away.api_keys())
        away.is_silent = True
        path = layout.broker_path(BrokerId(2))
        node = await cluster.operator.get(path)
        await cluster.operator.write([ConditionalOps((Set(path, b"{"),))], None)
        await cluster.create_topic("orders", (2, 1))
        await away.until(lambda: LEADER_AND_ISR in away.api_keys())
        await cluster.operator.write([ConditionalOps((Set(path, node.data),))], None)
        away.is_silent = False
        away.disconnect()
        await cluster.members[1].until(lambda: not cluster.members[1].runtime.unanswered()[BrokerId(2)])

        assert away.api_keys().count(LEADER_AND_ISR) == 2, "sent again to whoever had not answered"
        assert away.numbers == sorted(set(away.numbers))

    scenario(body)


def test_a_request_is_answered_and_a_broker_that_does_not_lead_says_so() -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        await cluster.create_topic("orders", (2, 1))
        await cluster.brokers[2].until(lambda: LEADER_AND_ISR in cluster.brokers[2].api_keys())
        epoch = cluster.brokers[2].registration.epoch  # type: ignore[union-attr]
        ask = AlterPartitionAsked(
            version=3,
            broker=BrokerId(2),
            broker_epoch=epoch,
            partitions=(
                AlterPartitionItem(
                    topic=None,
                    topic_id=TOPIC_ID,
                    partition=0,
                    leader_epoch=LeaderEpoch(0),
                    partition_epoch=PartitionEpoch(0),
                    new_isr=(IsrMember(BrokerId(2), BrokerEpoch(-1)),),
                ),
            ),
        )

        cluster.members[1].runtime.ask(ControllerRequest(7, ask))
        cluster.members[2].runtime.ask(ControllerRequest(8, ask))
        await cluster.members[1].until(lambda: 7 in cluster.members[1].answers)

        answer = cluster.members[1].answers[7]
        assert isinstance(answer, AlterPartitionAnswer)
        assert answer.error is ErrorCode.NONE
        assert answer.partitions[0].error is ErrorCode.NONE
        assert answer.partitions[0].leader_and_isr.isr == (2,)  # type: ignore[union-attr]
        assert (await cluster.state_of("orders")).leader_and_isr.isr == (2,)
        assert cluster.members[2].answers[8] == AlterPartitionAnswer(ErrorCode.NOT_CONTROLLER)

        await cluster.members[1].stop()
        assert cluster.members[1].answered == [7], "whoever resigns answers what is open, and nothing twice"

    scenario(body)


def test_a_controller_that_was_superseded_before_its_first_write_tells_nobody_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    really_write = MemorySession.write

    async def write(
        self: MemorySession, writes: Sequence[ConditionalOps], fence: Fence | None
    ) -> list[WriteAnswer]:
        if fence is not None:
            monkeypatch.undo()
            await self.set(layout.CONTROLLER_EPOCH, b"5")
        return await really_write(self, writes, fence)

    monkeypatch.setattr(MemorySession, "write", write)

    async def body(cluster: Cluster) -> None:
        await cluster.start(1)
        broker = cluster.brokers[1]
        await broker.until(lambda: UPDATE_METADATA in broker.api_keys())
        assert {message.controller_epoch for _, message in broker.told} == {6}
        lines = journal_of(cluster.members[1])
        assert {line["epoch"] for line in lines} == {6}, "nothing was decided"

    scenario(body)


def test_when_the_controllers_session_ends_another_one_leads_with_a_higher_epoch() -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        await cluster.members[1].until(leads(cluster, 1))

        cluster.ensemble.expire(cluster.members[1].session.session_id)
        await cluster.members[2].until(lambda: cluster.members[2].runtime.is_leading)

        assert (await cluster.operator.get(layout.CONTROLLER_EPOCH)).data == b"2"
        assert not cluster.members[1].runtime.is_leading
        cluster.members[1].runtime.ask(
            ControllerRequest(1, AlterPartitionAsked(3, BrokerId(2), BrokerEpoch(1), ()))
        )
        assert cluster.members[1].answers[1] == AlterPartitionAnswer(ErrorCode.NOT_CONTROLLER)

    scenario(body)


def test_a_controller_that_was_superseded_writes_nothing_and_resigns() -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.start(1)
        await cluster.members[1].until(leads(cluster, 1))
        # Somebody else was elected while we heard nothing of it.
        cluster.members[1].session.hold_watches()
        node = await cluster.operator.get(layout.CONTROLLER_EPOCH)
        await cluster.operator.set(layout.CONTROLLER_EPOCH, b"5", node.stat.version)
        cluster.members[1].session.release_watches()

        await cluster.create_topic("orders", (1,))
        # It resigns, stands again above the foreign epoch, and finishes what it could not write before.
        async with asyncio.timeout(60):
            while (await cluster.operator.get(layout.CONTROLLER_EPOCH)).data != b"6":
                await asyncio.sleep(0.005)
        await cluster.brokers[1].until(lambda: LEADER_AND_ISR in cluster.brokers[1].api_keys())

        assert cluster.brokers[1].last(LEADER_AND_ISR).controller_epoch == 6
        assert all(m.controller_epoch == 6 for k, m in cluster.brokers[1].told if k == LEADER_AND_ISR)

    scenario(body)


def test_an_election_whose_answer_was_lost_is_given_up_and_held_again() -> None:
    """KAFKA-13407: a node of ours without a term must not keep the cluster without a controller."""

    class LoseOneMulti:
        def __init__(self) -> None:
            self.lost = 0

        async def before(self, session_id: int, call: str) -> None:
            pass

        async def after(self, session_id: int, call: str) -> None:
            from odradek.store.api import StoreUnavailable

            if call == "multi" and self.armed and not self.lost:
                self.lost += 1
                raise StoreUnavailable(message="the answer was lost")

        armed = False

    async def body(cluster: Cluster) -> None:
        gate = LoseOneMulti()
        cluster.ensemble.gate = gate
        await prepare_tree(cluster.operator, cluster.environment)
        broker = cluster.brokers[1]
        await broker.start()
        member = cluster.members[1] = Member(cluster, broker)
        broker.registration = await register(
            member.session, cluster.environment, broker.broker_id, broker.endpoints, None
        )
        gate.armed = True
        await member.start()
        await member.until(lambda: member.runtime.is_leading)

        assert gate.lost == 1
        assert (await cluster.operator.get(layout.CONTROLLER_EPOCH)).data == b"2"

    scenario(body)


def test_an_election_that_was_won_behind_the_look_for_it_is_given_up_and_held_again() -> None:
    """The answer was lost, and the member of the ensemble that was asked next did not know of the node yet. It heard of
    it while this broker stood once more: no later change of the node would come."""

    class LateElection:
        member: Member | None = None
        multis = 0

        async def before(self, session_id: int, call: str) -> None:
            if call != "multi" or self.member is None or session_id != self.member.session.session_id:
                return
            self.multis += 1
            if self.multis == 1:
                raise StoreUnavailable(message="the answer was lost")
            if self.multis == 2:
                session, seen = self.member.session, asyncio.Event()
                session.listen(on_watch=lambda event: seen.set())
                ops = transactions.become_controller(
                    self.member.broker.broker_id,
                    epoch=ControllerEpoch(1),
                    expected_epoch_version=0,
                    timestamp_ms=0,
                )
                await session.multi(ops)
                await seen.wait()
                for _ in range(20):  # it is read, and heard of
                    await asyncio.sleep(0)

        async def after(self, session_id: int, call: str) -> None:
            pass

    async def body(cluster: Cluster) -> None:
        gate = cluster.ensemble.gate = LateElection()
        await prepare_tree(cluster.operator, cluster.environment)
        broker = cluster.brokers[1]
        await broker.start()
        member = cluster.members[1] = Member(cluster, broker)
        await member.start()
        gate.member = member  # it stands in the next turn
        await member.until(lambda: member.runtime.is_leading)

        assert gate.multis > 3
        assert (await cluster.operator.get(layout.CONTROLLER_EPOCH)).data == b"2"

    scenario(body)


def test_a_controller_that_resigned_while_cut_off_gives_its_node_up_when_it_is_back() -> None:
    """The session outlives the cut, and `/controller` with it: held by nobody, it would keep everybody
    waiting.
    """

    class CutAtTheWrite:
        member: Member | None = None

        async def before(self, session_id: int, call: str) -> None:
            member = self.member
            if call == "write" and member is not None and session_id == member.session.session_id:
                self.member = None
                member.session.disconnect()
                raise StoreUnavailable(message="cut off")

        async def after(self, session_id: int, call: str) -> None:
            pass

    async def body(cluster: Cluster) -> None:
        await cluster.start(1)
        member = cluster.members[1]
        await member.until(leads(cluster, 1))
        gate = cluster.ensemble.gate = CutAtTheWrite()
        gate.member = member
        await cluster.create_topic("orders", (1,))
        await member.until(lambda: not member.runtime.is_leading)
        stat = (await cluster.operator.get(layout.CONTROLLER)).stat
        assert stat.ephemeral_owner == member.session.session_id
        member.session.connect()
        async with asyncio.timeout(60):
            while (await cluster.operator.get(layout.CONTROLLER_EPOCH)).data == b"1":
                await asyncio.sleep(0.005)
        await member.until(lambda: member.runtime.core is not None)

    scenario(body)


def test_who_gives_its_stale_node_up_leaves_that_of_another_one_alone() -> None:
    """It heard late of a node of its own: by the time it looks another one was elected."""

    class Looks:
        def __init__(self) -> None:
            self.calls: list[tuple[int, str]] = []

        async def before(self, session_id: int, call: str) -> None:
            pass

        async def after(self, session_id: int, call: str) -> None:
            self.calls.append((session_id, call))

    async def body(cluster: Cluster) -> None:
        await cluster.start(1, 2)
        first, second = cluster.members[1], cluster.members[2]
        await first.until(leads(cluster, 1))
        gate = cluster.ensemble.gate = Looks()
        second.runtime.controller_seen(second.broker.broker_id)
        async with asyncio.timeout(60):
            while (second.session.session_id, "get") not in gate.calls:
                await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        stat = (await cluster.operator.get(layout.CONTROLLER)).stat
        assert stat.ephemeral_owner == first.session.session_id
        assert cluster.leading() == [1]

    scenario(body)


def test_a_controller_that_resigned_while_cut_off_gives_its_node_up_also_where_it_is_back_at_once() -> None:
    """No call of its election fails any more, and the node that it meets is its own."""

    class CutForAMoment:
        member: Member | None = None
        is_cut = False

        async def before(self, session_id: int, call: str) -> None:
            member = self.member
            if member is None or session_id != member.session.session_id:
                return
            if call == "write" and not self.is_cut:
                self.is_cut = True
                member.session.disconnect()
                raise StoreUnavailable(message="cut off")
            if call == "get" and self.is_cut:
                self.member = None
                member.session.connect()

        async def after(self, session_id: int, call: str) -> None:
            pass

    async def body(cluster: Cluster) -> None:
        await cluster.start(1)
        member = cluster.members[1]
        await member.until(leads(cluster, 1))
        gate = cluster.ensemble.gate = CutForAMoment()
        gate.member = member
        await cluster.create_topic("orders", (1,))
        async with asyncio.timeout(60):
            while (await cluster.operator.get(layout.CONTROLLER_EPOCH)).data == b"1":
                await asyncio.sleep(0.005)
        await member.until(lambda: member.runtime.core is not None)

    scenario(body)


def test_a_controller_whose_node_is_deleted_by_hand_resigns_and_stands_again() -> None:
    """The usual way to ask for an election. With nobody else there to be elected, the cluster was left without a
    controller that anybody knows."""

    async def body(cluster: Cluster) -> None:
        await cluster.start(1)
        member = cluster.members[1]
        await member.until(leads(cluster, 1))
        await cluster.operator.delete(layout.CONTROLLER)
        await member.until(
            lambda: member.runtime.core is not None and member.runtime.core.context.controller_epoch == 2
        )
        stat = (await cluster.operator.get(layout.CONTROLLER)).stat
        assert stat.ephemeral_owner == member.session.session_id

    scenario(body)


def test_a_controller_that_sees_the_node_of_another_one_resigns() -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.start(1)
        member = cluster.members[1]
        await member.until(leads(cluster, 1))
        member.runtime.controller_seen(BrokerId(2))
        await member.until(lambda: not member.runtime.is_leading)
        await member.runtime._journal.finish()
        seen = [line for line in journal_of(member) if line["event"]["type"] == "ControllerChanged"]
        assert [line["resign"] for line in seen] == ["/controller names 2, not 1"]

    scenario(body)


def test_a_controller_goes_on_where_its_node_was_only_missed_before_it_was_made() -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.start(1)
        member = cluster.members[1]
        await member.until(leads(cluster, 1))
        member.runtime.controller_seen(None)
        await cluster.create_topic("orders", (1,))
        broker = cluster.brokers[1]
        await broker.until(lambda: LEADER_AND_ISR in broker.api_keys())
        assert broker.last(LEADER_AND_ISR).controller_epoch == 1 and member.runtime.is_leading
        assert (await cluster.operator.get(layout.CONTROLLER_EPOCH)).data == b"1"

    scenario(body)


def test_the_journal_has_the_times_that_the_core_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of many partitions takes a second. Played again with the time of its end, a term's first look at the balance of
    leaders would be a second later, and the tick that brought it would bring nothing."""
    told: list[int] = []
    original = ControllerCore.step

    async def body(cluster: Cluster) -> None:
        began = cluster.environment.clock.now_ms()
        monkeypatch.setattr(cluster.environment.clock, "now_ms", lambda: began + 1000 * len(told))

        def step(core: ControllerCore, event: Any, now_ms: int) -> Any:
            told.append(now_ms)
            return original(core, event, now_ms)

        monkeypatch.setattr(ControllerCore, "step", step)
        await cluster.start(1)
        await cluster.brokers[1].until(lambda: UPDATE_METADATA in cluster.brokers[1].api_keys())
        data = cluster.members[1].journal.read("controller-1.jsonl")
        assert data is not None
        kept = [json.loads(line)["at_ms"] for line in data.splitlines()]
        assert kept == told[: len(kept)] and kept

    scenario(body)


def test_the_journal_has_a_line_for_every_step() -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.start(1)
        await cluster.brokers[1].until(lambda: UPDATE_METADATA in cluster.brokers[1].api_keys())
        await cluster.create_topic("orders", (1,))
        await cluster.brokers[1].until(lambda: LEADER_AND_ISR in cluster.brokers[1].api_keys())

        data = cluster.members[1].journal.read("controller-1.jsonl")
        assert data is not None
        lines = [json.loads(line) for line in data.splitlines()]
        assert lines[0]["event"]["type"] == "Elected"
        created = [line for line in lines if line["event"]["type"] == "TopicsChanged"]
        assert created[0]["writes"][0]["type"] == "CreatePartitionState"
        assert created[0]["requests"] == [], "nobody is told before it is stored"
        assert any(change["to"] == "OnlinePartition" for line in lines for change in line["changes"])

    scenario(body)


@pytest.mark.parametrize("key", [LEADER_AND_ISR, UPDATE_METADATA])
def test_a_broker_that_obeys_a_later_controller_makes_this_one_resign_if_the_store_knows_of_it(
    key: int,
) -> None:
    async def body(cluster: Cluster) -> None:
        await cluster.start(1)
        await cluster.members[1].until(leads(cluster, 1))
        broker = cluster.brokers[1]
        await broker.until(lambda: UPDATE_METADATA in broker.api_keys())
        broker.is_silent = True
        await cluster.create_topic("orders", (1,))
        await broker.until(lambda: {LEADER_AND_ISR, UPDATE_METADATA} <= set(broker.api_keys()[1:]))
        await cluster.operator.set(layout.CONTROLLER_EPOCH, b"5")
        broker.errors[key] = ErrorCode.STALE_CONTROLLER_EPOCH
        broker.is_silent = False
        broker.disconnect()
        # Elected again, and everything is told anew.
        await broker.until(lambda: any(m.controller_epoch == 6 for _, m in broker.told))

    scenario(body)


@pytest.mark.parametrize("key", [LEADER_AND_ISR, UPDATE_METADATA])
def test_a_controller_whose_epoch_is_the_stores_stays_whatever_a_broker_was_told(
    key: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who was not elected said a larger epoch: the broker is told again until it believes us. The store has to
    answer for it once a second."""
    looks: list[float] = []
    really_multi = MemorySession.multi

    async def multi(self: MemorySession, ops: Sequence[Op]) -> list[Applied]:
        if [type(op) for op in ops] == [Check]:
            looks.append(asyncio.get_running_loop().time())
        return await really_multi(self, ops)

    monkeypatch.setattr(MemorySession, "multi", multi)

    async def body(cluster: Cluster) -> None:
        await cluster.start(1)
        await cluster.members[1].until(leads(cluster, 1))
        broker = cluster.brokers[1]
        await broker.until(lambda: UPDATE_METADATA in broker.api_keys())
        broker.errors[key] = ErrorCode.STALE_CONTROLLER_EPOCH
        await cluster.create_topic("orders", (1,))
        await broker.until(lambda: broker.api_keys()[1:].count(key) >= 3)
        broker.errors.clear()
        member = cluster.members[1]
        await member.until(lambda: not any(member.runtime.unanswered().values()))
        assert member.runtime.is_leading
        assert {m.controller_epoch for _, m in broker.told} == {1}, "no election was held"
        assert looks and all(later - one >= 0.9 for one, later in pairwise(looks))
        said = "broker 1 obeys a controller epoch that the store does not know"
        assert sum(said in record.getMessage() for record in caplog.records) == 1

    scenario(body)


def journal_of(member: Member) -> list[dict[str, Any]]:
    path = f"{member.cluster.directory}/{member.broker.broker_id}/controller-{member.broker.broker_id}.jsonl"
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    ("session", "reason"),
    [
        ("in touch", "the broker stops"),
        ("out of touch", "the broker stops"),
        ("expired", "its session with the store has ended"),
        ("begun again", "whoever cancels it says so"),
    ],
)
def test_every_term_begins_with_a_seed_of_its_own_and_ends_with_a_reason(session: str, reason: str) -> None:
    """Topic ids are made from the seed: without one, two topics of the same name would have the same id."""

    async def body(cluster: Cluster) -> None:
        await cluster.start(1)
        member = cluster.members[1]
        await member.until(leads(cluster, 1))
        if session == "expired":  # whoever runs the session cancels the controller then
            cluster.ensemble.expire(member.session.session_id)
        if session == "out of touch":  # it may live on, and the broker stops before that is known
            member.session.disconnect()
        if session == "begun again":
            member.tasks[0].cancel(reason)
            await asyncio.wait({member.tasks[0]})
        await member.stop()
        cluster.ensemble.expire(member.session.session_id)
        member.session = cluster.ensemble.open()
        await member.start()
        await member.until(leads(cluster, 1))
        await member.runtime._journal.finish()
        lines = journal_of(member)
        seeds = [line["event"]["id_seed"] for line in lines if line["event"]["type"] == "Elected"]
        assert len(set(seeds)) == 2 and all(len(bytes.fromhex(seed)) == 16 for seed in seeds)
        (resigned,) = [line for line in lines if line["event"]["type"] == "Resigned"]
        assert resigned["event"]["reason"] == resigned["resign"] == reason

    scenario(body)


@pytest.mark.parametrize("is_writing", [False, True])
def test_a_term_that_is_over_holds_nothing_of_the_cluster(is_writing: bool) -> None:
    """It goes round in circles with its queues, and lived too long for a collector to look at it soon."""

    async def body(cluster: Cluster) -> None:
        await cluster.start(1)
        member = cluster.members[1]
        await member.until(leads(cluster, 1))
        await cluster.create_topic("t", (1,))
        term = member.runtime.term
        assert term is not None
        await member.until(lambda: "t" in term._facts._topics)
        if is_writing:
            term.core._work = object()  # type: ignore[assignment]
        await member.stop()
        assert member.runtime.term is None
        assert term.core.context is None and not term._inbox
        assert not term._facts._topics and not term._facts._ids

    scenario(body)


def test_after_a_mistake_of_its_own_a_controller_lets_others_stand_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(context: object, event: object) -> None:
        raise RuntimeError("a mistake")

    async def body(cluster: Cluster) -> None:
        await cluster.start(1)
        await cluster.members[1].until(leads(cluster, 1))
        monkeypatch.setattr("odradek.server.controller_runtime.PAUSE_AFTER_MISTAKE_S", 1000.0)
        with monkeypatch.context() as broken:
            broken.setattr("odradek.controller.dispatch.tasks_of_topics", fails)
            await cluster.create_topic("t", (1, 2))
            await cluster.members[1].until(lambda: not cluster.members[1].runtime.is_leading)
        await cluster.start(2)
        await cluster.members[2].until(leads(cluster, 2))
        assert cluster.leading() == [2]
        assert await cluster.operator.children(layout.BROKER_IDS) == ["1", "2"], "it is a broker still"

    scenario(body)


@pytest.mark.parametrize("refusal", [NotAllowed, TooLarge])
def test_after_a_write_that_the_store_will_not_take_a_controller_says_why_and_lets_others_stand_first(
    refusal: type[StoreUnavailable], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another one is told the same. Without a pause a cluster held hundreds of elections a second."""

    class Refusing:
        is_on = False

        async def before(self, session_id: int, call: str) -> None:
            if call == "write" and self.is_on:
                self.is_on = False
                raise refusal("/brokers/topics/t", "the store will not take it")

        async def after(self, session_id: int, call: str) -> None:
            pass

    async def body(cluster: Cluster) -> None:
        await cluster.start(1)
        await cluster.members[1].until(leads(cluster, 1))
        monkeypatch.setattr(controller_runtime, "PAUSE_AFTER_MISTAKE_S", 1000.0)
        await cluster.create_topic("t", (1, 2))
        gate = cluster.ensemble.gate = Refusing()
        gate.is_on = True
        await cluster.members[1].until(lambda: not cluster.members[1].runtime.is_leading)
        assert "resigns: the store will not take it" in caplog.text
        await cluster.start(2)
        await cluster.members[2].until(leads(cluster, 2))
        assert cluster.leading() == [2]

    scenario(body)


@pytest.mark.parametrize("is_deleted", [False, True])
def test_an_election_during_which_the_epoch_is_mended_is_held_again(is_deleted: bool) -> None:
    """Nobody was elected, so nobody is told anything that would make a broker stand again."""

    class Operator:
        is_wanted = False

        async def before(self, session_id: int, call: str) -> None:
            if call == "multi" and self.is_wanted:
                self.is_wanted = False
                if is_deleted:
                    await self.session.delete(layout.CONTROLLER_EPOCH)
                else:
                    await self.session.set(layout.CONTROLLER_EPOCH, b"41")

        async def after(self, session_id: int, call: str) -> None:
            """All answers come."""

        def __init__(self, session: MemorySession) -> None:
            self.session = session

    async def body(cluster: Cluster) -> None:
        await prepare_tree(cluster.operator, cluster.environment)
        broker = cluster.brokers[1]
        await broker.start()
        member = cluster.members[1] = Member(cluster, broker)
        operator = cluster.ensemble.gate = Operator(cluster.operator)
        stand = member.runtime._stand

        async def stand_and_meddle(store: Any) -> Any:
            operator.is_wanted = not stood
            stood.append(store)
            return await stand(store)

        stood: list[Any] = []
        member.runtime._stand = stand_and_meddle  # type: ignore[method-assign]
        await member.start()
        await member.until(lambda: member.runtime.is_leading)
        assert len(stood) == 2
        assert (await cluster.operator.get(layout.CONTROLLER_EPOCH)).data == (b"1" if is_deleted else b"42")

    scenario(body)


def test_a_damaged_controller_epoch_stops_elections_and_no_broker(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever leads partitions goes on; once it is mended, somebody is elected."""
    monkeypatch.setattr(controller_runtime, "PAUSE_AFTER_MISTAKE_S", 0.01)

    async def body(cluster: Cluster) -> None:
        await prepare_tree(cluster.operator, cluster.environment)
        await cluster.operator.set(layout.CONTROLLER_EPOCH, b"seven")
        await cluster.start(1)
        while (
            "no election can be held: /controller_epoch: expected a whole number as text" not in caplog.text
        ):
            await asyncio.sleep(0)
        assert "Set it to a number above every controller_epoch" in caplog.text
        assert not any(task.done() for task in cluster.members[1].tasks)
        await cluster.operator.set(layout.CONTROLLER_EPOCH, b"7")
        await cluster.members[1].until(leads(cluster, 1))
        assert (await cluster.operator.get(layout.CONTROLLER_EPOCH)).data == b"8"

    scenario(body)
