"""The moves of controllers: the one that was elected, and one that was deposed and has not noticed."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from odradek.sim.explore.controller_steps import Decision
from odradek.sim.explore.in_flight import InFlight
from odradek.sim.explore.state import (
    CONTROLLER_CRASH,
    DEPOSAL,
    NOTHING,
    NOTHING_COUNTED,
    Move,
    Scope,
    State,
)
from odradek.sim.explore.values import (
    AlterPartitionAnswer,
    AlterPartitionMessage,
    ControllerValue,
    Deposed,
    EndOffsetAnswer,
    Registered,
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

    def _controller_moves(self, state: State, *, may_be_over: bool) -> Iterator[Move]:
        """`may_be_over`: the patience with those that were asked what they hold."""
        value = self.controller_values.of[state.controller]
        registered = self._registered(state.replicas)
        proposals = [m for m in self.parts(state.messages)[-1] if self._is_proposal(m)]
        answers = [m for m in self.parts(state.messages)[-1] if self._is_end_offset(m)]
        counted = self.counted(state.counts)
        if value.deposed is not None:
            yield from self._deposed_moves(state, value.deposed, proposals, answers)
        if not value.is_acting:
            for decision in self.decisions("elected", state.controller, registered):
                yield self._decided("ControllerElected", state, decision)
            return
        can_crash = counted[CONTROLLER_CRASH] >= 0
        if can_crash:
            gone = self._remember(("gone", state.controller), lambda: self._gone(value))
            yield self._without_controller("ControllerCrash", state, gone)
        if value.deposed is None and counted[DEPOSAL] >= 0:
            old = Deposed(value.epoch, value.live, value.stored, registered, value.poll)
            for decision in self.decisions("elected", state.controller, registered):
                decision = decision._replace(after=decision.after._replace(deposed=old))
                label = "ControllerElected, the one before does not notice"
                yield self._decided(label, state, decision, DEPOSAL)
        if value.live != registered:
            for decision in self.decisions("brokers_changed", state.controller, registered):
                yield self._decided(self._name(state.controller, decision), state, decision)
                for stored in decision.on_the_way if can_crash else ():
                    label = "ControllerCrash, in the middle of its writes"
                    yield self._without_controller(label, state, self._gone(value._replace(stored=stored)))
        for decision in self.decisions("elect_preferred", state.controller, ()):
            if self._outcomes[id(decision)].after != state.controller:
                yield self._decided(self._name(state.controller, decision), state, decision)
        for message in proposals:
            about = self.messages.of[message]
            assert isinstance(about, AlterPartitionMessage)
            if not self._is_asked(value.epoch, about, state):
                continue
            for decision in self.decisions("alter_partition", state.controller, message):
                changes = self._outcomes[id(decision)].after != state.controller
                label = self._answer_name(message, decision)
                if changes:
                    yield self._decided(f"{label}, unanswered", state, decision, is_repeat=True)
                if decision.answer is not None:
                    yield self._decided(label, state, decision, answers=True)

        for message in answers:
            said = self.messages.of[message]
            assert isinstance(said, EndOffsetAnswer)
            if said.controller_epoch == value.epoch:
                for decision in self.decisions("end_offset_answered", state.controller, message):
                    label = (
                        f"ControllerHearsEndOffset(from={said.source}, leader={decision.after.stored.leader})"
                    )
                    yield self._decided(label, state, decision, removes=frozenset([message]))
        if value.poll is not None and may_be_over:
            for decision in self.decisions("patience_ended", state.controller, ()):
                label = f"PatienceEnds(leader={decision.after.stored.leader})"
                yield self._decided(label, state, decision)

    def _is_asked(self, epoch: int, about: AlterPartitionMessage, state: State) -> bool:
        """By whoever sent it: of two controllers a leader asks the one it has heard of."""
        source = self.replica_values.of[state.replicas[about.source]]
        return not self.scope.deposals or not source.is_alive or source.asks == epoch

    def _deposed_moves(
        self, state: State, old: Deposed, proposals: list[int], answers: list[int]
    ) -> Iterator[Move]:
        value = self.controller_values.of[state.controller]

        def moves(what: str, label: str, message: int = -1) -> Iterator[Move]:
            for decision in self.decisions("deposed", state.controller, (what, message)):
                if decision.after.deposed is None:
                    yield self._decided(f"{label}, fenced", state, decision)
                    continue
                if decision.after != value:
                    yield self._decided(label, state, decision)
                if decision.answer is not None:
                    yield self._decided(label, state, decision, answers=True)

        if old.poll is not None:
            yield from moves("patience_ended", "OldControllerPatienceEnds")
        for message in answers:
            said = self.messages.of[message]
            assert isinstance(said, EndOffsetAnswer)
            if said.controller_epoch == old.epoch:
                label = f"OldControllerHearsEndOffset(from={said.source})"
                yield from moves("end_offset_answered", label, message)
        if old.live != old.will_hear:
            yield from moves("brokers_changed", "OldControllerHearsOfBrokers")
        yield from moves("elect_preferred", "OldControllerElectsLeader")
        for message in proposals:
            about = self.messages.of[message]
            assert isinstance(about, AlterPartitionMessage)
            if self._is_asked(old.epoch, about, state):
                yield from moves(
                    "alter_partition", f"OldControllerAlterPartition(from={about.source})", message
                )

    def _registered(self, replicas: tuple[int, ...]) -> Registered:
        of = self.replica_values.of
        return tuple(
            [(b, of[r].registered, of[r].clean_epoch) for b, r in enumerate(replicas) if of[r].registered]
        )

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
                assert asked is None or isinstance(asked, AlterPartitionMessage | EndOffsetAnswer)
                made = self.controllers.deposed(value, kind, asked)
            elif what == "patience_ended":
                made = self.controllers.patience_ended(value)
            elif what == "end_offset_answered":
                said = self.messages.of[about]
                assert isinstance(said, EndOffsetAnswer)
                made = self.controllers.end_offset_answered(value, said)
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
        return f"ControllerHearsOfBrokers({', '.join(str(b) for b in decision.after.lives)})"

    def _gone(self, value: ControllerValue) -> int:
        return self.controller_values.number(value._replace(is_acting=False, live=(), poll=None))

    def _without_controller(self, label: str, state: State, gone: int) -> Move:
        return self._controlled(label, state, gone, (), NOTHING, CONTROLLER_CRASH)

    def _decided(
        self,
        label: str,
        state: State,
        decision: Decision,
        counted: int = NOTHING_COUNTED,
        *,
        answers: bool = False,
        is_repeat: bool = False,
        removes: frozenset[int] = NOTHING,
    ) -> Move:
        """`is_repeat`: what is obeyed is later than all that was read of its leader (`broker/proposal_order`), which does not wait
        for an answer to those any more."""
        outcome = self._outcomes.get(id(decision))
        if outcome is None:  # none of those that are remembered
            outcome = self._outcome(decision)
        adds = outcome.tells
        if (answers or (is_repeat and not self.reads_former_proposals)) and outcome.answer >= 0:
            told = outcome.answered
            about = self.parts(state.messages)[told]
            removes = frozenset([m for m in about if self._answers_proposal_of(m, told)])
            if answers:
                adds = (*adds, outcome.answer)
        return self._controlled(label, state, outcome.after, adds, removes, counted)

    def _controlled(
        self,
        label: str,
        state: State,
        controller: int,
        adds: tuple[int, ...],
        removes: frozenset[int],
        counted: int,
    ) -> Move:
        replicas = state.replicas
        change = self.change(len(self.brokers), controller)
        if self.scope.second_fetches:
            present = self.message_sets.of[state.messages]
            messages = [*sorted(present - removes), *adds]
            return self._tidied(label, change, replicas, controller, present, messages, counted)
        # Of what is in flight only what the controller asks, or is asked, may be of no use now.
        gone = [
            message
            for message in self.parts(state.messages)[-1]
            if self._about[message][1] and not self._is_useful(message, replicas, controller)
        ]
        new = [m for m in adds if self._is_useful(m, replicas, controller)]
        return label, change, removes.union(gone), frozenset(new), counted, None

    def _is_proposal(self, message: int) -> bool:
        return isinstance(self.messages.of[message], AlterPartitionMessage)

    def _is_end_offset(self, message: int) -> bool:
        return isinstance(self.messages.of[message], EndOffsetAnswer)

    def _is_heard(self, about: EndOffsetAnswer, message: int, controller: int) -> bool:
        value = self.controller_values.of[controller]
        if value.is_acting and value.epoch == about.controller_epoch:
            made = self.decisions("end_offset_answered", controller, message)
        elif value.deposed is not None and value.deposed.epoch == about.controller_epoch:
            made = self.decisions("deposed", controller, ("end_offset_answered", message))
        else:
            return False
        return any(decision.after != value for decision in made)

    def _answers_proposal_of(self, message: int, broker: int) -> bool:
        about = self.messages.of[message]
        return isinstance(about, AlterPartitionAnswer) and about.asked.source == broker
