"""ApiVersions, the table of handlers behind it, and requests that nobody here answers."""

from typing import Any

import pytest

from odradek.broker import effects as fx
from odradek.broker.answers import CloseConnection
from odradek.broker.handlers.table import HANDLERS
from odradek.model.error_codes import ErrorCode
from odradek.protocol.api_keys import APIS, SERVED, ApiKey
from odradek.protocol.headers import encode_request
from odradek.protocol.messages import api_versions as av
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from tests.broker.world import Pending, World, told
from tests.support import golden_lines


def test_every_served_key_has_a_handler_and_api_versions_says_so(world: World) -> None:
    answer = world.call(1, av.ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
    listed = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
    assert listed == dict(SERVED)
    assert listed.keys() == HANDLERS.keys()
    assert listed[0] == (0, 11), "some librdkafka releases compress only when Produce starts at 0"
    assert not listed.keys() & {24, 25, 26, 28}


def test_a_handler_that_is_read_when_it_is_asked_for_is_kept_by_its_broker_alone(world: World) -> None:
    before = dict(HANDLERS)
    world.call(1, DescribeClusterRequest(), 0)
    world.call(1, DescribeClusterRequest(), 0)
    assert before == HANDLERS
    assert before[ApiKey.DESCRIBE_CLUSTER] == "describe_cluster"


def test_an_unknown_version_of_api_versions_is_answered_in_version_0_with_its_own_range(world: World) -> None:
    frame = encode_request(18, 4, 7, "new", b"\x02x\x02y\0")[4:]
    frame = frame[:2] + (99).to_bytes(2, "big") + frame[4:]
    pending = world.send_frame(1, frame, Pending(av.ApiVersionsResponse, 0), world.connection())
    answer = pending.message
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(r.api_key, r.min_version, r.max_version) for r in answer.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize("name", ["", "-x", "x-", "has space", "ünicode"])
def test_api_versions_refuses_a_software_name_that_is_none(world: World, name: str) -> None:
    answer = world.call(1, av.ApiVersionsRequest(client_software_name=name, client_software_version="1"), 3)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


WITHOUT_COORDINATOR = [24, 25, 26, 28]


@pytest.mark.parametrize("key", WITHOUT_COORDINATOR)
def test_transaction_requests_get_unsupported_version_in_every_version_and_one_log_line(
    world: World, key: int
) -> None:
    from importlib import import_module

    api = APIS[key]
    name = ApiKey(key).name.lower()
    module = import_module(f"odradek.protocol.messages.{name}")
    camel = "".join(part.capitalize() for part in name.split("_"))
    request, response = getattr(module, camel + "Request"), getattr(module, camel + "Response")
    connection = world.connection()
    for version in range(api.first_version, api.last_version + 1):
        sample = request.decode(version, _sample(key, version))
        pending = world.send(1, sample, version, connection=connection)
        codes = _error_codes(response.decode(version, pending.body))
        assert codes, f"{name} v{version} says nothing"
        assert set(codes) == {int(ErrorCode.UNSUPPORTED_VERSION)}, f"{name} v{version}: {codes}"
    lines = [line.text for line in told(world, fx.LogLine)]
    assert len(lines) == 1
    assert "not served here" in lines[0]


def _sample(key: int, version: int) -> bytes:
    for line in golden_lines("wire.jsonl.gz"):
        if (line["key"], line["version"], line["type"], line["sample"]) == (key, version, "request", "full"):
            return bytes.fromhex(line["hex"])
    raise AssertionError(f"no golden request of key {key} version {version}")


def _error_codes(message: Any) -> list[int]:
    """Every error code anywhere in an answer."""
    found = []
    for line in message.TABLE:
        value = getattr(message, line.name)
        if line.name.endswith("error_code"):
            found.append(value)
        elif line.kind == "array" and isinstance(line.of, type):
            for item in value or []:
                found += _error_codes(item)
    # A version that has no room at the top leaves the field at its default.
    return [code for code in found if code]


@pytest.mark.parametrize(("key", "version"), [(8, 99), (29, 1), (38, 0), (1000, 0), (1, 3), (0, 12)])
def test_a_request_nobody_could_read_an_answer_to_closes_the_connection(
    world: World, key: int, version: int
) -> None:
    frame = key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1" + b"\xff\xff\0"
    pending = world.send_frame(1, frame, Pending(None, 0), world.connection())
    assert isinstance(pending.result, CloseConnection)
