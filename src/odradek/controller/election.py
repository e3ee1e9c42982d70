"""Who leads: four selectors as pure functions over (assigned replicas, ISR, who is live).

`live` is always in assignment order, so "the first" means the first in assignment order (C10), never the
first of the ISR. A clean choice is live *and* in the ISR (C11, C12); only the offline selector may leave
the ISR, and only where that was allowed.
"""

from collections.abc import Collection

from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import BrokerId
from odradek.model.values import dataclass

CLEAN = "first assigned replica that is live and in the ISR"
ELIGIBLE = "no member of the ISR is live; first assigned replica that is live and eligible"
UNCLEAN = "no member of the ISR is live; unclean election is allowed"
MOST = "all of the ISR may have lost records, and so may who was eligible; of the live ones it holds the most"
REASSIGNED = "first target replica that is live and in the ISR"
PREFERRED = "preferred replica, live and in the ISR"
STAYING = "first assigned replica that stays, live and in the ISR"


@dataclass(frozen=True, slots=True)
class Election:
    """A leader, the ISR it starts with, and the replicas to tell.

    `unclean`: the leader was not in the ISR, acknowledged records may be lost; stored as
    leader_recovery_state 1 until the next AlterPartition.
    """

    leader: BrokerId
    isr: tuple[BrokerId, ...]
    unclean: bool
    tell: tuple[BrokerId, ...]
    why: str = ""


def members_that_may_lead(current: LeaderAndIsr, eligible: Collection[BrokerId]) -> tuple[BrokerId, ...]:
    """Of the ISR: while somebody is eligible, nobody who is last known as well, as one who may have lost what it held (`eligible`)."""
    if not eligible or not current.last_known_elr:
        return current.isr
    return tuple([member for member in current.isr if member not in current.last_known_elr])


def is_doubted(current: LeaderAndIsr) -> bool:
    """Whether all of the ISR may have lost what they held (`eligible`)."""
    return bool(current.last_known_elr) and set(current.isr) <= set(current.last_known_elr)


def offline_leader(
    *,
    replicas: tuple[BrokerId, ...],
    isr: tuple[BrokerId, ...],
    live: tuple[BrokerId, ...],
    unclean_allowed: bool = False,
    ranked: tuple[BrokerId, ...] = (),
    eligible: tuple[BrokerId, ...] = (),
) -> Election | None:
    """The first assigned replica that is live and in the ISR; the new ISR is what is live of the old.

    Else the first that is live and eligible (KIP-966): it has every committed record, and starts alone.
    Else, if unclean is allowed: the best of `ranked` (live replicas by what their log holds, best first)
    or, when nobody answered, the first live replica; alone in the ISR. Else nobody (rows 43-47).
    """
    for broker in replicas:
        if broker in live and broker in isr:
            return Election(broker, tuple(member for member in isr if member in live), False, live, CLEAN)
    for broker in replicas:
        if broker in eligible and broker in live:
            return Election(broker, (broker,), False, live, ELIGIBLE)
    if not unclean_allowed:
        return None
    for broker in (*ranked, *replicas):
        if broker in live:
            return Election(broker, (broker,), True, live, UNCLEAN)
    return None


def reassigned_leader(
    *, target_replicas: tuple[BrokerId, ...], isr: tuple[BrokerId, ...], live: Collection[BrokerId]
) -> Election | None:
    """The first target replica that is live and in the ISR; the ISR stays (row 48)."""
    for broker in target_replicas:
        if broker in live and broker in isr:
            return Election(broker, isr, False, target_replicas, REASSIGNED)
    return None


def preferred_leader(
    *, replicas: tuple[BrokerId, ...], isr: tuple[BrokerId, ...], live: Collection[BrokerId]
) -> Election | None:
    """The head of the list, if it is live and in the ISR; the ISR stays (row 49)."""
    head = replicas[0]
    if head in live and head in isr:
        return Election(head, isr, False, replicas, PREFERRED)
    return None


def controlled_shutdown_leader(
    *,
    replicas: tuple[BrokerId, ...],
    isr: tuple[BrokerId, ...],
    live: Collection[BrokerId],
    shutting_down: Collection[BrokerId],
    reachable: tuple[BrokerId, ...],
) -> Election | None:
    """The first assigned replica that is live, in the ISR and staying; the ISR loses those that leave.

    `reachable` are the live or shutting-down replicas: the one that leaves hears of it too (row 50).
    """
    for broker in replicas:
        if broker in live and broker in isr and broker not in shutting_down:
            stay = tuple(member for member in isr if member not in shutting_down)
            return Election(broker, stay, False, reachable, STAYING)
    return None
