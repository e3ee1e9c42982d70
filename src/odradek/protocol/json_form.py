"""Messages as JSON, the form Kafka's own converters print and tests/golden/wire.jsonl.gz holds.

Fields have Kafka's names in camelCase; uuids are 22 characters of URL-safe base64, bytes and records are
base64. A field that the version does not know is absent, a tagged field at its default too. Reading is
strict: a field that is missing, unknown or out of range is named, since this form is written by people.
"""

from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from math import isfinite
from typing import Any

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.fields import Field, Struct
from odradek.protocol.primitives import MAX_STRING_BYTES

_INTEGERS = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}


# JSON has no numbers for these; Kafka writes strings.
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def to_json(message: Struct, version: int) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for line in message.TABLE:
        value = getattr(message, line.name)
        if version not in line.versions or (line.tag is not None and line.is_default(value)):
            continue
        if value is None:
            shown[line.json_name] = None
        elif line.kind == "array":
            shown[line.json_name] = [_value_to_json(line.of, item, version) for item in value]
        else:
            shown[line.json_name] = _value_to_json(line.of or line.kind, value, version)
    return shown


def _value_to_json(kind: Any, value: Any, version: int) -> Any:
    if isinstance(kind, type):
        return to_json(value, version)
    if kind == "uuid":
        return urlsafe_b64encode(value).rstrip(b"=").decode()
    if kind in ("bytes", "records"):
        return b64encode(value).decode()
    if kind == "float64" and not isfinite(value):
        return _NOT_FINITE[repr(value)]
    return value


def from_json(cls: type[Struct], version: int, value: Any, path: str = "") -> Any:
    path = path or cls.__name__
    if not isinstance(value, dict):
        raise MalformedMessage(f"{path}: expected an object, found {_shown(value)}")
    lines = {line.json_name: line for line in cls.TABLE if version in line.versions}
    for name in value:
        if name not in lines:
            known = ", ".join(lines) or "none"
            raise MalformedMessage(f"{path}: no field {name!r} in version {version}; known are {known}")
    fields = {}
    for name, line in lines.items():
        if name in value:
            fields[line.name] = _field_from_json(line, version, value[name], f"{path}.{name}")
        elif line.tag is None:
            raise MalformedMessage(f"{path}: field {name!r} is missing in version {version}")
    return cls(**fields)


def _field_from_json(line: Field, version: int, value: Any, path: str) -> Any:
    if value is None:
        if version not in line.nullable:
            raise MalformedMessage(f"{path}: cannot be null in version {version}")
        return None
    if line.kind != "array":
        return _value_from_json(line.of or line.kind, version, value, path)
    if not isinstance(value, list):
        raise MalformedMessage(f"{path}: expected an array, found {_shown(value)}")
    return [_value_from_json(line.of, version, item, f"{path}[{n}]") for n, item in enumerate(value)]


def _value_from_json(kind: Any, version: int, value: Any, path: str) -> Any:
    if isinstance(kind, type):
        return from_json(kind, version, value, path)
    if kind in _INTEGERS:
        low, high = _INTEGERS[kind]
        if type(value) is not int or not low <= value <= high:
            raise MalformedMessage(f"{path}: expected an integer of {low} to {high}, found {_shown(value)}")
        return value
    if kind == "bool":
        if type(value) is not bool:
            raise MalformedMessage(f"{path}: expected true or false, found {_shown(value)}")
        return value
    if kind == "float64":
        if value in _NOT_FINITE.values():
            return float(value)
        if type(value) not in (int, float):
            raise MalformedMessage(f"{path}: expected a number, found {_shown(value)}")
        try:
            return float(value)
        except OverflowError:
            raise MalformedMessage(f"{path}: expected a number of 64 bits, found {_shown(value)}") from None
    if type(value) is not str:
        raise MalformedMessage(f"{path}: expected a string, found {_shown(value)}")
    return _text_from_json(kind, value, path)


def _text_from_json(kind: str, value: str, path: str) -> Any:
    try:
        if kind == "string":
            size = len(value.encode())
            if size > MAX_STRING_BYTES:
                raise MalformedMessage(f"{path}: {size} bytes, the wire allows {MAX_STRING_BYTES}")
            return value
        if kind == "uuid":
            decoded = urlsafe_b64decode(value + "==") if len(value) == 22 else b""
            if len(decoded) != 16:
                raise MalformedMessage(
                    f"{path}: expected 22 characters of URL-safe base64, found {_shown(value)}"
                )
            return decoded
        return b64decode(value, validate=True)
    except UnicodeEncodeError:
        raise MalformedMessage(f"{path}: {_shown(value)} cannot be encoded as UTF-8") from None
    except ValueError:
        raise MalformedMessage(f"{path}: {_shown(value)} is not base64") from None


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."
