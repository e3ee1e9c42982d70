"""A state of the search: small numbers that stand for values, each value kept once. How far things may go."""

from collections.abc import Callable, Hashable
from typing import Any, Generic, NamedTuple, TypeVar

from odradek.broker.proposal_order import ProposalOrder
from odradek.model.ids import BrokerEpoch, BrokerId
from odradek.sim.explore.controller_steps import Controllers
from odradek.sim.explore.replica_steps import Replicas
from odradek.sim.explore.values import (
    ControllerValue,
    Message,
    Record,
    ReplicaValue,
)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)
A = TypeVar("A")


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
    # The search begins where all of an ISR, and whoever was eligible, were killed and are asked what they hold: `Model.beginning`.
    begins_in_doubt: bool = False
    second_fetches: bool = False  # a follower sends another fetch behind the one that is not answered yet

    def limit(self, count: str) -> int:
        """Of one of `Counts`."""
        return self.records if count == "written" else int(getattr(self, count))


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


# A million states are kept, each as one number: that of its nodes, of its messages, of its counts.
COUNTS_BITS, MESSAGES_BITS = 12, 24
NODES_SHIFT = COUNTS_BITS + MESSAGES_BITS
COUNTS_MASK, MESSAGES_MASK = (1 << COUNTS_BITS) - 1, (1 << MESSAGES_BITS) - 1


class Memo(dict[K, A]):
    """What was asked once is known. `ask` is no method of whoever has the memo: a search is millions of objects, and should be
    gone with its model, without the collector."""

    def __init__(self, ask: Callable[[K], A]) -> None:
        super().__init__()
        self._ask = ask

    def __missing__(self, key: K) -> A:
        found = self[key] = self._ask(key)
        return found


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


class Nodes:
    """The brokers and the controller of a state."""

    __slots__ = ("after", "controller", "number", "replicas")

    def __init__(self, number: int, replicas: tuple[int, ...], controller: int) -> None:
        self.number = number
        self.replicas = replicas
        self.controller = controller
        self.after: dict[int, Arrival] = {}  # by the change of one of them


# Nodes with the names that brokers have in them, shifted as in the number of a state; and what sets of messages become
# by these names, None where names stay.
Arrival = tuple[int, Memo[int, int] | None]
NOTHING: frozenset[int] = frozenset()


# What may happen. It holds whatever else is in the state, so it is remembered by what it depends on.
# (label; which node is what now, as `Ground.change` says; numbers of the messages that are gone, and that are new; what
# is counted; None, or a fetch to a broker that this move knows nothing of, and `new` with it)
Move = tuple[str, int, frozenset[int], frozenset[int], int, tuple[int, frozenset[int]] | None]

# What is counted of a move: an index of `COUNTED`.
(
    NOTHING_COUNTED, WRITTEN, CRASH, CRASH_AND_FETCH, EXPIRATION, LOST_CONNECTION, LOST_DISK, POWER_CUT, CONTROLLER_CRASH,
    DEPOSAL,
) = range(10)  # fmt: skip
COUNTED: tuple[tuple[str, ...], ...] = (
    (),
    ("written",),
    ("broker_crashes",),
    ("broker_crashes", "lost_connections"),
    ("session_expirations",),
    ("lost_connections",),
    ("lost_disks",),
    ("power_cuts",),
    ("controller_crashes",),
    ("deposals",),
)


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
        # Also of two: a leader asks one, and goes on to the newer; what it had sent to the other one is fenced.
        self.reads_former_proposals = _reads_former_proposals()
        self._renames = True
        self.brokers = tuple(range(scope.brokers))
        self.node_count = scope.brokers + 1
        self.replicas = Replicas(scope.brokers, scope.min_insync_replicas)
        self.controllers = Controllers(scope.brokers, scope.min_insync_replicas)
        self.replica_values: Values[ReplicaValue] = Values()
        self.controller_values: Values[ControllerValue] = Values()
        self.messages: Values[Message] = Values()
        self.message_sets: Values[frozenset[int]] = Values()
        self.counts: Values[Counts] = Values()
        self._memory: dict[Any, Any] = {}
        # By the number of the counts: what it is after each of `COUNTED`, -1 beyond the scope.
        self._counted: dict[int, tuple[int, ...]] = {}
        self.nodes: list[Nodes] = []
        self._known_nodes: dict[tuple[tuple[int, ...], int], Nodes] = {}

    # --------------------------------------------------------------------------------------- states as numbers

    def nodes_of(self, replicas: tuple[int, ...], controller: int) -> Nodes:
        found = self._known_nodes.get((replicas, controller))
        if found is None:
            found = self._known_nodes[replicas, controller] = Nodes(len(self.nodes), replicas, controller)
            self.nodes.append(found)
        return found

    def number_of(self, state: State) -> int:
        nodes = self.nodes_of(state.replicas, state.controller).number
        return nodes << NODES_SHIFT | state.messages << COUNTS_BITS | state.counts

    def state_of(self, number: int) -> State:
        nodes = self.nodes[number >> NODES_SHIFT]
        messages, counts = number >> COUNTS_BITS & MESSAGES_MASK, number & COUNTS_MASK
        return State(nodes.replicas, nodes.controller, messages, counts)

    def assert_numbers_fit(self) -> None:
        assert len(self.message_sets) <= MESSAGES_MASK, "two sets of messages may have the same number"
        assert len(self.counts) <= COUNTS_MASK, "two counts may have the same number"

    def change(self, node: int, value: int) -> int:
        """`node`: a broker, or behind them all the controller."""
        return value * self.node_count + node

    def _changed(
        self, replicas: tuple[int, ...], controller: int, change: int
    ) -> tuple[tuple[int, ...], int]:
        value, node = divmod(change, self.node_count)
        if node == len(self.brokers):
            return replicas, value
        return (*replicas[:node], value, *replicas[node + 1 :]), controller

    # ------------------------------------------------------------------------------------- what was asked before

    def counted(self, counts: int) -> tuple[int, ...]:
        known = self._counted.get(counts)
        if known is None:
            before = self.counts.of[counts]
            found = []
            for names in COUNTED:
                more = {name: getattr(before, name) + 1 for name in names}
                is_in_scope = all(count <= self.scope.limit(name) for name, count in more.items())
                found.append(self.counts.number(before._replace(**more)) if is_in_scope else -1)
            known = self._counted[counts] = tuple(found)
        return known

    def _remember(self, key: Any, make: Callable[[], Any]) -> Any:
        found = self._memory.get(key)
        if found is None:
            found = self._memory[key] = make()
        return found


def _reads_former_proposals() -> bool:
    """Whether a controller obeys the copy of a proposal that was sent before one that it has read."""
    order = ProposalOrder()
    return not [order.is_late(BrokerId(0), BrokerEpoch(1), number) for number in (1, 0)][-1]
