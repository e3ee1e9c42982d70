"""Small worlds in which coordinators have something to lose: what the museum of coordinators puts its bugs back in."""

from dataclasses import replace

from odradek.sim.faults.rolling import HIGHEST
from odradek.sim.plan import ASSIGNORS, Fault, Plan, _of_mixed_groups, _of_sharers, _of_transactions, draw

DURATION_S = 7.0  # enough for each bug to be seen
TRANSACTIONS, SHARERS, GROUP, MIXED = "transactions", "sharers", "group", "mixed"
WANTS = "wants"  # of brokers, and throttles: worlds of seeds
EAGER, COOPERATIVE = ASSIGNORS
FETCHES_LITTLE = {"replica.fetch.max.bytes": "200"}
IMPATIENT = {"replica.lag.time.max.ms": "2500"}  # so long a world that is healed has to stay as it is


def _plan(
    world: str,
    seed: int,
    faults: tuple[Fault, ...],
    *,
    bumping_owners: int = 0,
    assignor: str = "",
    is_static: bool = False,
) -> Plan:
    of_group = _of_mixed_groups if world == MIXED else _of_sharers
    return replace(
        draw(seed),
        brokers=3,
        partitions={TRANSACTIONS: 1, MIXED: 6}.get(world, 3),
        replication_factor=3,
        min_insync_replicas=2,
        producers=1,
        acks=-1,
        pause_between_sends_s=0.2,
        duration_s=DURATION_S,
        flushes=False,
        topic_count=1,
        states={},
        reads_from_replicas=False,
        has_group=world == GROUP,
        has_sharers=world == SHARERS,
        has_transactions=world == TRANSACTIONS,
        bumping_owners=bumping_owners,
        first_level=HIGHEST,
        mixed_group=assignor,
        has_static_members=is_static,
        ledger={},
        store_notices_death=True,
        settings={
            **IMPATIENT,
            **_of_transactions(3, 2),
            **of_group(3, 2),
            **(FETCHES_LITTLE if world == WANTS else {}),
        },
        faults=faults,
    )


def _often(kind: str, every_s: float, lasts_s: float) -> tuple[Fault, ...]:
    count = int((DURATION_S - 1) / every_s)
    return tuple(
        Fault(1.0 + every_s * n, kind, (n * 0.37) % 1, (n * 0.61) % 1, lasts_s) for n in range(count)
    )


THROTTLES = tuple(
    Fault(0.5 + n, "throttle", (n * 0.37 + 0.7) % 1, (n * 0.61 + 0.959) % 1, 2.0) for n in range(5)
)
WORLDS: dict[str, tuple[Plan, ...]] = {
    TRANSACTIONS: (
        _plan(TRANSACTIONS, 6, _often("kill_transaction_coordinator", 1.5, 0.5)),
        _plan(TRANSACTIONS, 2, _often("transactional_producer_killed", 1.2, 0.4)),
        _plan(TRANSACTIONS, 9, _often("late_client_bytes", 1.5, 1.5) + _often("kill_coordinator", 4.5, 1.0)),
        _plan(TRANSACTIONS, 4, _often("transactional_producer_paused", 1.5, 3.0), bumping_owners=3),
        _plan(TRANSACTIONS, 5, _often("late_client_bytes", 1.5, 1.5), bumping_owners=3),
    ),
    SHARERS: (
        _plan(SHARERS, 1, _often("member_killed", 2.0, 0.8)),
        _plan(SHARERS, 2, _often("kill_coordinator", 4.0, 1.0) + _often("member_killed", 3.0, 0.5)),
        _plan(SHARERS, 3, _often("member_paused", 4.5, 3.5)),
    ),
    GROUP: (
        _plan(GROUP, 1, _often("member_killed", 2.0, 0.8)),
        _plan(GROUP, 2, _often("kill_coordinator", 3.0, 1.0)),
        _plan(GROUP, 3, _often("member_paused", 4.5, 3.5)),
    ),
    MIXED: (
        _plan(MIXED, 1, _often("member_killed", 2.5, 0.5), assignor=COOPERATIVE),
        _plan(MIXED, 2, _often("kill_coordinator", 3.0, 1.0), assignor=EAGER),
        _plan(MIXED, 3, _often("member_paused", 4.5, 3.5), assignor=COOPERATIVE),
        _plan(MIXED, 7, _often("member_killed", 2.0, 0.5), assignor=COOPERATIVE, is_static=True),
        _plan(MIXED, 5, _often("members_come_and_go", 1.5, 1.0), assignor=COOPERATIVE),
    ),
    WANTS: (
        _plan(WANTS, 2, THROTTLES),
        _plan(WANTS, 1, (Fault(1.0, "one_directory_left", 0.3, 0.3, 1.0),)),
        _plan(WANTS, 1, _often("impossible_addresses", 2.0, 0.0)),
    ),
}
