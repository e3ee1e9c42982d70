"""Brokers are interchangeable: of all renamings of a state one stands for them all."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations, product
from typing import Any

from odradek.sim.explore.state import Ground, Scope, State, Values
from odradek.sim.explore.values import (
    Names,
)


class Renamed:
    """Numbers of values, and what they are once the brokers have these names."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.replicas: dict[int, int] = {}
        self.controllers: dict[int, int] = {}
        self.messages: dict[int, int] = {}
        self.message_sets: dict[int, int] = {}


class Symmetry(Ground):
    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self._known_renamings: dict[tuple[tuple[int, ...], int], list[Names]] = {}
        self._renamed_by = {names: Renamed(names) for names in self.all_names}

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
        if len(found) == 1:
            return state if found[0] == self.brokers else self.renamed(state, found[0])
        return min([self.renamed(state, names) for names in found])

    def _renamings(self, state: State) -> list[Names]:
        key = state.replicas, state.controller
        known = self._known_renamings.get(key)
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
            self._known_renamings[key] = known
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
        known = self._renamed_by[names]
        replicas = [0] * len(names)
        for broker, replica in enumerate(state.replicas):
            now = known.replicas.get(replica)
            if now is None:
                now = _renamed(self.replica_values, replica, known.replicas, names)
            replicas[names[broker]] = now
        controller = known.controllers.get(state.controller)
        if controller is None:
            controller = _renamed(self.controller_values, state.controller, known.controllers, names)
        messages = known.message_sets.get(state.messages)
        if messages is None:
            present = self.message_sets.of[state.messages]
            messages = self._message_set(
                [
                    known.messages[m]
                    if m in known.messages
                    else _renamed(self.messages, m, known.messages, names)
                    for m in present
                ]
            )
            known.message_sets[state.messages] = messages
        return State(tuple(replicas), controller, messages, state.counts)


def _renamed(values: Values[Any], number: int, known: dict[int, int], names: Names) -> int:
    now = known[number] = values.number(values.of[number].renamed(names))
    return now


def hash_of(value: object) -> int:
    """The same in every process, unlike `hash` of a text."""
    from zlib import crc32

    text = repr(value).encode()
    return crc32(text) << 32 | crc32(text[::-1])
