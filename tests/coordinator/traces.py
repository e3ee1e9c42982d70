"""Recorded traces of a coordinator, and how they are played to ours.

A trace is what Apache Kafka answered, step by step, who was parked and what freed them, and the records it wrote
(tests/golden/coordinators). Names such as `<a#1>` stand for ids the coordinator gave: the first time one is expected
it takes the value ours gave, from then on both must agree. Not compared: the order of members, topics and partitions
in answers, time stamps, texts of errors, throttle times.
"""

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from typing import Any

from odradek.coordinator import record_tables as tables
from odradek.coordinator.effects import Append, Effects
from odradek.coordinator.events import (
    Asked,
    Committed,
    Event,
    Tick,
    TopicsDeleted,
    TransactionEnded,
    Unloaded,
)
from odradek.coordinator.group_coordinator import GroupCoordinator
from odradek.coordinator.loading import Loaded
from odradek.coordinator.member import Client
from odradek.coordinator.offsets import NO_PRODUCER
from odradek.coordinator.records import decode, encode
from odradek.coordinator.refusals import refuse
from odradek.coordinator.settings import GroupSettings
from odradek.coordinator.stored import Stored
from odradek.model.error_codes import ErrorCode
from odradek.protocol import messages
from odradek.protocol.fields import Struct
from odradek.protocol.json_form import to_json
from odradek.protocol.schema import Message
from tests.coordinator.groups import given
from tests.coordinator.topics import Topics, topic_id
from tests.support import golden_lines

Json = dict[str, Any]
KEYS = {8, 9, 11, 12, 13, 14, 15, 16, 28, 42, 47, 68, 69}
CONSUMER = "consumer-4.1"
IGNORED = {"throttleTimeMs", "errorMessage"}
TOPICS = {"t1": 4, "t2": 4, "wide": 60}
TOPIC = "__consumer_offsets"
CONSUMER_TOPICS = {"t1": 3, "t2": 2}
NOTHING = "no record"
STEP_MS = 10
MESSAGES: dict[int, tuple[type[Message], type[Message]]] = {
    0: (tables.OffsetCommitKey, tables.OffsetCommitValue),
    1: (tables.OffsetCommitKey, tables.OffsetCommitValue),
    2: (tables.GroupMetadataKey, tables.GroupMetadataValue),
    3: (tables.ConsumerGroupMetadataKey, tables.ConsumerGroupMetadataValue),
    4: (tables.ConsumerGroupPartitionMetadataKey, tables.ConsumerGroupMetadataValue),
    5: (tables.ConsumerGroupMemberMetadataKey, tables.ConsumerGroupMemberMetadataValue),
    6: (tables.ConsumerGroupTargetAssignmentMetadataKey, tables.ConsumerGroupTargetAssignmentMetadataValue),
    7: (tables.ConsumerGroupTargetAssignmentMemberKey, tables.ConsumerGroupTargetAssignmentMemberValue),
    8: (tables.ConsumerGroupCurrentMemberAssignmentKey, tables.ConsumerGroupCurrentMemberAssignmentValue),
    16: (tables.ConsumerGroupRegularExpressionKey, tables.ConsumerGroupRegularExpressionValue),
}
# Of protocols with the same number of votes Apache takes what a hash map gives first, ours the last name. With another
# name the winner is the same.
RENAMED = {
    "classic-3.9/inconsistent-protocol": {"range": "taken-range"},
    "classic-4.1/two-members": {"roundrobin": "a-roundrobin"},
}
# A year in which all of this could have happened; only differences matter.
START_MS = 1_800_000_000_000


@dataclass(frozen=True)
class Trace:
    folder: str
    head: Json
    steps: list[Json]

    @property
    def name(self) -> str:
        return str(self.head["trace"])


@cache
def traces(folder: str) -> dict[str, Trace]:
    found: dict[str, Trace] = {}
    last: Trace | None = None
    for line in golden_lines(f"coordinators/{folder}.jsonl.gz"):
        if "trace" in line:
            last = found[line["trace"]] = Trace(folder, line, [])
        else:
            assert last is not None, "a file begins with the head of a trace"
            last.steps.append(_renamed(line, RENAMED.get(f"{folder}/{last.name}", {})))
    return found


def recorded_records() -> Iterator[tuple[str, Json]]:
    for folder in ("classic-3.9", "classic-4.1", "limits-3.9", "failover-3.9", CONSUMER):
        for trace in traces(folder).values():
            for step in trace.steps:
                for record in step.get("records", ()):
                    if record["topic"] == TOPIC and "control" not in record:
                        yield f"{folder}/{trace.name}:{step['step']}", record


def settings_of(trace: "Trace") -> GroupSettings:
    config = trace.head["config"]
    minutes = config.get("offsets.retention.minutes", 7 * 24 * 60)
    # Its groups have settings of their own.
    is_brief = (trace.folder, trace.name) == (CONSUMER, "sessions")
    return GroupSettings(
        consumer_session_timeout_ms=1_500 if is_brief else 45_000,
        consumer_heartbeat_interval_ms=500 if is_brief else 5_000,
        initial_rebalance_delay_ms=config.get("group.initial.rebalance.delay.ms", 3_000),
        min_session_timeout_ms=config.get("group.min.session.timeout.ms", 6_000),
        max_size=config.get("group.max.size", 2**31 - 1),
        offsets_retention_ms=minutes * 60_000,
        offsets_retention_check_interval_ms=config.get("offsets.retention.check.interval.ms", 600_000),
    )


@dataclass
class Waiting:
    """A request of the trace that ours has not answered."""

    step: Json
    response_class: type[Message]


@dataclass
class Player:
    trace: Trace
    now_ms: int = START_MS
    log: list[tuple[bytes, bytes | None, int]] = field(default_factory=list)  # key, value, producer id
    differences: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bound: dict[str, Any] = {}
        self.bare: set[str] = set()
        self.calls: dict[int, Waiting] = {}
        self.answered: dict[int, Json] = {}  # step of the request -> what ours said
        self.written: list[Append] = []
        self.uniques = 0
        self.settings = settings_of(self.trace)
        self.topics = Topics(CONSUMER_TOPICS if self.trace.folder == CONSUMER else TOPICS)
        self.bound.update({f"<topic:{name}>": shown_id(name) for name in (*self.topics, "late1")})
        self.coordinator = self._load()

    def play(self) -> list[str]:
        """The differences, one a line."""
        for step in self.trace.steps:
            self.written = []
            if "api" in step:
                self._ask(step)
            else:
                self._do(step)
            self._markers(step)
            self._compare_answers(step)
            self._compare_records(step)
            self.now_ms += STEP_MS
        for waiting in self.calls.values():
            if "parked" not in waiting.step:
                self._differ(waiting.step, "ours never answers")
        return self.differences

    # ------------------------------------------------------------------------------------------------- steps

    def _ask(self, step: Json) -> None:
        known = messages.request_class(step["key"]).VERSIONS
        if (
            step["key"] not in KEYS
            or step["version"] not in known
            or (step["key"] == 28 and _first_error(step["response"]) == 48)
        ):
            return  # of the transaction coordinator, which this is not
        version = step["version"]
        request_class = messages.request_class(step["key"])
        request = request_class.from_json(
            version, _completed(request_class, version, self._resolved(step["request"]))
        )
        self.calls[step["step"]] = Waiting(step, messages.response_class(step["key"]))
        error = self._refused_with(step)
        if error:
            self._refuse(step, request, error)
            return
        self.uniques += 1
        client = Client(step["actor"], "/127.0.0.1")
        self._step(Asked(step["step"], version, client, request, f"unique-{self.uniques}"))

        if "after_ms" in step and "answered_in_step" not in step:
            self._until_answered(step)  # it waited, and nothing was asked meanwhile

    def _refused_with(self, step: Json) -> ErrorCode:
        """Where the trace asks a broker that does not coordinate the group, or has not loaded it."""
        if self.trace.name == "not-coordinator" or step.get("note") == "the old coordinator":
            return ErrorCode.NOT_COORDINATOR
        return (
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if step.get("note") == "while loading" else ErrorCode.NONE
        )

    def _refuse(self, step: Json, request: Any, error: ErrorCode) -> None:
        del self.calls[step["step"]]
        response = refuse(request, step["version"], error)
        self.answered[step["step"]] = response.to_json(step["version"])

    def _do(self, step: Json) -> None:
        what = step["do"]
        if what == "wait":
            self._until(self.now_ms + step["ms"])
        elif what.startswith("wait until"):
            self._until_answered(step)
        elif what == "create topic late with 2 partitions":
            self.topics.set("late1", 2)
        elif what == "late grows to 3 partitions":
            self.topics.set("late1", 3)
        elif what == "late is deleted":
            self.topics.set("late1", None)
            self._step(TopicsDeleted(frozenset({"late1"})))
            self._step(Tick())
        elif "leadership" in what and TOPIC in str(step.get("result")):
            self._step(Unloaded())
            self.coordinator = self._load()

    def _until(self, end_ms: int) -> None:
        while True:
            due_ms = self.coordinator.next_deadline_ms()
            if due_ms is None or due_ms > end_ms:
                break
            self.now_ms = max(due_ms, self.now_ms)
            self._step(Tick())
        self.now_ms = end_ms

    def _until_answered(self, step: Json) -> None:
        def missing() -> list[int]:
            return [
                number
                for number, waiting in self.calls.items()
                if waiting.step.get("answered_in_step", number) == step["step"]
            ]

        end_ms = self.now_ms + 60_000
        while missing() and self.now_ms < end_ms:
            due_ms = self.coordinator.next_deadline_ms()
            assert due_ms is not None, "nothing is due, and somebody waits"
            self.now_ms = max(due_ms, self.now_ms)
            self._step(Tick())

    def _markers(self, step: Json) -> None:
        for record in step.get("records", ()):
            if record["topic"] == TOPIC and "control" in record:
                producer_id = self.bound[record["producerId"]]
                self._step(TransactionEnded(producer_id, record["control"] == "COMMIT"))

    # ------------------------------------------------------------------------------------------- coordinator

    def _load(self) -> GroupCoordinator:
        loaded = Loaded(Stored(), decode)
        for position, (key, value, producer_id) in enumerate(self.log):
            loaded.record(key, value, position, producer_id)
        return GroupCoordinator(self.settings, self.topics, loaded.stored, self.now_ms, self.topics)

    def _step(self, event: Event) -> None:
        self._done(self.coordinator.step(event, self.now_ms))

    def _done(self, effects: Effects) -> None:
        for answer in effects.answers:
            waiting = self.calls.pop(answer.call)
            version = waiting.step["version"]
            self.answered[answer.call] = given(answer.response).to_json(version)
        for append in effects.appends:
            base_offset = len(self.log)
            producer_id = append.producer.producer_id if append.producer else NO_PRODUCER
            self.log += [(*encode(record), producer_id) for record in append.records]
            self.written.append(append)
            self._step(Committed(append.append_id, base_offset))
        for work in effects.asides:
            self._step(work.run())

    # ------------------------------------------------------------------------------------------- comparisons

    def _compare_answers(self, step: Json) -> None:
        number = step["step"]
        here = []
        for asked, ours in self.answered.items():
            of = next(one for one in self.trace.steps if one["step"] == asked)
            due = of.get("answered_in_step", asked if "parked" not in of else None)
            if due != number:
                shown = "parked" if due is None or due > number else "long answered"
                self._differ(of, f"ours answers in step {number} where it is {shown}: {ours}")
            here.append((of, ours))
        self.answered.clear()
        for of, ours in here:  # ids first: another answer of this step may name them
            if of["response"] is not None and isinstance(of["response"].get("memberId"), str):
                self._equal(of["response"]["memberId"], ours.get("memberId"))
        for of, ours in here:
            if of["response"] is not None:
                theirs = _without_old_assignments(of["response"]) if of["key"] == 15 else of["response"]
                for line in self._compare(theirs, ours, "response"):
                    self._differ(of, line)
        for asked, waiting in list(self.calls.items()):
            if waiting.step.get("answered_in_step", asked) == number and "parked" not in waiting.step:
                self._differ(waiting.step, "ours does not answer in time")

    def _compare_records(self, step: Json) -> None:
        if self.trace.folder.startswith("failover"):
            return  # its records were not kept
        theirs = []
        for record in step.get("records", ()):
            if record["topic"] != TOPIC or "control" in record:
                continue
            key, value = (
                record["key"]["json"],
                record["value"] and (record["value"]["version"], record["value"]["json"]),
            )
            is_old = "group" in key
            if self.trace.folder == "classic-4.1" or (self.trace.folder == CONSUMER and is_old and value):
                value = self._as_3_9_writes(key["group"], value)
                if value == NOTHING:
                    continue
            theirs.append((key, value if is_old else _as_ours(value)))
        ours = [_shown(*encode(record)) for append in self.written for record in append.records]
        in_order = self._in_runs if self.trace.folder == CONSUMER else _in_order
        for line in self._compare(in_order(theirs), in_order(ours), "records"):
            self._differ(step, line)

    def _in_runs(self, records: list[Any]) -> list[Any]:
        """Records of one kind that follow each other come in the order of a hash map."""
        return [
            record
            for _, run in groupby(records, key=lambda one: tuple(one[1][1]) if one[1] else tuple(one[0]))
            for record in sorted(run, key=lambda one: str(self._resolved(list(one[0].values()))))
        ]

    def _as_3_9_writes(self, group: str, value: Any) -> Any:
        """4.1 writes offsets in version 4, and a record for a group that has stored nothing yet."""
        if value is None:
            return NOTHING if group in self.bare else value
        version, shown = value
        if "offset" in shown:
            return (3 if version == 4 else version), {
                name: one for name, one in shown.items() if name != "topicId"
            }
        self.bare.discard(group)
        if shown["generation"] == 0:
            self.bare.add(group)
            return NOTHING
        return value

    def _compare(self, theirs: Any, ours: Any, path: str) -> list[str]:
        if isinstance(theirs, dict) and isinstance(ours, dict):
            names = [name for name in {**theirs, **ours} if name not in IGNORED]
            return [
                line
                for name in names
                for line in self._compare(theirs.get(name), ours.get(name), f"{path}.{name}")
            ]
        if isinstance(theirs, list | tuple) and isinstance(ours, list | tuple):
            if len(theirs) != len(ours):
                return [f"{path}: {len(theirs)} there, {len(ours)} here: {theirs} / {ours}"]
            pairs = zip(self._sorted(theirs), self._sorted(ours), strict=True)
            return [line for at, pair in enumerate(pairs) for line in self._compare(*pair, f"{path}[{at}]")]
        return [] if self._equal(theirs, ours) else [f"{path}: {theirs!r} there, {ours!r} here"]

    def _equal(self, theirs: Any, ours: Any) -> bool:
        if theirs == "<ts>":
            return isinstance(ours, int)
        if isinstance(theirs, str) and theirs.startswith("<") and theirs.endswith(">"):
            return bool(self.bound.setdefault(theirs, ours) == ours)
        return bool(theirs == ours)

    def _sorted(self, rows: Any) -> list[Any]:
        """Rows of answers have no order; what they are rows of does."""

        def name(row: Any) -> str:
            if not isinstance(row, dict):
                return str(row).rjust(8) if isinstance(row, int) else ""
            for key in (
                "transactionalId",
                "topic",
                "groupInstanceId",
                "memberId",
                "name",
                "topicId",
                "partitionIndex",
                "groupId",
            ):
                if row.get(key) is not None:
                    return str(self._resolved(row[key])).rjust(8)
            return ""

        return sorted(rows, key=name)

    def _resolved(self, value: Any) -> Any:
        """With the ids ours gave in place of the names."""
        if isinstance(value, dict):
            return {name: self._resolved(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._resolved(one) for one in value]
        if isinstance(value, str) and value.startswith("<P") and value not in self.bound:
            self.bound[value] = 4_000 + len(self.bound)
        return self.bound.get(value, value) if isinstance(value, str) else value

    def _differ(self, step: Json, text: str) -> None:
        self.differences.append(f"{step['step']} {step.get('api', step.get('do'))}: {text}")


def shown_id(name: str) -> str:
    return urlsafe_b64encode(topic_id(name)).decode().rstrip("=")


def _as_ours(value: Any) -> Any:
    """Hashes of metadata are each coordinator's own, and so are its versions."""
    if value is None:
        return None
    version, shown = value
    shown = dict(shown)
    if "metadataHash" in shown:
        shown["metadataHash"] = f"<hash:{shown['metadataHash']}>"
    if "version" in shown:
        shown["version"] = "<ts>"
    return version, shown


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _renamed(one, names) for key, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one, names) for one in value]
    return names.get(value, value) if isinstance(value, str) else value


def _completed(of: type[Struct], version: int, value: Json) -> Json:
    """A trace leaves out fields at their defaults."""
    whole = {**to_json(of(), version), **value}
    for line in of.TABLE:
        rows = whole.get(line.json_name)
        if line.kind == "array" and isinstance(line.of, type) and rows:
            whole[line.json_name] = [_completed(line.of, version, row) for row in rows]
    return whole


def _without_old_assignments(response: Json) -> Json:
    """4.1 shows what members had before the rebalance under way, 3.9 and ours do not."""
    groups = []
    for group in response["groups"]:
        if group["groupState"] != "Stable":
            group = {**group, "members": [{**one, "memberAssignment": ""} for one in group["members"]]}
        groups.append(group)
    return {**response, "groups": groups}


def _first_error(response: Any) -> int | None:
    for topic in response.get("topics", ()):
        for partition in topic["partitions"]:
            return int(partition["errorCode"])
    return None


def _shown(key: bytes, value: bytes | None) -> tuple[Json, tuple[int, Json] | None]:
    kind = int.from_bytes(key[:2], "big")
    key_class, value_class = MESSAGES[kind]
    shown = key_class.decode(kind, key, 2).to_json(kind)
    if value is None:
        return shown, None
    version = int.from_bytes(value[:2], "big")
    return shown, (version, value_class.decode(version, value, 2).to_json(version))


def _in_order(records: list[Any]) -> list[Any]:
    """Offsets of one request come in the order of a hash map."""
    return sorted(
        records,
        key=lambda one: (
            one[0]["group"],
            "topic" not in one[0],
            one[0].get("topic"),
            one[0].get("partition"),
        ),
    )
