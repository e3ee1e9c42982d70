"""What the controller has for one broker: sent until it is answered, and the answer is to that request."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from odradek.client.receive_buffers import BufferPool
from odradek.controller.broker_requests import StopReplicaPartition, StopReplicaRequest
from odradek.controller.events import Event, StopReplicaAnswered, TellingsLost
from odradek.model.cluster import BrokerRegistration
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import UnreadableNode
from odradek.model.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from odradek.server import outboxes as outboxes_module
from odradek.server.controller_requests import Sendable
from odradek.server.end_offset_queries import AskLogEnds
from odradek.server.links import Links
from odradek.server.log_limits import LimitedLog
from odradek.server.outboxes import MOST_ON_THE_WIRE, Bound, Outboxes
from odradek.store import layout
from tests.server.test_controller_runtime import FakeBroker

T0 = TopicPartition("t", 0)
NEVER_REACHED = Bound(10_000, 100_000)


def stop(number: int, *, epoch: int = 22) -> StopReplicaRequest:
    return StopReplicaRequest(
        BrokerId(2),
        BrokerEpoch(epoch),
        BrokerId(1),
        ControllerEpoch(5),
        (StopReplicaPartition(T0, LeaderEpoch(number), True),),
        number,
    )


def scenario(
    body: Callable[[Outboxes, FakeBroker, list[Event]], Awaitable[None]],
    bound: Bound = NEVER_REACHED,
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        broker = FakeBroker(2)
        await broker.start()
        heard: list[Event] = []

        def on_answer(event: Event) -> None:
            heard.append(event)
            broker.changed.set()

        outboxes = Outboxes(
            links=Links(loop, BufferPool(), "1", lambda: None, 30_000),
            inter_broker_listener="PLAINTEXT",
            on_answer=on_answer,
            on_disowned=broker.disowned.append,
            log=LimitedLog(logging.getLogger("odradek.server"), loop.time),
            bound=bound,
        )
        try:
            async with asyncio.timeout(60):
                await body(outboxes, broker, heard)
        finally:
            outboxes.close("the test is over")
            broker.disconnect()
            assert broker.server is not None
            broker.server.close()

    asyncio.run(main())


def registered(broker: FakeBroker, epoch: int = 22) -> BrokerRegistration:
    return BrokerRegistration(broker.broker_id, BrokerEpoch(epoch), broker.endpoints, None)


def numbers(events: list[Event]) -> list[int | None]:
    assert all(isinstance(event, StopReplicaAnswered) for event in events)
    return [event.number for event in events]  # type: ignore[union-attr]


def test_every_answer_brings_the_number_of_its_request_whatever_it_says() -> None:
    async def body(outboxes: Outboxes, broker: FakeBroker, heard: list[Event]) -> None:
        outboxes.brokers_are([registered(broker)])
        outboxes.send([stop(7), stop(8)])
        await broker.until(lambda: len(heard) == 2)
        broker.errors[5] = ErrorCode.STALE_BROKER_EPOCH
        outboxes.send([stop(9)])
        await broker.until(lambda: len(heard) == 3)

        assert numbers(heard) == [7, 8, 9]
        assert [event.error for event in heard] == [0, 0, ErrorCode.STALE_BROKER_EPOCH]  # type: ignore[union-attr]

    scenario(body)


def test_what_a_broker_refuses_for_a_later_controller_is_sent_again_until_it_obeys() -> None:
    async def body(outboxes: Outboxes, broker: FakeBroker, heard: list[Event]) -> None:
        outboxes.brokers_are([registered(broker)])
        broker.errors[5] = ErrorCode.STALE_CONTROLLER_EPOCH
        outboxes.send([stop(7), stop(8)])
        await broker.until(lambda: len(broker.told) >= 5)
        assert heard == []
        broker.errors.clear()
        await broker.until(lambda: len(heard) == 2)
        assert numbers(heard) == [7, 8]
        assert len(broker.disowned) >= 2 and set(numbers(broker.disowned)) == {7}, (
            "the first of those that are sent together"
        )

    scenario(body)


def test_what_was_refused_for_a_later_controller_is_sent_again_over_a_new_connection() -> None:
    """On the old one the answer to the second request would be taken for that to the first, sent again."""

    async def body(outboxes: Outboxes, broker: FakeBroker, heard: list[Event]) -> None:
        class OnceAndThenNothing(dict[int, ErrorCode]):
            def get(self, *_: object) -> ErrorCode:  # type: ignore[override]
                broker.is_silent = True
                return ErrorCode.STALE_CONTROLLER_EPOCH

        broker.errors = OnceAndThenNothing()
        outboxes.brokers_are([registered(broker)])
        outboxes.send([stop(7), stop(8)])
        await broker.until(lambda: len(broker.told) == 4)
        assert len(broker.writers) == 2
        assert [told.topic_states[0].partition_states[0].leader_epoch for _, told in broker.told] == [
            7,
            8,
            7,
            8,
        ]

    scenario(body)


def test_a_connection_that_goes_is_no_answer_and_what_is_sent_again_keeps_its_number() -> None:
    async def body(outboxes: Outboxes, broker: FakeBroker, heard: list[Event]) -> None:
        broker.is_silent = True
        outboxes.brokers_are([registered(broker)])
        outboxes.send([stop(7), stop(8)])
        await broker.until(lambda: len(broker.told) == 2)
        broker.disconnect()
        await broker.until(lambda: len(broker.told) == 4)
        broker.is_silent = False
        broker.disconnect()
        await broker.until(lambda: len(heard) == 2)

        assert numbers(heard) == [7, 8]
        assert broker.numbers == [0, 1, 2, 3, 4, 5], "each attempt has a new correlation id"

    scenario(body)


def test_what_is_sent_again_goes_before_what_has_not_been_sent_yet() -> None:
    """One connection keeps the order of all: a later request must not be overtaken by its forerunner."""

    async def body(outboxes: Outboxes, broker: FakeBroker, heard: list[Event]) -> None:
        broker.is_silent = True
        outboxes.brokers_are([registered(broker)])
        every = list(range(7, 7 + 2 * MOST_ON_THE_WIRE))
        outboxes.send([stop(number) for number in every])
        await broker.until(lambda: len(broker.told) == MOST_ON_THE_WIRE)
        broker.is_silent = False
        broker.disconnect()
        await broker.until(lambda: len(heard) == len(every))

        assert numbers(heard) == every

    scenario(body)


def test_what_is_closed_closes_its_connections() -> None:
    async def body(outboxes: Outboxes, broker: FakeBroker, heard: list[Event]) -> None:
        broker.is_silent = True
        outboxes.brokers_are([registered(broker)])
        outboxes.send([stop(7)])
        await broker.until(lambda: len(broker.told) == 1)
        outboxes.close("the term is over")
        async with asyncio.timeout(20):  # a request that is not answered closes it after 30 s
            await broker.writers[0].wait_closed()
        assert heard == [] and outboxes.unanswered() == {}

    scenario(body)


def test_who_was_bounced_is_not_asked_what_its_former_life_owed() -> None:
    async def body(outboxes: Outboxes, broker: FakeBroker, heard: list[Event]) -> None:
        broker.is_silent = True
        outboxes.brokers_are([registered(broker)])
        outboxes.send([stop(7)])
        await broker.until(lambda: len(broker.told) == 1)
        (former,) = broker.writers
        broker.is_silent = False
        outboxes.brokers_are([registered(broker, epoch=30)])
        outboxes.send([stop(8, epoch=30)])
        await broker.until(lambda: len(heard) == 1)

        assert numbers(heard) == [8] and outboxes.unanswered() == {2: 0}
        async with asyncio.timeout(
            20
        ):  # a request that is not answered closes it after 30 s, and is sent again
            await former.wait_closed()

    scenario(body)


@pytest.mark.parametrize("has_gone_before", [True, False])
def test_who_moves_within_its_life_is_told_at_its_new_address_what_it_has_not_answered(
    has_gone_before: bool,
) -> None:
    """`advertised.listeners` changed while it serves: at the old address there may be nobody."""

    async def body(outboxes: Outboxes, broker: FakeBroker, heard: list[Event]) -> None:
        elsewhere = FakeBroker(2)
        elsewhere.is_silent = True
        await elsewhere.start()
        outboxes.brokers_are([registered(elsewhere)])
        outboxes.send([stop(7), stop(8)])
        await elsewhere.until(lambda: len(elsewhere.told) == 2)
        assert elsewhere.server is not None
        elsewhere.server.close()
        if has_gone_before:
            elsewhere.disconnect()
            while outboxes._boxes[BrokerId(2)][1]._link.is_connected:
                await asyncio.sleep(0)
        outboxes.brokers_are([registered(broker)])
        outboxes.send([stop(9)])
        if not has_gone_before:
            await elsewhere.until(lambda: len(elsewhere.told) == 3)  # as long as that connection stands
            assert broker.told == []
            elsewhere.disconnect()
        await broker.until(lambda: len(heard) == 3)

        assert numbers(heard) == [7, 8, 9]
        assert broker.numbers[0] >= 2, "they rise over all addresses"

    scenario(body)


def test_who_cannot_be_read_keeps_its_queue_and_who_is_gone_does_not() -> None:
    async def body(outboxes: Outboxes, broker: FakeBroker, heard: list[Event]) -> None:
        broker.is_silent = True
        outboxes.brokers_are([registered(broker)])
        outboxes.send([stop(7)])
        unread = UnreadableNode(layout.broker_path(BrokerId(2)), "bad JSON")
        outboxes.brokers_are([], [unread])
        assert outboxes.unanswered() == {2: 1}
        outboxes.brokers_are([], [UnreadableNode(layout.broker_path(BrokerId(22)), "bad JSON")])
        assert outboxes.unanswered() == {}

    scenario(body)


def test_a_broker_that_cannot_be_reached_costs_no_bytes_at_each_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a new controller tells of 100,000 partitions took 0.3 s of the loop ten times a second, until the session of a broker
    that had been killed with the controller before it had ended."""
    monkeypatch.setattr(outboxes_module, "BACKOFF_MS", 1)

    async def body(outboxes: Outboxes, broker: FakeBroker, heard: list[Event]) -> None:
        made: list[object] = []
        attempts = asyncio.Semaphore(0)
        bytes_of = outboxes._encoder.bytes_of

        class Log:
            def warning(self, key: str, sentence: str) -> None:
                attempts.release()

        def note(request: Sendable) -> bytes:
            made.append(request)
            return bytes_of(request)

        monkeypatch.setattr(outboxes._encoder, "bytes_of", note)
        monkeypatch.setattr(outboxes, "_log", Log())
        assert broker.server is not None
        registration = registered(broker)
        port = registration.endpoints[0].port
        broker.server.close()
        await broker.server.wait_closed()
        outboxes.brokers_are([registration])
        outboxes.send([stop(7), stop(8)])
        for _ in range(5):
            await attempts.acquire()
        assert len(made) == 2

        broker.server = await asyncio.start_server(broker._serve, "127.0.0.1", port)
        await broker.until(lambda: len(heard) == 2)
        assert numbers(heard) == [7, 8]
        assert len(made) == 4

    scenario(body)


LOST = TellingsLost(BrokerId(2), BrokerEpoch(22))
OF_REQUESTS, OF_PARTITIONS = Bound(4, 1_000), Bound(1_000, 4)


@pytest.mark.parametrize("bound", [OF_REQUESTS, OF_PARTITIONS])
def test_of_what_a_broker_does_not_answer_no_more_than_the_bound_is_kept(bound: Bound) -> None:
    """It was kept without end for as long as the session of the broker stood."""

    async def body(outboxes: Outboxes, broker: FakeBroker, heard: list[Event]) -> None:
        broker.is_silent = True
        outboxes.brokers_are([registered(broker)])
        most = MOST_ON_THE_WIRE + 4
        for number in range(100):
            outboxes.send([stop(number)])
            assert outboxes.unanswered()[BrokerId(2)] <= most
        await broker.until(lambda: len(broker.told) == MOST_ON_THE_WIRE)
        assert heard == [], "nobody is told anew who does not answer"

        broker.is_silent = False
        broker.disconnect()
        await broker.until(lambda: LOST in heard)
        assert numbers(heard[:-1]) == list(range(MOST_ON_THE_WIRE)), (
            "all that was sent is answered before, and nothing behind it is sent"
        )
        assert len(heard) == MOST_ON_THE_WIRE + 1

        outboxes.send([stop(200)])
        assert outboxes.unanswered() == {2: 0}, "what is told before everything is told anew is in that"
        outboxes.begin_anew(BrokerId(2), BrokerEpoch(21))
        outboxes.begin_anew(BrokerId(3), BrokerEpoch(22))
        outboxes.send([stop(201)])
        assert outboxes.unanswered() == {2: 0}, "that was for another life, and another broker"
        outboxes.begin_anew(BrokerId(2), BrokerEpoch(22))
        outboxes.send([stop(202), stop(203)])
        outboxes.send([stop(204)])
        await broker.until(lambda: len(heard) == MOST_ON_THE_WIRE + 4)
        assert numbers(heard[-3:]) == [202, 203, 204]
        told = [request.topic_states[0].partition_states[0].leader_epoch for _, request in broker.told]
        assert told == [*range(MOST_ON_THE_WIRE), *range(MOST_ON_THE_WIRE), 202, 203, 204]
        assert broker.numbers == list(range(2 * MOST_ON_THE_WIRE + 3)), "correlation ids go on"

    scenario(body, bound)


def test_the_requests_of_one_event_are_kept_whole_or_not_at_all() -> None:
    async def body(outboxes: Outboxes, broker: FakeBroker, heard: list[Event]) -> None:
        broker.is_silent = True
        outboxes.brokers_are([registered(broker)])
        outboxes.send([stop(number) for number in range(50)])
        assert outboxes.unanswered() == {2: 50}
        outboxes.send([stop(50), stop(51)])
        assert outboxes.unanswered() == {2: MOST_ON_THE_WIRE}

    scenario(body, OF_REQUESTS)


def test_what_is_put_back_to_be_sent_again_is_not_given_up() -> None:
    """Between a failure and the next attempt all of it waits."""

    async def body(outboxes: Outboxes, broker: FakeBroker, heard: list[Event]) -> None:
        broker.is_silent = True
        outboxes.brokers_are([registered(broker)])
        outboxes.send([stop(number) for number in range(8)])
        await broker.until(lambda: len(broker.told) == MOST_ON_THE_WIRE)
        box = outboxes._boxes[BrokerId(2)][1]
        broker.is_silent = False
        box._link.fail("the test says so")
        assert not box._sent
        outboxes.send([stop(8)])
        await broker.until(lambda: LOST in heard)
        assert numbers(heard[:-1]) == list(range(MOST_ON_THE_WIRE))

    scenario(body, OF_REQUESTS)


def test_an_event_in_the_moment_in_which_all_that_was_sent_is_put_back_is_kept_behind_it() -> None:
    """However many partitions it names: nothing waits that could be given up, and one request of everything may name more than the bound."""

    async def body(outboxes: Outboxes, broker: FakeBroker, heard: list[Event]) -> None:
        broker.is_silent = True
        outboxes.brokers_are([registered(broker)])
        outboxes.send([stop(number) for number in range(MOST_ON_THE_WIRE)])
        await broker.until(lambda: len(broker.told) == MOST_ON_THE_WIRE)
        broker.is_silent = False
        outboxes._boxes[BrokerId(2)][1]._link.fail("the test says so")
        outboxes.send([stop(MOST_ON_THE_WIRE)])
        await broker.until(lambda: len(heard) == MOST_ON_THE_WIRE + 1)
        assert LOST not in heard and numbers(heard) == list(range(MOST_ON_THE_WIRE + 1))

    scenario(body, OF_PARTITIONS)


def test_a_question_asked_again_belongs_to_what_was_sent() -> None:
    """Of OffsetForLeaderEpoch that brought nothing a second question comes of it: it is asked before everything is told anew."""

    async def body(outboxes: Outboxes, broker: FakeBroker, heard: list[Event]) -> None:
        broker.is_silent = True
        outboxes.brokers_are([registered(broker)])
        outboxes.send([stop(number) for number in range(9)])
        outboxes.send([stop(9)])
        box = outboxes._boxes[BrokerId(2)][1]
        box._append(AskLogEnds(BrokerId(2), BrokerEpoch(22), (T0,)))
        assert outboxes.unanswered() == {2: MOST_ON_THE_WIRE + 1}
        await broker.until(lambda: len(broker.told) == MOST_ON_THE_WIRE)
        assert box._partitions_waiting == 1
        box._link.fail("the test says so")
        assert box._partitions_waiting == MOST_ON_THE_WIRE + 1
        assert heard == []

    scenario(body, OF_REQUESTS)
