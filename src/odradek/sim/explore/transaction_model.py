"""The moves of two producers of one transactional id, its coordinator on one of two brokers, and two partitions.

Production decides every step (`transaction_steps`): the coordinator, what a log knows of its producers, a leader's questions.
What the search makes up is who is delivered what, and when: a request may overtake others, arrive after its connection was
lost, or find another coordinator; a broker dies with what it had appended, or that survives it; what is open times out at any
moment. Whoever asked and is told to come again does.

With `bumps` of the scope both producers are clients of `transaction.version` 2 (KIP-890): they write at once, the leaders add, and each
end of a transaction gives the next epoch. They need not take their id over after a lost connection, and do not.

Left out: epochs that run out, offsets, and `TransactionMarkers` itself: a marker is on its way until it is written, or until the
broker it came from is gone and its successor sends another.
"""

from collections.abc import Iterator
from typing import NamedTuple

from odradek.broker.transactional_produce import ATTEMPTS
from odradek.coordinator.transaction_effects import TransactionEffects
from odradek.coordinator.transaction_records import StoredTransaction
from odradek.coordinator.transaction_states import PREPARED, TransactionState
from odradek.model.error_codes import ErrorCode
from odradek.sim.explore.transaction_steps import Coordinators, Places, error_of
from odradek.sim.explore.transaction_values import (
    COMMIT,
    DATA,
    NONE,
    PARTITIONS,
    Marker,
    Message,
    Place,
    Producer,
    Question,
    Request,
    Tail,
    TransactionScope,
    Verdict,
)
from odradek.sim.explore.transaction_values import TransactionState as State

FENCED = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
AGAIN = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
AT_REST = (None, TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


class Move(NamedTuple):
    label: str
    state: State
    broken: tuple[str, ...] = ()  # what this move itself breaks


class TransactionModel:
    def __init__(self, scope: TransactionScope | None = None) -> None:
        self.scope = scope or TransactionScope()
        self.coordinators = Coordinators(bumps=self.scope.bumps)
        self.places = Places(is_adding=self.scope.bumps)
        self._begins_with = "0" if self.scope.bumps else "add"
        self._calls: list[Request | Question] = []
        self._call: dict[Request | Question, int] = {}
        self._ordered: dict[frozenset[Message], list[Message]] = {}

    def first(self) -> State:
        number, _ = self.coordinators.loaded(None)
        return State(
            number,
            0,
            None,
            None,
            tuple(Place() for _ in PARTITIONS),
            tuple(Producer() for _ in self.scope.attempts),
            frozenset(),
        )

    def successors(self, state: State) -> Iterator[Move]:
        for message in self._in_order(state.messages):
            yield from self._delivered(state, message)
        for number, producer in enumerate(state.producers):
            if not producer.is_asking:
                yield from self._asks(state, number, producer)
            elif state.lost_connections < self.scope.lost_connections:
                yield from self._loses(state, number, producer)
        if state.tail is not None:
            yield self._commits(state, state.tail)
        if state.crashes < self.scope.crashes:
            yield from self._crashes(state)
        is_open = state.stored is not None and state.stored.state is TransactionState.ONGOING
        if is_open and state.tail is None and state.time_outs < self.scope.time_outs:
            number, effects = self.coordinators.timed_out(state.coordinator)
            after = state._replace(coordinator=number, time_outs=state.time_outs + 1)
            yield Move("TimesOut()", self._carried_out(after, effects))

    def _in_order(self, messages: frozenset[Message]) -> list[Message]:
        found = self._ordered.get(messages)
        if found is None:
            found = self._ordered[messages] = sorted(messages, key=repr)
        return found

    # ---------------------------------------------------------------------------------------------- producers

    def _asks(self, state: State, number: int, producer: Producer) -> Iterator[Move]:
        step = producer.step
        if step in ("done", "fenced"):
            return
        asked: list[tuple[str, Request, Producer]] = []
        if step == "init":
            asked.append(("InitProducerId", Request(number, "init", producer.epoch), producer))
        elif step == "add":
            asked.append(("AddPartitions", Request(number, "add", producer.epoch), producer))
        elif step == "end":
            for is_commit in (False,) if producer.aborts else (True, False):
                request = Request(
                    number, "end", producer.epoch, attempt=producer.attempt, is_commit=is_commit
                )
                asked.append(
                    (f"EndTxn(commit={is_commit})", request, producer._replace(aborts=not is_commit))
                )
            if producer.is_in_doubt and not producer.aborts:
                del asked[1:]  # it has asked for the commit already, perhaps
        else:
            place = int(step)
            request = Request(
                number, "data", producer.epoch, place, producer.sequences[place], producer.attempt
            )
            asked.append((f"Produce({place})", request, producer))
        for label, request, after in asked:
            yield Move(
                f"{label} of producer {number}",
                self._with(state, number, after._replace(is_asking=True))._replace(
                    messages=state.messages | {request}
                ),
            )

    def _loses(self, state: State, number: int, producer: Producer) -> Iterator[Move]:
        """What it has asked for is still on its way, or being done; it knows nothing of it and asks again."""
        for message in self._in_order(state.messages):
            batch = message.batch if isinstance(message, Question | Verdict) else message
            if isinstance(batch, Request) and batch.producer == number and not batch.is_late:
                late = batch._replace(is_late=True)
                kept = message._replace(batch=late) if isinstance(message, Question | Verdict) else late
                after = self._with(state, number, producer._replace(is_asking=False, is_in_doubt=True))
                yield Move(
                    f"producer {number} loses its connection",
                    after._replace(
                        messages=state.messages - {message} | {kept},
                        lost_connections=state.lost_connections + 1,
                    ),
                )

    def _answered(self, state: State, request: Request, error: int, epoch: int = NONE) -> State:
        """A producer hears what came of what it asked for."""
        producer = state.producers[request.producer]
        if request.is_late or not producer.is_asking:
            return state
        after = producer._replace(is_asking=False)
        if error in AGAIN:
            return self._with(state, request.producer, after)
        if error in FENCED:
            is_unsure = request.kind == "end" and request.is_commit and producer.is_in_doubt
            fates = () if request.kind == "init" else ("unknown" if is_unsure else "aborted",)
            after = after._replace(step="fenced", fates=producer.fates + fates)
        elif request.kind == "init":
            after = after._replace(step=self._begins_with, epoch=epoch, sequences=(0, 0), is_in_doubt=False)
            state = state._replace(fenced_below=max(state.fenced_below, epoch))
        elif request.kind == "end":
            after = self._ended(after, request, error)
            if self.scope.bumps and not error:
                after = after._replace(epoch=epoch, sequences=(0, 0), is_in_doubt=False)
                state = state._replace(fenced_below=max(state.fenced_below, epoch))
        elif error:
            after = after._replace(step="end", aborts=True)
        elif request.kind == "add":
            after = after._replace(step="0")
        else:
            one, other = producer.sequences
            if request.place == 0:
                after = after._replace(step="1", sequences=(one + 1, other))
            else:
                after = after._replace(step="end", sequences=(one, other + 1))
        return self._with(state, request.producer, after)

    def _ended(self, producer: Producer, request: Request, error: int) -> Producer:
        fate = "aborted"
        if request.is_commit:
            fate = "committed" if not error else "unknown" if producer.is_in_doubt else "aborted"
        attempt = producer.attempt + 1
        most = self.scope.attempts[request.producer]
        # What may still be on its way is of this epoch: a careful producer goes on in the next.
        is_fenced_off = producer.is_in_doubt and not self.scope.bumps
        goes_on = "init" if is_fenced_off or error else self._begins_with
        return producer._replace(
            step=goes_on if attempt < most else "done",
            attempt=attempt,
            aborts=False,
            fates=(*producer.fates, fate),
        )

    def _with(self, state: State, number: int, producer: Producer) -> State:
        producers = list(state.producers)
        producers[number] = producer
        return state._replace(producers=tuple(producers))

    # -------------------------------------------------------------------------------------------- coordinator

    def _carried_out(self, state: State, effects: TransactionEffects) -> State:
        for append in effects.appends:
            value = append.records[0].value
            assert state.tail is None and value is not None, "an id has one record on its way"
            state = state._replace(tail=Tail(append.append_id, value))
        added = {
            Marker(one.partition, marker.producer_epoch, marker.is_commit, state.epoch)
            for marker in effects.markers
            for one in marker.partitions
        }
        state = state._replace(messages=state.messages | added)
        for answer in effects.answers:
            request = self._calls[answer.call]
            if isinstance(request, Question):
                state = self._told(state, answer.call, error_of(answer.response))
                continue
            response: object = answer.response
            if request.kind == "add":
                topics = response.results_by_topic_v3_and_below  # type: ignore[attr-defined]
                error = next(
                    (row.partition_error_code for topic in topics for row in topic.results_by_partition), 0
                )
            else:
                error = response.error_code  # type: ignore[attr-defined]
            state = self._answered(state, request, error, getattr(response, "producer_epoch", NONE))
        return state

    def _told(self, state: State, call: int, error: int) -> State:
        """A leader that waits is told what came of its question, if it and who asked are alive."""
        waiting = [one for one in state.messages if isinstance(one, Question) and one.call == call]
        if not waiting:
            return state
        # Of two with one number the late one was asked first, and waits: the other one is answered at once.
        message = min(waiting, key=lambda one: one.batch.is_late)
        told = Verdict(message.batch, message.verified, error, message.attempts)
        return state._replace(messages=state.messages - {message} | {told})

    def _commits(self, state: State, tail: Tail) -> Move:
        broken = _decided_otherwise(state.stored, tail.value)
        after = state._replace(stored=tail.value, tail=None)
        number, effects = self.coordinators.committed(state.coordinator, tail)
        done = self._carried_out(after._replace(coordinator=number), effects)
        return Move(f"Commits({tail.value.state.title}, epoch {tail.value.epoch})", done, broken)

    def _crashes(self, state: State) -> Iterator[Move]:
        """The broker that coordinates, and leads one of the partitions. Requests to it are lost; its markers may arrive."""
        broker = state.epoch % 2
        places = list(state.places)
        places[broker] = places[broker]._replace(
            leader_epoch=places[broker].leader_epoch + 1, verified=None, added=None
        )
        kept: set[Message] = set()
        for message in state.messages:
            asked = message.batch if isinstance(message, Question | Verdict) else message
            if isinstance(asked, Marker):
                if asked.place != broker:
                    kept.add(asked)
            elif asked.kind == "data" and asked.place != broker:
                # Its leader lives; a question to whoever died is not answered.
                kept.add(
                    Verdict(asked, message.verified, ErrorCode.NOT_ENOUGH_REPLICAS)
                    if isinstance(message, Question)
                    else message
                )
        waits = [
            number
            for number, producer in enumerate(state.producers)
            if producer.is_asking
            and not any(
                not _request_of(message).is_late and _request_of(message).producer == number
                for message in kept
                if not isinstance(message, Marker)
            )
        ]
        for tail_survives in (True, False) if state.tail is not None else (False,):
            after = state._replace(
                epoch=state.epoch + 1, places=tuple(places), messages=frozenset(kept), tail=None,
                crashes=state.crashes + 1,
            )  # fmt: skip
            broken: tuple[str, ...] = ()
            if tail_survives and state.tail is not None:
                broken = _decided_otherwise(state.stored, state.tail.value)
                after = after._replace(stored=state.tail.value)
            for number in waits:
                producer = after.producers[number]
                after = self._with(after, number, producer._replace(is_asking=False, is_in_doubt=True))
            coordinator, effects = self.coordinators.loaded(after.stored)
            after = self._carried_out(after._replace(coordinator=coordinator), effects)
            label = f"BrokerCrash({broker})" + (", what it appended survives" if tail_survives else "")
            yield Move(label, after, broken)

    # ----------------------------------------------------------------------------------------------- messages

    def _delivered(self, state: State, message: Message) -> Iterator[Move]:
        rest = state._replace(messages=state.messages - {message})
        if isinstance(message, Marker):
            yield from self._marks(state, rest, message)
        elif isinstance(message, Question):
            if message.call == NONE:
                yield self._questioned(rest, message)
        elif isinstance(message, Verdict):
            if message.error:
                error = message.error
                if error == ErrorCode.CONCURRENT_TRANSACTIONS or error == ErrorCode.NOT_ENOUGH_REPLICAS:
                    error = ErrorCode.NETWORK_EXCEPTION
                yield Move("Refuses()", self._answered(rest, message.batch, error))
            elif self._is_overtaken(state, message):
                yield self._asks_coordinator(rest, message.batch, message.attempts - 1)
            else:
                yield self._appends(rest, message.batch, message.verified)
        elif message.kind == "data":
            verified = self.places.asks(state.places[message.place], message)
            if verified is None:
                yield self._appends(rest, message, None)
            else:
                yield self._asks_coordinator(rest, message, ATTEMPTS if self.scope.bumps else 1)
        else:
            call = self._number_of(message)
            number, effects = self.coordinators.asked(state.coordinator, message, call)
            label = f"{message.kind} of producer {message.producer} arrives" + (
                " late" if message.is_late else ""
            )
            yield Move(label, self._carried_out(rest._replace(coordinator=number), effects))

    def _number_of(self, asked: Request | Question) -> int:
        call = self._call.setdefault(asked, len(self._calls))
        if call == len(self._calls):
            self._calls.append(asked)
        return call

    def _is_overtaken(self, state: State, told: Verdict) -> bool:
        """A marker came into the log while the partition was added: it is asked once more."""
        place = state.places[told.batch.place]
        is_to_ask = self.scope.bumps and told.attempts > 1
        return is_to_ask and not self.places.still_holds(place, told.batch, told.verified)

    def _asks_coordinator(self, state: State, batch: Request, attempts: int) -> Move:
        verified = self.places.begun(state.places[batch.place], batch)
        places = list(state.places)
        places[batch.place] = places[batch.place]._replace(verified=verified)
        question = Question(batch, verified, attempts=attempts)
        asked = state._replace(places=tuple(places), messages=state.messages | {question})
        return Move(f"AsksCoordinator({batch.place})", asked)

    def _questioned(self, rest: State, question: Question) -> Move:
        """Where the partition is to be added, the answer may have to wait until that is committed."""
        adds = self.scope.bumps
        call = self._number_of(question) if adds else 0
        number, effects = self.coordinators.questioned(rest.coordinator, question, call)
        waits = question._replace(call=call)
        after = rest._replace(coordinator=number, messages=rest.messages | {waits})
        if adds:
            return Move(f"Adds({question.batch.place})", self._carried_out(after, effects))
        error = error_of(effects.answers[0].response)
        return Move(f"Verifies({question.batch.place})", self._told(after, call, error))

    def _appends(self, state: State, batch: Request, verified: object) -> Move:
        before = state.places[batch.place]
        appended = self.places.append(before, batch, verified)  # type: ignore[arg-type]
        places = list(state.places)
        places[batch.place] = appended.place
        is_written = appended.place is not before and len(appended.place.log) > len(before.log)
        broken = ("FencedWrite",) if is_written and batch.epoch < state.fenced_below else ()
        after = self._answered(state._replace(places=tuple(places)), batch, appended.error)
        return Move(f"Appends({batch.place}) -> {ErrorCode(appended.error).name}", after, broken)

    def _marks(self, state: State, rest: State, marker: Marker) -> Iterator[Move]:
        marked = self.places.mark(state.places[marker.place], marker)
        if marked.error:
            if marker.coordinator_epoch < state.epoch:
                yield Move("a late marker is refused", rest)
            return  # tried again, seldom
        places = list(rest.places)
        places[marker.place] = marked.place
        after = rest._replace(places=tuple(places))
        if marker.coordinator_epoch == state.epoch:
            number, effects = self.coordinators.marked(state.coordinator, marker)
            after = self._carried_out(after._replace(coordinator=number), effects)
        kind = "commit" if marker.is_commit else "abort"
        yield Move(f"Marks({marker.place}, {kind}, epoch {marker.epoch})", after)

    # --------------------------------------------------------------------------------------------- invariants

    def broken(self, state: State) -> tuple[str, ...]:
        found = []
        stored = None if state.stored is None else state.stored.state
        if stored in AT_REST and any(self.places.is_open(place) for place in state.places):
            found.append("MarkersBeforeComplete")
        if _has_two_fates(state):
            found.append("OneFate")
        return tuple(found)

    def is_stuck(self, state: State) -> bool:
        """Nothing can happen any more, and a decision is not carried out."""
        return state.tail is not None or (state.stored is not None and state.stored.state in PREPARED)


def _request_of(message: Message) -> Request:
    assert not isinstance(message, Marker)
    return message.batch if isinstance(message, Question | Verdict) else message


def _decided_otherwise(before: StoredTransaction | None, after: StoredTransaction) -> tuple[str, ...]:
    """What is decided is followed by its completion, and by nothing else."""
    if before is None or before.state not in PREPARED:
        return ()
    is_that = after.state is PREPARED[before.state] and after.epoch == before.epoch
    return () if is_that else ("DecisionKept",)


def _has_two_fates(state: State) -> bool:
    """Of each attempt: as the markers behind its batches say, and as its producer was told."""
    fates: dict[tuple[int, int], set[str]] = {}
    for place in state.places:
        undecided: list[tuple[int, int]] = []
        for entry in place.log:
            if entry.kind == DATA:
                undecided.append((entry.producer, entry.attempt))
            else:
                for whose in undecided:
                    fates.setdefault(whose, set()).add("committed" if entry.kind == COMMIT else "aborted")
                undecided = []
    for number, producer in enumerate(state.producers):
        for attempt, fate in enumerate(producer.fates):
            if fate != "unknown":
                fates.setdefault((number, attempt), set()).add(fate)
    return any(len(one) > 1 for one in fates.values())
