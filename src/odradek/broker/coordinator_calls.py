"""How a handler asks the coordinators of one kind: one of them, or many, each about what is its own."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from odradek.broker.answers import Answer, Park, Reply
from odradek.broker.aside import answer_with
from odradek.broker.slices import Slices, heard
from odradek.coordinator.later import Later, Make
from odradek.coordinator.member import Client
from odradek.protocol.schema import Request as Message
from odradek.protocol.schema import Response

if TYPE_CHECKING:
    from odradek.broker.coordinator_shards import CoordinatorShards
    from odradek.broker.request import Request


# Groups, or transactional ids, that are asked about in one turn: a few milliseconds.
NAMES_AT_ONCE = 500
# Groups and their members, or transactional ids, that are copied in one turn: a millisecond or two.
SIZE_AT_ONCE = 5_000
# Letters of names whose partition is looked for in one turn, a step of Python each: some three milliseconds.
LETTERS_AT_ONCE = 50_000


def client_of(request: "Request") -> Client:
    return Client(request.client_id or "", f"/{request.connection.address}")


def ask_one(
    shards: "CoordinatorShards[Any]", request: "Request", message: Message, name: str, now_ms: int
) -> Answer:
    """`name`: of the group, or the transactional id."""
    return ask_each(shards, request, {shards.index_of(name): message}, only, now_ms)


def only(answers: list[Any]) -> Response:
    (response,) = answers
    return response  # type: ignore[no-any-return]


def ask_each(
    shards: "CoordinatorShards[Any]",
    request: "Request",
    parts: Mapping[int, Message],
    merge: Callable[[list[Any]], Response],
    now_ms: int,
) -> Answer:
    """`parts`: what each partition's coordinator is asked; `merge` makes one answer of theirs."""
    park = Park()
    version = request.api_version
    answers: list[Response | Later] = []

    def done(response: Response | Later) -> None:
        answers.append(response)
        if len(answers) < len(parts):
            return
        if any(isinstance(one, Later) for one in answers):
            _merge_aside(shards, park, answers, merge, version, now_ms)
        else:
            park.answer(lambda: Reply([merge(answers).encode(version)]))

    if not parts:
        return Reply([merge([]).encode(version)])
    for index, message in sorted(parts.items()):
        shards.ask(index, message, version, client_of(request), done, now_ms)
    return park if park.result is None else park.result


def ask_about(
    shards: "CoordinatorShards[Any]",
    slices: Slices,
    request: "Request",
    names: Sequence[str],
    message_of: Callable[[list[str]], Message],
    merge: Callable[[list[Any]], Response],
    now_ms: int,
    *,
    at_once: int | None = None,
) -> Answer:
    """`names`, each once: of groups, or transactional ids. Of more than `at_once` (NAMES_AT_ONCE), or long ones, a slice asks about so many, and a
    thread makes the answer: for what may come behind what the same connection asks later, as questions, and removals whose end
    nobody has been told."""
    left = pieces_of(names, NAMES_AT_ONCE if at_once is None else at_once)[::-1]
    if len(left) <= 1:
        found = by_partition(shards, names)
        parts = {index: message_of(some) for index, some in found.items()}
        return ask_each(shards, request, parts, merge, now_ms)
    park = Park()
    version, client = request.api_version, client_of(request)
    answers: list[Response | Later] = []
    asked = 0

    def done(response: Response | Later) -> None:
        answers.append(response)
        if not left and len(answers) == asked:
            _merge_aside(shards, park, answers, merge, version, now_ms)

    def ask(later_ms: int) -> bool:
        nonlocal asked
        if park.abandoned:
            return False
        found = by_partition(shards, left.pop())
        asked += len(found)
        for index, some in sorted(found.items()):
            shards.ask(index, message_of(some), version, client, done, later_ms)
        return bool(left)

    slices.begin(heard(park, ask))
    return park


def ask_all(
    shards: "CoordinatorShards[Any]",
    slices: Slices,
    request: "Request",
    message: Message,
    merge: Callable[[list[Any]], Response],
    now_ms: int,
) -> Answer:
    """Every coordinator of this broker about all it has, of which it makes a copy: where that is much, one of them in a slice."""
    if shards.size <= SIZE_AT_ONCE:
        return ask_each(shards, request, dict.fromkeys(shards.shards, message), merge, now_ms)
    park = Park()
    version, client = request.api_version, client_of(request)
    answers: list[Response | Later] = []
    left = sorted(shards.shards, reverse=True)
    asked = 0

    def ask(later_ms: int) -> bool:
        nonlocal asked
        if park.abandoned:
            return False
        while left and left[-1] not in shards.shards:
            left.pop()  # another broker coordinates these by now
        if left:
            asked += 1
            shards.ask(left.pop(), message, version, client, answers.append, later_ms)
        if left:
            return True
        assert len(answers) == asked, "each says at once what it has"
        _merge_aside(shards, park, answers, merge, version, later_ms)
        return False

    slices.begin(heard(park, ask))
    return park


def _merge_aside(
    shards: "CoordinatorShards[Any]",
    park: Park,
    answers: Sequence[Response | Later],
    merge: Callable[[list[Any]], Response],
    version: int,
    now_ms: int,
) -> None:
    def begin() -> Merge:
        return Merge([one.see() if isinstance(one, Later) else one for one in answers], merge, version)

    answer_with(shards.aside, park, begin, now_ms)


class Merge(NamedTuple):
    """Answers with very many rows become one, in a thread."""

    answers: Sequence[Response | Make]
    merge: Callable[[list[Any]], Response]
    version: int

    def run(self) -> bytes:
        each = [one if isinstance(one, Response) else one() for one in self.answers]
        return self.merge(each).encode(self.version)


def by_partition(shards: "CoordinatorShards[Any]", names: Iterable[str]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for name in names:
        found.setdefault(shards.index_of(name), []).append(name)
    return found


def pieces_of(names: Sequence[str], most: int) -> list[Sequence[str]]:
    """So many names each, and LETTERS_AT_ONCE of them together; one at least."""
    letters = list(accumulate(map(len, names)))  # up to the end of each
    pieces: list[Sequence[str]] = []
    begin = 0
    while begin < len(names):
        before = letters[begin - 1] if begin else 0
        end = bisect_right(letters, before + LETTERS_AT_ONCE, begin)
        end = max(begin + 1, min(end, begin + most))
        pieces.append(names[begin:end])
        begin = end
    return pieces
