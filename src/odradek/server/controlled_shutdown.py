"""Handing leadership over before the broker stops (row 160): asked of the controller, repeated, then stopped
anyway.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from odradek.model.counted import counted
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerEpoch, BrokerId
from odradek.model.settings import BrokerSettings
from odradek.protocol.messages.controlled_shutdown import ControlledShutdownRequest
from odradek.server.controller_channel import ControllerChannel
from odradek.server.endpoints import error_of
from odradek.server.environment import Environment

logger = logging.getLogger("odradek.server")

CONTROLLED_SHUTDOWN = 7
VERSION = 3


def attempts_of(settings: BrokerSettings) -> int:
    """`controlled.shutdown.max.retries`; one at least where the broker goes only if it can."""
    attempts: int = settings.controlled_shutdown_max_retries
    return attempts if settings.odradek_controlled_shutdown_refuse == "none" else max(attempts, 1)


async def hand_over(
    channel: ControllerChannel,
    environment: Environment,
    settings: BrokerSettings,
    broker: BrokerId,
    broker_epoch: Callable[[], BrokerEpoch],
    hurry: asyncio.Event,
) -> bool:
    """True when no partition with other replicas is led here any more. `broker_epoch`: asked for at every attempt, for meanwhile
    another session may have begun. `hurry` ends it early."""
    pause_s = settings.controlled_shutdown_retry_backoff_ms / 1000
    attempts = attempts_of(settings)
    for attempt in range(1, attempts + 1):
        answer: asyncio.Future[Any] = environment.loop.create_future()

        def answered(message: Any, answer: "asyncio.Future[Any]" = answer) -> None:
            if not answer.done():
                answer.set_result(message)

        request = ControlledShutdownRequest(broker_id=broker, broker_epoch=broker_epoch())
        channel.send(CONTROLLED_SHUTDOWN, request, VERSION, answered)
        if not await _unless(hurry, answer, settings.request_timeout_ms / 1000):
            break
        problem = _problem(answer.result())
        if problem is None:
            return True
        logger.warning("controlled shutdown, attempt %d of %d: %s", attempt, attempts, problem)
        if attempt == attempts or await was_hurried(hurry, pause_s):
            break
    return False


def _problem(answer: Any | None) -> str | None:
    if answer is None:
        return "the controller could not be asked"
    error = error_of(answer.error_code)
    if error is not ErrorCode.NONE:
        return f"the controller answered {error.name}"
    if answer.remaining_partitions:
        named = ", ".join(f"{p.topic_name}-{p.partition_index}" for p in answer.remaining_partitions[:10])
        return f"no other leader yet for {counted(len(answer.remaining_partitions), 'partition')}: {named}"
    return None


async def _unless(hurry: asyncio.Event, answer: "asyncio.Future[Any]", timeout_s: float) -> bool:
    """True when the answer is there; False when somebody is in a hurry. Past the timeout the answer is None."""
    hurried = asyncio.ensure_future(hurry.wait())
    try:
        await asyncio.wait({answer, hurried}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        hurried.cancel()
    if hurry.is_set():
        return False
    if not answer.done():
        answer.set_result(None)
    return True


async def was_hurried(hurry: asyncio.Event, pause_s: float) -> bool:
    """Pauses; True when somebody cannot wait."""
    try:
        async with asyncio.timeout(pause_s):
            await hurry.wait()
    except TimeoutError:
        return False
    return True
