"""DescribeUserScramCredentials: who has credentials in the store, and no secrets."""

from pathlib import Path
from typing import Any

import pytest

from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages import describe_user_scram_credentials as ds
from tests.broker.configs import Store
from tests.broker.world import World

SECRET = "salt=c2FsdA==,stored_key=aw==,server_key=aw==,iterations={}"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(World(tmp_path, brokers=(1,)))
    store.nodes["users", "ann%40home"] = (
        {"SCRAM-SHA-256": SECRET.format(4096), "SCRAM-SHA-512": SECRET.format(8192)},
        0,
    )
    store.nodes["users", "bob"] = ({"producer_byte_rate": "1"}, 0)
    store.nodes["users", "bob/clients/app"] = ({"SCRAM-SHA-256": SECRET.format(1)}, 0)
    store.nodes["users", "<default>"] = ({"SCRAM-SHA-256": SECRET.format(1)}, 0)
    return store


def described(
    store: Store, *users: str, everybody: bool = False
) -> list[tuple[str, int, list[Any], str | None]]:
    asked = None if everybody else [ds.UserName(name=user) for user in users]
    pending = store.world.send(1, ds.DescribeUserScramCredentialsRequest(users=asked), 0)
    store.serve()
    assert pending.message.error_code == 0
    return [
        (
            row.user,
            row.error_code,
            [(c.mechanism, c.iterations) for c in row.credential_infos],
            row.error_message,
        )
        for row in pending.message.results
    ]


ANN = ("ann@home", 0, [(1, 4096), (2, 8192)], None)


def test_all_who_have_some_are_told_when_nobody_is_named(store: Store) -> None:
    assert described(store, everybody=True) == described(store) == [ANN]


def test_those_named_are_told_or_refused_alone(store: Store) -> None:
    missing = "Attempt to describe a user credential that does not exist: {}"
    twice = "Cannot describe SCRAM credentials for the same user twice in a single request: eve"
    assert described(store, "bob", "ann@home", "eve", "eve") == [
        ("bob", ErrorCode.RESOURCE_NOT_FOUND, [], missing.format("bob")),
        ANN,
        ("eve", ErrorCode.DUPLICATE_RESOURCE, [], twice),
    ]


@pytest.mark.parametrize("text", ["", "salt=x", "iterations=many", "iterations=\u00b2"])
def test_a_credential_that_cannot_be_read_is_said_without_it(store: Store, text: str) -> None:
    store.nodes["users", "cut"] = ({"SCRAM-SHA-512": text}, 0)
    (row,) = described(store, "cut")
    assert row == (
        "cut",
        ErrorCode.UNKNOWN_SERVER_ERROR,
        [],
        "The SCRAM-SHA-512 credential of user cut cannot be read",
    )
