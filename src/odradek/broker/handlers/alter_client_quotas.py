"""AlterClientQuotas (key 49), versions 0-1.

Sets and removes quotas of a user, a client id, both together, or an address; a name of null is everybody without a
value of their own (KIP-546). Any broker may be asked; the node is written and the change announced there. What else
stands in a user's node (SCRAM) stays. `validate_only` writes nothing.

v0 the first (KIP-546).
v1 flexible.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.config_changes import Alteration, Entity, Error
from odradek.broker.quotas import CLIENT_KEYS, DEFAULT, IP_KEYS, address_in
from odradek.model.entity_names import escape_entity
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.settings import INTEGER_BITS
from odradek.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    OpData,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

EPSILON = 1e-6
TYPES = ("user", "client-id", "ip")


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = AlterClientQuotasRequest.decode(version, request.body, budget=request.budget)
    errors: dict[int, Error] = {}
    entities: dict[int, Entity] = {}
    seen: set[Entity] = set()
    for place, entry in enumerate(asked.entries):
        try:
            entity = _entity(entry)
            if entity in seen:
                raise _refused("Each client quota entity must appear at most once.")
            _changed({}, entity[0], entry.ops)
            seen.add(entity)
            entities[place] = entity
        except ProtocolError as refusal:
            errors[place] = refusal.code, refusal.message

    def reply() -> Reply:
        rows = [
            AlterClientQuotasResponseEntryData(
                error_code=errors[place][0], error_message=errors[place][1], entity=entry.entity
            )
            for place, entry in enumerate(asked.entries)
        ]
        return Reply([AlterClientQuotasResponse(entries=rows).encode(version)])

    if not entities:
        return reply()
    park = Park()
    Alteration(
        broker,
        entities,
        lambda place, stored: _changed(stored, entities[place][0], asked.entries[place].ops),
        errors,
        validate_only=asked.validate_only,
        done=lambda: park.answer(reply),
    ).start()
    return park


def _refused(why: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_REQUEST, why)


def _entity(entry: AlterClientQuotasRequestEntryData) -> Entity:
    """Kind and name of the node."""
    names: dict[str, str] = {}
    is_removed = all(op.remove for op in entry.ops)  # it may have been set elsewhere
    for part in entry.entity:
        if part.entity_type not in TYPES:
            raise _refused(f"Unhandled client quota entity type: {part.entity_type}")
        if part.entity_name == "":
            raise _refused(f"Empty {part.entity_type} not supported")
        if part.entity_name in (".", ".."):
            # It is kept under its name, and no path of the store has a part like that.
            raise _refused(f"{part.entity_type} {part.entity_name} cannot have quotas of its own")
        if part.entity_type == "ip" and not is_removed and address_in(part.entity_name or "::") is None:
            raise _refused(f"{part.entity_name} is not a valid IP address; names of hosts are not looked up.")
        names[part.entity_type] = DEFAULT if part.entity_name is None else escape_entity(part.entity_name)
    user, client, address = (names.get(kind) for kind in TYPES)
    if address is not None:
        if user is not None or client is not None:
            raise _refused(
                "Invalid quota entity combination, IP entity should not be used with user/client ID entity."
            )
        return "ips", address
    if user is not None:
        return "users", user if client is None else f"{user}/clients/{client}"
    if client is None:
        raise _refused("Invalid empty client quota entity")
    return "clients", client


def _changed(stored: Mapping[str, str], kind: str, ops: list[OpData]) -> dict[str, str]:
    keys = IP_KEYS if kind == "ips" else CLIENT_KEYS
    values = dict(stored)
    for op in ops:
        number_type = keys.get(op.key)
        if op.remove:
            if number_type is not None:
                values.pop(op.key, None)
            continue
        if number_type is None:
            raise _refused(f"Invalid configuration key {op.key}")
        if not 0 <= op.value < float("inf"):
            # By Apache's rounding a negative number is not whole.
            wanted = "a LONG value" if number_type == "LONG" else "0 or more"
            raise _refused(f"Configuration {op.key} must be {wanted}")
        if number_type == "DOUBLE":
            values[op.key] = repr(float(op.value))
            continue
        # As Apache casts it: what does not fit becomes the largest that does, and that is not what was asked for. Its brokers
        # read the node as that type, and fail over a larger number.
        whole = min(int(op.value + EPSILON), (1 << (INTEGER_BITS[number_type] - 1)) - 1)
        if abs(whole - op.value) > EPSILON:
            raise _refused(f"Configuration {op.key} must be a {number_type} value")
        values[op.key] = str(whole)
    return values
