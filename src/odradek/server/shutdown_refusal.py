"""`odradek.controlled.shutdown.refuse`: whether this broker may stop, decided before anything is moved.

S3's outage was a graceful stop that took partitions offline in silence. With `offline` or `under-min` the broker
asks for the impact first: the controller's own steps, run on a copy of what stands in the store. If it says that
partitions would go offline (or fall under min.insync.replicas), the broker waits and asks again, as often and as
long as for a controlled shutdown (3 times, 5 s); a follower that is just catching up is all it takes. After that it
stays up and says why, with the reassignment that would heal it. `kill -9` is not asked.

The wire knows no refusal, so it is this process that refuses: nobody else is told that the broker wanted to go.
Two that ask in the same moment are each told that the other stays. So with `under-min` the broker looks once more when it
has handed over and left every ISR: the controller lets go one after the other, and the later one finds too few left.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from odradek.broker.core import Broker
from odradek.model.counted import counted
from odradek.model.errors import OdradekError
from odradek.model.ids import BrokerId, TopicPartition
from odradek.model.settings import BrokerSettings
from odradek.server.controlled_shutdown import attempts_of, was_hurried
from odradek.store import api

if TYPE_CHECKING:
    from odradek.controller.context import ControllerContext
    from odradek.controller.core import ControllerCore

logger = logging.getLogger("odradek.server")

MOST_NAMED = 10

# Partitions that were said to keep enough in sync.
Promised = frozenset[TopicPartition]
T = TypeVar("T")


class Aside(Protocol):
    """Has a thread do something, as `Environment.run_aside`."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


class ShutdownRefused(OdradekError):
    """The broker stays up. The message says why; the impact was printed."""


async def agree(
    store: Callable[[], api.Store | None],
    core: Callable[[], "ControllerCore | None"],
    settings: BrokerSettings,
    broker: BrokerId,
    hurry: asyncio.Event,
    aside: Aside,
) -> Promised:
    """Returns when the broker may stop; ShutdownRefused otherwise. `core`: of the controller, if it lives here. Both are
    asked for at every attempt: meanwhile another session may have begun, and a thread may step the core. `aside`: of 40,000
    partitions the impact takes seconds, in which clients are still served.
    """
    refuse = settings.odradek_controlled_shutdown_refuse
    attempts = attempts_of(settings)
    pause_s = settings.controlled_shutdown_retry_backoff_ms / 1000
    told: list[str] = []
    for attempt in range(1, attempts + 1):
        try:
            known = await _known(store(), core(), settings)
            why, sentences, promised = await aside(partial(_judged, known, broker, refuse))
        except api.StoreError as error:
            why, sentences = f"what stopping would cost cannot be read from the store: {error}", []
        else:
            if why is None:
                return promised
        if sentences != told:
            told = sentences
            for sentence in sentences:
                logger.warning("%s", sentence)
        logger.warning("attempt %d of %d to stop: %s", attempt, attempts, why)
        if attempt == attempts or await was_hurried(hurry, pause_s):
            break
    raise ShutdownRefused(
        f"broker {broker} stays up, odradek.controlled.shutdown.refuse={refuse}: {why}. Reassign first as said above, "
        f"or set it to none, or use kill -9"
    )


async def fell_under_min(
    store: api.Store | None,
    core: "ControllerCore | None",
    settings: BrokerSettings,
    broker: BrokerId,
    promised: Promised,
    aside: Aside,
) -> str | None:
    """After leadership was handed over: why the broker must stay all the same. None: as was promised."""
    if not promised:
        return None
    try:
        context = await aside(await _known(store, core, settings))
    except api.StoreError as error:
        return f"whether enough stay in sync cannot be read from the store: {error}"
    here = context.partitions_on.get(broker, set())
    short = [
        where
        for where in sorted(promised & here)
        if (state := context.leadership(where)) is not None
        and len(set(state.isr) - {broker}) < context.effective_min_isr(where)
        and not context.is_queued_for_deletion(where.topic)
    ]
    if not short:
        return None
    return (
        f"{counted(len(short), 'partition')} fell under min.insync.replicas while it left, first {short[0]}: another broker was "
        "lost or left at the same time"
    )


def _promised(context: "ControllerContext", broker: BrokerId) -> Promised:
    """Partitions that have enough in sync, this broker among them, and shall have enough without it."""
    return frozenset(
        where
        for where in context.partitions_on.get(broker, ())
        if (state := context.leadership(where)) is not None
        and broker in state.isr
        and len(state.isr) >= context.effective_min_isr(where)
    )


async def _known(
    store: api.Store | None, core: "ControllerCore | None", settings: BrokerSettings
) -> "Callable[[], ControllerContext]":
    """What is known of the cluster, to be made into a context by a thread."""
    # Not above: a broker that is never refused needs no controller for it.
    from odradek.advisor.observed import observed_context
    from odradek.controller.context import ControllerSettings
    from odradek.store.facts import read_metadata

    if core is not None and core.context is not None and not core.is_writing:
        forked = core.context.fork()  # by now: it is stepped on meanwhile. It also knows who else is leaving
        return lambda: forked
    if store is None:
        raise api.StoreUnavailable(message="there is no session")
    return partial(observed_context, await read_metadata(store), ControllerSettings.of(settings))


def _judged(
    known: "Callable[[], ControllerContext]", broker: BrokerId, refuse: str
) -> tuple[str | None, list[str], Promised]:
    """Why the broker may not stop, the impact in sentences, and what is promised if it may."""
    from odradek.advisor.shutdown_impact import shutdown_impact

    context = known()
    if broker not in context.brokers:  # its session is over, and another begins
        return (
            "it is not registered at the moment, so nobody can say what stopping would cost",
            [],
            frozenset(),
        )
    impact = shutdown_impact(context, [broker])
    promised: Promised = _promised(context, broker) if refuse == "under-min" else frozenset()
    return impact.refuses(refuse), impact.sentences(), promised


def only_here(broker: Broker) -> list[TopicPartition]:
    """Partitions this broker leads and nobody else has a replica of: they go offline with it, whatever is asked of
    the controller (row 126)."""
    return sorted(
        TopicPartition(topic, index)
        for topic, partitions in broker.metadata.topics.items()
        for index, known in partitions.items()
        if known.leader == broker.broker_id and list(known.replicas) == [broker.broker_id]
    )


def warn_of_only_replicas(broker: Broker) -> None:
    alone = only_here(broker)
    if alone:
        named = ", ".join(map(str, alone[:MOST_NAMED])) + (", ..." if len(alone) > MOST_NAMED else "")
        logger.warning(
            "broker %d holds the only replica of %d partitions: %s; they are offline while it is down. Reassign "
            "them first to keep them available",
            broker.broker_id,
            len(alone),
            named,
        )
