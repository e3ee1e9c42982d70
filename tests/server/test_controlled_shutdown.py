"""What a broker does about the controller's answers before it stops (row 160)."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerEpoch, BrokerId
from odradek.model.settings import BrokerSettings
from odradek.protocol.messages.controlled_shutdown import ControlledShutdownResponse, RemainingPartition
from odradek.server.controlled_shutdown import hand_over

REMAINING = ControlledShutdownResponse(
    remaining_partitions=[RemainingPartition(topic_name="t", partition_index=0)]
)
NOT_CONTROLLER = ControlledShutdownResponse(error_code=ErrorCode.NOT_CONTROLLER)
DONE = ControlledShutdownResponse()
SETTINGS = {
    "broker.id": "1",
    "controlled.shutdown.max.retries": "3",
    "controlled.shutdown.retry.backoff.ms": "1",
    "request.timeout.ms": "50",
}


class Channel:
    """To a controller that answers each request with the next of these; "silent": not at all."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked = 0

    def send(self, api_key: int, request: Any, version: int, answered: Callable[[Any], None]) -> None:
        assert (request.broker_id, request.broker_epoch) == (1, 25 + self.asked)
        self.asked += 1
        answer = self.answers.pop(0)
        if answer != "silent":
            answered(answer)


def handed_over(channel: Channel) -> bool:
    async def ask() -> bool:
        environment: Any = SimpleNamespace(loop=asyncio.get_running_loop())
        told: Any = channel
        async with asyncio.timeout(20):
            return await hand_over(
                told,
                environment,
                BrokerSettings(SETTINGS),
                BrokerId(1),
                lambda: BrokerEpoch(25 + channel.asked),  # its session has ended, and another one begun
                asyncio.Event(),
            )

    return asyncio.run(ask())


def test_it_is_asked_as_often_as_the_setting_says_and_no_more() -> None:
    channel = Channel(REMAINING, NOT_CONTROLLER, None, DONE)
    assert not handed_over(channel)
    assert channel.asked == 3
    channel = Channel(REMAINING, None, DONE, DONE)
    assert handed_over(channel)
    assert channel.asked == 3, "the last time it had all been moved"


def test_a_controller_that_is_silent_is_asked_again_after_the_request_timeout() -> None:
    channel = Channel("silent", "silent", DONE)
    assert handed_over(channel)
    assert channel.asked == 3
