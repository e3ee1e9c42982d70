"""What the advisor says of a cluster of whole brokers, read off its store as a user reads it, against what they then do."""

import random
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

import pytest

from odradek.advisor.explain import Why
from odradek.advisor.explain_replication import why_partition
from odradek.advisor.move_plan import MoveGoal, move_plan
from odradek.advisor.observed import observed_context
from odradek.advisor.roll_plan import roll_plan
from odradek.advisor.shutdown_impact import shutdown_impact
from odradek.advisor.what_if import PartitionOutcome, WhatIf, context_of, what_if
from odradek.advisor.what_if_steps import Elect, Kill, ShutDown, Start, Step, ask
from odradek.controller.context import ControllerContext, ControllerSettings
from odradek.model.cluster import LeaderAndIsr
from odradek.model.facts import MetadataLoaded
from odradek.model.ids import NO_LEADER, BrokerId, TopicPartition
from odradek.sim.clients.replica_consumer import rack_of
from odradek.sim.loop import Host
from odradek.sim.scenario.stage import Stage
from odradek.store.facts import read_metadata

# Racks, and followers that leave the ISR soon.
SETTINGS = (
    "replica.lag.time.max.ms=1500 "
    "replica.selector.class=org.apache.kafka.common.replica.RackAwareReplicaSelector"
)
ELECTED_S = 10.0  # a session that ends, an election, the answers of survivors


@dataclass
class Cluster:
    """Whole brokers, 3 to 6, with some topics, in the middle of whatever the seed draws."""

    seed: int
    stage: Stage
    random: random.Random
    partitions: list[TopicPartition] = field(default_factory=list)
    # How far each log was acknowledged with acks=all.
    acknowledged: dict[TopicPartition, int] = field(default_factory=dict)
    # Who is away and comes back with its broker epoch.
    lost_nothing: set[int] = field(default_factory=set)

    def make(self) -> None:
        draw = self.random
        count = draw.randint(3, 6)
        self.does(f"cluster brokers={count} seed={self.seed} {SETTINGS}")
        # What an unclean election gives up, nobody owes any more.
        self.stage.world.store.on_write = self.stage.world.topics.notice_unclean_elections
        for name in [f"t{n}" for n in range(draw.randint(2, 3))]:
            factor = draw.randint(1, min(4, count))
            rows = [draw.sample(range(1, count + 1), factor) for _ in range(draw.randint(1, 3))]
            shown = ";".join(",".join(map(str, row)) for row in rows)
            unclean, least = draw.choice(["true", "false"]), draw.randint(1, factor)
            self.does(f"topic {name} replicas={shown} min={least} unclean={unclean}")
            self.partitions += [TopicPartition(name, n) for n in range(len(rows))]
        self.produce()

    def does(self, command: str) -> list[str]:
        said = self.stage.does(command)
        assert not [line for line in said if line.startswith("!")], (command, said)
        return said

    def run(self, seconds: float) -> None:
        self.stage.world.run_for(seconds)

    def disturb(self) -> None:
        """Some replicas fall behind, some brokers die or stop, a reassignment is under way."""
        draw = self.random
        for _ in range(draw.randint(0, 2)):
            if len(self.others()) >= 2:
                one, other = draw.sample(self.others(), 2)
                self.does(f"cut {one} {other}")
        if draw.random() < 0.5:
            target = draw.sample(self.live, draw.randint(1, min(3, len(self.live))))
            self.does(f"reassign {draw.choice(self.partitions)} to={','.join(map(str, target))}")
        for _ in range(draw.choice([0, 0, 1, 1, 2])):
            if len(self.live) > 2:
                self.end(draw.choice(["kill", "kill", "stop"]), draw.choice(self.others()))
                self.run(draw.choice([0.3, 3.0]))
                self.produce()
        self.run(draw.choice([0.5, 4.0]))
        self.produce()
        if draw.random() < 0.3:
            self.does("heal")
            self.run(draw.choice([0.2, 3.0]))

    def end(self, how: str, *brokers: int) -> None:
        """Who is killed has lost nothing, and proves it unless its file systems are unmounted before it is back."""
        is_proved = how == "stop" or self.random.random() < 0.5
        self.does(f"{how} {' '.join(map(str, brokers))}{'' if is_proved else ' unmounted'}")
        self.lost_nothing.difference_update(brokers)
        if is_proved:
            self.lost_nothing.update(brokers)

    def produce(self) -> None:
        for where in self.partitions:
            acks = self.random.choice(["all", "all", "1"])
            answer = self.asked_to_take(where, acks)
            if acks == "all" and answer is not None and "@" in answer:
                self.acknowledged[where] = int(answer.partition("@")[2])

    def asked_to_take(self, where: TopicPartition, acks: str = "all") -> str | None:
        """What the stored leader answers to a write; None: it is not there."""
        leader = self.leader(where)
        if leader == NO_LEADER:
            return None
        (said,) = self.does(f"produce {where} v acks={acks} to={leader}")
        return said

    # --- as it stands

    @property
    def live(self) -> list[int]:
        return [int(b.broker_id) for b in self.stage.world.brokers.values() if b.is_running]

    @property
    def dead(self) -> list[int]:
        return [int(b.broker_id) for b in self.stage.world.brokers.values() if not b.is_running]

    def others(self) -> list[int]:
        """Not the controller: it keeps touch with everybody."""
        return [n for n in self.live if not self.stage.world.brokers[BrokerId(n)].is_controller]

    def can_reach(self, one: BrokerId, other: BrokerId) -> bool:
        """No link between the two is cut, in either direction."""
        world = self.stage.world
        names = [world.brokers[broker].name for broker in (one, other)]
        return not any(world.network.link(*pair).is_cut for pair in (names, reversed(names)))

    def cut_off(self, where: TopicPartition) -> set[BrokerId]:
        """The replicas that cannot read from its leader: it may let go of them at any moment."""
        leader = self.leader(where)
        return {b for b in self.replicas(where) if leader != NO_LEADER and not self.can_reach(leader, b)}

    def state(self, where: TopicPartition) -> LeaderAndIsr:
        found: LeaderAndIsr = self.stage._stored(where)
        return found

    def leader(self, where: TopicPartition) -> BrokerId:
        leader = self.state(where).leader
        return leader if leader in self.live else NO_LEADER

    def replicas(self, where: TopicPartition) -> tuple[BrokerId, ...]:
        node = self.stage.world.topics.assignment(where.topic)
        assert node is not None
        return node.partitions[where.partition].replicas

    def offline(self) -> set[TopicPartition]:
        return {where for where in self.partitions if self.leader(where) == NO_LEADER}

    def under(self, context: ControllerContext) -> set[TopicPartition]:
        led = set(self.partitions) - self.offline()
        return {where for where in led if len(self.state(where).isr) < context.effective_min_isr(where)}

    def memory(self) -> ControllerContext | None:
        """Of the controller, once it has seen who is there and has decided."""
        for broker in self.stage.world.brokers.values():
            term = broker.runtime.controller.term if broker.is_controller and broker.runtime else None
            context = None if term is None else term.core.context
            if context is not None and not context.polls and {*context.brokers} == {*self.live}:
                return context
        return None

    def settled(self) -> ControllerContext:
        self.stage._until(lambda: self.memory() is not None, "a controller has seen who is there")
        return self.read(context_of)

    @property
    def settings(self) -> ControllerSettings:
        memory = self.memory()
        assert memory is not None
        return memory.settings

    def read(
        self, made: Callable[..., ControllerContext], settings: ControllerSettings | None = None
    ) -> ControllerContext:
        """As `--store` has it. `settings`: of the last controller, where there is none."""
        link = self.stage.world.store.link_for(Host("question", 777))

        async def read() -> MetadataLoaded:
            session = await link.open_session(60_000)
            try:
                return await read_metadata(session)
            finally:
                await session.close()

        memory = self.memory()
        snapshot = self.stage.world.call(link.host, read())
        controller = None if memory is None else memory.broker
        return made(snapshot, settings or self.settings, controller=controller)


@contextmanager
def cluster(seed: int, *, is_calm: bool = False) -> Iterator[Cluster]:
    stage = Stage()
    try:
        made = Cluster(seed, stage, random.Random(seed))
        made.make()
        if not is_calm:
            made.disturb()
        yield made
    finally:
        stage.close()


# ------------------------------------------------------------------------------------------- what if


Asked = Callable[[ControllerContext], list[WhatIf]]


def steps(*asked: Step) -> Asked:
    return lambda context: ask(context, asked)[0]


def drawn(found: Cluster) -> tuple[Asked, Callable[[], object]]:
    """What is asked, and doing it."""
    draw, live, dead = found.random, found.live, found.dead
    kind = draw.choice(["kill", "kill", "kill two", "stop", "stop", "stop two", "elect", "start"])
    if dead and (kind == "start" or len(live) < 3):
        who = draw.choice(dead)
        in_order = who in found.lost_nothing
        back = BrokerId(who)
        return lambda c: [what_if(c, start=[back], stopped_in_order=in_order)], lambda: found.does(
            f"start {who}"
        )
    if kind in ("elect", "start"):
        where, is_unclean = draw.choice(found.partitions), draw.random() < 0.5
        words = f"elect {'unclean' if is_unclean else 'preferred'} {where}"
        return steps(Elect(is_unclean, (where,))), lambda: found.does(words)
    several = draw.sample(live, 2 if kind.endswith("two") else 1)
    if kind.startswith("kill"):
        return steps(Kill(tuple(map(BrokerId, several)))), lambda: found.end("kill", *several)
    one_by_one = [ShutDown(BrokerId(broker)) for broker in several]

    def stop_each() -> None:
        for broker in several:
            found.end("stop", broker)

    return steps(*one_by_one), stop_each


def differs(found: Cluster, outcome: PartitionOutcome, *, is_unclean: bool, goes_on: bool) -> str | None:
    """Replicas that have caught up by now may be in the ISR besides. Where it `goes_on` after they have, as a reassignment does and a
    question of several steps, they may also lead."""
    where, state = outcome.topic_partition, found.state(outcome.topic_partition)
    more = set(state.isr) - set(outcome.isr_after)
    moves, wanted = found.replicas(where), {outcome.leader_after, *outcome.may_lead}
    has_gone_on = goes_on and bool(more)
    if found.leader(where) not in wanted and not (has_gone_on and found.leader(where) in state.isr):
        return f"led by {state.leader}, not {sorted(wanted)}"
    is_sure = not (has_gone_on or is_unclean or outcome.may_lead)
    if is_sure and not {*outcome.isr_after} - found.cut_off(where) <= {*state.isr}:
        return f"ISR {state.isr}, not {outcome.isr_after}"
    if not more <= {*found.live} & {*moves}:
        return f"ISR {state.isr} of replicas {moves}"
    return None


# In 15 a killed broker that proves that it has lost nothing makes a difference, in 24 one that cannot. In 16 a new leader cannot be
# reached by a follower, in 39 a leader lets go of one during a write, in 62 records are lost, in 85 a leader is cut off from the
# next controller, in 117 who holds lost records returns and cannot reach the leader.
@pytest.mark.parametrize("seed", [*range(10), 15, 16, 24, 39, 62, 85, 117])
def test_what_if_is_what_whole_brokers_then_do(seed: int) -> None:
    with cluster(seed) as found:
        for _ in range(5):
            context = found.settled()
            asked, act = drawn(found)
            last, unclean, answers = {}, set(), asked(context)
            several = len(answers) > 1
            for answer in answers:
                last.update({o.topic_partition: o for o in answer.outcomes})
                unclean |= {o.topic_partition for o in answer.outcomes if o.is_unclean}
            act()
            found.run(0.03)
            after = found.settled()
            for where, outcome in last.items():
                difference = differs(
                    found,
                    outcome,
                    is_unclean=where in unclean,
                    goes_on=several or where in context.reassignments,
                )
                assert (difference, outcome) == (None, outcome)
            for where in set(found.partitions) - last.keys():
                state, known = found.state(where), context.leadership(where)
                assert known is not None and state.leader == known.leader
                assert {*known.isr} - found.cut_off(where) <= {*state.isr}
            refuses_or_loses(found, after, unclean)
            found.produce()
            found.run(found.random.choice([0.1, 2.0]))


@pytest.mark.parametrize("seed", range(8))
def test_what_if_a_broker_comes_when_nobody_is_left_is_what_it_then_does(seed: int) -> None:
    """All died at once, and no controller has decided anything of it. Whoever comes may have lost records, or proves that it has not."""
    with cluster(seed) as found:
        found.settled()
        settings = found.settings
        found.end("kill", *found.live)
        while found.dead:
            comes = BrokerId(found.random.choice(found.dead))
            context = found.read(context_of, settings)
            asked = what_if(context, start=[comes], stopped_in_order=comes in found.lost_nothing)
            found.does(f"start {comes}")
            found.run(0.03)
            found.settled()
            for outcome in asked.outcomes:
                difference = differs(
                    found,
                    outcome,
                    is_unclean=outcome.is_unclean,
                    goes_on=outcome.topic_partition in context.reassignments,
                )
                assert (difference, outcome) == (None, outcome)
            found.run(found.random.choice([0.1, 2.0]))


@pytest.mark.parametrize("seed", range(8))
def test_what_if_the_last_die_after_the_others_and_one_comes_back_is_what_it_then_does(seed: int) -> None:
    """Asked as a whole beforehand: a controller has decided something in between, and the next one reads that."""
    with cluster(seed) as found:
        context = found.settled()
        first = found.random.sample(found.live, found.random.randint(1, len(found.live) - 1))
        last, comes = [b for b in found.live if b not in first], BrokerId(found.random.choice(found.live))
        kills = [Kill(tuple(map(BrokerId, several))) for several in (first, last)]
        (*_, came), _ = ask(context, [*kills, Start((comes,))])
        for several in (first, last):
            found.does(f"kill {' '.join(map(str, several))} unmounted")
            if several is first:
                found.run(0.03)
                found.settled()
        found.does(f"start {comes}")
        found.run(0.03)
        found.settled()
        for outcome in came.outcomes:
            difference = differs(found, outcome, is_unclean=outcome.is_unclean, goes_on=True)
            assert (difference, outcome) == (None, outcome)


def refuses_or_loses(found: Cluster, context: ControllerContext, unclean: set[TopicPartition]) -> None:
    """Leaders refuse acks=all where the ISR is too small, and nobody led without what was acknowledged, but where that was said.

    A write may take as long as it takes to let go of a follower: where the ISR becomes too small meanwhile, it is refused or not. A
    leader whose link to the controller is cut goes on with the ISR it was told, and takes nothing while that is not in sync."""
    for where in found.partitions:
        leader = found.leader(where)
        replica = None if leader == NO_LEADER else found.stage.world.brokers[leader].replica(where)
        if replica is None or not replica.is_leader:
            continue
        end = replica.log.log_end_offset
        if where in unclean:
            found.acknowledged[where] = min(found.acknowledged.get(where, -1), end - 1)
        assert end > found.acknowledged.get(where, -1), f"{where} lost records and that was not said"
        was_under = where in found.under(context)
        said = found.asked_to_take(where)
        assert said is not None
        if was_under == (where in found.under(context)):
            is_refused = said == "v: NOT_ENOUGH_REPLICAS"
            is_told = found.can_reach(context.broker, leader)
            assert is_refused == was_under if is_told else not ("@" in said and was_under), (where, said)
        if "@" in said:
            found.acknowledged[where] = int(said.partition("@")[2])


# In 36 the next leader is reached by a replica that the former one was not.
@pytest.mark.parametrize("seed", [*range(8), 36])
def test_the_impact_of_a_shutdown_is_what_whole_brokers_then_do_and_its_remedy_makes_it_safe(
    seed: int,
) -> None:
    with cluster(seed) as found:
        context = found.settled()
        leaving = found.random.sample(found.live, min(len(found.live) - 1, found.random.choice([1, 2])))
        impact = shutdown_impact(context, [BrokerId(broker) for broker in leaving])
        offline, under = found.offline(), found.under(context)
        for broker in sorted(leaving):
            found.end("stop", broker)
        after = found.settled()
        assert {o.topic_partition for o in impact.goes_offline} == found.offline() - offline
        falls = {o.topic_partition: {*o.isr_after} for o in impact.falls_under_min_isr}
        # Who could not read from the former leader may be in sync with the next one by now.
        joined = {where for where, isr in falls.items() if {*found.state(where).isr} - isr}
        assert falls.keys() - joined <= found.under(after) - under <= falls.keys()
        for outcome in impact.moves_its_leader:
            assert found.leader(outcome.topic_partition) in (outcome.leader_after, *outcome.may_lead)
        refuses_or_loses(found, after, {o.topic_partition for o in impact.may_lose_records})
    with cluster(seed) as found:
        led = set(found.partitions) - found.offline()
        found.settled()
        found.does("heal")
        for where, target in impact.remedy.items():
            assert found.does(f"reassign {where} to={','.join(map(str, target))}") == []
        found.run(8.0)
        again = shutdown_impact(after := found.settled(), [BrokerId(broker) for broker in leaving])
        bad = {*again.goes_offline, *again.may_lose_records, *again.falls_under_min_isr}
        made_safe = led & {*impact.remedy, *impact.safe_once_in_sync}
        assert not made_safe & {outcome.topic_partition for outcome in bad}
        assert not made_safe & after.reassignments.keys()


@pytest.mark.parametrize("seed", range(10))
def test_why_names_what_is_missing_and_its_remedy_mends_it(seed: int) -> None:
    with cluster(seed) as found:
        found.does("heal")
        found.run(8.0)
        found.settled()
        context, lost_nothing = found.read(observed_context), set(found.lost_nothing)
        trees = [tree for where in found.partitions for tree in why_partition(context, where, 0)]
        assert {where for where in found.partitions if f"{where} has a leader" in open_in(trees)} == (
            found.offline()
        )
    starts: dict[int, list[tuple[Why, Why]]] = {}
    for tree in trees:
        for leaf in leaves(tree):
            if not leaf.holds and (named := re.match(r"start broker (\d+)", leaf.unblocked_by)):
                starts.setdefault(int(named[1]), []).append((tree, leaf))
    for broker, told in starts.items():
        with cluster(seed) as found:
            found.does("heal")
            found.run(8.0)
            found.does(f"start {broker}")
            found.run(8.0)
            found.settled()
            for tree, leaf in told:
                where = next(tp for tp in found.partitions if re.match(rf"{tp}\b|.* {tp}\b", tree.condition))
                if tree.condition.endswith(" has a leader"):
                    comes = "then" in leaf.unblocked_by
                    if "if it was stopped in order" in leaf.unblocked_by:
                        comes = broker in lost_nothing
                    assert (found.leader(where) != NO_LEADER) == comes, (where, leaf)
                elif found.leader(where) != NO_LEADER:
                    assert broker in found.state(where).isr, (where, leaf)


def open_in(trees: list[Why]) -> set[str]:
    return {tree.condition for tree in trees if not tree.holds}


def leaves(tree: Why) -> Iterator[Why]:
    if not tree.because:
        yield tree
    for reason in tree.because:
        yield from leaves(reason)


# -------------------------------------------------------------------------------------------- plans


@pytest.mark.parametrize("seed", [1, 2, 4, 7, 9, 12])
def test_a_roll_plan_keeps_its_certificate_step_by_step(seed: int) -> None:
    """Also with one death more at each step."""
    with cluster(seed, is_calm=seed % 2 == 0) as found:
        found.does("heal")
        found.run(4.0)
        context = found.settled()
        survives = found.random.choice([0, 1])
        plan = roll_plan(context, [BrokerId(b) for b in found.live], survives=survives)
        for batch, moment in zip(plan.batches, plan.certificate, strict=True):
            before = {where: found.state(where).isr for where in found.partitions}
            offline, under = found.offline(), found.under(found.settled())
            for broker in batch:
                found.stage.world.brokers[broker].kill()
            found.run(1.0)
            after = found.settled()
            assert found.offline() <= offline
            assert found.under(after) - under <= {*moment.under_min_isr}
            down = [*batch]
            if survives and len(found.live) > 1:
                dies = BrokerId(found.random.choice(found.live))
                found.does(f"kill {dies}")
                down.append(dies)
                found.run(1.0)
                after = found.settled()
                anyway = {where for where, isr in before.items() if {*isr} <= {dies}}
                assert found.offline() <= offline | anyway
                assert found.under(after) - under <= {*moment.under_min_isr_after_a_death}
            for broker in down:
                found.does(f"start {broker}")
            found.run(6.0)


@pytest.mark.parametrize("seed", range(12))
def test_a_move_plan_comes_to_its_end_without_an_outage_and_spreads_over_racks(seed: int) -> None:
    with cluster(seed) as found:
        context = found.settled()
        live = [BrokerId(broker) for broker in found.live]
        some = frozenset(found.random.sample(live, 1))
        # Of one that is away and has no replica nothing tells that there is such a broker.
        lost = [BrokerId(broker) for broker in found.dead if context.partitions_on.get(BrokerId(broker))]
        goals = [
            *(MoveGoal(drain=some), MoveGoal(fill=some), MoveGoal(rebalance=True)),
            MoveGoal(drain=frozenset(lost), rebalance=not lost),
            MoveGoal(replication_factor=found.random.randint(1, len(live))),
        ]
        goal = found.random.choice(goals)
        if goal.drain >= {*live}:
            goal = MoveGoal(rebalance=True)
        plan = move_plan(context, goal)
        found.does("heal")
        found.run(4.0)
        offline, store = found.offline(), found.stage.world.store
        dark: set[TopicPartition] = set()
        look = store.on_write

        def looks_too() -> None:
            if look is not None:
                look()
            dark.update(found.offline() - offline)

        store.on_write = looks_too
        for where, target in plan.targets.items():
            assert found.does(f"reassign {where} to={','.join(map(str, target))}") == []
        found.run(8.0)
        store.on_write = look
        after = found.settled()
        assert dark == set(), "offline on the way"
        ended = {where for where in plan.targets if where not in after.reassignments}
        assert ended == plan.targets.keys() - plan.waits_for.keys()
        assert {where: found.replicas(where) for where in ended} == {
            where: plan.targets[where] for where in ended
        }
        for move in plan.moves:
            if goal.replication_factor is None:
                can = len({rack_of(b) for b in live if b not in goal.drain})
                assert racks(move.after) >= min(racks(move.before), can), move


def racks(brokers: tuple[BrokerId, ...]) -> int:
    return len({rack_of(broker) for broker in brokers})


def test_of_several_replicas_that_are_not_in_sync_the_longest_log_leads_and_each_is_named() -> None:
    with closing(Stage()) as stage:
        for command in (
            f"cluster brokers=5 {SETTINGS}",
            "topic t replicas=4,2,3 unclean=true",
            *(
                "produce t-0 a",
                "kill 2",
                "wait t-0 isr=4,3",
                "produce t-0 b",
                "kill 3",
                "wait t-0 isr=4",
                "produce t-0 c",
            ),
            *("cut 2 4", "cut 3 4", "start 2 3", "run 3"),
        ):
            stage.does(command)
        found = Cluster(0, stage, random.Random(0), [TopicPartition("t", 0)])
        ((outcome, *_),) = (answer.outcomes for answer in ask(found.settled(), [Kill((BrokerId(4),))])[0])
        assert (outcome.is_unclean, outcome.leader_after, outcome.may_lead) == (True, 2, (2, 3))
        found.end("kill", 4)
        found.run(0.1)
        found.settled()
        assert found.leader(outcome.topic_partition) == 3
