"""Field by field against the message descriptions inside Apache's own jar.

`mvn dependency:get -Dartifact=org.apache.kafka:kafka-clients:3.9.1` puts it where this looks; another place
is named by ODRADEK_KAFKA_CLIENTS_JAR.
"""

import json
import os
import re
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from odradek.protocol.fields import FIRST_OWN_TAG, NEWEST, Field, VersionRange
from odradek.protocol.schema import Message
from tests.protocol.golden import OF_4_1, message_classes
from tests.support import each

IN_MAVEN = ".m2/repository/org/apache/kafka/kafka-clients/3.9.1/kafka-clients-3.9.1.jar"
JAR = Path(os.environ.get("ODRADEK_KAFKA_CLIENTS_JAR") or Path.home() / IN_MAVEN)
pytestmark = pytest.mark.skipif(not JAR.exists(), reason="kafka-clients 3.9.1 is not on this machine")

# Kafka nests these classes in the message; ours stand in one file and so need names of their own.
RENAMED = re.compile(
    r"^(AlterPartition|AlterClientQuotas)(Request|Response)(?=TopicData|PartitionData|EntryData)"
)


@cache
def descriptions() -> dict[str, Any]:
    found = {}
    with zipfile.ZipFile(JAR) as jar:
        for name in jar.namelist():
            if name.startswith("common/message/") and name.endswith(("Request.json", "Response.json")):
                text = jar.read(name).decode()
                # JSON with comments: whole lines, or behind the last bracket of one.
                text = re.sub(r"(?m)^\s*//.*$|(?<=[\],}])\s*//.*$", "", text)
                description = json.loads(text)
                found[description["name"]] = description
    return found


def versions(text: str | None) -> set[int]:
    if not text or text == "none":
        return set()
    return set(range(*_bounds(text)))


def _bounds(text: str) -> tuple[int, int]:
    first, last = VersionRange.parse(text)
    return first, (100 if last == NEWEST else last) + 1


def ours(line: Field, valid: set[int]) -> dict[str, Any]:
    kind = line.kind
    if kind in ("array", "struct"):
        of = line.of if isinstance(line.of, str) else RENAMED.sub("", line.struct.__name__)
        kind = f"[]{of}" if kind == "array" else of
    default = line.default
    if line.kind in ("array", "struct"):
        default = None if default is None else "fresh"
    return {
        "name": line.json_name,
        "type": kind,
        "versions": valid & set(range(line.versions.first, min(line.versions.last, 100) + 1)),
        "nullable": valid & set(range(line.nullable.first, min(line.nullable.last, 100) + 1)),
        "tag": line.tag,
        "default": default,
    }


def theirs(field: dict[str, Any], valid: set[int]) -> dict[str, Any]:
    kind = field["type"]
    if "tag" in field:
        assert field["taggedVersions"] == field["versions"]
    return {
        "name": field["name"][0].lower() + field["name"][1:],
        "type": kind,
        "versions": valid & versions(field["versions"]),
        "nullable": valid & versions(field.get("nullableVersions")),
        "tag": field.get("tag"),
        "default": default_of(kind, field.get("default")),
    }


def default_of(kind: str, text: Any) -> Any:
    if text == "null":
        return None
    if kind.startswith("[]") or kind[0].isupper():
        return "fresh"
    if kind == "bool":
        return str(text).lower() == "true"
    if kind == "string":
        return text or ""
    if kind in ("bytes", "records"):
        return b""
    if kind == "uuid":
        return bytes(16)
    return float(text or 0) if kind == "float64" else int(str(text or 0), 0)


@each(message_classes())
def test_a_table_is_what_apache_describes(message: type[Message]) -> None:
    description = descriptions()[message.__name__]
    # Versions of 4.1 are not in the descriptions of 3.9.
    newest = OF_4_1.get(message.KEY, message.VERSIONS.last + 1)
    valid = set(range(message.VERSIONS.first, newest))
    assert description["apiKey"] == message.KEY
    assert description["type"] == message.TYPE
    assert valid & versions(description["flexibleVersions"]) == {v for v in valid if message.is_flexible(v)}
    common = {struct["name"]: struct["fields"] for struct in description.get("commonStructs", ())}

    def compare(cls: Any, fields: list[dict[str, Any]], path: str) -> None:
        alive = [field for field in fields if valid & versions(field["versions"])]
        table = [
            line
            for line in cls.TABLE
            if (line.tag is None or line.tag < FIRST_OWN_TAG) and any(one in line.versions for one in valid)
        ]
        assert [line.json_name for line in table] == [theirs(field, valid)["name"] for field in alive], path
        for line, field in zip(table, alive, strict=True):
            mine, apache = ours(line, valid), theirs(field, valid)
            if line.kind == "records" and apache["nullable"]:
                # Java starts from null here, whatever the description says.
                apache["default"] = None
            assert mine == apache, path
            if isinstance(line.of, type):
                name = field["type"].removeprefix("[]")
                compare(line.of, field.get("fields") or common[name], f"{path}.{name}")

    compare(message, description["fields"], message.__name__)


def test_every_description_was_read() -> None:
    assert len(descriptions()) > 150
    assert {message.__name__ for message in message_classes()} <= set(descriptions())
