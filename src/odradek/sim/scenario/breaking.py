"""Verbs of scenarios that break things and mend them: brokers, links, the store, control requests by hand."""

import errno
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from odradek.log.memory_files import MemoryDisk
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages import leader_and_isr as lai
from odradek.protocol.messages import stop_replica as sr
from odradek.sim.clients.client import RequestFailed, SimClient
from odradek.sim.faults.disks import break_directory, damage_in
from odradek.sim.scenario.text import Words, listed, partition_of
from odradek.sim.world import PORT, SimBroker, World
from odradek.store import layout
from odradek.store.api import Set


def _nothing_survives(count: int) -> int:
    return 0


class Breaking:
    """Mixed into the stage of a scenario."""

    if TYPE_CHECKING:

        @property
        def world(self) -> World: ...
        @property
        def client(self) -> SimClient: ...

    _call: Callable[[Coroutine[Any, Any, Any]], Any]
    _until: Callable[[Callable[[], bool], str], None]
    _broker: Callable[[str], SimBroker]
    _garbled: dict[str, bytes]

    # --- brokers

    def do_kill(self, words: Words) -> None:
        choose = _nothing_survives if words.named.get("power") == "all-lost" else None
        for text in words.plain:
            if text not in ("power", "unmounted"):
                broker = self._broker(text)
                broker.kill(power_cut="power" in words.plain or choose is not None, choose=choose)
                if "unmounted" in words.plain:
                    broker.unmount_disks()

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

    def do_hang(self, words: Words) -> None:
        """Its loop stands still for so many seconds; its threads live."""
        self._broker(words.plain[0]).hang(float(words.plain[1]))

    def do_wipe(self, words: Words) -> None:
        self._broker(words.plain[0]).wipe_disk()

    def do_slow_disk(self, words: Words) -> None:
        self._broker(words.plain[0]).blocking_takes_s = float(words.plain[1])

    def _disk_of(self, broker: SimBroker, text: str) -> MemoryDisk:
        assert broker.runtime is not None
        path = broker.runtime.logs.directory_of(partition_of(text))
        return next(disk for disk in broker.disks if disk.path == path)

    def do_flip(self, words: Words) -> None:
        """The last bit of the batch that holds an offset, on the platter and in memory alike."""
        broker = self._broker(words.plain[0])
        partition, offset = partition_of(words.plain[1]), int(words.named["offset"])
        disk = self._disk_of(broker, words.plain[1])
        assert broker.runtime is not None
        log = broker.runtime.logs.logs[partition]
        segment = log.segments.holding(offset)
        _, header = next(segment.headers(position := segment.position_of(offset)))
        path, end = f"{partition}/{segment.name()}", position + header.size_bytes
        disk.flip_bit(path, 8 * end - 1)
        broker.exempt_damage(partition, damage_in(disk, path, position, end))

    def do_break_disk(self, words: Words) -> None:
        break_directory(self._disk_of(self._broker(words.plain[0]), words.named["of"]))

    def do_fails_once(self, words: Words) -> None:
        """The disk is well before and after: one operation fails on it."""
        broker_id, operation, error = words.plain
        disk, named = self._disk_of(self._broker(broker_id), words.named["of"]), words.named
        name = f"{words.named['of']}/{named.get('name', '')}"
        disk.inject(operation, getattr(errno, error), name=name, after=int(named.get("after", "0")), times=1)

    def do_mend_disk(self, words: Words) -> None:
        broker = self._broker(words.plain[0])
        for disk in broker.disks:
            disk.heal()
        self._start_anew(broker)

    def do_take_disk(self, words: Words) -> None:
        broker = self._broker(words.plain[0])
        disk = self._disk_of(broker, words.named["of"])
        broker.kill(at_once=True)  # and it lets go of the disk
        broker.disks.remove(disk)
        broker.disks_taken.append(disk)
        self._start_anew(broker)

    def do_give_disk(self, words: Words) -> None:
        broker = self._broker(words.plain[0])
        broker.disks += broker.disks_taken
        broker.disks_taken.clear()
        self._start_anew(broker)

    def do_lose_file(self, words: Words) -> None:
        """Of a broker that is down: a power cut took this file of the log, for its name was never synced."""
        broker, partition, name = self._broker(words.plain[0]), words.plain[1], words.plain[2]
        assert not broker.is_running, f"{broker.name} still runs"
        logs = [disk.root.child(partition) for disk in broker.disks if partition in disk.root.names()]
        assert [log.remove(name) for log in logs if log.exists(name)], (
            f"{broker.name} has no {partition}/{name}"
        )
        broker.unmount_disks()

    def _start_anew(self, broker: SimBroker) -> None:
        if broker.is_running:
            broker.kill(at_once=True)
        broker.start()
        self._until(lambda: self.world.is_ready(), f"{broker.name} is back")

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
        store = self.world.store
        store.go_down() if words.plain[0] == "down" else store.come_up()

    def do_garble(self, words: Words) -> None:
        path = layout.broker_path(self._broker(words.plain[0]).broker_id)
        for _, node in self.world.store.ensemble.tree.walk(path):
            self._garbled[path] = node.data
        self.world.write_by_hand(Set(path, b"{"))

    def do_mend(self, words: Words) -> None:
        path = layout.broker_path(self._broker(words.plain[0]).broker_id)
        self.world.write_by_hand(Set(path, self._garbled.pop(path)))

    def do_dies_at_write(self, words: Words) -> None:
        broker, link = self._broker(words.plain[0]), self._broker(words.plain[0]).link
        left, world = int(words.plain[1]), self.world
        assert link is not None

        def written() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                world.loop.call_soon(broker.kill, context=world.world_context())

        link.on_written = written

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
