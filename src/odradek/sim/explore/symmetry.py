"""Brokers are interchangeable: of all renamings of a state one stands for them all."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations, product
from typing import Any

from odradek.sim.explore.state import Ground, State, Values
from odradek.sim.explore.values import (
    Names,
)


class Symmetry(Ground):
    @contextmanager
    def keeping_names(self) -> Iterator[None]:
        """Broker 1 stays broker 1: for writing a scenario."""
        self._renames = False
        try:
            yield
        finally:
            self._renames = True

    def canonical(self, state: State, *, renames: bool | None = None) -> State:
        """Of all renamings of the brokers the smallest state. Only brokers that look alike are really tried."""
        if not (self._renames if renames is None else renames):
            return state
        found = self._renamings(state)
        if len(found) == 1 and found[0] == self.brokers:
            return state
        return min(self.renamed(state, names) for names in found)

    def _renamings(self, state: State) -> list[Names]:
        key = ("signatures", state.replicas, state.controller)
        known = self._memory.get(key)
        if known is None:
            signatures = [self._signature(b, r, state.controller) for b, r in enumerate(state.replicas)]
            groups: list[list[int]] = []
            for signature in sorted(set(signatures)):
                groups.append([b for b in self.brokers if signatures[b] == signature])
            known = []
            for orders in product(*(permutations(group) for group in groups)):
                order = [b for group in orders for b in group]
                names = [0] * len(order)
                for name, broker in enumerate(order):
                    names[broker] = name
                known.append(tuple(names))
            self._memory[key] = known
        return known

    def _signature(self, broker: int, replica: int, controller: int) -> int:
        def make() -> int:
            value = self.controller_values.of[controller]
            stored = value.stored
            place = (
                dict(value.live).get(broker, 0),
                stored.leader == broker,
                stored.isr_broker_epochs[stored.isr.index(broker)] if broker in stored.isr else -2,
                stored.elr_broker_epochs[stored.elr.index(broker)] if broker in stored.elr else -2,
                broker in stored.last_known_elr,
            )
            look = (repr(self.replica_values.of[replica].signature(broker)), place)
            return hash_of(look)

        return self._remember(("look", broker, replica, controller), make)  # type: ignore[no-any-return]

    def renamed(self, state: State, names: Names) -> State:
        replicas = [0] * len(names)
        for broker, replica in enumerate(state.replicas):
            replicas[names[broker]] = self._renamed(self.replica_values, "r", replica, names)
        messages = self._memory.get(("ms", state.messages, names))
        if messages is None:
            present = self.message_sets.of[state.messages]
            messages = self._message_set({self._renamed(self.messages, "m", m, names) for m in present})
            self._memory["ms", state.messages, names] = messages
        return State(
            tuple(replicas),
            self._renamed(self.controller_values, "c", state.controller, names),
            messages,
            state.counts,
        )

    def _renamed(self, values: Values[Any], what: str, number: int, names: Names) -> int:
        key = (what, number, names)
        found = self._memory.get(key)
        if found is None:
            found = self._memory[key] = values.number(values.of[number].renamed(names))
        return found


def hash_of(value: object) -> int:
    """The same in every process, unlike `hash` of a text."""
    from zlib import crc32

    text = repr(value).encode()
    return crc32(text) << 32 | crc32(text[::-1])
