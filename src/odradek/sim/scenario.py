"""Stories in text, told on the same world as the simulator's seeds.

A file is a list of paragraphs: lines with the reason (`#`), commands, a line `----`, and what came of them. The
outcome is compared; `python -m odradek.sim.scenario --rewrite FILES` writes it anew. Nothing that depends on the
seed is printed, so a story must come out the same however the callbacks of the loop are shuffled.

After each command the invariants are looked at, as in a seed; what they say is part of the outcome (`! WeakIsr: ...`).

| command | does, and prints |
|---|---|
| `cluster [brokers=3] [seed=0] [notices=yes] [name=value ...]` | starts brokers, 1 first, so that it is controller |
| `topic NAME replicas=1,2,3[;2,3,1] [name=value ...]` | creates a topic; prints each partition's state |
| `produce P VALUES [acks=all] [to=BROKER] [id=PRODUCER]` | one batch each; prints `value@offset` or the error. `to`: to that broker as if it led, once |
| `read P [from=BROKER] [at=0]` | prints what a consumer gets up to the high watermark |
| `state P` | prints the stored leader, epoch and ISR |
| `roles P` | prints who believes what: `1 leads in 3`, `2 follows 1 in 3` |
| `log P` | prints each broker's records, log end, high watermark and epochs |
| `controller` | prints who acts as controller, and in which epoch |
| `kill B [power]`, `start B`, `bounce B`, `stop B`, `pause B SECONDS`, `wipe B`, `expire B` | the lives of brokers; `power` loses what was not flushed |
| `cut A B`, `cut A > B`, `cut A store`, `heal [...]` | links, both ways or one way; `heal` alone heals everything |
| `lose-answers P`, `hold-watches B`, `release-watches B`, `store down|up` | the store |
| `replay B [P] kind=leader-and-isr|stop-delete leader=L epoch=E isr=... broker-epoch=N controller-epoch=N` | a control request by hand, late or of a zombie |
| `reassign P to=3,2` | moves a partition |
| `consent P` | records may have been lost, and we agreed to that (an unclean election) |
| `run SECONDS` | lets time pass |
| `wait P leader=2 isr=2,3`, `wait controller=2`, `wait P end=B:OFFSET` | until it is so, 60 simulated seconds at most |
| `settle` | until everything is at rest; prints `at rest`, or why it is not |
"""

import asyncio
import logging
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from odradek.model.error_codes import INVALID_METADATA, RETRIABLE, ErrorCode
from odradek.model.ids import BrokerId, TopicPartition
from odradek.protocol.messages import leader_and_isr as lai
from odradek.protocol.messages import produce as pm
from odradek.protocol.messages import stop_replica as sr
from odradek.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from odradek.records.builder import NewRecord, build_batch
from odradek.sim.checkers import replicas as checkers
from odradek.sim.checkers.deliveries import check
from odradek.sim.checkers.history import History, Polled, Sent
from odradek.sim.client import RequestFailed, SimClient, SimConsumer
from odradek.sim.loop import Host
from odradek.sim.world import PORT, NotInTime, SimBroker, World
from odradek.store import layout

LINE = "----"
PATIENCE_S = 60.0


@dataclass(slots=True)
class Paragraph:
    comment: list[str]
    commands: list[str]
    outcome: list[str]


class Wrong(Exception):
    """A line that cannot be understood."""


def parse(text: str) -> list[Paragraph]:
    found = []
    for piece in re.split(r"\n\s*\n", text.strip("\n")):
        lines = piece.split("\n")
        if LINE in lines:
            at = lines.index(LINE)
            before, after = lines[:at], lines[at + 1 :]
        else:
            before, after = lines, []
        comment = [line for line in before if line.startswith("#")]
        found.append(
            Paragraph(comment, [line for line in before if line and not line.startswith("#")], after)
        )
    return found


def render(paragraphs: list[Paragraph]) -> str:
    pieces = []
    for p in paragraphs:
        pieces.append("\n".join([*p.comment, *p.commands, *([LINE, *p.outcome] if p.commands else [])]))
    return "\n\n".join(pieces) + "\n"


def play(text: str, *, seed: int | None = None) -> str:
    """The text with the outcomes as they came out. `seed` takes the place of the one in the text."""
    paragraphs = parse(text)
    logger = logging.getLogger("odradek")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    stage = Stage(seed)
    try:
        for paragraph in paragraphs:
            paragraph.outcome = [line for command in paragraph.commands for line in stage.does(command)]
        left = stage.end()
        if left:
            paragraphs[-1].outcome += left
    finally:
        logger.setLevel(level)
        stage.close()
    return render(paragraphs)


def partition_of(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


@dataclass
class Words:
    """A command's words: those with `=` by name, the others in order."""

    plain: list[str] = field(default_factory=list)
    named: dict[str, str] = field(default_factory=dict)


def words_of(command: str) -> tuple[str, Words]:
    verb, *rest = shlex.split(command)
    words = Words()
    for word in rest:
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(r"[a-z][a-z0-9.-]*", name):
            words.named[name] = value
        else:
            words.plain.append(word)
    return verb, words


def listed(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


class Stage:
    """The world of one story, and what its commands do."""

    def __init__(self, seed: int | None = None) -> None:
        self._seed = seed
        self._world: World | None = None
        self._client: SimClient | None = None
        self._host = Host("c1", 101)
        self.history = History()
        self._ids: dict[str, tuple[int, int]] = {}
        self._sequences: dict[tuple[str, TopicPartition], int] = {}
        self._committed = checkers.Committed()
        self._memories = (self._committed, checkers.Leaders(), checkers.HighWatermarks())
        self._told: set[str] = set()

    @property
    def world(self) -> World:
        if self._world is None:
            raise Wrong("the first command is `cluster`")
        return self._world

    @property
    def client(self) -> SimClient:
        assert self._client is not None
        return self._client

    def close(self) -> None:
        from odradek.sim.run import let_go

        if self._world is not None:
            let_go(self._world)

    def does(self, command: str) -> list[str]:
        verb, words = words_of(command)
        act = getattr(self, "do_" + verb.replace("-", "_"), None)
        if act is None:
            raise Wrong(f"no command {verb!r} in {command!r}")
        try:
            said = list(act(words) or ())
        except NotInTime as late:
            said = [f"! not in time: {late}"]
        return said + self._look()

    def end(self) -> list[str]:
        """What clients saw, judged. Where everybody is up at the end, all that was acknowledged must be readable."""
        if self._world is None:
            return []
        is_over = all(broker.is_running for broker in self._world.brokers.values())
        if is_over:
            for partition in dict.fromkeys(event.topic_partition for event in self.history.events):
                self._call(self._read(partition, None, 0))
        self.history.is_final = is_over
        return [f"! {anomaly}" for anomaly in check(self.history)]

    def _look(self) -> list[str]:
        view = self.world.view()
        found = [str(a) for look in checkers.STEP_CHECKS for a in look(view)]
        for memory in self._memories:
            found += [str(a) for a in memory.observe(view)]
        found += [f"crash: {c.get('exception')!r}" for c in self.world.loop.unhandled]
        for broker in self.world.brokers.values():
            if broker.exit_reason is not None:
                found.append(f"crash: {broker.name} stopped: {broker.exit_reason}")
        new = [text for text in dict.fromkeys(found) if text not in self._told]
        self._told.update(new)
        return [f"! {text}" for text in new]

    # --- the cluster

    def do_cluster(self, words: Words) -> None:
        named = dict(words.named)
        count = int(named.pop("brokers", "3"))
        seed = int(named.pop("seed", "0"))
        notices = named.pop("notices", "yes") == "yes"
        settings = {"auto.leader.rebalance.enable": "false", **named}
        self._world = World(
            seed if self._seed is None else self._seed,
            brokers=count,
            settings=settings,
            store_notices_death=notices,
        )
        world = self._world
        world.brokers[BrokerId(1)].start()
        world.run_while(lambda: not world.brokers[BrokerId(1)].is_controller, 60.0, "broker 1 is controller")
        for broker in list(world.brokers.values())[1:]:
            broker.start()
        world.run_while(lambda: not world.is_ready(), 60.0, "every broker knows all others")
        self._client = SimClient(world.loop, self._host, [(b.name, PORT) for b in world.brokers.values()])
        self._call(self._client.refresh([]))

    def _call(self, work: Any) -> Any:
        return self.world.call(self._host, work)

    def _broker(self, text: str) -> SimBroker:
        return self.world.brokers[BrokerId(int(text))]

    def do_topic(self, words: Words) -> Iterator[str]:
        (name,) = words.plain
        named = {_SHORT.get(k, k): v for k, v in words.named.items()}
        assignments = [listed(part) for part in named.pop("replicas").split(";")]
        error = self._call(self.client.create_topic(name, -1, -1, named, assignments=assignments))
        if error != ErrorCode.NONE:
            yield error.name
            return
        partitions = [TopicPartition(name, n) for n in range(len(assignments))]
        self._until(lambda: all(self._stored(p) is not None for p in partitions), "the topic has leaders")
        self._until(lambda: all(self._is_led(p) for p in partitions), "the leader knows")
        for partition in partitions:
            yield f"{partition}: {self._state_text(partition)}"

    def _is_led(self, partition: TopicPartition) -> bool:
        stored = self._stored(partition)
        leader = None if stored is None else self._replica(self.world.brokers.get(stored.leader), partition)
        return leader is not None and leader.is_leader and leader.leader_epoch == stored.leader_epoch

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        self.world.run_while(lambda: not condition(), PATIENCE_S, what)

    # --- brokers

    def do_kill(self, words: Words) -> None:
        for text in words.plain:
            if text != "power":
                self._broker(text).kill(power_cut="power" in words.plain)

    def do_start(self, words: Words) -> None:
        for text in words.plain:
            self._broker(text).start()

    def do_bounce(self, words: Words) -> None:
        broker = self._broker(words.plain[0])
        broker.kill(at_once=True)
        broker.start()

    def do_stop(self, words: Words) -> None:
        for text in words.plain:
            broker = self._broker(text)
            broker.stop()
            self._until(lambda: not broker.is_running, f"{broker.name} has stopped")  # noqa: B023

    def do_pause(self, words: Words) -> None:
        self._broker(words.plain[0]).pause(float(words.plain[1]))

    def do_wipe(self, words: Words) -> None:
        self._broker(words.plain[0]).wipe_disk()

    def do_expire(self, words: Words) -> None:
        link = self._broker(words.plain[0]).link
        assert link is not None
        link.expire()

    # --- links

    def _pairs(self, words: Words) -> list[tuple[str, str]]:
        plain = words.plain
        if ">" in plain:
            one, _, other = plain
            return [(f"b{one}", f"b{other}")]
        one, *others = plain
        return [pair for other in others for pair in ((f"b{one}", f"b{other}"), (f"b{other}", f"b{one}"))]

    def do_cut(self, words: Words) -> None:
        if words.plain[-1] == "store":
            self.world.cut_store(self._broker(words.plain[0]))
        else:
            for source, target in self._pairs(words):
                self.world.cut(source, target)

    def do_heal(self, words: Words) -> None:
        world = self.world
        if not words.plain:
            world.network.heal_all()
            for broker in world.brokers.values():
                world.heal_store(broker)
        elif words.plain[-1] == "store":
            world.heal_store(self._broker(words.plain[0]))
        else:
            for source, target in self._pairs(words):
                world.heal(source, target)

    # --- the store

    def do_lose_answers(self, words: Words) -> None:
        self.world.store.lost_answer_probability = float(words.plain[0])

    def do_store(self, words: Words) -> None:
        self.world.store.is_down = words.plain[0] == "down"

    def do_hold_watches(self, words: Words) -> None:
        link = self._broker(words.plain[0]).link
        assert link is not None
        link.hold_watches()

    def do_release_watches(self, words: Words) -> None:
        link = self._broker(words.plain[0]).link
        assert link is not None
        link.release_watches()

    # --- control requests by hand

    def do_replay(self, words: Words) -> Iterator[str]:
        broker = self._broker(words.plain[0])
        partition = partition_of(words.plain[1])
        named = words.named
        epoch = int(named.get("broker-epoch", "-1"))
        if epoch == -2:  # of its present life
            epoch = self.world.registered().get(broker.broker_id, -1)
        controller_epoch = int(named["controller-epoch"])
        message: Any
        if named["kind"] == "leader-and-isr":
            isr = list(listed(named["isr"]))
            message = lai.LeaderAndIsrRequest(
                controller_id=1,
                controller_epoch=controller_epoch,
                broker_epoch=epoch,
                topic_states=[
                    lai.LeaderAndIsrTopicState(
                        topic_name=partition.topic,
                        topic_id=self.client.topic_ids[partition.topic],
                        partition_states=[
                            lai.LeaderAndIsrPartitionState(
                                partition_index=partition.partition,
                                controller_epoch=controller_epoch,
                                leader=int(named["leader"]),
                                leader_epoch=int(named["epoch"]),
                                isr=isr,
                                partition_epoch=int(named.get("partition-epoch", "0")),
                                replicas=list(listed(named.get("replicas", named["isr"]))),
                            )
                        ],
                    )
                ],
            )
            version = 7
        else:
            message = sr.StopReplicaRequest(
                controller_id=1,
                controller_epoch=controller_epoch,
                broker_epoch=epoch,
                topic_states=[
                    sr.StopReplicaTopicState(
                        topic_name=partition.topic,
                        partition_states=[
                            sr.StopReplicaPartitionState(
                                partition_index=partition.partition,
                                leader_epoch=int(named["epoch"]),
                                delete_partition=named["kind"] == "stop-delete",
                            )
                        ],
                    )
                ],
            )
            version = 4
        try:
            answer = self._call(self.client.ask((broker.name, PORT), message, version))
        except RequestFailed:
            yield "no answer"
            return
        if answer.error_code:
            yield ErrorCode(answer.error_code).name
        elif named["kind"] == "leader-and-isr":
            yield ErrorCode(answer.topics[0].partition_errors[0].error_code).name
        else:
            yield ErrorCode(answer.partition_errors[0].error_code).name

    def do_reassign(self, words: Words) -> Iterator[str]:
        partition = partition_of(words.plain[0])
        request = AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name=partition.topic,
                    partitions=[
                        ReassignablePartition(
                            partition_index=partition.partition, replicas=list(listed(words.named["to"]))
                        )
                    ],
                )
            ],
            timeout_ms=5000,
        )
        self._call(self.client.refresh([]))
        answer = self._call(self.client.ask_controller(request))
        code = answer.error_code or answer.responses[0].partitions[0].error_code
        if code:
            yield ErrorCode(code).name

    # --- clients

    def do_produce(self, words: Words) -> Iterator[str]:
        partition = partition_of(words.plain[0])
        acks = {"all": -1, "1": 1, "0": 0}[words.named.get("acks", "all")]
        said = []
        for value in words.plain[1:]:
            outcome = self._call(
                self._send(partition, value.encode(), acks, words.named.get("to"), words.named.get("id"))
            )
            said.append(f"{value}@{outcome}" if isinstance(outcome, int) else f"{value}: {outcome}")
        yield " ".join(said)

    async def _send(
        self, partition: TopicPartition, value: bytes, acks: int, to: str | None, producer: str | None
    ) -> int | str:
        client, loop = self.client, self.world.loop
        producer_id, epoch, sequence = -1, -1, -1
        if producer is not None:
            if producer not in self._ids:
                self._ids[producer] = (9000 + len(self._ids), 0)
            producer_id, epoch = self._ids[producer]
            sequence = self._sequences.get((producer, partition), 0)
        batch = build_batch(
            [NewRecord(None, value, 1000 + int(loop.time() * 1000))],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
        request = pm.ProduceRequest(
            acks=acks,
            timeout_ms=2_000,
            topic_data=[
                pm.TopicProduceData(
                    name=partition.topic,
                    partition_data=[pm.PartitionProduceData(index=partition.partition, records=batch)],
                )
            ],
        )
        end = loop.time() + 15.0
        answer: int | str = "no answer"
        while loop.time() < end:
            if to is None:
                await client.refresh([partition.topic])
                leader, epoch = client.leaders.get(partition, (-1, -1))
                address = client.brokers.get(leader)
                stored = self._stored(partition)
                if (
                    address is None or stored is None or epoch < stored.leader_epoch
                ):  # an old picture: ask again
                    answer = "no leader"
                    await asyncio.sleep(0.2)
                    continue
            else:
                address = (f"b{to}", PORT)
            try:
                answered = await client.ask(address, request)
            except RequestFailed:
                answer = "no answer"
                break
            row = answered.responses[0].partition_responses[0]
            error = ErrorCode(row.error_code)
            if error == ErrorCode.NONE:
                answer = row.base_offset
                if producer is not None:
                    self._sequences[(producer, partition)] = sequence + 1
                break
            answer = error.name
            if to is not None or error not in INVALID_METADATA or error not in RETRIABLE:
                break
            await asyncio.sleep(0.2)
        is_ok = isinstance(answer, int)
        self.history.events.append(
            Sent(
                producer or f"c{len(self.history.events)}",
                partition,
                (value,),
                "ok" if is_ok else "unknown",
                (answer,) if isinstance(answer, int) else (),
                acks if to is None else 1,
                producer is not None,
                int(loop.time() * 1000),
            )
        )
        return answer

    def do_read(self, words: Words) -> Iterator[str]:
        partition = partition_of(words.plain[0])
        yield self._call(self._read(partition, words.named.get("from"), int(words.named.get("at", "0"))))

    async def _read(self, partition: TopicPartition, source: str | None, start: int) -> str:
        client = self.client
        await client.refresh([partition.topic])
        if source is not None:
            client.leaders[partition] = (int(source), -1)
            client.brokers.setdefault(int(source), (f"b{source}", PORT))
        history = History()
        consumer = SimConsumer(client, f"r{len(self.history.events)}", partition, history, start)
        end = self.world.loop.time() + 10.0
        while self.world.loop.time() < end:
            count = await consumer.poll(max_wait_ms=0)
            if count == 0 and consumer.offset >= consumer.high_watermark >= 0:
                break
        else:
            return "nothing can be read"
        if source is None and start == 0:
            self.history.events.extend(history.events)
        values = [v.decode() for p in history.events if isinstance(p, Polled) for _, v in p.records]
        return " ".join(values) or "nothing"

    # --- looking

    def _stored(self, partition: TopicPartition) -> Any:
        path = layout.state_path(partition)
        for _, node in self.world.store.ensemble.tree.walk(path):
            return layout.decode_partition_state(path, node.data, node.stat.version).leader_and_isr
        return None

    def _state_text(self, partition: TopicPartition) -> str:
        stored = self._stored(partition)
        if stored is None:
            return "no state"
        text = (
            f"leader {stored.leader} epoch {stored.leader_epoch} isr {','.join(map(str, sorted(stored.isr)))}"
        )
        if stored.elr:
            text += f" eligible {','.join(map(str, sorted(stored.elr)))}"
        return text

    def do_state(self, words: Words) -> Iterator[str]:
        for text in words.plain:
            yield f"{text}: {self._state_text(partition_of(text))}"

    def _replica(self, broker: SimBroker | None, partition: TopicPartition) -> Any:
        if broker is None or not broker.is_running or not broker.is_serving or broker.runtime is None:
            return None
        return broker.runtime.broker.replicas.partitions.get(partition)

    def do_roles(self, words: Words) -> Iterator[str]:
        partition = partition_of(words.plain[0])
        for broker in self.world.brokers.values():
            replica = self._replica(broker, partition)
            if replica is None:
                yield f"{broker.broker_id} is {'down' if not broker.is_running else 'no replica'}"
            elif replica.is_leader:
                yield f"{broker.broker_id} leads in {replica.leader_epoch}"
            else:
                yield f"{broker.broker_id} follows {replica.leader} in {replica.leader_epoch}"

    def do_log(self, words: Words) -> Iterator[str]:
        from odradek.records.batch import iter_batches
        from odradek.records.reader import decode_batch

        partition = partition_of(words.plain[0])
        for broker in self.world.brokers.values():
            replica = self._replica(broker, partition)
            if replica is None:
                continue
            log = replica.log
            values: list[str] = []
            offset = log.log_start_offset
            while offset < log.log_end_offset:
                with broker.disk.undisturbed():
                    read = log.read(
                        offset, max_bytes=1 << 20, upper_bound_offset=log.log_end_offset, min_one_batch=True
                    )
                    view = memoryview(b"".join(piece.read() for piece in read.slices))
                for position, header in iter_batches(view):
                    batch = decode_batch(view[position : position + header.size_bytes])
                    values += [(record.value or b"").decode() for record in batch]
                    offset = header.base_offset + header.last_offset_delta + 1
            epochs = " ".join(f"{e.epoch}@{e.start_offset}" for e in log.epochs.entries)
            yield (
                f"{broker.broker_id}: {' '.join(values) or '-'} | end {log.log_end_offset} "
                f"mark {replica.high_watermark} epochs {epochs or '-'}"
            )

    def do_controller(self, words: Words) -> Iterator[str]:
        acting = self.world.view(with_batches=False).controllers
        for broker, epoch in acting:
            yield f"{broker} in epoch {epoch}"
        if not acting:
            yield "nobody"

    def do_consent(self, words: Words) -> None:
        partition = partition_of(words.plain[0])
        self._committed.forget(partition)
        self.history.events = [e for e in self.history.events if e.topic_partition != partition]

    # --- time

    def do_run(self, words: Words) -> None:
        self.world.run_for(float(words.plain[0]))

    def do_wait(self, words: Words) -> None:
        named = words.named
        if not words.plain:
            broker = self._broker(named["controller"])
            self._until(lambda: broker.is_controller, f"{broker.name} is controller")
            return
        partition = partition_of(words.plain[0])

        def holds() -> bool:
            stored = self._stored(partition)
            if stored is None:
                return False
            if "leader" in named and stored.leader != int(named["leader"]):
                return False
            if "isr" in named and set(stored.isr) != set(listed(named["isr"])):
                return False
            if "epoch" in named and stored.leader_epoch != int(named["epoch"]):
                return False
            if "end" in named:
                number, _, end = named["end"].partition(":")
                replica = self._replica(self._broker(number), partition)
                if replica is None or replica.log.log_end_offset != int(end):
                    return False
            if "mark" in named:
                number, _, mark = named["mark"].partition(":")
                replica = self._replica(self._broker(number), partition)
                if replica is None or replica.high_watermark != int(mark):
                    return False
            if "follows" in named:  # the broker has heard of the stored epoch
                replica = self._replica(self._broker(named["follows"]), partition)
                if replica is None or replica.leader_epoch != stored.leader_epoch:
                    return False
            return stored.leader < 0 or "leader" not in named or self._is_led(partition)

        self._until(holds, " ".join([words.plain[0], *(f"{k}={v}" for k, v in named.items())]))

    def do_settle(self, words: Words) -> Iterator[str]:
        end = self.world.loop.time() + PATIENCE_S
        while True:
            reason = self._why_not_at_rest()
            if reason is None:
                yield "at rest"
                return
            if self.world.loop.time() >= end:
                yield f"! not at rest: {reason}"
                return
            self.world.run_for(0.1)
            yield from self._look()

    def _why_not_at_rest(self) -> str | None:
        from odradek.sim.run import why_not_at_rest

        reason = why_not_at_rest(self.world)
        if reason is None:
            found = list(checkers.identical_logs(self.world.view()))
            reason = str(found[0]) if found else None
        return reason


_SHORT = {
    "min": "min.insync.replicas",
    "unclean": "unclean.leader.election.enable",
    "flush": "flush.messages",
}


def main(arguments: list[str]) -> int:
    """Plays files; with `--rewrite` the outcomes are written into them, else differences are shown."""
    import difflib

    rewrite = "--rewrite" in arguments
    failed = 0
    for name in arguments:
        if name.startswith("--"):
            continue
        path = Path(name)
        before = path.read_text(encoding="utf-8")
        after = play(before)
        if after == before:
            continue
        if rewrite:
            path.write_text(after, encoding="utf-8")
            sys.stdout.write(f"{name}: rewritten\n")
        else:
            failed += 1
            lines = difflib.unified_diff(before.splitlines(), after.splitlines(), name, "played", lineterm="")
            sys.stdout.write("\n".join(lines) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
