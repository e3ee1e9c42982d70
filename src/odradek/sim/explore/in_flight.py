"""What is left in flight after a move. What cannot have any effect any more is taken out, so that states do not differ
by it; a message that is not delivered any more is lost."""

from typing import Any

from odradek.sim.explore.broker_moves import BrokerMoves
from odradek.sim.explore.state import State, Step
from odradek.sim.explore.values import (
    AlterPartitionAnswer,
    AlterPartitionMessage,
    FetchAnswer,
    FetchMessage,
    LeaderAndIsrMessage,
    Message,
)


class InFlight(BrokerMoves):
    def _after(self, state: State, broker: int, step: Step, *, counts: int | None = None) -> State:
        replicas = state.replicas
        if step.replica != replicas[broker]:
            replicas = (*replicas[:broker], step.replica, *replicas[broker + 1 :])
        messages = set(self.message_sets.of[state.messages])
        messages.difference_update(step.removes)
        messages.update(step.adds)
        counts = state.counts if counts is None else counts
        if self.scope.power_cuts:
            counts = self._with_committed(counts, step.replica, state.controller)
        after = State(replicas, state.controller, state.messages, counts)
        return self.canonical(self._tidied(after, messages))

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

    def _tidied(self, state: State, messages: set[int] | None) -> State:
        """Without the messages that cannot have any effect any more."""
        if messages is None:
            messages = set(self.message_sets.of[state.messages])
        kept: set[int] = set()
        replicas = state.replicas
        for message in messages:
            about = self.messages.of[message]
            if isinstance(about, AlterPartitionMessage):
                key: Any = (message, replicas[about.source], -1 - state.controller)
            elif isinstance(about, AlterPartitionAnswer):
                key = (message, replicas[about.asked.source])
            else:
                key = (message, replicas[about.to])
            left = self._memory.get(key)
            if left is None:
                left = self._memory[key] = self._what_is_left(about, state)
            if left >= 0:
                kept.add(left)
        if self.scope.second_fetches:
            kept = self._in_turn(kept)
        return state._replace(messages=self._message_set(kept))

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

    def _what_is_left(self, about: Message, state: State) -> int:
        """The number of the message, or -1."""
        of = self.replica_values.of
        if isinstance(about, LeaderAndIsrMessage):
            to = of[state.replicas[about.to]]
            is_old = (
                not to.is_alive
                or about.broker_epoch < to.broker_epoch
                or about.controller_epoch < to.controller_epoch
                or (to.is_hosted and about.leader_epoch <= to.leader_epoch)
            )
        elif isinstance(about, FetchMessage):
            to = of[state.replicas[about.to]]
            is_old = not to.is_alive or (self.fences_fetches and about.leader_epoch < to.leader_epoch)
        elif isinstance(about, FetchAnswer):
            to = of[state.replicas[about.to]]
            is_old = (
                not to.is_alive
                or to.is_leader
                or to.leader != about.source
                or to.leader_epoch != about.leader_epoch
                or (len(to.log) != about.asked_end and not self.scope.second_fetches)
                or (
                    about.turn == 0
                    and self._fetched(about.to, state.replicas[about.to], self.messages.number(about))[
                        0
                    ].replica
                    == state.replicas[about.to]
                )  # no news: the fetch is still parked
            )
        elif isinstance(about, AlterPartitionMessage):
            stored = self.controller_values.of[state.controller].stored
            source = of[state.replicas[about.source]]
            asking = self._proposal(about.source, state.replicas[about.source]) if source.is_alive else ()
            is_old = about.broker_epoch < source.broker_epoch or (
                asking != (self.messages.number(about),)
                and (
                    about.leader_epoch < stored.leader_epoch or about.partition_epoch < stored.partition_epoch
                )
            )
        else:
            broker = about.asked.source
            source = of[state.replicas[broker]]
            asking = self._proposal(broker, state.replicas[broker]) if source.is_alive else ()
            is_old = asking != (self.messages.number(about.asked),)
        return -1 if is_old else self.messages.number(about)

    # ------------------------------------------------------------------------------------ records that were lost

    def _is_everything_healthy(self, state: State) -> bool:
        """Alive, registered, and in the ISR in this life."""
        of = self.replica_values.of
        stored = self.controller_values.of[state.controller].stored
        lives = dict(zip(stored.isr, stored.isr_broker_epochs, strict=True))
        replicas = [of[r] for r in state.replicas]
        return all(r.is_alive and r.registered == lives.get(b) for b, r in enumerate(replicas))

    def _waits_for_news(self, state: State) -> bool:
        """Somebody has lost records, and the controller still takes its former life for live."""
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
