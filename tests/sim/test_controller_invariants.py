"""The invariants of a controller that rests: what is judged again is what has changed, and no less."""

import pytest

from odradek.controller import invariants
from odradek.controller.context import ControllerContext
from odradek.model.ids import TopicPartition
from odradek.sim.observed import controller_invariants
from odradek.sim.observed.controller_invariants import RestingControllers
from tests.controller.test_invariants import SPOILT
from tests.controller.world import state, three, tp

T0, T1 = tp("t-0"), tp("t-1")


@pytest.mark.parametrize(("name", "spoil"), SPOILT)
def test_what_breaks_after_a_look_is_found_by_the_next_ones(name: str, spoil: object) -> None:
    context, resting = three().context, RestingControllers()
    assert resting.violations(context) == []
    spoil(context)  # type: ignore[operator]

    found = resting.violations(context)

    assert found == invariants.violations(context)
    assert (name, T0) in [(broken, where) for broken, where, _ in found]
    assert resting.violations(context) == found, "whoever asks again hears it again"


def test_only_partitions_of_which_something_has_changed_are_judged_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged: list[list[TopicPartition]] = []

    def note(context: ControllerContext, partitions: list[TopicPartition]) -> list[object]:
        judged.append(partitions)
        return []

    monkeypatch.setattr(controller_invariants, "violations", note)
    world, resting = three("t", [2, 1], [3, 1]), RestingControllers()
    resting.violations(world.context)
    resting.violations(world.context)
    world.context.commit_leadership(T1, state(3, [3]))
    resting.violations(world.context)
    world.context.commit_shutting_down(
        world.context.registered_brokers()[0]
    )  # all partitions ask who is online
    resting.violations(world.context)
    RestingControllers().violations(world.context)

    assert judged == [[T0, T1], [T1], [T0, T1], [T0, T1]]
