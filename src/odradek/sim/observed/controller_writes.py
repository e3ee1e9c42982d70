"""Which writes of controllers took effect, and in whose term: what the checker of stale writes is shown (I10).

Whose term a write belongs to is told by the fence it carries, by what stands in a state node, and by the term its
broker is in: the oldest of these counts, so a write is not taken for good because one of them was mended on the way.
"""

from collections.abc import Iterator, Sequence

from odradek.sim.checkers.replicas import ControllerWrite
from odradek.sim.world import SimBroker, World
from odradek.store import layout
from odradek.store.api import ConditionalOps, Fence, Op, Set, Stored, WriteAnswer
from odradek.store.fields import Fields, Unreadable
from odradek.store.memory import Fired, Tree


class ControllerWrites:
    """Listens on the tree of `world`; `take` gives what was written since it was asked last."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._tree = world.store.ensemble.tree
        self._seen: list[ControllerWrite] = []
        self._tree.write = self._write  # type: ignore[method-assign]

    def take(self) -> tuple[ControllerWrite, ...]:
        seen, self._seen = self._seen, []
        return tuple(seen)

    def _write(
        self, session_id: int, writes: Sequence[ConditionalOps], fence: Fence | None
    ) -> tuple[list[WriteAnswer], Fired]:
        elected, version = self._elected()
        answers, fired = Tree.write(self._tree, session_id, writes, fence)
        broker = self._broker_of(session_id)
        if broker is not None:
            term = broker.runtime.controller.term if broker.is_serving and broker.runtime else None
            for group, answer in zip(writes, answers, strict=True):
                if isinstance(answer, Stored):
                    terms = [epoch for op in group.ops for epoch in _written_in(op)]
                    if fence is None and not terms:
                        continue  # what brokers write themselves: registrations, announcements, what clients ask for
                    if fence is not None:
                        terms.append(elected - (version - fence.version))  # an election sets the node once
                    if term is not None:
                        terms.append(term.epoch)
                    path = getattr(group.ops[-1], "path", "")
                    self._seen.append(ControllerWrite(broker.broker_id, min(terms), elected, path))
        return answers, fired

    def _elected(self) -> tuple[int, int]:
        """Epoch and version of `/controller_epoch`."""
        for _, node in self._tree.walk(layout.CONTROLLER_EPOCH):
            return int(node.data), node.stat.version
        return 0, 0

    def _broker_of(self, session_id: int) -> SimBroker | None:
        link = self._world.store.owner.get(session_id)
        if link is None:
            return None
        return next((b for b in self._world.brokers.values() if b.link is link), None)


def _written_in(op: Op) -> Iterator[int]:
    """The controller epoch that a state node names."""
    if isinstance(op, Set) and op.path.endswith("/state"):
        try:
            yield Fields(op.path, op.data, (1,)).integer("controller_epoch")
        except Unreadable:
            return
