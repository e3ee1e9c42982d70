"""Whom the coordinators of the groups of a world count, for `checkers.silences`."""

from collections.abc import Iterator, Mapping

from odradek.sim.checkers.silences import Present
from odradek.sim.clients.group_member import GROUP as READERS
from odradek.sim.clients.mixed_group import GROUP as MIXED
from odradek.sim.observed.beliefs import AtWork
from odradek.sim.plan import CLOCKS
from odradek.sim.world import World


def present(world: World, seen: AtWork) -> Iterator[Present]:
    """Members of a classic group, at each broker that is at work and believes that it coordinates it. A static one that is coming
    back is left out: it waits for its answer, under an id that nobody knows yet. Nobody, where the clocks of coordinators are set."""
    if world.clients is None or world.clients.plan.has(CLOCKS):
        return
    group_id = MIXED if world.clients.mixed else READERS
    for broker, core in seen.brokers.values():
        if broker.host is None or broker.host.paused_until > world.loop.time():
            continue
        shard = core.groups.shards.get(core.groups.index_of(group_id))
        known = {} if shard is None or shard.coordinator is None else shard.coordinator.shard.groups
        group = known.get(group_id)
        if group is None or group.returning is not None:
            continue
        for member in group.members.values():
            if not member.is_parked:
                name = member.instance_id or member.member_id
                yield Present(broker.name, group_id, name, member.session_timeout_ms / 1000, group)


def spoke_s(world: World) -> Mapping[str, float]:
    """When members of that group did, by their own account."""
    if world.clients is None:
        return {}
    history = world.clients.mixed_history.offsets if world.clients.mixed else world.clients.group_history
    found: dict[str, float] = history.spoke_s
    return found
