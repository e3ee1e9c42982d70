"""The pure parts of the session with ZooKeeper: bytes of multiRead, and what was missed while away."""

import struct

import pytest

from odradek.store.api import Node, Stat, WatchEvent, WatchKind
from odradek.store.zookeeper.requests import ReadMany
from odradek.store.zookeeper.watches import ArmedWatches, missed

GET_DATA, ERROR, END = (
    struct.pack("!i?i", 4, False, 0),
    struct.pack("!i?i", -1, False, -101),
    struct.pack("!i?i", -1, True, -1),
)


def _node_bytes(data: bytes | None, stat: Stat) -> bytes:
    length = -1 if data is None else len(data)
    numbers = (stat.czxid, stat.mzxid, 5, 6, stat.version, stat.cversion, 0, stat.ephemeral_owner, 7, 0, 9)
    return struct.pack("!i", length) + (data or b"") + struct.pack("!qqqqiiiqiiq", *numbers)


def test_many_reads_are_one_request() -> None:
    assert ReadMany(["/a", "/ü"]).serialize() == bytes.fromhex(
        "00000004 00 ffffffff 00000002 2f61 00"
        + "00000004 00 ffffffff 00000003 2fc3bc 00"
        + "ffffffff 01 ffffffff"
    )


def test_each_answer_is_a_node_nothing_or_an_error() -> None:
    first, second = Stat(3, 4, 1, 2, 77), Stat(0, 0, 8, 8)
    answer = b"".join(
        (
            b"before",
            GET_DATA,
            _node_bytes(b"data", first),
            ERROR,
            struct.pack("!i", -101),
            GET_DATA,
            _node_bytes(None, second),
            ERROR,
            struct.pack("!i", -102),
            END,
        )
    )
    found = ReadMany(["/a", "/b", "/c", "/d"]).deserialize(answer, len(b"before"))
    assert found == [Node(b"data", first), None, Node(b"", second), -102]


def test_an_answer_for_another_number_of_paths_is_refused() -> None:
    with pytest.raises(AssertionError, match="0 answers for 1 paths"):
        ReadMany(["/a"]).deserialize(END, 0)


BEFORE = Stat(version=1, cversion=2, czxid=10, mzxid=20)


@pytest.mark.parametrize(
    ("then", "now", "kind"),
    [
        (None, None, None),
        (None, BEFORE, WatchKind.CREATED),
        (BEFORE, None, WatchKind.DELETED),
        (BEFORE, BEFORE, None),
        (BEFORE, BEFORE._replace(mzxid=21, version=2), WatchKind.CHANGED),
        (BEFORE, BEFORE._replace(cversion=3), None),
        (BEFORE, BEFORE._replace(czxid=30, mzxid=30), WatchKind.DELETED),
    ],
)
def test_what_was_missed_of_a_node(then: Stat | None, now: Stat | None, kind: WatchKind | None) -> None:
    events = list(missed({"/a": then}, {}, {"/a": now}, {}))
    assert events == ([] if kind is None else [WatchEvent(kind, "/a")])


@pytest.mark.parametrize(
    ("now", "kind"),
    [
        (None, WatchKind.DELETED),
        (BEFORE, None),
        (BEFORE._replace(mzxid=21), None),
        (BEFORE._replace(cversion=3), WatchKind.CHILDREN),
        (BEFORE._replace(czxid=30), WatchKind.DELETED),
    ],
)
def test_what_was_missed_of_its_children(now: Stat | None, kind: WatchKind | None) -> None:
    events = list(missed({}, {"/a": BEFORE}, {}, {"/a": now}))
    assert events == ([] if kind is None else [WatchEvent(kind, "/a")])


def test_a_watch_fires_once_and_a_deletion_for_both() -> None:
    armed = ArmedWatches()
    armed.data["/a"] = BEFORE
    armed.children["/a"] = BEFORE
    assert not armed.fire(WatchEvent(WatchKind.CHANGED, "/b"))
    assert armed.fire(WatchEvent(WatchKind.DELETED, "/a"))
    assert not armed.fire(WatchEvent(WatchKind.DELETED, "/a"))
    armed.children["/a"] = BEFORE
    assert not armed.fire(WatchEvent(WatchKind.CHANGED, "/a"))
    assert armed.fire(WatchEvent(WatchKind.CHILDREN, "/a"))
