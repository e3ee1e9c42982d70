"""What one broker does with one thing, as numbers: the production is asked once, and remembered."""

from collections.abc import Callable

from odradek.sim.explore.state import Scope, Step
from odradek.sim.explore.symmetry import Symmetry
from odradek.sim.explore.values import (
    COMMITTED,
    AlterPartitionAnswer,
    EndOffsetQuestion,
    FetchAnswer,
    FetchMessage,
    LeaderAndIsrMessage,
)


class BrokerMoves(Symmetry):
    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self._answered: dict[
            tuple[int, ...], frozenset[int]
        ] = {}  # by messages under way: to whom one is an answer

    def _step(
        self, make: Callable[[int, int, int], list[Step]], broker: int, replica: int, about: int
    ) -> list[Step]:
        key = (make.__name__, broker, replica, about)
        found = self._memory.get(key)
        if found is None:
            found = self._memory[key] = make(broker, replica, about)
        return found

    def _become(self, broker: int, replica: int, message: int) -> list[Step]:
        value = self.replica_values.of[replica]
        about = self.messages.of[message]
        assert isinstance(about, LeaderAndIsrMessage)
        after, registers_again = self.replicas.become(broker, value, about)
        if registers_again:
            after = self.replicas.registered_again(after)
        number = self.replica_values.number(after)
        what = "BecomeLeader" if about.leader == broker else "BecomeFollower"
        what = "BrokerRegisters" if registers_again else what
        label = f"{what}({broker}, epoch={about.leader_epoch})"
        return [Step(label, number, (message,), self._proposal(broker, number), True)]

    def _write(self, broker: int, replica: int, written: int) -> list[Step]:
        after = self.replica_values.number(
            self.replicas.write(broker, self.replica_values.of[replica], written)
        )
        return [Step(f"LeaderWrite({broker}, record={written})", after)]

    def _change_isr(self, broker: int, replica: int, _: int) -> list[Step]:
        value = self.replica_values.of[replica]
        if value.kind != COMMITTED:
            return []
        steps = []
        for follower in value.isr:
            if follower != broker:
                after = self.replica_values.number(self.replicas.shrink(broker, value, follower))
                if after != replica:
                    label = f"LeaderShrinkIsr({broker}, follower={follower})"
                    steps.append(Step(label, after, (), self._proposal(broker, after)))
        after = self.replica_values.number(self.replicas.propose_again(broker, value))
        if after != replica:
            steps.append(Step(f"LeaderExpandIsr({broker})", after, (), self._proposal(broker, after)))
        return steps

    def _handle_late_fetch(self, broker: int, replica: int, message: int) -> list[Step]:
        return [self._handle_fetch(broker, replica, message, (message,), is_awaited=False)]

    def _answer_fetch(self, broker: int, replica: int, message: int) -> list[Step]:
        step = self._handle_fetch(broker, replica, message, (), is_awaited=True)
        return [step] if step.adds or step.replica != replica else []

    def _handle_fetch(
        self, broker: int, replica: int, message: int, removes: tuple[int, ...], *, is_awaited: bool
    ) -> Step:
        value = self.replica_values.of[replica]
        about = self.messages.of[message]
        assert isinstance(about, FetchMessage)
        after, answer = self.replicas.handle_fetch(broker, value, about)
        number = self.replica_values.number(after)
        adds = self._proposal(broker, number)
        if is_awaited and answer is not None:
            adds += (self.messages.number(answer),)
        what = (
            "LeaderIncHighWatermark" if after.high_watermark > value.high_watermark else "LeaderAnswerFetch"
        )
        what = "LeaderExpandIsr" if after.kind != value.kind else what
        late = "" if is_awaited else ", late"
        label = f"{what}({broker}, follower={about.source}, offset={about.offset}{late})"
        return Step(label, number, removes, adds)

    def _fetched(self, broker: int, replica: int, message: int) -> list[Step]:
        value = self.replica_values.of[replica]
        about = self.messages.of[message]
        assert isinstance(about, FetchAnswer)
        after = self.replicas.fetched(broker, value, about, remembers=self.scope.second_fetches)
        what = "FollowerTruncate" if len(after.log) < len(value.log) else "FollowerReplicate"
        label = f"{what}({broker}, end={len(after.log)}, high_watermark={after.high_watermark})"
        return [Step(label, self.replica_values.number(after), (message,))]

    def _next_in_turn(self, broker: int, replica: int, present: tuple[int, ...], step: Step) -> Step:
        """The answer behind is the next one. If this one changed the log, the follower has named its end since."""
        for message in present if self.scope.second_fetches else ():
            about = self.messages.of[message]
            if isinstance(about, FetchAnswer) and about.to == broker and about.turn == 1:
                before, after = self.replica_values.of[replica], self.replica_values.of[step.replica]
                named_anew = (before.log, before.epochs) != (after.log, after.epochs)
                following = self.messages.number(about._replace(turn=0, is_of_former_fetch=named_anew))
                return step._replace(removes=(*step.removes, message), adds=(*step.adds, following))
        return step

    def _isr_answered(self, broker: int, replica: int, message: int) -> list[Step]:
        value = self.replica_values.of[replica]
        about = self.messages.of[message]
        assert isinstance(about, AlterPartitionAnswer)
        after = self.replicas.isr_answered(broker, value, about)
        number = self.replica_values.number(after)
        label = f"LeaderIsrAnswered({broker}, isr={after.isr}, error={about.error})"
        # What is answered is the last copy: the controller obeys none of the others.
        answered = () if self.reads_former_proposals else (self.messages.number(about.asked),)
        return [Step(label, number, (message, *answered), self._proposal(broker, number))]

    def _answer_end_offset(self, broker: int, replica: int, message: int) -> list[Step]:
        about = self.messages.of[message]
        assert isinstance(about, EndOffsetQuestion)
        answer = self.replicas.end_offset(broker, self.replica_values.of[replica], about)
        if answer is None:
            return []
        label = (
            f"BrokerAnswersEndOffset({broker}, last_epoch={answer.last_epoch}, end={answer.log_end_offset})"
        )
        return [Step(label, replica, (message,), (self.messages.number(answer),))]

    def _late_fetch(self, broker: int, replica: int, present: tuple[int, ...]) -> tuple[int, ...]:
        """What the follower has asked, if its connection is lost now and the request is still on its way. One it
        waits for says what it would say now, so such a request is made when the leader handles it."""

        def make() -> tuple[int, ...]:
            message = self.replicas.fetch(broker, self.replica_values.of[replica])
            return () if message is None else (self.messages.number(message),)

        if self._is_answered(broker, present):
            return ()
        return self._remember(("late", broker, replica), make)  # type: ignore[no-any-return]

    def _awaited_fetch(self, broker: int, replica: int, present: tuple[int, ...]) -> tuple[int, ...]:
        """What the leader may answer now. A second fetch that is sent before the first was answered names nothing
        anew: the leader answers from where it was before."""
        if not self.scope.second_fetches:
            return self._late_fetch(broker, replica, present)
        value = self.replica_values.of[replica]
        under_way = self._fetch_answers(broker, present)
        if len(under_way) > 1 or any(answer.asked_end != len(value.log) for answer in under_way):
            return ()
        return self._late_fetch(broker, replica, ())

    def _fetch_answers(self, broker: int, present: tuple[int, ...]) -> list[FetchAnswer]:
        messages = (self.messages.of[m] for m in present)
        return [m for m in messages if isinstance(m, FetchAnswer) and m.to == broker]

    def _behind(self, broker: int, present: tuple[int, ...], step: Step) -> Step:
        """The answer waits its turn, and says something the one before does not."""
        under_way = self._fetch_answers(broker, present)
        if not under_way:
            return step
        kept = []
        for number in step.adds:
            about = self.messages.of[number]
            if isinstance(about, FetchAnswer) and about.to == broker:
                if about == under_way[0]:
                    continue
                number = self.messages.number(about._replace(turn=1))
            kept.append(number)
        return step._replace(label=f"{step.label}, the second", adds=tuple(kept))

    def _is_answered(self, broker: int, present: tuple[int, ...]) -> bool:
        found = self._answered.get(present)
        if found is None:
            messages = (self.messages.of[m] for m in present)
            found = self._answered[present] = frozenset(
                message.to for message in messages if isinstance(message, FetchAnswer)
            )
        return broker in found

    def _proposal(self, broker: int, replica: int) -> tuple[int, ...]:
        """In a pending state AlterPartition is on its way, again and again until it is answered."""

        def make() -> tuple[int, ...]:
            message = self.replicas.proposal(broker, self.replica_values.of[replica])
            return () if message is None else (self.messages.number(message),)

        return self._remember(("proposal", broker, replica), make)  # type: ignore[no-any-return]
