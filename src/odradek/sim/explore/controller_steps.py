"""What the controller does with one event: `ControllerCore.step` on a context made from a value.

Every event is stepped once for each order of the assignment, and every outcome counts: who is the first assigned
replica is left open. So brokers are interchangeable, and all elections a reassignment or a preferred election could
lead to are among the outcomes.
"""

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any, NamedTuple

from odradek.controller.broker_requests import AskEndOffsets, LeaderAndIsrRequest
from odradek.controller.context import ControllerContext, ControllerSettings, UncleanPoll
from odradek.controller.core import ControllerCore
from odradek.controller.effects import Answer, CreatePartitionState, Write, WritePartitionState
from odradek.controller.events import Elected, EndOffsetsAnswered, Event, Requested, Stored, Tick, WriteAnswer
from odradek.controller.failover import load_context
from odradek.controller.settle import settle
from odradek.controller.states import ReplicaState
from odradek.controller.unclean import DEADLINE, PATIENCE_IN_DOUBT_MS
from odradek.model.cluster import BrokerRegistration, LeaderAndIsr, ReplicaAssignment
from odradek.model.controller_requests import AlterPartitionAnswer as AlterPartitionAnswers
from odradek.model.controller_requests import (
    AlterPartitionAsked,
    AlterPartitionItem,
    ElectLeadersAsked,
    IsrMember,
)
from odradek.model.facts import BrokersChanged, MetadataLoaded, StoredPartitionState, TopicAssignment
from odradek.model.ids import BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, Offset, PartitionEpoch
from odradek.server.controller_writes import decode_answers, encode_writes
from odradek.sim.explore.values import (
    TOPIC_ID,
    TP,
    AlterPartitionAnswer,
    AlterPartitionMessage,
    ControllerValue,
    EndOffsetAnswer,
    EndOffsetQuestion,
    LeaderAndIsrMessage,
    Leadership,
    Names,
    Poll,
    Registered,
)
from odradek.store import api as store
from odradek.store import layout
from odradek.store.api import Create, Fence, Set
from odradek.store.memory import Tree

CONTROLLER = BrokerId(0)  # a machine of its own: what happens to brokers happens to no controller
Telling = LeaderAndIsrMessage | EndOffsetQuestion


class Decision(NamedTuple):
    """After an event: the controller, whom it tells what, what it answers; and what stood in the store on the way,
    for a controller that dies between two of its writes."""

    after: ControllerValue
    tells: tuple[Telling, ...]
    answer: AlterPartitionAnswer | None
    on_the_way: tuple[Leadership, ...]

    def renamed(self, names: Names) -> "Decision":
        return Decision(
            self.after.renamed(names),
            tuple(sorted(message.renamed(names) for message in self.tells)),
            None if self.answer is None else self.answer.renamed(names),
            tuple(stored.renamed(names) for stored in self.on_the_way),
        )


class Controllers:
    def __init__(self, brokers: int, min_insync_replicas: int) -> None:
        self.brokers = tuple(BrokerId(b) for b in range(brokers))
        self.orders = tuple(permutations(self.brokers))
        self.settings = ControllerSettings(min_insync_replicas=min_insync_replicas)
        # Controllers as they are between two events, by all they remember and the order of the assignment: forks of them act.
        self._cores: dict[tuple[object, ...], ControllerCore] = {}
        # By the event and all that the controller remembers.
        self._decided: dict[tuple[str, ControllerValue, Registered], set[Decision]] = {}

    def first_state(self) -> tuple[ControllerValue, tuple[LeaderAndIsrMessage, ...]]:
        """A new topic, all brokers live: broker 0 leads."""
        live = tuple((int(b), 1, -1) for b in self.brokers)
        snapshot = self._snapshot(live, None, self.orders[0])
        core = ControllerCore(self.settings)
        writes: list[Leadership] = []
        effects = settle(core, Elected(CONTROLLER, ControllerEpoch(1), 1, snapshot), 0, _store(writes))
        value = ControllerValue(True, 1, live, writes[-1])
        return value, tuple(t for t in _tells(effects.requests, 1) if isinstance(t, LeaderAndIsrMessage))

    # ---------------------------------------------------------------------------------------------- the events

    def brokers_changed(self, value: ControllerValue, registered: Registered) -> set[Decision]:
        if len({broker for broker, _, _ in set(value.live) ^ set(registered)}) < 2:
            return self._brokers_changed(value, registered)
        return self._whatever_the_names(self._brokers_changed, value, registered)

    def _brokers_changed(self, value: ControllerValue, registered: Registered) -> set[Decision]:
        key = "brokers_changed", value, registered
        found = self._decided.get(key)
        if found is None:
            event = BrokersChanged(_registrations(registered))
            found = self._decided[key] = self._decide(value, event, registered)
        return found

    def _whatever_the_names(
        self,
        decide: Callable[[ControllerValue, Registered], set[Decision]],
        value: ControllerValue,
        registered: Registered,
    ) -> set[Decision]:
        """Of several brokers that die or return at once the smallest id has its turn first. Ids say nothing here, so
        each order of turns is tried."""
        decisions = set()
        for order in self.orders:
            names: Names = tuple(int(b) for b in order)
            back = tuple(names.index(b) for b in range(len(names)))
            there = tuple(sorted((names[b], epoch, clean) for b, epoch, clean in registered))
            decisions |= {d.renamed(back) for d in decide(value.renamed(names), there)}
        return decisions

    def elect_preferred(self, value: ControllerValue) -> set[Decision]:
        return self._decide(value, Requested(1, ElectLeadersAsked(False, (TP,))), value.live)

    def alter_partition(self, value: ControllerValue, message: AlterPartitionMessage) -> set[Decision]:
        return self._decide(value, _asked(message), value.live, asked=message)

    def end_offset_answered(self, value: ControllerValue, message: EndOffsetAnswer) -> set[Decision]:
        return self._decide(value, _held(message), value.live)

    def patience_ended(self, value: ControllerValue) -> set[Decision]:
        return self._decide(value, Tick(), value.live, now_ms=PATIENCE_IN_DOUBT_MS)

    def elected(self, value: ControllerValue, registered: Registered) -> set[Decision]:
        """Another controller reads everything, and takes over."""
        lives, stored = {b: epoch for b, epoch, _ in registered}, value.stored
        members = zip(stored.isr, stored.isr_broker_epochs, strict=True)
        changed = {b for b, epoch in members if lives.get(b) != epoch} | set(self.brokers) - set(lives)
        if len(changed) < 2 and not stored.elr:
            return self._elected(value, registered)
        return self._whatever_the_names(self._elected, value, registered)

    def _elected(self, value: ControllerValue, registered: Registered) -> set[Decision]:
        key = "elected", value, registered
        found = self._decided.get(key)
        if found is None:
            found = self._decided[key] = {
                self._elected_with(order, value, registered) for order in self.orders
            }
        return found

    def _elected_with(
        self, order: tuple[BrokerId, ...], value: ControllerValue, registered: Registered
    ) -> Decision:
        epoch = value.epoch + 1
        snapshot = self._snapshot(registered, value.stored, order)
        event = Elected(CONTROLLER, ControllerEpoch(epoch), epoch, snapshot)
        return self._settled(ControllerCore(self.settings), event, value, registered, epoch, None)

    def deposed(
        self, value: ControllerValue, what: str, message: AlterPartitionMessage | EndOffsetAnswer | None
    ) -> set[Decision]:
        """The one that was deposed and has not noticed goes on, over a real tree: what it writes, it writes under the
        fence of its election (KAFKA-6082)."""
        old = value.deposed
        assert old is not None
        live = old.live
        now_ms = 0
        event: Event
        if what == "brokers_changed":
            live = old.will_hear  # should it change anything, the write is fenced: ids do not matter here
            event = BrokersChanged(_registrations(live))
        elif what == "elect_preferred":
            event = Requested(1, ElectLeadersAsked(False, (TP,)))
        elif what == "patience_ended":
            event, now_ms = Tick(), PATIENCE_IN_DOUBT_MS
        elif isinstance(message, EndOffsetAnswer):
            event = _held(message)
        else:
            assert message is not None
            event = _asked(message)
        decisions = set()
        before = ControllerValue(True, old.epoch, old.live, old.stored, poll=old.poll)
        for order in self.orders:
            core = self._core(before, order)
            written: list[Leadership] = []
            effects = settle(core, event, now_ms, _tree(value, core.fence, written))
            if effects.resign is not None and not written:
                decisions.add(Decision(value._replace(deposed=None), (), None, ()))
                continue
            assert core.context is not None
            poll = _poll(core.context)
            after = value._replace(deposed=old._replace(live=live, poll=poll))
            if written:
                after = after._replace(stored=written[-1], stale_write=old.epoch)
            answer = _answer(message, effects.answers) if isinstance(message, AlterPartitionMessage) else None
            decisions.add(Decision(after, _tells(effects.requests, old.epoch), answer, ()))
        return decisions

    # ---------------------------------------------------------------------------------------------- one event

    def _decide(
        self,
        value: ControllerValue,
        event: Event,
        live: Registered,
        asked: AlterPartitionMessage | None = None,
        now_ms: int = 0,
    ) -> set[Decision]:
        return {
            self._settled(self._core(value, order), event, value, live, value.epoch, asked, now_ms)
            for order in self.orders
        }

    def _settled(
        self,
        core: ControllerCore,
        event: Event,
        value: ControllerValue,
        live: Registered,
        epoch: int,
        asked: AlterPartitionMessage | None,
        now_ms: int = 0,
    ) -> Decision:
        writes: list[Leadership] = []
        effects = settle(core, event, now_ms, _store(writes))
        assert effects.resign is None and core.context is not None, (
            f"the controller resigned: {effects.resign}"
        )
        stored = writes[-1] if writes else value.stored
        after = value._replace(
            is_acting=True, epoch=epoch, live=tuple(sorted(live)), stored=stored, poll=_poll(core.context)
        )
        self._assert_same_memory(core, after)
        answer = _answer(asked, effects.answers) if asked is not None else None
        return Decision(after, _tells(effects.requests, epoch), answer, tuple(writes[:-1]))

    def _core(self, value: ControllerValue, order: tuple[BrokerId, ...]) -> ControllerCore:
        """A controller that remembers just this. `_assert_same_memory` is why that is all there is to remember."""
        return self._remembering(value, order).fork()

    def _remembering(self, value: ControllerValue, order: tuple[BrokerId, ...]) -> ControllerCore:
        key = value.epoch, value.live, value.stored, value.poll, order
        core = self._cores.get(key)
        if core is None:
            event = Elected(
                CONTROLLER,
                ControllerEpoch(value.epoch),
                value.epoch,
                self._snapshot(value.live, value.stored, order),
            )
            core = self._cores[key] = ControllerCore(self.settings)
            core.context = load_context(event, self.settings)
            live = value.lives
            dead = {b: ReplicaState.OFFLINE for b in self.brokers if b not in live}
            core.context.commit_replica_states(TP, dead)
            if value.poll is not None:
                _remember_poll(core.context, value.poll)
        return core

    def _assert_same_memory(self, core: ControllerCore, after: ControllerValue) -> None:
        context = core.context
        assert context is not None
        made = self._remembering(after, context.assignments[TP].replicas).context
        assert made is not None
        for name in (
            "brokers",
            "leaderships",
            "partition_states",
            "replica_state_overrides",
            "leaderless",
            "assignments",
        ):
            ours, theirs = getattr(context, name), getattr(made, name)
            if name == "leaderships" and ours != theirs:  # the order of the ISR says nothing here
                ours, theirs = _leadership_of(ours[TP]), _leadership_of(theirs[TP])
            assert ours == theirs, f"{name}: {ours} in memory, {theirs} in the model"

    def _snapshot(
        self, live: Registered, stored: Leadership | None, order: tuple[BrokerId, ...]
    ) -> MetadataLoaded:
        topic = TopicAssignment(TP.topic, TOPIC_ID, {TP.partition: ReplicaAssignment(order)})
        states = {} if stored is None else {TP: _stored(stored)}
        return MetadataLoaded(_registrations(live), (topic,), states)


def _asked(message: AlterPartitionMessage) -> Requested:
    item = AlterPartitionItem(
        TP.topic,
        TOPIC_ID,
        TP.partition,
        LeaderEpoch(message.leader_epoch),
        PartitionEpoch(message.partition_epoch),
        tuple(IsrMember(BrokerId(b), BrokerEpoch(e)) for b, e in message.new_isr),
    )
    return Requested(
        1, AlterPartitionAsked(3, BrokerId(message.source), BrokerEpoch(message.broker_epoch), (item,))
    )


def _held(message: EndOffsetAnswer) -> EndOffsetsAnswered:
    end = LeaderEpoch(message.last_epoch), Offset(message.log_end_offset)
    return EndOffsetsAnswered(BrokerId(message.source), {TP: end}, message.number)


def _poll(context: ControllerContext) -> Poll | None:
    poll = context.polls.get(TP)
    if poll is None:
        return None
    assert not poll.may_lose, "nobody allowed an unclean election"
    ends = tuple(sorted((b, epoch, offset) for b, (epoch, offset) in poll.ends.items()))
    return Poll(poll.number, tuple(sorted(poll.asked)), ends)


def _remember_poll(context: ControllerContext, poll: Poll) -> None:
    ends = {BrokerId(b): (LeaderEpoch(epoch), Offset(end)) for b, epoch, end in poll.ends}
    asked = tuple(map(BrokerId, poll.asked))
    context.polls[TP] = UncleanPoll(asked, ends, PATIENCE_IN_DOUBT_MS, poll.number, False)
    context.polls_begun = poll.number
    context.commit_deadline(DEADLINE, PATIENCE_IN_DOUBT_MS)


def _registrations(live: Registered) -> tuple[BrokerRegistration, ...]:
    return tuple(
        BrokerRegistration(BrokerId(b), BrokerEpoch(epoch), (), clean_epoch=BrokerEpoch(clean))
        for b, epoch, clean in sorted(live)
    )


def _stored(value: Leadership) -> StoredPartitionState:
    state = LeaderAndIsr(
        BrokerId(value.leader),
        LeaderEpoch(value.leader_epoch),
        tuple(map(BrokerId, value.isr)),
        PartitionEpoch(value.partition_epoch),
        0,
        tuple(map(BrokerId, value.elr)),
        tuple(map(BrokerId, value.last_known_elr)),
    )
    epochs = tuple(map(BrokerEpoch, value.isr_broker_epochs))
    eligible = tuple(map(BrokerEpoch, value.elr_broker_epochs))
    return StoredPartitionState(state, ControllerEpoch(value.controller_epoch), epochs, -1, eligible)


def _leadership_of(
    stored: StoredPartitionState,
    isr_epochs: tuple[int, ...] = (),
    elr_epochs: tuple[int, ...] = (),
    *,
    version: int | None = None,
) -> Leadership:
    """The incarnations of the members stand in the node only: a controller reads them when it takes over."""
    state = stored.leader_and_isr
    pairs = sorted(zip(state.isr, isr_epochs or (-1,) * len(state.isr), strict=True))
    eligible = sorted(zip(state.elr, elr_epochs or (-1,) * len(state.elr), strict=True))
    return Leadership(
        state.leader,
        state.leader_epoch,
        tuple(b for b, _ in pairs),
        state.partition_epoch if version is None else version,
        tuple(b for b, _ in eligible),
        tuple(sorted(state.last_known_elr)),
        stored.controller_epoch,
        tuple(e for _, e in pairs),
        tuple(e for _, e in eligible),
    )


def _store(written: list[Leadership]) -> Any:
    """A store in which nobody else writes; notes what was written."""

    def answer(writes: tuple[Write, ...]) -> tuple[WriteAnswer, ...]:
        answers: list[WriteAnswer] = []
        for write in writes:
            assert isinstance(write, WritePartitionState | CreatePartitionState)
            version = write.expected_version + 1 if isinstance(write, WritePartitionState) else 0
            state = StoredPartitionState(write.value, write.controller_epoch)
            eligible = write.elr_broker_epochs if isinstance(write, WritePartitionState) else ()
            written.append(_leadership_of(state, write.isr_broker_epochs, eligible, version=version))
            answers.append(Stored(version))
        return tuple(answers)

    return answer


def _tree(value: ControllerValue, fence: int, written: list[Leadership]) -> Any:
    """The store as it stands now, `/controller_epoch` at the version the newest election gave it."""
    tree = Tree()
    session = tree.open_session(6000)
    path = layout.state_path(TP)
    parents = [path[:end] for end in range(1, len(path)) if path[end] == "/"]
    stored = _stored(value.stored)
    node = layout.encode_partition_state(
        stored.leader_and_isr, stored.controller_epoch, stored.isr_broker_epochs, stored.elr_broker_epochs
    )
    epoch = layout.encode_controller_epoch(ControllerEpoch(value.epoch))
    tree.multi(session, [*map(Create, parents), Create(layout.CONTROLLER_EPOCH, epoch), Create(path, node)])
    tree.multi(session, [Set(layout.CONTROLLER_EPOCH, epoch)] * value.epoch)
    tree.multi(session, [Set(path, node)] * value.stored.partition_epoch)

    def answer(writes: tuple[Write, ...]) -> tuple[WriteAnswer, ...]:
        answers, _ = tree.write(session, encode_writes(writes), Fence(fence))
        if any(isinstance(answer, store.Stored) for answer in answers):
            found = tree.get(session, path, False)
            now = layout.decode_partition_state(path, found.data, found.stat.version)
            lives = now.isr_broker_epochs, now.elr_broker_epochs
            written.append(_leadership_of(now, *lives, version=found.stat.version))
        return decode_answers(writes, answers).answers

    return answer


def _tells(requests: tuple[Any, ...], controller_epoch: int) -> tuple[Telling, ...]:
    def rows() -> Iterator[Telling]:
        for request in requests:
            if isinstance(request, AskEndOffsets):
                for _, leader_epoch in request.partitions:
                    assert request.number is not None
                    yield EndOffsetQuestion(
                        "AskEndOffsets", request.broker, controller_epoch, leader_epoch, request.number
                    )
            if isinstance(request, LeaderAndIsrRequest):
                for row in request.partitions:
                    yield LeaderAndIsrMessage(
                        "LeaderAndIsr",
                        request.broker,
                        request.broker_epoch,
                        request.controller_epoch,
                        row.leader,
                        row.leader_epoch,
                        tuple(sorted(row.isr)),
                        row.partition_epoch,
                    )

    return tuple(sorted(set(rows())))


def _answer(asked: AlterPartitionMessage, answers: tuple[Answer, ...]) -> AlterPartitionAnswer | None:
    """None: the request was refused as a whole, which says nothing about the partition."""
    (answer,) = answers
    results = answer.body
    assert isinstance(results, AlterPartitionAnswers)
    if results.error:
        return None
    (result,) = results.partitions
    value = result.leader_and_isr
    if value is None:
        return AlterPartitionAnswer("AlterPartitionAnswer", asked, int(result.error), -1, -1, (), -1)
    return AlterPartitionAnswer(
        "AlterPartitionAnswer",
        asked,
        int(result.error),
        value.leader,
        value.leader_epoch,
        tuple(sorted(value.isr)),
        value.partition_epoch,
    )
