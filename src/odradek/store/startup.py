"""What a broker does with the store when it starts, and how it stands for election. For any store.

Nothing here decides about partitions: it puts up the tree, the registration and the two fences.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from odradek.model.cluster import BrokerRegistration
from odradek.model.ids import BrokerEpoch, BrokerId, ControllerEpoch
from odradek.store import groups, layout
from odradek.store.api import BadVersion, Fence, NodeExists, NoNode, Store, parent_of
from odradek.store.fields import Unreadable


@dataclass(frozen=True, slots=True)
class Elected:
    """We are controller: `fence` guards every write from here on."""

    controller_epoch: ControllerEpoch
    fence: Fence


@dataclass(frozen=True, slots=True)
class Lost:
    """Somebody else is controller, or was quicker; `controller` is None when it is gone already or unreadable."""

    controller: BrokerId | None


@dataclass(frozen=True, slots=True)
class Registered:
    broker_epoch: BrokerEpoch  # the czxid of the node


@dataclass(frozen=True, slots=True)
class IdInUse:
    """A node of this id stands, of another session: an older run of ours not yet expired, or another broker."""

    session_id: int


async def ensure_paths(store: Store, paths: Sequence[str] = layout.PERSISTENT_PATHS) -> None:
    """Make the persistent nodes that everything else hangs on, with their parents; those there stay as they are."""
    wanted = list(dict.fromkeys(ancestor for path in paths for ancestor in _with_ancestors(path)))
    for path in wanted:
        if await store.exists(path) is None:
            try:
                await store.create(path)
            except NodeExists:
                continue  # another broker that starts at the same time


def _with_ancestors(path: str) -> list[str]:
    ancestors: list[str] = []
    while path != "/":
        ancestors.append(path)
        path = parent_of(path)
    return ancestors[::-1]


async def ensure_node(store: Store, path: str, data: bytes) -> bytes:
    """Create the node with `data` unless it is there; what it holds then. For `/cluster/id` and `/feature`."""
    await ensure_paths(store, [parent_of(path)])
    try:
        await store.create(path, data)
        return data
    except NodeExists:
        return (await store.get(path)).data


async def ensure_cluster_id(store: Store, proposed: str) -> str:
    """The id of the cluster: the one in the store, or `proposed` when we are the first."""
    return layout.decode_cluster_id(
        await ensure_node(store, layout.CLUSTER_ID, layout.encode_cluster_id(proposed))
    )


async def register(
    store: Store, registration: BrokerRegistration, *, timestamp_ms: int
) -> Registered | IdInUse:
    """Put up `/brokers/ids/<id>`. A lost acknowledgement is recognised: the node then belongs to this session.

    Apache exits when it meets the node of its own earlier run (golden/controller/09d). The caller waits instead:
    watch the node with `exists` and register again when it is gone.
    """
    path = layout.broker_path(registration.broker_id)
    try:
        created, _ = await store.multi(groups.register_broker(registration, timestamp_ms=timestamp_ms))
        assert created.stat is not None
        return Registered(BrokerEpoch(created.stat.czxid))
    except NodeExists:
        stat = await store.exists(path, watch=True)
        if stat is None:  # gone in between
            return await register(store, registration, timestamp_ms=timestamp_ms)
        if stat.ephemeral_owner == store.session_id:
            return Registered(BrokerEpoch(stat.czxid))
        return IdInUse(stat.ephemeral_owner)


async def elect(store: Store, broker_id: BrokerId, *, timestamp_ms: int) -> Elected | Lost:
    """Stand for election once: `/controller` and the next `/controller_epoch` in one transaction (fencing rule 1).

    A node in `/controller` that this session owns, though we do not lead, is the trace of an acknowledgement
    that was lost: it is given up and we stand again, because a winner that returns early never loads
    (KAFKA-13407). One of an earlier session of ours goes when that session does.
    """
    epoch_data = await ensure_node(
        store, layout.CONTROLLER_EPOCH, layout.encode_controller_epoch(ControllerEpoch(0))
    )
    while True:
        try:
            epoch_data, epoch_stat = await store.get(layout.CONTROLLER_EPOCH)
        except NoNode:
            raise Unreadable(
                layout.CONTROLLER_EPOCH, "was deleted; it must stay for as long as the cluster"
            ) from None
        holder = await store.exists(layout.CONTROLLER)
        if holder is not None and holder.ephemeral_owner == store.session_id:
            with suppress(NoNode, BadVersion):  # gone already, as we wish
                await store.delete(layout.CONTROLLER, holder.version)
            continue
        epoch = ControllerEpoch(layout.decode_controller_epoch(epoch_data) + 1)
        try:
            await store.multi(
                groups.become_controller(
                    broker_id, epoch, expected_epoch_version=epoch_stat.version, timestamp_ms=timestamp_ms
                )
            )
            return Elected(epoch, Fence(epoch_stat.version + 1))
        except BadVersion:
            continue  # somebody was elected, and is gone again, since we read the epoch
        except NodeExists:
            return Lost(await controller_of(store))


async def controller_of(store: Store) -> BrokerId | None:
    try:
        return layout.decode_controller((await store.get(layout.CONTROLLER)).data)
    except (NoNode, Unreadable):
        return None


async def resign(store: Store, elected: Elected) -> bool:
    """Give up `/controller` while it is still ours; False when somebody else leads already."""
    try:
        await store.multi(groups.resign_controller(elected.fence.version))
        return True
    except (NoNode, BadVersion):
        return False
