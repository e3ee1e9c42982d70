"""AlterClientQuotas (key 49), versions 0-1.

Sets and removes quotas of a user, a client id, both together, or an address; a name of null is everybody without a
value of their own (KIP-546). Any broker may be asked; the node is written and the change announced there. What else
stands in a user's node (SCRAM) stays. `validate_only` writes nothing.

v0 the first (KIP-546).
v1 flexible.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Park
from odradek.broker.aside import made_where_short
from odradek.broker.config_changes import AT_ONCE, Alteration, Entity, Error
from odradek.broker.quotas import CLIENT_KEYS, DEFAULT, IP_KEYS, address_in
from odradek.broker.slices import answer_in_slices
from odradek.model.entity_names import escape_entity
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.settings import INTEGER_BITS
from odradek.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    OpData,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

EPSILON = 1e-6
TYPES = ("user", "client-id", "ip")
# Letters of names that are looked at in one turn, each of which may have to be escaped: a few milliseconds.
LETTERS_AT_ONCE = 50_000


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    asked = AlterClientQuotasRequest.decode(version, request.body, budget=request.budget)
    errors: dict[int, Error] = {}
    entities: dict[int, Entity] = {}
    seen: set[Entity] = set()

    def steps() -> Iterator[None]:
        count = letters = 0
        for place, entry in enumerate(asked.entries):
            parts = {part.entity_type: part.entity_name for part in entry.entity}
            size = sum(len(name or "") for name in parts.values())
            if count == AT_ONCE or letters + size > LETTERS_AT_ONCE:
                yield
                count = letters = 0
            count += 1
            letters += size
            try:
                entity = _entity(parts, entry.ops)
                if entity in seen:
                    raise _refused("Each client quota entity must appear at most once.")
                _changed({}, entity[0], entry.ops)
                seen.add(entity)
                entities[place] = entity
            except ProtocolError as refusal:
                errors[place] = refusal.code, refusal.message

    def encoded() -> bytes:
        rows = [
            AlterClientQuotasResponseEntryData(
                error_code=errors[place][0], error_message=errors[place][1], entity=entry.entity
            )
            for place, entry in enumerate(asked.entries)
        ]
        return AlterClientQuotasResponse(entries=rows).encode(version)

    def reply() -> Answer:
        return made_where_short(broker.aside, encoded, broker.now_ms, is_short=len(asked.entries) <= AT_ONCE)

    def alter() -> Answer:
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

    return answer_in_slices(broker.slices, steps(), alter)


def _refused(why: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_REQUEST, why)


def _entity(parts: Mapping[str, str | None], ops: list[OpData]) -> Entity:
    """Kind and name of the node. `parts`: name by type; of a type that is there twice the last one, as in Apache."""
    names: dict[str, str] = {}
    is_removed = all(op.remove for op in ops)  # it may have been set elsewhere
    for kind, name in parts.items():
        if kind not in TYPES:
            raise _refused(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _refused(f"Empty {kind} not supported")
        if name in (".", ".."):
            # It is kept under its name, and no path of the store has a part like that.
            raise _refused(f"{kind} {name} cannot have quotas of its own")
        if kind == "ip" and not is_removed and address_in(name or "::") is None:
            raise _refused(f"{name} is not a valid IP address; names of hosts are not looked up.")
        names[kind] = DEFAULT if name is None else escape_entity(name)
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
