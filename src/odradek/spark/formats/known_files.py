"""Files of Protobuf that a schema may import without a reference to them, as Confluent's registry knows them without being told:

google/protobuf/*   come with Protobuf
google/type/*       Google's common types: those of its names that the registry has
confluent/*         its own; the options of meta.proto say nothing of values, so it is empty here
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

_WITH_PROTOBUF = (
    *("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context", "struct", "timestamp"),
    *("type", "wrappers"),
)
_DAYS = "MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY"
_MONTHS = "JANUARY FEBRUARY MARCH APRIL MAY JUNE JULY AUGUST SEPTEMBER OCTOBER NOVEMBER DECEMBER"
# Of google/type: the fields of a message, the values of an enum, each numbered as it stands there.
_MESSAGES = {
    "color": ("Color", "red float, green float, blue float, alpha google.protobuf.FloatValue"),
    "date": ("Date", "year int32, month int32, day int32"),
    "decimal": ("Decimal", "value string"),
    "expr": ("Expr", "expression string, title string, description string, location string"),
    "fraction": ("Fraction", "numerator int64, denominator int64"),
    "interval": ("Interval", "start_time google.protobuf.Timestamp, end_time google.protobuf.Timestamp"),
    "latlng": ("LatLng", "latitude double, longitude double"),
    "money": ("Money", "currency_code string, units int64, nanos int32"),
    "postal_address": (
        "PostalAddress",
        "revision int32, region_code string, language_code string, postal_code string, sorting_code string, "
        "administrative_area string, locality string, sublocality string, address_lines string*, recipients string*, "
        "organization string",
    ),
    "quaternion": ("Quaternion", "x double, y double, z double, w double"),
    "timeofday": ("TimeOfDay", "hours int32, minutes int32, seconds int32, nanos int32"),
}
_IMPORTS = {"color": "wrappers", "interval": "timestamp"}  # of those, from google/protobuf
_ENUMS = {
    "calendar_period": ("CalendarPeriod", "CALENDAR_PERIOD", "DAY WEEK FORTNIGHT MONTH QUARTER HALF YEAR"),
    "dayofweek": ("DayOfWeek", "DAY_OF_WEEK", _DAYS),
    "month": ("Month", "MONTH", _MONTHS),
}


def known_files() -> Iterator[Any]:
    """A FileDescriptorProto each."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    for name in _WITH_PROTOBUF:
        descriptor = import_module(f"google.protobuf.{name}_pb2").DESCRIPTOR
        yield FileDescriptorProto.FromString(descriptor.serialized_pb)
    yield from _of_google_type()
    yield _file("confluent/meta.proto", "confluent")
    decimal = _file("confluent/type/decimal.proto", "confluent.type")
    _add_message(decimal.message_type, "Decimal", "value bytes, precision uint32, scale int32")
    yield decimal


def _of_google_type() -> Iterator[Any]:
    for name, (message, fields) in _MESSAGES.items():
        file = _file(f"google/type/{name}.proto", "google.type")
        if name in _IMPORTS:
            file.dependency.append(f"google/protobuf/{_IMPORTS[name]}.proto")
        _add_message(file.message_type, message, fields)
        yield file
    for name, (enum, prefix, values) in _ENUMS.items():
        file = _file(f"google/type/{name}.proto", "google.type")
        found = file.enum_type.add(name=enum)
        for number, value in enumerate([f"{prefix}_UNSPECIFIED", *values.split()]):
            found.value.add(name=value, number=number)
        yield file
    file = _file("google/type/datetime.proto", "google.type")
    file.dependency.append("google/protobuf/duration.proto")
    parts = "year int32, month int32, day int32, hours int32, minutes int32, seconds int32, nanos int32"
    offset = "utc_offset google.protobuf.Duration, time_zone google.type.TimeZone"
    moment = _add_message(file.message_type, "DateTime", f"{parts}, {offset}")
    moment.oneof_decl.add(name="time_offset")
    for field in moment.field[7:]:
        field.oneof_index = 0
    _add_message(file.message_type, "TimeZone", "id string, version string")
    yield file
    file = _file("google/type/phone_number.proto", "google.type")
    kinds = "e164_number string, short_code google.type.PhoneNumber.ShortCode"
    number = _add_message(file.message_type, "PhoneNumber", f"{kinds}, extension string")
    _add_message(number.nested_type, "ShortCode", "region_code string, number string")
    number.oneof_decl.add(name="kind")
    for field in number.field[:2]:
        field.oneof_index = 0
    yield file


def _file(name: str, package: str) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    return FileDescriptorProto(name=name, package=package, syntax="proto3")


def _add_message(messages: Any, name: str, fields: str) -> Any:
    """To those of a file, or within another. `fields`: each a name and a type, `*` behind that of one that is repeated."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    message = messages.add(name=name)
    for number, text in enumerate(fields.split(", "), 1):
        name, kind = text.split()
        field = message.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        if kind.endswith("*"):
            field.label = FieldDescriptorProto.LABEL_REPEATED
        if "." in kind:
            field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{kind}"
        else:
            field.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.rstrip('*').upper()}")
    return message
