"""Brokers are interchangeable: of all renamings of a state one stands for them all."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations, product
from typing import Any, NamedTuple

from odradek.sim.explore.state import Ground, Scope, State, Values, new_state
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


class Renaming(NamedTuple):
    """What brokers and the controller of a state become by it. No state that becomes less is the smallest."""

    known: Renamed
    replicas: tuple[int, ...]
    controller: int
    is_smallest: bool


class Symmetry(Ground):
    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        # By what brokers and the controller are: what they may become. () where that is nothing else.
        self._known_renamings: dict[tuple[tuple[int, ...], int], tuple[Renaming, ...]] = {}
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
        replicas, controller, messages, counts = state
        key = replicas, controller
        found = self._known_renamings.get(key)
        if found is None:
            found = self._known_renamings[key] = self._renamings(replicas, controller)
        if not found:
            return state
        smallest = -1
        for renaming in found:
            now = renaming.known.message_sets.get(messages)
            if now is None:
                now = self._renamed_messages(messages, renaming.known)
            if renaming.is_smallest and (smallest < 0 or now < smallest):
                smallest, replicas, controller = now, renaming.replicas, renaming.controller
        return new_state((replicas, controller, smallest, counts))

    def _renamings(self, replicas: tuple[int, ...], controller: int) -> "tuple[Renaming, ...]":
        """One for each order of the brokers that look alike."""
        signatures = [self._signature(b, r, controller) for b, r in enumerate(replicas)]
        groups: list[list[int]] = []
        for signature in sorted(set(signatures)):
            groups.append([b for b in self.brokers if signatures[b] == signature])
        found = []
        for orders in product(*(permutations(group) for group in groups)):
            order = [b for group in orders for b in group]
            names = [0] * len(order)
            for name, broker in enumerate(order):
                names[broker] = name
            known = self._renamed_by[tuple(names)]
            found.append((*self._renamed_brokers(replicas, controller, known), known))
        if len(found) == 1 and found[0][2].names == self.brokers:
            return ()
        smallest = min(one[:2] for one in found)
        return tuple(Renaming(known, now, led, (now, led) == smallest) for now, led, known in found)

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
        replicas, controller = self._renamed_brokers(state.replicas, state.controller, known)
        return State(replicas, controller, self._renamed_messages(state.messages, known), state.counts)

    def _renamed_brokers(
        self, replicas: tuple[int, ...], controller: int, known: Renamed
    ) -> tuple[tuple[int, ...], int]:
        names = known.names
        there = [0] * len(names)
        for broker, replica in enumerate(replicas):
            now = known.replicas.get(replica)
            if now is None:
                now = _renamed(self.replica_values, replica, known.replicas, names)
            there[names[broker]] = now
        led = known.controllers.get(controller)
        if led is None:
            led = _renamed(self.controller_values, controller, known.controllers, names)
        return tuple(there), led

    def _renamed_messages(self, messages: int, known: Renamed) -> int:
        now = known.message_sets.get(messages)
        if now is None:
            now = known.message_sets[messages] = self._message_set(
                [
                    known.messages[m]
                    if m in known.messages
                    else _renamed(self.messages, m, known.messages, known.names)
                    for m in self.message_sets.of[messages]
                ]
            )
        return now


def _renamed(values: Values[Any], number: int, known: dict[int, int], names: Names) -> int:
    now = known[number] = values.number(values.of[number].renamed(names))
    return now


def hash_of(value: object) -> int:
    """The same in every process, unlike `hash` of a text."""
    from zlib import crc32

    text = repr(value).encode()
    return crc32(text) << 32 | crc32(text[::-1])
