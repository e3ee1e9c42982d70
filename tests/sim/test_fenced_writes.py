"""I10 in the world: which writes of controllers are seen, in whose term; and a store without fences is caught."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition
from odradek.sim import scenario
from odradek.sim.loop import Host
from odradek.sim.observed.controller_writes import ControllerWrites
from odradek.sim.world import SimBroker, World
from odradek.store import layout
from odradek.store.api import ConditionalOps, Create, Fence, Op, Set
from tests.mutants.patching import applied
from tests.mutants.search import BY_NAME

STORIES = Path(__file__).parents[1] / "scenarios"
UNFENCED = BY_NAME["writes_without_fence"]
STATE = layout.state_path(TopicPartition("t", 0))


def state(controller_epoch: int) -> bytes:
    value = LeaderAndIsr(BrokerId(1), LeaderEpoch(0), (BrokerId(1),))
    return layout.encode_partition_state(value, ControllerEpoch(controller_epoch))


class Store:
    """Broker 1's session with a tree in which the fourth controller was elected."""

    def __init__(self) -> None:
        world = World(0, brokers=1)
        self.seen = ControllerWrites(world)
        self.tree = world.store.ensemble.tree
        self.session = self.tree.open_session(6000)
        self.broker = broker = world.brokers[BrokerId(1)]
        broker.link = world.store.owner[self.session] = world.store.link_for(Host("b1", 1))
        parents = [STATE[:end] for end in range(1, len(STATE)) if STATE[end] == "/"]
        self.tree.multi(self.session, [*map(Create, parents), Create(STATE, state(4))])
        self.tree.multi(self.session, [Create(layout.CONTROLLER_EPOCH, b"0")])
        for epoch in range(1, 5):
            self.tree.multi(self.session, [Set(layout.CONTROLLER_EPOCH, str(epoch).encode())])

    def write(self, op: Op, fence: int | None) -> list[tuple[int, int, str]]:
        self.tree.write(self.session, [ConditionalOps((op,))], None if fence is None else Fence(fence))
        return [(w.controller_epoch, w.elected_epoch, w.path) for w in self.seen.take()]


def test_a_write_belongs_to_the_term_of_its_fence() -> None:
    assert Store().write(Set(STATE, state(4)), fence=4) == [(4, 4, STATE)]


def test_a_write_under_an_old_fence_does_not_happen_and_is_not_seen() -> None:
    assert Store().write(Set(STATE, state(3)), fence=3) == []


@pytest.mark.parametrize("fence", [4, None])
def test_a_state_node_tells_its_term_whatever_the_fence(fence: int | None) -> None:
    assert Store().write(Set(STATE, state(3)), fence=fence) == [(3, 4, STATE)]


def test_a_term_that_its_broker_is_in_counts_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that carries a fence and a term which are the newest by mistake is told from the term of whoever writes."""
    store = Store()
    runtime = SimpleNamespace(controller=SimpleNamespace(term=SimpleNamespace(epoch=3)))
    monkeypatch.setattr(SimBroker, "is_serving", True)
    monkeypatch.setattr(store.broker, "runtime", runtime)
    assert store.write(Set(STATE, state(4)), fence=4) == [(3, 4, STATE)]


def test_what_brokers_write_themselves_is_nobodys_term() -> None:
    assert Store().write(Create("/brokers/seqid"), fence=None) == []


def test_without_the_stores_fence_an_old_one_is_still_told() -> None:
    with applied(UNFENCED.edits):
        assert Store().write(Create("/brokers/seqid"), fence=2) == [(2, 4, "/brokers/seqid")]


def test_a_store_that_does_not_fence_is_caught_by_the_scenario_of_a_deposed_controller() -> None:
    """KAFKA-6082; that the scenario is clean with fences is test_scenarios.py's."""
    text = (STORIES / "deposed_while_its_watches_are_late.txt").read_text(encoding="utf-8")
    with applied(UNFENCED.edits):
        played = scenario.play(text)
    assert f"! I10: broker 1 wrote {STATE} as controller of epoch 1, after epoch 2 had begun" in played
