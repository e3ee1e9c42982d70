"""Verbs of scenarios that query the cluster, and that wait until something is so."""

import re
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from odradek.model.ids import TopicPartition
from odradek.protocol.messages import metadata
from odradek.records.batch import iter_batches
from odradek.records.reader import decode_batch
from odradek.sim.checkers import replicas as checkers
from odradek.sim.clients.client import SimClient
from odradek.sim.clients.states import text_in
from odradek.sim.observed.quiescence import not_quiescent, pending
from odradek.sim.scenario.text import Words, Wrong, listed, partition_of
from odradek.sim.world import PORT, SimBroker, World
from odradek.store import layout

PATIENCE_S = 60.0
CONDITIONS = ("leader", "isr", "epoch", "end", "mark", "follows")  # of `wait`, about a partition


class Querying:
    """Mixed into the stage of a scenario."""

    if TYPE_CHECKING:

        @property
        def world(self) -> World: ...

        @property
        def client(self) -> SimClient: ...

    _call: Callable[[Coroutine[Any, Any, Any]], Any]
    _until: Callable[[Callable[[], bool], str], None]
    _broker: Callable[[str], SimBroker]
    _is_led: Callable[[TopicPartition], bool]
    _anomalies: Callable[[], list[str]]

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
        return broker.replica(partition) if broker is not None and broker.is_running else None

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
                    values += [text_in(record).decode() for record in batch]
                    offset = header.base_offset + header.last_offset_delta + 1
            epochs = " ".join(f"{e.epoch}@{e.start_offset}" for e in log.epochs.entries)
            yield (
                f"{broker.broker_id}: {' '.join(values) or '-'} | end {log.log_end_offset} "
                f"mark {replica.high_watermark} epochs {epochs or '-'}"
            )

    def do_disks(self, words: Words) -> Iterator[str]:
        """The logs in each directory of a broker; a number that depends on the time is left out."""
        broker = self._broker(words.plain[0])
        for disk in broker.disks:
            logs = [n for n in sorted(disk._top.entries) if re.search(r"-(\d+|delete|stray)$", n)]
            shown = " ".join(re.sub(r"\.[0-9a-f]{32}-", " set aside as -", name) for name in logs)
            yield f"{disk.path}: {shown or 'no log'}"

    def do_controller(self, words: Words) -> Iterator[str]:
        acting = self.world.view(with_batches=False).controllers
        for broker, epoch in acting:
            yield f"{broker} in epoch {epoch}"
        if not acting:
            yield "nobody"

    def do_topics(self, words: Words) -> Iterator[str]:
        """What Metadata says, answered by that broker."""
        broker = self._broker(words.plain[0])
        request = metadata.MetadataRequest(topics=None, allow_auto_topic_creation=False)
        answer = self._call(self.client.ask((broker.name, PORT), request))
        named = (
            f"{topic.name}-{row.partition_index} of {row.leader_id}"
            for topic in answer.topics
            for row in topic.partitions
        )
        yield f"{broker.broker_id}: {', '.join(sorted(named)) or 'no topic'}"

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
        for name in named:
            if name not in CONDITIONS:
                raise Wrong(f"wait {partition}: nobody knows {name!r}; known: {', '.join(CONDITIONS)}")

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
            reason = self._why_not_quiescent()
            if reason is None:
                yield "at rest"
                return
            if self.world.loop.time() >= end:
                yield f"! not at rest: {reason}"
                return
            self.world.run_for(0.1)
            yield from self._anomalies()

    def do_idle(self, words: Words) -> Iterator[str]:
        found = not_quiescent(self.world, float(words.plain[0]))
        yield "! something goes round in circles" if found else "nothing happens"

    def _why_not_quiescent(self) -> str | None:
        found = pending(self.world) or list(checkers.identical_logs(self.world.view()))
        return str(found[0]) if found else None
