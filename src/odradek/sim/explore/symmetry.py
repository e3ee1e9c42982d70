"""Brokers are interchangeable: of all renamings of a state one stands for them all."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import permutations, product
from typing import Any
from zlib import crc32

from odradek.sim.explore.state import NODES_SHIFT, Arrival, Ground, Memo, Scope, State, Values
from odradek.sim.explore.values import Names


class Renamed:
    """Numbers of values, and what they are once the brokers have these names."""

    def __init__(self, ground: Ground, names: Names) -> None:
        self.names = names
        self.replicas = _renamed(ground.replica_values, names)
        self.controllers = _renamed(ground.controller_values, names)
        self.messages = messages = _renamed(ground.messages, names)
        sets = ground.message_sets
        self.message_sets: Memo[int, int] = Memo(
            lambda number: sets.number(frozenset([messages[m] for m in sorted(sets.of[number])]))
        )

    def nodes(self, replicas: tuple[int, ...], controller: int) -> tuple[tuple[int, ...], int]:
        there = [0] * len(replicas)
        for name, replica in zip(self.names, replicas, strict=True):
            there[name] = self.replicas[replica]
        return tuple(there), self.controllers[controller]


class Symmetry(Ground):
    def __init__(self, scope: Scope) -> None:
        super().__init__(scope)
        self._arrivals: dict[tuple[tuple[int, ...], int], Arrival] = {}
        self._renamed_by = {names: Renamed(self, names) for names in permutations(self.brokers)}
        self._renamed_in: dict[tuple[int, ...], Renamed] = {}  # by the brokers in order of their new names
        # By the controller and by `change` of a broker: how it looks, whatever its name. And the two parts of that text.
        self._looks: dict[int, dict[int, int]] = {}
        self._look_of_replica: dict[tuple[int, int], str] = {}
        self._look_in_store: dict[tuple[int, int], str] = {}

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
        base, sets = self.arrival(state.replicas, state.controller)
        nodes = self.nodes[base >> NODES_SHIFT]
        messages = state.messages if sets is None else sets[state.messages]
        return State(nodes.replicas, nodes.controller, messages, state.counts)

    def arrival(self, replicas: tuple[int, ...], controller: int) -> Arrival:
        """Of all renamings the one with the smallest nodes. Only brokers that look alike are really tried."""
        key = replicas, controller
        found = self._arrivals.get(key)
        if found is None:
            found = self._arrivals[key] = self._new_arrival(replicas, controller)
        return found

    def _new_arrival(self, replicas: tuple[int, ...], controller: int) -> Arrival:
        looks = self._looks.get(controller)
        if looks is None:
            looks = self._looks[controller] = {}
        signatures = []
        for broker, replica in enumerate(replicas):
            key = replica * self.node_count + broker
            look = looks.get(key)
            if look is None:
                look = looks[key] = self._look(broker, replica, controller)
            signatures.append(look)
        if len(set(signatures)) < len(signatures):
            return self._smallest_arrival(replicas, controller, signatures)
        order = tuple(sorted(self.brokers, key=signatures.__getitem__))
        if order == self.brokers:
            return self.nodes_of(replicas, controller).number << NODES_SHIFT, None
        known = self._renamed_in.get(order)
        if known is None:
            known = self._renamed_in[order] = self._renamed_by[_named_by(order)]
        return self.nodes_of(*known.nodes(replicas, controller)).number << NODES_SHIFT, known.message_sets

    def _smallest_arrival(self, replicas: tuple[int, ...], controller: int, signatures: list[int]) -> Arrival:
        """One renaming for each order of the brokers that look alike. Where several lead to the same nodes, the smallest set of
        messages decides, each time."""
        groups = [
            [b for b in self.brokers if signatures[b] == signature] for signature in sorted(set(signatures))
        ]
        renamings = []
        for orders in product(*(permutations(group) for group in groups)):
            known = self._renamed_by[_named_by([b for group in orders for b in group])]
            renamings.append((known.nodes(replicas, controller), known.message_sets))
        smallest = min(nodes for nodes, _ in renamings)

        def smallest_set(messages: int) -> int:
            sets = [(nodes, renamed[messages]) for nodes, renamed in renamings]
            return min(renamed for nodes, renamed in sets if nodes == smallest)

        return self.nodes_of(*smallest).number << NODES_SHIFT, Memo(smallest_set)

    def _look(self, broker: int, replica: int, controller: int) -> int:
        """Equal for brokers that can be told apart by their names only."""
        of_replica = self._look_of_replica.get((broker, replica))
        if of_replica is None:
            of_replica = repr(repr(self.replica_values.of[replica].signature(broker)))
            self._look_of_replica[broker, replica] = of_replica
        in_store = self._look_in_store.get((broker, controller))
        if in_store is None:
            value = self.controller_values.of[controller]
            stored = value.stored
            place = (
                value.lives.get(broker, 0),
                stored.leader == broker,
                stored.isr_broker_epochs[stored.isr.index(broker)] if broker in stored.isr else -2,
                stored.elr_broker_epochs[stored.elr.index(broker)] if broker in stored.elr else -2,
                broker in stored.last_known_elr,
            )
            in_store = self._look_in_store[broker, controller] = repr(place)
        return hash_of(f"({of_replica}, {in_store})")

    def renamed(self, state: State, names: Names) -> State:
        known = self._renamed_by[names]
        nodes = known.nodes(state.replicas, state.controller)
        return State(*nodes, known.message_sets[state.messages], state.counts)


def _renamed(values: Values[Any], names: Names) -> Memo[int, int]:
    return Memo(lambda number: values.number(values.of[number].renamed(names)))


def _named_by(order: Sequence[int]) -> Names:
    """The first one in this order is called 0."""
    names = [0] * len(order)
    for name, broker in enumerate(order):
        names[broker] = name
    return tuple(names)


def hash_of(text: str) -> int:
    """The same in every process, unlike `hash` of a text."""
    encoded = text.encode()
    return crc32(encoded) << 32 | crc32(encoded[::-1])
