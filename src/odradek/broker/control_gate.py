"""Which control requests are obeyed: those of a controller that the store knows, and for this life of this broker.

LeaderAndIsr, StopReplica and UpdateMetadata say themselves who sent them, and a new controller is told by its epoch
being above all that was heard of. Believed from anybody, one number (2^31-1) would make this broker refuse every
controller there will ever be, and each of them resign. So an epoch above those the store has told is not believed: its
request is held, the store is asked, and that it knows no such epoch is proved (`server/store_questions`). A rightful
controller writes its epoch before it tells anybody, so its first request to each broker waits for one read.

A broker epoch above ours would do the same to this broker alone (`control_order`). It is nobody's, unless we are registering
just now: then the controller may read of it before we do (KAFKA-9839), and its request is held until we know ours.

A stranger can make a broker read the store no more often than every `READ_INTERVAL_MS`, and hold no more than `MOST_HELD`
requests; what does not fit is checked all the same and its connection closed: a controller sends it again, and by then
its epoch is known. While the store cannot be asked, requests wait.

Before this broker is registered it does not know its own epoch: whatever names a broker epoch waits for that, too.
"""

from functools import partial
from typing import NamedTuple, Protocol

from odradek.broker.answers import Answer, CloseConnection, Park
from odradek.broker.control_order import ControlOrder, ControlRequest
from odradek.broker.effects import (
    ControlEpochs,
    Effect,
    LogLine,
    ReadControlEpochs,
    StoreQuestion,
    StoreResult,
)
from odradek.broker.organs import Organ
from odradek.broker.pending_calls import Answered
from odradek.broker.replica_manager import ReplicaManager
from odradek.broker.request import Request
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import BrokerEpoch, BrokerId, ControllerEpoch

READ_INTERVAL_MS = 50
MOST_HELD = 64
MOST_HELD_BYTES = 32 << 20
SAID_EVERY_MS = 10_000


class Held(NamedTuple):
    """A request that waits, with a body of its own, and the place of its answer."""

    request: Request
    place: Park


class Gated(Protocol):
    """What the gate knows of the broker behind it."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch | None
    control_order: ControlOrder
    replicas: ReplicaManager
    effects: list[Effect]

    def is_early(self, broker_epoch: int) -> bool: ...

    def broker_epoch_error(self, broker_epoch: int, *, is_kraft: bool) -> ErrorCode: ...

    def ask_store(self, question: StoreQuestion, answered: Answered) -> None: ...

    def handle(self, request: Request, now_ms: int) -> Answer: ...


class ControlGate(Organ):
    def __init__(self, broker: Gated) -> None:
        self._broker = broker
        self.known = ControlEpochs(ControllerEpoch(0), None)  # what the store has told
        self.is_registering = False
        self.due_ms = None
        self.held: list[Held] = []  # for the next read, or for our registration
        self._waiting_for_read: list[Held] = []  # for the read that is under way
        self._is_reading = False
        self._may_read_at_ms = 0
        self._claimed = ControllerEpoch(0)  # the largest controller epoch that waits for a read
        self._replayed: Held | None = None  # the one being handled again
        self._is_proved = False  # ... after a read that began when it was held already
        self._said_at_ms = -SAID_EVERY_MS
        self._unsaid = 0

    def refusal(
        self, request: Request, asked: ControlRequest, *, is_kraft: bool, now_ms: int
    ) -> ErrorCode | Park | CloseConnection | None:
        """None: it is to be obeyed. An error is the whole request's; anything else is the answer."""
        broker = self._broker
        if broker.is_early(asked.broker_epoch):
            return self._hold(request)
        error = broker.broker_epoch_error(asked.broker_epoch, is_kraft=is_kraft)
        if error:
            return error
        if broker.broker_epoch is not None and asked.broker_epoch > broker.broker_epoch:
            if self.is_registering:
                return self._hold(request)
            self._say(request, asked, now_ms)
            return ErrorCode.STALE_BROKER_EPOCH
        if asked.controller_epoch > self.known.controller_epoch:
            if self._is_proved:
                self._say(request, asked, now_ms)
                return ErrorCode.STALE_CONTROLLER_EPOCH
            self._claimed = max(self._claimed, ControllerEpoch(asked.controller_epoch))
            answer = self._hold(request)
            self._want_read(now_ms)
            return answer
        if self._is_somebody_elses(asked):
            self._say(request, asked, now_ms)
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if not broker.replicas.accept_controller_epoch(asked.controller_epoch):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return broker.control_order.refusal(asked, request.correlation_id)

    def leads(self, controller_epoch: int) -> None:
        """The controller of this epoch lives in this process: it was elected in the store."""
        if controller_epoch > self.known.controller_epoch:
            self.known = self.known._replace(
                controller_epoch=ControllerEpoch(controller_epoch), controller=self._broker.broker_id
            )

    def registering(self) -> None:
        """From here on the store may know us by a larger broker epoch than we do."""
        self.is_registering = True

    def registered(self, now_ms: int) -> None:
        """We know our own epoch, and can judge what waited for it."""
        self.is_registering = False
        held, self.held = self.held, []
        self._replay(held, now_ms)

    def tick(self, now_ms: int) -> None:
        if self.due_ms is not None and now_ms >= self.due_ms:
            self._want_read(now_ms)

    # --------------------------------------------------------------------------------------------- private

    def _is_somebody_elses(self, asked: ControlRequest) -> bool:
        """The epoch that leads, said by one that was not elected in it."""
        known = self.known
        return asked.controller_epoch == known.controller_epoch and known.controller not in (
            None,
            asked.controller_id,
        )

    def _hold(self, request: Request) -> Park | CloseConnection:
        if self._replayed is not None:
            self.held.append(self._replayed)
            return self._replayed.place
        # Whoever heard nothing sends it again on another connection, and does not wait on this one.
        self.held = [held for held in self.held if not held.place.abandoned]
        waiting = [*self.held, *self._waiting_for_read]
        size = sum(len(held.request.body) for held in waiting) + len(request.body)
        if len(waiting) >= MOST_HELD or size > MOST_HELD_BYTES:
            return CloseConnection("too many control requests wait for the store; send it again")
        self.held.append(Held(request.kept(), Park()))
        return self.held[-1].place

    def _want_read(self, now_ms: int) -> None:
        if self._is_reading:
            return  # what is held meanwhile waits for the next read
        if now_ms < self._may_read_at_ms:
            self.due_ms = self._may_read_at_ms
            return
        self.due_ms = None
        self._is_reading = True
        self._may_read_at_ms = now_ms + READ_INTERVAL_MS
        self._waiting_for_read, self.held = self.held, []
        claimed, self._claimed = self._claimed, ControllerEpoch(0)

        def was_read(result: StoreResult, now_ms: int) -> None:
            self._is_reading = False
            waiting, self._waiting_for_read = self._waiting_for_read, []
            if isinstance(result, ControlEpochs):
                self._learn(result)
                later, self.held = self.held, []
                self._is_proved = True
                self._replay(waiting, now_ms)
                self._is_proved = False
                self._replay(later, now_ms)
            else:
                self.held = [*waiting, *self.held]
                self._claimed = max(claimed, self._claimed)
                self.due_ms = now_ms + READ_INTERVAL_MS

        self._broker.ask_store(ReadControlEpochs(claimed), was_read)

    def _learn(self, told: ControlEpochs) -> None:
        known = self.known
        newer, older = (told, known) if told.controller_epoch >= known.controller_epoch else (known, told)
        controller = newer.controller
        if controller is None and newer.controller_epoch == older.controller_epoch:
            controller = older.controller  # it has given /controller up since
        self.known = ControlEpochs(newer.controller_epoch, controller)

    def _replay(self, waiting: list[Held], now_ms: int) -> None:
        for held in waiting:
            if not held.place.abandoned:
                held.place.answer(partial(self._handled_again, held, now_ms))

    def _handled_again(self, held: Held, now_ms: int) -> Answer:
        """Its own place again if it is still held; another one if it is obeyed in slices."""
        self._replayed = held
        try:
            return self._broker.handle(held.request, now_ms)
        finally:
            self._replayed = None

    def say_unnamed(self, request: Request, asked: ControlRequest, now_ms: int) -> None:
        """An UpdateMetadata in which this broker is not live was refused."""
        self._warn(
            f"UpdateMetadata of {request.connection.peer} refused: controller {asked.controller_id} names every live "
            f"broker, and this one does not name broker {self._broker.broker_id}",
            now_ms,
        )

    def _say(self, request: Request, asked: ControlRequest, now_ms: int) -> None:
        name = type(asked).__name__.removesuffix("Request")
        known = self.known
        self._warn(
            f"{name} of {request.connection.peer} refused: it claims controller {asked.controller_id}, controller "
            f"epoch {asked.controller_epoch} and broker epoch {asked.broker_epoch}; the store knows controller "
            f"{known.controller}, controller epoch {known.controller_epoch} and broker epoch "
            f"{self._broker.broker_epoch}",
            now_ms,
        )

    def _warn(self, what: str, now_ms: int) -> None:
        if now_ms - self._said_at_ms < SAID_EVERY_MS:
            self._unsaid += 1
            return
        more = f" ({self._unsaid} more like it were left out)" if self._unsaid else ""
        self._said_at_ms, self._unsaid = now_ms, 0
        self._broker.effects.append(LogLine("warning", what + more))
