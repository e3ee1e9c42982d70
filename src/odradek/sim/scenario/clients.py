"""Verbs of scenarios that produce and read; those of impatient clients do not wait for the answer.

| command | does, and prints |
|---|---|
| `send P VALUE as=NAME [acks=all] [timeout=MS]` | produces without waiting; `answer NAME` prints what came of it, or `not yet` |
| `fetch P as=NAME at=OFFSET [wait=MS] [from=BROKER] [epoch=E]` | a consumer's long poll, likewise; `epoch`: of the record before, so that it is told if its log was cut |
| `fill P COUNT` | produces as many small records, acks=all, and prints how many were acknowledged |
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from odradek.model.error_codes import INVALID_METADATA, RETRIABLE, ErrorCode
from odradek.model.ids import TopicPartition
from odradek.protocol.messages import fetch
from odradek.protocol.messages import produce as pm
from odradek.records.batch import iter_batches
from odradek.records.builder import NewRecord, build_batch
from odradek.records.reader import decode_batch
from odradek.sim.checkers.deliveries import FINAL
from odradek.sim.checkers.history import History, Polled, Sent, has_key
from odradek.sim.clients.client import EPOCH_MS, RequestFailed, SimClient
from odradek.sim.clients.producer import without_key
from odradek.sim.clients.states import StateConsumer, record_of
from odradek.sim.loop import Host
from odradek.sim.observed.watch import Watch
from odradek.sim.scenario.text import Words, partition_of
from odradek.sim.world import PORT, World


class Producing:
    """Mixed into the stage of a scenario."""

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
    _host: Host
    _sending: dict[str, str]

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
            [(record_of if has_key(value) else without_key)(value, EPOCH_MS + int(loop.time() * 1000))],
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

    async def _read(
        self, partition: TopicPartition, source: str | None, start: int, *, is_final: bool = False
    ) -> str:
        client = self.client
        await client.refresh([partition.topic])
        if source is not None:
            client.leaders[partition] = (int(source), -1)
            client.brokers.setdefault(int(source), (f"b{source}", PORT))
        history = History()
        name = f"{FINAL if is_final else 'r'}{len(self.history.events)}"
        consumer = StateConsumer(client, name, partition, history, start, may_start_over=is_final)
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

    # --- clients that do not wait

    def do_send(self, words: Words) -> None:
        partition, (value,) = partition_of(words.plain[0]), words.plain[1:]
        name = words.named["as"]
        batch = build_batch(
            [NewRecord(None, value.encode(), EPOCH_MS + int(self.world.loop.time() * 1000))],
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
        )
        request = pm.ProduceRequest(
            acks={"all": -1, "1": 1}[words.named.get("acks", "all")],
            timeout_ms=int(words.named.get("timeout", "4000")),
            topic_data=[
                pm.TopicProduceData(
                    name=partition.topic,
                    partition_data=[pm.PartitionProduceData(index=partition.partition, records=batch)],
                )
            ],
        )

        def said(answer: Any) -> str:
            row = answer.responses[0].partition_responses[0]
            error = ErrorCode(row.error_code)
            return f"{value}@{row.base_offset}" if error == ErrorCode.NONE else error.name

        self._ask_later(name, partition, request, said)

    def do_fetch(self, words: Words) -> None:
        partition, name = partition_of(words.plain[0]), words.named["as"]
        self._call(self.client.refresh([partition.topic]))
        row = fetch.FetchPartition(
            partition=partition.partition,
            fetch_offset=int(words.named.get("at", "0")),
            last_fetched_epoch=int(words.named.get("epoch", "-1")),
            partition_max_bytes=1 << 20,
        )
        request = fetch.FetchRequest(
            max_wait_ms=int(words.named.get("wait", "30000")),
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[fetch.FetchTopic(topic_id=self.client.topic_ids[partition.topic], partitions=[row])],
        )

        def said(answer: Any) -> str:
            found = answer.responses[0].partitions[0] if answer.responses else None
            if found is None:
                return ErrorCode(answer.error_code).name
            if found.error_code:
                return ErrorCode(found.error_code).name
            if found.diverging_epoch is not None and found.diverging_epoch.end_offset >= 0:
                return f"epoch {found.diverging_epoch.epoch} ends at {found.diverging_epoch.end_offset}"
            values = []
            view = memoryview(found.records or b"")
            for position, header in iter_batches(view):
                batch = decode_batch(view[position : position + header.size_bytes])
                values += [(record.value or b"").decode() for record in batch]
            return " ".join(values) or "nothing"

        self._ask_later(name, partition, request, said, words.named.get("from"))

    def do_fill(self, words: Words) -> Iterator[str]:
        text, count = words.plain
        values = [f"filler-{n:03}" for n in range(int(count))]
        (said,) = self.do_produce(Words([text, *values]))
        yield f"{said.count('@')} acknowledged"

    def _ask_later(
        self,
        name: str,
        partition: TopicPartition,
        request: Any,
        said: Callable[[Any], str],
        broker: str | None = None,
    ) -> None:
        """Over a connection of its own: whatever comes behind it on the same one would wait with it."""
        self._sending[name] = "not yet"
        client = SimClient(self.world.loop, self._host, self.world.addresses, request_timeout_ms=600_000)
        self._call(client.refresh([partition.topic]))

        async def ask() -> None:
            address, _ = await client.leader_of(partition)
            if broker is not None:
                address = (f"b{broker}", PORT)
            assert address is not None
            try:
                self._sending[name] = said(await client.ask(address, request))
            except RequestFailed:
                self._sending[name] = "no answer"

        self.world.spawn(self._host, ask())
        self.world.run_for(0.05)

    def do_answer(self, words: Words) -> Iterator[str]:
        for name in words.plain:
            yield f"{name}: {self._sending[name]}"
