"""Any message of a table, and bytes of a real one with a few changed, cut out or put in: drawn by a name, the same in every run.

Plain `random`, with the borders of each type more often than chance has them. Hypothesis drew the same for five times the
processor time: what it adds, a smaller example of a failure, the tables give by themselves (`Message` prints its fields).
"""

from collections.abc import Iterator
from random import Random
from typing import Any

from odradek.protocol.fields import Field, Struct
from odradek.protocol.primitives import MOST_MESSAGE_BYTES
from odradek.protocol.schema import Message

INTEGERS = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}
FLOATS = (0.0, 1.5, -2.0, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf"))
LETTERS = "aZ09_-. \0é\u07ff\u0800\uffff\U0001f600\U0010ffff"
# Lengths around those where a varint takes another byte, and some that no single read brings.
LONG = (120, 126, 127, 128, 129, 300, 8_191, 16_382, 16_383, 16_384, 20_000)
NASTY = (
    b"\xff",
    b"\x7f\xff",
    b"\x80\x00",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xfe",
    b"\x80\x80\x80\x80\x80",
    b"\x00",
)


def messages(cls: type[Message], version: int, count: int) -> Iterator[Any]:
    """The first has nothing but the smallest values, and the second no list that is empty."""
    chance = Random(f"{cls.__name__} {version}")
    yield cls(**{line.name: _smallest(line, version) for line in cls.TABLE if version in line.versions})
    for number in range(1, count):
        yield _struct(chance, cls, version, fewest=1 if number == 1 else 0)


def damaged(body: bytes, name: str, count: int) -> Iterator[bytes]:
    chance = Random(name)
    for _ in range(count):
        changed = body
        for _ in range(chance.randint(1, 3)):
            position, cut = chance.randrange(max(1, len(body))), chance.randint(0, 4)
            put = chance.choice(NASTY) if chance.random() < 0.5 else chance.randbytes(chance.randint(0, 3))
            changed = changed[:position] + put + changed[position + cut :]
        yield changed


def _smallest(line: Field, version: int) -> Any:
    if line.kind == "array":
        return []
    if line.kind == "struct":
        of = line.struct
        return of(**{one.name: _smallest(one, version) for one in of.TABLE if version in one.versions})
    return {"bool": False, "float64": 0.0, "uuid": bytes(16), "string": "", "bytes": b"", "records": b""}.get(
        line.kind, 0
    )


def _struct(chance: Random, cls: type[Struct], version: int, fewest: int) -> Any:
    return cls(
        **{line.name: _field(chance, line, version, fewest) for line in cls.TABLE if version in line.versions}
    )


def _field(chance: Random, line: Field, version: int, fewest: int) -> Any:
    if version in line.nullable and not fewest and chance.random() < 0.3:
        return None
    if line.kind == "array":
        count = chance.randint(fewest, 3)
        if isinstance(line.of, str):
            return [_primitive(chance, line.of) for _ in range(count)]
        return [_struct(chance, line.struct, version, fewest) for _ in range(count)]
    if line.kind == "struct":
        return _struct(chance, line.struct, version, fewest)
    value = _primitive(chance, line.kind)
    return value[: MOST_MESSAGE_BYTES // 2] if line.is_message else value  # a longer one is not told as it is


def _primitive(chance: Random, kind: str) -> Any:
    if kind in INTEGERS:
        low, high = INTEGERS[kind]
        if chance.random() < 0.4:
            return chance.choice((low, high, 0, 1, max(low, -1)))
        return (
            chance.randint(max(low, -200), min(high, 200))
            if chance.random() < 0.3
            else chance.randint(low, high)
        )
    if kind == "bool":
        return chance.random() < 0.5
    if kind == "float64":
        return chance.choice(FLOATS) if chance.random() < 0.5 else chance.uniform(-1e9, 1e9)
    if kind == "uuid":
        return bytes(16) if chance.random() < 0.2 else chance.randbytes(16)
    is_long = chance.random() < 0.2
    if kind == "string":
        return (
            "é" * (chance.choice(LONG) // 2)
            if is_long
            else "".join(chance.choices(LETTERS, k=chance.randint(0, 12)))
        )
    return bytes(chance.choice(LONG)) if is_long else chance.randbytes(chance.randint(0, 12))
