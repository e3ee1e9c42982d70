"""What is left in flight after a move. What cannot have any effect any more is taken out, so that states do not differ
by it; a message that is not delivered any more is lost."""

from collections.abc import Iterable

from odradek.sim.explore.broker_moves import BrokerMoves
from odradek.sim.explore.state import NOTHING_COUNTED, Memo, Move, Scope, State, Step
from odradek.sim.explore.values import (
    AlterPartitionAnswer,
    AlterPartitionMessage,
    EndOffsetAnswer,
    EndOffsetQuestion,
    FetchAnswer,
    FetchMessage,
    LeaderAndIsrMessage,
    Message,
)

OF_CONTROLLERS = AlterPartitionMessage | AlterPartitionAnswer | EndOffsetQuestion | EndOffsetAnswer


class InFlight(BrokerMoves):
    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        of = self.messages.of
        # By the number of a message: the broker whose state says whether it is of any use, and whether the controller's does too.
        self._about: Memo[int, tuple[int, bool]] = Memo(lambda message: _about_whom(of[message]))
        # Whether it is, by its number, that of its broker's state, and that of the controller's or -1.
        self._useful: dict[tuple[int, int, int], bool] = {}
        # By the number of a set: the messages about each broker, and behind them those between leaders and the controller.
        self._parts: dict[int, tuple[tuple[int, ...], ...]] = {}

    def parts(self, messages: int) -> tuple[tuple[int, ...], ...]:
        found = self._parts.get(messages)
        if found is None:
            parts: list[list[int]] = [[] for _ in range(self.node_count)]
            for message in sorted(self.message_sets.of[messages]):
                parts[self._about[message][0]].append(message)
                if isinstance(self.messages.of[message], OF_CONTROLLERS):
                    parts[-1].append(message)
            found = self._parts[messages] = tuple(map(tuple, parts))
        return found

    def _move(
        self,
        label: str,
        state: State,
        broker: int,
        step: Step,
        counted: int = NOTHING_COUNTED,
        late: tuple[int, ...] = (),
    ) -> Move:
        """`late`: a fetch to another broker, of whose state nothing is known here."""
        replicas, controller = state.replicas, state.controller
        if step.replica != replicas[broker]:
            replicas = (*replicas[:broker], step.replica, *replicas[broker + 1 :])
        change = self.change(broker, step.replica)
        removes = step.removes
        if self.scope.second_fetches:
            present = self.message_sets.of[state.messages]
            messages = [*sorted(present.difference(removes)), *step.adds, *late]
            return self._tidied(label, change, replicas, controller, present, messages, counted)
        # A state has been tidied: of what is in flight in it only what is about this broker may be of no use now.
        gone = [
            message
            for message in self.parts(state.messages)[broker]
            if message in removes or not self._is_useful(message, replicas, controller)
        ]
        new = frozenset([m for m in step.adds if self._is_useful(m, replicas, controller)])
        return label, change, frozenset(gone), new, counted, (late[0], new.union(late)) if late else None

    def _tidied(
        self,
        label: str,
        change: int,
        replicas: tuple[int, ...],
        controller: int,
        present: frozenset[int],
        messages: Iterable[int],
        counted: int,
    ) -> Move:
        """For where messages depend on one another: without all that cannot have any effect any more."""
        kept = self._in_turn({m for m in messages if self._is_useful(m, replicas, controller)})
        return label, change, present - kept, frozenset(kept - present), counted, None

    def _is_useful(self, message: int, replicas: tuple[int, ...], controller: int) -> bool:
        broker, is_for_controller = self._about[message]
        key = message, replicas[broker], controller if is_for_controller else -1
        useful = self._useful.get(key)
        if useful is None:
            useful = self._useful[key] = self._has_effect(message, replicas, controller)
        return useful

    def _with_committed(self, counts: int, change: int, controller: int) -> int:
        replica, node = divmod(change, self.node_count)
        if node == len(self.brokers):
            return counts
        value, stored = self.replica_values.of[replica], self.controller_values.of[controller].stored
        known = self.counts.of[counts]
        if (
            value.is_leader
            and value.is_alive
            and value.leader_epoch == stored.leader_epoch
            and value.high_watermark > len(known.committed)
        ):
            return self.counts.number(known._replace(committed=value.log[: value.high_watermark]))
        return counts

    def _in_turn(self, messages: set[int]) -> set[int]:
        """With the answer before it gone without any effect, the one behind is next."""
        of = self.messages.of
        answers = [(m, of[m]) for m in messages if of[m].kind == "FetchAnswer"]
        led = {about.to for _, about in answers if isinstance(about, FetchAnswer) and about.turn == 0}
        for message, about in answers:
            if isinstance(about, FetchAnswer) and about.turn == 1 and about.to not in led:
                messages.discard(message)
                messages.add(self.messages.number(about._replace(turn=0)))
        return messages

    def _has_effect(self, message: int, replicas: tuple[int, ...], controller: int) -> bool:
        of = self.replica_values.of
        about = self.messages.of[message]
        if isinstance(about, LeaderAndIsrMessage):
            to = of[replicas[about.to]]
            is_old = (
                not to.is_alive
                or about.broker_epoch < to.broker_epoch
                or about.controller_epoch < to.controller_epoch
                or (to.is_hosted and about.leader_epoch <= to.leader_epoch)
            )
        elif isinstance(about, FetchMessage):
            to = of[replicas[about.to]]
            is_old = not to.is_alive or (self.fences_fetches and about.leader_epoch < to.leader_epoch)
        elif isinstance(about, FetchAnswer):
            to = of[replicas[about.to]]
            is_old = (
                not to.is_alive
                or to.is_leader
                or to.leader != about.source
                or to.leader_epoch != about.leader_epoch
                or (len(to.log) != about.asked_end and not self.scope.second_fetches)
                or (
                    about.turn == 0
                    and self._step(self._fetched, about.to, replicas[about.to], message)[0].replica
                    == replicas[about.to]
                )  # no news: the fetch is still parked
            )
        elif isinstance(about, AlterPartitionMessage):
            stored = self.controller_values.of[controller].stored
            source = of[replicas[about.source]]
            asking = self._proposal(about.source, replicas[about.source]) if source.is_alive else ()
            is_old = about.broker_epoch < source.broker_epoch or (
                asking != (message,)
                and (
                    about.leader_epoch < stored.leader_epoch or about.partition_epoch < stored.partition_epoch
                )
            )
        elif isinstance(about, EndOffsetQuestion):
            poll = self.controller_values.of[controller].poll_of(about.controller_epoch)
            is_old = (
                not of[replicas[about.to]].is_alive
                or poll is None
                or poll.number != about.number
                or about.to not in poll.asked
                or any(broker == about.to for broker, _, _ in poll.ends)
            )
        elif isinstance(about, EndOffsetAnswer):
            is_old = not self._is_heard(about, message, controller)
        else:
            broker = about.asked.source
            source = of[replicas[broker]]
            asking = self._proposal(broker, replicas[broker]) if source.is_alive else ()
            is_old = asking != (self.messages.number(about.asked),)
        return not is_old

    def _is_heard(self, about: EndOffsetAnswer, message: int, controller: int) -> bool:
        """Whether it would change what a controller does or knows."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------ records that were lost

    def _has_all(self, state: State) -> list[bool]:
        """Whose log has every record that was ever committed."""
        committed = self.counts.of[state.counts].committed
        return [self.replica_values.of[r].log[: len(committed)] == committed for r in state.replicas]

    def _survives(self, state: State, broker: int, *, dies: bool = False, loses: bool = False) -> bool:
        """Whether somebody is left who has everything and whom the controller turns to: one that it trusts, or that can be asked. One
        that may have lost records, and is away, is not waited for, but for the last member of the ISR (decision 0073). Not
        that one either, should it have said what it holds: another one with as much may lead, and have lost it since.

        `dies`: this one, else its session ends. `loses`: the end of its log goes as well."""
        if not self.counts.of[state.counts].committed:
            return True
        stored = self.controller_values.of[state.controller].stored
        trusted = dict(zip(stored.isr, stored.isr_broker_epochs, strict=True))
        trusted.update(zip(stored.elr, stored.elr_broker_epochs, strict=True))
        for other, has_all in enumerate(self._has_all(state)):
            value = self.replica_values.of[state.replicas[other]]
            is_waited_for = trusted.get(other) == value.broker_epoch or (
                stored.isr == (other,)
                and not (value.is_alive and not (dies and other == broker))
                and not self._has_said(state, other)
            )
            if has_all and is_waited_for and not (loses and other == broker):
                return True
            is_known = other in trusted or other in stored.last_known_elr
            if has_all and other != broker and is_known and value.is_alive and value.registered:
                return True
        return False

    def _has_said(self, state: State, broker: int) -> bool:
        """What it holds, to a controller that takes it for live."""
        controller = self.controller_values.of[state.controller]
        if broker not in controller.lives:
            return False
        has_said = controller.poll is not None and any(said == broker for said, _, _ in controller.poll.ends)
        about = self.parts(state.messages)[broker]
        return has_said or any(isinstance(self.messages.of[m], EndOffsetAnswer) for m in about)

    def _may_be_over(self, state: State) -> bool:
        """The patience with who was asked: one that has everything has said so."""
        poll = self.controller_values.of[state.controller].poll
        has_all, committed = self._has_all(state), len(self.counts.of[state.counts].committed)
        return poll is None or any(end >= committed and has_all[broker] for broker, _, end in poll.ends)

    def exempt(self, state: State) -> tuple[bool, ...]:
        """Which replicas have lost records in a life that the ISR still counts on, the stored one or that of a leader
        who has not heard of what is stored."""
        key = ("exempt", state.replicas, state.controller)
        found = self._memory.get(key)
        if found is None:
            of = self.replica_values.of
            replicas = [of[r] for r in state.replicas]
            stored = self.controller_values.of[state.controller].stored
            lives = dict(zip(stored.isr, stored.isr_broker_epochs, strict=True))
            counting = [
                r.maximal_isr
                for r in replicas
                if r.is_alive
                and r.is_leader
                and (r.leader_epoch, r.partition_epoch) < (stored.leader_epoch, stored.partition_epoch)
            ]
            found = self._memory[key] = tuple(
                bool(r.lost_life)
                and (lives.get(b, r.lost_life + 1) <= r.lost_life or any(b in isr for isr in counting))
                for b, r in enumerate(replicas)
            )
        return found


def _about_whom(message: Message) -> tuple[int, bool]:
    if isinstance(message, AlterPartitionMessage | EndOffsetAnswer):
        return message.source, True
    if isinstance(message, EndOffsetQuestion):
        return message.to, True
    if isinstance(message, AlterPartitionAnswer):
        return message.asked.source, False
    return message.to, False
