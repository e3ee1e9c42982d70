"""Looks at a world and remembers: every checker over snapshots, and the controller's own invariants.

A look happens whenever the run stops to look, and after every step of a controller that has an effect, before which the store was
written, or by which it hears that a broker has obeyed: half of all steps are taken for the other responses, have no effect, and
follow another within a few events. What a controller promises of a step is judged at every one. What every checker asks is about
one partition, or about controllers, and so a partition is judged again when something about it is not as it was at the last look.
Watching changes nothing: no random number is drawn, nothing is scheduled, so a watched run has the trace of an unwatched one.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from odradek.controller.events import LeaderAndIsrAnswered, StopReplicaAnswered
from odradek.model.ids import BrokerId, TopicPartition
from odradek.sim.checkers import replicas
from odradek.sim.checkers.beliefs import (
    BELIEF_CHECKS,
    StandingMarks,
    ToldEnds,
    each_follows_its_leader,
    nobody_oversleeps,
    nobody_waits_in_vain,
    positions_are_held,
    readers_are_told,
    roles_are_as_stored,
    what_is_stored_is_known,
    who_is_live_is_known,
)
from odradek.sim.checkers.coordinators import CoordinatorTerms
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.last_values import LastValues
from odradek.sim.checkers.leading import Leading, joiners_have_all
from odradek.sim.checkers.open_transactions import OpenTransactions
from odradek.sim.checkers.parts import parts_are_whole
from odradek.sim.checkers.removals import Removals
from odradek.sim.checkers.silences import Silences
from odradek.sim.checkers.waits import Deadlines, Flushes, Mutes, Throttles
from odradek.sim.faults.moments import OF_COORDINATORS
from odradek.sim.observed.beliefs import (
    acquaintances,
    at_work,
    following,
    low_marks,
    positions,
    reading,
    roles,
    told,
    told_ends,
    waiting,
)
from odradek.sim.observed.cleanings import Cleanings
from odradek.sim.observed.controller_duties import ControllerDuties, Queue
from odradek.sim.observed.controller_invariants import RestingControllers
from odradek.sim.observed.controller_promises import ControllerPromises
from odradek.sim.observed.controller_tellings import ControllerTellings
from odradek.sim.observed.controller_writes import ControllerWrites
from odradek.sim.observed.coordinator_memory import KEYS_OF_GROUPS
from odradek.sim.observed.endings import Endings
from odradek.sim.observed.leading import coordinating, joining, leaders
from odradek.sim.observed.markers import MarkerAnswers
from odradek.sim.observed.open_transactions import begun_s, open_transactions
from odradek.sim.observed.parts import Parts
from odradek.sim.observed.retention import Retention
from odradek.sim.observed.silences import present, spoke_s
from odradek.sim.observed.waits import held_back, muted, overdue, overslept, unflushed
from odradek.sim.world import SimBroker, World

# What follows when a broker has done so is worth a look at once: the next one may come when it has been made good (KAFKA-3978).
OBEYED = (LeaderAndIsrAnswered, StopReplicaAnswered)


class Watch:
    """`found` holds what was broken first; looking goes on only as long as nothing is."""

    def __init__(self, world: World, *, on_broken: Callable[[], None] | None = None) -> None:
        self.world = world
        self.found: list[Anomaly] = []
        self.committed = replicas.Committed()
        self.last_values = LastValues()
        self.removals = Removals(KEYS_OF_GROUPS)
        self._memories = (
            self.committed,
            self.last_values,
            replicas.Leaders(),
            replicas.HighWatermarks(),
            replicas.StableOffsets(),
        )
        self._judged: Mapping[TopicPartition, replicas.PartitionView] = {}
        self._controllers: tuple[tuple[BrokerId, int], ...] = ()
        self._seen: replicas.ClusterView | None = None
        self._writes = ControllerWrites(world)
        self._resting = RestingControllers()
        self._marks = StandingMarks()
        self._ends = ToldEnds()
        self._leading = Leading()
        self._terms = CoordinatorTerms()
        self._deadlines = Deadlines()
        self._throttles = Throttles()
        self._mutes = Mutes()
        self._flushes = Flushes()
        self._open = OpenTransactions()
        self._silences = Silences()
        self._parts = Parts()
        self._promises = ControllerPromises()
        self._duties = ControllerDuties()
        self._tellings = ControllerTellings()
        self._zxid = -1  # of the last look
        self._on_broken = on_broken
        self.cleanings = Cleanings(world)
        Endings(world)
        MarkerAnswers(world)
        self.retention = Retention(world)
        world.on_controller_step.append(self._controller_stepped)

    def forget(self, partition: TopicPartition) -> None:
        """Records of it may be gone, and we agreed to that."""
        self._judge_anew()
        self.committed.forget(partition)
        self.last_values.forget(partition)
        self._ends.forget(partition)

    def _judge_anew(self) -> None:
        self._judged, self._controllers, self._seen = {}, (), None

    def check(self, *, after_a_step: bool = False) -> list[Anomaly]:
        """`after_a_step` of a controller: it may take several in one turn, in which no broker does anything, and what the views
        show to be the same is not judged again."""
        whole = self.world.view(with_knowledge=False)
        self._zxid = self.world.store.ensemble.tree.zxid
        writes = self._writes.take()
        if after_a_step and whole is self._seen:
            view = replicas.ClusterView({}, whole.controllers, whole.live_brokers, controller_writes=writes)
            return [anomaly for check in replicas.STEP_CHECKS for anomaly in check(view)]
        self.removals.observe(whole, self.world.loop.time())
        judged, self._judged = self._judged, whole.partitions
        changed = {}
        if judged is not whole.partitions:
            changed = {p: state for p, state in whole.partitions.items() if judged.get(p) is not state}
        # Of the rest of a view those who ask for no knowledge have nothing.
        view = replicas.ClusterView(changed, whole.controllers, whole.live_brokers, controller_writes=writes)
        found: list[Anomaly] = []
        for check in replicas.STEP_CHECKS:
            found += check(view)
        if changed or whole.controllers != self._controllers:
            self._controllers = whole.controllers
            for check in BELIEF_CHECKS:
                found += check(view)
            for memory in self._memories:
                found += memory.observe(view)
        working = at_work(self.world)
        found += positions_are_held(positions(self.world, working))
        found += who_is_live_is_known(acquaintances(working))
        found += what_is_stored_is_known(told(self.world, working, whole.partitions))
        found += nobody_waits_in_vain(waiting(working))
        found += nobody_oversleeps(overslept(working, is_between_turns=not after_a_step))
        found += each_follows_its_leader(following(working))
        found += readers_are_told(reading(working))
        found += joiners_have_all(joining(working))
        if not after_a_step:  # a quarter of a second apart: what it judges lasts longer
            found += self._leading.observe(leaders(self.world, working), self.world.loop.time())
            found += self._terms.observe(coordinating(working))
            found += parts_are_whole(self._parts.broken(self.world, working))
            found += self._deadlines.observe(overdue(self.world, working), self.world.loop.time())
            found += self._throttles.observe(held_back(self.world, working), self.world.loop.time())
            found += self._mutes.observe(muted(self.world, working), self.world.loop.time())
            found += self._flushes.observe(unflushed(self.world, working), self.world.loop.time())
            found += self._open.observe(
                open_transactions(self.world, working), begun_s(self.world), self.world.loop.time()
            )
            found += self._silences.observe(
                present(self.world, working), spoke_s(self.world), self.world.loop.time()
            )
        if changed:
            found += self._ends.observe(told_ends(working, changed))
            found += roles_are_as_stored(roles(self.world, working, changed))
            self._terms.note({p: state for p, state in changed.items() if p.topic in OF_COORDINATORS})
        found += self._marks.observe(low_marks(self.world, working), self.world.loop.time())
        self._seen = whole
        if found:
            self._judge_anew()  # whoever asks again hears it again
        return found

    def _controller_stepped(self, broker: SimBroker, event: Any, effects: Any) -> None:
        # Their memory is of every step, also of those at which nothing more is looked for.
        promises = self._kept_promises(broker, event, effects)
        if self.found:
            return
        is_at_rest = not (effects.writes or effects.follow_up)
        found: list[Anomaly] = []
        if (
            effects.requests
            or not is_at_rest
            or isinstance(event, OBEYED)
            or self._zxid != self.world.store.ensemble.tree.zxid
        ):
            found += self.check(after_a_step=True)
        found += promises
        if is_at_rest:
            found += self._quiescent_controller(broker)
        if found:
            self.found = found
            if self._on_broken is not None:
                self._on_broken()

    def _quiescent_controller(self, broker: SimBroker) -> Iterator[Anomaly]:
        """What `controller.invariants` promises between two events, of a controller that has read everything."""
        term = None if broker.runtime is None else broker.runtime.controller.term
        if term is not None and term.is_loaded and term.core.context is not None:
            for name, partition, sentence in self._resting.violations(term.core.context):
                yield Anomaly(name, partition, f"controller {broker.broker_id}: {sentence}")

    def _kept_promises(self, broker: SimBroker, event: Any, effects: Any) -> list[Anomaly]:
        term = None if broker.runtime is None else broker.runtime.controller.term
        if term is None or term.core.context is None:
            return []
        assert broker.runtime is not None
        context, is_resting = term.core.context, not (effects.writes or effects.follow_up)
        return [
            *self._promises.observe(context, event, effects, broker.runtime.now_ms()),
            *self._duties.observe(context, effects, _queues(term), is_resting=is_resting),
            *self._tellings.observe(context, effects.requests, is_resting=is_resting),
        ]


def _queues(term: Any) -> Iterator[Queue]:
    for broker, (epoch, box) in term._outboxes._boxes.items():
        yield Queue(broker, epoch, (*box._sent, *box._waiting))
