"""ApiVersions, the table of handlers behind it, and requests that nobody here answers."""

import pytest

from odradek.broker.answers import CloseConnection
from odradek.broker.effects import LogLine
from odradek.broker.handlers.table import HANDLERS
from odradek.model.error_codes import ErrorCode
from odradek.protocol.api_keys import SERVED, ApiKey
from odradek.protocol.headers import encode_request
from odradek.protocol.messages import api_versions as av
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest
from tests.broker.world import Pending, World, told


def test_every_served_key_has_a_handler_and_api_versions_says_so(world: World) -> None:
    answer = world.call(1, av.ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
    listed = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
    assert listed == dict(SERVED)
    assert listed.keys() == HANDLERS.keys()
    assert listed[0] == (0, 12), "some librdkafka releases compress only when Produce starts at 0"


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


@pytest.mark.parametrize(
    ("key", "version", "line"),
    [
        (
            11,
            1,
            "JoinGroup version 1 of {} (old) is not served here, 2 to 9 are: so asks a client from before Kafka 2.1",
        ),
        (11, 10, "JoinGroup version 10 of {} (old) is not served here, 2 to 9 are"),
        (38, 0, "API key 38 version 0 of {} (old) is not served here"),
    ],
)
def test_the_line_about_a_version_that_is_not_served_says_which_are(
    world: World, key: int, version: int, line: str
) -> None:
    connection = world.connection()
    frame = encode_request(18, 0, 7, "old", b"\0")[4:]
    frame = key.to_bytes(2, "big") + version.to_bytes(2, "big") + frame[4:]
    asked = world.send_frame(1, frame, Pending(av.ApiVersionsResponse, 0), connection)
    assert isinstance(asked.result, CloseConnection)
    assert [said.text for said in told(world, LogLine)] == [line.format(connection.peer)]


@pytest.mark.parametrize("name", ["", "-x", "x-", "has space", "ünicode"])
def test_api_versions_refuses_a_software_name_that_is_none(world: World, name: str) -> None:
    answer = world.call(1, av.ApiVersionsRequest(client_software_name=name, client_software_version="1"), 3)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("key", "version"), [(8, 99), (29, 1), (38, 0), (1000, 0), (1, 3), (0, 13), (22, 6)])
@pytest.mark.behaviour("T32")
def test_a_request_nobody_could_read_an_answer_to_closes_the_connection(
    world: World, key: int, version: int
) -> None:
    frame = key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\1" + b"\xff\xff\0"
    pending = world.send_frame(1, frame, Pending(None, 0), world.connection())
    assert isinstance(pending.result, CloseConnection)
