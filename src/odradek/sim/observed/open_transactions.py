"""Which transactions the coordinators of a world take for open, for `checkers.open_transactions`."""

from collections.abc import Iterator, Mapping

from odradek.coordinator.transaction_states import TransactionState
from odradek.sim.checkers.open_transactions import Open
from odradek.sim.observed.beliefs import AtWork
from odradek.sim.plan import CLOCKS
from odradek.sim.world import World


def open_transactions(world: World, seen: AtWork) -> Iterator[Open]:
    """Of the ledger's owners, at each broker that is at work and coordinates them. One whose coordinator cannot write is left out, and
    all are where the clocks of coordinators are set."""
    if world.clients is None or world.clients.ledger is None or world.clients.plan.has(CLOCKS):
        return
    for broker, core in seen.brokers.values():
        if broker.host is None or broker.host.paused_until > world.loop.time():
            continue
        for shard in core.transactions.shards.values():
            if shard.coordinator is None or not shard.partition.is_leader or shard.partition.is_under_min_isr:
                continue
            room = shard.coordinator.room
            for name in room.stored.ongoing:
                value = room.stored.by_id[name]
                if value.state is TransactionState.ONGOING and room.pending(name) is None:
                    limit_ms = value.timeout_ms + room.settings.abort_timed_out_interval_ms
                    yield Open(broker.name, name, (value.producer_id, value.epoch), limit_ms / 1000, room)


def begun_s(world: World) -> Mapping[str, float]:
    """When their owners began the latest transaction of an id, by their own account."""
    if world.clients is None or world.clients.ledger is None:
        return {}
    found: dict[str, float] = world.clients.ledger.history.begun_s
    return found
