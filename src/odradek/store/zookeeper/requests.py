"""Requests of ZooKeeper's that kazoo does not have, or makes an op at a time: many nodes in one packet. Pure bytes.

Each is as one of kazoo's requests: `type`, `serialize`, `deserialize`. Reading node by node costs kazoo a tenth of
a millisecond each, and a new controller reads a node for each partition.

multiRead (opcode 22, ZooKeeper 3.6 and later) arms no watches, whatever it is asked:

    request   {type, done=0, err=-1, path, watch=0}*  {type=-1, done=1, err=-1}
    response  {type, done=0, err, found | type=-1, done=0, err, err}*  {type=-1, done=1, err=-1}
              found by 4 getData: data, stat   8 getChildren: name*

multi (opcode 14):

    request   {type, done=0, err=-1, op}*  {type=-1, done=1, err=-1}
              op of 1 create: path, data, ACL*, flags   2 delete: path, version
                    5 setData: path, data, version      13 check: path, version
    response  {type, done=0, err, outcome}*  {type=-1, done=1, err=-1}
              outcome of 1: path   5: stat   2, 13: nothing   -1: err

When one op cannot be done every outcome is an error: 0 before that op, its own, and -2 behind it.

setWatches (opcode 101) arms watches on many nodes at once: a client that comes back sends it. With a zxid that no
node has reached it arms, and tells nothing but of nodes that are not there:

    request   zxid, paths (data), paths (data of what is not there), paths (children)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from odradek.store.api import Check, Create, Delete, Fence, Node, Op, Set, Stat, TooLarge

_HEADER = struct.Struct("!i?i")
_INT = struct.Struct("!i")
_LONG = struct.Struct("!q")
# czxid, mzxid, ctime, mtime, version, cversion, aversion, ephemeralOwner, dataLength, numChildren, pzxid
_STAT = struct.Struct("!qqqqiiiqiiq")
_SET_DONE = struct.Struct("!i?iqqqqiiiqiiq")  # a header and a stat
_VERSION_AT = 7  # of the version in these
_CREATE, _DELETE, _GET_DATA, _SET_DATA, _GET_CHILDREN, _CHECK, _ERROR = 1, 2, 4, 5, 8, 13, -1
_EPHEMERAL, _SEQUENTIAL = 1, 2
_END = _HEADER.pack(-1, True, -1)
_NO_NODE = -101
_ROLLED_BACK = 0
_NEVER = (1 << 63) - 1

# What a server takes in one packet unless told otherwise (jute.maxbuffer); xid and opcode count too.
MAX_PACKET_BYTES = 0xFFFFF - 8


class AccessControl:
    """Who may do what with a new node; a list of these is its ACL."""

    READ, ALL = 1, 31

    def __init__(self, permissions: int, scheme: str, who: str) -> None:
        self.encoded = _INT.pack(permissions) + _text(scheme) + _text(who)


def encode_acl(entries: Sequence[AccessControl]) -> bytes:
    return _INT.pack(len(entries)) + b"".join(entry.encoded for entry in entries)


Found = TypeVar("Found")


class _MultiRead(Generic[Found]):
    """Its answer: what was found, None, or an error's code for each path."""

    type = 22
    _kind: int

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytes:
        header = _HEADER.pack(self._kind, False, -1)
        parts = [part for path in self._paths for part in (header, _text(path), b"\0")]
        parts.append(_END)
        return b"".join(parts)

    def deserialize(self, answer: bytes, offset: int) -> list[Found | int | None]:
        found: list[Found | int | None] = []
        while True:
            kind, is_done, _ = _HEADER.unpack_from(answer, offset)
            offset += _HEADER.size
            if is_done:
                assert len(found) == len(self._paths), f"{len(found)} answers for {len(self._paths)} paths"
                return found
            (number,) = _INT.unpack_from(answer, offset)
            offset += _INT.size
            if kind == _ERROR:
                found.append(None if number == _NO_NODE else number)
                continue
            one, offset = self._one(answer, offset, number)
            found.append(one)

    def _one(self, answer: bytes, offset: int, number: int) -> tuple[Found, int]:
        """What stands at `offset`, behind its first `number`, and where it ends."""
        raise NotImplementedError


class ReadMany(_MultiRead[Node]):
    _kind = _GET_DATA

    def _one(self, answer: bytes, offset: int, number: int) -> tuple[Node, int]:
        end = offset + max(number, 0)  # -1: a node without data
        return Node(bytes(answer[offset:end]), _stat_at(answer, end)), end + _STAT.size


class ListMany(_MultiRead[list[str]]):
    """Names, sorted."""

    _kind = _GET_CHILDREN

    def _one(self, answer: bytes, offset: int, number: int) -> tuple[list[str], int]:
        names: list[str] = []
        for _ in range(number):
            (size,) = _INT.unpack_from(answer, offset)
            offset += _INT.size
            names.append(bytes(answer[offset : offset + size]).decode())
            offset += size
        return sorted(names), offset


class Refused(Exception):
    """A multi that did not happen, for the op at `index`."""

    def __init__(self, index: int, code: int) -> None:
        super().__init__(f"op {index}: {code}")
        self.index = index
        self.code = code


class Multi:
    """Its answer for each op: the path of a node created, the stat of one that was set, or None; or one Refused alone.

    An empty value is null, as Apache's brokers write it: they read an empty text as one that is damaged.
    """

    type = 14

    def __init__(self, ops: Sequence[Op], acl_of: Callable[[str], bytes]) -> None:
        self._bytes = b"".join([part for op in ops for part in _op_parts(op, acl_of)]) + _END
        self._count = len(ops)

    def __len__(self) -> int:
        return len(self._bytes)

    def serialize(self) -> bytes:
        return self._bytes

    def deserialize(self, answer: bytes, offset: int) -> list[str | Stat | Refused | None]:
        return self._outcomes(answer, offset)

    def _outcomes(self, answer: bytes, offset: int) -> list[str | Stat | Refused | None]:
        outcomes: list[str | Stat | Refused | None] = []
        while True:
            kind, is_done, _ = _HEADER.unpack_from(answer, offset)
            offset += _HEADER.size
            if is_done:
                assert len(outcomes) == self._count, f"{len(outcomes)} answers for {self._count} ops"
                return outcomes
            if kind == _SET_DATA:
                outcomes.append(_stat_at(answer, offset))
                offset += _STAT.size
            elif kind == _CREATE:
                (size,) = _INT.unpack_from(answer, offset)
                offset += _INT.size
                outcomes.append(bytes(answer[offset : offset + size]).decode())
                offset += size
            elif kind == _ERROR:
                (code,) = _INT.unpack_from(answer, offset)
                offset += _INT.size
                if code != _ROLLED_BACK:
                    return [Refused(len(outcomes), code)]  # a list: kazoo looks for paths in it
                outcomes.append(None)
            else:
                outcomes.append(None)


class SetMany(Multi):
    """A multi of conditional sets behind one check: what a controller says of thousands of partitions. The same bytes,
    each op packed at once; its answer is the list of versions in a list, or one Refused alone.

    When everything was done each outcome is as long as any other, and they are unpacked in one go. An answer of that length is
    none of errors: those have 13 bytes each, the check's too.
    """

    def __init__(self, sets: Sequence[Set], fence: Fence | None) -> None:
        parts = [] if fence is None else [*_op_parts(Check(fence.path, fence.version), _no_acl)]
        shapes: dict[tuple[int, int], struct.Struct] = {}
        for op in sets:
            path, data = op.path.encode(), op.data
            lengths = len(path), len(data)
            shape = shapes.get(lengths)
            if shape is None:
                shape = shapes[lengths] = struct.Struct(f"!i?ii{len(path)}si{len(data)}si")
            parts.append(shape.pack(_SET_DATA, False, -1, len(path), path, len(data) or -1, data, op.version))
        parts.append(_END)
        self._bytes = b"".join(parts)
        self._checks = 0 if fence is None else 1
        self._count = self._checks + len(sets)

    def deserialize(self, answer: bytes, offset: int) -> list[Any]:
        begin = offset + self._checks * _HEADER.size
        end = begin + (self._count - self._checks) * _SET_DONE.size
        if len(answer) == end + len(_END):
            done = _SET_DONE.iter_unpack(memoryview(answer)[begin:end])
            return [[outcome[_VERSION_AT] for outcome in done]]
        outcomes = self._outcomes(answer, offset)
        refused = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
        return refused or [[outcome.version for outcome in outcomes if isinstance(outcome, Stat)]]


def check_size(request: Multi, ops: Sequence[Op]) -> None:
    """A packet too large makes the server cut the connection, and again each time that we come back to it."""
    if len(request) > MAX_PACKET_BYTES:
        largest = max(ops, key=lambda op: len(getattr(op, "data", b"")))
        raise TooLarge(
            largest.path,
            f"a transaction of {len(request)} bytes, most of them the value of {largest.path}, is more than "
            f"ZooKeeper takes in one packet ({MAX_PACKET_BYTES}); a topic has at most about 10,000 partitions",
        )


def _no_acl(path: str) -> bytes:
    raise AssertionError(f"{path}: nothing is created here")


class ArmMany:
    """Watches on the data of nodes that are there. Its answer says nothing."""

    type = 101

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = paths

    def serialize(self) -> bytes:
        none = _INT.pack(0)
        paths = b"".join([_text(path) for path in self._paths])
        return _LONG.pack(_NEVER) + _INT.pack(len(self._paths)) + paths + none + none

    def deserialize(self, answer: bytes, offset: int) -> None:
        return None


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _INT.pack(len(encoded)) + encoded


def _value(data: bytes) -> bytes:
    return _INT.pack(len(data) or -1) + data


def _op_parts(op: Op, acl_of: Callable[[str], bytes]) -> tuple[bytes, ...]:
    if isinstance(op, Set):
        return (
            _HEADER.pack(_SET_DATA, False, -1),
            _text(op.path),
            _value(op.data),
            _INT.pack(op.version),
        )
    if isinstance(op, Create):
        flags = (_EPHEMERAL if op.ephemeral else 0) | (_SEQUENTIAL if op.sequential else 0)
        return (
            _HEADER.pack(_CREATE, False, -1),
            _text(op.path),
            _value(op.data),
            acl_of(op.path),
            _INT.pack(flags),
        )
    assert isinstance(op, Delete | Check), op
    kind = _DELETE if isinstance(op, Delete) else _CHECK
    return _HEADER.pack(kind, False, -1), _text(op.path), _INT.pack(op.version)


def _stat_at(answer: bytes, offset: int) -> Stat:
    czxid, mzxid, _, _, version, cversion, _, owner, _, _, _ = _STAT.unpack_from(answer, offset)
    return Stat(version, cversion, czxid, mzxid, owner)
