"""A broker makes itself known: the nodes everybody expects, the cluster's id, its own ephemeral node.

A broker that is started again inside its old session meets its own old node. Apache exits there; ours waits
until the old session ends, and says so. In the embedded store the kernel tells of the
death of a process, so the old node is gone by the time we look, unless that process lives.
"""

import asyncio
import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable

from odradek.log.errors import WrongDirectory
from odradek.model.cluster import BrokerRegistration, Endpoint
from odradek.model.errors import OdradekError
from odradek.model.ids import UNKNOWN_BROKER_EPOCH, BrokerEpoch, BrokerId, ControllerEpoch
from odradek.model.values import replace
from odradek.server.environment import Environment
from odradek.store import api, layout, transactions
from odradek.store.fields import Unreadable

logger = logging.getLogger(__name__)

# Beyond the session timeout: the store looks for silent sessions only so often.
PATIENCE_MS = 3000


class BrokerIdInUse(OdradekError):
    """Another process that lives is registered under our id."""


async def prepare_tree(store: api.Store, environment: Environment, known_cluster: str | None = None) -> str:
    """Makes the persistent nodes where they are missing; returns the cluster's id, invented by the first
    broker. `known_cluster`: the one our log directories belong to. Then a store without a cluster is not ours, or has
    been emptied, and none is invented there: WrongDirectory.
    """
    node = await _get(store, layout.CLUSTER_ID)
    if node is None:
        if known_cluster is not None:
            raise WrongDirectory(
                f"the log directories belong to cluster {known_cluster}, and the store has no cluster: it is another one, "
                "or was emptied. Point the broker at that cluster's store, or restore it with `odradek store import`; for a new "
                "cluster give the broker another log.dirs"
            )
        invented = urlsafe_b64encode(environment.random_bytes(16)).rstrip(b"=").decode()
        first = (
            (layout.CLUSTER_ID, layout.encode_cluster_id(invented)),
            # Made by whoever stands for election first; here it saves that one a transaction.
            (layout.CONTROLLER_EPOCH, layout.encode_controller_epoch(ControllerEpoch(0))),
        )
        parents = tuple(_with_parents((*layout.PERSISTENT_PATHS, api.parent_of(layout.CLUSTER_ID))))
        tree = api.ConditionalOps((), parents=parents)
        await store.write(
            [tree, *(api.ConditionalOps((api.Create(path, value),)) for path, value in first)], fence=None
        )
        node = await store.get(layout.CLUSTER_ID)  # perhaps another broker's, which was first
    else:
        await _mend_tree(store)
    return layout.decode_cluster_id(node.data)


async def check_cluster(store: api.Store, known_cluster: str) -> None:
    """Of a store that this process has had a session with before. StoreGone where there is no cluster any more: it may be put
    back; WrongDirectory where there is another one, to which our logs do not belong.
    """
    node = await _get(store, layout.CLUSTER_ID)
    if node is None:
        raise _emptied()
    try:
        found = layout.decode_cluster_id(node.data)
    except Unreadable:
        return  # damaged by hand; nothing says that it is another one
    if found != known_cluster:
        raise WrongDirectory(
            f"the store has cluster {found} now, and had cluster {known_cluster}, to which our log directories belong, when this "
            "broker started. Point the broker at its cluster's store, then start it again"
        )


def _emptied() -> api.StoreGone:
    return api.StoreGone(
        message="it has no cluster any more, and had one when this broker started: it was emptied. Restore it (`odradek store "
        "import`); this broker goes on when the cluster is there again"
    )


async def _mend_tree(store: api.Store) -> None:
    """What an older release did not make, or somebody deleted. But which producer ids were given out would not be known."""
    paths = [path for path in layout.PERSISTENT_PATHS if path != layout.PRODUCER_ID_BLOCK]
    found = await store.get_many(paths)
    missing = tuple(path for path, node in zip(paths, found, strict=True) if node is None)
    if missing:
        await store.write([api.ConditionalOps((), parents=tuple(_with_parents(missing)))], fence=None)


def _with_parents(paths: tuple[str, ...]) -> list[str]:
    found: dict[str, None] = {}
    for path in paths:
        parts = path.split("/")
        for length in range(2, len(parts) + 1):
            found["/".join(parts[:length])] = None
    return list(found)


async def _get(store: api.Store, path: str) -> api.Node | None:
    try:
        return await store.get(path)
    except api.NoNode:
        return None


async def register(
    store: api.Store,
    environment: Environment,
    broker_id: BrokerId,
    endpoints: tuple[Endpoint, ...],
    rack: str | None,
    clean_epoch: Callable[[], BrokerEpoch] = lambda: UNKNOWN_BROKER_EPOCH,
) -> BrokerRegistration:
    """Creates our node; its czxid is the broker epoch. Waits for an old session of ours to end.

    `clean_epoch` names the incarnation of ours that lost nothing when it ended (KIP-966). It is asked for each attempt: damage may be
    found while the old session is waited for. StoreGone: there is no cluster any more.
    """
    path = layout.broker_path(broker_id)
    deadline = environment.loop.time() + (store.session_timeout_ms + PATIENCE_MS) / 1000
    has_told = False
    while True:
        wanted = BrokerRegistration(broker_id, UNKNOWN_BROKER_EPOCH, endpoints, rack, clean_epoch())
        try:
            await store.multi(transactions.register_broker(wanted, timestamp_ms=environment.clock.now_ms()))
            stat = await store.exists(path)
            is_new = True
        except api.NodeExists:
            stat = await store.exists(path)
            is_new = False
        except api.NoNode:  # somebody deleted what is above it
            if await _get(store, layout.CLUSTER_ID) is None:
                raise _emptied() from None
            await _mend_tree(store)
            continue
        if stat is None:
            continue  # the old node went between our two looks
        if stat.ephemeral_owner == store.session_id:
            # Ours: just made, or made before, perhaps by a call whose answer was lost. Then it claims what it claimed.
            if is_new:
                return replace(wanted, epoch=BrokerEpoch(stat.czxid))
            node = await _get(store, path)
            if node is None:
                continue
            return layout.decode_registration(broker_id, node)
        if stat.ephemeral_owner == api.NO_OWNER:
            raise BrokerIdInUse(
                f"{path} is not ephemeral: it was created by hand, and no session's end will remove it. "
                "Delete it, then start this broker again"
            )
        if not has_told:
            has_told = True
            logger.warning(
                "broker %d is still registered at %s by session %#x; waiting for that session to end",
                broker_id,
                await _where(store, broker_id),
                stat.ephemeral_owner,
            )
        if not await _wait_until_gone(store, environment, path, deadline):
            raise BrokerIdInUse(
                f"broker {broker_id} is registered at {await _where(store, broker_id)} by a process that lives; "
                "stop that one, or give this one another broker.id"
            )


async def rewrite(
    store: api.Store,
    environment: Environment,
    registration: BrokerRegistration,
    endpoints: tuple[Endpoint, ...],
) -> BrokerRegistration:
    """The same incarnation at other addresses: the node is written, and the controller tells everybody."""
    moved = BrokerRegistration(
        registration.broker_id, registration.epoch, endpoints, registration.rack, registration.clean_epoch
    )
    value = layout.encode_registration(moved, timestamp_ms=environment.clock.now_ms())
    try:
        await store.set(layout.broker_path(registration.broker_id), value)
    except api.NoNode:
        raise api.SessionExpired(message="our registration is gone") from None
    return moved


async def register_again(
    store: api.Store, environment: Environment, registration: BrokerRegistration
) -> BrokerRegistration:
    """A new node in place of ours, in one transaction: nobody sees us gone, everybody a new broker epoch.

    It claims no clean end of the life before: we do this because something of ours is not as it was.
    """
    path = layout.broker_path(registration.broker_id)
    anew = BrokerRegistration(
        registration.broker_id, UNKNOWN_BROKER_EPOCH, registration.endpoints, registration.rack
    )
    made = transactions.register_broker(anew, timestamp_ms=environment.clock.now_ms())
    try:
        await store.multi((api.Delete(path), *made))
    except api.NoNode:  # somebody deleted it
        return await register(store, environment, anew.broker_id, anew.endpoints, anew.rack)
    stat = await store.exists(path)
    if stat is None:
        raise api.SessionExpired(message="our registration is gone")
    return BrokerRegistration(
        registration.broker_id, BrokerEpoch(stat.czxid), registration.endpoints, registration.rack
    )


async def _wait_until_gone(store: api.Store, environment: Environment, path: str, deadline: float) -> bool:
    changed = asyncio.Event()

    def heard(event: api.WatchEvent) -> None:
        if event.path == path:
            changed.set()

    stop = store.listen(on_watch=heard)
    try:
        while True:
            changed.clear()
            if await store.exists(path, watch=True) is None:
                return True
            left_s = deadline - environment.loop.time()
            if left_s <= 0:
                return False
            try:
                async with asyncio.timeout(left_s):
                    await changed.wait()
            except TimeoutError:
                return await store.exists(path) is None
    finally:
        stop()


async def _where(store: api.Store, broker_id: BrokerId) -> str:
    node = await _get(store, layout.broker_path(broker_id))
    if node is None:
        return "an address that is gone"
    try:
        endpoints = layout.decode_registration(broker_id, node).endpoints
    except Unreadable as error:
        return str(error)
    return ", ".join(f"{endpoint.host}:{endpoint.port}" for endpoint in endpoints)
