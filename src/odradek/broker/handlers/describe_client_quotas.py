"""DescribeClientQuotas (key 48), versions 0-1.

The quotas of users, clients and addresses that a filter lets through: a component names a value (0), the default (1)
or any value (2) of one type; `strict` leaves out entities of types that have no component (KIP-546). Read from the
store, so any broker may be asked.

v0 the first (KIP-546).
v1 flexible.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.aside import made_where_short
from odradek.broker.effects import ConfigsRead, ListConfigs, StoredConfig, StoreFailed, StoreResult
from odradek.broker.quotas import CLIENT_KEYS, DEFAULT, IP_KEYS, entity_of, number
from odradek.model.entity_names import unescape_entity
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

# Entities that are told in the turn in which the store has answered, some milliseconds. A thread makes longer answers.
MOST_AT_ONCE = 1_000
EXACT, IS_DEFAULT, ANY = range(3)
TYPES = {"user": "user", "client-id": "client", "ip": "ip"}  # type -> how Apache's messages call it

Named = dict[str, str | None]  # entity type -> name, None: everybody else


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = DescribeClientQuotasRequest.decode(version, request.body, budget=request.budget)

    def refused(code: ErrorCode, message: str) -> Reply:
        response = DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)
        return Reply([response.encode(version)])

    try:
        components = _components(asked.components)
    except ProtocolError as refusal:
        return refused(refusal.code, refusal.message)
    park = Park()

    def answered(result: StoreResult, later_ms: int) -> None:
        if not isinstance(result, ConfigsRead):
            reason = result.reason if isinstance(result, StoreFailed) else "the store answered something else"
            park.answer(lambda: refused(ErrorCode.UNKNOWN_SERVER_ERROR, reason))
            return
        configs = result.configs

        def encode() -> bytes:
            return _encoded(version, asked, components, configs)

        is_short = len(configs) <= MOST_AT_ONCE
        park.answer(lambda: made_where_short(broker.aside, encode, later_ms, is_short=is_short))

    broker.ask_store(ListConfigs(("users", "clients", "ips")), answered)
    return park


def _encoded(
    version: int,
    asked: DescribeClientQuotasRequest,
    components: dict[str, ComponentData],
    configs: Mapping[tuple[str, str], StoredConfig],
) -> bytes:
    entries = []
    for (kind, name), stored in sorted(configs.items()):
        keys = IP_KEYS if kind == "ips" else CLIENT_KEYS
        found = {key: number(text) for key, text in sorted(stored.overrides.items()) if key in keys}
        values = [ValueData(key=key, value=value) for key, value in found.items() if value is not None]
        entity = _named(kind, name)
        if values and entity and _matches(components, asked.strict, entity):
            entries.append(
                EntryData(
                    entity=[EntityData(entity_type=t, entity_name=n) for t, n in entity.items()],
                    values=values,
                )
            )
    return DescribeClientQuotasResponse(error_message=None, entries=entries).encode(version)


def _components(rows: list[ComponentData]) -> dict[str, ComponentData]:
    found: dict[str, ComponentData] = {}
    for row in rows:
        if row.entity_type == "":
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "Unexpected empty filter component entity type")
        if row.entity_type not in TYPES:
            raise ProtocolError(
                ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{row.entity_type}' not supported"
            )
        if row.entity_type in found:
            raise ProtocolError(
                ErrorCode.INVALID_REQUEST,
                f"Duplicate {TYPES[row.entity_type]} filter component entity type",
            )
        if row.match_type not in (EXACT, IS_DEFAULT, ANY):
            raise ProtocolError(ErrorCode.INVALID_REQUEST, f"Unexpected match type: {row.match_type}")
        found[row.entity_type] = row
    if "ip" in found and len(found) > 1:
        raise ProtocolError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination, IP filter component should not be used with user or "
            "clientId filter component.",
        )
    return found


def _named(kind: str, name: str) -> Named:
    if kind == "ips":
        return {"ip": _name(name)}
    entity = entity_of(kind, name)
    if entity is None:
        return {}
    user, client = entity
    named: Named = {}
    if user is not None:
        named["user"] = _name(user)
    if client is not None:
        named["client-id"] = _name(client)
    return named


def _name(text: str) -> str | None:
    return None if text == DEFAULT else unescape_entity(text)


def _matches(components: dict[str, ComponentData], strict: bool, entity: Named) -> bool:
    for kind, component in components.items():
        if kind not in entity:
            return False
        if component.match_type == IS_DEFAULT and entity[kind] is not None:
            return False
        if component.match_type == EXACT and entity[kind] != component.match:
            return False
    return not strict or set(entity) <= set(components)
