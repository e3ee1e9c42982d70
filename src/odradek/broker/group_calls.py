"""How a handler asks the coordinators: one group, or many of which each may have another."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from odradek.broker.answers import Answer, Park, Reply
from odradek.coordinator.member import Client
from odradek.protocol.schema import Request as Message
from odradek.protocol.schema import Response

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def client_of(request: "Request") -> Client:
    return Client(request.client_id or "", f"/{request.connection.address}")


def ask_group(broker: "Broker", request: "Request", message: Message, group_id: str, now_ms: int) -> Answer:
    park = Park()
    version = request.api_version
    broker.groups.ask(
        broker.groups.index_of(group_id),
        message,
        version,
        client_of(request),
        lambda response: park.answer(lambda: Reply([response.encode(version)])),
        now_ms,
    )
    return park if park.result is None else park.result


def ask_each(
    broker: "Broker",
    request: "Request",
    parts: Mapping[int, Message],
    merge: Callable[[list[Any]], Response],
    now_ms: int,
) -> Answer:
    """`parts`: what each partition's coordinator is asked; `merge` makes one answer of theirs."""
    park = Park()
    version = request.api_version
    answers: list[Response] = []

    def done(response: Response) -> None:
        answers.append(response)
        if len(answers) == len(parts):
            park.answer(lambda: Reply([merge(answers).encode(version)]))

    if not parts:
        return Reply([merge([]).encode(version)])
    for index, message in sorted(parts.items()):
        broker.groups.ask(index, message, version, client_of(request), done, now_ms)
    return park if park.result is None else park.result


def by_partition(broker: "Broker", group_ids: Iterable[str]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for group_id in group_ids:
        found.setdefault(broker.groups.index_of(group_id), []).append(group_id)
    return found
