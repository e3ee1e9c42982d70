"""A trace of Apache's controller, told again to ours: the same events in, both sides' decisions out.

What happened to Apache's controller is read from its own log (which event it worked on), from ZooKeeper's
transactions (what it stored) and from state.change.logger (what it moved and whom it told what). What the
brokers and people around it did - registrations, topics, requests, AlterPartition - is handed to our core in the
same order. Nothing is compared here; `test_differential` does.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from odradek.controller.broker_requests import LeaderAndIsrRequest, StopReplicaRequest
from odradek.controller.core import ControllerCore
from odradek.controller.effects import (
    CreatePartitionState,
    Effects,
    WritePartitionState,
    WriteTopicAssignment,
)
from odradek.controller.events import Event, Requested
from odradek.model.cluster import BrokerRegistration, LeaderAndIsr, ReplicaAssignment
from odradek.model.controller_requests import AlterReassignmentsAnswer, ElectLeadersAnswer, ElectLeadersAsked
from odradek.model.facts import (
    BrokersChanged,
    ConfigChanged,
    DeleteTopicsRequested,
    ReassignmentRequested,
    StoredPartitionState,
    TopicAssignment,
    TopicAssignmentsChanged,
    TopicsChanged,
)
from odradek.model.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicPartition,
    topic_id_from_text,
)
from tests.controller.world import World, tp
from tests.support import golden_lines

Lead = tuple[int, frozenset[int]]  # leader, ISR as a set: above four members its order is arbitrary
Told = tuple[int, frozenset[int], tuple[int, ...], frozenset[int], frozenset[int]]
Node = tuple[tuple[int, ...], frozenset[int], frozenset[int]]


@dataclass
class Side:
    """What one controller did, by what it is about, in order."""

    states: dict[str, list[Lead]] = field(default_factory=lambda: defaultdict(list))
    epochs: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, list[dict[int, Node]]] = field(default_factory=lambda: defaultdict(list))
    partitions: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))
    replicas: dict[tuple[str, int], list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))
    told: dict[tuple[str, int], list[Told]] = field(default_factory=lambda: defaultdict(list))
    new: set[tuple[str, int]] = field(default_factory=set)
    stopped: dict[tuple[str, int], set[bool]] = field(default_factory=lambda: defaultdict(set))
    answers: list[str] = field(default_factory=list)


def add(sequence: list[Any], value: Any) -> None:
    """Repeats say nothing new."""
    if not sequence or sequence[-1] != value:
        sequence.append(value)


@dataclass
class Trace:
    scenario: str
    apache: Side = field(default_factory=Side)
    ours: Side = field(default_factory=Side)
    world: World = field(default_factory=World)
    tree: dict[str, tuple[str | None, int]] = field(default_factory=dict)  # path -> value, version
    czxid: dict[str, int] = field(default_factory=dict)
    controller: int = 0
    asked: list[str] = field(default_factory=list)

    def run(self) -> "Trace":
        for line in golden_lines(f"controller/{self.scenario}.jsonl"):
            handler = getattr(self, "_" + line["src"].replace("-", "_"), None)
            if handler is not None:
                handler(line)
        return self

    # ------------------------------------------------------------------------------------------- the tree

    def _start(self, line: dict[str, Any]) -> None:
        for path, node in line["nodes"].items():
            self.tree[path] = (node["value"], node["version"])
            self.czxid[path] = node["czxid"]
        for path in sorted(self.tree):
            if path.startswith("/brokers/ids/"):
                self._register(path)
        for path in sorted(self.tree):
            if re.fullmatch(r"/brokers/topics/[^/]+", path):
                self._store_topic(path.rsplit("/", 1)[1])
            elif path.endswith("/state"):
                _, _, _, topic, _, partition, _ = path.split("/")
                where = TopicPartition(topic, int(partition))
                self.world.states[where] = self._state(path)
            elif path.startswith("/config/topics/"):
                self.world.configs[path.rsplit("/", 1)[1]] = json.loads(self.tree[path][0] or "{}").get(
                    "config", {}
                )
        if "/controller" in self.tree:
            broker = json.loads(self.tree["/controller"][0] or "{}")["brokerid"]
            self.world.controller_epoch = int(self.tree["/controller_epoch"][0] or 0) - 1
            self._elect(broker)
            self.ours = Side()  # taking over what Apache had is not part of the story

    def _zk(self, line: dict[str, Any]) -> None:
        for op in line["ops"]:
            path = op.get("path", "")
            if op["op"] == "create":
                self.tree[path] = (op["value"], 0)
                self.czxid[path] = line["zxid"]
            elif op["op"] == "set":
                self.tree[path] = (op["value"], op["version"])
            elif op["op"] == "delete":
                self.tree.pop(path, None)
            elif op["op"] == "close_session":
                for gone in op.get("deleted", []):
                    self.tree.pop(gone, None)
            else:
                continue
            if op["op"] in ("create", "set"):
                if (
                    line["ops"][0].get("path") == "/controller_epoch"
                ):  # fenced: it is the controller that writes
                    self._apache_wrote(path, op)
                if path.startswith("/brokers/ids/"):
                    self._register(path)

    def _apache_wrote(self, path: str, op: dict[str, Any]) -> None:
        if path.endswith("/state"):
            _, _, _, topic, _, partition, _ = path.split("/")
            value = json.loads(op["value"])
            name = f"{topic}-{partition}"
            add(self.apache.states[name], (value["leader"], frozenset(value["isr"])))
            self.apache.epochs[name] = value["leader_epoch"]
        elif re.fullmatch(r"/brokers/topics/[^/]+", path) and op["op"] == "set":
            value = json.loads(op["value"])
            add(self.apache.nodes[path.rsplit("/", 1)[1]], _nodes(_assignments(value)))

    def _register(self, path: str) -> None:
        broker = int(path.rsplit("/", 1)[1])
        self.world.registrations[broker] = BrokerRegistration(
            BrokerId(broker), BrokerEpoch(self.czxid[path]), ()
        )

    def _store_topic(self, topic: str) -> TopicAssignment:
        text, version = self.tree[f"/brokers/topics/{topic}"]
        value = json.loads(text or "{}")
        node = TopicAssignment(
            topic, TopicId(topic_id_from_text(value["topic_id"])), _assignments(value), version
        )
        self.world.topics[topic] = node
        config = self.tree.get(f"/config/topics/{topic}", (None, 0))[0]
        self.world.configs[topic] = json.loads(config or "{}").get("config", {})
        return node

    def _state(self, path: str) -> StoredPartitionState:
        text, version = self.tree[path]
        value = json.loads(text or "{}")
        return StoredPartitionState(
            LeaderAndIsr(
                BrokerId(value["leader"]),
                LeaderEpoch(value["leader_epoch"]),
                tuple(BrokerId(b) for b in value["isr"]),
                PartitionEpoch(version),
                value.get("leader_recovery_state", 0),
            ),
            ControllerEpoch(value["controller_epoch"]),
        )

    # -------------------------------------------------------------------------------------------- what came in

    def _controller(self, line: dict[str, Any]) -> None:
        text = line["msg"]
        if m := re.search(r"(\d+) successfully elected as the controller. Epoch incremented to (\d+)", text):
            self.world.controller_epoch = int(m[2]) - 1
            self._forget_dead()
            self._elect(int(m[1]))
        elif line["broker"] != self.controller:
            return
        elif m := re.search(r"Newly added brokers: .*all live brokers: ([\d,]*)", text):
            live = [int(b) for b in m[1].split(",")]
            self.world.registrations = {b: self.world.registrations[b] for b in live}
            self._do(BrokersChanged(tuple(self.world.registrations[b] for b in sorted(live))))
        elif m := re.search(r"New topics: \[(?:Hash)?Set\((.*?)\)\], deleted topics", text):
            created = [t.strip() for t in m[1].split(",") if t.strip()]
            nodes = tuple(self._store_topic(topic) for topic in created)
            self._do(TopicsChanged(tuple(sorted(self.world.topics)), nodes))
            for topic in created:
                self._do(ConfigChanged("topics", topic, self.world.configs[topic]))
        elif m := re.search(r"New partitions to be added (?:Hash)?Map\((.*)\)", text):
            topic = m[1].split("-")[0]
            before = self.world.topics[topic]
            node = self._store_topic(topic)
            self.world.topics[topic] = TopicAssignment(
                topic, node.topic_id, node.partitions, before.version + 1
            )
            self._do(TopicAssignmentsChanged((self.world.topics[topic],)))
        elif m := re.search(r"ISR for partition (\S+) updated to LeaderAndIsr\((.*)\)", text):
            isr = [int(b) for b in re.findall(r"brokerId=(\d+)", m[2])]
            self._hear(self.world.alter(m[1], isr))
        elif m := re.search(r"Shutting down broker (\d+)$", text):
            self._hear(self.world.shut_down(int(m[1])))
        elif m := re.search(r"Starting topic deletion for topics (\S+)", text):
            self.world.delete_topics = tuple(sorted({*self.world.delete_topics, *m[1].split(",")}))
            self._do(DeleteTopicsRequested(self.world.delete_topics))
        elif m := re.search(
            r"StopReplica response received from broker (\d+).*partition errors = \w+\((.*)\)", text
        ):
            partitions = re.findall(r"(\S+) -> NONE", m[2])
            self._hear(self.world.stopped(int(m[1]), *partitions))

    def _step(self, line: dict[str, Any]) -> None:
        what, args = line["what"], line.get("args", {})
        if what in ("client: reassign", "client: elect"):
            self.asked = sorted(args.get("to", args.get("tps") or []))
        if what == "client: reassign":
            self._hear(self.world.reassign(args["to"]))
        elif what == "client: zkcreate" and args["path"] == "/admin/reassign_partitions":
            asked = json.loads(args["value"])["partitions"]
            self.world.reassignment = {
                TopicPartition(p["topic"], p["partition"]): tuple(BrokerId(b) for b in p["replicas"])
                for p in asked
            }
            self._do(ReassignmentRequested(dict(self.world.reassignment), 0))
        elif what == "client: elect":
            named = tuple(tp(text) for text in args["tps"]) if args.get("tps") else None
            self._do(Requested(1, ElectLeadersAsked(args["type"] == "UNCLEAN", named)))
        elif what in ("client: elect done", "client: reassign done"):
            self._answered(line["outcome"])
        elif what == "client: config" and args["type"] == "TOPIC":
            config = self.world.configs[args["name"]]
            for name, value in args["set"].items():
                config.pop(name, None)
                if value is not None:
                    config[name] = value
            self._do(ConfigChanged("topics", args["name"], dict(config)))

    def _answered(self, outcome: dict[str, Any]) -> None:
        """What Apache answered: an exception is named after its error code."""
        found = outcome.get("result", outcome.get("error"))
        texts = {f"{self.asked[0]}": str(found)} if not isinstance(found, dict) else found
        if found == "ok":
            texts = dict.fromkeys(self.asked, "ok")
        for where, text in sorted(texts.items()):
            name = re.search(r"(\w+)Exception", text)
            error = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name[1]).upper() if name else "NONE"
            self.apache.answers.append(f"{where}: {error}")

    def _elect(self, broker: int) -> None:
        self.controller = broker
        self.world.core = ControllerCore(self.world.settings)
        self._hear(self.world.elect(broker))

    def _forget_dead(self) -> None:
        live = {int(p.rsplit("/", 1)[1]) for p in self.tree if p.startswith("/brokers/ids/")}
        self.world.registrations = {b: r for b, r in self.world.registrations.items() if b in live}

    def _do(self, event: Event) -> None:
        self._hear(self.world.step(event))

    # ------------------------------------------------------------------------------------------- what we did

    def _hear(self, effects: Effects) -> None:
        assert effects.resign is None, effects.resign
        side = self.ours
        for write in self.world.writes():
            if isinstance(write, WritePartitionState | CreatePartitionState):
                name = str(write.topic_partition)
                add(side.states[name], (write.value.leader, frozenset(write.value.isr)))
                side.epochs[name] = write.value.leader_epoch
            elif isinstance(write, WriteTopicAssignment):
                add(side.nodes[write.topic], _nodes(write.partitions))
        for change in effects.changes:
            if change.kind == "partition":
                side.partitions[change.target].append((str(change.source), str(change.to)))
            elif change.kind == "replica" and change.replica is not None:
                key = (str(change.topic_partition), int(change.replica))
                side.replicas[key].append((str(change.source), str(change.to)))
        deletes: dict[int, list[str]] = defaultdict(list)
        for request in effects.requests:
            if isinstance(request, LeaderAndIsrRequest):
                for p in request.partitions:
                    told = (
                        p.leader,
                        frozenset(p.isr),
                        p.replicas,
                        frozenset(p.adding_replicas),
                        frozenset(p.removing_replicas),
                    )
                    add(side.told[str(p.topic_partition), request.broker], told)
                    if p.is_new:
                        side.new.add((str(p.topic_partition), request.broker))
            elif isinstance(request, StopReplicaRequest):
                for s in request.partitions:
                    side.stopped[str(s.topic_partition), request.broker].add(s.delete)
                    if s.delete and s.topic_partition.topic not in self.world.context.topics_to_delete:
                        deletes[request.broker].append(str(s.topic_partition))
        for broker, partitions in sorted(deletes.items()):
            # Apache does not wait for the answers of leavers (C15); ours does: they come at once.
            self._hear(self.world.stopped(broker, *partitions))
        for answer in effects.answers:
            if isinstance(answer.body, ElectLeadersAnswer | AlterReassignmentsAnswer):
                for where, (error, _) in sorted(answer.body.partitions.items()):
                    side.answers.append(f"{where}: {error.name}")

    # ---------------------------------------------------------------------------------------- what Apache did

    def _state_change(self, line: dict[str, Any]) -> None:
        text = line["msg"].split("\n")[0]
        if not text.startswith("[Controller"):
            return
        side = self.apache
        if m := re.search(r"Changed partition (\S+) (?:state )?from (\w+) to (\w+)", text):
            side.partitions[m[1]].append((m[2], m[3]))
        elif m := re.search(r"Changed state of replica (\d+) for partition (\S+) from (\w+) to (\w+)", text):
            side.replicas[m[2], int(m[1])].append((m[3], m[4]))
        elif m := re.search(
            r"Sending become-\w+ LeaderAndIsr request .*\((.*)\) to broker (\d+) for partition (\S+)", text
        ):
            told = _told(m[1])
            add(side.told[m[3], int(m[2])], told)
            if "isNew=true" in m[1]:
                side.new.add((m[3], int(m[2])))
        elif m := re.search(r"deletePartition=(\w+)\) to broker (\d+) for partition (\S+)", text):
            side.stopped[m[3], int(m[2])].add(m[1] == "true")


def _told(text: str) -> Told:
    def ids(name: str) -> list[int]:
        found = re.search(rf"{name}=\[([\d, ]*)\]", text)
        assert found is not None, text
        return [int(b) for b in found[1].split(",") if b.strip()]

    leader = re.search(r" leader=(-?\d+)", text)
    assert leader is not None, text
    return (
        int(leader[1]),
        frozenset(ids("isr")),
        tuple(ids("replicas")),
        frozenset(ids("addingReplicas")),
        frozenset(ids("removingReplicas")),
    )


def _assignments(value: dict[str, Any]) -> dict[int, ReplicaAssignment]:
    def ids(brokers: list[int]) -> tuple[BrokerId, ...]:
        return tuple(BrokerId(b) for b in brokers)

    adding, removing = value.get("adding_replicas", {}), value.get("removing_replicas", {})
    return {
        int(p): ReplicaAssignment(ids(replicas), ids(adding.get(p, [])), ids(removing.get(p, [])))
        for p, replicas in value["partitions"].items()
    }


def _nodes(partitions: Any) -> dict[int, Node]:
    return {
        p: (a.replicas, frozenset(a.adding_replicas), frozenset(a.removing_replicas))
        for p, a in partitions.items()
    }


def scenarios() -> Iterator[str]:
    from tests.support import GOLDEN

    for path in sorted((GOLDEN / "controller").glob("*.jsonl")):
        yield path.stem
