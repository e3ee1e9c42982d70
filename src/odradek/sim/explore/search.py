"""Breadth first over all states of a model: the first broken invariant has a shortest list of actions to it."""

import time
from array import array
from typing import NamedTuple

from odradek.sim.explore.as_scenario import scenarios_of
from odradek.sim.explore.invariants import Invariants, anomalies
from odradek.sim.explore.model import Model, State


class CounterExample(NamedTuple):
    """`text`: the actions, one a line, then what they broke. `scenarios`: the same for whole brokers (`as_scenario`), without
    outcomes."""

    broken: tuple[str, ...]
    actions: tuple[str, ...]
    text: str
    scenarios: tuple[str, ...]


class Exploration(NamedTuple):
    states: int
    transitions: int
    depth: int  # of the last level that was looked at whole
    is_complete: bool  # nothing within the scope is left
    seconds: float
    counter_example: CounterExample | None

    @property
    def line(self) -> str:
        rate = self.states / self.seconds if self.seconds else 0.0
        extent = "all there are" if self.is_complete else "stopped there"
        broken = "no invariant broken" if self.counter_example is None else self.counter_example.broken[0]
        return (
            f"{self.states} distinct states ({extent}), {self.transitions} transitions, depth {self.depth}, "
            f"{self.seconds:.1f} s, {rate:.0f} states/s: {broken}"
        )


def explore(model: Model, *, most_states: int) -> Exploration:
    """Until an invariant is broken, nothing is left, or there are enough."""
    begun = time.perf_counter()
    first = model.first()
    # What a leader believes of a replica whose disk is gone is wrong until it hears of it. After a power cut the ISR is
    # told before anything is asked; but a leader may ask for the former incarnation of one that is not in it (KIP-903).
    void = frozenset(
        {"WeakIsr", "I7"} if model.scope.lost_disks else {"I7"} if model.scope.power_cuts else ()
    )
    invariants = Invariants(model)
    # A state is a number, so that a million of them fit. It is known by where it was found, and who led to it.
    seen = {model.number_of(first): 0}
    parents = array("I", [0])
    level = list(seen)
    depth = transitions = 0

    def result(is_complete: bool, found: CounterExample | None = None) -> Exploration:
        took = time.perf_counter() - begun
        model.assert_numbers_fit()
        return Exploration(len(seen), transitions, depth, is_complete, took, found)

    while level and len(seen) < most_states:
        following: list[int] = []
        for state in level:
            place = seen[state]
            for after in model.reached(state):
                transitions += 1
                if after in seen:
                    continue
                seen[after] = len(parents)
                parents.append(place)
                following.append(after)
                broken = invariants.broken_in(after)
                if broken and not void.issuperset(broken):
                    depth += 1
                    path = [model.state_of(number) for number in _path(seen, parents, after)]
                    return result(False, _retold(model, path, broken))
            if len(seen) >= most_states:
                return result(False)
        depth += 1
        level = following
    return result(not level)


def _path(seen: dict[int, int], parents: "array[int]", last: int) -> list[int]:
    places = [seen[last]]
    while places[-1]:
        places.append(parents[places[-1]])
    wanted = set(places)
    found = {place: state for state, place in seen.items() if place in wanted}
    return [found[place] for place in reversed(places)]


def _retold(model: Model, path: list[State], broken: tuple[str, ...]) -> CounterExample:
    """With the same names from the beginning to the end: a canonical state may have renamed its brokers."""
    actions, states = model.beginning()
    with model.keeping_names():
        state = states[-1]
        for wanted in path[1:]:
            action, state = next(
                (action, after)
                for action, after in model.successors(state)
                if model.canonical(after, renames=True) == wanted
            )
            actions.append(action)
            states.append(state)
        sentences = [f"{a.name}: {a.detail}" for a in anomalies(model, state)]
    text = "\n".join([*actions, "----", *(f"broken {sentence}" for sentence in sentences)])
    return CounterExample(broken, tuple(actions), text, scenarios_of(model, actions, states, broken))
