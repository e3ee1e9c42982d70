"""What is searched by default: every fault once, and apart from that what would multiply its states too much."""

from collections.abc import Iterator

from odradek.sim.explore.model import Scope

OTHERS_SHARE = 25  # each of the others gets so much less than the first

SCOPES: dict[str, Scope] = {
    "faults": Scope(),
    # A controller is deposed and does not notice: it decides by what it remembers, and writes under its old fence.
    "two-controllers": Scope(deposals=1, controller_crashes=0),
    # What was not synced is lost. Two members are needed to commit, so the other has what one of them loses.
    "power-cut": Scope(power_cuts=1, records=1, partition_epochs=5, min_insync_replicas=2),
    # All that may have lost records are asked what they hold, and now one of them loses power, or anything else happens.
    "in-doubt": Scope(
        brokers=2,
        records=1,
        leader_epochs=7,
        partition_epochs=8,
        min_insync_replicas=2,
        power_cuts=1,
        begins_in_doubt=True,
    ),
    "second-fetch": Scope(second_fetches=True),
    # Small enough to be searched to the end.
    "two-brokers": Scope(
        brokers=2, records=1, partition_epochs=5, broker_crashes=0, lost_connections=0, controller_crashes=0
    ),
}


def parts(states: int) -> Iterator[tuple[str, Scope, int]]:
    for number, (name, scope) in enumerate(SCOPES.items()):
        yield name, scope, states if number == 0 else -(-states // OTHERS_SHARE)
