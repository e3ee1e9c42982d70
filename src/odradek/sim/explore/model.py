"""The moves of the small cluster, and what every state of it must satisfy.

A state is a tuple of small numbers, each standing for the value of one component; what a component does with one
message is asked of the production code once and remembered. So the search runs at the speed of dictionaries, and
every step in it is a step of production.

Messages are never lost by an action of their own: one that is not delivered any more is lost. What cannot have any
effect any more (an older epoch, a connection that is gone) is taken out, so that states do not differ by it.
"""

from collections.abc import Iterator

from odradek.sim.explore.controller_moves import ControllerMoves
from odradek.sim.explore.state import Counts, Scope, State, Step
from odradek.sim.explore.values import (
    AlterPartitionAnswer,
    FetchAnswer,
    FetchMessage,
    LeaderAndIsrMessage,
    ReplicaValue,
)

__all__ = ["Model", "Scope", "State"]


class Model(ControllerMoves):
    """`actions` may be mutated by tests (`mutations`): a model remembers, so each mutation needs a model of its own."""

    def first(self) -> State:
        """A new topic, and everybody has heard what he is."""
        value, tells = self.controllers.first_state()
        replicas = tuple(
            self.replica_values.number(self.replicas.become(tell.to, ReplicaValue(), tell)[0])
            for tell in sorted(tells, key=lambda tell: tell.to)
        )
        controller = self.controller_values.number(value)
        state = State(replicas, controller, self._message_set(set()), self.counts.number(Counts()))
        return self.canonical(state)

    # ------------------------------------------------------------------------------------------------- moves

    def successors(self, state: State) -> Iterator[tuple[str, State]]:
        counts = self.counts.of[state.counts]
        scope = self.scope
        present = self.message_sets.of[state.messages]
        for broker in self.brokers:
            replica = state.replicas[broker]
            key = (broker, replica, state.messages, counts.written)
            steps = self._of_broker.get(key)
            if steps is None:
                steps = self._of_broker[key] = list(self._broker_steps(broker, replica, present, counts))
            for step in steps:
                if step.label.startswith("LeaderWrite"):
                    number = self._one_more(state.counts, "written")
                    yield step.label, self._after(state, broker, step, counts=number)
                else:
                    yield step.label, self._after(state, broker, step)
                    if step.leaves_late_fetch and counts.lost_connections < scope.lost_connections:
                        late = self._late_fetch(broker, replica, present)
                        if late:
                            step = Step(
                                f"{step.label}, a fetch still on its way",
                                step.replica,
                                step.removes,
                                step.adds + late,
                            )
                            number = self._one_more(state.counts, "lost_connections")
                            yield step.label, self._after(state, broker, step, counts=number)
            value = self.replica_values.of[replica]
            if value.is_alive:
                if counts.power_cuts < scope.power_cuts and self._is_everything_healthy(state):
                    number = self._one_more(state.counts, "power_cuts")
                    for keeps in range(len(value.log)):
                        after = self.replica_values.number(self.replicas.power_cut(value, keeps))
                        label = f"PowerCut({broker}, keeps={keeps})"
                        yield label, self._after(state, broker, Step("", after), counts=number)
                if counts.broker_crashes < scope.broker_crashes and not self._waits_for_news(state):
                    after = self._crashed(replica)
                    number = self._one_more(state.counts, "broker_crashes")
                    yield f"BrokerCrash({broker})", self._after(state, broker, Step("", after), counts=number)
                    late = self._late_fetch(broker, replica, present)
                    if late and counts.lost_connections < scope.lost_connections:
                        number = self._one_more(number, "lost_connections")
                        step = Step("", after, (), late)
                        yield (
                            f"BrokerCrash({broker}), a fetch still on its way",
                            self._after(state, broker, step, counts=number),
                        )
                if value.registered and counts.session_expirations < scope.session_expirations:
                    after = self._expired(replica)
                    number = self._one_more(state.counts, "session_expirations")
                    yield (
                        f"SessionExpires({broker})",
                        self._after(state, broker, Step("", after), counts=number),
                    )
                if counts.lost_connections < scope.lost_connections:
                    late = self._late_fetch(broker, replica, present)
                    if late:
                        number = self._one_more(state.counts, "lost_connections")
                        step = Step("", replica, (), late)
                        yield (
                            f"FollowerLosesConnection({broker})",
                            self._after(state, broker, step, counts=number),
                        )
            elif value.log and counts.lost_disks < scope.lost_disks and self._is_known_dead(broker, state):
                after = self.replica_values.number(value._replace(log=(), epochs=()))
                number = self._one_more(state.counts, "lost_disks")
                yield f"BrokerLosesDisk({broker})", self._after(state, broker, Step("", after), counts=number)
            if scope.deposals:
                yield from self._hears_of_controller(state, broker, value, present)
            asked = self._awaited_fetch(broker, replica, present) if value.is_alive else ()
            if asked:
                about = self.messages.of[asked[0]]
                assert isinstance(about, FetchMessage)
                leader = about.to
                if self.replica_values.of[state.replicas[leader]].is_alive:
                    for step in self._step(self._answer_fetch, leader, state.replicas[leader], asked[0]):
                        if scope.second_fetches:
                            step = self._behind(broker, present, step)
                        yield step.label, self._after(state, leader, step)
        yield from self._controller_moves(state, counts, present)

    def _hears_of_controller(
        self, state: State, broker: int, value: ReplicaValue, present: tuple[int, ...]
    ) -> Iterator[tuple[str, State]]:
        """It asks the newest from now on; what the one before has not answered is lost with the connection."""
        controller = self.controller_values.of[state.controller]
        if value.is_alive and controller.is_acting and value.asks != controller.epoch:
            after = self.replica_values.number(value._replace(asks=controller.epoch))
            lost = [m for m in present if self._answers_proposal_of(m, broker)]
            yield (
                f"BrokerHearsOfController({broker})",
                self._after(state, broker, Step("", after, tuple(lost))),
            )

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
        return value.is_acting and broker not in value.stored.isr and broker not in dict(value.live)

    def _broker_steps(
        self, broker: int, replica: int, present: tuple[int, ...], counts: Counts
    ) -> Iterator[Step]:
        value = self.replica_values.of[replica]
        number = self.replica_values.number
        if not value.is_alive:
            back = value._replace(is_alive=True, broker_epoch=value.broker_epoch + 1)
            yield Step(f"BrokerStart({broker})", number(back._replace(registered=back.broker_epoch)))
            if value.registered:
                yield Step(f"SessionExpires({broker})", number(value._replace(registered=0)))
            return
        if not value.registered:
            epoch = value.broker_epoch + 1
            after = value._replace(registered=epoch, broker_epoch=epoch)
            yield Step(f"BrokerRegisters({broker})", number(after), (), self._proposal(broker, number(after)))
        for message in present:
            about = self.messages.of[message]
            if isinstance(about, LeaderAndIsrMessage):
                if about.to == broker:
                    yield from self._step(self._become, broker, replica, message)
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
            if counts.written < self.scope.records:
                yield from self._step(self._write, broker, replica, counts.written)
            yield from self._step(self._change_isr, broker, replica, 0)
