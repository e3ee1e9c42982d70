"""Faults of clients (F31): what a process that dies leaves behind, and what its successor makes of it.

A producer that is killed never learns what became of its sends: the history keeps them as `unknown`. Producer ids
without a transaction are not for ever (KIP-98): whoever takes its place is given another one, so what the application
sends again may stand twice, once for each of them, and no more often.
"""

from odradek.model.topic_names import GROUPS_TOPIC
from odradek.sim.clients.client_process import ClientProcess
from odradek.sim.clients.workload import ConsumerProcess, GroupProcess, MemberProcess, Workload
from odradek.sim.faults import targets
from odradek.sim.plan import Fault
from odradek.sim.world import SimBroker, World

# A send is this old at most when its producer dies: before it left, before it was written, before it was committed.
LONGEST_IN_FLIGHT_S = 0.03
MOST_NEWCOMERS = 30


def _workload(world: World) -> Workload | None:
    workload = world.clients
    return None if workload is None or workload.is_over else workload


def _back_after(world: World, workload: Workload, process: ClientProcess, seconds: float) -> None:
    def start() -> None:
        if not workload.is_over and not process.is_running:
            process.start()

    targets.later(world, seconds, start)


def _kill_in_a_send(world: World, fault: Fault, *, sends_again: bool) -> bool:
    workload = _workload(world)
    running = [] if workload is None else [p for p in workload.producers if p.is_running]
    if workload is None or not running:
        return False
    producer = running[int(fault.target * len(running))]
    host = producer.host
    age_s = fault.amount * LONGEST_IN_FLIGHT_S

    def kill() -> None:
        nonlocal age_s
        if producer.host is not host or not producer.is_running or workload.is_over:
            return
        in_flight = producer.in_flight
        if in_flight is None:  # this one was answered too soon
            age_s /= 2
            producer.on_next_send = soon
            return
        if sends_again:
            producer.to_send_again.append(in_flight)
        world.note(f"producer {producer.number} dies with {in_flight[1]} to {in_flight[0]} in flight")
        producer.kill()
        _back_after(world, workload, producer, fault.lasts_s)

    def soon() -> None:
        targets.later(world, age_s, kill)

    if producer.is_sending:
        soon()  # perhaps a retry of one that has been under way for seconds
    else:
        producer.on_next_send = soon
    return True


def producer_killed(world: World, fault: Fault) -> bool:
    """With a send in flight; its successor goes on behind it."""
    return _kill_in_a_send(world, fault, sends_again=False)


def producer_restarts(world: World, fault: Fault) -> bool:
    """With a send in flight; its application sends that once more in its next life."""
    return _kill_in_a_send(world, fault, sends_again=True)


def consumer_killed(world: World, fault: Fault) -> bool:
    """It goes on behind the last record it has seen, and must miss none."""
    workload = _workload(world)
    running = [] if workload is None else [c for c in workload.consumers if c.is_running]
    if workload is None or not running:
        return False
    consumer = running[int(fault.target * len(running))]
    consumer.kill()
    _back_after(world, workload, consumer, fault.lasts_s)
    return True


def clients_reconnect(world: World, fault: Fault) -> bool:
    """Every connection of every client breaks at once, and newcomers arrive with those who come back: each looks
    around and reads everything from the beginning, until all newcomers are killed together."""
    workload = _workload(world)
    if workload is None:
        return False
    hosts = [process.host for process in workload.processes if process.is_running]
    for transport in list(world.network.transports):
        if any(transport.host is host for host in hosts):
            world.network.reset(transport)
    newcomers = [
        ConsumerProcess(
            workload,
            workload.partitions[number % len(workload.partitions)],
            f"new-{len(world.notes)}-{number}",
        )
        for number in range(5 + int(fault.amount * (MOST_NEWCOMERS - 5)))
    ]
    for newcomer in newcomers:
        newcomer.start()

    def leave() -> None:
        for newcomer in newcomers:
            newcomer.kill()

    targets.later(world, fault.lasts_s, leave)
    return True


def _members(workload: Workload) -> list[GroupProcess]:
    return [*workload.members, *workload.sharers, *workload.mixed]


def member_killed(world: World, fault: Fault) -> bool:
    """A member of the group: its session ends later, and another one joins."""
    workload = _workload(world)
    members = [] if workload is None else _members(workload)
    running = [member for member in members if member.is_running]
    if workload is None or not running:
        return False
    member = running[int(fault.target * len(running))]
    member.kill()
    _back_after(world, workload, member, fault.lasts_s)
    return True


def member_paused(world: World, fault: Fault) -> bool:
    """It stands still, as at SIGSTOP, and goes on where it was: for the group it may have been gone, and another one has what
    it read."""
    workload = _workload(world)
    if workload is None:
        return False
    running = [member for member in _members(workload) if member.is_running]
    if not running:
        return False
    member = running[int(fault.target * len(running))]
    world.note(f"{type(member).__name__} {member.number} stands still for {fault.lasts_s:.3f} s")
    member.pause(fault.lasts_s)
    if isinstance(member, MemberProcess) and workload.plan.has_static_members:
        _takes_its_place(world, workload, member.number, fault)
    return True


def _takes_its_place(world: World, workload: Workload, number: int, fault: Fault) -> None:
    """Of a static member that stands still: another process with its instance, for as long again. When it goes on it is fenced
    by that."""
    successor = MemberProcess(workload, number)
    _back_after(world, workload, successor, fault.lasts_s * fault.amount)
    targets.later(world, 2 * fault.lasts_s, successor.kill)


def members_come_and_go(world: World, fault: Fault) -> bool:
    """Each of them has the group share out anew, once when it comes and once when it is gone."""
    workload = _workload(world)
    if workload is None or not _members(workload):
        return False
    kind = type(_members(workload)[0])
    first = 10 * (1 + len(world.notes))
    newcomers = [kind(workload, first + number) for number in range(2 + int(fault.amount * 3))]
    for number, newcomer in enumerate(newcomers):
        _back_after(world, workload, newcomer, number * fault.lasts_s / 10)
        targets.later(world, fault.lasts_s * (1 + number / 10), newcomer.kill)
    return True


def kill_coordinator(world: World, fault: Fault) -> bool:
    """The broker that leads the group's partition of `__consumer_offsets`, while members are at it."""
    brokers = [b for b in targets.serving(world) if _leads_offsets(b)]
    if not brokers:
        return False
    broker = brokers[int(fault.target * len(brokers))]
    broker.kill()
    targets.start_again(world, broker, fault.lasts_s)
    return True


def _leads_offsets(broker: SimBroker) -> bool:
    assert broker.runtime is not None
    return any(
        partition.topic == GROUPS_TOPIC and replica.is_leader and replica.log.log_end_offset
        for partition, replica in broker.runtime.broker.replicas.partitions.items()
    )


TABLE = targets.table_of(
    producer_killed,
    producer_restarts,
    consumer_killed,
    clients_reconnect,
    member_killed,
    member_paused,
    members_come_and_go,
    kill_coordinator,
)
