"""A broker answers nothing for long and its session stands: what waits for it is given up, and it is told what holds."""

from odradek.controller.broker_requests import (
    BrokerRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from odradek.controller.effects import Effects
from odradek.controller.events import TellingsLost
from odradek.controller.journal import as_json, event_from_json
from odradek.controller.pending_deletions import RETRY_MS
from odradek.controller.states import ReplicaState
from odradek.model.facts import DeleteTopicsRequested
from odradek.model.ids import LEADER_DURING_DELETE, BrokerEpoch, BrokerId
from odradek.model.values import replace
from tests.controller.brokers import leader_and_isr_answered
from tests.controller.test_pending_deletions import create_again, left_behind
from tests.controller.test_random_walk import SEEDS, STEPS, Walk, everything_heals
from tests.controller.world import World, tp
from tests.support import each

THREE = BrokerId(3)


def lost(world: World, broker: int = 3) -> TellingsLost:
    return TellingsLost(BrokerId(broker), world.registrations[broker].epoch)


def told(requests: tuple[BrokerRequest, ...]) -> list[tuple[str, dict[str, object]]]:
    """Of what broker 3 is told: the kind, and of each partition what matters here."""
    found: list[tuple[str, dict[str, object]]] = []
    for request in requests:
        assert request.broker == 3
        if isinstance(request, LeaderAndIsrRequest):
            found.append(("lead", {str(p.topic_partition): p.is_new for p in request.partitions}))
        elif isinstance(request, UpdateMetadataRequest):
            kind = "all" if request.is_whole else "some"
            found.append((kind, {str(p.topic_partition): p.leader for p in request.partitions}))
        elif isinstance(request, StopReplicaRequest):
            found.append(("stop", {str(p.topic_partition): p.delete for p in request.partitions}))
    return found


def three() -> World:
    world = World().brokers(1, 2, 3, 4)
    world.elect()
    return world


def test_it_is_told_what_there_is_and_nothing_is_moved_or_written() -> None:
    world = three()
    world.create("mine", [3, 1], [1, 3])
    world.create("theirs", [1, 2])
    world.create("joins", [1, 2])
    world.reassign({"joins-0": [1, 3]})
    before = dict(world.states)
    effects = world.step(lost(world))
    assert told(effects.requests) == [
        ("all", {"joins-0": 1, "mine-0": 3, "mine-1": 1, "theirs-0": 1}),
        ("lead", {"joins-0": True, "mine-0": False, "mine-1": False}),
    ]
    assert world.states == before and world.writes() == []
    assert [(change.name, change.source, change.to) for change in effects.changes] == [("3", "live", "live")]


def test_what_it_was_told_to_delete_it_is_told_again_and_no_earlier_answer_counts() -> None:
    world = three()
    world.create("goes", [1, 3])
    world.create("leaves", [1, 3])
    world.create("back", [1, 2])
    world.reassign({"back-0": [1, 3]})
    world.reassign({"back-0": None})
    world.reassign({"back-0": [1, 3]})  # it was told to delete that, and to have it again
    world.reassign({"leaves-0": [1, 2]})
    world.catch_up("leaves-0", 2)
    world.delete_topics = ("goes",)
    world.step(DeleteTopicsRequested(("goes",)))
    assert world.replica_state("leaves-0", 3) is ReplicaState.DELETION_STARTED
    first = dict(world.context.deletions_told[THREE])

    effects = world.step(lost(world))
    assert told(effects.requests) == [
        ("all", {"back-0": 1, "goes-0": LEADER_DURING_DELETE, "leaves-0": 1}),
        ("lead", {"back-0": True}),
        ("stop", {"goes-0": True, "leaves-0": True}),
    ]
    again = world.context.deletions_told[THREE]
    assert again.keys() == {tp("goes-0"), tp("leaves-0")} and min(again.values()) > max(first.values())
    world.stopped(3, "goes-0", number=first[tp("goes-0")])
    assert world.replica_state("goes-0", 3) is ReplicaState.DELETION_STARTED
    world.stopped(3, "goes-0", "leaves-0", number=again[tp("goes-0")])
    assert world.replica_state("goes-0", 3) is ReplicaState.DELETION_SUCCESSFUL
    assert world.context.removals == {}


def test_a_replica_on_a_failed_disk_is_stopped_and_not_told_to_lead() -> None:
    world = three()
    world.create("mine", [1, 3], [3, 1])
    effects = world.step(lost(world))
    (request,) = [r for r in effects.requests if isinstance(r, LeaderAndIsrRequest)]
    world.step(leader_and_isr_answered(request, {tp("mine-0")}))
    assert told(world.step(lost(world)).requests)[1:] == [
        ("lead", {"mine-1": False}),
        ("stop", {"mine-0": False}),
    ]


def test_who_shuts_down_is_told_of_its_successors_and_not_made_to_follow_again() -> None:
    world = three()
    world.create("t", [3, 1], [1, 3])
    world.shut_down(3)
    assert world.leader("t-0")[0] == 1
    assert told(world.step(lost(world)).requests)[1:] == [
        ("lead", {"t-0": False}),
        ("stop", {"t-1": False}),
    ]


def test_what_it_keeps_of_an_older_topic_is_told_first_and_nothing_of_the_new_one() -> None:
    world = left_behind()
    create_again(world, 1, 2, 3)
    world.start(3)
    effects = world.step(lost(world))
    assert told(effects.requests) == [("stop", {"d-0": True}), ("all", {"d-0": 1})]
    number = world.context.deletions_told[THREE][tp("d-0")]
    world.now_ms += 2 * RETRY_MS
    answered = world.stopped(3, "d-0", number=number).requests
    assert told(tuple(r for r in answered if r.broker == 3))[:1] == [("lead", {"d-0": False})]
    assert world.pending_deletions.get(THREE, {}) == {}


def test_a_broker_of_another_life_and_one_that_is_gone_are_told_otherwise() -> None:
    world = three()
    world.create("t", [1, 3])
    event = lost(world)
    world.bounce(3)
    assert world.step(event) == Effects()
    world.kill(3)
    assert world.step(event) == Effects()


def test_a_journal_brings_it_back() -> None:
    event = TellingsLost(THREE, BrokerEpoch(22))
    assert event_from_json(as_json(event)) == event


class MuteWalk(Walk):
    """The walk, and brokers in it that hear nothing while their sessions stand, until what waits for them is given up.

    What they were told before is answered; as soon as all of that is they are told everything anew."""

    def __init__(self, seed: int) -> None:
        self.mute: set[int] = set()
        self.times = 0
        super().__init__(seed)

    def elect(self) -> None:
        self.mute.clear()  # a new controller has new queues
        super().elect()

    def restarted(self, broker: int) -> None:
        self.mute.discard(broker)
        super().restarted(broker)

    def kill(self) -> None:
        before = set(self.live)
        super().kill()
        self.mute -= before - set(self.live)

    def hear(self, effects: Effects) -> None:
        heard = tuple(request for request in effects.requests if request.broker not in self.mute)
        super().hear(replace(effects, requests=heard))

    def step(self) -> None:
        chance = self.random.random()
        if chance < 0.1:
            self.mute.add(self.random.choice(self.live))
        elif chance < 0.2 and self.mute:
            self.speak(self.random.choice(sorted(self.mute)))
        super().step()

    def speak(self, broker: int) -> None:
        inbox = self.brokers.inbox
        while broker in self.mute and any(getattr(event, "broker", None) == broker for event in inbox):
            number = next(n for n, event in enumerate(inbox) if getattr(event, "broker", None) == broker)
            self.do(inbox.pop(number))
        if broker in self.mute:
            self.mute.discard(broker)
            self.times += 1
            self.do(lost(self.world, broker))

    def heal(self) -> None:
        for broker in sorted(self.mute):
            self.speak(broker)
        super().heal()


@each(range(2 * SEEDS))
def test_whatever_it_has_not_heard_everything_heals(seed: int) -> None:
    everything_heals(MuteWalk(seed))


def test_in_these_walks_brokers_are_told_anew() -> None:
    times = 0
    for seed in range(20):
        walk = MuteWalk(seed)
        for _ in range(STEPS):
            walk.step()
        times += walk.times
    assert times > 50
