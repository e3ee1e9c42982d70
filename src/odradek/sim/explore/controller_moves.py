"""The moves of controllers: the one that was elected, and one that was deposed and has not noticed."""

from collections.abc import Iterator
from typing import Any

from odradek.sim.explore.controller_steps import Decision
from odradek.sim.explore.in_flight import InFlight
from odradek.sim.explore.state import Counts, State
from odradek.sim.explore.values import (
    AlterPartitionAnswer,
    AlterPartitionMessage,
    ControllerValue,
    Deposed,
)


class ControllerMoves(InFlight):
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
            yield "ControllerCrash", self._without_controller(state, counts, value)
        if value.deposed is None and counts.deposals < self.scope.deposals:
            number = self.counts.number(counts._replace(deposals=counts.deposals + 1))
            old = Deposed(value.epoch, value.live, value.stored, registered)
            for decision in self.decisions("elected", state.controller, registered):
                decision = decision._replace(after=decision.after._replace(deposed=old))
                yield (
                    "ControllerElected, the one before does not notice",
                    self._decided(state._replace(counts=number), decision),
                )
        if value.live != registered:
            for decision in self.decisions("brokers_changed", state.controller, registered):
                yield self._name(value, decision), self._decided(state, decision)
                for stored in decision.on_the_way if can_crash else ():
                    yield (
                        "ControllerCrash, in the middle of its writes",
                        self._without_controller(state, counts, value._replace(stored=stored)),
                    )
        for decision in self.decisions("elect_preferred", state.controller, ()):
            if decision.after != value:
                yield self._name(value, decision), self._decided(state, decision)
        for message in present:
            about = self.messages.of[message]
            if not isinstance(about, AlterPartitionMessage) or not self._is_asked(value.epoch, about, state):
                continue
            for decision in self.decisions("alter_partition", state.controller, message):
                changes = decision.after != value
                label = f"ControllerAlterPartition(isr={decision.after.stored.isr}, from={about.source})"
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
        return found

    def _name(self, before: ControllerValue, decision: Decision) -> str:
        old, new = before.stored, decision.after.stored
        if old.leader != new.leader:
            return f"ControllerElectLeader(leader={new.leader}, epoch={new.leader_epoch}, isr={new.isr})"
        if old.isr != new.isr:
            return f"ControllerShrinkIsr(isr={new.isr}, epoch={new.leader_epoch})"
        return f"ControllerHearsOfBrokers({', '.join(str(b) for b, _ in decision.after.live)})"

    def _without_controller(self, state: State, counts: Counts, value: ControllerValue) -> State:
        gone = value._replace(is_acting=False, live=())
        number = self.counts.number(counts._replace(controller_crashes=counts.controller_crashes + 1))
        return self.canonical(
            self._tidied(state._replace(controller=self.controller_values.number(gone), counts=number), None)
        )

    def _decided(self, state: State, decision: Decision, *, answers: bool = False) -> State:
        number = self.messages.number
        messages = set(self.message_sets.of[state.messages])
        messages.update(number(message) for message in decision.tells)
        if answers and decision.answer is not None:
            source = decision.answer.asked.source
            for message in tuple(messages):
                about = self.messages.of[message]
                if isinstance(about, AlterPartitionAnswer) and about.asked.source == source:
                    messages.discard(message)
            messages.add(number(decision.answer))
        after = state._replace(controller=self.controller_values.number(decision.after))
        return self.canonical(self._tidied(after, messages))
