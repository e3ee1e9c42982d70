"""One question to every broker of a cluster, side by side: what each of them said, and why the others did not.

A broker that is stopped takes connections and answers nothing. Asked one after the other, each of those costs its whole
time-out; side by side all of them together cost one.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from odradek.client.sync import SyncClient, answered
from odradek.model.errors import OdradekError
from odradek.protocol.schema import Request

# Who lists what it coordinates takes some milliseconds, and longer where it has just become the leader of it and reads.
PATIENCE_S = 10.0


class Told(NamedTuple):
    """Answers by broker, and of those that gave none in time, or an error, the reason; both in the order of the ids."""

    answers: dict[int, Any]
    problems: dict[int, str]


def of_every_broker(
    client: SyncClient,
    request: Request,
    *,
    brokers: Iterable[int] | None = None,
    timeout_s: float = PATIENCE_S,
) -> Told:
    """`request` has an error code of its own and may be sent twice: while its error may pass it is, until `timeout_s` are over for
    all. `brokers` None: all that are alive. OdradekError: nobody says who is."""
    left_s = client.left_of(timeout_s)

    def ask(own: SyncClient, broker: int) -> Any:
        def once() -> Any:
            answer = own.call(broker, request, timeout_s=left_s())
            if answer.error_code:
                raise answered(answer.error_code, f"broker {broker}")
            return answer

        return own.retrying(once, timeout_s=left_s())

    if brokers is None:
        brokers = client.cluster([], timeout_s=left_s()).brokers
    return side_by_side(client, ask, brokers, timeout_s=timeout_s)


def side_by_side(
    client: SyncClient, ask: Callable[[SyncClient, int], Any], brokers: Iterable[int], *, timeout_s: float
) -> Told:
    """What `ask` returns of each broker, or the OdradekError that it raises. It is given a client of its own, whose every request
    takes at most `timeout_s`. Those for which there is no thread are asked one after the other."""
    asked = sorted(set(brokers))
    answers: dict[int, Any] = {}
    problems: dict[int, str] = {}
    mistakes: list[BaseException] = []

    def of(broker: int, own: SyncClient) -> None:
        try:
            with own:
                answers[broker] = ask(own, broker)
        except OdradekError as error:
            problems[broker] = str(error)
        except BaseException as mistake:  # raised where it is seen
            mistakes.append(mistake)

    threads: list[threading.Thread] = []
    here: list[tuple[int, SyncClient]] = []
    for broker in asked:
        own = client.another(timeout_s)
        thread = threading.Thread(target=of, args=(broker, own), daemon=True, name=f"broker {broker}")
        try:
            thread.start()
        except (RuntimeError, MemoryError):  # the machine has none left
            here.append((broker, own))
        else:
            threads.append(thread)
    for broker, own in here:
        of(broker, own)
    for thread in threads:
        thread.join()
    if mistakes:
        raise mistakes[0]
    return Told(
        {broker: answers[broker] for broker in asked if broker in answers},
        {broker: problems[broker] for broker in asked if broker in problems},
    )
