"""DescribeUserScramCredentials (key 50), version 0.

Which SCRAM mechanisms users have, and with how many iterations; never the secrets (KIP-554). Read from the store,
where an Apache broker may have put them, so any broker may be asked. Null or no users: all who have some. Apache's
ConfigCommand asks this whenever it shows the quotas of users.

v0 the only one (KIP-554).
"""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.aside import made_where_short
from odradek.broker.effects import ConfigsRead, ListConfigs, StoredConfig, StoreFailed, StoreResult
from odradek.broker.quotas import DEFAULT
from odradek.model.entity_names import unescape_entity
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import number_in
from odradek.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

# Users that are told of in the turn in which the store has answered, some milliseconds. A thread makes longer answers.
MOST_AT_ONCE = 1_000
# The key in a user's node, and the mechanism's number on the wire.
MECHANISMS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = DescribeUserScramCredentialsRequest.decode(version, request.body, budget=request.budget)
    times = Counter(user.name for user in asked.users or ())
    park = Park()

    def answered(result: StoreResult, later_ms: int) -> None:
        if not isinstance(result, ConfigsRead):
            reason = result.reason if isinstance(result, StoreFailed) else "the store answered something else"
            response = DescribeUserScramCredentialsResponse(
                error_code=ErrorCode.UNKNOWN_SERVER_ERROR, error_message=reason
            )
            park.answer(lambda: Reply([response.encode(version)]))
            return
        configs = result.configs

        def encode() -> bytes:
            return _encoded(version, times, configs)

        is_short = len(configs) <= MOST_AT_ONCE
        park.answer(lambda: made_where_short(broker.aside, encode, later_ms, is_short=is_short))

    broker.ask_store(ListConfigs(("users",)), answered)
    return park


def _encoded(
    version: int, times: Mapping[str, int], configs: Mapping[tuple[str, str], StoredConfig]
) -> bytes:
    """`times`: how often the request names each user; empty: all are asked for."""
    stored = {
        unescape_entity(name): config.overrides
        for (_, name), config in configs.items()
        if "/" not in name and name != DEFAULT
    }
    having = [user for user in sorted(stored) if stored[user].keys() & MECHANISMS.keys()]
    rows = [
        _described(user, stored.get(user, {})) if times.get(user, 0) < 2 else _twice(user)
        for user in times or having
    ]
    return DescribeUserScramCredentialsResponse(error_message=None, results=rows).encode(version)


def _described(user: str, config: Mapping[str, str]) -> DescribeUserScramCredentialsResult:
    row = DescribeUserScramCredentialsResult(user=user, error_message=None)
    for key, mechanism in MECHANISMS.items():
        if key not in config:
            continue
        iterations = _iterations(config[key])
        if iterations is None:
            row.error_code = ErrorCode.UNKNOWN_SERVER_ERROR
            row.error_message = f"The {key} credential of user {user} cannot be read"
            row.credential_infos = []
            return row
        row.credential_infos.append(CredentialInfo(mechanism=mechanism, iterations=iterations))
    if not row.credential_infos:
        row.error_code = ErrorCode.RESOURCE_NOT_FOUND
        row.error_message = f"Attempt to describe a user credential that does not exist: {user}"
    return row


def _twice(user: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=ErrorCode.DUPLICATE_RESOURCE,
        error_message=f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}",
    )


def _iterations(credential: str) -> int | None:
    """Of `salt=...,stored_key=...,server_key=...,iterations=4096`."""
    fields = dict(part.split("=", 1) for part in credential.split(",") if "=" in part)
    return number_in(fields.get("iterations", ""))
