"""Plans of small worlds, each for what a test is about."""

from dataclasses import replace
from typing import Any

from odradek.sim.plan import Plan, draw


def three_brokers(**changes: Any) -> Plan:
    """Three brokers with three copies of everything, for fifteen seconds; no clients but plain ones, and no faults."""
    small: dict[str, Any] = {
        "brokers": 3,
        "replication_factor": 3,
        "min_insync_replicas": 2,
        "duration_s": 15.0,
        "flushes": False,
        "topic_count": 1,
        "states": {},
        "ledger": {},
        "has_static_members": False,
        "first_level": 2,
        "has_group": False,
        "has_sharers": False,
        "mixed_group": "",
        "has_transactions": False,
        "store_notices_death": True,
        "faults": (),
    }
    plan = replace(draw(1), **{**small, **changes})
    # A world that is healed has to stay as it is for longer than the lag time.
    return replace(plan, settings={"replica.lag.time.max.ms": "3000", **plan.settings})
