"""Faults that wait for their moment: a request that is written, a step of a controller, a change of leader.

A fault at a time that was drawn meets the millisecond between a decision and its news in one world of hundreds. Each of these is
armed instead, sees the moment come on the wire or at the controller, and breaks something there. What they break is what other
faults break too: links, connections, processes, the session of a controller.
"""

from collections.abc import Callable, Collection

from odradek.model.ids import TopicPartition
from odradek.model.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC
from odradek.sim.faults.clients import member_killed
from odradek.sim.faults.controllers import ARMED_S, at_a_step
from odradek.sim.faults.targets import (
    both_ways,
    controller,
    cut,
    later,
    leader,
    serving,
    start_again,
    strike_later,
    table_of,
)
from odradek.sim.faults.wire import request_frames, send_once
from odradek.sim.loop import Host
from odradek.sim.network import SimTransport
from odradek.sim.plan import TOPICS, Fault
from odradek.sim.world import SimBroker, World
from odradek.store import layout
from odradek.store.api import Create

LEADER_AND_ISR, ALTER_PARTITION = 4, 56
# How often it is asked whether somebody leads by now, and for how long.
LOOKS_S, PATIENCE_S = 0.02, 6.0
AGAIN_S = 0.25
MOST_LATE = 3
OF_COORDINATORS = (GROUPS_TOPIC, TRANSACTIONS_TOPIC)

Written = Callable[[SimTransport, list[bytes]], bool]


def when_written(world: World, key: int, act: Written) -> None:
    """`act` hears of what brokers ask each other with this API key, before it is on its way, until it returns True; after
    `ARMED_S` no more, and not once the world is healed."""
    names = {broker.name for broker in world.brokers.values()}
    keys = frozenset({key})
    is_over = False

    def tap(transport: SimTransport, data: bytes) -> None:
        nonlocal is_over
        if is_over or world.is_healed or not {transport.host.name, transport.remote_name} <= names:
            return
        frames = request_frames(data, keys)
        if frames and act(transport, frames):
            is_over = True
            later(world, 0.0, disarm)

    def disarm() -> None:
        if tap in world.network.taps:
            world.network.taps.remove(tap)

    world.network.taps.append(tap)
    later(world, ARMED_S, disarm)


def lose_next(world: World, key: int, what: str, count: int) -> None:
    """So many requests with this API key that brokers ask each other are lost, each with its connection."""
    left = count

    def lose(transport: SimTransport, frames: list[bytes]) -> bool:
        nonlocal left
        left -= 1
        world.note(f"{what} of {transport.host.name} to {transport.remote_name} is lost")
        world.network.reset(transport)
        return left == 0

    when_written(world, key, lose)


def lost_leader_and_isr(world: World, fault: Fault) -> bool:
    """The next LeaderAndIsr requests to other brokers are lost, each with its connection."""
    if controller(world) is None:
        return False
    lose_next(world, LEADER_AND_ISR, "LeaderAndIsr", 1 + int(fault.amount * 3))
    return True


def cut_at_isr_change(world: World, fault: Fault) -> bool:
    """A leader asks for another ISR, and from there on its followers get nothing from it. In half of the cases it does not
    get the answer either."""
    if leader(world, fault) is None:
        return False
    left = 1 + int(fault.target * 4)

    def act(transport: SimTransport, frames: list[bytes]) -> bool:
        nonlocal left
        left -= 1
        source, asked = transport.host.name, transport.remote_name
        pairs = [(source, b.name) for b in world.brokers.values() if b.name not in (source, asked)]
        if fault.amount < 0.5:
            pairs.append((asked, source))
        cut(world, pairs, fault.lasts_s)
        return left == 0

    when_written(world, ALTER_PARTITION, act)
    return True


def late_isr_changes(world: World, fault: Fault) -> bool:
    """What a leader asked of the controller before comes once more behind what it asks now: the bytes of a connection that it
    had given up."""
    if leader(world, fault) is None:
        return False
    before: dict[Host, list[bytes]] = {}
    ghost = Host("ghost", 102)

    def again(transport: SimTransport, frames: list[bytes]) -> bool:
        late = before.setdefault(transport.host, [])
        for frame in late[-MOST_LATE:]:
            delay_s = 0.005 + 0.1 * fault.amount * world.loop.random.random()
            world.spawn(ghost, send_once(world, transport.remote_name, frame, delay_s))
        if late:
            world.note(f"former AlterPartitions of {transport.host.name} reach {transport.remote_name} again")
        late.extend(frames)
        return False

    when_written(world, ALTER_PARTITION, again)
    return True


def deposed_with_writes_under_way(world: World, fault: Fault) -> bool:
    """Somebody removes the controller's node while its writes are on their way to the store, and it hears of that late: the
    writes arrive when another controller was elected."""

    def depose(broker: SimBroker, where: str) -> None:
        link = broker.link
        if link is None or not world.depose():
            return
        world.note(f"{broker.name} is deposed {where}")
        link.hold_watches()
        link.calls_take_s = 0.02 + 0.3 * fault.amount

        def undo() -> None:
            link.calls_take_s = 0.0
            link.release_watches()

        later(world, fault.lasts_s, undo)

    return at_a_step(world, fault, depose, is_wanted=lambda effects: bool(effects.writes))


def _leads(broker: SimBroker, partition: TopicPartition) -> bool:
    replica = broker.replica(partition) if broker.is_running else None
    return replica is not None and replica.is_leader


def _until(world: World, every_s: float, attempt: Callable[[], bool]) -> None:
    """Asks now, and again for a few seconds, until the answer is yes."""
    until = world.loop.time() + PATIENCE_S

    def look() -> None:
        if not attempt() and world.loop.time() < until:
            strike_later(world, every_s, look)

    look()


def _when_it_leads(
    world: World, broker: SimBroker, partition: TopicPartition, act: Callable[[], None]
) -> None:
    def attempt() -> bool:
        if world.exempt:
            return True  # no more
        is_leading = _leads(broker, partition)
        if is_leading:
            act()
        return is_leading

    _until(world, LOOKS_S, attempt)


def _as_soon_as(world: World, fault: Fault, begin: Callable[[], bool]) -> bool:
    """Tries until `begin` found what it needs, for a few seconds. False where no broker serves."""
    if leader(world, fault) is None:
        return False
    _until(world, AGAIN_S, lambda: not world.exempt and begin())
    return True


def _in_sync_led_by(
    world: World, broker: SimBroker, fault: Fault, topics: Collection[str] = TOPICS
) -> tuple[TopicPartition, list[SimBroker]] | None:
    """One of these topics' partitions that it leads with two or more others in sync, and these in the order of the assignment."""
    found = []
    running = {b.broker_id: b for b in serving(world)}
    for partition, state in sorted(world.view(with_batches=False).partitions.items()):
        stored = state.stored
        if partition.topic not in topics or stored is None or stored.leader != broker.broker_id:
            continue
        rest = [
            running[b] for b in state.assignment if b != broker.broker_id and b in stored.isr and b in running
        ]
        if len(rest) > 1 and _leads(broker, partition):
            found.append((partition, rest))
    return found[int(fault.amount * len(found))] if found else None


def leaders_in_turn(world: World, fault: Fault) -> bool:
    """A leader dies with records that one of its followers lacks; the next one is cut off from the third, takes records, and dies
    as well. Whoever leads then has met neither end."""
    return _as_soon_as(world, fault, lambda: _leaders_in_turn(world, fault))


def elected_again(world: World, fault: Fault) -> bool:
    """A leader is not told that another was elected in its place. That one dies, and so does the word of the controller that
    elected it: the first leads again, and has heard of nothing between."""
    return _as_soon_as(world, fault, lambda: _elected_again(world, fault))


def coordinator_elected_again(world: World, fault: Fault) -> bool:
    """The same of a partition of coordinators: what the first one remembers is of before."""
    return _as_soon_as(world, fault, lambda: _elected_again(world, fault, OF_COORDINATORS))


def coordinator_alone(world: World, fault: Fault) -> bool:
    """Nobody follows a coordinator, and its controller takes the others out of the ISR: what it has appended comes late, or not at all,
    and what it appends then is refused. Meanwhile a member of a group dies, and its removal cannot be written."""
    return _as_soon_as(world, fault, lambda: _coordinator_alone(world, fault))


def _coordinator_alone(world: World, fault: Fault) -> bool:
    asked = controller(world)
    found: dict[str, list[tuple[TopicPartition, SimBroker, list[SimBroker]]]] = {}
    for partition, state in sorted(world.view(with_batches=False).partitions.items()):
        stored = state.stored
        if partition.topic not in OF_COORDINATORS or stored is None or stored.leader < 0:
            continue
        first = world.brokers[stored.leader]
        followers = [world.brokers[b] for b in state.assignment if b != stored.leader]
        # The controller is asked over the links of a follower, if it is one.
        replica = first.replica(partition) if _leads(first, partition) else None
        if replica is not None and replica.log.log_end_offset and asked not in followers:
            found.setdefault(partition.topic, []).append((partition, first, followers))
    if not found:
        return False
    of_topic = sorted(found)[int(fault.target * len(found))]
    partition, first, followers = found[of_topic][int(fault.amount * len(found[of_topic]))]
    world.note(f"nobody follows {first.name} in {partition}")
    lag_s = first.settings().replica_lag_time_max_ms / 1000
    strike_later(world, lag_s, lambda: _member_dies(world, fault))
    return cut(world, both_ways(first, followers), lag_s + fault.lasts_s)


def _member_dies(world: World, fault: Fault) -> None:
    member_killed(world, fault._replace(target=fault.amount))


def _leaders_in_turn(world: World, fault: Fault) -> bool:
    first = leader(world, fault)
    found = None if first is None else _in_sync_led_by(world, first, fault)
    if first is None or found is None:
        return False
    partition, (second, third, *_) = found
    random = world.loop.random
    short = second if random.random() < 0.5 else third
    pairs = [(first.name, short.name), (second.name, third.name)]
    for source, target in pairs:
        world.cut(source, target)

    def heal() -> None:
        for source, target in pairs:
            world.heal(source, target)

    def end_of(broker: SimBroker) -> None:
        if broker.is_running:
            broker.kill()
            start_again(world, broker, fault.lasts_s)

    def first_dies() -> None:
        if world.exempt:
            return
        end_of(first)
        _when_it_leads(
            world, second, partition, lambda: strike_later(world, 0.05 + 0.3 * random.random(), second_dies)
        )

    def second_dies() -> None:
        if not world.exempt:
            end_of(second)
            heal()

    strike_later(world, 0.03 + 0.1 * random.random(), first_dies)
    later(world, PATIENCE_S, heal)
    return True


def _is_election_asked_for(world: World) -> bool:
    return bool(world.store.ensemble.tree.written(layout.PREFERRED_ELECTION))


def _elected_again(world: World, fault: Fault, topics: Collection[str] = TOPICS) -> bool:
    sender = controller(world)
    if sender is None:
        return False
    random = world.loop.random
    for first in [broker for broker in serving(world) if broker is not sender]:
        found = _in_sync_led_by(world, first, fault, topics)
        if found is None:
            continue
        partition, rest = found
        second = rest[0]
        if world.view(with_batches=False).partitions[partition].assignment[0] == second.broker_id:
            break
    else:
        return False
    if _is_election_asked_for(world):
        return False
    third = next(broker for broker in rest if broker is not second)
    world.cut(first.name, second.name)  # which lacks what is taken from here on
    may_hear = False

    def heal() -> None:
        for other in (second, third):
            world.heal(first.name, other.name)

    def lose(transport: SimTransport, frames: list[bytes]) -> bool:
        if not may_hear and transport.host is sender.host and transport.remote_name == first.name:
            world.network.reset(transport)
        return may_hear

    def ask() -> None:
        if world.exempt or not _leads(first, partition) or _is_election_asked_for(world):
            return
        world.note(f"{second.name} is to lead {partition}, and {first.name} does not hear of it")
        when_written(world, LEADER_AND_ISR, lose)
        data = layout.encode_partition_list([partition])
        world.write_by_hand(Create(layout.PREFERRED_ELECTION, data))
        _when_it_leads(
            world, second, partition, lambda: strike_later(world, 0.03 + 0.2 * random.random(), second_dies)
        )

    def second_dies() -> None:
        nonlocal may_hear
        if world.exempt or not second.is_running:
            return
        may_hear = True
        world.cut(first.name, third.name)
        second.kill()
        if second is not sender:
            world.depose()
        start_again(world, second, fault.lasts_s)
        later(world, 0.3, heal)

    strike_later(world, 0.1 + 0.3 * random.random(), ask)
    later(world, PATIENCE_S, heal)
    return True


TABLE = table_of(
    lost_leader_and_isr,
    cut_at_isr_change,
    late_isr_changes,
    deposed_with_writes_under_way,
    leaders_in_turn,
    elected_again,
    coordinator_elected_again,
    coordinator_alone,
)
