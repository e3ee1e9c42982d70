"""The codec to read: walks a table field by field, exactly as KIP-482 and the protocol guide put it.

Slow, and never on a broker's path. The compiled codec is held equal to it byte for byte, error for error.

In classic versions strings have two bytes of length, arrays and bytes four, -1 is null. In flexible versions
all have an unsigned varint of length + 1, 0 is null, and every struct ends with its tagged fields:
count, then for each (ascending) tag, size, content.
"""

import struct
from typing import Any

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fields import FIXED, Field, MessageTable, Struct, fields_at
from odradek.protocol.primitives import (
    ELEMENT_BUDGET,
    MAX_STRING_BYTES,
    OBJECT_COST,
    Buffer,
    bad_null,
    check_count,
    message_bytes,
    over_budget,
    read_tag_count,
    read_uvarint,
    too_long,
    unencodable,
    uvarint,
)
from odradek.protocol.schema import Message


def decode(cls: type[MessageTable], version: int, buffer: Buffer) -> Any:
    cls.check_version(version)
    reader = Reader(memoryview(buffer), version, cls.is_flexible(version))
    try:
        message = reader.struct(cls)
    except IndexError:
        raise MalformedMessage("ends too early") from None
    except UnicodeDecodeError:
        raise MalformedMessage("a string is not UTF-8") from None
    if reader.left:
        raise MalformedMessage(f"{reader.left} bytes left over")
    return message


def encode(message: Message, version: int) -> bytes:
    message.check_version(version)
    writer = Writer(version, message.is_flexible(version))
    writer.struct(message)
    return bytes(writer.out)


class Reader:
    def __init__(self, buffer: memoryview, version: int, flexible: bool) -> None:
        self.buffer = buffer
        self.position = 0
        self.version = version
        self.flexible = flexible
        self.budget = ELEMENT_BUDGET

    @property
    def left(self) -> int:
        return len(self.buffer) - self.position

    def take(self, name: str, size: int) -> memoryview:
        if size > self.left:
            raise too_long(name, size, self.left)
        self.position += size
        return self.buffer[self.position - size : self.position]

    def spend(self, name: str, cost: int) -> None:
        self.budget -= cost
        if self.budget < 0:
            raise over_budget(name)

    def uvarint(self) -> int:
        value, self.position = read_uvarint(self.buffer, self.position)
        return value

    def fixed(self, letter: str) -> Any:
        packed = struct.Struct(">" + letter)
        return packed.unpack(self.take("field", packed.size))[0]

    def struct(self, cls: type[Struct]) -> Any:
        inline, tagged, _ = fields_at(cls, self.version)
        value = cls()
        for line in inline:
            setattr(value, line.name, self.field(line))
        if self.flexible:
            self.tagged_fields(value, {line.tag: line for line in tagged})
        return value

    def tagged_fields(self, value: Struct, known: dict[int | None, Field]) -> None:
        count, self.position = read_tag_count(self.buffer, self.position)
        self.spend("tagged fields", count * OBJECT_COST)
        for _ in range(count):
            tag = self.uvarint()
            size = self.uvarint()
            if size > self.left:
                raise too_long("tagged field", size, self.left)
            end = self.position + size
            if tag in known:
                setattr(value, known[tag].name, self.field(known[tag]))
                if self.position != end:
                    raise MalformedMessage(f"tag {tag}: its size is not the size of its content")
            self.position = end

    def field(self, line: Field) -> Any:
        nullable = self.version in line.nullable
        if line.kind == "array":
            return self.array(line, nullable)
        if line.kind == "struct":
            # A struct that may be null has one byte in front: -1 null, 1 present (KIP-893); in a tagged field 0 is null.
            present = self.fixed("b") if nullable else 1
            if nullable and line.tag is not None:
                present -= 1
            if present < -1:
                raise bad_null(line.json_name, present)
            return self.struct(line.struct) if present >= 0 else None
        return self.primitive(line.kind, line.json_name, nullable)

    def primitive(self, kind: str, name: str, nullable: bool = False) -> Any:
        if kind in FIXED:
            return self.fixed(FIXED[kind])
        size = self.length("h" if kind == "string" else "i", name, nullable)
        if size is None:
            return None
        if kind == "string" and size > MAX_STRING_BYTES:
            raise too_long(name, size, MAX_STRING_BYTES)
        content = self.take(name, size)
        if kind == "string":
            return str(content, "utf-8")
        return content if kind == "records" else bytes(content)

    def length(self, letter: str, name: str, nullable: bool) -> int | None:
        length: int = self.uvarint() - 1 if self.flexible else self.fixed(letter)
        if length >= 0:
            return length
        if nullable and length == -1:
            return None
        raise bad_null(name, length)

    def array(self, line: Field, nullable: bool) -> Any:
        count = self.length("i", line.json_name, nullable)
        if count is None:
            return None
        check_count(line.json_name, count, 1, self.left)
        self.spend(line.json_name, count if line.of in FIXED else count * OBJECT_COST)
        if isinstance(line.of, str):
            return [self.primitive(line.of, line.json_name) for _ in range(count)]
        return [self.struct(line.struct) for _ in range(count)]


class Writer:
    def __init__(self, version: int, flexible: bool) -> None:
        self.out = bytearray()
        self.version = version
        self.flexible = flexible

    def struct(self, value: Struct) -> None:
        inline, tagged, _ = fields_at(type(value), self.version)
        for line in inline:
            self.field(line, getattr(value, line.name))
        if self.flexible:
            written = [line for line in tagged if not line.is_default(getattr(value, line.name))]
            self.tagged_fields(written, value)

    def tagged_fields(self, lines: list[Field], value: Struct) -> None:
        self.out += uvarint(len(lines))
        for line in lines:
            assert line.tag is not None
            inner = Writer(self.version, self.flexible)
            inner.field(line, getattr(value, line.name))
            self.out += uvarint(line.tag) + uvarint(len(inner.out)) + inner.out

    def field(self, line: Field, value: Any) -> None:
        nullable = self.version in line.nullable
        if line.kind == "array":
            self.length("i", None if value is None else len(value), line.json_name, nullable)
            for item in value or ():
                if isinstance(line.of, str):
                    self.primitive(line.of, line.json_name, item)
                else:
                    self.struct(item)
        elif line.kind == "struct":
            if nullable:
                null = b"\xff" if line.tag is None else b"\0"
                self.out += null if value is None else b"\x01"
            if value is not None:
                self.struct(value)
        else:
            if line.is_message and value is not None:
                value = message_bytes(value).decode()
            self.primitive(line.kind, line.json_name, value, nullable)

    def primitive(self, kind: str, name: str, value: Any, nullable: bool = False) -> None:
        if kind in FIXED:
            self.out += struct.pack(">" + FIXED[kind], value)
            return
        content = value.encode() if isinstance(value, str) else value
        if kind == "string" and content is not None and len(content) > MAX_STRING_BYTES:
            raise unencodable(name, len(content))
        letter = "h" if kind == "string" else "i"
        self.length(letter, None if content is None else len(content), name, nullable)
        self.out += content or b""

    def length(self, letter: str, length: int | None, name: str, nullable: bool) -> None:
        if length is None and not nullable:
            raise TypeError(f"{name} cannot be null in version {self.version}")
        known = -1 if length is None else length
        self.out += uvarint(known + 1) if self.flexible else struct.pack(">" + letter, known)
