"""Faults of members that take their time, and of members that go without a word while their group waits for somebody (F31).

A rebalance that is over at once leaves nothing of a session or a deadline to be lost: only what waits for longer than a session does.
"""

from odradek.sim.clients.group_member import SLOW
from odradek.sim.clients.workload import GroupProcess, MemberProcess, MixedProcess, Workload
from odradek.sim.faults import targets
from odradek.sim.plan import Fault
from odradek.sim.world import World

SESSION_S = SLOW[0] / 1000
# A leader shares out so much later than the sessions of the others end.
LATE_S = (0.2, 1.2)
LOOKS_AGAIN_S = 0.1
LOOKS = 50
# A process that takes the place of one that has gone: not before its group has gone on without.
BACK_S = 5.0
LEAST_MEMBERS = 2  # beside the one that goes
GUEST_STAYS_S = 2.5


def _workload(world: World) -> Workload | None:
    workload = world.clients
    return None if workload is None or workload.are_groups_over else workload


def _running(workload: Workload) -> list[MemberProcess]:
    return [member for member in workload.members if member.is_running]


def _back_after(world: World, workload: Workload, process: GroupProcess, seconds: float) -> None:
    def start() -> None:
        if not workload.are_groups_over and not process.is_running:
            process.start()

    targets.strike_later(world, seconds, start)


def _joins(world: World, workload: Workload, lasts_s: float) -> None:
    """One more: the others have to join again."""
    newcomer = MemberProcess(workload, 10 * (1 + len(world.notes)))
    newcomer.start()
    targets.later(world, lasts_s, newcomer.kill)


def leader_shares_late(world: World, fault: Fault) -> bool:
    """Somebody joins, and the next leader heartbeats and shares nothing out until the sessions of the others, who are parked, would have
    ended."""
    workload = _workload(world)
    if workload is None or not _running(workload):
        return False
    shortest_s, longest_s = LATE_S
    workload.sharing_out_takes_s = SESSION_S + shortest_s + fault.amount * (longest_s - shortest_s)
    _joins(world, workload, fault.lasts_s)
    return True


def member_falls_silent(world: World, fault: Fault) -> bool:
    """As above; and a member that is parked is killed for good: at once, or when it has been parked for longer than its session. In half
    of the cases somebody joins after that, so that what was parked is refused."""
    if not leader_shares_late(world, fault):
        return False
    workload = _workload(world)
    assert workload is not None
    waits_s = SESSION_S if fault.target < 0.7 else 0.0
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        running = _running(workload)
        parked = [member for member in running if member.waits_s > waits_s]
        if parked and len(running) > LEAST_MEMBERS:
            goes = parked[int(fault.target * len(parked))]
            world.note(f"member {goes.number} falls silent, parked for {goes.waits_s:.3f} s")
            goes.kill()
            _back_after(world, workload, goes, BACK_S)
            if fault.amount < 0.5:
                targets.strike_later(world, LOOKS_AGAIN_S, lambda: _joins(world, workload, fault.lasts_s))
        elif looks < LOOKS:
            targets.strike_later(world, LOOKS_AGAIN_S, look)

    look()
    return True


def static_member_falls_silent(world: World, fault: Fault) -> bool:
    """A static member is killed, comes back within its session, and is killed for good."""
    workload = _workload(world)
    running = [] if workload is None else _running(workload)
    if workload is None or not workload.plan.has_static_members or len(running) <= LEAST_MEMBERS:
        return False
    member = running[int(fault.target * len(running))]
    member.kill()
    _back_after(world, workload, member, fault.lasts_s)

    def go() -> None:
        if member.is_running:
            world.note(f"member {member.number} falls silent, {member.lives} lives old")
            member.kill()
            _back_after(world, workload, member, BACK_S)

    targets.strike_later(world, fault.lasts_s + SESSION_S * (0.3 + fault.amount), go)
    return True


def _guest(workload: Workload | None) -> MixedProcess | None:
    """Of KIP-848, in a group of both protocols."""
    mixed = [] if workload is None else workload.mixed
    return next((one for one in mixed if one.is_running and one.is_visiting_by_kip_848), None)


def guest_stays(world: World, fault: Fault) -> bool:
    """In a group of both protocols, for longer than classic members have to join again, and to ask what they are assigned."""
    workload = _workload(world)
    guest = _guest(workload)
    if guest is None:
        return False
    guest.stay_for(fault.lasts_s)
    return True


def falls_silent_as_guest_goes(world: World, fault: Fault) -> bool:
    """A classic member, for good, just as the group becomes classic again: after so long that no timer of what it was before is left."""
    workload = _workload(world)
    guest = _guest(workload)
    if workload is None or guest is None:
        return False
    guest.stay_for(2 * GUEST_STAYS_S)

    def go() -> None:
        stayers = [one for one in workload.mixed if one.is_running and not one.is_guest]
        if len(stayers) < LEAST_MEMBERS or _guest(workload) is None:
            return
        member = stayers[int(fault.target * len(stayers))]
        world.note(f"mixed member {member.number} falls silent, and the guests go")
        member.kill()
        for one in workload.mixed:
            if one.is_guest:
                one.send_away(BACK_S)
        _back_after(world, workload, member, BACK_S)

    targets.strike_later(world, GUEST_STAYS_S, go)
    return True


TABLE = targets.table_of(
    leader_shares_late,
    member_falls_silent,
    static_member_falls_silent,
    guest_stays,
    falls_silent_as_guest_goes,
)
