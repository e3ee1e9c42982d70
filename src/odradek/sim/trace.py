"""What happened in a run, action by action, in the names of hachikuji/kafka-specification (`--trace FILE`, ndjson).

After each callback of the loop the replicas of the host that ran, and the store when it has moved on, are compared
with what they were before; the difference has a name. Names are those of `Kip320` and, for what goes through the
controller, of `AsyncIsr`, so that a run can be laid beside the specification. What it does not know has a name of
ours: brokers that start and end, controllers, clients, faults, followers' high watermarks and cuts, and
`ControllerUpdateIsr`, which is a state the controller writes of itself without electing or shrinking (a reassignment).

| action | what changed |
|---|---|
| `ControllerElectLeader`, `ControllerShrinkIsr`, `ControllerUpdateIsr` | the stored state, with its leader epoch |
| `ControllerHandleRequest` | the stored state in the same leader epoch: AlterPartition |
| `BecomeLeader`, `FencedBecomeFollowerAndTruncate` | a replica's leader epoch |
| `LeaderWrite`, `FencedFollowerFetch`, `FollowerTruncate` | a replica's log end |
| `FencedLeaderIncHighWatermark`, `FollowerHighWatermark` | a replica's high watermark |
| `LeaderRequestShrinkIsr`, `LeaderRequestExpandIsr`, `LeaderHandleUpdate` | the ISR a leader believes in, or asks for |
| `PartitionGone`, `ReplicaGone` | a topic that is to be deleted, a replica that was |
| `BrokerStarts`, `BrokerEnds`, `BecomeController`, `ResignController` | a process, a term |
| `ProducerSent`, `ConsumerPolled` | the clients' history |
| `World` | whatever the world was told to do: faults, cuts, pauses |
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TextIO

from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers.history import History, Sent
from odradek.sim.loop import NOBODY, Host
from odradek.sim.world import SimBroker, World

Action = dict[str, Any]


class ReplicaState(NamedTuple):
    leader: int
    is_leader: bool
    leader_epoch: int
    log_end_offset: int
    high_watermark: int
    isr: tuple[int, ...]
    maximal_isr: tuple[int, ...]
    is_pending: bool


class Recorder:
    """Hangs on the loop, draws nothing, schedules nothing: a recorded run has the trace hash of any other."""

    def __init__(self, world: World, history: History) -> None:
        self.actions: list[Action] = []
        self._world = world
        self._history = history
        self._replicas: dict[tuple[BrokerId, TopicPartition], ReplicaState] = {}
        self._stored: dict[TopicPartition, Any] = {}
        self._running: dict[BrokerId, bool] = {}
        self._controllers: dict[BrokerId, int] = {}
        self._zxid = -1
        self._notes = 0
        self._events = 0
        self._brokers = {broker.name: broker for broker in world.brokers.values()}
        world.loop.after_event = self.record

    def write(self, file: TextIO) -> None:
        for action in self.actions:
            file.write(json.dumps(action, separators=(",", ":")) + "\n")

    def say(self, action: str, **values: Any) -> None:
        loop = self._world.loop
        self.actions.append({"at_s": round(loop.time(), 6), "event": loop.events, "action": action, **values})

    def record(self, host: Host) -> None:
        self._notes_of_the_world()
        self._record_store()
        broker = self._brokers.get(host.name)
        if broker is not None:
            self._record_broker(broker)
        elif host is NOBODY:
            for each in self._brokers.values():
                self._record_broker(each)
        events = self._history.events
        while self._events < len(events):
            self._client(events[self._events])
            self._events += 1

    def _notes_of_the_world(self) -> None:
        notes = self._world.notes
        for at, text in notes[self._notes :]:
            self.say("World", what=text, since_s=round(at, 6))
        self._notes = len(notes)

    def _client(self, event: Any) -> None:
        partition = str(event.topic_partition)
        if isinstance(event, Sent):
            values = [value.decode() for value in event.values]
            self.say(
                "ProducerSent",
                partition=partition,
                producer=event.producer,
                outcome=event.outcome,
                offsets=list(event.offsets),
                values=values,
                acks=event.acks,
            )
        else:
            offsets = [offset for offset, _ in event.records]
            self.say("ConsumerPolled", partition=partition, consumer=event.consumer, offsets=offsets)

    # --- the store

    def _record_store(self) -> None:
        tree = self._world.store.ensemble.tree
        if tree.zxid == self._zxid:
            return
        self._zxid = tree.zxid
        partitions = self._world.view(with_batches=False).partitions
        for partition in [known for known in self._stored if known not in partitions]:
            del self._stored[partition]
            self.say("PartitionGone", partition=str(partition))
        for partition, state in partitions.items():
            now = state.stored
            if now is None:
                continue
            before = self._stored.get(partition)
            if before == now:
                continue
            self._stored[partition] = now
            self.say(
                _stored_action(before, now),
                partition=str(partition),
                leader=now.leader,
                leader_epoch=now.leader_epoch,
                isr=list(now.isr),
                partition_epoch=now.partition_epoch,
            )

    # --- one broker

    def _record_broker(self, broker: SimBroker) -> None:
        broker_id = broker.broker_id
        is_running = broker.is_running
        if self._running.get(broker_id, False) != is_running:
            self._running[broker_id] = is_running
            incarnation = broker.host.incarnation if broker.host is not None else 0
            self.say(
                "BrokerStarts" if is_running else "BrokerEnds", broker=broker_id, incarnation=incarnation
            )
        term = broker.runtime.controller.term if broker.is_serving and broker.runtime is not None else None
        epoch = -1 if term is None else term.epoch
        if self._controllers.get(broker_id, -1) != epoch:
            before = self._controllers.get(broker_id, -1)
            self._controllers[broker_id] = epoch
            if before >= 0:
                self.say("ResignController", broker=broker_id, controller_epoch=before)
            if epoch >= 0:
                self.say("BecomeController", broker=broker_id, controller_epoch=epoch)
        if not is_running or not broker.is_serving or broker.runtime is None:
            for key in [key for key in self._replicas if key[0] == broker_id]:
                del self._replicas[key]
            return
        hosted = broker.runtime.broker.replicas.partitions
        for partition, replica in hosted.items():
            self._record_replica(broker_id, partition, replica)
        for key in [k for k in self._replicas if k[0] == broker_id and k[1] not in hosted]:
            del self._replicas[key]
            self.say("ReplicaGone", broker=broker_id, partition=str(key[1]))

    def _record_replica(self, broker_id: BrokerId, partition: TopicPartition, replica: Any) -> None:
        state = replica.state
        now = ReplicaState(
            replica.leader,
            replica.is_leader,
            replica.leader_epoch,
            replica.log.log_end_offset,
            replica.high_watermark,
            state.isr,
            state.maximal_isr,
            type(state).__name__ != "Committed",
        )
        before = self._replicas.get((broker_id, partition))
        if now == before:
            return
        self._replicas[(broker_id, partition)] = now
        for action, values in _replica_actions(before, now):
            self.say(
                action, broker=broker_id, partition=str(partition), leader_epoch=now.leader_epoch, **values
            )


def _stored_action(before: Any, now: Any) -> str:
    if before is not None and before.leader_epoch == now.leader_epoch:
        return "ControllerHandleRequest"
    if now.leader >= 0 and (before is None or before.leader != now.leader):
        return "ControllerElectLeader"
    if (before is not None and set(now.isr) < set(before.isr)) or now.leader < 0:
        return "ControllerShrinkIsr"
    return "ControllerUpdateIsr"


def _replica_actions(before: ReplicaState | None, now: ReplicaState) -> list[tuple[str, Action]]:
    found: list[tuple[str, Action]] = []
    end_before = now.log_end_offset if before is None else before.log_end_offset
    if before is None or before.leader_epoch != now.leader_epoch or before.is_leader != now.is_leader:
        values: Action = {"log_end_offset": now.log_end_offset, "high_watermark": now.high_watermark}
        if now.is_leader:
            found.append(("BecomeLeader", {**values, "isr": list(now.isr)}))
        else:
            found.append(("FencedBecomeFollowerAndTruncate", {**values, "leader": now.leader}))
    elif now.is_leader and before.maximal_isr != now.maximal_isr and now.is_pending:
        is_larger = set(before.isr) < set(now.maximal_isr)
        name = "LeaderRequestExpandIsr" if is_larger else "LeaderRequestShrinkIsr"
        found.append((name, {"isr": list(now.isr), "maximal_isr": list(now.maximal_isr)}))
    elif now.is_leader and now.is_pending and not before.is_pending:
        found.append(("LeaderRequestShrinkIsr", {"isr": list(now.isr), "maximal_isr": list(now.maximal_isr)}))
    elif now.is_leader and before.isr != now.isr:
        found.append(("LeaderHandleUpdate", {"isr": list(now.isr)}))
    if now.log_end_offset > end_before:
        name = "LeaderWrite" if now.is_leader else "FencedFollowerFetch"
        found.append((name, {"from": end_before, "log_end_offset": now.log_end_offset}))
    elif now.log_end_offset < end_before:
        found.append(("FollowerTruncate", {"from": end_before, "log_end_offset": now.log_end_offset}))
    if before is not None and before.high_watermark != now.high_watermark:
        name = "FencedLeaderIncHighWatermark" if now.is_leader else "FollowerHighWatermark"
        found.append((name, {"from": before.high_watermark, "high_watermark": now.high_watermark}))
    return found


# What goes on all the time; between two other changes the sum of it is enough to know.
FLOW = frozenset(
    {"LeaderWrite", "FencedFollowerFetch", "FencedLeaderIncHighWatermark", "FollowerHighWatermark"}
)


def folded(actions: Iterable[Action]) -> Iterator[Action]:
    """As `actions`, and of each flow between two other changes one line: from where, to where, how often."""
    flows: dict[tuple[Any, ...], Action] = {}
    for action in actions:
        if action["action"] not in FLOW:
            yield from sorted(flows.values(), key=lambda flow: flow["event"])
            flows.clear()
            yield action
            continue
        key = action["action"], action["broker"], action["partition"], action["leader_epoch"]
        before = flows.pop(key, None)
        if before is None:
            flows[key] = action
        else:
            flows[key] = {**action, "from": before["from"], "times": before.get("times", 1) + 1}
    yield from sorted(flows.values(), key=lambda flow: flow["event"])


def told(action: Action) -> str:
    """An action as a line for people."""
    values = " ".join(
        f"{k}={v}" for k, v in action.items() if k not in ("at_s", "event", "action", "since_s")
    )
    return f"{action['at_s']:9.4f} {action['action']} {values}"
