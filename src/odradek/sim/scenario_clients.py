"""Verbs of stories that produce and read."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from odradek.model.error_codes import INVALID_METADATA, RETRIABLE, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages import produce as pm
from odradek.records.builder import NewRecord, build_batch
from odradek.sim.checkers.history import History, Polled, Sent
from odradek.sim.client import EPOCH_MS, RequestFailed, SimClient, SimConsumer
from odradek.sim.scenario_admin import partition_of
from odradek.sim.scenario_text import Words
from odradek.sim.watch import Watch
from odradek.sim.world import PORT, World


class Producing:
    """Mixed into the stage of a story."""

    if TYPE_CHECKING:

        @property
        def world(self) -> World: ...
        @property
        def client(self) -> SimClient: ...
        @property
        def watch(self) -> Watch: ...

    history: History
    _call: Callable[[Coroutine[Any, Any, Any]], Any]
    _stored: Callable[[TopicPartition], Any]
    _ids: dict[str, tuple[int, int]]
    _sequences: dict[tuple[str, TopicPartition], int]

    def do_produce(self, words: Words) -> Iterator[str]:
        partition = partition_of(words.plain[0])
        acks = {"all": -1, "1": 1, "0": 0}[words.named.get("acks", "all")]
        said = []
        if "again" in words.named:
            self._sequences[words.named["id"], partition] -= 1
        for value in words.plain[1:]:
            outcome = self._call(
                self._send(partition, value.encode(), acks, words.named.get("to"), words.named.get("id"))
            )
            said.append(f"{value}@{outcome}" if isinstance(outcome, int) else f"{value}: {outcome}")
            if "again" in words.named:
                self.history.events.pop()  # one send, however often it was asked for
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
            [NewRecord(None, value, EPOCH_MS + int(loop.time() * 1000))],
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

    def do_consent(self, words: Words) -> None:
        partition = partition_of(words.plain[0])
        self.watch.forget(partition)
        self.history.events = [e for e in self.history.events if e.topic_partition != partition]
