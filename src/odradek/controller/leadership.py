"""What becomes of a partition's leader and ISR, as pure rules over values: for one partition (`replica_states`, `plan`) and
for many at once (`bulk_moves`).
"""

from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import NO_LEADER, BrokerId, LeaderEpoch, PartitionEpoch

Brokers = tuple[BrokerId, ...]


def departed(current: LeaderAndIsr, broker: BrokerId) -> tuple[BrokerId, Brokers]:
    """Leader and ISR without this broker. The last member of the ISR is kept, with leader -1: an empty ISR would forget who
    has the records.
    """
    leader = NO_LEADER if current.leader == broker else current.leader
    isr = current.isr
    if broker in isr:
        isr = tuple([member for member in isr if member != broker]) or isr
    return leader, isr


def returned(current: LeaderAndIsr | None) -> bool:
    """Whether a replica that is back is sent LeaderAndIsr, and every broker UpdateMetadata: as soon as a leader was ever chosen,
    if only to say that there is none now. Leader and ISR stay as they are: it joins the ISR by AlterPartition.
    """
    return current is not None


def is_enough(isr: Brokers, *, replicas: Brokers, minimum: int) -> bool:
    """Whether an ISR commits records, so that nobody outside it is eligible to lead (`eligible`)."""
    return len(isr) >= minimum or len(isr) >= len(replicas)


def elected(
    stored: LeaderAndIsr,
    latest: LeaderAndIsr,
    leader: BrokerId,
    isr: Brokers,
    *,
    elr: Brokers,
    last_known_elr: Brokers,
    recovery_state: int | None = None,
    raise_epoch: bool = True,
) -> LeaderAndIsr:
    """What is to be written over `stored`, the content of the node. Epochs rise by one over that, however often an event
    drafts; `latest` is the last draft, or `stored` itself. `raise_epoch` False: the leader asked for it, and leads on.
    """
    raised = raise_epoch or latest.leader_epoch > stored.leader_epoch
    return LeaderAndIsr(
        leader,
        LeaderEpoch(stored.leader_epoch + 1) if raised else stored.leader_epoch,
        isr,
        PartitionEpoch(stored.partition_epoch + 1),
        latest.leader_recovery_state if recovery_state is None else recovery_state,
        elr,
        last_known_elr,
    )
