"""The simulator's own checkers over every state of the search: `TypeOk`, `LeaderInIsr`, `ValidHighWatermark`,
`WeakIsr`, `StrongIsr`, and one leader an epoch (I10).

All of them are about one replica, two replicas, or the state node. So they are asked of each pair of replicas, which
repeat over and over, and the answer is remembered.
"""

from itertools import combinations

from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import BrokerId, LeaderEpoch, PartitionEpoch
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.replicas import (
    STEP_CHECKS,
    BatchView,
    ClusterView,
    PartitionView,
    ReplicaView,
    leader_in_isr,
    one_leader_and_one_controller,
    strong_isr,
    type_ok,
    valid_high_watermark,
    weak_isr,
)
from odradek.sim.explore.model import Model, State
from odradek.sim.explore.values import TP, Leadership, ReplicaValue

PAIR_CHECKS = (type_ok, valid_high_watermark, weak_isr, strong_isr, one_leader_and_one_controller)
NODE_CHECKS = (type_ok, leader_in_isr)


class Invariants:
    def __init__(self, model: Model) -> None:
        self.model = model
        self._pairs: dict[tuple[int, ...], tuple[str, ...]] = {}
        self._nodes: dict[int, tuple[str, ...]] = {}
        self._isr: dict[int, tuple[int, ...]] = {}
        self._combinations = tuple(combinations(model.brokers, 2))

    def broken(self, state: State) -> tuple[str, ...]:
        """Names of the invariants this state breaks."""
        controller = state.controller
        names = self._nodes.get(controller)
        if names is None:
            names = self._node(controller)
        isr = self._isr[controller]
        replicas = state.replicas
        for one, other in self._combinations:
            key = (one, replicas[one], one in isr, other, replicas[other], other in isr)
            found = self._pairs.get(key)
            if found is None:
                found = self._pairs[key] = self._pair(one, other, state, isr)
            if found:
                names = (*names, *found)
        return tuple(dict.fromkeys(names)) if names else ()

    def _node(self, controller: int) -> tuple[str, ...]:
        stored = self.model.controller_values.of[controller].stored
        self._isr[controller] = stored.isr
        view = ClusterView({TP: PartitionView((), _node_view(stored), None, _brokers(self.model))})
        names = self._nodes[controller] = tuple(a.name for check in NODE_CHECKS for a in check(view))
        return names

    def _pair(self, one: int, other: int, state: State, isr: tuple[int, ...]) -> tuple[str, ...]:
        of = self.model.replica_values.of
        replicas = tuple(replica_view(b, of[state.replicas[b]]) for b in (one, other))
        stored = LeaderAndIsr(
            BrokerId(-1), LeaderEpoch(0), tuple(BrokerId(b) for b in isr if b in (one, other))
        )
        view = ClusterView({TP: PartitionView(replicas, stored)})
        return tuple(anomaly.name for check in PAIR_CHECKS for anomaly in check(view))


def anomalies(model: Model, state: State) -> list[Anomaly]:
    """The checkers as the simulator runs them, over the whole state at once."""
    return [anomaly for check in STEP_CHECKS for anomaly in check(view_of(model, state))]


def view_of(model: Model, state: State) -> ClusterView:
    of = model.replica_values.of
    replicas = tuple(replica_view(b, of[r]) for b, r in enumerate(state.replicas))
    stored = _node_view(model.controller_values.of[state.controller].stored)
    return ClusterView({TP: PartitionView(replicas, stored, None, _brokers(model))})


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
        batches=tuple(BatchView(n, n, r.epoch, r.number) for n, r in enumerate(value.log)),
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
