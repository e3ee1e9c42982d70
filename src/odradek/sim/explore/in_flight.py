"""What is left in flight after a move. What cannot have any effect any more is taken out, so that states do not differ
by it; a message that is not delivered any more is lost."""

from collections.abc import Iterable

from odradek.sim.explore.broker_moves import BrokerMoves
from odradek.sim.explore.state import Scope, State, Step, new_state
from odradek.sim.explore.values import (
    AlterPartitionAnswer,
    AlterPartitionMessage,
    FetchAnswer,
    FetchMessage,
    LeaderAndIsrMessage,
    Message,
)


class InFlight(BrokerMoves):
    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        # By the number of a message: the broker whose state says whether it is of any use, and whether the controller's does too.
        self._about: list[tuple[int, bool]] = []
        # What is left of a message, by its number and that of its broker's state, in one number; with the controller's, by three.
        self._left: dict[int, int] = {}
        self._left_of_proposal: dict[tuple[int, int, int], int] = {}

    def _after(self, state: State, broker: int, step: Step, *, counts: int | None = None) -> State:
        replicas = state.replicas
        if step.replica != replicas[broker]:
            replicas = (*replicas[:broker], step.replica, *replicas[broker + 1 :])
        counts = state.counts if counts is None else counts
        if self.scope.power_cuts:
            counts = self._with_committed(counts, step.replica, state.controller)
        messages: Iterable[int] = self.message_sets.of[state.messages]
        removes = step.removes
        if self.scope.second_fetches:
            messages = [*(message for message in messages if message not in removes), *step.adds]
            return self._found(replicas, state.controller, messages, counts)
        # A state has been tidied: of what is in flight in it only what is about this broker may be of no use now.
        about = self._about_all()
        kept: list[int] = []
        judged: list[int] = []
        for message in messages:
            if message not in removes:
                (judged if about[message][0] == broker else kept).append(message)
        judged += step.adds
        tidied = (
            self._tidied(replicas, state.controller, judged, kept) if judged or removes else state.messages
        )
        return self.canonical(new_state((replicas, state.controller, tidied, counts)))

    def _found(
        self, replicas: tuple[int, ...], controller: int, messages: Iterable[int], counts: int
    ) -> State:
        tidied = self._tidied(replicas, controller, messages)
        return self.canonical(new_state((replicas, controller, tidied, counts)))

    def _with_committed(self, counts: int, replica: int, controller: int) -> int:
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

    def _tidied(
        self, replicas: tuple[int, ...], controller: int, messages: Iterable[int], besides: Iterable[int] = ()
    ) -> int:
        """Without the messages that cannot have any effect any more, and with those that are known to have."""
        kept = set(besides)
        known = self._about_all()
        for message in messages:
            broker, is_proposal = known[message]
            if is_proposal:
                key = message, replicas[broker], controller
                left = self._left_of_proposal.get(key)
                if left is None:
                    left = self._left_of_proposal[key] = self._what_is_left(message, replicas, controller)
            else:
                number = message << 32 | replicas[broker]
                left = self._left.get(number)
                if left is None:
                    left = self._left[number] = self._what_is_left(message, replicas, controller)
            if left >= 0:
                kept.add(left)
        if self.scope.second_fetches:
            kept = self._in_turn(kept)
        return self.message_sets.number(tuple(sorted(kept)))

    def _about_all(self) -> list[tuple[int, bool]]:
        """Of every message there has been."""
        known, messages = self._about, self.messages.of
        if len(known) < len(messages):
            known += map(_about_whom, messages[len(known) :])
        return known

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

    def _what_is_left(self, message: int, replicas: tuple[int, ...], controller: int) -> int:
        """The number of the message, or -1."""
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
        else:
            broker = about.asked.source
            source = of[replicas[broker]]
            asking = self._proposal(broker, replicas[broker]) if source.is_alive else ()
            is_old = asking != (self.messages.number(about.asked),)
        return -1 if is_old else message

    # ------------------------------------------------------------------------------------ records that were lost

    def _is_everything_healthy(self, state: State) -> bool:
        """Alive, registered, and in the ISR in this life."""
        of = self.replica_values.of
        stored = self.controller_values.of[state.controller].stored
        lives = dict(zip(stored.isr, stored.isr_broker_epochs, strict=True))
        replicas = [of[r] for r in state.replicas]
        return all(r.is_alive and r.registered == lives.get(b) for b, r in enumerate(replicas))

    def _waits_for_news(self, state: State) -> bool:
        """Somebody has lost records, and the controller still takes its former incarnation for live."""
        if not self.scope.power_cuts:
            return False
        live = dict(self.controller_values.of[state.controller].live)
        replicas = [self.replica_values.of[r] for r in state.replicas]
        return any(self.exempt(state)) or any(
            r.lost_life and live.get(b, r.lost_life + 1) <= r.lost_life for b, r in enumerate(replicas)
        )

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
    if isinstance(message, AlterPartitionMessage):
        return message.source, True
    if isinstance(message, AlterPartitionAnswer):
        return message.asked.source, False
    return message.to, False
