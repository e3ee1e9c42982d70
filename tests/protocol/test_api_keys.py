"""The table of keys against Apache's own, and against the tables of fields."""

import json

import pytest

from odradek.broker.handlers.envelope import FORWARDABLE
from odradek.model.error_codes import INVALID_METADATA, RETRIABLE, ErrorCode
from odradek.protocol import messages
from odradek.protocol.api_keys import (
    APIS,
    BETWEEN_BROKERS,
    CONTROLLER_ONLY,
    FIRST_PRODUCE_VERSION,
    SERVED,
    ApiKey,
    is_flexible,
    is_served,
)
from odradek.protocol.errors import UnsupportedVersion
from tests.protocol.golden import OF_4_1, message_classes
from tests.support import GOLDEN, each

APACHE = {row["key"]: row for row in json.loads((GOLDEN / "api_versions.json").read_text())["apis"]}


@each(APIS)
def test_a_key_has_the_name_and_versions_of_apache(key: int) -> None:
    api, row = APIS[key], APACHE[key]
    assert api.name == row["name"]
    assert api.key.name == ApiKey(key).name
    assert row["min"] <= api.first_version <= api.last_version == OF_4_1.get(key, row["max"])
    assert api.first_flexible == (row["first_flexible"] if row["first_flexible"] >= 0 else 32767)
    assert is_flexible(key, api.last_version) == (row["first_flexible"] >= 0)


@each(message_classes())
def test_a_table_has_the_versions_its_key_says(message: type) -> None:
    api = APIS[message.KEY]
    assert (message.VERSIONS.first, message.VERSIONS.last) == (api.first_version, api.last_version)
    for version in range(api.first_version, api.last_version + 1):
        assert message.is_flexible(version) == is_flexible(api.key, version)


def test_all_that_a_zookeeper_mode_broker_serves_has_a_table_but_delegation_tokens() -> None:
    served_by_apache = {key for key, row in APACHE.items() if row["zk_broker"]}
    assert served_by_apache - set(APIS) == {38, 39, 40, 41}


def test_what_is_served() -> None:
    clients = {0, 1, 2, 3, *range(8, 38), *range(42, 51), 57, 60, 61, 65, 66, 68, 69, 75}
    brokers = {4, 5, 6, 7, 27, 56, 58, 67}
    assert set(SERVED) == clients | brokers
    assert is_served(9, 9) and is_served(28, 3) and not is_served(38, 0)
    assert is_served(1, 4) and is_served(1, 17) and not is_served(1, 3) and not is_served(1, 18)


def test_produce_is_listed_from_0_for_librdkafka_but_appends_from_3() -> None:
    assert SERVED[ApiKey.PRODUCE] == (0, 12)
    assert FIRST_PRODUCE_VERSION == 3


def test_what_apache_reserves_for_brokers_is_reserved_here() -> None:
    cluster_action = {key for key, row in APACHE.items() if row["cluster_action"] and key in APIS}
    # UpdateFeatures is marked so by Apache, but it is administrators who send it.
    assert cluster_action - {57} == set(BETWEEN_BROKERS)
    assert set(CONTROLLER_ONLY) >= {19, 20, 37, 43, 45, 46}


def test_an_unknown_key_names_the_known_ones() -> None:
    with pytest.raises(UnsupportedVersion, match=r"key 38 is not known; known are 0-37, 42-51"):
        messages.request_class(38)


def test_error_codes_are_those_of_apache() -> None:
    rows = json.loads((GOLDEN / "error_codes.json").read_text())["errors"]
    of_3_9 = {row["code"]: row["name"] for row in rows}
    of_4_1 = {128: "INVALID_REGULAR_EXPRESSION"}
    assert of_3_9 | of_4_1 == {code.value: code.name for code in ErrorCode}
    assert {row["code"] for row in rows if row["retriable"]} == set(RETRIABLE)
    assert {row["code"] for row in rows if row["invalid_metadata"]} == set(INVALID_METADATA)


def test_what_apache_forwards_may_come_in_an_envelope() -> None:
    """As far as it is served."""
    forwarded = {key for key, row in APACHE.items() if row["forwardable"]}
    assert set(map(int, FORWARDABLE)) == forwarded & set(map(int, SERVED))
