"""A cluster is taken from one release to the next (F30): one broker after the other stops in order and comes back as the new
release, and then the features of that are put in force.

All brokers run this release's code. One of the release before is one that names no features where it registers; and a cluster
that was made by that release has a lower level of `transaction.version` in `/feature`, or none. Between brokers there is one
version of every request (`inter.broker.protocol.version` 3.9), and one format of records, in all releases.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace

from odradek.model.error_codes import ErrorCode
from odradek.model.features import HIGHEST_LEVELS, TRANSACTION_VERSION
from odradek.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from odradek.sim.checkers.history import Anomaly
from odradek.sim.clients.client import RETRY_S, RequestFailed, SimClient
from odradek.sim.faults import targets
from odradek.sim.loop import Host
from odradek.sim.plan import Fault
from odradek.sim.world import SimBroker, World
from odradek.store import layout
from odradek.store.api import Create, Op, Set

HIGHEST = HIGHEST_LEVELS[TRANSACTION_VERSION]
UPGRADE = 1
# An operator waits so long for every ISR to be whole again, and for a broker to stop, before going on all the same.
PATIENCE_S = 6.0
STOPS_WITHIN_S = 15.0
LOOKS_EVERY_S = 0.2


def begin_with_the_release_before(world: World, level: int) -> None:
    """Before any broker is started."""
    features = {TRANSACTION_VERSION: level} if level else {}
    world.write_by_hand(Create(layout.FEATURE, layout.encode_feature(features)))
    for broker in world.brokers.values():
        broker.as_written = _without_features


def _without_features(op: Op) -> Op:
    if not (isinstance(op, Set) and op.path.startswith(f"{layout.BROKER_IDS}/")):
        return op
    registration = json.loads(op.data)
    del registration["odradek_features"]
    return replace(op, data=json.dumps(registration).encode())


def roll(world: World, fault: Fault) -> bool:
    if world.roll is not None:
        return False
    world.roll = Roll(world)
    return True


class Roll:
    def __init__(self, world: World) -> None:
        self._world = world
        self._host = Host("a2", 103)
        self._client = SimClient(world.loop, self._host, world.addresses)
        self._is_done = False
        world.spawn(self._host, self._run())

    def unfinished(self) -> Iterator[str]:
        if not self._is_done:
            yield "the roll of all brokers is"
            return
        for broker in targets.serving(self._world):
            assert broker.runtime is not None
            if broker.runtime.broker.transaction_version < HIGHEST:
                yield f"what {broker.name} has heard of features is"

    async def _run(self) -> None:
        for number, broker in enumerate(self._world.brokers.values()):
            await self._may_go_on()
            await self._replace(broker)
            if number == 0:
                await self._is_in_force()  # too soon, if the others are registered
        while not await self._is_in_force():
            await asyncio.sleep(LOOKS_EVERY_S)
        self._is_done = True
        self._world.note("every broker is of the new release, and its features are in force")

    async def _may_go_on(self) -> None:
        world = self._world
        waits_until_s = world.loop.time() + PATIENCE_S
        while world.exempt or not (world.is_everything_healthy() and world.is_everything_in_sync()):
            if world.loop.time() >= waits_until_s and not world.exempt:
                return
            await asyncio.sleep(LOOKS_EVERY_S)

    async def _replace(self, broker: SimBroker) -> None:
        """Whoever starts it next, it is of the new release."""
        world = self._world
        broker.as_written = None
        host = broker.host
        gives_up_at_s = world.loop.time() + STOPS_WITHIN_S
        if broker.is_serving and broker.is_running and not broker.is_stopping:
            broker.stop()
        while broker.host is host and broker.is_running:
            if world.loop.time() >= gives_up_at_s and not world.exempt:
                broker.kill()
            await asyncio.sleep(LOOKS_EVERY_S)
        if not broker.is_running:
            broker.start()

    async def _is_in_force(self) -> bool:
        """Asked of the controller."""
        before = self._of_the_release_before()
        request = UpdateFeaturesRequest(
            feature_updates=[
                FeatureUpdateKey(feature=TRANSACTION_VERSION, max_version_level=HIGHEST, upgrade_type=UPGRADE)
            ]
        )
        level = self._level()
        try:
            await self._client.refresh([])
            answer = await self._client.ask_controller(request)
        except RequestFailed:
            await asyncio.sleep(RETRY_S)
            return False
        code = answer.error_code or answer.results[0].error_code
        lacking = before.items() & self._of_the_release_before().items()
        if code == ErrorCode.NONE and level < HIGHEST and lacking:
            why = f"{TRANSACTION_VERSION} {HIGHEST} is in force, which brokers {sorted(dict(lacking))} do not know"
            self._world.let_in.append(Anomaly("FeatureTooSoon", None, why))
        return bool(code == ErrorCode.NONE)

    def _level(self) -> int:
        _, node = next(iter(self._world.store.ensemble.tree.walk(layout.FEATURE)))
        return layout.decode_feature(node.data).get(TRANSACTION_VERSION, 0)

    def _of_the_release_before(self) -> dict[int, int]:
        """Registered so: broker -> its epoch."""
        tree = self._world.store.ensemble.tree
        found = {}
        for broker_id, epoch in self._world.registered().items():
            _, node = next(iter(tree.walk(layout.broker_path(broker_id))))
            if not layout.decode_registered_features(broker_id, node.data):
                found[int(broker_id)] = epoch
        return found


TABLE = targets.table_of(roll)
