"""The same sequences of requests, drawn from fixed seeds, to a cluster of Apache's brokers and to one of ours.

After each step the answers and what can be seen of the state are equal: of producers and transactions, and of classic
groups with the requests that wait in them. Single requests are in test_odd_requests.py; nothing here depends on time.
"""

import json
import random
import select
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest

from odradek.protocol.headers import decode_response_header, encode_request
from odradek.protocol.messages import request_class, response_class
from tests.interop.cluster import APACHES, OURS, MixedCluster
from tests.interop.test_odd_requests import KEYS, SETTINGS, SUBSCRIPTION, Asked, batch, filled, rows, served
from tests.support import eventually

SEQUENCES = 40  # of each kind
STEPS = 40
CONCURRENT_TRANSACTIONS, COORDINATOR_LOADING, NOT_COORDINATOR = 51, 14, 16
LAST_SEQUENCE = 2**31 - 1
Pair = tuple[Asked, Asked]
Fields = Mapping[str, Any]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Apache's, and ours."""
    kinds: dict[str, dict[str, Any]] = {
        APACHES: {"ours": (), "apaches": (1,)},
        OURS: {"ours": (1,), "apaches": ()},
    }
    clusters = [
        MixedCluster(
            tmp_path_factory.mktemp(f"sequences-{len(kind)}"), settings=SETTINGS, starts_alone=1, **ids
        )
        for kind, ids in kinds.items()
    ]
    with clusters[0], clusters[1]:
        of_both = [served(cluster) for cluster in clusters]
        common = {
            key: (max(first, of_both[1][key][0]), min(last, of_both[1][key][1]))
            for key, (first, last) in of_both[0].items()
            if key in of_both[1]
        }
        pair = tuple(Asked(cluster, common) for cluster in clusters)
        yield pair, [cluster.brokers[1].port for cluster in clusters]
        for asked in pair:
            asked.close()


def told(asked: Asked, api: str, version: int, fields: Fields) -> tuple[Any, Any]:
    """The answer, and what of it is compared. Asked again while a transaction ends or a coordinator begins."""
    found: list[Any] = []

    def is_told() -> bool:
        found[:] = [asked.exchange(api, version, fields, 1)]
        codes = json.dumps(asked.shown(found[0], version))
        waits = (CONCURRENT_TRANSACTIONS, COORDINATOR_LOADING, NOT_COORDINATOR)
        return not any(f'"error_code": {code}' in codes for code in waits)

    eventually(is_told, 20.0, f"{api} {fields}")
    return found[0], asked.shown(found[0], version)


def compare(story: Sequence[str], views: Sequence[Any]) -> None:
    apaches, ours = (json.dumps(view, sort_keys=True) for view in views)
    assert ours == apaches, "\n".join([*story[-12:], f"Apache's {apaches}", f"ours     {ours}"])


# ---------------------------------------------------------------------------------------------------- producers


class Producers:
    """Two transactional ids and one producer without, on two partitions."""

    def __init__(self, asked: Asked, topic: str) -> None:
        self.asked, self.topic = asked, topic
        self.ids: dict[str, tuple[int, int]] = {"x": (-1, -1), "y": (-1, -1), "idle": (7_000_000, 0)}
        asked.topic(topic, [1], [1])

    def known(self, name: str, epochs: int) -> dict[str, int]:
        producer_id, epoch = self.ids[name]
        return {"producer_id": producer_id, "producer_epoch": epoch + epochs if producer_id >= 0 else -1}

    def look(self) -> Any:
        named = [f"{self.topic}-{name}" for name in "xy"]
        seen: list[Any] = []

        def is_over() -> bool:
            seen[:] = [told(self.asked, "DescribeTransactions", 0, {"transactional_ids": named})[1]]
            return "Prepare" not in json.dumps(seen)

        eventually(is_over, 20.0, "the transactions have ended")
        for state in seen[0]["transaction_states"]:
            del state["transaction_start_time_ms"]
            for topic in state["topics"]:
                topic["partitions"].sort()
        seen[0]["transaction_states"].sort(key=lambda state: state["transactional_id"])
        both_ends = [{"partition_index": index, "timestamp": -1} for index in (0, 1)]
        for isolation in (0, 1):
            fields = {"replica_id": -1, "isolation_level": isolation}
            of_topic = {"topics": rows("name", "partitions", (self.topic, both_ends))}
            seen.append(told(self.asked, "ListOffsets", 7, {**fields, **of_topic})[1])
        of_topic = {"topics": [{"name": self.topic, "partition_indexes": [0, 1]}]}
        seen.append(told(self.asked, "DescribeProducers", 0, of_topic)[1])
        return seen


def produced(sides: Sequence[Producers], draw: random.Random, sent: dict[Any, list[tuple[int, int]]]) -> Any:
    """One step: its story, and the request of each side as (api, version, fields)."""
    name, index = draw.choice("xy"), draw.choice((0, 0, 1))
    epochs = draw.choices((0, -1, 1), (86, 10, 4))[0]
    api = draw.choices(
        ("Produce", "InitProducerId", "AddPartitionsToTxn", "EndTxn", "DeleteRecords"), (50, 12, 20, 16, 4)
    )[0]
    committed, expects = draw.random() < 0.6, draw.random() < 0.4
    version = draw.randrange(4)
    if api == "Produce":
        name = draw.choice(("x", "y", "idle", "idle", "idle"))
        epochs = max(epochs, 0) if name == "idle" else min(epochs, 0)  # differences.md: no-epoch-ahead
        there = sent.setdefault((name, index), [])
        sequence, count = (
            (sum(there[-1]) if there else draw.choice((0, LAST_SEQUENCE - 1))),
            draw.choice((1, 2)),
        )
        back = draw.randint(1, 7)
        kind = draw.choices(("next", "again", "gap", "zero"), (70, 16, 7, 7))[0]
        if name != "idle" and not there:
            sequence = 0
        if kind == "again" and len(there) >= back:
            sequence, count = there[-back]
        sequence = 0 if kind == "zero" else (sequence + 2 * (kind == "gap")) % (LAST_SEQUENCE + 1)

        def fields(side: Producers) -> Fields:
            known = side.known(name, epochs)
            is_there = known["producer_id"] >= 0
            options: dict[str, Any] = {**known, "base_sequence": sequence if is_there else -1}
            data = batch(*"ab"[:count], **options, is_transactional=name != "idle" and is_there)
            partitions = [{"index": index, "records": data}]
            transaction = None if name == "idle" else f"{side.topic}-{name}"
            of_topic = rows("name", "partition_data", (side.topic, partitions))
            return {"transactional_id": transaction, "acks": -1, "timeout_ms": 5_000, "topic_data": of_topic}

        story = f"Produce {name} {index}: {kind} {sequence} x{count}, epoch {epochs:+}"
        return story, (api, 9, fields), ((name, index), (sequence, count)) if epochs == 0 else None
    if api == "DeleteRecords":
        asked_for = [{"partition_index": index, "offset": -1 if committed else 1}]
        return (
            f"DeleteRecords {index} {committed}",
            (
                api,
                2,
                lambda side: {
                    "topics": rows("name", "partitions", (side.topic, asked_for)),
                    "timeout_ms": 5_000,
                },
            ),
            None,
        )

    def of_transaction(side: Producers) -> Fields:
        named = f"{side.topic}-{name}"
        known = side.known(name, epochs)
        if api == "InitProducerId":
            return {
                "transactional_id": named,
                "transaction_timeout_ms": 60_000,
                **(known if expects and side.ids[name][0] >= 0 else {}),
            }
        if api == "EndTxn":
            return {"transactional_id": named, "committed": committed, **known}
        return {
            "v3_and_below_transactional_id": named,
            "v3_and_below_producer_id": known["producer_id"],
            "v3_and_below_producer_epoch": known["producer_epoch"],
            "v3_and_below_topics": [{"name": side.topic, "partitions": [0, 1] if expects else [index]}],
        }

    version = 4 if api == "InitProducerId" else version
    return f"{api} {version} {name} {epochs:+} {committed} {expects}", (api, version, of_transaction), name


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_producers_are_answered_as_apache_answers_them(both: Any, seed: int) -> None:
    draw = random.Random(seed)
    sides = [Producers(asked, f"producers-{seed}") for asked in both[0]]
    sent: dict[Any, list[tuple[int, int]]] = {}
    story: list[str] = []
    for _ in range(STEPS):
        step, (api, version, fields), on_success = produced(sides, draw, sent)
        story.append(step)
        views = []
        for side in sides:
            answer, shown = told(side.asked, api, version, fields(side))
            if api == "Produce":
                row = shown["responses"][0]["partition_responses"][0]
                # differences.md: duplicates-keep-their-time, refused-names-no-start
                shown = row["error_code"], row["base_offset"], row["record_errors"]
            elif api == "InitProducerId" and answer.error_code == 0:
                side.ids[on_success] = answer.producer_id, answer.producer_epoch
                for index in (0, 1):
                    sent.pop((on_success, index), None)
            views.append((shown, side.look()))
        compare(story, views)
        if api == "Produce" and on_success is not None and views[0][0][0] == 0:
            key, batch_of = on_success
            if batch_of not in sent[key]:
                sent[key].append(batch_of)


# ------------------------------------------------------------------------------------------------------- groups


class Lane:
    """A connection of one member, with at most one request in flight."""

    def __init__(self, port: int, name: str) -> None:
        self.name = name
        self.waits: tuple[int, int] | None = None  # key and version
        self._socket = socket.create_connection(("127.0.0.1", port), 10)
        self._data = b""

    def send(self, api: str, version: int, fields: Fields) -> None:
        key = KEYS[api]
        body = filled(request_class(key), fields).encode(version)
        self._socket.sendall(encode_request(key, version, 1, self.name, body))
        self.waits = key, version

    def poll(self) -> Any:
        """The answer, if it is there."""
        while self.waits is not None and select.select([self._socket], [], [], 0)[0]:
            more = self._socket.recv(1 << 16)
            assert more, "closed"
            self._data += more
            size = struct.unpack(">i", self._data[:4])[0] + 4 if len(self._data) >= 4 else 4
            if len(self._data) >= size > 4:
                (key, version), self.waits = self.waits, None
                frame, self._data = memoryview(self._data[4:size]), self._data[size:]
                return response_class(key).decode(
                    version, frame, decode_response_header(key, version, frame)[1]
                )
        return None

    def close(self) -> None:
        self._socket.close()


class Group:
    def __init__(self, asked: Asked, port: int, name: str, members: Sequence[str]) -> None:
        self.asked, self.name = asked, name
        self.lanes = {member: Lane(port, member) for member in members}
        self.of_member: dict[str, dict[str, Any]] = {
            member: {"group_id": name, "member_id": "", "generation_id": -1} for member in members
        }
        self.protocols = dict.fromkeys(members, "range")
        self.leader = ""
        self.answers: dict[str, list[Any]] = {member: [] for member in members}

    def gather(self) -> None:
        for member, lane in self.lanes.items():
            waits, answer = lane.waits, lane.poll()
            if answer is None or waits is None:
                continue
            if waits[0] == KEYS["JoinGroup"]:
                if answer.member_id:
                    self.of_member[member]["member_id"] = answer.member_id
                if answer.error_code == 0:
                    self.of_member[member]["generation_id"] = answer.generation_id
                    self.protocols[member] = answer.protocol_name
                    self.leader = answer.leader
            self.answers[member].append(self.asked.shown(answer, waits[1]))

    def parked(self) -> list[str]:
        return [member for member, lane in self.lanes.items() if lane.waits is not None]

    def look(self) -> Any:
        """Its leader by the name of its client: ids begin with it, or with that of the instance."""
        described = told(self.asked, "DescribeGroups", 5, {"groups": [self.name]})[1]
        (state,) = described["groups"]
        if (state["group_state"], state["protocol_type"]) == ("Empty", ""):
            state["group_state"] = "Dead"  # difference `unused-forgotten`
        self.gather()
        last = {member: (len(answers), answers[-1:]) for member, answers in self.answers.items()}
        return last, self.parked(), self.leader[:2], described


def settled(groups: Sequence[Group], member: str) -> list[Any]:
    """What is seen when both sides have handled what `member` sent; or what is different then.

    What does not wait is answered at once; what seems to wait is looked at twice.
    """
    views: list[Any] = []

    def is_over() -> bool:
        before = views[:]
        views[:] = [group.look() for group in groups]
        return views[0] == views[1] and (member not in groups[0].parked() or views == before)

    with suppress(AssertionError):  # of the deadline: the caller tells how they differ
        eventually(is_over, 5.0)
    return views


def member_step(
    draw: random.Random, member: str, instance: str | None
) -> tuple[str, str, int, Callable[[Group], Fields]]:
    api = draw.choices(
        ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit"), (40, 30, 10, 8, 8)
    )[0]
    version = draw.randint(
        *{"JoinGroup": (5, 9), "OffsetCommit": (7, 9), "LeaveGroup": (3, 5)}.get(api, (3, 4))
    )
    who, ahead = draw.choices(("mine", "none", "wrong"), (86, 9, 5))[0], draw.choices((0, 1), (92, 8))[0]
    names = draw.choice((["range"], ["range", "roundrobin"], ["roundrobin", "range"]))
    named = instance if draw.random() < (0.5 if api == "LeaveGroup" else 0.93) else draw.choice((None, "i9"))
    # A member id that waits to be used with an instance id is an exception of Apache's: see refusals-named.
    named = instance if api == "JoinGroup" else named
    shared = draw.random() < 0.7

    def fields(group: Group) -> Fields:
        known = dict(group.of_member[member])
        known["generation_id"] += ahead
        known["member_id"] = {"mine": known["member_id"], "none": "", "wrong": "nobody"}[who]
        if api == "JoinGroup":
            del known["generation_id"]
            known |= {
                "session_timeout_ms": 60_000,
                "rebalance_timeout_ms": 60_000,
                "protocol_type": "consumer",
            }
            known |= {"protocols": [{"name": name, "metadata": SUBSCRIPTION} for name in names]}
        if api == "SyncGroup" and shared:
            ids = [one["member_id"] for one in group.of_member.values() if one["member_id"]]
            known |= {"assignments": [{"member_id": one, "assignment": b"a"} for one in ids]}
        if api == "LeaveGroup":
            leaver = {"member_id": known["member_id"], "group_instance_id": named}
            return {"group_id": group.name, "members": [leaver]}
        if api == "OffsetCommit":
            known["generation_id_or_member_epoch"] = known.pop("generation_id")
            row = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
            known |= {"topics": rows("name", "partitions", ("of-groups", [row]))}
        return {**known, "group_instance_id": named}

    return f"{member} {api} {version} {who} {ahead:+} {named} {names} {shared}", api, version, fields


@pytest.fixture(scope="module")
def topic_of_groups(both: Any) -> None:
    for asked in both[0]:
        asked.topic("of-groups", [1])


@pytest.mark.usefixtures("topic_of_groups")
@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_groups_and_what_waits_in_them_are_answered_as_apache_answers_them(both: Any, seed: int) -> None:
    draw = random.Random(seed)
    members = ["m0", "m1", "m2"][: draw.choice((1, 2, 2, 3))]
    instances = {member: f"i{member[1]}" if draw.random() < 0.35 else None for member in members}
    groups = [Group(asked, port, f"group-{seed}", members) for asked, port in zip(*both, strict=True)]
    story: list[str] = []
    for _ in range(STEPS):
        member = draw.choice(members)
        step, api, version, fields = member_step(draw, member, instances[member])
        if member in groups[0].parked():
            continue  # a request that replaces it: superseded-answered
        story.append(step)
        for group in groups:
            group.lanes[member].send(api, version, fields(group))
        views = settled(groups, member)
        if groups[0].leader[:2] != groups[1].leader[:2]:
            break  # Apache's next leader is any member
        compare(story, views)
    for group in groups:
        for lane in group.lanes.values():
            lane.close()
