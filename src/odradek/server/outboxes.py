"""One queue per broker for what the controller has to tell it (rows 79, 152).

A request stays in its queue until the broker has answered it or is removed; a failed connection is tried
again after 100 ms, for ever. A slow or dead broker delays no other. Several requests may be on the wire at
once: one connection keeps their order, and all that is unanswered when it fails is sent again in the same
order. What is sent again has a new correlation id: they rise in a queue over all its connections, and there is one
queue for a broker epoch and a term. So a broker that reads the bytes of an older connection late can tell (decisions/0008).

A queue is bounded, for a broker may answer nothing for as long as its session stands. At the bound all is given up but what was
sent; what comes later is not kept. When that has been answered the core hears of it, and tells the broker everything anew
(decisions/0071).
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from odradek.client.connection import Body
from odradek.controller.broker_requests import BrokerRequest
from odradek.controller.events import Event, TellingsLost
from odradek.model.cluster import BrokerRegistration, Endpoint
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.facts import UnreadableNode
from odradek.model.ids import BrokerEpoch, BrokerId
from odradek.server.controller_requests import (
    EncodedRequest,
    RequestEncoder,
    Sendable,
    decode_answer,
    kind_of,
)
from odradek.server.end_offset_queries import second_question
from odradek.server.endpoints import endpoint_of
from odradek.server.links import Links
from odradek.server.log_limits import LimitedLog

BACKOFF_MS = 100
MOST_ON_THE_WIRE = 5
NONE_ENCODED: Mapping[int, EncodedRequest] = MappingProxyType({})


class Bound(NamedTuple):
    """Of what waits for one broker and is not on the wire; the requests of one event are taken whole."""

    requests: int
    partitions: int  # that they name, the same one in two requests twice


class Outbox:
    """What waits for one incarnation of one broker."""

    def __init__(
        self,
        links: Links,
        endpoint: Endpoint,
        encoder: RequestEncoder,
        *,
        on_answer: Callable[[Event], None],
        on_disowned: Callable[[Event], None],
        log: LimitedLog,
        broker: BrokerId,
        broker_epoch: BrokerEpoch,
        bound: Bound,
    ) -> None:
        self._links = links
        self._address = endpoint.host, endpoint.port
        self._link = links.to(*self._address)
        self._encoder = encoder
        self._on_answer = on_answer
        self._on_disowned = on_disowned
        self._log = log
        self._broker = broker
        self._broker_epoch = broker_epoch
        self._bound = bound
        self._waiting: deque[Sendable] = deque()
        self._partitions_waiting = 0
        self._sent: deque[Sendable] = deque()
        self._is_given_up = False
        self._is_closed = False

    def send(self, request: BrokerRequest, encoded: EncodedRequest | None = None) -> None:
        """`encoded`: the same, where that was done already. It is not kept for a broker that is told later."""
        if self._is_given_up:
            return
        self._append(request)
        self._pump(request, encoded)

    def make_room(self) -> None:
        """Before the requests of an event. Where there is no room for them, what waits is given up, and they are not kept."""
        if (
            len(self._waiting) < self._bound.requests and self._partitions_waiting < self._bound.partitions
        ) or self._is_given_up:
            return
        before = self.unanswered
        if before <= MOST_ON_THE_WIRE:
            return  # all of it was sent, and was put back just now
        self._is_given_up = True
        # What has been sent stays: its answers say when there is somebody to tell.
        while self._waiting and self.unanswered > MOST_ON_THE_WIRE:
            self._partitions_waiting -= len(self._waiting.pop().partitions)
        self._log.warning(
            f"outbox {self._broker} given up",
            f"broker {self._broker} does not answer: {before - self.unanswered} requests to it are given up. "
            "It is told everything anew when it answers again",
        )

    def begin_anew(self) -> None:
        """What comes now tells everything."""
        self._is_given_up = False

    @property
    def unanswered(self) -> int:
        return len(self._waiting) + len(self._sent)

    def is_found_at(self, endpoint: Endpoint) -> None:
        """The same incarnation, perhaps elsewhere now. A connection that stands is used on; the next one goes there."""
        self._address = endpoint.host, endpoint.port
        if self._has_moved:
            self._pump()

    def close(self, reason: str) -> None:
        self._is_closed = True
        self._waiting.clear()
        self._partitions_waiting = 0
        self._sent.clear()
        self._link.close(reason)

    @property
    def _has_moved(self) -> bool:
        link = self._link
        return (link.host, link.port) != self._address and not link.is_connected and not self._is_closed

    def _follow(self) -> None:
        old = self._link
        self._link = self._links.to(*self._address, first_correlation_id=old.next_correlation_id)
        self._unsend()
        old.close("the broker has moved")

    def _pump(self, known: BrokerRequest | None = None, encoded: EncodedRequest | None = None) -> None:
        if self._has_moved:
            self._follow()
        while self._waiting and len(self._sent) < MOST_ON_THE_WIRE and not self._is_closed:
            request = self._waiting.popleft()
            self._partitions_waiting -= len(request.partitions)
            self._sent.append(request)
            api_key, version = kind_of(request)
            body: Body
            if request is known and encoded is not None:
                body = encoded[2]
            elif request is known or self._link.is_connected:
                body = self._encoder.bytes_of(request)
            else:  # told once more: not before there is somebody to tell
                body = partial(self._encoder.bytes_of, request)
            self._link.send(api_key, version, body, self._answered)

    def _answered(self, body: memoryview | None, reason: str) -> None:
        if self._is_closed:
            return
        if body is None:
            # The link answers everything outstanding at once; the first answer puts all of it back.
            if self._sent:
                self._log.warning(
                    f"outbox {self._broker}", f"broker {self._broker} gets no requests: {reason}"
                )
                self._put_back()
            return
        request = self._sent[0]
        try:
            event = decode_answer(request, body)
        except ProtocolError as error:
            # A broker that answers nonsense is no better than one that does not answer: tell it again.
            self._log.warning(
                f"outbox {self._broker}",
                f"broker {self._broker} sent a response that cannot be read: {error}",
            )
            self._put_back()
            self._link.fail(f"its answer cannot be read: {error}")
            return
        if getattr(event, "error", None) is ErrorCode.STALE_CONTROLLER_EPOCH:
            # Either another controller was elected, which the store knows, or somebody has told this broker so. It is
            # told again until we resign, or it believes us.
            self._on_disowned(event)
            self._put_back()
            self._link.fail("it obeys another controller epoch")
            return
        self._sent.popleft()
        again = second_question(request, event)
        if again is not None:
            self._append(again)
        self._on_answer(event)
        self._pump()
        if self._is_given_up and not self.unanswered and not self._is_closed:
            self._on_answer(TellingsLost(self._broker, self._broker_epoch))

    def _put_back(self) -> None:
        self._unsend()
        self._link.call_soon(self._pump)

    def _append(self, request: Sendable) -> None:
        self._waiting.append(request)
        self._partitions_waiting += len(request.partitions)

    def _unsend(self) -> None:
        self._waiting.extendleft(reversed(self._sent))
        self._partitions_waiting += sum([len(request.partitions) for request in self._sent])
        self._sent.clear()


class Outboxes:
    """All queues of one controller term."""

    def __init__(
        self,
        *,
        links: Links,
        inter_broker_listener: str,
        on_answer: Callable[[Event], None],
        on_disowned: Callable[[Event], None],
        log: LimitedLog,
        bound: Bound,
    ) -> None:
        """`on_disowned`: an answer by which its broker obeys a later controller, whatever the store says of that."""
        self._links = links._replace(backoff_ms=BACKOFF_MS)
        self._listener = inter_broker_listener
        self._on_answer = on_answer
        self._on_disowned = on_disowned
        self._log = log
        self._bound = bound
        self._encoder = RequestEncoder(inter_broker_listener)
        self._boxes: dict[BrokerId, tuple[BrokerEpoch, Outbox]] = {}

    def brokers_are(
        self, registrations: Iterable[BrokerRegistration], unreadable: Iterable[UnreadableNode] = ()
    ) -> None:
        """Queues for exactly these; one that was bounced gets a new, empty queue, and one that has moved keeps its own. So
        does who is there and cannot be read: the core holds to what it knew of it, and tells it nothing twice."""
        wanted = {registration.broker_id: registration for registration in registrations}
        unread = {node.path.rsplit("/", 1)[-1] for node in unreadable}
        for broker in sorted(self._boxes):
            epoch, box = self._boxes[broker]
            if broker not in wanted and str(broker) in unread:
                continue
            if broker not in wanted or wanted[broker].epoch != epoch:
                del self._boxes[broker]
                box.close("the broker is gone")
        for broker in sorted(wanted):
            known = self._boxes.get(broker)
            if known is None:
                box_or_none = self._open(wanted[broker])
                if box_or_none is not None:
                    self._boxes[broker] = (wanted[broker].epoch, box_or_none)
                continue
            endpoint = endpoint_of(wanted[broker], self._listener)
            if endpoint is not None:
                known[1].is_found_at(endpoint)

    def _open(self, registration: BrokerRegistration) -> Outbox | None:
        endpoint = endpoint_of(registration, self._listener)
        if endpoint is None:
            self._log.warning(
                f"no endpoint {registration.broker_id}",
                f"broker {registration.broker_id} has no listener {self._listener}; it gets no requests",
            )
            return None
        return Outbox(
            self._links,
            endpoint,
            self._encoder,
            on_answer=self._on_answer,
            on_disowned=self._on_disowned,
            log=self._log,
            broker=registration.broker_id,
            broker_epoch=registration.epoch,
            bound=self._bound,
        )

    def send(
        self, requests: Sequence[BrokerRequest], encoded: Mapping[int, EncodedRequest] = NONE_ENCODED
    ) -> None:
        """Those of one event. Nothing is kept for a broker that is gone: when it returns it is told everything.
        `encoded`: as bytes, by id(), where that was done already."""
        for broker in {request.broker for request in requests} & self._boxes.keys():
            self._boxes[broker][1].make_room()
        self._encoder.begin()
        try:
            for request in requests:
                found = self._boxes.get(request.broker)
                if found is not None:
                    found[1].send(request, encoded.get(id(request)))
        finally:
            self._encoder.end()

    def begin_anew(self, broker: BrokerId, broker_epoch: BrokerEpoch) -> None:
        """What the next event has for this incarnation tells it everything; what was given up is not missed any more."""
        found = self._boxes.get(broker)
        if found is not None and found[0] == broker_epoch:
            found[1].begin_anew()

    def unanswered(self) -> dict[BrokerId, int]:
        return {broker: box.unanswered for broker, (_, box) in sorted(self._boxes.items())}

    def close(self, reason: str) -> None:
        for _, box in self._boxes.values():
            box.close(reason)
        self._boxes.clear()
