"""Brokers that Metadata names and that do not answer. One that has ended is named as long as its session with the metadata store
cannot be ended (the store's disk is full, for instance), and leads its partitions as long."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient

ANSWER_WITHIN_S = 2.0
REMEDY = (
    "start broker {0} if it has ended; the logs of the others say why it still counts as live. If it runs, it hangs, or this client "
    "cannot reach it"
)


def silent_brokers(client: "SyncClient", brokers: Iterable[int]) -> dict[int, str]:
    """Why each that gives no answer gives none, in the order of the ids."""
    from odradek.client.sync_brokers import side_by_side
    from odradek.protocol.messages.api_versions import ApiVersionsRequest

    def ask(own: "SyncClient", broker: int) -> Any:
        return own.call(broker, ApiVersionsRequest())

    silent = side_by_side(client, ask, brokers, timeout_s=ANSWER_WITHIN_S).problems
    return {broker: why.removeprefix(f"broker {broker}: ") for broker, why in silent.items()}


def taken_to_live(broker: int, why: str) -> str:
    """Of one that a prediction counts on."""
    return (
        f"whether broker {broker} lives, which is taken for granted: {why}; odradek what-if --kill {broker} says what follows if it "
        "does not"
    )


def if_they_live(brokers: Iterable[int]) -> str:
    """The end of a promise that counts on these."""
    named = [*map(str, brokers)]
    if not named:
        return ""
    who = f"broker {named[0]} lives" if len(named) == 1 else f"brokers {', '.join(named)} live"
    return f", as long as {who}"


def not_known_to_live(broker: int, why: str) -> str:
    return f"whether broker {broker} lives: {why}; {REMEDY.format(broker)}"
