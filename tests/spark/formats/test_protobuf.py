"""Protobuf values become columns, by a registry or by a descriptor set; messages within messages, and what ends too soon."""

import base64
from datetime import UTC, datetime
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP
from google.protobuf.wrappers_pb2 import DESCRIPTOR as WRAPPERS

from odradek.model.errors import ConfigurationError
from odradek.spark.ddl import schema_of, text_of
from odradek.spark.formats import protobuf
from odradek.spark.formats.declared import Format, decoder, learnt
from odradek.spark.formats.decoded import Decoded
from tests.spark.formats.registry_server import RegistryServer, framed

F = FieldDescriptorProto


def field(
    name: str, number: int, kind: int, *, of: str = "", repeated: bool = False, optional: bool = False
) -> Any:
    found = F(name=name, number=number, type=kind, label=F.LABEL_REPEATED if repeated else F.LABEL_OPTIONAL)
    if of:
        found.type_name = of
    if optional:
        found.proto3_optional = True
        found.oneof_index = 0
    return found


def schema() -> Any:
    """message Order with every kind of field, its Line inside it, and Tree, which holds itself."""
    file = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.dependency.extend([TIMESTAMP.name, WRAPPERS.name])
    order = file.message_type.add(name="Order")
    line = order.nested_type.add(name="Line")
    line.field.append(field("sku", 1, F.TYPE_STRING))
    tags = order.nested_type.add(name="TagsEntry")
    tags.options.map_entry = True
    tags.field.extend([field("key", 1, F.TYPE_STRING), field("value", 2, F.TYPE_INT32)])
    kind = order.enum_type.add(name="Kind")
    kind.value.add(name="NEW", number=0)
    kind.value.add(name="PAID", number=1)
    order.oneof_decl.add(name="_note")
    order.field.extend(
        [
            field("id", 1, F.TYPE_INT64),
            field("note", 2, F.TYPE_STRING, optional=True),
            field("total", 3, F.TYPE_UINT64),
            field("ratio", 4, F.TYPE_FLOAT),
            field("blob", 5, F.TYPE_BYTES),
            field("kind", 6, F.TYPE_ENUM, of=".shop.Order.Kind"),
            field("lines", 7, F.TYPE_MESSAGE, of=".shop.Order.Line", repeated=True),
            field("tags", 8, F.TYPE_MESSAGE, of=".shop.Order.TagsEntry", repeated=True),
            field("at", 9, F.TYPE_MESSAGE, of=".google.protobuf.Timestamp"),
            field("many", 10, F.TYPE_UINT32, repeated=True),
            field("wrapped", 11, F.TYPE_MESSAGE, of=".google.protobuf.Int64Value"),
            field("root", 12, F.TYPE_MESSAGE, of=".shop.Tree"),
        ]
    )
    tree = file.message_type.add(name="Tree")
    tree.field.extend([field("n", 1, F.TYPE_INT32), field("left", 2, F.TYPE_MESSAGE, of=".shop.Tree")])
    return file


COLUMNS = (
    "id BIGINT, note STRING, total DECIMAL(20, 0), ratio FLOAT, blob BINARY, kind STRING, lines ARRAY<STRUCT<sku: STRING>>, "
    "tags MAP<STRING, INT>, at TIMESTAMP, many ARRAY<BIGINT>, wrapped BIGINT, root STRUCT<n: INT>"
)


def message(name: str = "shop.Order") -> Any:
    pool = DescriptorPool()
    for known in (TIMESTAMP, WRAPPERS):
        pool.AddSerializedFile(known.serialized_pb)
    pool.AddSerializedFile(schema().SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(name))


def serialized(file: Any) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


@pytest.fixture
def form(tmp_path: Path) -> Format:
    file = tmp_path / "order.desc"
    file.write_bytes(FileDescriptorSet(file=[schema()]).SerializeToString())
    return Format("protobuf", schema_file=str(file))


def test_a_message_is_found_by_its_full_name_though_another_ends_so(tmp_path: Path) -> None:
    file = FileDescriptorProto(name="order.proto", syntax="proto3")
    outer = file.message_type.add(name="Batch")
    outer.nested_type.add(name="Order").field.append(field("inner", 1, F.TYPE_STRING))
    file.message_type.add(name="Order").field.append(field("id", 1, F.TYPE_INT64))
    path = tmp_path / "order.desc"
    path.write_bytes(FileDescriptorSet(file=[file]).SerializeToString())

    def columns(name: str) -> str:
        form = Format("protobuf", schema_file=str(path), message=name)
        return text_of(learnt(form, "", lambda: pa.array([], pa.binary())).columns)

    assert (columns("Order"), columns("Batch.Order")) == ("id BIGINT", "inner STRING")


def decoded(form: Format, columns: str, *values: bytes | None) -> Decoded:
    return decoder(form, schema_of(columns)).decoded(pa.array(values, pa.binary()))


def test_a_name_that_two_messages_end_with_is_none(tmp_path: Path) -> None:
    """One of them would be taken, whichever stands first in the file."""
    file = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    for outer in ("Batch", "Single"):
        inner = file.message_type.add(name=outer).nested_type.add(name="Order")
        inner.field.append(field(f"of_{outer}", 1, F.TYPE_STRING))
    path = tmp_path / "order.desc"
    path.write_bytes(FileDescriptorSet(file=[file]).SerializeToString())

    def of(name: str) -> str:
        form = Format("protobuf", schema_file=str(path), message=name)
        return text_of(learnt(form, "", lambda: pa.array([], pa.binary())).columns)

    assert of("Single.Order") == "of_Single STRING"
    with pytest.raises(
        ConfigurationError, match=r"no message Order; there are .*shop.Batch.Order, .*shop.Single.Order"
    ):
        of("Order")


def test_a_map_of_messages_that_hold_themselves_is_left_out(tmp_path: Path) -> None:
    file = FileDescriptorProto(name="tree.proto", syntax="proto3")
    tree = file.message_type.add(name="Tree")
    entry = tree.nested_type.add(name="ByNameEntry")
    entry.options.map_entry = True
    entry.field.extend([field("key", 1, F.TYPE_STRING), field("value", 2, F.TYPE_MESSAGE, of=".Tree")])
    tree.field.extend(
        [
            field("n", 1, F.TYPE_INT32),
            field("by_name", 2, F.TYPE_MESSAGE, of=".Tree.ByNameEntry", repeated=True),
        ]
    )
    path = tmp_path / "tree.desc"
    path.write_bytes(FileDescriptorSet(file=[file]).SerializeToString())

    found = learnt(Format("protobuf", schema_file=str(path)), "", lambda: pa.array([], pa.binary()))

    assert (text_of(found.columns), found.left_out) == ("n INT", ("by_name",))


def test_every_kind_of_field_is_a_column(form: Format) -> None:
    found = learnt(form, "", lambda: pa.array([]))
    assert (text_of(found.columns), found.left_out) == (COLUMNS, ("root.left",))
    order = message()(id=1, total=2**64 - 1, ratio=0.5, blob=b"\xff", kind=1, many=[2**32 - 1], tags={"x": 1})
    order.lines.add(sku="a")
    order.at.FromMilliseconds(-1)
    order.wrapped.value = 0
    order.root.left.n = 5

    done = decoded(form, COLUMNS, order.SerializeToString(), b"", None)

    row, defaults, none = done.columns.to_pylist()
    assert (row["id"], row["note"], row["total"], row["ratio"], row["blob"]) == (
        1,
        None,
        Decimal(2**64 - 1),
        0.5,
        b"\xff",
    )
    assert (row["kind"], row["lines"], row["tags"], row["many"]) == (
        "PAID",
        [{"sku": "a"}],
        [("x", 1)],
        [2**32 - 1],
    )
    assert (row["wrapped"], row["root"]) == (0, {"n": 0})
    assert done.columns.column(8).cast(pa.int64()).to_pylist() == [-1000, None, None]
    assert (defaults["id"], defaults["note"], defaults["kind"], defaults["lines"], defaults["at"]) == (
        0,
        None,
        "NEW",
        [],
        None,
    )
    assert set(none.values()) == {None}


def test_an_enum_without_a_name_is_its_number(form: Format) -> None:
    assert decoded(form, "kind STRING", message()(kind=9).SerializeToString()).columns.to_pylist() == [
        {"kind": "9"}
    ]


def test_an_enum_of_two_names_for_a_number_has_the_first(tmp_path: Path) -> None:
    """As in the JSON of protobuf's own, and in every language's."""
    file = schema()
    kind = file.message_type[0].enum_type[0]
    kind.options.allow_alias = True
    kind.value.add(name="SETTLED", number=1)
    path = tmp_path / "order.desc"
    path.write_bytes(FileDescriptorSet(file=[file]).SerializeToString())
    paid = message()(kind=1).SerializeToString()

    done = decoded(Format("protobuf", schema_file=str(path)), "kind STRING", paid)

    assert done.columns.to_pylist() == [{"kind": "PAID"}]


def test_what_ends_too_soon_or_is_nested_without_end_is_bad(form: Format) -> None:
    tree = message("shop.Tree")()
    deep = tree
    for _ in range(90):
        deep = deep.left
    deep.n = 1
    within = tree.SerializeToString()
    for _ in range(30):  # by hand: the library's own writer has a bound as well
        within = b"\x12" + varint(len(within)) + within
    of_trees = form._replace(message="Tree")

    done = decoded(of_trees, "n INT", tree.SerializeToString(), within, b"\x12\x05", b"\xff", b"\x08\x07")

    assert done.good.tolist() == [0, 4]
    assert {row: why.stage for row, why in done.bad.items()} == dict.fromkeys((1, 2, 3), "value")
    assert all(why.error for why in done.bad.values())


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def test_schemas_of_a_registry_and_messages_within_them(server: RegistryServer) -> None:
    line = FileDescriptorProto(name="default", package="shop", syntax="proto3")
    line.message_type.add(name="Unit").field.append(field("name", 1, F.TYPE_STRING))
    order = FileDescriptorProto(name="default", syntax="proto3")
    order.dependency.append("shop/unit.proto")
    first = order.message_type.add(name="First")
    first.field.append(field("n", 1, F.TYPE_INT32))
    second = order.message_type.add(name="Second").nested_type.add(name="Inner")
    second.field.append(field("unit", 1, F.TYPE_MESSAGE, of=".shop.Unit"))
    server.has(4, serialized(line), subject="unit", kind="PROTOBUF")
    reference = {"name": "shop/unit.proto", "subject": "unit", "version": 1}
    server.has(5, serialized(order), subject="orders-value", kind="PROTOBUF", references=[reference])
    form = Format("protobuf", registry=server.url)

    found = learnt(form, "orders-value", lambda: pa.array([]))
    assert text_of(found.columns) == "n INT"
    unit = b"\x0a\x04\x0a\x02kg"
    done = decoded(
        form,
        "n INT, unit STRUCT<name: STRING>",
        framed(5, b"\x00\x08\x05"),
        framed(5, b"\x04\x02\x00" + unit),
        framed(5, b"\x02\x0a\x08\x05"),
        framed(5, b"\x00\x08"),
        framed(6, b"\x00"),
    )
    assert done.columns.to_pylist() == [{"n": 5, "unit": None}, {"n": None, "unit": {"name": "kg"}}]
    assert (done.bad[2].stage, done.bad[2].error) == ("schema", "the schema has no message at 5")
    assert (done.bad[3].stage, done.bad[3].schema_id) == ("value", 5)
    assert (done.bad[4].stage, done.bad[4].schema_id) == ("schema", 6)


@pytest.mark.parametrize("name", ["descriptor", "api", "type", "source_context", "any", "struct"])
def test_what_comes_with_protobuf_is_no_reference(server: RegistryServer, name: str) -> None:
    """A registry knows it without being told: descriptor.proto, say, of whoever has options of their own."""
    file = FileDescriptorProto(name="default", syntax="proto3")
    file.dependency.append(f"google/protobuf/{name}.proto")
    file.message_type.add(name="A").field.append(field("n", 1, F.TYPE_INT32))
    server.has(5, serialized(file), kind="PROTOBUF")

    done = decoded(Format("protobuf", registry=server.url), "n INT", framed(5, b"\x00\x08\x05"))

    assert (done.columns.to_pylist(), done.bad) == ([{"n": 5}], {})


@pytest.mark.parametrize("name", ["any", "source_context", "descriptor", "timestamp"])
def test_a_file_of_protoc_may_have_what_comes_with_protobuf_in_it(name: str, tmp_path: Path) -> None:
    """As it has with --include_imports, before what imports it."""
    known = FileDescriptorProto()
    import_module(f"google.protobuf.{name}_pb2").DESCRIPTOR.CopyToProto(known)
    file = FileDescriptorProto(name="order.proto", syntax="proto3")
    file.dependency.append(known.name)
    file.message_type.add(name="Order").field.append(field("id", 1, F.TYPE_INT64))
    path = tmp_path / "order.desc"
    for where in (known.name, f"vendor/{known.name}"):
        known.name = file.dependency[0] = where
        path.write_bytes(FileDescriptorSet(file=[known, file]).SerializeToString())
        found = learnt(Format("protobuf", schema_file=str(path)), "", lambda: pa.array([], pa.binary()))
        assert text_of(found.columns) == "id BIGINT"


GOOGLE_TYPES = (
    *("calendar_period", "color", "date", "datetime", "dayofweek", "decimal", "expr", "fraction", "interval"),
    *("latlng", "money", "month", "phone_number", "postal_address", "quaternion", "timeofday"),
)


@pytest.mark.parametrize("name", GOOGLE_TYPES)
def test_googles_common_types_are_no_reference(server: RegistryServer, name: str) -> None:
    file = FileDescriptorProto(name="order.proto", syntax="proto3", dependency=[f"google/type/{name}.proto"])
    file.message_type.add(name="Order").field.append(field("id", 1, F.TYPE_INT64))
    server.has(3, serialized(file), kind="PROTOBUF")

    done = decoded(Format("protobuf", registry=server.url), "id BIGINT", framed(3, b"\x00\x08\x07"))

    assert (done.columns.to_pylist(), done.bad) == ([{"id": 7}], {})


def test_values_of_googles_common_types(server: RegistryServer) -> None:
    file = FileDescriptorProto(name="order.proto", syntax="proto3")
    names = ("money", "datetime", "dayofweek", "interval", "phone_number", "decimal")
    file.dependency.extend(f"google/type/{name}.proto" for name in names)
    file.message_type.add(name="Order").field.extend(
        [
            field("price", 1, F.TYPE_MESSAGE, of=".google.type.Money"),
            field("at", 2, F.TYPE_MESSAGE, of=".google.type.DateTime"),
            field("day", 3, F.TYPE_ENUM, of=".google.type.DayOfWeek"),
            field("during", 4, F.TYPE_MESSAGE, of=".google.type.Interval"),
            field("call", 5, F.TYPE_MESSAGE, of=".google.type.PhoneNumber"),
            field("rate", 6, F.TYPE_MESSAGE, of=".google.type.Decimal"),
        ]
    )
    server.has(3, serialized(file), kind="PROTOBUF")
    price = b"\x0a\x07\x0a\x03EUR\x10\x05"
    at = b"\x12\x0a\x08\xe8\x0f\x4a\x05\x0a\x03UTC"
    during = b"\x22\x04\x12\x02\x08\x01"
    call = b"\x2a\x0a\x12\x05\x12\x03110\x1a\x017"
    rate = b"\x32\x05\x0a\x031.5"
    columns = (
        "price STRUCT<currency_code: STRING, units: BIGINT>, at STRUCT<year: INT, time_zone: STRUCT<id: STRING>>, day STRING, "
        "during STRUCT<end_time: TIMESTAMP>, call STRUCT<short_code: STRUCT<number: STRING>, extension: STRING>, "
        "rate STRUCT<value: STRING>"
    )
    value = b"\x00" + price + at + b"\x18\x02" + during + call + rate

    done = decoded(Format("protobuf", registry=server.url), columns, framed(3, value))

    assert (done.columns.to_pylist(), done.bad) == (
        [
            {
                "price": {"currency_code": "EUR", "units": 5},
                "at": {"year": 2024, "time_zone": {"id": "UTC"}},
                "day": "TUESDAY",
                "during": {"end_time": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)},
                "call": {"short_code": {"number": "110"}, "extension": "7"},
                "rate": {"value": "1.5"},
            }
        ],
        {},
    )


def test_what_comes_with_confluents_registry_is_no_reference(server: RegistryServer) -> None:
    """Schemas that Kafka Connect makes import both; neither is among their references."""
    file = FileDescriptorProto(name="default", syntax="proto3")
    file.dependency.extend(["confluent/meta.proto", "confluent/type/decimal.proto"])
    amount = field("amount", 1, F.TYPE_MESSAGE, of=".confluent.type.Decimal")
    file.message_type.add(name="A").field.append(amount)
    server.has(5, serialized(file), kind="PROTOBUF", subject="orders-value")
    form = Format("protobuf", registry=server.url)

    found = learnt(form, "orders-value", lambda: pa.array([]))
    done = decoded(form, text_of(found.columns), framed(5, b"\x00\x0a\x07\x0a\x01\x7b\x10\x05\x18\x02"))

    assert text_of(found.columns) == "amount STRUCT<value: BINARY, precision: BIGINT, scale: INT>"
    assert done.columns.to_pylist() == [{"amount": {"value": b"\x7b", "precision": 5, "scale": 2}}]


def test_a_registry_that_has_protobuf_as_text_only(server: RegistryServer) -> None:
    server.has(5, 'syntax = "proto3"; message A { int32 n = 1; }', kind="PROTOBUF")

    done = decoded(Format("protobuf", registry=server.url), "n INT", framed(5, b"\x00\x08\x05"))

    assert done.bad[0].stage == "schema" and "gives Protobuf schemas as text only" in done.bad[0].error


def test_which_message_of_a_file(form: Format, tmp_path: Path) -> None:
    assert text_of(learnt(form._replace(message="Line"), "", lambda: pa.array([])).columns) == "sku STRING"
    assert text_of(learnt(form._replace(message="shop.Tree"), "", lambda: pa.array([])).columns) == "n INT"
    with pytest.raises(
        ConfigurationError, match=r"no message Nothing; there are shop.Order, shop.Order.Line, shop.Tree"
    ):
        learnt(form._replace(message="Nothing"), "", lambda: pa.array([]))
    file = tmp_path / "order.proto"
    file.write_text('syntax = "proto3";')
    with pytest.raises(ConfigurationError, match=r"order.proto: this is no descriptor set of protoc"):
        learnt(Format("protobuf", schema_file=str(file)), "", lambda: pa.array([]))


def test_a_column_of_another_type_than_the_schemas(form: Format) -> None:
    from odradek.spark.formats.decoded import RefusedSchema

    with pytest.raises(RefusedSchema, match="field id is BIGINT by the schema; the column is STRING"):
        decoder(form, schema_of("id STRING"))


def test_values_of_a_file_that_are_framed_say_which_message_they_are_as_well(form: Format) -> None:
    """As every serializer of a registry writes them."""
    value = message()(id=5).SerializeToString()
    of_file = form._replace(is_framed=True)

    done = decoded(
        of_file, "id BIGINT", framed(5, b"\x00" + value), framed(6, b"\x02\x00" + value), b"x", None
    )

    assert done.columns.to_pylist() == [{"id": 5}, {"id": 5}, {"id": None}]
    assert {row: why.stage for row, why in done.bad.items()} == {2: "schema"}


def test_messages_that_hold_each_other_are_refused_before_they_have_taken_all_the_time_there_is(
    server: RegistryServer,
) -> None:
    """Each way from one to the others is columns of its own: of thirteen there are six thousand million."""
    file = FileDescriptorProto(name="ring.proto", syntax="proto3")
    for number in range(13):
        one = file.message_type.add(name=f"M{number}")
        one.field.append(field("n", 1, F.TYPE_INT32))
        one.field.extend(field(f"m{to}", to + 2, F.TYPE_MESSAGE, of=f".M{to}") for to in range(13))
    server.has(5, serialized(file), kind="PROTOBUF")

    done = decoded(Format("protobuf", registry=server.url), "n INT", framed(5, b"\x00\x08\x05"))

    assert done.bad[0].stage == "schema"
    assert done.bad[0].error == "the message M0 has more than 20,000 fields, with those nested in it"


def test_a_schema_that_does_not_fit_is_looked_at_once(
    server: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.has(5, serialized(schema()), kind="PROTOBUF")
    looked: list[str] = []
    message_of = protobuf.message_of
    monkeypatch.setattr(
        protobuf, "message_of", lambda found: looked.append(found.full_name) or message_of(found)
    )

    done = decoded(Format("protobuf", registry=server.url), "id STRING", *[framed(5, b"\x00\x08\x05")] * 3)

    assert {why.error for why in done.bad.values()} == {
        "field id is BIGINT by the schema; the column is STRING"
    }
    assert (len(done.bad), looked) == (3, ["shop.Order"])
