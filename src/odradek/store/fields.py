"""Reading a JSON value of a node under suspicion: whatever is wrong is said with the node and the field."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from odradek.model.errors import OdradekError
from odradek.model.facts import UnreadableNode
from odradek.model.ids import INT32_MAX, BrokerId
from odradek.model.printable import shown

SMALLEST_INT32 = -INT32_MAX - 1
# Of the longest text that can be sent on: a length of 16 bits.
LONGEST_TEXT_BYTES = (1 << 15) - 1
LONGEST_REASON = 500


class Unreadable(OdradekError):
    """The value of a node cannot be trusted."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = shown(reason, LONGEST_REASON)  # it quotes what may be as large as the node
        super().__init__(f"{path}: {self.reason}")

    def as_fact(self) -> UnreadableNode:
        return UnreadableNode(self.path, self.reason, topic_of(self.path))


class Fields:
    """A JSON object; every look at it says which node and field it was, and what it found."""

    def __init__(self, path: str, data: bytes, versions: Sequence[int]) -> None:
        self.path = path
        try:
            value = _json(data)
            may_have = b"\\u" in data or not data.startswith(_USUAL_BEGIN)  # else it was decoded strictly
            has_half_a_character = may_have and _has_half_a_character(value)
        except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError
            raise Unreadable(path, f"not JSON: {error}; it begins with {data[:40]!r}") from None
        if has_half_a_character:
            raise Unreadable(path, f"a text with half a character in it; it begins with {data[:40]!r}")
        if not isinstance(value, dict):
            raise Unreadable(path, f"expected a JSON object, found {type(value).__name__}")
        self.value: dict[str, Any] = value
        version = value.get("version")
        if version == "1":  # `/cluster/id` has it as a text
            version = 1
        if isinstance(version, bool) or not isinstance(version, int) or version not in versions:
            raise Unreadable(path, f"unknown version {version!r}; known: {', '.join(map(str, versions))}")
        self.version = version

    def fail(self, name: str, want: str, found: object) -> Unreadable:
        return Unreadable(self.path, f"{name}: expected {want}, found {found!r}")

    def _required(self, name: str) -> Any:
        if name not in self.value:
            raise Unreadable(self.path, f"{name} is missing")
        return self.value[name]

    def integer(self, name: str) -> int:
        value = self.value.get(name)
        if value.__class__ is int and SMALLEST_INT32 <= value <= INT32_MAX:  # as nearly always
            return value
        return self.as_integer(name, self._required(name))

    def as_integer(self, name: str, value: object, *, bits: int = 32) -> int:
        """What does not fit where it is sent on must not come in."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.fail(name, "a whole number", value)
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise self.fail(name, f"a number of {bits} bits", value)
        return value

    def text(self, name: str) -> str:
        return self.as_text(name, self._required(name))

    def as_text(self, name: str, value: object) -> str:
        """What does not fit where it is sent on must not come in."""
        if not isinstance(value, str):
            raise self.fail(name, "a text", value)
        if len(value) * 4 > LONGEST_TEXT_BYTES and len(value.encode()) > LONGEST_TEXT_BYTES:
            raise self.fail(name, f"at most {LONGEST_TEXT_BYTES} bytes", f"{value[:40]}...")
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        value = self._required(name)
        if not isinstance(value, dict):
            raise self.fail(name, "an object", value)
        return value

    def items(self, name: str) -> list[Any]:
        value = self._required(name)
        if not isinstance(value, list):
            raise self.fail(name, "a list", value)
        return value

    def broker_ids(self, name: str, value: object) -> tuple[BrokerId, ...]:
        if not isinstance(value, list):
            raise self.fail(name, "a list of broker ids", value)
        if are_broker_ids(value):
            return tuple(value)
        ids = tuple(BrokerId(self.as_integer(name, item)) for item in value)
        if any(broker < 0 for broker in ids):
            raise self.fail(name, "broker ids of 0 or more", value)
        if len(set(ids)) != len(ids):
            raise self.fail(name, "each broker once", value)
        return ids

    def text_map(self, name: str) -> dict[str, str]:
        value = self.mapping(name)
        for key, item in value.items():
            if not isinstance(item, str):
                raise self.fail(f"{name}.{key}", "a text", item)
        return value


_decoder = json.JSONDecoder()
_USUAL_BEGIN = b'{"'


def _json(data: bytes) -> Any:
    """As `json.loads`, at a third of its price where the data begins as nearly all of it does: as an object, in UTF-8."""
    if data.startswith(_USUAL_BEGIN):
        text = data.decode()
        value, end = _decoder.raw_decode(text)
        if end == len(text):
            return value
    return json.loads(data)


def are_broker_ids(value: Any) -> bool:
    """The same as `broker_ids`, without a word on what is wrong: it is asked for each partition."""
    return (
        value.__class__ is list
        and {item.__class__ for item in value} == {int}
        and min(value) >= 0
        and max(value) <= INT32_MAX
        and len(set(value)) == len(value)
    )


def _has_half_a_character(value: object) -> bool:
    """`\\ud800` alone is JSON and no Unicode: it could be read and never be sent."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def topic_of(path: str) -> str | None:
    """The topic that a node belongs to, if it belongs to one."""
    for root in ("/brokers/topics/", "/config/topics/", "/admin/delete_topics/"):
        if path.startswith(root):
            return path[len(root) :].split("/", 1)[0]
    return None
