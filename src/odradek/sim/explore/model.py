"""The moves of the small cluster, and what every state of it must satisfy.

A state is a tuple of small numbers, each standing for the value of one component; what a component does with one
message is asked of the production code once and remembered. So the search runs at the speed of dictionaries, and
every step in it is a step of production.

Messages are never lost by an action of their own: one that is not delivered any more is lost. What cannot have any
effect any more (an older epoch, a connection that is gone) is taken out, so that states do not differ by it.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from itertools import permutations, product
from typing import Any, Generic, NamedTuple, TypeVar

from odradek.sim.explore.controller_steps import Controllers, Decision
from odradek.sim.explore.replica_steps import Replicas
from odradek.sim.explore.values import (
    COMMITTED,
    AlterPartitionAnswer,
    AlterPartitionMessage,
    ControllerValue,
    Deposed,
    FetchAnswer,
    FetchMessage,
    LeaderAndIsrMessage,
    Message,
    Names,
    Record,
    ReplicaValue,
)

V = TypeVar("V", bound=Hashable)


class Scope(NamedTuple):
    """How far things may go. Everything within it is searched."""

    brokers: int = 3
    records: int = 2
    leader_epochs: int = 3  # 0 .. leader_epochs - 1
    partition_epochs: int = 4
    controller_crashes: int = 1
    broker_crashes: int = 1
    session_expirations: int = 1  # of a broker that lives on
    lost_connections: int = 1  # of a follower to its leader, the fetch still on its way
    lost_disks: int = (
        0  # of a replica outside the ISR; what a leader believes meanwhile (WeakIsr) is then void
    )
    min_insync_replicas: int = 1
    deposals: int = 0  # of a controller that does not notice, and acts on
    # Of one broker while all are well. What it has lost is asked of nobody before the ISR has been told, and no other
    # broker dies meanwhile: two such losses are survived by nobody.
    power_cuts: int = 0
    second_fetches: bool = False  # a follower sends another fetch behind the one that is not answered yet


class Counts(NamedTuple):
    written: int = 0
    broker_crashes: int = 0
    session_expirations: int = 0
    lost_connections: int = 0
    controller_crashes: int = 0
    lost_disks: int = 0
    deposals: int = 0
    power_cuts: int = 0
    committed: tuple[Record, ...] = ()  # ever; remembered only where the power may be cut


class State(NamedTuple):
    """Numbers of values: see `Model.replica_values` and its neighbours."""

    replicas: tuple[int, ...]
    controller: int
    messages: int
    counts: int


class Values(Generic[V]):
    """Each value once, with a number."""

    def __init__(self) -> None:
        self.of: list[V] = []
        self._number: dict[V, int] = {}

    def number(self, value: V) -> int:
        number = self._number.get(value)
        if number is None:
            number = self._number[value] = len(self.of)
            self.of.append(value)
        return number

    def __len__(self) -> int:
        return len(self.of)


class Step(NamedTuple):
    """What a broker did with one thing, remembered. `removes` and `adds` are numbers of messages."""

    label: str
    replica: int
    removes: tuple[int, ...] = ()
    adds: tuple[int, ...] = ()
    leaves_late_fetch: bool = False  # the follower's connection ends with it


class Model:
    """`actions` may be mutated by tests (`mutations`): a model remembers, so each mutation needs a model of its own."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.fences_fetches = True
        self._renames = True
        self.brokers = tuple(range(scope.brokers))
        self.replicas = Replicas(scope.brokers, scope.min_insync_replicas)
        self.controllers = Controllers(scope.brokers, scope.min_insync_replicas)
        self.replica_values: Values[ReplicaValue] = Values()
        self.controller_values: Values[ControllerValue] = Values()
        self.messages: Values[Message] = Values()
        self.message_sets: Values[tuple[int, ...]] = Values()
        self.counts: Values[Counts] = Values()
        self.all_names: tuple[Names, ...] = tuple(permutations(self.brokers))
        self._memory: dict[Any, Any] = {}
        self._of_broker: dict[tuple[int, int, int, int], list[Step]] = {}

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

    def _message_set(self, numbers: Iterator[int] | set[int]) -> int:
        return self.message_sets.number(tuple(sorted(set(numbers))))

    def _remember(self, key: Any, make: Callable[[], Any]) -> Any:
        found = self._memory.get(key)
        if found is None:
            found = self._memory[key] = make()
        return found

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
                    number = self.counts.number(counts._replace(written=counts.written + 1))
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
                            number = self.counts.number(
                                counts._replace(lost_connections=counts.lost_connections + 1)
                            )
                            yield step.label, self._after(state, broker, step, counts=number)
            value = self.replica_values.of[replica]
            if value.is_alive:
                if counts.power_cuts < scope.power_cuts and self._is_everybody_well(state):
                    number = self.counts.number(counts._replace(power_cuts=counts.power_cuts + 1))
                    for keeps in range(len(value.log)):
                        after = self.replica_values.number(self.replicas.power_cut(value, keeps))
                        label = f"PowerCut({broker}, keeps={keeps})"
                        yield label, self._after(state, broker, Step("", after), counts=number)
                if counts.broker_crashes < scope.broker_crashes and not self._waits_for_news(state):
                    after = self.replica_values.number(self.replicas.crashed(value))
                    crashed = counts._replace(broker_crashes=counts.broker_crashes + 1)
                    number = self.counts.number(crashed)
                    yield f"BrokerCrash({broker})", self._after(state, broker, Step("", after), counts=number)
                    late = self._late_fetch(broker, replica, present)
                    if late and counts.lost_connections < scope.lost_connections:
                        number = self.counts.number(
                            crashed._replace(lost_connections=counts.lost_connections + 1)
                        )
                        step = Step("", after, (), late)
                        yield (
                            f"BrokerCrash({broker}), a fetch still on its way",
                            self._after(state, broker, step, counts=number),
                        )
                if value.registered and counts.session_expirations < scope.session_expirations:
                    after = self.replica_values.number(value._replace(registered=0))
                    number = self.counts.number(
                        counts._replace(session_expirations=counts.session_expirations + 1)
                    )
                    yield (
                        f"SessionExpires({broker})",
                        self._after(state, broker, Step("", after), counts=number),
                    )
                if counts.lost_connections < scope.lost_connections:
                    late = self._late_fetch(broker, replica, present)
                    if late:
                        number = self.counts.number(
                            counts._replace(lost_connections=counts.lost_connections + 1)
                        )
                        step = Step("", replica, (), late)
                        yield (
                            f"FollowerLosesConnection({broker})",
                            self._after(state, broker, step, counts=number),
                        )
            elif value.log and counts.lost_disks < scope.lost_disks and self._is_known_dead(broker, state):
                after = self.replica_values.number(value._replace(log=(), epochs=()))
                number = self.counts.number(counts._replace(lost_disks=counts.lost_disks + 1))
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

    def _answers_proposal_of(self, message: int, broker: int) -> bool:
        about = self.messages.of[message]
        return isinstance(about, AlterPartitionAnswer) and about.asked.source == broker

    def _is_everybody_well(self, state: State) -> bool:
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
        return any(self.excused(state)) or any(
            r.lost_life and live.get(b, r.lost_life + 1) <= r.lost_life for b, r in enumerate(replicas)
        )

    def excused(self, state: State) -> tuple[bool, ...]:
        """Which replicas have lost records in a life that the ISR still counts on, the stored one or that of a leader
        who has not heard of what is stored."""
        key = ("excused", state.replicas, state.controller)
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
        return found  # type: ignore[no-any-return]

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
            epoch = after.broker_epoch + 1
            after = after._replace(broker_epoch=epoch, registered=epoch)
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
        return [Step(label, number, (message,), self._proposal(broker, number))]

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
        of = self.messages.of
        return any(of[m].kind == "FetchAnswer" and of[m].to == broker for m in present)  # type: ignore[union-attr]

    def _proposal(self, broker: int, replica: int) -> tuple[int, ...]:
        """In a pending state AlterPartition is on its way, again and again until it is answered."""

        def make() -> tuple[int, ...]:
            message = self.replicas.proposal(broker, self.replica_values.of[replica])
            return () if message is None else (self.messages.number(message),)

        return self._remember(("proposal", broker, replica), make)  # type: ignore[no-any-return]

    # ------------------------------------------------------------------------------------- the controller's

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

    # ---------------------------------------------------------------------------------------- after a move

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
                or about.turn == 0
                and self._fetched(about.to, state.replicas[about.to], self.messages.number(about))[0].replica
                == state.replicas[about.to]  # no news: the fetch is still parked
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

    # --------------------------------------------------------------------------------------------- symmetry

    @contextmanager
    def keeping_names(self) -> Iterator[None]:
        """Broker 1 stays broker 1: for telling a story."""
        self._renames = False
        try:
            yield
        finally:
            self._renames = True

    def canonical(self, state: State, *, renames: bool | None = None) -> State:
        """Of all renamings of the brokers the smallest state. Only brokers that look alike are really tried."""
        if not (self._renames if renames is None else renames):
            return state
        found = self._renamings(state)
        if len(found) == 1 and found[0] == self.brokers:
            return state
        return min(self.renamed(state, names) for names in found)

    def _renamings(self, state: State) -> list[Names]:
        key = ("looks", state.replicas, state.controller)
        known = self._memory.get(key)
        if known is None:
            looks = [self._looks(b, r, state.controller) for b, r in enumerate(state.replicas)]
            groups: list[list[int]] = []
            for look in sorted(set(looks)):
                groups.append([b for b in self.brokers if looks[b] == look])
            known = []
            for orders in product(*(permutations(group) for group in groups)):
                order = [b for group in orders for b in group]
                names = [0] * len(order)
                for name, broker in enumerate(order):
                    names[broker] = name
                known.append(tuple(names))
            self._memory[key] = known
        return known

    def _looks(self, broker: int, replica: int, controller: int) -> int:
        def make() -> int:
            value = self.controller_values.of[controller]
            stored = value.stored
            place = (
                dict(value.live).get(broker, 0),
                stored.leader == broker,
                stored.isr_broker_epochs[stored.isr.index(broker)] if broker in stored.isr else -2,
                broker in stored.elr,
                broker in stored.last_known_elr,
            )
            look = (repr(self.replica_values.of[replica].signature(broker)), place)
            return hash_of(look)

        return self._remember(("look", broker, replica, controller), make)  # type: ignore[no-any-return]

    def renamed(self, state: State, names: Names) -> State:
        replicas = [0] * len(names)
        for broker, replica in enumerate(state.replicas):
            replicas[names[broker]] = self._renamed(self.replica_values, "r", replica, names)
        messages = self._memory.get(("ms", state.messages, names))
        if messages is None:
            present = self.message_sets.of[state.messages]
            messages = self._message_set({self._renamed(self.messages, "m", m, names) for m in present})
            self._memory["ms", state.messages, names] = messages
        return State(
            tuple(replicas),
            self._renamed(self.controller_values, "c", state.controller, names),
            messages,
            state.counts,
        )

    def _renamed(self, values: Values[Any], what: str, number: int, names: Names) -> int:
        key = (what, number, names)
        found = self._memory.get(key)
        if found is None:
            found = self._memory[key] = values.number(values.of[number].renamed(names))
        return found


def hash_of(value: object) -> int:
    """The same in every process, unlike `hash` of a text."""
    from zlib import crc32

    text = repr(value).encode()
    return crc32(text) << 32 | crc32(text[::-1])
