"""Breadth first over all states of transactions: `python -m odradek.sim.explore --scope transactions`."""

import time
from array import array

from odradek.sim.explore.search import CounterExample, Exploration
from odradek.sim.explore.transaction_model import TransactionModel
from odradek.sim.explore.transaction_values import TransactionState


def explore_transactions(model: TransactionModel, *, most_states: int) -> Exploration:
    """Until an invariant is broken, nothing is left, or there are enough."""
    begun = time.perf_counter()
    first = model.first()
    numbers = {first: 0}
    parents, labels = array("I", [0]), [""]
    level: list[TransactionState] = [first]
    depth = transitions = 0

    def result(is_complete: bool, found: CounterExample | None = None) -> Exploration:
        took = time.perf_counter() - begun
        return Exploration(len(numbers), transitions, depth, is_complete, took, found)

    def told(number: int, last: str, broken: tuple[str, ...]) -> CounterExample:
        actions = [last]
        while number:
            actions.append(labels[number])
            number = parents[number]
        actions.reverse()
        text = "\n".join([*actions, "----", *(f"broken {name}" for name in broken)])
        return CounterExample(broken, tuple(actions), text, ())

    while level and len(numbers) < most_states:
        following: list[TransactionState] = []
        for state in level:
            number = numbers[state]
            is_last = True
            for label, after, broken in model.successors(state):
                is_last = False
                transitions += 1
                if after in numbers and not broken:
                    continue
                broken = broken or model.broken(after)
                if broken:
                    depth += 1
                    return result(False, told(number, label, broken))
                numbers[after] = len(labels)
                parents.append(number)
                labels.append(label)
                following.append(after)
            if is_last and model.is_stuck(state):
                return result(False, told(number, "nothing more happens", ("Stuck",)))
            if len(numbers) >= most_states:
                return result(False)
        depth += 1
        level = following
    return result(not level)
