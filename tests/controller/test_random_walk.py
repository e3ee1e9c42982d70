"""Anything at any time: brokers come and go, people ask for things, the store has other writers, the controller dies.

After every event the world checks the invariants and that memory and store agree. In the end everything heals:
then every partition must be led, every ISR full, and no work of several steps be left over. A failure prints its
seed; the walk of a seed is always the same.
"""

import random
from collections.abc import Callable

from odradek.controller.broker_requests import AskEndOffsets
from odradek.controller.context import ControllerSettings
from odradek.controller.core import ControllerCore
from odradek.controller.effects import Effects, Write, WritePartitionState
from odradek.controller.events import EndOffsetsAnswered, Event, Requested, Tick
from odradek.model.cluster import LeaderAndIsr
from odradek.model.controller_requests import (
    AlterReassignmentsAsked,
    ControlledShutdownAsked,
    ElectLeadersAsked,
)
from odradek.model.facts import (
    ConfigChanged,
    DeleteTopicsRequested,
    LogDirFailed,
    ReassignmentRequested,
    StoredPartitionState,
    TopicAssignmentsChanged,
    TopicsChanged,
    UnreadableNode,
)
from odradek.model.ids import UNKNOWN_BROKER_EPOCH, BrokerId, LeaderEpoch, Offset, PartitionEpoch
from odradek.model.values import replace
from tests.controller.brokers import Brokers
from tests.controller.world import ControllerDied, World
from tests.support import each

BROKERS = (1, 2, 3, 4, 5)
SEEDS = 60
STEPS = 80


class Walk:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        settings = ControllerSettings(delete_topic_with_offline_replicas=self.random.random() < 0.3)
        self.world = World(settings).brokers(*BROKERS)
        self.brokers = Brokers(self.world)
        self.topics = 0
        self.elect()
        for _ in range(3):
            self.create()

    # ----------------------------------------------------------------------------------------- how it goes on

    def do(self, event: Event) -> None:
        try:
            effects = self.world.step(event)
        except ControllerDied:
            self.elect()
            return
        if effects.resign is not None:
            assert not effects.is_internal_error, effects.resign
            self.elect()
            return
        self.hear(effects)

    def hear(self, effects: Effects) -> None:
        self.brokers.hear(effects)
        for request in effects.requests:
            if isinstance(request, AskEndOffsets) and self.random.random() < 0.7:
                ends = {
                    tp: (LeaderEpoch(self.random.randrange(3)), Offset(self.random.randrange(99)))
                    for tp, _ in request.partitions
                }
                self.brokers.inbox.append(EndOffsetsAnswered(request.broker, ends))

    def elect(self) -> None:
        self.world.dies_after_write = 0
        self.world.before_write = None
        self.world.lose_answers = False
        self.brokers.inbox.clear()  # answers to the one before are lost with it
        self.world.core = ControllerCore(self.world.settings)
        heir = self.random.choice(sorted(self.world.registrations))
        effects = self.world.elect(heir)
        assert effects.resign is None, effects.resign
        self.hear(effects)

    def step(self) -> None:
        self.world.now_ms += self.random.randrange(2_000)
        chosen: Callable[[], None] = self.random.choice(
            [
                self.kill,
                self.start,
                self.start,
                self.bounce,
                self.shut_down,
                self.answer,
                self.answer,
                self.answer,
                self.join,
                self.join,
                self.shrink,
                self.reassign,
                self.reassign,
                self.cancel,
                self.by_node,
                self.create,
                self.grow,
                self.delete,
                self.prefer,
                self.elect_unclean,
                self.configure,
                self.tick,
                self.die,
                self.meddle,
                self.lose,
                self.lose_a_disk,
                self.lose_a_disk,
                self.mend_a_disk,
                self.damage,
                self.repair,
            ]
        )
        chosen()

    # -------------------------------------------------------------------------------------------- what happens

    @property
    def live(self) -> list[int]:
        return sorted(self.world.registrations)

    def partition(self) -> str | None:
        known = sorted(str(tp) for tp in self.world.context.assignments)
        return self.random.choice(known) if known else None

    def kill(self) -> None:
        if len(self.live) > 1:
            broker = self.random.choice(self.live)
            del self.world.registrations[broker]
            self.restarted(broker)
            self.do(self.world.brokers_changed())

    def restarted(self, broker: int) -> None:
        """It knows nothing of what it was told, and has another disk."""
        self.brokers.told.pop(broker, None)
        self.brokers.lost.pop(broker, None)

    def start(self) -> None:
        dead = [b for b in BROKERS if b not in self.live]
        if dead:
            self.world.brokers(self.random.choice(dead))
            self.do(self.world.brokers_changed())

    def bounce(self) -> None:
        broker = self.random.choice(self.live)
        self.restarted(broker)
        self.world.brokers(broker)
        self.do(self.world.brokers_changed())

    def shut_down(self) -> None:
        broker = BrokerId(self.random.choice(self.live))
        self.do(Requested(1, ControlledShutdownAsked(broker, UNKNOWN_BROKER_EPOCH)))

    def answer(self) -> None:
        """The next of any broker: one connection keeps their order."""
        inbox = self.brokers.inbox
        if inbox:
            broker = getattr(self.random.choice(inbox), "broker", None)
            self.do(inbox.pop(next(n for n, e in enumerate(inbox) if getattr(e, "broker", None) == broker)))

    def join(self) -> None:
        wishes = self.brokers.wishes()
        if wishes:
            self.do(self.random.choice(wishes))

    def shrink(self) -> None:
        text = self.partition()
        if text is None or not any(str(tp) == text for tp in self.world.states):
            return
        leader, isr, _ = self.world.leader(text)
        if leader in self.world.registrations and len(isr) > 1:
            out = self.random.choice([b for b in isr if b != leader])
            try:
                self.hear(self.world.alter(text, [b for b in isr if b != out]))
            except ControllerDied:
                self.elect()

    def reassign(self) -> None:
        text = self.partition()
        if text is not None:
            target = tuple(BrokerId(b) for b in self.random.sample(BROKERS, self.random.randint(1, 3)))
            where = next(tp for tp in self.world.context.assignments if str(tp) == text)
            self.do(Requested(1, AlterReassignmentsAsked({where: target})))

    def cancel(self) -> None:
        moving = sorted(self.world.context.reassignments)
        if moving:
            self.do(Requested(1, AlterReassignmentsAsked({self.random.choice(moving): None})))

    def by_node(self) -> None:
        text = self.partition()
        if text is not None:
            where = next(tp for tp in self.world.context.assignments if str(tp) == text)
            target = tuple(BrokerId(b) for b in self.random.sample(BROKERS, 2))
            self.world.reassignment = {**(self.world.reassignment or {}), where: target}
            self.do(ReassignmentRequested(dict(self.world.reassignment), 0))

    def create(self) -> None:
        if len(self.world.topics) < 5:
            self.topics += 1
            name = f"t{self.topics}"
            replicas = [self.random.sample(BROKERS, self.random.randint(1, 3)) for _ in range(2)]
            try:
                self.hear(self.world.create(name, *replicas))
            except ControllerDied:
                self.elect()

    def grow(self) -> None:
        damaged = {node.topic for node in self.world.unreadable}
        names = [
            t for t in sorted(self.world.topics.keys() - damaged) if len(self.world.topics[t].partitions) < 4
        ]
        if names:
            try:
                self.hear(
                    self.world.add_partitions(self.random.choice(names), self.random.sample(BROKERS, 2))
                )
            except ControllerDied:
                self.elect()

    def delete(self) -> None:
        if len(self.world.topics) > 2:
            name = self.random.choice(sorted(self.world.topics))
            self.world.delete_topics = tuple(sorted({*self.world.delete_topics, name}))
            self.do(DeleteTopicsRequested(self.world.delete_topics))

    def prefer(self) -> None:
        self.do(Requested(2, ElectLeadersAsked(False, None)))

    def elect_unclean(self) -> None:
        self.do(Requested(3, ElectLeadersAsked(True, None)))

    def configure(self) -> None:
        if self.world.topics:
            name = self.random.choice(sorted(self.world.topics))
            config = {
                "unclean.leader.election.enable": self.random.choice(["true", "false"]),
                "min.insync.replicas": self.random.choice(["1", "2"]),
            }
            self.world.configs[name] = config
            self.do(ConfigChanged("topics", name, config))

    def tick(self) -> None:
        self.world.now_ms += self.random.choice([500, 10_000, 300_000])
        self.do(Tick())

    def die(self) -> None:
        if self.random.random() < 0.5:
            self.elect()
        else:
            self.world.dies_after_write = self.world.writes_done + self.random.randint(1, 4)

    def meddle(self) -> None:
        """A leader of the old kind shrinks its ISR by itself, just before the controller writes."""

        def hand(writes: tuple[Write, ...]) -> None:
            for write in writes:
                if isinstance(write, WritePartitionState) and write.topic_partition in self.world.states:
                    stored = self.world.states[write.topic_partition]
                    value = stored.leader_and_isr
                    if value.leader in value.isr and len(value.isr) > 1:
                        isr = tuple(b for b in value.isr if b == value.leader)
                        changed = LeaderAndIsr(
                            value.leader, value.leader_epoch, isr, PartitionEpoch(value.partition_epoch + 1)
                        )
                        self.world.states[write.topic_partition] = StoredPartitionState(
                            changed, stored.controller_epoch
                        )
                        return

        self.world.before_write = hand

    def lose(self) -> None:
        self.world.lose_answers = True

    def lose_a_disk(self) -> None:
        broker = self.random.choice(self.live)
        held = sorted(self.brokers.holds.get(broker, ()))
        if held:
            lost = self.random.sample(held, self.random.randint(1, len(held)))
            self.brokers.lost.setdefault(broker, set()).update(lost)
            for where in lost:
                self.brokers.told.get(broker, {}).pop(where, None)
            self.do(LogDirFailed((BrokerId(broker),)))

    def mend_a_disk(self) -> None:
        lost = sorted(self.brokers.lost)
        if lost:
            self.mend(self.random.choice(lost))

    def mend(self, broker: int) -> None:
        self.brokers.lost[broker] = set()
        if broker in self.live:
            self.do(LogDirFailed((BrokerId(broker),)))

    def damage(self) -> None:
        """The node of a topic cannot be read any more."""
        whole = sorted(self.world.context.topics)
        if whole:
            node = UnreadableNode(f"/brokers/topics/{(name := self.random.choice(whole))}", "not JSON", name)
            self.world.unreadable.append(node)
            self.do(TopicAssignmentsChanged((), (node,)))

    def repair(self) -> None:
        if self.world.unreadable:
            name = self.world.unreadable.pop(self.random.randrange(len(self.world.unreadable))).topic
            if name in self.world.topics:
                node = self.world.topics[name]
                self.world.topics[name] = node = replace(node, version=node.version + 1)
                states = {tp: state for tp, state in self.world.states.items() if tp.topic == name}
                self.do(TopicsChanged(tuple(sorted(self.world.topics)), (node,), states))

    # ------------------------------------------------------------------------------------------------ the end

    def heal(self) -> None:
        self.world.dies_after_write = 0
        self.world.before_write = None
        self.world.lose_answers = False
        while self.world.unreadable:
            self.repair()
        for broker in sorted(self.brokers.lost):
            self.mend(broker)
        for broker in BROKERS:
            if broker not in self.live or BrokerId(broker) in self.world.context.shutting_down_brokers:
                self.restarted(broker)
                self.world.brokers(broker)
        self.do(self.world.brokers_changed())
        for _ in range(40):
            while self.brokers.inbox:
                self.do(self.brokers.inbox.pop(0))
            wishes = self.brokers.wishes()
            if wishes:
                self.do(wishes[0])
                continue
            self.world.now_ms += 11_000
            self.do(Tick())
            if not self.brokers.inbox and not self.brokers.wishes():
                return
        self.brokers.until_quiet()


@each(range(SEEDS))
def test_whatever_happened_everything_heals(seed: int) -> None:
    everything_heals(Walk(seed))


def everything_heals(walk: Walk) -> None:
    for _ in range(STEPS):
        walk.step()
    walk.heal()
    context = walk.world.context
    assert context.reassignments == {} and context.removals == {}, "moves that never end"
    assert walk.world.delete_topics == () and context.topics_to_delete == set(), "deletions that never end"
    assert walk.world.reassignment is None
    assert context.polls == {} and context.leaderless == set(), "partitions without a leader"
    for where, assignment in sorted(context.assignments.items()):
        state = context.leadership(where)
        assert state is not None and state.leader in assignment.replicas, where
        assert set(state.isr) == set(assignment.replicas), (
            f"{where}: ISR {state.isr}, replicas {assignment.replicas}"
        )
    assert context.replica_state_overrides == {}, "replicas that are neither online nor gone"
    kept = {
        broker: sorted(found - context.partitions_on.get(BrokerId(broker), set()))
        for broker, found in walk.brokers.holds.items()
    }
    assert not any(kept.values()), f"replicas that nobody assigned: {kept}"
    assert context.pending_deletions == walk.world.pending_deletions == {}, (
        "replicas that nobody was told to delete"
    )


def test_a_walk_is_the_same_every_time() -> None:
    def steps(seed: int) -> list[tuple[object, ...]]:
        walk = Walk(seed)
        seen = []
        for _ in range(40):
            walk.step()
            seen.append((dict(walk.world.states), dict(walk.world.topics), walk.world.controller_epoch))
        return seen

    assert steps(7) == steps(7)
