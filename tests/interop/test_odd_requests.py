"""The same requests to a cluster of Apache's brokers and to one of ours, in every version that both serve.

The answers are equal field by field, or they differ as DIFFERENT says. Ids, times, addresses and the order of rows are
normalised; sentences about errors are ours to choose (tests/golden/admin_errors.json compares those that matter).
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import pytest

from odradek.client.sync import CONTROLLER, SyncClient
from odradek.protocol.api_keys import APIS
from odradek.protocol.fields import Field, Struct
from odradek.protocol.headers import decode_response_header, encode_request
from odradek.protocol.messages import request_class, response_class
from odradek.records.builder import NewRecord, build_batch
from tests.interop.cluster import APACHES, OURS, MixedCluster
from tests.server.bad_inputs import Connection
from tests.support import GOLDEN, eventually

KEYS = {api.name: key for key, api in APIS.items()}
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
T = 1_700_000_000_000  # of records
NEWEST = (99,)
NO_ID, WRONG_ID = bytes(16), b"w" * 16
SUBSCRIPTION = b"\0\x01\0\0\0\x01\0\x02zz\xff\xff\xff\xff\0\0\0\0"
LEFT_OUT = ("throttle_time_ms", "error_message", "batch_index_error_message", "documentation", "host", "port")
OF_THE_MOMENT = ("cluster_id", "session_id", "producer_id", "last_timestamp", "transaction_start_time_ms")

# What is asked (its label, or a pattern of labels) -> the line of docs/differences.md that says why.
DIFFERENT: Sequence[tuple[str, str]] = (
    ("by id [[]Metadata 1[01]]", "rows-refused-alone"),
    ("by id and name [[]Metadata 1[01]]", "rows-refused-alone"),
    ("isolation * [[]ListOffsets *", "isolation-levels"),
    ("isolation * [[]Fetch *", "isolation-levels"),
    ("null records *", "refusals-named"),
    ("no key *", "one-record-named"),
    ("too late *", "one-record-named"),
    ("refused for its *", "refused-names-no-start"),
    ("idempotent, again *", "duplicates-keep-their-time"),
    ("twice [[]Produce *", "twice-is-twice"),
    ("twice [[]DeleteRecords *", "twice-is-twice"),
    ("twice [[]OffsetCommit *", "twice-is-twice"),
    ("offset * out of range *", "range-is-told"),
    ("size -1 *", "sizes-below-0"),
    ("session, all forgotten *", "sessions-of-nothing"),
    ("session, after that *", "sessions-of-nothing"),
    ("session of nothing *", "sessions-of-nothing"),
    ("all stable, pending *", "pending-is-listed"),
    ("running for *", "never-begun"),
    ("partition twice*CreateTopics *", "assigned-once"),
    ("described twice *", "named-once"),
    ("deleted twice *", "deleted-once"),
    ("quota -1 *", "quotas-are-numbers"),
    ("quota of localhost *", "hosts-not-looked-up"),
    ("quota of ::1 *", "hosts-not-looked-up"),
    ("match of a kind 3 *", "refusals-named"),
    ("number in * digits *", "plain-numbers"),
    ("number NaN *", "plain-numbers"),
)


def filled(cls: type[Struct], fields: Mapping[str, Any]) -> Any:
    """A message of dictionaries, with the defaults for what they leave out."""
    made = cls()
    lines = {line.name: line for line in cls.TABLE}
    for name, value in fields.items():
        part = lines[name].of
        if isinstance(part, type) and value is not None:
            value = (
                [filled(part, row) for row in value] if lines[name].kind == "array" else filled(part, value)
            )
        setattr(made, name, value)
    return made


class Asked:
    """One cluster, and what it has answered by label."""

    def __init__(self, cluster: MixedCluster, served: Mapping[int, tuple[int, int]]) -> None:
        self.answers: dict[str, Any] = {}
        self.ids: dict[str, bytes] = {}
        self._cluster = cluster
        self._served = served
        self._connections: dict[int, Connection] = {}
        self._names: dict[Any, str] = {}
        self.coordinator = {
            kind: self.until(
                "FindCoordinator",
                {"key_type": kind, "coordinator_keys": ["x"]},
                lambda found: found.coordinators[0].error_code == 0,
            )
            .coordinators[0]
            .node_id
            for kind in (0, 1)
        }

    def ask(
        self,
        label: str,
        api: str,
        fields: "Mapping[str, Any] | Callable[[int], Mapping[str, Any]]",
        versions: Iterable[int] = range(99),
        at: int = 1,
        keep: bool = True,
    ) -> Any:
        """The answer of the last version. `fields` may depend on the version; NEWEST is the newest that both have."""
        first, last = self._served[KEYS[api]]
        answer = None
        for version in (last,) if versions is NEWEST else versions:
            if not first <= version <= last:
                continue
            answer = self.exchange(api, version, fields(version) if callable(fields) else fields, at)
            if keep:
                shown = self.shown(answer, version) if isinstance(answer, Struct) else answer
                row = f"{label} [{api} {version}]"
                times = sum(1 for known in self.answers if known.rstrip("'") == row)
                self.answers[row + "'" * times] = shown
        return answer

    def until(self, api: str, fields: Mapping[str, Any], holds: Callable[[Any], bool], at: int = 1) -> Any:
        found: list[Any] = []

        def asked() -> bool:
            found[:] = [self.exchange(api, self._served[KEYS[api]][1], fields, at)]
            return isinstance(found[0], Struct) and holds(found[0])

        eventually(asked, 60.0, f"{api} {fields}")
        return found[0]

    def exchange(self, api: str, version: int, fields: Mapping[str, Any], at: int) -> Any:
        key = KEYS[api]
        if at not in self._connections:
            self._connections[at] = Connection(self._cluster.brokers[at].port)
        body = filled(request_class(key), fields).encode(version)
        try:
            self._connections[at].send(encode_request(key, version, 1, "odd", body))
            frame = memoryview(self._connections[at].receive())
        except OSError as error:  # TimeoutError is one
            self._connections.pop(at).close()
            return "open" if isinstance(error, TimeoutError) else "closed"
        return response_class(key).decode(version, frame, decode_response_header(key, version, frame)[1])

    def topic(self, name: str, *replicas: Sequence[int], **configs: str) -> None:
        self._cluster.create_topic(name, dict(enumerate(replicas)), **{"retention_ms": "-1", **configs})
        self.ids[name] = (
            self.until(
                "Metadata", {"topics": [{"name": name}]}, lambda found: found.topics[0].error_code == 0
            )
            .topics[0]
            .topic_id
        )
        self._names[bytes(self.ids[name])] = f"id of {name}"

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def shown(self, message: Struct, version: int) -> dict[str, Any]:
        shown = {}
        for line in message.TABLE:
            value = getattr(message, line.name)
            if version not in line.versions or line.name in LEFT_OUT:
                continue
            if line.tag is None or not line.is_default(value):
                shown[line.name] = self._value(line, value, version)
        return shown

    def _value(self, line: Field, value: Any, version: int) -> Any:
        if value is None:
            return None
        if line.kind == "array" and isinstance(line.of, type):
            rows = [self.shown(row, version) for row in value]
            return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
        if line.kind == "struct":
            return self.shown(value, version)
        if line.kind == "array":
            return sorted(value) if line.name == "partitions" else value
        if isinstance(value, bytes | memoryview):
            data = bytes(value)
            return self._names.get(data, data.hex())
        if line.name in OF_THE_MOMENT and value not in (-1, 0):
            return "some"
        if line.name == "log_append_time_ms" and value != -1:
            return "some"
        if isinstance(value, str):
            return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", value)
        return value


def batch(*values: str, key: bytes | None = b"k", at: int = T, **options: Any) -> bytes:
    return build_batch(
        [NewRecord(key, value.encode(), at + number) for number, value in enumerate(values)], **options
    )


def rows(name: str, parts: str, *given: tuple[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Topics (`name` is the field of their names) with their rows (`parts` is theirs)."""
    return [{name: topic, parts: list(of_topic)} for topic, of_topic in given]


def put(
    a: Asked, label: str, topic: str, data: bytes | None, versions: Iterable[int] = (9,), **options: Any
) -> Any:
    partition = {"index": options.pop("index", 0), "records": data}
    at, keep = options.pop("at", 1), options.pop("keep", True)
    topics = rows("name", "partition_data", (topic, [partition]))
    fields = {"acks": -1, "timeout_ms": 5_000, "topic_data": topics, **options}
    return a.ask(label, "Produce", fields, versions, at, keep)


# ------------------------------------------------------------------------------------------------------ chapters


def metadata(a: Asked) -> None:
    a.topic("m", [1, 2], [2, 1])
    a.topic("m2", [1])

    def ask(
        label: str, *topics: Mapping[str, Any], versions: Iterable[int] = range(99), **options: Any
    ) -> None:
        fields = {"topics": list(topics), "allow_auto_topic_creation": False, **options}
        a.ask(label, "Metadata", fields, versions)

    ask("one", {"name": "m"})
    ask("twice", {"name": "m"}, {"name": "m"}, {"name": "none"}, {"name": "none"})
    for name in ("", ".", "..", "a b", "x" * 249, "x" * 250, "é"):
        ask(f"name {name[:3]!r} {len(name)}", {"name": name}, versions=(0, 4, 12))
        ask(
            f"made {name[:3]!r} {len(name)}", {"name": name}, versions=(4, 12), allow_auto_topic_creation=True
        )
    allowed = {"include_topic_authorized_operations": True}
    ask("operations", {"name": "m"}, {"name": "none"}, versions=range(8, 99), **allowed)
    for label, name, topic_id in (("by id", None, a.ids["m"]), ("by id and name", "m", a.ids["m"])):
        ask(label, {"name": name, "topic_id": topic_id}, versions=range(10, 99))
    for name in (None, "m"):
        ask(f"wrong id and {name}", {"name": name, "topic_id": WRONG_ID}, versions=(12,))


def offsets(a: Asked) -> None:
    a.topic("o", [1, 2], [2, 1])
    a.topic("o1", [1])
    for data in (batch("a", "b", "c"), batch("d", at=T + 100), batch("e", "f", at=T + 50, codec="gzip")):
        put(a, "put", "o", data)

    def look(label: str, *asked: Mapping[str, Any], topic: str = "o", at: int = 1, **options: Any) -> None:
        versions = options.pop("versions", range(99))
        given = [{"partition_index": 0, "timestamp": -1, **one} for one in asked]
        fields = {"replica_id": -1, "topics": rows("name", "partitions", (topic, given)), **options}
        a.ask(label, "ListOffsets", fields, versions, at)

    for timestamp in (-1, -2, -3, -4, -5, -6, 0, T, T + 1, T + 3, T + 50, T + 51, T + 99, T + 101, 2**63 - 1):
        look(f"time {timestamp}", {"timestamp": timestamp})
        look(f"time {timestamp} of nothing", {"partition_index": 1, "timestamp": timestamp}, at=2)
    for isolation in (2, -1):
        look(f"isolation {isolation}", {}, isolation_level=isolation, versions=(2, 9))
    for epoch in (0, 1, 10**6):
        for at in (1, 2):
            look(f"epoch {epoch} at {at}", {"current_leader_epoch": epoch}, at=at, versions=range(4, 99))
    look("elsewhere", {}, at=2)
    look("no replica", {}, topic="o1", at=2)
    look("unknown", {"partition_index": 9}, {"partition_index": -1})
    look("unknown topic", {}, topic="none")
    look("both ends", {}, {"timestamp": -2})
    for epoch in (-1, 0, 1, 10**6):
        for current in (-1, 0, 1):
            for at in (1, 2):
                given = [{"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}]
                fields = {"replica_id": -1, "topics": rows("topic", "partitions", ("o", given))}
                a.ask(f"end of {epoch} in {current} at {at}", "OffsetForLeaderEpoch", fields, at=at)


def produce(a: Asked) -> None:
    a.topic("p", [1, 2], [2, 1])
    a.topic("p2", [1])
    a.topic("compacted", [1], cleanup_policy="compact")
    a.topic("stamped", [1], message_timestamp_type="LogAppendTime")
    a.topic("shrunk", [1], min_insync_replicas="2")
    a.topic("small", [1], max_message_bytes="100")
    a.topic("timely", [1], message_timestamp_before_max_ms="1000")
    newer = range(3, 99)
    put(a, "good", "p", batch("a"), newer)
    for acks in (1, 2, -2, 32767):
        put(a, f"acks {acks}", "p", batch("a"), newer, acks=acks)
    for index in (9, -1):
        put(a, f"partition {index}", "p", batch("a"), newer, index=index)
    put(a, "elsewhere", "p", batch("a"), newer, at=2)
    put(a, "no replica", "small", batch("a"), newer, at=2)
    put(a, "unknown", "none", batch("a"), newer)
    put(a, "empty records", "p", b"", newer)
    put(a, "null records", "p", None)
    put(a, "no key", "compacted", build_batch([NewRecord(None, b"v", T)] * 2))
    put(a, "stamped", "stamped", batch("a"), newer)
    put(a, "too few in sync", "shrunk", batch("a"), newer)
    put(a, "too large", "small", batch("a" * 200), newer)
    put(a, "too late", "timely", batch("a"))
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        put(a, codec, "p", batch("a", codec=codec), newer)
    twice = [{"index": 0, "records": batch(value)} for value in "ab"]
    fields = {"acks": -1, "timeout_ms": 5_000, "topic_data": rows("name", "partition_data", ("p2", twice))}
    a.ask("twice", "Produce", fields, NEWEST)
    of_producer: dict[str, Any] = {"producer_id": 7_000_000}
    for label, epoch, sequence in (
        ("idempotent", 0, 0),
        ("idempotent, again", 0, 0),
        ("idempotent, next", 0, 1),
        ("refused for its gap", 0, 5),
        ("refused for its new epoch that begins with 1", 1, 1),
        ("a new epoch", 1, 0),
        ("refused for its old epoch", 0, 2),
        ("the last sequence", 2, 0),
    ):
        put(a, label, "p", batch("a", **of_producer, producer_epoch=epoch, base_sequence=sequence))
    for sequence in (2**31 - 1, 0):
        data = batch("a", producer_id=7_000_001, producer_epoch=0, base_sequence=sequence)
        put(a, f"sequence {sequence} of another", "p", data)
    loose = batch("a", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    for transaction in (None, "", "no-such"):
        put(a, f"transactional of {transaction!r}", "p", loose, newer, transactional_id=transaction)
    a.until("Fetch", _fetch(("p", 0, 0)), lambda _: True)
    for at in (1, 2):
        named = rows("name", "partition_indexes", ("p", [0, 9]), ("p2", [0]), ("none", [0]), ("a b", [0]))  # type: ignore[list-item]
        a.ask(f"producers at {at}", "DescribeProducers", {"topics": named[at - 1 :]}, at=at)


def _fetch(
    *asked: tuple[str, int, int], ids: Mapping[str, bytes] | None = None, epoch: int = -1, **options: Any
) -> dict[str, Any]:
    """Of (topic, partition, offset)."""
    size = options.pop("size", 10**6)
    topics = [
        {
            "topic": topic,
            "topic_id": (ids or {}).get(topic, WRONG_ID),
            "partitions": [
                {
                    "partition": index,
                    "fetch_offset": offset,
                    "partition_max_bytes": size,
                    "current_leader_epoch": epoch,
                }
            ],
        }
        for topic, index, offset in asked
    ]
    return {"max_wait_ms": 0, "max_bytes": size, "topics": topics, "session_epoch": -1, **options}


def fetches(a: Asked) -> None:
    a.topic("f", [1, 2], [2, 1])
    a.topic("f2", [1])
    for data in (batch("a", "b", "c"), batch("d" * 100), batch("e", codec="zstd")):
        put(a, "put", "f", data)
    put(a, "put", "f2", batch("x"))

    def ask(label: str, *asked: Any, versions: Iterable[int] = range(99), at: int = 1, **options: Any) -> Any:
        return a.ask(label, "Fetch", _fetch(*asked, ids=a.ids, **options), versions, at)

    for offset in (0, 1, 3, 4, 5):
        ask(f"offset {offset}", ("f", 0, offset))
    for offset in (-1, 6, 2**62):
        ask(f"offset {offset} out of range", ("f", 0, offset), versions=range(5, 99))
    for size in (0, 1, 76, 77, 300, -1):
        ask(f"size {size}", ("f", 0, 0), ("f2", 0, 0), size=size, versions=(4, 11, 17))
        ask(f"size {size} behind the end", ("f", 0, 5), ("f2", 0, 0), size=size, versions=(4, 11, 17))
    for isolation in (2, -1):
        ask(f"isolation {isolation}", ("f", 0, 0), isolation_level=isolation, versions=(4, 11, 17))
    for epoch in (0, 1, 10**6):
        ask(f"epoch {epoch}", ("f", 0, 0), epoch=epoch, versions=range(9, 99))
    ask("old readers elsewhere", ("f", 0, 0), at=2, versions=range(11))
    ask("no replica", ("f2", 0, 0), at=2)
    ask("nothing")
    for version in (7, 11, 12, 13, 17):
        session(a, version)


def session(a: Asked, version: int) -> None:
    def ask(label: str, *asked: tuple[str, int, int], **options: Any) -> Any:
        return a.ask(label, "Fetch", _fetch(*asked, ids=a.ids, **options), (version,))

    for label, session_id, epoch in (
        ("unknown", 5, 1),
        ("unknown and full", 5, 0),
        ("unknown and closed", 5, -1),
        ("no id", 0, 1),
    ):
        ask(f"session {label}", ("f", 0, 0), session_id=session_id, session_epoch=epoch)
    session_id = ask("session", ("f", 0, 0), ("f2", 0, 0), session_epoch=0).session_id

    def goes_on(label: str, epoch: int, *asked: Any, forgets: Sequence[str] = (), **options: Any) -> None:
        forgotten = [
            {"topic": topic, "topic_id": a.ids.get(topic, WRONG_ID), "partitions": [0]} for topic in forgets
        ]
        of_session = {
            "session_id": session_id,
            "session_epoch": epoch,
            "forgotten_topics_data": forgotten,
        }
        ask(f"session, {label}", *asked, **of_session, **options)

    goes_on("still all", 1)
    goes_on("1 again", 1)
    goes_on("a gap", 3)
    goes_on("moved", 2, ("f", 0, 5))
    goes_on("forgotten", 3, forgets=["f2"])
    goes_on("quiet", 4)
    goes_on("moved back", 5, ("f", 0, 4), forgets=["none"])
    goes_on("all forgotten", 6, forgets=["f"])
    goes_on("after that", 7)
    ask("session of nothing", session_id=session_id, session_epoch=0)


def deleted_records(a: Asked) -> None:
    a.topic("d", [1, 2], [2, 1])
    a.topic("d2", [1])
    a.topic("kept", [1], cleanup_policy="compact")
    for topic in ("d", "d", "d2", "kept"):
        put(a, "put", topic, batch("a", "b"))

    def ask(label: str, topic: str, *asked: tuple[int, int], at: int = 1) -> None:
        given = [{"partition_index": index, "offset": offset} for index, offset in asked]
        a.ask(
            label,
            "DeleteRecords",
            {"topics": rows("name", "partitions", (topic, given)), "timeout_ms": 5_000},
            at=at,
        )

    for offset in (0, -2, 5, 1, 0, 3, -1):
        ask(f"to {offset}", "d", (0, offset))
    ask("twice", "d2", (0, 1), (0, 2))
    ask("of what is compacted", "kept", (0, 1))
    ask("unknown", "d", (9, 1), (-1, 1))
    ask("unknown topic", "none", (0, 1))
    ask("elsewhere", "d", (0, 4), at=2)
    ask("of nothing", "d", (1, 0), at=2)


def groups(a: Asked) -> None:
    at = a.coordinator[0]
    join = partial(_join, a)
    join("no group", "", range(99))
    for timeout in (0, 5_999, 1_800_001):
        join(f"session of {timeout}", "j", range(99), session_timeout_ms=timeout)
    join("unknown member", "j", range(99), member="nobody")
    join("no protocols", "j", (2, 9), protocols=[])
    join("unknown instance", "j", (5, 9), member="nobody", group_instance_id="i")
    for version in (2, 4, 5, 6, 7, 8, 9):
        group_of(a, version)
    for state in ("Empty", "stable", "Dead", "nonsense", ""):
        a.ask(f"in state {state!r}", "ListGroups", {"states_filter": [state]}, (4, 5), at=3 - at)


def group_of(a: Asked, version: int) -> None:
    at = a.coordinator[0]
    join = partial(_join, a)
    group = f"of {version}"
    joined = join("joins", group, (version,))
    if version >= 4:
        joined = join("joins with its id", group, (version,), joined.member_id)
    of_member = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}

    def ask(label: str, api: str, **other: Any) -> None:
        label = f"{label} in {of_member['group_id']}"
        versions = other.pop("versions", range(99))
        a.ask(label, api, {**of_member, **other}, versions, at)

    def sync(label: str, **other: Any) -> None:
        named = {"protocol_type": "consumer", "protocol_name": "range"}

        def fields(of_sync: int) -> dict[str, Any]:
            return {**of_member, **(named if of_sync >= 5 else {}), **other}

        versions = other.pop("versions", range(99))
        a.ask(f"{label} in {of_member['group_id']}", "SyncGroup", fields, versions, at)

    wrong = {"generation_id": joined.generation_id + 1}
    ask("before its sync", "Heartbeat")
    sync("another generation", **wrong)
    sync("another member", member_id="nobody")
    for name in ("protocol_type", "protocol_name"):
        for value in ("other", None):
            sync(f"{name} {value}", versions=(5,), **{name: value})
    shared = [{"member_id": joined.member_id, "assignment": b"abc"}]
    sync("its share", versions=(5,), assignments=shared)
    sync("its share again")
    ask("stable", "Heartbeat")
    ask("another generation", "Heartbeat", **wrong)
    ask("another member", "Heartbeat", member_id="nobody")
    ask("another instance", "Heartbeat", group_instance_id="nobody", versions=(3, 4))
    a.ask(f"described {version}", "DescribeGroups", {"groups": [group, "nothing", ""]}, at=at)
    join(f"of another type {version}", group, (version,), protocol_type="connect")
    join(f"of another protocol {version}", group, (version,), protocols=[{"name": "x", "metadata": b""}])
    a.ask(f"not empty {version}", "DeleteGroups", {"groups_names": [group]}, at=at)
    for member in ("nobody", "", joined.member_id, joined.member_id):

        def leave(of_leave: int, member: str = member) -> dict[str, Any]:
            who = {"member_id": member}
            return {"group_id": group, **(who if of_leave < 3 else {"members": [who]})}

        a.ask(f"leaves {member and member[:3]} {version}", "LeaveGroup", leave, (0, 3, 5), at)
    ask("when it has left", "Heartbeat")
    join(f"again {version}", group, (version,), joined.member_id)


def _join(a: Asked, label: str, group: str, versions: Iterable[int], member: str = "", **options: Any) -> Any:
    fields = {
        "group_id": group,
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "member_id": member,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
        **options,
    }
    return a.ask(label, "JoinGroup", fields, versions, a.coordinator[0])


def commits(a: Asked) -> None:
    a.topic("c", [1, 2], [2, 1])
    at = a.coordinator[0]

    def commit(label: str, group: str, *asked: Mapping[str, Any], topic: str = "c", **options: Any) -> None:
        given = [
            {"partition_index": 0, "committed_offset": 5, "committed_metadata": "", **one} for one in asked
        ]
        fields = {
            "group_id": group,
            "generation_id_or_member_epoch": -1,
            "topics": rows("name", "partitions", (topic, given)),
            **options,
        }
        a.ask(label, "OffsetCommit", fields, at=at)

    def fetch(label: str, group: str, indexes: Sequence[int] | None, **options: Any) -> None:
        topics = None if indexes is None else [{"name": "c", "partition_indexes": list(indexes)}]

        def fields(version: int) -> dict[str, Any]:
            of_group = {"group_id": group, "topics": topics}
            return {**(of_group if version < 8 else {"groups": [of_group]}), **options}

        a.ask(label, "OffsetFetch", fields, range(2 if indexes is None else 1, 99), at)

    for offset in (0, -1, -2, 2**63 - 1):
        commit(f"offset {offset}", "c", {"committed_offset": offset})
        fetch(f"offset {offset}", "c", [0, 1, 9, -1])
    fetch("all", "c", None)
    fetch("unknown", "unknown", [0])
    fetch("unknown, all", "unknown", None)
    fetch("no name", "", [0])
    commit("long metadata", "c", {"committed_metadata": "x" * 4097})
    commit("unknown", "c", {"partition_index": 9}, {"partition_index": -1}, {})
    commit("unknown topic", "c", {}, topic="none")
    commit("twice", "c", {}, {"committed_offset": 6})
    for generation in (0, 1, -2):
        for member in ("", "x"):
            named = {"generation_id_or_member_epoch": generation, "member_id": member}
            commit(f"generation {generation} of {member!r}", "c", {}, **named)
            commit(f"generation {generation} of {member!r} in a new one", "new", {}, **named)
    for group, name, index in (
        ("c", "c", 9),
        ("c", "c", 0),
        ("c", "none", 0),
        ("unknown", "c", 0),
        ("", "c", 0),
    ):
        topics = rows("name", "partitions", (name, [{"partition_index": index}]))
        a.ask(f"{name}-{index} of {group!r}", "OffsetDelete", {"group_id": group, "topics": topics}, at=at)
    for named_groups in (["unknown", ""], [], ["new"]):
        a.ask(f"groups {named_groups}", "DeleteGroups", {"groups_names": named_groups}, at=at)


def transactions(a: Asked) -> None:
    a.topic("t", [1], [2])
    at, of_groups = a.coordinator[1], a.coordinator[0]
    for broker in (1, 2):
        free = {"transactional_id": None, "transaction_timeout_ms": 1_000}
        a.until("InitProducerId", free, lambda given: given.error_code == 0, broker)

    def init(label: str, name: str | None, versions: Iterable[int] = range(99), **options: Any) -> Any:
        known = {name: options.pop(name) for name in ("producer_id", "producer_epoch") if name in options}

        def fields(version: int) -> dict[str, Any]:
            timed = {"transactional_id": name, "transaction_timeout_ms": 60_000, **options}
            return {**timed, **(known if version >= 3 else {})}

        return a.ask(label, "InitProducerId", fields, versions, at)

    init("no name", "")
    for timeout in (0, -1, 900_001):
        init(f"time {timeout}", "timed", transaction_timeout_ms=timeout)
    for name in (None, "x"):
        init(f"half a producer of {name}", name, (3, 5), producer_id=5)
        init(f"the other half of {name}", name, (3, 5), producer_epoch=5)
    init("begin", "x", (4,))
    given = init("begin again", "x", (4,))
    mine = {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch}
    for label, known in (
        ("another id", {**mine, "producer_id": 10**9}),
        ("an older epoch", {**mine, "producer_epoch": -1 + mine["producer_epoch"]}),
        ("a newer epoch", {**mine, "producer_epoch": 9}),
    ):
        init(f"as {label}", "x", (3, 4, 5), **known)
        for committed in (True, False):
            ended = {"transactional_id": "x", **known, "committed": committed}
            a.ask(f"ended {committed} by {label}", "EndTxn", ended, at=at)
        a.ask(f"of {label}", "AddOffsetsToTxn", {"transactional_id": "x", **known, "group_id": "g"}, at=at)

    def add(label: str, *asked: tuple[str, list[int]], name: str = "x") -> None:
        fields = {
            "v3_and_below_transactional_id": name,
            "v3_and_below_producer_id": mine["producer_id"],
            "v3_and_below_producer_epoch": mine["producer_epoch"],
            "v3_and_below_topics": [{"name": topic, "partitions": indexes} for topic, indexes in asked],
        }
        a.ask(label, "AddPartitionsToTxn", fields, range(4), at)

    def commit(label: str, group: str, **options: Any) -> None:
        row = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
        topics = rows("name", "partitions", ("t", [row]))
        fields = {"transactional_id": "x", "group_id": group, **mine, "topics": topics, **options}
        a.ask(label, "TxnOffsetCommit", fields, range(3 if options else 0, 99), of_groups)

    for committed in (True, False):
        a.ask(
            f"nothing ended {committed}",
            "EndTxn",
            {"transactional_id": "x", **mine, "committed": committed},
            at=at,
        )
    add("of nobody", ("t", [0]), name="nobody")
    add("unknown", ("t", [0, 9]), ("none", [0]))
    add("added", ("t", [0]), ("t", [1]))
    commit("not added", "g2")
    a.ask("added group", "AddOffsetsToTxn", {"transactional_id": "x", **mine, "group_id": "g"}, at=at)
    commit("in it", "g")
    commit("no name", "")
    commit("a generation", "g", generation_id=3, member_id="m")
    commit("a member alone", "g", member_id="m")
    for stable in (False, True):
        for label, topics in (("these", [{"name": "t", "partition_indexes": [0, 1]}]), ("all", None)):
            fields = {"groups": [{"group_id": "g", "topics": topics}], "require_stable": stable}
            label = f"{label} {'stable' if stable else 'anyway'}, pending"
            a.ask(label, "OffsetFetch", fields, (8, 9), of_groups)
    a.ask("ongoing", "DescribeTransactions", {"transactional_ids": ["x", "nobody", ""]}, at=at)
    data = batch("a", **mine, base_sequence=0, is_transactional=True)
    put(a, "in it", "t", data, transactional_id="x", keep=False)
    a.ask("committed", "EndTxn", {"transactional_id": "x", **mine, "committed": True}, (4,), at)
    described = {"transactional_ids": ["x"]}
    a.until(
        "DescribeTransactions",
        described,
        lambda found: found.transaction_states[0].transaction_state == "CompleteCommit",
        at,
    )
    for committed in (True, False):
        a.ask(
            f"once more {committed}",
            "EndTxn",
            {"transactional_id": "x", **mine, "committed": committed},
            at=at,
        )
    for state in ("CompleteCommit", "Ongoing", "nonsense", ""):
        a.ask(f"in state {state!r}", "ListTransactions", {"state_filters": [state]}, at=at)
    init("never used", "idle", (4,))
    a.ask("running for long", "ListTransactions", {"duration_filter": 10**9}, NEWEST, at)


def topics(a: Asked) -> None:
    a.topic("there", [1])
    a.topic("dot.ted", [1])

    def ask(label: str, *asked: Mapping[str, Any], versions: Iterable[int] = NEWEST, at: int = 1) -> None:
        given = [{"name": "new", "num_partitions": 1, "replication_factor": 1, **one} for one in asked]
        a.ask(
            label, "CreateTopics", {"topics": given, "timeout_ms": 9_000, "validate_only": True}, versions, at
        )

    every = range(99)
    ask("valid", {}, versions=every)
    ask("defaults", {"num_partitions": -1, "replication_factor": -1}, versions=every)
    ask("there", {"name": "there"}, versions=every)
    ask("collides", {"name": "dot_ted"}, versions=every)
    ask("elsewhere", {}, versions=every, at=2)
    for partitions in (0, -2):
        ask(f"partitions {partitions}", {"num_partitions": partitions})
    for factor in (0, -2, 3):
        ask(f"replicas {factor}", {"replication_factor": factor})
    for label, *assigned in (
        ("assigned", (0, [1, 2]), (1, [2, 1])),
        ("gap", (0, [1]), (2, [1])),
        ("from 1", (1, [1])),
        ("replica twice", (0, [1, 1])),
        ("uneven", (0, [1, 2]), (1, [1])),
        ("partition twice", (0, [1]), (0, [2])),
    ):
        given = [{"partition_index": index, "broker_ids": replicas} for index, replicas in assigned]
        ask(label, {"num_partitions": -1, "replication_factor": -1, "assignments": given})
        ask(f"{label}, and counts", {"assignments": given})
    ask("the same twice", {}, {}, {"name": "other"})
    for name in ("", ".", "..", "a b", "x" * 249, "x" * 250, "__cluster_metadata", "__consumer_offsets"):
        ask(f"name {name[:5]!r} {len(name)}", {"name": name})
    for name, values in {
        "cleanup.policy": ("compact,delete", "", ",", " delete", "DELETE", "delete,delete", None),
        "compression.type": ("gzip", "none", "uncompressed", ""),
        "compression.gzip.level": ("-1", "0", "9", "10"),
        "retention.ms": ("-1", "-2", " 5 ", "+5", "5L", "1.0", "", "9223372036854775808", None),
        "segment.bytes": ("13", "14", "2147483648"),
        "min.cleanable.dirty.ratio": ("-0.1", "0", "1", "1.1", "1e-1", ".5", "0.00001"),
        "preallocate": ("TRUE", "yes", ""),
        "message.timestamp.type": ("LogAppendTime", "createtime"),
        "min.insync.replicas": ("0", "100"),
        "leader.replication.throttled.replicas": ("*", "", "0:1,1:2", "*,0:1", "none", "1", "-1:1"),
        "no.such": ("1", None),
    }.items():
        for value in values:
            ask(f"{name}={value}", {"configs": [{"name": name, "value": value}]})
    ask("number in Arabic digits", {"configs": [{"name": "retention.ms", "value": "\u0663"}]})
    ask("number NaN", {"configs": [{"name": "min.cleanable.dirty.ratio", "value": "NaN"}]})
    for count, assigned in (
        (1, None),
        (0, None),
        (-1, None),
        (3, None),
        (3, [[1]]),
        (2, [[9]]),
        (2, [[1, 1]]),
        (2, []),
    ):
        asked = None if assigned is None else [{"broker_ids": replicas} for replicas in assigned]
        grown = [{"name": name, "count": count, "assignments": asked} for name in ("there", "none")]
        fields = {"topics": grown, "timeout_ms": 9_000, "validate_only": True}
        a.ask(f"{count} with {assigned}", "CreatePartitions", fields)
    for label, name, topic_id in (
        ("unknown", "none", NO_ID),
        ("unknown id", None, WRONG_ID),
        ("name and id", "there", WRONG_ID),
    ):
        fields = {"topics": [{"name": name, "topic_id": topic_id}], "timeout_ms": 9_000}
        a.ask(label, "DeleteTopics", fields, NEWEST)
    a.topic("doomed", [1])
    doomed = {"topics": [{"name": "doomed"}] * 2, "timeout_ms": 9_000}
    a.ask("deleted twice", "DeleteTopics", doomed, NEWEST)


def configs(a: Asked) -> None:
    a.topic("k", [1])

    def ask(
        label: str, kind: int, name: str, *changes: tuple[str, int, str | None], only: bool = True
    ) -> None:
        given = [{"name": key, "config_operation": how, "value": value} for key, how, value in changes]
        resource = {"resource_type": kind, "resource_name": name, "configs": given}
        fields = {"resources": [resource], "validate_only": only}
        a.ask(label, "IncrementalAlterConfigs", fields, NEWEST)

    def look(label: str, kind: int, name: str, *keys: str, times: int = 1) -> Any:
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys)}
        fields = {"resources": [resource] * times, "include_synonyms": True}
        return a.ask(label, "DescribeConfigs", fields)

    for value in ("", "x", None, "-2"):
        for how in (0, 1):
            ask(f"retention {how} {value!r}", 2, "k", ("retention.ms", how, value))
    for how in (2, 3):
        for value in ("compact", "delete", "compact,compact", None):
            ask(f"policy {how} {value!r}", 2, "k", ("cleanup.policy", how, value))
        ask(f"number {how}", 2, "k", ("retention.ms", how, "1"))
    ask("not set", 2, "k", ("segment.ms", 1, None), ("no.such", 1, None))
    ask("key twice", 2, "k", ("retention.ms", 0, "1"), ("retention.ms", 1, None))
    for kind in (0, 1, 3, 127):
        ask(f"of kind {kind}", kind, "1", ("retention.ms", 0, "1"))
        look(f"of kind {kind}", kind, "1", "retention.ms")
    for name in ("", "none", "a b"):
        look(f"topic {name!r}", 2, name, "retention.ms")
    for step, (key, how, value) in enumerate(
        (
            ("cleanup.policy", 2, "compact"),
            ("cleanup.policy", 3, "delete"),
            ("cleanup.policy", 1, None),
            ("retention.ms", 0, " 78 "),
            ("leader.replication.throttled.replicas", 2, "0:1,0:2"),
            ("leader.replication.throttled.replicas", 3, "0:1"),
        )
    ):
        before = look("before", 2, "k", key)
        ask(f"step {step}", 2, "k", (key, how, value), only=False)
        resource = {"resource_type": 2, "resource_name": "k", "configuration_keys": [key]}
        fields = {"resources": [resource], "include_synonyms": True}
        a.until("DescribeConfigs", fields, lambda now, before=before: now != before)  # type: ignore[misc]
        look(f"after step {step}", 2, "k", key)
    look("described twice", 2, "k", "retention.ms", times=2)
    for name in ("1", "2", "", "9", "x"):
        look(f"broker {name!r}", 4, name, "log.retention.ms", "log.cleaner.threads", "broker.id", "no.such")
        for key, how, value in (
            ("log.retention.ms", 0, "600000"),
            ("log.retention.ms", 0, "x"),
            ("log.retention.ms", 1, None),
            ("log.cleanup.policy", 2, "compact"),
            ("broker.id", 0, "5"),
            ("log.dirs", 0, "x"),
            ("num.io.threads", 0, "1000"),
            ("compression.type", 0, "rar"),
        ):
            ask(f"{key} {how} {value} of {name!r}", 4, name, (key, how, value))
    for change in (("root", 0, "LOUD"), ("root", 1, None), ("root", 2, "INFO"), ("no.such", 0, "INFO")):
        ask(f"logger {change}", 8, "1", change)


def quotas(a: Asked) -> None:
    def ask(label: str, entity: Mapping[str, str | None], key: str, value: float, only: bool = True) -> None:
        named = [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]
        entry = {"entity": named, "ops": [{"key": key, "value": value}]}
        a.ask(label, "AlterClientQuotas", {"entries": [entry], "validate_only": only}, NEWEST)

    for entity in (
        {"user": "u"},
        {"user": None},
        {"user": "u", "client-id": "c"},
        {},
        {"user": ""},
        {"group": "x"},
        {"user": "u", "ip": "127.0.0.1"},
        {"ip": "127.0.0.1"},
    ):
        ask(f"quota of {entity}", entity, "producer_byte_rate", 1_000.0)
    for value in (0.0, 0.5, 1e18, 1e19, 1e300):
        for key in ("producer_byte_rate", "request_percentage", "controller_mutation_rate"):
            ask(f"{key} of {value}", {"user": "u"}, key, value)
    ask("quota -1 of requests", {"user": "u"}, "request_percentage", -1.0)
    for address in ("127.0.0.9", "300.1.1.1", "localhost", "::1"):
        ask(f"quota of {address}", {"ip": address}, "connection_creation_rate", 5.0)
    ask("set", {"user": "q", "client-id": "c"}, "producer_byte_rate", 5.0, only=False)

    def look(label: str, *parts: tuple[str, int, str | None], strict: bool) -> dict[str, Any]:
        given = [{"entity_type": kind, "match_type": how, "match": name} for kind, how, name in parts]
        fields = {"components": given, "strict": strict}
        a.ask(label, "DescribeClientQuotas", fields, NEWEST)
        return fields

    of_user = {"components": [{"entity_type": "user", "match_type": 0, "match": "q"}], "strict": False}
    a.until("DescribeClientQuotas", of_user, lambda found: bool(found.entries))
    for strict in (False, True):
        look(f"of its user {strict}", ("user", 0, "q"), strict=strict)
        look(f"of its user and any client {strict}", ("user", 0, "q"), ("client-id", 2, None), strict=strict)
        look(f"of a default {strict}", ("user", 1, None), strict=strict)
        look(f"of an unknown kind {strict}", ("group", 0, "x"), strict=strict)
        look(f"of its user twice {strict}", ("user", 0, "q"), ("user", 0, "q"), strict=strict)
        look(f"match of a kind 3 {strict}", ("user", 3, "x"), strict=strict)


CHAPTERS = (
    metadata,
    offsets,
    produce,
    fetches,
    deleted_records,
    groups,
    commits,
    transactions,
    topics,
    configs,
    quotas,
)
Answers = dict[str, dict[str, Any]]


def served(cluster: MixedCluster) -> dict[int, tuple[int, int]]:
    with SyncClient(cluster.running) as client:
        answer = client.call(
            CONTROLLER,
            filled(request_class(18), {"client_software_name": "x", "client_software_version": "1"}),
        )
    return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """By kind and label, of all chapters."""
    ours = MixedCluster(
        tmp_path_factory.mktemp("ours"), ours=(1, 2), apaches=(), settings=SETTINGS, starts_alone=1
    )
    apaches = MixedCluster(
        tmp_path_factory.mktemp("apaches"), ours=(), apaches=(1, 2), settings=SETTINGS, starts_alone=1
    )
    with ours, apaches, ThreadPoolExecutor(2) as threads:
        of_both = [served(cluster) for cluster in (ours, apaches)]
        common = {
            key: (max(first, of_both[1][key][0]), min(last, of_both[1][key][1]))
            for key, (first, last) in of_both[0].items()
            if key in of_both[1]
        }

        def told(cluster: MixedCluster) -> dict[str, Any]:
            asked = Asked(cluster, common)
            for chapter in CHAPTERS:
                chapter(asked)
            asked.close()
            return asked.answers

        return dict(zip((OURS, APACHES), threads.map(told, (ours, apaches)), strict=True))


def test_odd_requests_are_answered_as_apache_answers_them(answers: Answers) -> None:
    ours, apaches = answers[OURS], answers[APACHES]
    assert list(ours) == list(apaches)
    unexplained = [
        f"{label}\n  Apache's {apaches[label]}\n  ours     {ours[label]}"
        for label in ours
        if ours[label] != apaches[label] and not any(fnmatchcase(label, pattern) for pattern, _ in DIFFERENT)
    ]
    assert not unexplained, "\n".join([f"{len(unexplained)} of {len(ours)} differ", *unexplained])


@pytest.mark.parametrize(("pattern", "line"), DIFFERENT)
def test_what_differs_on_purpose_differs_still_and_is_documented(
    answers: Answers, pattern: str, line: str
) -> None:
    ours, apaches = answers[OURS], answers[APACHES]
    assert any(ours[label] != apaches[label] for label in ours if fnmatchcase(label, pattern))
    assert f"| {line} |" in (GOLDEN.parents[1] / "docs/differences.md").read_text(encoding="utf-8")
