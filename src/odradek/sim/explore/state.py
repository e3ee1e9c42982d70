"""A state of the search: small numbers that stand for values, each value kept once. How far things may go."""

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from itertools import permutations
from typing import Any, Generic, NamedTuple, TypeVar

from odradek.sim.explore.controller_steps import Controllers
from odradek.sim.explore.replica_steps import Replicas
from odradek.sim.explore.values import (
    ControllerValue,
    Message,
    Names,
    Record,
    ReplicaValue,
)

V = TypeVar("V", bound=Hashable)


class Scope(NamedTuple):
    """How far things may go. Everything within it is searched."""

    brokers: int = 3
    records: int = 2
    leader_epochs: int = 3  # 0 .. leader_epochs - 1
    partition_epochs: int = 4
    controller_crashes: int = 1
    broker_crashes: int = 1
    session_expirations: int = 1  # of a broker that lives on
    lost_connections: int = 1  # of a follower to its leader, the fetch still on its way
    lost_disks: int = (
        0  # of a replica outside the ISR; what a leader believes meanwhile (WeakIsr) is then void
    )
    min_insync_replicas: int = 1
    deposals: int = 0  # of a controller that does not notice, and acts on
    # Of one broker while all are well. What it has lost is asked of nobody before the ISR has been told, and no other
    # broker dies meanwhile: two such losses are survived by nobody.
    power_cuts: int = 0
    second_fetches: bool = False  # a follower sends another fetch behind the one that is not answered yet


class Counts(NamedTuple):
    written: int = 0
    broker_crashes: int = 0
    session_expirations: int = 0
    lost_connections: int = 0
    controller_crashes: int = 0
    lost_disks: int = 0
    deposals: int = 0
    power_cuts: int = 0
    committed: tuple[Record, ...] = ()  # ever; remembered only where the power may be cut


class State(NamedTuple):
    """Numbers of values: see `Model.replica_values` and its neighbours."""

    replicas: tuple[int, ...]
    controller: int
    messages: int
    counts: int


# `State(*fields)` in a third of its time.
new_state: Callable[[tuple[tuple[int, ...], int, int, int]], State] = partial(tuple.__new__, State)


class Values(Generic[V]):
    """Each value once, with a number."""

    def __init__(self) -> None:
        self.of: list[V] = []
        self._number: dict[V, int] = {}

    def number(self, value: V) -> int:
        number = self._number.get(value)
        if number is None:
            number = self._number[value] = len(self.of)
            self.of.append(value)
        return number

    def __len__(self) -> int:
        return len(self.of)


class Step(NamedTuple):
    """What a broker did with one thing, remembered. `removes` and `adds` are numbers of messages."""

    label: str
    replica: int
    removes: tuple[int, ...] = ()
    adds: tuple[int, ...] = ()
    leaves_late_fetch: bool = False  # the follower's connection ends with it


class Ground:
    """What the moves stand on: the production's answers, and all that was ever asked of them."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.fences_fetches = True
        self._renames = True
        self.brokers = tuple(range(scope.brokers))
        self.replicas = Replicas(scope.brokers, scope.min_insync_replicas)
        self.controllers = Controllers(scope.brokers, scope.min_insync_replicas)
        self.replica_values: Values[ReplicaValue] = Values()
        self.controller_values: Values[ControllerValue] = Values()
        self.messages: Values[Message] = Values()
        self.message_sets: Values[tuple[int, ...]] = Values()
        self.counts: Values[Counts] = Values()
        self.all_names: tuple[Names, ...] = tuple(permutations(self.brokers))
        self._memory: dict[Any, Any] = {}
        self._of_broker: dict[tuple[int, int, int, int], list[Step]] = {}
        self._counted: dict[tuple[int, str], int] = {}

    def _message_set(self, numbers: Iterable[int]) -> int:
        return self.message_sets.number(tuple(sorted(set(numbers))))

    def _one_more(self, counts: int, name: str) -> int:
        """The number of the counts with one more of this."""
        found = self._counted.get((counts, name))
        if found is None:
            known = self.counts.of[counts]
            more = known._replace(**{name: getattr(known, name) + 1})
            found = self._counted[counts, name] = self.counts.number(more)
        return found

    def _remember(self, key: Any, make: Callable[[], Any]) -> Any:
        found = self._memory.get(key)
        if found is None:
            found = self._memory[key] = make()
        return found
