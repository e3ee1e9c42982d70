"""The moves of controllers: the one that was elected, and one that was deposed and has not noticed."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from odradek.sim.explore.controller_steps import Decision
from odradek.sim.explore.in_flight import InFlight
from odradek.sim.explore.state import Counts, Scope, State
from odradek.sim.explore.values import (
    AlterPartitionAnswer,
    AlterPartitionMessage,
    ControllerValue,
    Deposed,
)


class Outcome(NamedTuple):
    """A decision in numbers."""

    decision: Decision
    after: int
    tells: tuple[int, ...]
    answer: int  # -1: none
    answered: int  # who is answered


class ControllerMoves(InFlight):
    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self._outcomes: dict[int, Outcome] = {}  # by the identity of the decision, which is remembered too
        # By the controller, or -1 less the message that it answers, and the identity of what it decides.
        self._names: dict[tuple[int, int], str] = {}

    def _controller_moves(
        self, state: State, counts: Counts, present: tuple[int, ...]
    ) -> Iterator[tuple[str, State]]:
        value = self.controller_values.of[state.controller]
        registered = self._registered(state.replicas)
        if value.deposed is not None:
            yield from self._deposed_moves(state, value.deposed, present)
        if not value.is_acting:
            for decision in self.decisions("elected", state.controller, registered):
                yield "ControllerElected", self._decided(state, decision)
            return
        can_crash = counts.controller_crashes < self.scope.controller_crashes
        if can_crash:
            gone = self._remember(("gone", state.controller), lambda: self._gone(value))
            yield "ControllerCrash", self._without_controller(state, gone)
        if value.deposed is None and counts.deposals < self.scope.deposals:
            number = self._one_more(state.counts, "deposals")
            old = Deposed(value.epoch, value.live, value.stored, registered)
            for decision in self.decisions("elected", state.controller, registered):
                decision = decision._replace(after=decision.after._replace(deposed=old))
                yield (
                    "ControllerElected, the one before does not notice",
                    self._decided(state._replace(counts=number), decision),
                )
        if value.live != registered:
            for decision in self.decisions("brokers_changed", state.controller, registered):
                yield self._name(state.controller, decision), self._decided(state, decision)
                for stored in decision.on_the_way if can_crash else ():
                    yield (
                        "ControllerCrash, in the middle of its writes",
                        self._without_controller(state, self._gone(value._replace(stored=stored))),
                    )
        for decision in self.decisions("elect_preferred", state.controller, ()):
            if self._outcomes[id(decision)].after != state.controller:
                yield self._name(state.controller, decision), self._decided(state, decision)
        for message in present:
            about = self.messages.of[message]
            if not isinstance(about, AlterPartitionMessage) or not self._is_asked(value.epoch, about, state):
                continue
            for decision in self.decisions("alter_partition", state.controller, message):
                changes = self._outcomes[id(decision)].after != state.controller
                label = self._answer_name(message, decision)
                if changes:
                    yield f"{label}, unanswered", self._decided(state, decision)
                if decision.answer is not None:
                    yield label, self._decided(state, decision, answers=True)

    def _is_asked(self, epoch: int, about: AlterPartitionMessage, state: State) -> bool:
        """By whoever sent it: of two controllers a leader asks the one it has heard of."""
        source = self.replica_values.of[state.replicas[about.source]]
        return not self.scope.deposals or not source.is_alive or source.asks == epoch

    def _deposed_moves(
        self, state: State, old: Deposed, present: tuple[int, ...]
    ) -> Iterator[tuple[str, State]]:
        value = self.controller_values.of[state.controller]

        def moves(what: str, label: str, message: int = -1) -> Iterator[tuple[str, State]]:
            for decision in self.decisions("deposed", state.controller, (what, message)):
                if decision.after.deposed is None:
                    yield f"{label}, fenced", self._decided(state, decision)
                    continue
                if decision.after != value:
                    yield label, self._decided(state, decision)
                if decision.answer is not None:
                    yield label, self._decided(state, decision, answers=True)

        if old.live != old.will_hear:
            yield from moves("brokers_changed", "OldControllerHearsOfBrokers")
        yield from moves("elect_preferred", "OldControllerElectsLeader")
        for message in present:
            about = self.messages.of[message]
            if isinstance(about, AlterPartitionMessage) and self._is_asked(old.epoch, about, state):
                yield from moves(
                    "alter_partition", f"OldControllerAlterPartition(from={about.source})", message
                )

    def _registered(self, replicas: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        of = self.replica_values.of
        return tuple([(b, of[r].registered) for b, r in enumerate(replicas) if of[r].registered])

    def decisions(self, what: str, controller: int, about: Any) -> list[Decision]:
        key = (what, controller, about)
        found = self._memory.get(key)
        if found is None:
            value = self.controller_values.of[controller]
            if what == "elected":
                made = self.controllers.elected(value, about)
            elif what == "brokers_changed":
                made = self.controllers.brokers_changed(value, about)
            elif what == "elect_preferred":
                made = self.controllers.elect_preferred(value)
            elif what == "deposed":
                kind, number = about
                asked = self.messages.of[number] if number >= 0 else None
                assert asked is None or isinstance(asked, AlterPartitionMessage)
                made = self.controllers.deposed(value, kind, asked)
            else:
                message = self.messages.of[about]
                assert isinstance(message, AlterPartitionMessage)
                made = self.controllers.alter_partition(value, message)
            scope = self.scope
            inside = [
                decision
                for decision in made
                if decision.after.stored.leader_epoch < scope.leader_epochs
                and decision.after.stored.partition_epoch < scope.partition_epochs
            ]
            found = self._memory[key] = sorted(inside, key=repr)
            for decision in found:
                self._outcomes[id(decision)] = self._outcome(decision)
        return found

    def _outcome(self, decision: Decision) -> Outcome:
        number, answer = self.messages.number, decision.answer
        return Outcome(
            decision,
            self.controller_values.number(decision.after),
            tuple(number(message) for message in decision.tells),
            -1 if answer is None else number(answer),
            -1 if answer is None else answer.asked.source,
        )

    def _name(self, controller: int, decision: Decision) -> str:
        key = controller, id(decision)
        found = self._names.get(key)
        if found is None:
            found = self._names[key] = self._new_name(self.controller_values.of[controller], decision)
        return found

    def _answer_name(self, message: int, decision: Decision) -> str:
        key = -1 - message, id(decision)
        found = self._names.get(key)
        if found is None:
            about = self.messages.of[message]
            assert isinstance(about, AlterPartitionMessage)
            found = f"ControllerAlterPartition(isr={decision.after.stored.isr}, from={about.source})"
            self._names[key] = found
        return found

    def _new_name(self, before: ControllerValue, decision: Decision) -> str:
        old, new = before.stored, decision.after.stored
        if old.leader != new.leader:
            return f"ControllerElectLeader(leader={new.leader}, epoch={new.leader_epoch}, isr={new.isr})"
        if old.isr != new.isr:
            return f"ControllerShrinkIsr(isr={new.isr}, epoch={new.leader_epoch})"
        return f"ControllerHearsOfBrokers({', '.join(str(b) for b, _ in decision.after.live)})"

    def _gone(self, value: ControllerValue) -> int:
        return self.controller_values.number(value._replace(is_acting=False, live=()))

    def _without_controller(self, state: State, gone: int) -> State:
        number = self._one_more(state.counts, "controller_crashes")
        return self._found(state.replicas, gone, self.message_sets.of[state.messages], number)

    def _decided(self, state: State, decision: Decision, *, answers: bool = False) -> State:
        outcome = self._outcomes.get(id(decision))
        if outcome is None:  # none of those that are remembered
            outcome = self._outcome(decision)
        messages = [*self.message_sets.of[state.messages], *outcome.tells]
        if answers and outcome.answer >= 0:
            messages = [m for m in messages if not self._answers_proposal_of(m, outcome.answered)]
            messages.append(outcome.answer)
        return self._found(state.replicas, outcome.after, messages, state.counts)

    def _answers_proposal_of(self, message: int, broker: int) -> bool:
        about = self.messages.of[message]
        return isinstance(about, AlterPartitionAnswer) and about.asked.source == broker
