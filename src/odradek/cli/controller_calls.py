"""Asking the controller, while it may just be another one: a fail-over takes some hundred milliseconds.

Who is controller a client knows from metadata, which is older than a death. The broker that was asked says then that
it is not the controller, or no broker answers at its address: nothing was done, and the next one is asked.
"""

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.cli.output import Failed, fail

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient
    from odradek.protocol.schema import Request

PATIENCE_S = 10.0
PAUSE_S = 0.1
ANSWER_S = 5.0
LEAST_S = 1.0  # for who is controller by now: on a busy machine an answer may take a part of it
# Who waits for a move of hours does not give up because a broker is restarted.
POLL_PATIENCE_S = 60.0

T = TypeVar("T")


def ask_controller(
    client: "SyncClient",
    request: "Request",
    codes: Callable[[Any], Iterable[int]],
    *,
    patience_s: float = PATIENCE_S,
) -> Any:
    """The answer of whoever is controller. `codes`: the errors in an answer. A connection that breaks is not tried
    again, for then nobody knows what was done."""
    from odradek.client.sync import CONTROLLER
    from odradek.client.sync_connection import DeadlineExceeded, Unreachable
    from odradek.model.error_codes import ErrorCode

    # The controller may wait for as long as the request allows, and says only then what it could not finish.
    timeout_s = max(client.request_timeout_s, getattr(request, "timeout_ms", 0) / 1000 + ANSWER_S)
    deadline = time.monotonic() + patience_s

    def look_up() -> None:
        client.cluster([], timeout_s=max(deadline - time.monotonic(), LEAST_S))

    while True:
        answer = None
        try:
            answer = client.call(CONTROLLER, request, timeout_s=timeout_s)
            if ErrorCode.NOT_CONTROLLER not in codes(answer):
                return answer
            why = "the broker that was asked is not the controller any more"
        except Unreachable as error:
            why = str(error)
        if time.monotonic() + PAUSE_S > deadline:
            fail(f"no controller answers: {why}")
        time.sleep(PAUSE_S)
        try:
            client.retrying(look_up, timeout_s=deadline - time.monotonic())
        except (DeadlineExceeded, Unreachable) as error:
            fail(f"no controller answers: {why}, and no broker tells which one is: {error}")


def poll(ask: Callable[[], T], *, patience_s: float = POLL_PATIENCE_S) -> T:
    """The result of `ask`, a request that changes nothing and is polled: it is retried while brokers restart, for
    `patience_s` at most."""
    from odradek.client.sync_connection import ConnectionLost, DeadlineExceeded, Unreachable

    deadline = time.monotonic() + patience_s
    while True:
        try:
            return ask()
        except (ConnectionLost, DeadlineExceeded, Unreachable, Failed):
            if time.monotonic() + PAUSE_S > deadline:
                raise
        time.sleep(PAUSE_S)
