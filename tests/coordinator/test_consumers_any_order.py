"""Members of a consumer group in any order, with appends that fail, answers that are lost and coordinators that move.

A client owns a partition from when it is told until it has let it go: no two may own one at a time, whatever happened.
In the end everybody is told everything: the group is Stable and every partition has an owner.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from odradek.coordinator.effects import Append
from odradek.model.error_codes import ErrorCode
from tests.coordinator.consumers import beat, described, join, told
from tests.coordinator.groups import Bench
from tests.coordinator.test_kept_memory import kept_by
from tests.coordinator.test_member_memory import held_by
from tests.support import each

TOPICS = ("t", "u")
ALL = {(topic, at) for topic in TOPICS for at in range(4)}
FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)
AGAIN = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
Places = set[tuple[str, int]]


@dataclass
class Client:
    """As KIP-848 asks: it lets go first, says so, and takes what is new; after an error it says all it knows."""

    name: str
    topics: tuple[str, ...]
    epoch: int = 0
    owned: Places = field(default_factory=set)
    wanted: Places = field(default_factory=set)
    call: int | None = None
    is_unsure: bool = True

    def request(self) -> Any:
        is_unsure, self.is_unsure = self.is_unsure, False
        if self.epoch == 0:
            return join(self.name, self.topics)
        options: dict[str, Any] = {}
        if is_unsure:
            options = {"rebalance_timeout_ms": 5_000, "subscribed_topic_names": list(self.topics)}
        return beat(self.name, self.epoch, owned=_by_topic(self.owned), **options)

    def answered(self, response: Any, *, is_lost: bool) -> None:
        self.call = None
        self.is_unsure = self.is_unsure or is_lost or response.error_code != ErrorCode.NONE
        if is_lost or response.error_code in AGAIN:
            # It has said what it owns: what an older answer gave beside that may be somebody else's by now.
            self.wanted &= self.owned
            return
        if response.error_code in FENCED:
            self.epoch, self.owned, self.wanted = 0, set(), set()
            return
        assignment = told(response)
        self.epoch = response.member_epoch
        if assignment is not None:
            self.wanted = {(topic, at) for topic, partitions in assignment.items() for at in partitions}

    def follow(self) -> None:
        """Let go of what it should not have, and take what it should; but not what a request under way does not name."""
        self.owned = self.owned & self.wanted if self.call is not None else set(self.wanted)


def _by_topic(places: Places) -> dict[str, list[int]]:
    return {
        topic: sorted(at for name, at in places if name == topic) for topic in {name for name, _ in places}
    }


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.bench = Bench(held=True, consumer_session_timeout_ms=10**9)
        self.late: list[tuple[Append, int]] = []  # in the log, and their fate is not known
        self.clients = [
            Client(name, self.random.choice([TOPICS, TOPICS, ("t",)])) for name in "ABCD"[: 2 + seed % 3]
        ]

    def turn(self) -> None:
        bench, random = self.bench, self.random
        client = random.choice(self.clients)
        match random.randrange(12):
            case 0 if bench.waiting and not self.late:
                bench.fail(random.choice([ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR]))
            case 1 if random.random() < 0.2:
                self.move()
            case 2 if random.random() < 0.3 and client.call is None and client.epoch:
                bench.answers.pop(bench.ask(beat(client.name, -1), 1), None)
                client.epoch, client.owned, client.wanted = 0, set(), set()
            case 3:
                client.topics = random.choice([TOPICS, ("t",), ("u",)])
                client.is_unsure = True
            case 4 | 5:
                client.follow()
            case 9 if bench.waiting and not self.late:
                self.late.append(bench.waiting[0])
                bench.step_late()
            case 10 if self.late:
                bench.commit_late(self.late.pop())
            case 6 | 7 | 8 if client.call is None:
                client.call = bench.ask(client.request(), 1)
            case _ if bench.waiting and not self.late:
                bench.commit()
        self.hear()

    def move(self) -> None:
        for client in self.clients:
            if client.call is not None and client.call not in self.bench.answers:
                client.call, client.is_unsure = None, True
                client.wanted &= client.owned
        # What is written and not committed is not in the log of the next leader.
        for append, base_offset in reversed(self.bench.waiting):
            del self.bench.log[base_offset : base_offset + len(append.records)]
        self.bench.waiting.clear()
        self.late.clear()  # those are, and count
        self.bench.move()

    def hear(self, *, may_lose: bool = True) -> None:
        for client in self.clients:
            if client.call is not None and client.call in self.bench.answers:
                is_lost = may_lose and self.random.random() < 0.1
                client.answered(self.bench.answers.pop(client.call), is_lost=is_lost)
        self.check()

    def check(self) -> None:
        owners: dict[tuple[str, int], str] = {}
        for client in self.clients:
            for place in client.owned:
                assert owners.setdefault(place, client.name) == client.name, f"{place} has two owners"

    def settle(self) -> None:
        while self.late:
            self.bench.commit_late(self.late.pop())
        for _ in range(40):
            for client in self.clients:
                while self.bench.waiting:
                    self.bench.commit()
                self.hear(may_lose=False)
                client.follow()
                if client.call is None:
                    client.call = self.bench.ask(client.request(), 1)
        while self.bench.waiting:
            self.bench.commit()
        self.hear(may_lose=False)


@each(range(150))
def test_no_partition_has_two_owners_and_in_the_end_each_has_one(seed: int) -> None:
    world = World(seed)
    for _ in range(300):
        world.turn()
        shard = world.bench.coordinator.shard
        assert shard.held_bytes == held_by(shard)
        assert shard.kept_bytes == kept_by(shard)
    world.settle()

    group = described(world.bench)
    owned = set().union(*(client.owned for client in world.clients))
    subscribed = {topic for client in world.clients for topic in client.topics}
    assert group.group_state == "Stable"
    assert owned == {place for place in ALL if place[0] in subscribed}
    before = {one.member_id: one for one in group.members}
    world.bench.move()
    assert {one.member_id: one for one in described(world.bench).members} == before
