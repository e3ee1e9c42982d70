"""Whom the coordinators of the groups of a world count, for `checkers.silences`."""

from collections.abc import Iterator, Mapping
from typing import Any

from odradek.coordinator.classic_group import ClassicGroup
from odradek.coordinator.consumer_group import ConsumerGroup
from odradek.sim.checkers.silences import Present
from odradek.sim.clients.group_member import GROUP as READERS
from odradek.sim.clients.mixed_group import GROUP as MIXED
from odradek.sim.clients.sharer import GROUP as SHARERS
from odradek.sim.clients.workload import Workload
from odradek.sim.observed.beliefs import AtWork
from odradek.sim.plan import CLOCKS
from odradek.sim.world import World


def present(world: World, seen: AtWork) -> Iterator[Present]:
    """Members of groups of both protocols, at each broker that is at work and believes that it coordinates them. Nobody, where the
    clocks of coordinators are set."""
    if world.clients is None or world.clients.plan.has(CLOCKS):
        return
    for group_id in _groups(world.clients):
        for broker, core in seen.brokers.values():
            if broker.host is None or broker.host.paused_until > world.loop.time():
                continue
            coordinating = core.groups.shards.get(core.groups.index_of(group_id))
            if coordinating is None or coordinating.coordinator is None:
                continue
            shard = coordinating.coordinator.shard
            classic, consumers = shard.groups.get(group_id), shard.consumer_groups.get(group_id)
            if classic is not None:
                yield from _of_classic(broker.name, classic)
            elif consumers is not None and may_be_written(coordinating, shard, group_id):
                yield from _of_kip_848(broker.name, consumers, shard.settings.consumer_session_timeout_ms)


def _groups(clients: Workload) -> Iterator[str]:
    for group_id, processes in (
        (READERS, clients.members),
        (SHARERS, clients.sharers),
        (MIXED, clients.mixed),
    ):
        if processes:
            yield group_id


def _of_classic(broker: str, group: ClassicGroup) -> Iterator[Present]:
    """A static member that is coming back is left out: it waits for its answer, under an id that nobody knows yet."""
    if group.returning is not None:
        return
    for member in group.members.values():
        if not member.is_parked:
            name = member.instance_id or member.member_id
            yield Present(broker, group.group_id, name, member.session_timeout_ms / 1000, group)


def _of_kip_848(broker: str, group: ConsumerGroup, session_ms: int) -> Iterator[Present]:
    for member_id, one in group.image.members.items():
        lasts_ms = session_ms if one.classic is None else max(one.classic.session_timeout_ms, 0)
        yield Present(broker, group.group_id, one.instance_id or member_id, lasts_ms / 1000, group)


def may_be_written(coordinating: Any, shard: Any, group_id: str) -> bool:
    """Who goes is written, and goes when that is committed: not while a turn of the group is under way, or its fate open, nor where the
    log takes nothing."""
    is_busy = group_id in shard.busy or group_id in shard.stalled or group_id in shard.waiting
    partition = coordinating.partition
    return (
        not is_busy
        and partition.is_leader
        and not partition.is_under_min_isr
        and partition.log.failure is None
    )


def spoke_s(world: World) -> Mapping[str, float]:
    """When members of those groups did, by their own account."""
    if world.clients is None:
        return {}
    found: dict[str, float] = {
        **world.clients.group_history.spoke_s,
        **world.clients.sharing_history.spoke_s,
        **world.clients.mixed_history.offsets.spoke_s,
    }
    return found
