"""Several real `Broker`s on real logs, joined by a loop that a test turns by hand.

Every request travels as a frame. Nothing moves unless the test says so: `settle` carries frames between
fetchers and leaders until nothing is left to carry, `advance` moves the clock and ticks. The controller is the
test itself: `lead` writes what a controller would tell, `isr_answer` says what AlterPartition is answered.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from odradek.broker import effects as fx
from odradek.broker.answers import Answer, CloseConnection, NoReply, Park, Reply
from odradek.broker.assembly import assemble_broker
from odradek.broker.log_moves import data_of
from odradek.broker.request import ConnectionInfo, Request
from odradek.broker.topic_configs import TopicConfigs
from odradek.log.files import OsDirectory
from odradek.log.log_manager import LogManager
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import ControllerEpoch, TopicPartition
from odradek.model.settings import BrokerSettings
from odradek.model.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from odradek.protocol.headers import decode_request_header, encode_request, response_header
from odradek.protocol.messages import alter_partition as ap
from odradek.protocol.messages import fetch as fm
from odradek.protocol.messages import leader_and_isr as lai
from odradek.protocol.messages import produce as pm
from odradek.protocol.messages import stop_replica as sr
from odradek.protocol.messages import update_metadata as um
from odradek.records.builder import NewRecord, build_batch
from odradek.records.reader import decode_batch

LISTENER = "PLAINTEXT"
TOPIC_ID = bytes(range(1, 17))
T0 = TopicPartition("t", 0)
Done = Reply | NoReply | CloseConnection


def batch(*values: bytes, **options: Any) -> bytes:
    return build_batch([NewRecord(None, value, 1_000) for value in values], **options)


class Pending:
    """A request that was sent: its answer, if there is one yet."""

    def __init__(self, response: Any, version: int) -> None:
        self._response = response
        self._version = version
        self.result: Done | None = None

    def put(self, result: Done) -> None:
        assert self.result is None
        self.result = result

    @property
    def is_answered(self) -> bool:
        return self.result is not None

    @property
    def body(self) -> bytes:
        assert isinstance(self.result, Reply), self.result
        return b"".join(
            bytes(b) if isinstance(b, bytes | bytearray | memoryview) else b.read()
            for b in self.result.buffers
        )

    @property
    def message(self) -> Any:
        return self._response.decode(self._version, self.body)


class Node:
    """One broker with its disk, and the connections it opened as a follower."""

    def __init__(self, world: "World", broker_id: int, path: Path, settings: Mapping[str, str]) -> None:
        self.world = world
        self.id = broker_id
        self.path = path
        # `directories=2` in the settings: so many of `log.dirs`, the first of them `path`
        others = [f"{path}-{n}" for n in range(2, int(settings.get("directories", "1")) + 1)]
        self.log_dirs = [str(path), *others]
        given = {name: value for name, value in settings.items() if name != "directories"}
        self.settings = BrokerSettings(
            {"broker.id": str(broker_id), "log.dirs": ",".join(self.log_dirs), **given}
        )
        self.epoch = 0
        self.told: list[fx.Effect] = []  # effects that nobody acted on
        self.alters: deque[tuple[int, Any]] = deque()  # AlterPartition not answered yet
        self.start()

    def start(self) -> None:
        topic_configs = TopicConfigs(self.settings)
        topic_configs.at_start(self.settings, {topic: {} for topic in self.world.topics_at_start})
        self.logs = LogManager(
            [OsDirectory.create(path) for path in self.log_dirs],
            self.settings,
            topic_settings=topic_configs.settings_of,
        )
        self.logs.load(self.world.now_ms)
        self.broker = assemble_broker(
            settings=self.settings,
            cluster_id="test-cluster",
            logs=self.logs,
            topic_configs=topic_configs,
            inter_broker_listener=LISTENER,
            seed=bytes([self.id]) * 16,
            now_ms=self.world.now_ms,
        )
        # Of topics that it has hosted before, the store had told the configuration before the logs were loaded.
        topic_configs.at_start(
            self.settings,
            {topic: self.world.configs.get(("topics", topic), {}) for topic, _ in self.world.leadership},
        )
        self.epoch = self.world.next_zxid()
        # The store knows whatever the test says as a controller.
        self.broker.control_gate.known = fx.ControlEpochs(ControllerEpoch(2**31 - 1), None)
        self.broker.registered(self.epoch, self.world.now_ms)
        self.fetchers: dict[int, Any] = {}
        self.in_flight: dict[int, deque[tuple[int, Pending]]] = {}
        self.connections: dict[int, ConnectionInfo] = {}
        self.alters.clear()
        self.is_up = True

    def partition(self, topic: str = "t", index: int = 0) -> Any:
        return self.broker.replicas.partitions[TopicPartition(topic, index)]

    def values(self, topic: str = "t", index: int = 0) -> list[bytes]:
        """Everything in the log, committed or not."""
        log = self.partition(topic, index).log
        read = log.read(log.log_start_offset, max_bytes=1 << 30, upper_bound_offset=log.log_end_offset)
        data = b"".join(part.read() for part in read.slices)
        found: list[bytes] = []
        position = 0
        while position < len(data):
            size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
            found += [bytes(r.value or b"") for r in decode_batch(data[position : position + size])]
            position += size
        return found

    def raw(self, topic: str = "t", index: int = 0) -> bytes:
        """The batches of all segments, one after the other."""
        home = Path(self.logs.directory_of(TopicPartition(topic, index)) or self.path)
        return b"".join(path.read_bytes() for path in sorted((home / f"{topic}-{index}").glob("*.log")))

    def epochs(self, topic: str = "t", index: int = 0) -> list[tuple[int, int]]:
        return [tuple(entry) for entry in self.partition(topic, index).log.epochs.entries]


class World:
    def __init__(self, path: Path, brokers: Iterable[int] = (1, 2, 3), **settings: str) -> None:
        self.now_ms = 1_000_000
        self.path = path
        self.controller_epoch = 1
        self.controller_id = 1
        self._zxid = 100
        self._connection_id = 0
        self._correlation_id = 0
        self.settings = {key.replace("_", "."): value for key, value in settings.items()}
        self.configs: dict[tuple[str, str], dict[str, str]] = {}
        self.unreadable_configs: dict[tuple[str, str], str] = {}
        self.topics_at_start: set[str] = set()  # in the store, as a broker that starts finds it
        self.polls_connections = True  # connections are polled as soon as the broker asks for it
        self.works = True  # what shall be done aside is done at once
        self.copies = (
            True  # replicas between log directories; False: their reads and flushes are left in `told`
        )
        self.cut: set[tuple[int, int]] = set()  # (follower, leader) that cannot reach each other
        self.racks: dict[int, str] = {}  # as UpdateMetadata tells them
        self.leadership: dict[TopicPartition, dict[str, Any]] = {}
        # What the controller says to AlterPartition: "commit", "hold" (no answer yet), or an error.
        self.on_alter: str | ErrorCode = "commit"
        self.completed: list[Pending] = []  # requests that were parked, in the order of their answers
        self.nodes = {
            number: Node(self, number, path / f"broker-{number}", self.settings) for number in brokers
        }
        self.notify_metadata()

    def next_zxid(self) -> int:
        self._zxid += 1
        return self._zxid

    def __getitem__(self, broker_id: int) -> Node:
        return self.nodes[broker_id]

    # ------------------------------------------------------------------------------------------- requests

    def connection(self) -> ConnectionInfo:
        self._connection_id += 1
        return ConnectionInfo(self._connection_id, f"127.0.0.1:{40_000 + self._connection_id}", LISTENER)

    def send(
        self,
        to: int,
        message: Any,
        version: int,
        *,
        connection: ConnectionInfo | None = None,
        client_id: str | None = "test",
    ) -> Pending:
        self._correlation_id += 1
        frame = encode_request(message.KEY, version, self._correlation_id, client_id, message.encode(version))
        module = sys.modules[type(message).__module__]
        response = getattr(module, type(message).__name__.replace("Request", "Response"))
        return self.send_frame(to, frame[4:], Pending(response, version), connection or self.connection())

    def send_frame(self, to: int, frame: bytes, pending: Pending, connection: ConnectionInfo) -> Pending:
        # A buffer that is overwritten afterwards, as the shell's is.
        buffer = bytearray(frame)
        header = decode_request_header(buffer)
        view = memoryview(buffer)
        request = Request(*header[:4], view[header.body_offset :], connection)
        answer = self.nodes[to].broker.handle(request, self.now_ms)
        buffer[:] = b"\xee" * len(buffer)
        self._take(answer, pending)
        return pending

    def _take(self, answer: Answer, pending: Pending) -> None:
        if isinstance(answer, Park):
            answer.on_complete(lambda result: (self.completed.append(pending), pending.put(result)))  # type: ignore[func-returns-value]
        else:
            pending.put(answer)

    def call(self, to: int, message: Any, version: int) -> Any:
        """Send, do what it made due, and return the decoded answer, which must be there."""
        pending = self.send(to, message, version)
        self.settle()
        assert pending.is_answered, "parked"
        return pending.message

    def produce(
        self,
        to: int,
        *values: bytes,
        topic: str = "t",
        index: int = 0,
        acks: int = -1,
        timeout_ms: int = 30_000,
        records: bytes | None = None,
        transactional_id: str | None = None,
        version: int = 9,
    ) -> Pending:
        data = records if records is not None else batch(*values)
        request = pm.ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=timeout_ms,
            topic_data=[
                pm.TopicProduceData(
                    name=topic, partition_data=[pm.PartitionProduceData(index=index, records=data)]
                )
            ],
        )
        return self.send(to, request, version)

    def produced(self, pending: Pending) -> tuple[ErrorCode, int]:
        """(error, base offset) of the one partition."""
        row = pending.message.responses[0].partition_responses[0]
        return ErrorCode(row.error_code), row.base_offset

    def consume(
        self,
        to: int,
        offset: int,
        *,
        topic_id: bytes = TOPIC_ID,
        index: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 1,
        isolation_level: int = 0,
        leader_epoch: int = -1,
        max_bytes: int = 1 << 20,
        version: int = 13,
        topic: str = "t",
        last_fetched_epoch: int = -1,
        rack: str = "",
        connection: ConnectionInfo | None = None,
    ) -> Pending:
        request = fm.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            isolation_level=isolation_level,
            rack_id=rack,
            topics=[
                fm.FetchTopic(
                    topic=topic,
                    topic_id=topic_id,
                    partitions=[
                        fm.FetchPartition(
                            partition=index,
                            fetch_offset=offset,
                            partition_max_bytes=max_bytes,
                            current_leader_epoch=leader_epoch,
                            last_fetched_epoch=last_fetched_epoch,
                        )
                    ],
                )
            ],
        )
        return self.send(to, request, version, connection=connection)

    # ------------------------------------------------------------------------------------- the controller

    def notify_metadata(
        self, to: Iterable[int] | None = None, *, bare: bool = False, is_full: bool = False
    ) -> None:
        """UpdateMetadata with all that is known, to every broker that is up. `bare`: brokers alone. `is_full`: says that it is all."""
        live = [node for node in self.nodes.values() if node.is_up]
        for number in to if to is not None else [node.id for node in live]:
            topics: dict[str, um.UpdateMetadataTopicState] = {}
            for (topic, index), state in () if bare else self.leadership.items():
                topics.setdefault(
                    topic,
                    um.UpdateMetadataTopicState(
                        topic_name=topic, topic_id=state["topic_id"], partition_states=[]
                    ),
                ).partition_states.append(
                    um.UpdateMetadataPartitionState(
                        partition_index=index,
                        controller_epoch=self.controller_epoch,
                        leader=state["leader"],
                        leader_epoch=state["leader_epoch"],
                        isr=state["isr"],
                        zk_version=state["partition_epoch"],
                        replicas=state["replicas"],
                    )
                )
            request = um.UpdateMetadataRequest(
                controller_id=self.controller_id,
                type=um.FULL if is_full else um.UNKNOWN,
                controller_epoch=self.controller_epoch,
                broker_epoch=self.nodes[number].epoch,
                topic_states=list(topics.values()),
                live_brokers=[live_broker(node.id, rack=self.racks.get(node.id)) for node in live],
            )
            assert self.send(number, request, 8).message.error_code == 0
            self.nodes[number].broker.departures.hear(self.now_ms)  # the turn ends

    def lead(
        self,
        leader: int,
        *,
        isr: Iterable[int] = (1, 2, 3),
        replicas: Iterable[int] = (1, 2, 3),
        topic: str = "t",
        index: int = 0,
        topic_id: bytes = TOPIC_ID,
        tell: Iterable[int] | None = None,
        is_new: bool = False,
        epoch: int | None = None,
        settle: bool = True,
    ) -> None:
        """Decide a leader: the next leader epoch, then LeaderAndIsr and UpdateMetadata to `tell` (all that are up)."""
        key = TopicPartition(topic, index)
        before = self.leadership.get(key)
        self.leadership[key] = {
            "topic_id": topic_id,
            "leader": leader,
            "leader_epoch": epoch if epoch is not None else (before["leader_epoch"] + 1 if before else 0),
            "isr": list(isr),
            "partition_epoch": before["partition_epoch"] + 1 if before else 0,
            "replicas": list(replicas),
        }
        told = list(tell) if tell is not None else [n.id for n in self.nodes.values() if n.is_up]
        for number in told:
            self.tell_leader(number, key, is_new=is_new)
        self.notify_metadata(told)
        if settle:
            self.settle()

    def coordinate_alone(self, partitions: int) -> None:
        """Broker 1, the only one, gets to coordinate groups and transactions and to lead `t`. It knows so many partitions of the
        topic `big`, which another leads."""
        for index in range(partitions):
            self.leadership[TopicPartition("big", index)] = {
                "topic_id": b"b" * 16,
                "leader": 7,
                "leader_epoch": 0,
                "isr": [7],
                "partition_epoch": 0,
                "replicas": [7],
            }
        for topic in ("t", GROUPS_TOPIC, TRANSACTIONS_TOPIC):
            topic_id = topic.encode()[:16].ljust(16)
            self.lead(1, topic=topic, topic_id=topic_id, isr=(1,), replicas=(1,), is_new=True)

    def leader_and_isr(
        self, key: TopicPartition, *, is_new: bool = False, broker_epoch: int = -1
    ) -> lai.LeaderAndIsrRequest:
        state = self.leadership[key]
        return lai.LeaderAndIsrRequest(
            controller_id=self.controller_id,
            controller_epoch=self.controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=[
                lai.LeaderAndIsrTopicState(
                    topic_name=key.topic,
                    topic_id=state["topic_id"],
                    partition_states=[
                        lai.LeaderAndIsrPartitionState(
                            partition_index=key.partition,
                            controller_epoch=self.controller_epoch,
                            leader=state["leader"],
                            leader_epoch=state["leader_epoch"],
                            isr=state["isr"],
                            partition_epoch=state["partition_epoch"],
                            replicas=state["replicas"],
                            is_new=is_new,
                        )
                    ],
                )
            ],
        )

    def tell_leader(self, to: int, key: TopicPartition, *, is_new: bool = False) -> ErrorCode:
        """LeaderAndIsr for one partition; the error it was answered with."""
        request = self.leader_and_isr(key, is_new=is_new, broker_epoch=self.nodes[to].epoch)
        answer = self.send(to, request, 7).message
        if answer.error_code:
            return ErrorCode(answer.error_code)
        return ErrorCode(answer.topics[0].partition_errors[0].error_code)

    def stop_replica(
        self,
        to: int,
        key: TopicPartition,
        *,
        leader_epoch: int,
        delete: bool = False,
        controller_epoch: int | None = None,
    ) -> ErrorCode:
        request = sr.StopReplicaRequest(
            controller_id=self.controller_id,
            controller_epoch=self.controller_epoch if controller_epoch is None else controller_epoch,
            broker_epoch=self.nodes[to].epoch,
            topic_states=[
                sr.StopReplicaTopicState(
                    topic_name=key.topic,
                    partition_states=[
                        sr.StopReplicaPartitionState(
                            partition_index=key.partition, leader_epoch=leader_epoch, delete_partition=delete
                        )
                    ],
                )
            ],
        )
        answer = self.send(to, request, 4).message
        if answer.error_code:
            return ErrorCode(answer.error_code)
        return ErrorCode(answer.partition_errors[0].error_code)

    def answer_alter(self, node: Node, verdict: str | ErrorCode) -> None:
        """Answer the oldest AlterPartition of `node` as a controller would."""
        request_id, message = node.alters.popleft()
        if verdict == "lost":
            node.broker.answered(request_id, None, self.now_ms)
            return
        rows = []
        for topic in message.topics:
            partitions = []
            for data in topic.partitions:
                key = next(
                    tp
                    for tp, state in self.leadership.items()
                    if bytes(state["topic_id"]) == bytes(topic.topic_id)
                    and tp.partition == data.partition_index
                )
                state = self.leadership[key]
                if verdict == "commit":
                    state["isr"] = [member.broker_id for member in data.new_isr_with_epochs]
                    state["partition_epoch"] += 1
                partitions.append(
                    ap.AlterPartitionResponsePartitionData(
                        partition_index=data.partition_index,
                        error_code=0 if verdict == "commit" else verdict,
                        leader_id=state["leader"],
                        leader_epoch=state["leader_epoch"],
                        isr=state["isr"],
                        partition_epoch=state["partition_epoch"],
                    )
                )
            rows.append(ap.AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=partitions))
        node.broker.answered(request_id, ap.AlterPartitionResponse(topics=rows), self.now_ms)

    # ------------------------------------------------------------------------------------ turning the loop

    def settle(self) -> None:
        """Carries effects and frames until nothing moves any more."""
        quiet = 0
        for _ in range(10_000):
            moved = False
            for node in self.nodes.values():
                if node.is_up:
                    moved |= self._do_effects(node)
                    moved |= self._carry(node)
            quiet = 0 if moved else quiet + 1
            if quiet == 2:  # the end of one broker's turn may have answered one that stands before it
                return
        raise AssertionError("the brokers never come to rest")

    def _do_effects(self, node: Node) -> bool:
        taken = node.broker.take_effects()
        for effect in taken:
            if isinstance(effect, fx.StartFetcher):
                node.fetchers[effect.leader] = effect.fetcher
                node.in_flight[effect.leader] = deque()
                node.connections[effect.leader] = self.connection()
            elif isinstance(effect, fx.StopFetcher):
                del node.fetchers[effect.leader], node.in_flight[effect.leader]
            elif isinstance(effect, fx.WakeFetcher):
                pass
            elif isinstance(effect, fx.SendToController) and effect.api_key == 56:
                node.alters.append((effect.request_id, effect.message))
            elif isinstance(effect, fx.StoreRequest) and isinstance(effect.question, fx.ReadConfigs):
                stored = {
                    entity: fx.StoredConfig(self.configs.get(entity, {}), 0)
                    for entity in effect.question.entities
                }
                unreadable = {e: why for e, why in self.unreadable_configs.items() if e in stored}
                node.broker.answered(effect.request_id, fx.ConfigsRead(stored, unreadable), self.now_ms)
            elif isinstance(effect, fx.GoOn):
                while node.broker.go_on(self.now_ms):
                    pass
            elif isinstance(effect, fx.HandleAgain):
                effect.place.answer(partial(node.broker.handle, effect.request, self.now_ms))
            elif isinstance(effect, fx.PollConnections) and self.polls_connections:
                node.broker.answered(effect.request_id, None, self.now_ms)
            elif isinstance(effect, fx.ReadSlices) and self.copies:
                node.broker.answered(effect.request_id, data_of(effect.slices), self.now_ms)
            elif isinstance(effect, fx.FlushLog) and self.copies and node.logs.futures.is_one(effect.log):
                effect.plan.run()
                node.broker.answered(effect.request_id, fx.Flushed(effect.plan, None), self.now_ms)
            elif isinstance(effect, fx.SendToBroker):
                self._ask_peer(node, effect)
            elif isinstance(effect, fx.RunAside) and self.works:
                node.broker.answered(effect.request_id, effect.work.run(), self.now_ms)
            elif isinstance(effect, fx.CheckpointHighWatermarks):
                node.logs.checkpoint_high_watermarks(effect.high_watermarks, effect.said_at)
            else:
                node.told.append(effect)
        if node.alters and self.on_alter != "hold":
            self.answer_alter(node, self.on_alter)
            return True
        return bool(taken)

    def _ask_peer(self, node: Node, effect: fx.SendToBroker) -> None:
        """A broker that is down or out of reach answers nothing."""
        to, number = int(effect.broker), effect.request_id
        if not self.nodes[to].is_up or (node.id, to) in self.cut or (to, node.id) in self.cut:
            return node.broker.answered(number, None, self.now_ms)
        pending = self.send(to, effect.message, effect.version)

        def answered(result: Done) -> None:
            pending.result = result
            node.broker.answered(number, pending.message, self.now_ms)

        if pending.is_answered:
            return node.broker.answered(number, pending.message, self.now_ms)
        pending.put = answered  # type: ignore[method-assign]
        return None

    def _carry(self, node: Node) -> bool:
        """One follower's frames: what it has to send, and what came back."""
        moved = False
        for leader, fetcher in list(node.fetchers.items()):
            flights = node.in_flight[leader]
            if not self.nodes[leader].is_up or (node.id, leader) in self.cut:
                if flights:
                    flights.clear()
                    fetcher.connection_lost(self.now_ms)
                    node.connections[leader] = self.connection()
                continue
            while (frame := fetcher.next_request(self.now_ms)) is not None:
                moved = True
                header = decode_request_header(frame[4:])
                pending = Pending(None, header.api_version)
                flights.append((header.api_key, pending))
                pending.prefix = response_header(header.api_key, header.api_version, header.correlation_id)  # type: ignore[attr-defined]
                self.send_frame(leader, frame[4:], pending, node.connections[leader])
            while flights and flights[0][1].is_answered:
                moved = True
                _, pending = flights.popleft()
                fetcher.handle_response(memoryview(pending.prefix + pending.body), self.now_ms)  # type: ignore[attr-defined]
        return moved

    def advance(self, ms: int, *, settle: bool = True) -> None:
        """Moves the clock, in steps at which every broker ticks; so its parked fetches come and go."""
        end = self.now_ms + ms
        if settle:
            self.settle()
        while self.now_ms < end:
            due = min(
                [node.broker.next_deadline_ms() for node in self.nodes.values() if node.is_up]
                + [
                    wake
                    for node in self.nodes.values()
                    if node.is_up
                    for fetcher in node.fetchers.values()
                    if (wake := fetcher.wake_at_ms(self.now_ms)) is not None
                ]
            )
            self.now_ms = min(end, max(due, self.now_ms + 1))
            for node in self.nodes.values():
                if node.is_up:
                    node.broker.tick(self.now_ms)
            if settle:
                self.settle()

    # ------------------------------------------------------------------------------------------ accidents

    def kill(self, broker_id: int) -> None:
        """As `kill -9`: nothing is closed, nothing is written. What was in flight is lost."""
        node = self.nodes[broker_id]
        node.is_up = False

    def restart(self, broker_id: int) -> None:
        self.nodes[broker_id].start()

    def watch(self, condition: Callable[[], bool], *, within_ms: int = 60_000) -> None:
        """Moves the clock until it holds."""
        end = self.now_ms + within_ms
        while not condition():
            assert self.now_ms < end, "never"
            self.advance(50)


def live_broker(
    number: int, *, host: str = "localhost", port: int | None = None, rack: str | None = None
) -> um.UpdateMetadataBroker:
    """A row of UpdateMetadata; each request has one of the broker that it is sent to."""
    place = um.UpdateMetadataEndpoint(
        port=9000 + number if port is None else port, host=host, listener=LISTENER, security_protocol=0
    )
    return um.UpdateMetadataBroker(id=number, v0_host=host, v0_port=place.port, rack=rack, endpoints=[place])


def told(world: World, kind: type, broker: int = 1) -> list[Any]:
    """Effects of one kind that broker asked for, taken away."""
    world.settle()
    node = world[broker]
    found = [effect for effect in node.told if isinstance(effect, kind)]
    node.told = [effect for effect in node.told if not isinstance(effect, kind)]
    return found
