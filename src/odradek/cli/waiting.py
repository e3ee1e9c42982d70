"""`--wait`: a cluster that is starting is waited for, and what stands in the way is said at once and at the end."""

import sys
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from odradek.model.errors import OdradekError

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient

WAIT_S = 60.0  # for a cluster that is starting
PAUSE_S = 0.1
NO_CONTROLLER = "the cluster has no controller yet"


def wait_for_cluster(bootstrap: str, *, quiet: bool = False, deadline_s: float = WAIT_S) -> None:
    """Until somebody at `bootstrap` knows of a live controller; after the deadline one sentence says what was missing, and is Unreachable
    where nobody answered.

    Whatever may pass by itself is waited for, so also a broker that nobody has started yet.
    """
    from odradek.client.sync import SyncClient
    from odradek.client.sync_connection import Unreachable

    def missing() -> str | None:
        with SyncClient(bootstrap, bootstrap_timeout_s=2.0, request_timeout_s=2.0) as client:
            return what_is_missing(client)

    still = _wait_until_there(missing, quiet=quiet, deadline_s=deadline_s)
    if still is not None:
        kind = OdradekError if still == NO_CONTROLLER else Unreachable
        raise kind(f"no cluster within {deadline_s:g} s: {still}")


def wait_for_brokers(
    client: "SyncClient", *, count: int, ids: Collection[int], quiet: bool, deadline_s: float = WAIT_S
) -> None:
    """Until there are so many, and all of these; after the deadline whoever is asked says what does not do."""

    def missing() -> str | None:
        live = client.cluster([]).brokers
        absent = sorted(set(ids) - set(live))
        if absent:
            return f"broker {absent[0]} is not there yet"
        return f"{len(live)} of {count} brokers are there" if len(live) < count else None

    _wait_until_there(missing, quiet=quiet, deadline_s=deadline_s)


def _wait_until_there(missing: Callable[[], str | None], *, quiet: bool, deadline_s: float) -> str | None:
    """What is missing still when the time is over."""
    end = time.monotonic() + deadline_s
    is_said = quiet
    while (what := missing()) is not None and time.monotonic() + PAUSE_S <= end:
        if not is_said:
            print(f"waiting up to {deadline_s:g} s: {what}", file=sys.stderr, flush=True)
            is_said = True
        time.sleep(PAUSE_S)
    return what


def what_is_missing(client: "SyncClient") -> str | None:
    from odradek.client.sync_connection import ConnectionLost, Unreachable

    try:
        view = client.cluster([])
    except (ConnectionLost, Unreachable) as error:
        return str(error)
    return None if view.controller_id in view.brokers else NO_CONTROLLER
