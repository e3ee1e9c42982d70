"""The moves of the small cluster, and what every state of it must satisfy.

A state is a tuple of small numbers, each standing for the value of one component; what a component does with one
message is asked of the production code once and remembered. So the search runs at the speed of dictionaries, and
every step in it is a step of production.

Messages are never lost by an action of their own: one that is not delivered any more is lost. What cannot have any
effect any more (an older epoch, a connection that is gone) is taken out, so that states do not differ by it.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

from odradek.sim.explore.controller_moves import ControllerMoves
from odradek.sim.explore.state import (
    CONTROLLER_CRASH,
    COUNTS_BITS,
    CRASH,
    CRASH_AND_FETCH,
    DEPOSAL,
    EXPIRATION,
    LOST_CONNECTION,
    LOST_DISK,
    NODES_SHIFT,
    NOTHING,
    POWER_CUT,
    WRITTEN,
    Counts,
    Move,
    Scope,
    State,
    Step,
    Values,
)
from odradek.sim.explore.values import (
    AlterPartitionAnswer,
    EndOffsetQuestion,
    FetchAnswer,
    FetchMessage,
    LeaderAndIsrMessage,
    ReplicaValue,
)

__all__ = ["Model", "Scope", "State"]


NO_MORE = -1


class Allowed(NamedTuple):
    """What the scope has left for brokers."""

    written: int  # the number of the next record, or `NO_MORE`
    crash: bool
    expiration: bool
    lost_connection: bool
    lost_disk: bool
    power_cut: bool
    bounce: bool = False  # a crash, and it is back before anybody looks


class Model(ControllerMoves):
    """It remembers what production did: whoever changes that (`tests/mutants/search.py`) needs a model of its own for each change."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self.allowed: Values[Allowed] = Values()
        self._allowed_by_counts: dict[int, int] = {}
        self._of_broker: dict[tuple[int, int, tuple[int, ...], int], list[Step]] = {}
        self._known_moves: dict[Hashable, tuple[Move, ...]] = {}
        self._same: dict[Move, Move] = {}

    def first(self) -> State:
        return self.canonical(self.beginning()[1][-1])

    def beginning(self) -> tuple[list[str], list[State]]:
        """What has happened before the search begins, and the states on the way."""
        if not self.scope.begins_in_doubt:
            return [], [self._new_topic()]
        brokers = self.brokers
        free = Scope(
            len(brokers), 1, 99, 99, broker_crashes=len(brokers), min_insync_replicas=2, power_cuts=1
        )
        walker = Model(free)
        steps = ["LeaderWrite(0"]
        for follower in brokers[1:]:
            fetch = f"(0, follower={follower}, offset="
            steps += [f"{fetch}0", f"FollowerReplicate({follower}", f"{fetch}1"]
        for broker in (*brokers[1:], brokers[0]):
            steps += [f"BrokerCrash({broker})", f"SessionExpires({broker})", "Controller"]
        for broker in brokers:
            steps += [f"BrokerStart({broker})", "Controller"]
        actions, states = [], [walker._new_topic()]
        with walker.keeping_names():
            for step in steps:
                moves = walker.successors(states[-1])
                action, state = next(move for move in moves if _is_step(step, move[0]))
                actions.append(action)
                states.append(state)
        return actions, [self._copied(walker, state) for state in states]

    def _copied(self, other: "Model", state: State) -> State:
        """Of another model, with nothing counted but what was committed."""
        counts = other.counts.of[state.counts]
        messages = [self.messages.number(other.messages.of[m]) for m in other.message_sets.of[state.messages]]
        return State(
            tuple(self.replica_values.number(other.replica_values.of[r]) for r in state.replicas),
            self.controller_values.number(other.controller_values.of[state.controller]),
            self.message_sets.number(frozenset(messages)),
            self.counts.number(Counts(written=counts.written, committed=counts.committed)),
        )

    def _new_topic(self) -> State:
        """Everybody has heard what he is."""
        value, tells = self.controllers.first_state()
        replicas = tuple(
            self.replica_values.number(self.replicas.become(tell.to, ReplicaValue(), tell)[0])
            for tell in sorted(tells, key=lambda tell: tell.to)
        )
        controller = self.controller_values.number(value)
        return State(replicas, controller, self.message_sets.number(NOTHING), self.counts.number(Counts()))

    # ------------------------------------------------------------------------------------------------- moves

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        """What may happen, and the state after it."""
        present = self.message_sets.of[state.messages]
        counted = self.counted(state.counts)
        for moves in self._moves(state):
            for label, change, gone, new, kind, late in moves:
                if late is not None and self._is_useful(late[0], state.replicas, state.controller):
                    new = late[1]
                counts = counted[kind]
                if self.scope.power_cuts:
                    counts = self._with_committed(counts, change, state.controller)
                messages = self.message_sets.number(present - gone | new)
                nodes = self._changed(state.replicas, state.controller, change)
                yield label, self.canonical(State(*nodes, messages, counts))

    def reached(self, number: int) -> Iterator[int]:
        """`successors` in numbers of states. Here is most of the time of a long search."""
        state = self.state_of(number)
        _, controller, messages, counts_before = state
        present = self.message_sets.of[messages]
        counted = self.counted(counts_before)
        set_number = self.message_sets.number
        arrivals = self.nodes[number >> NODES_SHIFT].after
        cuts_power = self.scope.power_cuts > 0
        for moves in self._moves(state):
            for _, change, gone, new, kind, late in moves:
                if late is not None and self._is_useful(late[0], state.replicas, controller):
                    new = late[1]
                counts = counted[kind]
                if cuts_power:
                    counts = self._with_committed(counts, change, controller)
                if new:
                    now = set_number(present - gone | new if gone else present | new)
                else:
                    now = set_number(present - gone) if gone else messages
                arrival = arrivals.get(change)
                if arrival is None:
                    arrival = self.arrival(*self._changed(state.replicas, controller, change))
                    arrivals[change] = arrival
                nodes, renamed = arrival
                if renamed is not None:
                    now = renamed[now]
                yield nodes | now << COUNTS_BITS | counts

    def _moves(self, state: State) -> Iterator[Iterable[Move]]:
        """Of one broker after the other, and of the controller. What a broker may do depends on itself, on what is in flight
        about it, on the controller, and on what the scope allows still: it is remembered by that."""
        replicas, controller = state.replicas, state.controller
        parts = self.parts(state.messages)
        allowed = self._allowed(state)
        known = self._known_moves
        for broker in self.brokers:
            replica, about = replicas[broker], parts[broker]
            if self.scope.power_cuts:
                allowed = self._allowed_to(state, broker)
            if self.scope.second_fetches:  # what is left in flight depends on everything
                yield self._moves_of(state, broker, allowed)
                yield self._answers_to(state, broker)
                continue
            key: Hashable = (broker, replica, about, controller, allowed)
            moves = known.get(key)
            yield moves if moves is not None else self._noted(key, self._moves_of(state, broker, allowed))
            asked = self._asked(broker, replica, about)
            if asked is not None:
                leader = asked[1]
                key = (asked, replica, replicas[leader], parts[leader], controller)
                moves = known.get(key)
                yield moves if moves is not None else self._noted(key, self._answers_to(state, broker))
        if self.scope.second_fetches:
            yield self._controller_moves(state, may_be_over=True)
            return
        counted = self.counted(state.counts)
        may_be_over = not self.scope.power_cuts or self._may_be_over(state)
        may = counted[CONTROLLER_CRASH] >= 0, counted[DEPOSAL] >= 0, may_be_over
        key = (replicas, controller, parts[-1], may)
        moves = known.get(key)
        if moves is None:
            yield self._noted(key, self._controller_moves(state, may_be_over=may_be_over))
        else:
            yield moves

    def _noted(self, key: Hashable, moves: Iterator[Move]) -> Iterator[Move]:
        """One after the other, so that values get their numbers as if nothing were remembered. Equal moves are kept once."""
        noted = []
        for move in moves:
            noted.append(self._same.setdefault(move, move))
            yield move
        self._known_moves[key] = tuple(noted)

    def _allowed(self, state: State) -> int:
        found = self._allowed_by_counts.get(state.counts)
        if found is None:
            counted = self.counted(state.counts)
            allowed = Allowed(
                self.counts.of[state.counts].written if counted[WRITTEN] >= 0 else NO_MORE,
                *[counted[kind] >= 0 for kind in (CRASH, EXPIRATION, LOST_CONNECTION, LOST_DISK, POWER_CUT)],
            )
            found = self._allowed_by_counts[state.counts] = self.allowed.number(allowed)
        return found

    def _allowed_to(self, state: State, broker: int) -> int:
        """Also what a cluster survives, where records are lost."""
        allowed = self.allowed.of[self._allowed(state)]
        survives = self._survives(state, broker, dies=True)
        return self.allowed.number(
            allowed._replace(
                power_cut=allowed.power_cut and self._survives(state, broker, dies=True, loses=True),
                crash=allowed.crash and survives,
                bounce=allowed.crash and not survives,
                expiration=allowed.expiration and self._survives(state, broker),
            )
        )

    def _moves_of(self, state: State, broker: int, number: int) -> Iterator[Move]:
        allowed = self.allowed.of[number]
        replica = state.replicas[broker]
        present = self.parts(state.messages)[broker]
        key = (broker, replica, present, allowed.written)
        steps = self._of_broker.get(key)
        if steps is None:
            steps = self._of_broker[key] = list(self._broker_steps(broker, replica, present, allowed.written))
        for step in steps:
            if step.label.startswith("LeaderWrite"):
                yield self._move(step.label, state, broker, step, WRITTEN)
                continue
            yield self._move(step.label, state, broker, step)
            if step.leaves_late_fetch and allowed.lost_connection:
                late = self._late_fetch(broker, replica, present)
                if late:
                    label = f"{step.label}, a fetch still on its way"
                    yield self._move(label, state, broker, step, LOST_CONNECTION, late)
        value = self.replica_values.of[replica]
        if value.is_alive:
            if allowed.power_cut:
                for keeps in range(len(value.log)):
                    after = self.replica_values.number(self.replicas.power_cut(value, keeps))
                    label = f"PowerCut({broker}, keeps={keeps})"
                    yield self._move(label, state, broker, Step("", after), POWER_CUT)
            if allowed.crash:
                step = Step("", self._crashed(replica))
                yield self._move(f"BrokerCrash({broker})", state, broker, step, CRASH)
                late = self._late_fetch(broker, replica, present)
                if late and allowed.lost_connection:
                    label = f"BrokerCrash({broker}), a fetch still on its way"
                    yield self._move(label, state, broker, step, CRASH_AND_FETCH, late)
            if allowed.bounce:
                back = _started(self.replicas.crashed(value))
                step = Step("", self.replica_values.number(back))
                yield self._move(f"BrokerBounces({broker})", state, broker, step, CRASH)
            if value.registered and allowed.expiration:
                step = Step("", self._expired(replica))
                yield self._move(f"SessionExpires({broker})", state, broker, step, EXPIRATION)
            if allowed.lost_connection:
                late = self._late_fetch(broker, replica, present)
                if late:
                    label = f"FollowerLosesConnection({broker})"
                    yield self._move(label, state, broker, Step("", replica), LOST_CONNECTION, late)
        elif value.log and allowed.lost_disk and self._is_known_dead(broker, state):
            step = Step("", self.replica_values.number(value._replace(log=(), epochs=())))
            yield self._move(f"BrokerLosesDisk({broker})", state, broker, step, LOST_DISK)
        if self.scope.deposals:
            yield from self._hears_of_controller(state, broker, value, present)

    def _answers_to(self, state: State, follower: int) -> Iterator[Move]:
        """What its leader does with what it asks now."""
        present = self.parts(state.messages)[follower]
        asked = self._asked(follower, state.replicas[follower], present)
        if asked is None:
            return
        message, leader = asked
        replica = state.replicas[leader]
        if self.replica_values.of[replica].is_alive:
            for step in self._step(self._answer_fetch, leader, replica, message):
                if self.scope.second_fetches:
                    step = self._behind(follower, present, step)
                yield self._move(step.label, state, leader, step)

    def _asked(self, broker: int, replica: int, present: tuple[int, ...]) -> tuple[int, int] | None:
        """(the fetch that waits for its answer, whose it is)"""
        key = ("asked", broker, replica, present)
        if key in self._memory:
            return self._memory[key]  # type: ignore[no-any-return]
        asked = (
            self._awaited_fetch(broker, replica, present) if self.replica_values.of[replica].is_alive else ()
        )
        found = None
        if asked:
            about = self.messages.of[asked[0]]
            assert isinstance(about, FetchMessage)
            found = asked[0], about.to
        self._memory[key] = found
        return found

    def _hears_of_controller(
        self, state: State, broker: int, value: ReplicaValue, present: tuple[int, ...]
    ) -> Iterator[Move]:
        """It asks the newest from now on; what the one before has not answered is lost with the connection."""
        controller = self.controller_values.of[state.controller]
        if value.is_alive and controller.is_acting and value.asks != controller.epoch:
            after = self.replica_values.number(value._replace(asks=controller.epoch))
            lost = [m for m in present if self._answers_proposal_of(m, broker)]
            label = f"BrokerHearsOfController({broker})"
            yield self._move(label, state, broker, Step("", after, tuple(lost)))

    def _crashed(self, replica: int) -> int:
        def make() -> int:
            return self.replica_values.number(self.replicas.crashed(self.replica_values.of[replica]))

        return self._remember(("crashed", replica), make)  # type: ignore[no-any-return]

    def _expired(self, replica: int) -> int:
        """Its session is over."""

        def make() -> int:
            return self.replica_values.number(self.replica_values.of[replica]._replace(registered=0))

        return self._remember(("expired", replica), make)  # type: ignore[no-any-return]

    def _is_known_dead(self, broker: int, state: State) -> bool:
        """Out of the ISR, and the controller knows. A disk lost before that is a lost member of the ISR: no rule of
        replication can make up for it."""
        value = self.controller_values.of[state.controller]
        return value.is_acting and broker not in value.stored.isr and broker not in value.lives

    def _broker_steps(
        self, broker: int, replica: int, present: tuple[int, ...], written: int
    ) -> Iterator[Step]:
        """`present`: what is in flight about it. `written`: the number of its next record, if there may be one."""
        value = self.replica_values.of[replica]
        number = self.replica_values.number
        if not value.is_alive:
            yield Step(f"BrokerStart({broker})", number(_started(value)))
            if value.registered:
                yield Step(f"SessionExpires({broker})", number(value._replace(registered=0)))
            return
        if not value.registered:
            after = self.replicas.registered_again(value)
            yield Step(f"BrokerRegisters({broker})", number(after), (), self._proposal(broker, number(after)))
        for message in present:
            about = self.messages.of[message]
            if isinstance(about, LeaderAndIsrMessage):
                if about.to == broker:
                    yield from self._step(self._become, broker, replica, message)
            elif isinstance(about, EndOffsetQuestion):
                yield from self._step(self._answer_end_offset, broker, replica, message)
            elif isinstance(about, FetchMessage):
                if about.to == broker:
                    yield from self._step(self._handle_late_fetch, broker, replica, message)
            elif isinstance(about, FetchAnswer):
                if about.to == broker and about.turn == 0:
                    for step in self._step(self._fetched, broker, replica, message):
                        yield self._next_in_turn(broker, replica, present, step)
            elif isinstance(about, AlterPartitionAnswer) and about.asked.source == broker:
                yield from self._step(self._isr_answered, broker, replica, message)
        if value.is_leader:
            if written != NO_MORE:
                yield from self._step(self._write, broker, replica, written)
            yield from self._step(self._change_isr, broker, replica, 0)


def _started(value: ReplicaValue) -> ReplicaValue:
    epoch = value.broker_epoch + 1
    return value._replace(is_alive=True, broker_epoch=epoch, registered=epoch)


def _is_step(wanted: str, action: str) -> bool:
    """Of a controller, what it does about brokers."""
    if wanted == "Controller":
        return action.startswith(("ControllerShrinkIsr", "ControllerElectLeader", "ControllerHearsOfBrokers"))
    return wanted in action
