"""Every node and every transaction of the recorded Apache cluster (tests/golden/controller), read and replayed."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from odradek.model.features import HIGHEST_LEVELS
from odradek.model.ids import BrokerId
from odradek.store import layout
from odradek.store.api import Create, Delete, Node, Op, Set, Stat
from odradek.store.memory import Tree
from tests.support import GOLDEN, golden_lines

TRACES = sorted(path.name for path in (GOLDEN / "controller").glob("*.jsonl"))


def _lines(trace: str) -> list[dict[str, Any]]:
    return list(golden_lines(f"controller/{trace}"))


def _values(trace: str) -> Iterator[tuple[str, bytes, int]]:
    """(path, value, version) of every node that the trace shows."""
    for line in _lines(trace):
        for path, node in line.get("nodes", {}).items():
            yield path, (node["value"] or "").encode(), node["version"]
        for op in line["ops"] if line["src"] == "zk" else ():
            if op["op"] in ("create", "set"):
                yield op["path"], (op["value"] or "").encode(), op.get("version", 0)


def _again(path: str, value: bytes, version: int) -> bytes:
    """The value, read and written by us."""
    node = Node(value, Stat(version, 0, 1, 1))
    parts = path.split("/")[1:]
    match parts:
        case ["brokers", "ids", broker]:
            registration = layout.decode_registration(BrokerId(int(broker)), node)
            return layout.encode_registration(registration, timestamp_ms=int(json.loads(value)["timestamp"]))
        case ["brokers", "topics", topic]:
            return layout.encode_topic(layout.decode_topic(topic, node))
        case ["brokers", "topics", _, "partitions", _, "state"]:
            state = layout.decode_partition_state(path, value, version)
            assert state.leader_and_isr.partition_epoch == version
            return layout.encode_partition_state(state.leader_and_isr, state.controller_epoch)
        case ["controller"]:
            timestamp_ms = int(json.loads(value)["timestamp"])
            return layout.encode_controller(layout.decode_controller(value), timestamp_ms=timestamp_ms)
        case ["controller_epoch"]:
            return layout.encode_controller_epoch(layout.decode_controller_epoch(value))
        case ["config", "changes", _]:
            return layout.encode_config_change(layout.decode_config_change(path, value))
        case ["config", _, _]:
            return layout.encode_config(layout.decode_config(path, value))
        case ["admin", "reassign_partitions"]:
            return layout.encode_reassignment(layout.decode_reassignment(value))
        case ["cluster", "id"]:
            return layout.encode_cluster_id(layout.decode_cluster_id(value))
        case ["feature"]:
            return layout.encode_feature(layout.decode_feature(value))
    raise AssertionError(f"a value at {path}, which nothing reads: {value!r}")


@pytest.mark.parametrize("trace", TRACES)
def test_every_value_of_apache_is_read_and_written_the_same(trace: str) -> None:
    seen = 0
    for path, value, version in _values(trace):
        if not value:
            continue
        seen += 1
        # Parsed by kind; the order of keys is Apache's affair, save where its readers might care: nowhere.
        again = json.loads(_again(path, value, version))
        if path.startswith("/brokers/ids/"):
            assert again.pop("odradek_features") == HIGHEST_LEVELS, "what ours say besides"
        assert again == json.loads(value), path
    assert seen > 5


def test_partition_states_are_written_byte_for_byte_as_apache_does() -> None:
    states = {value for trace in TRACES for path, value, _ in _values(trace) if path.endswith("/state")}
    assert len(states) > 40
    for value in states:
        state = layout.decode_partition_state("/state", value, 0)
        assert layout.encode_partition_state(state.leader_and_isr, state.controller_epoch) == value


@pytest.mark.parametrize("trace", TRACES)
def test_replaying_the_transactions_gives_the_final_tree(trace: str) -> None:
    """Our tree and ZooKeeper's agree on every version, owner and value after every recorded transaction."""
    lines = _lines(trace)
    tree = Tree()
    sessions: dict[str, int] = {}

    def session_of(name: str) -> int:
        if name not in sessions:
            sessions[name] = tree.open_session(6000)
        return sessions[name]

    everybody = session_of("nobody")
    for path, node in sorted(lines[0]["nodes"].items()):
        owner = node["ephemeral_owner"]
        creator = session_of(owner) if owner else everybody
        tree.multi(creator, [Create(path, b"", ephemeral=bool(owner))])
        for _ in range(node["version"]):
            tree.multi(everybody, [Set(path, b"")])
        if node["value"]:
            tree._nodes[path].data = node["value"].encode()

    transactions = 0
    for line in lines:
        if line["src"] != "zk":
            continue
        ops = line["ops"]
        kinds = {op["op"] for op in ops}
        if kinds == {"create_session"}:
            sessions[line["session"]] = tree.open_session(ops[0]["timeout_ms"])
        elif kinds == {"close_session"}:
            session = session_of(line["session"])
            assert sorted(tree.sessions[session].ephemerals) == sorted(ops[0]["deleted"])
            tree.end_session(session)
        elif "error" not in kinds:
            transactions += 1
            _apply(tree, session_of(line["session"]), ops, is_from_empty=not lines[0]["nodes"])
    assert transactions

    names = {number: name for name, number in sessions.items()}
    found = {
        path: (node.data.decode(), node.stat.version, names.get(node.stat.ephemeral_owner))
        for path, node in tree.walk()
        if path != "/"
    }
    expected = {
        path: (node["value"] or "", node["version"], node["ephemeral_owner"])
        for path, node in lines[-1]["nodes"].items()
    }
    assert found == expected


def _apply(tree: Tree, session: int, recorded: list[dict[str, Any]], is_from_empty: bool) -> None:
    ops: list[Op] = []
    for op in recorded:
        value = (op.get("value") or "").encode()
        if op["op"] == "create":
            ops.append(Create(op["path"], value, ephemeral=op["ephemeral"]))
        elif op["op"] == "set":
            ops.append(Set(op["path"], value, op["version"] - 1))
        elif op["op"] == "delete":
            ops.append(Delete(op["path"]))
    applied, _ = tree.multi(session, ops)
    for op, done in zip((op for op in recorded if op["op"] != "check"), applied, strict=True):
        if op["op"] == "set":
            assert done.stat is not None
            assert done.stat.version == op["version"]
        if op["op"] == "create" and is_from_empty:
            parent = op["path"].rsplit("/", 1)[0] or "/"
            assert tree._nodes[parent].creations == op["parent_cversion"], op["path"]
