"""The simulator's own checkers over every state of the search: `TypeOk`, `LeaderInIsr`, `ValidHighWatermark`,
`WeakIsr`, `StrongIsr`, one leader an epoch and fenced writes (I10); where the power may be cut also what the ISR must hold, and who is eligible outside it (I8).

All of them are about one replica, two replicas, or the state node. So they are asked of each pair of replicas, which
repeat over and over, and the answer is remembered.
"""

from dataclasses import replace
from itertools import combinations

from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import BrokerId, LeaderEpoch, PartitionEpoch
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.replicas import (
    STEP_CHECKS,
    BatchView,
    ClusterView,
    Committed,
    ControllerWrite,
    PartitionView,
    ReplicaView,
    high_watermark_counts_whom_we_asked_for,
    leader_in_isr,
    one_leader_and_one_controller,
    stale_writes_fenced,
    strong_isr,
    type_ok,
    valid_high_watermark,
    weak_isr,
)
from odradek.sim.explore.controller_steps import CONTROLLER
from odradek.sim.explore.model import Model, State
from odradek.sim.explore.state import NODES_SHIFT, Values
from odradek.sim.explore.values import TP, ControllerValue, Leadership, Record, ReplicaValue
from odradek.store.layout import state_path

PAIR_CHECKS = (
    type_ok, valid_high_watermark, weak_isr, strong_isr, one_leader_and_one_controller,
    high_watermark_counts_whom_we_asked_for,
)  # fmt: skip
NOBODY_EXEMPT: frozenset[int] = frozenset()
TEACHER = BrokerId(-2)
NODE_CHECKS = (type_ok, leader_in_isr, stale_writes_fenced)


class Invariants:
    def __init__(self, model: Model) -> None:
        self.model = model
        # Many values of a broker are one view, for most of what it knows is not looked at here.
        self._views: Values[ReplicaView] = Values()
        self._view_of: dict[tuple[int, int], int] = {}  # by (broker, its value)
        self._known: dict[int, tuple[str, ...]] = {}  # by the number of the nodes
        self._pairs: dict[tuple[int, ...], tuple[str, ...]] = {}
        self._nodes: dict[int, tuple[str, ...]] = {}
        self._complete: dict[tuple[int, tuple[Record, ...]], tuple[str, ...]] = {}
        self._isr: dict[int, tuple[int, ...]] = {}
        self._combinations = tuple(combinations(model.brokers, 2))

    def broken(self, state: State) -> tuple[str, ...]:
        """Names of the invariants this state breaks."""
        return self.broken_in(self.model.number_of(state))

    def broken_in(self, number: int) -> tuple[str, ...]:
        """... by the number of the state."""
        if self.model.scope.power_cuts:
            return self._broken(self.model.state_of(number))
        # Of what is in flight, and of what has happened how often, nothing is asked.
        nodes = number >> NODES_SHIFT
        found = self._known.get(nodes)
        if found is None:
            found = self._known[nodes] = self._broken(self.model.state_of(number))
        return found

    def _broken(self, state: State) -> tuple[str, ...]:
        controller = state.controller
        names = self._nodes.get(controller)
        if names is None:
            names = self._node(controller)
        isr = self._isr[controller]
        views = [self._view(b, r) for b, r in enumerate(state.replicas)]
        exempt: frozenset[int] = NOBODY_EXEMPT
        if self.model.scope.power_cuts:
            exempt = _exempt(self.model, state)
            isr = tuple(b for b in isr if b not in exempt)
            committed = self.model.counts.of[state.counts].committed
            for member in (*isr, *_eligible(self.model, state)) if committed else ():
                names = (*names, *self._completeness(views[member], committed))
        for one, other in self._combinations:
            # Where nobody is exempt the last two say nothing, and cost little.
            key = (views[one], one in isr, views[other], other in isr, one in exempt, other in exempt)
            found = self._pairs.get(key)
            if found is None:
                found = self._pairs[key] = self._pair(one, other, views, isr, exempt)
            if found:
                names = (*names, *found)
        return tuple(dict.fromkeys(names)) if names else ()

    def _view(self, broker: int, replica: int) -> int:
        key = broker, replica
        found = self._view_of.get(key)
        if found is None:
            view = replica_view(broker, self.model.replica_values.of[replica])
            found = self._view_of[key] = self._views.number(view)
        return found

    def _node(self, controller: int) -> tuple[str, ...]:
        value = self.model.controller_values.of[controller]
        stored = value.stored
        self._isr[controller] = stored.may_lead
        partition = PartitionView((), _node_view(stored), None, _brokers(self.model))
        view = ClusterView({TP: partition}, controller_writes=_stale_writes(value))
        names = self._nodes[controller] = tuple(a.name for check in NODE_CHECKS for a in check(view))
        return names

    def _completeness(self, member: int, committed: tuple[Record, ...]) -> tuple[str, ...]:
        key = member, committed
        found = self._complete.get(key)
        if found is None:
            anomalies = _incomplete(self._views.of[member], committed)
            found = self._complete[key] = tuple(a.name for a in anomalies)
        return found

    def _pair(
        self, one: int, other: int, views: list[int], isr: tuple[int, ...], exempt: frozenset[int]
    ) -> tuple[str, ...]:
        replicas = tuple(_without(self._views.of[views[b]], exempt) for b in (one, other))
        stored = LeaderAndIsr(
            BrokerId(-1), LeaderEpoch(0), tuple(BrokerId(b) for b in isr if b in (one, other))
        )
        view = ClusterView({TP: PartitionView(replicas, stored)})
        return tuple(anomaly.name for check in PAIR_CHECKS for anomaly in check(view))


def anomalies(model: Model, state: State) -> list[Anomaly]:
    """The checkers as the simulator runs them, over the whole state at once."""
    exempt = _exempt(model, state) if model.scope.power_cuts else NOBODY_EXEMPT
    whole = view_of(model, state)
    # As the world shows its brokers: who has lost records is in no ISR before the ISRs have been told.
    told = view_of(model, state, exempt)
    checks = (*STEP_CHECKS, high_watermark_counts_whom_we_asked_for)
    found = [anomaly for check in checks for anomaly in check(whole if check in NODE_CHECKS else told)]
    committed = model.counts.of[state.counts].committed
    stored = model.controller_values.of[state.controller].stored
    candidates = {*(set(stored.may_lead) - exempt), *_eligible(model, state)}
    for member in told.partitions[TP].replicas:
        if member.broker in candidates:
            found += _incomplete(member, committed)
    return found


def view_of(model: Model, state: State, exempt: frozenset[int] = NOBODY_EXEMPT) -> ClusterView:
    of = model.replica_values.of
    replicas = tuple(_without(replica_view(b, of[r]), exempt) for b, r in enumerate(state.replicas))
    controller = model.controller_values.of[state.controller]
    stored = _node_view(controller.stored)
    if exempt:
        stored = replace(
            stored, isr=tuple(BrokerId(b) for b in controller.stored.may_lead if b not in exempt)
        )
    partition = PartitionView(replicas, stored, None, _brokers(model))
    return ClusterView({TP: partition}, controller_writes=_stale_writes(controller))


def _exempt(model: Model, state: State) -> frozenset[int]:
    return frozenset(broker for broker, is_exempt in enumerate(model.exempt(state)) if is_exempt)


def _eligible(model: Model, state: State) -> list[int]:
    """Outside the stored ISR, while that is too small (KIP-966): they may be elected as its members may. Not one that has lost records
    in the life in which it is eligible: the controller hears of that when it is back."""
    stored = model.controller_values.of[state.controller].stored
    if len(stored.isr) >= model.scope.min_insync_replicas:
        return []
    lost = [model.replica_values.of[replica].lost_life for replica in state.replicas]
    return [
        b
        for b, life in zip(stored.elr, stored.elr_broker_epochs, strict=True)
        if not lost[b] or life > lost[b]
    ]


def _without(view: ReplicaView, exempt: frozenset[int]) -> ReplicaView:
    if not exempt:
        return view
    isr, maximal = (tuple(b for b in members if b not in exempt) for members in (view.isr, view.maximal_isr))
    return replace(view, isr=isr, maximal_isr=maximal)


def _incomplete(member: ReplicaView, committed: tuple[Record, ...]) -> list[Anomaly]:
    """I8 by the simulator's checker: somebody led who had all that was ever committed; does `member` have it?"""
    if not committed:
        return []
    teacher = replace(
        member,
        broker=TEACHER,
        is_alive=True,
        is_leader=True,
        leader_epoch=0,
        log_end_offset=len(committed),
        high_watermark=len(committed),
        batches=_batches(committed),
    )
    stored = LeaderAndIsr(TEACHER, LeaderEpoch(0), (member.broker,))
    return list(Committed().observe(ClusterView({TP: PartitionView((teacher, member), stored)})))


def _batches(records: tuple[Record, ...]) -> tuple[BatchView, ...]:
    return tuple(BatchView(n, n, r.epoch, r.number) for n, r in enumerate(records))


def _stale_writes(value: ControllerValue) -> tuple[ControllerWrite, ...]:
    if not value.stale_write:
        return ()
    return (ControllerWrite(CONTROLLER, value.stale_write, value.epoch, state_path(TP)),)


def replica_view(broker: int, value: ReplicaValue) -> ReplicaView:
    return ReplicaView(
        broker=BrokerId(broker),
        is_alive=value.is_alive,
        is_leader=value.is_leader,
        leader_epoch=value.leader_epoch,
        log_start_offset=0,
        log_end_offset=len(value.log),
        high_watermark=value.high_watermark,
        isr=tuple(map(BrokerId, value.isr)),
        maximal_isr=tuple(map(BrokerId, value.maximal_isr)),
        batches=_batches(value.log),
    )


def _node_view(stored: Leadership) -> LeaderAndIsr:
    return LeaderAndIsr(
        BrokerId(stored.leader),
        LeaderEpoch(stored.leader_epoch),
        tuple(map(BrokerId, stored.isr)),
        PartitionEpoch(stored.partition_epoch),
    )


def _brokers(model: Model) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, model.brokers))
