"""The flat codecs are those of the tables: files that the generator would write again, equal in every version."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from odradek.protocol import flat as flat_codecs
from odradek.protocol.compiler import snake_case
from odradek.protocol.errors import MalformedMessage, UnsupportedVersion
from odradek.protocol.fields import Field, Struct
from odradek.protocol.flat import leader_and_isr_request
from odradek.protocol.flattening import OBJECTS, TUPLES, Flat, FlatForm, files
from odradek.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from odradek.protocol.primitives import RowShapes
from odradek.protocol.schema import Message
from tests.protocol.drawing import damaged, messages
from tests.protocol.golden import OF_4_1, Vector, message_classes, vectors
from tests.support import each


def codec(flat: Flat) -> ModuleType:
    return import_module(f"odradek.protocol.flat.{snake_case(flat.cls.__name__)}")


def ways(number: int) -> list[tuple[Flat, int]]:
    return [
        (flat, version)
        for flat in TUPLES
        for version in range(flat.versions[number].first, flat.versions[number].last + 1)
    ]


def named(way: tuple[Flat, int]) -> str:
    return f"{way[0].cls.__name__}-v{way[1]}"


DECODED, ENCODED = ways(0), ways(1)


class Flattened:
    """Messages of the tables as tuples; a tagged struct that has its default is spelled out."""

    def __init__(self, flat: Flat, version: int) -> None:
        self.form = FlatForm(flat)
        self.version = version

    def struct(self, cls: type[Struct], value: Any) -> tuple[Any, ...]:
        row = []
        for lines in self.form.fields(cls):
            line = next((line for line in lines if self.version in line.versions), lines[0])
            row.append(self.field(line, getattr(value, line.name)))
        return tuple(row)

    def field(self, line: Field, value: Any) -> Any:
        if value is None or not isinstance(line.of, type):
            return value
        if line.kind == "array":
            return [self.struct(line.of, one) for one in value]
        return self.struct(line.of, value)

    def spelled_out(self, cls: type[Struct], row: tuple[Any, ...]) -> tuple[Any, ...]:
        made = []
        for lines, value in zip(self.form.fields(cls), row, strict=True):
            line = lines[0]
            if line.kind == "struct":
                value = self.struct(line.struct, line.struct()) if value is None else value
            elif line.kind == "array" and isinstance(line.of, type) and value is not None:
                value = [self.spelled_out(line.of, one) for one in value]
            made.append(value)
        return tuple(made)

    def pieces(self, module: ModuleType, cls: type[Struct], row: tuple[Any, ...]) -> tuple[Any, ...]:
        """With the bytes of what is encoded one by one."""
        made = []
        for lines, value in zip(self.form.fields(cls), row, strict=True):
            line = lines[0]
            if line.kind == "array" and isinstance(line.of, type):
                if value is not None:
                    value = [self.pieces(module, line.of, one) for one in value]
                encode = encoder_of_pieces(module, line.of)
                if encode is not None and self.version in line.versions:
                    value = encode(self.version, value)
            made.append(value)
        return tuple(made)


def encoder_of_pieces(module: ModuleType, cls: type[Struct]) -> Callable[..., list[bytes]] | None:
    found: Callable[..., list[bytes]] | None
    found = getattr(module, f"encode_{snake_case(cls.__name__)}s", None)
    return found


def encoded(flat: Flat, version: int, message: Message) -> bytes:
    module, flattened = codec(flat), Flattened(flat, version)
    row = flattened.pieces(module, flat.cls, flattened.struct(flat.cls, message))
    body = module.encode(version, *row)
    return body if isinstance(body, bytes) else b"".join(body)


def decoded(flat: Flat, version: int, body: Any, offset: int = 0) -> Any:
    return Flattened(flat, version).spelled_out(flat.cls, codec(flat).decode(version, body, offset))


def outcome(decode: Callable[[], Any]) -> Any:
    try:
        return decode()
    except MalformedMessage as error:
        return "malformed", error.message


def test_the_files_are_what_the_generator_writes() -> None:
    directory = Path(flat_codecs.__file__).parent
    made = {f"{name}.py": source for name, source in files()}
    assert {path.name for path in directory.glob("*.py")} == {*made, "__init__.py"}
    for name, source in made.items():
        assert (directory / name).read_text() == source, f"{name} is old: python docs/generate.py"


def test_messages_with_a_flat_codec_of_objects_use_it() -> None:
    marked = {cls for cls in message_classes() if cls.IS_FLAT}
    assert marked == set(OBJECTS)
    for cls in OBJECTS:
        cls().encode(cls.VERSIONS.last)
        module = import_module(f"odradek.protocol.flat.{snake_case(cls.__name__)}")
        assert cls.ENCODERS[cls.VERSIONS.last] is module.ENCODERS[cls.VERSIONS.last]
        cls.decode(cls.VERSIONS.last, cls().encode(cls.VERSIONS.last))
        assert cls.DECODERS[cls.VERSIONS.last] is module.DECODERS[cls.VERSIONS.last]


@each(DECODED, named)
def test_a_message_is_read_as_the_table_reads_it(flat: Flat, version: int) -> None:
    for message in messages(flat.cls, version, 40):
        body = message.encode(version)
        expected = Flattened(flat, version).struct(flat.cls, message)
        assert decoded(flat, version, body) == expected
        assert decoded(flat, version, memoryview(b"head" + body), 4) == expected


@each(ENCODED, named)
def test_a_message_is_written_as_the_table_writes_it(flat: Flat, version: int) -> None:
    for message in messages(flat.cls, version, 40):
        assert encoded(flat, version, message) == message.encode(version), message


def test_the_golden_vectors_come_out_the_same() -> None:
    by_class = {flat.cls: flat for flat in TUPLES}
    read, written = 0, 0
    for vector in vectors():
        flat, version = by_class.get(vector.message), vector.version
        if flat is None:
            continue
        message = vector.message.decode(version, vector.body)
        if version in flat.versions[0]:
            assert decoded(flat, version, vector.body) == Flattened(flat, version).struct(flat.cls, message)
            read += 1
        if version in flat.versions[1] and vector.sample != "unknown-tag":
            assert encoded(flat, version, message) == vector.body, vector.name
            written += 1
    assert (read, written) == (194, 270)


def seed_of(flat: Flat, version: int) -> Vector:
    """Produce 12 is written as 11 is, and has no vectors of its own."""
    written = min(version, OF_4_1.get(flat.cls.KEY, version + 1) - 1)
    return next(v for v in vectors() if v.name == f"{flat.cls.__name__}-v{written}-full")


@each(DECODED, named)
def test_both_agree_on_what_is_malformed_and_why(flat: Flat, version: int) -> None:
    for body in damaged(seed_of(flat, version).body, f"{flat.cls.__name__} {version}", 150):
        by_table = outcome(
            lambda body=body: Flattened(flat, version).struct(flat.cls, flat.cls.decode(version, body))
        )
        assert outcome(lambda body=body: decoded(flat, version, body)) == by_table, body.hex()


@each(DECODED, named)
def test_a_message_cut_short_anywhere_is_malformed(flat: Flat, version: int) -> None:
    seed = seed_of(flat, version)
    for size in range(len(seed.body)):
        with pytest.raises(MalformedMessage):
            decoded(flat, version, seed.body[:size])


@each(DECODED, named)
def test_both_have_one_bound_of_elements(flat: Flat, version: int) -> None:
    """The smallest budget that lets the message through is the general codec's."""
    seed = seed_of(flat, version)

    def refuses(decode: Callable[..., Any], budget: int) -> bool:
        try:
            decode(version, seed.body, 0, budget=budget)
        except MalformedMessage as error:
            assert "more elements" in error.message
            return True
        return False

    least = next(budget for budget in range(10_000) if not refuses(flat.cls.decode, budget))
    assert least > 0
    assert not refuses(codec(flat).decode, least)
    assert refuses(codec(flat).decode, least - 1)


def test_a_version_that_is_not_flat_is_not_read() -> None:
    for flat in TUPLES:
        first, last = flat.versions[0]
        for version in (first - 1, last + 1) if last else ():
            if flat.decode:
                with pytest.raises(UnsupportedVersion):
                    codec(flat).decode(version, b"")


def test_lists_longer_than_a_byte_can_count() -> None:
    many = tuple(range(200))
    row = (0, 1, 1, 2, many, 3, many, many[:130], (), True, 1, many)
    states = leader_and_isr_request.encode_leader_and_isr_partition_states(7, [row, (*row[:-1], ())])
    topics = leader_and_isr_request.encode_leader_and_isr_topic_states(7, [("t", bytes(16), states)])
    body = leader_and_isr_request.encode(7, topic_states=topics)
    (topic,) = LeaderAndIsrRequest.decode(7, body).topic_states
    for state, eligible in zip(topic.partition_states, (many, ()), strict=True):
        assert (state.isr, state.replicas, state.adding_replicas) == (
            list(many),
            list(many),
            list(many[:130]),
        )
        assert state.eligible_leader_replicas == list(eligible)


def test_shapes_of_rows_are_forgotten_where_there_are_too_many() -> None:
    shapes = RowShapes(("i", "x"), is_flexible=True)
    for size in range(RowShapes.MOST + 1):
        shapes.make((size,))
    assert len(shapes) == 1
    pack, length = shapes.get((RowShapes.MOST,)) or shapes.make((RowShapes.MOST,))
    assert len(pack(1, length, *range(RowShapes.MOST))) == 4 + len(length) + 4 * RowShapes.MOST + 1


@pytest.mark.parametrize("size", [0, 1, 15, 16, 126, 127, 200])
def test_lists_of_integers_of_any_length_are_read(size: int) -> None:
    state = LeaderAndIsrPartitionState(isr=list(range(size)), replicas=list(range(0, -size, -1)))
    for version in (0, 3, 7):
        message = LeaderAndIsrRequest()
        if version < 2:
            message.ungrouped_partition_states = [state]
        else:
            message.topic_states = [LeaderAndIsrTopicState(partition_states=[state])]
        body = message.encode(version)
        assert LeaderAndIsrRequest.decode(version, body) == message
        with pytest.raises(MalformedMessage):
            LeaderAndIsrRequest.decode(version, body[:-6])
