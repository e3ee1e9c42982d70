"""Worlds whose brokers do one thing a turn where others do hundreds: what is done in pieces for the sake of the loop is done in pieces
there, though a world is small, and others come in between."""

import importlib
import sys

import pytest

from odradek.sim.plan import draw
from odradek.sim.run import OK, run

# How much of what is done in one turn.
LIMITS = {
    "broker.control_queue": ("AT_ONCE",),
    "broker.coordinator_calls": ("NAMES_AT_ONCE", "SIZE_AT_ONCE"),
    "broker.coordinator_shards": ("APPENDS_AT_ONCE", "TICKS_AT_ONCE", "MOST_FORGOTTEN"),
    "broker.departures": ("MOST_LET_GO",),
    "broker.group_shards": ("MOST_MADE_AT_ONCE",),
    "broker.handlers.alter_replica_log_dirs": ("AT_ONCE",),
    "broker.handlers.describe_configs": ("MOST_AT_ONCE", "CHECKED_AT_ONCE"),
    "broker.handlers.describe_log_dirs": ("SEGMENTS_AT_ONCE",),
    "broker.handlers.describe_producers": ("MOST_AT_ONCE",),
    "broker.handlers.find_coordinator": ("KEYS_AT_ONCE",),
    "broker.handlers.list_offsets": ("ROWS_AT_ONCE",),
    "broker.handlers.offset_fetch": ("GROUPS_AT_ONCE",),
    "broker.handlers.offset_for_leader_epoch": ("ROWS_AT_ONCE",),
    "broker.handlers.produce": ("MOST_REFUSED_AT_ONCE", "OF_A_STEP"),
    "broker.marker_writes": ("AT_ONCE",),
    "broker.transaction_markers": ("MOST_PARTITIONS", "MOST_TRIED"),
    "broker.unchecked_produces": ("MOST_AT_ONCE",),
    "coordinator.asides": ("NAMES_AT_ONCE",),
    "coordinator.classic_members": ("MOST_LEAVING",),
    "coordinator.committed_together": ("MOST_IN_A_RUN",),
    "coordinator.consumer_asides": ("MOST_TARGETS", "MOST_PARTITIONS"),
    "coordinator.draft": ("MOST_AT_ONCE",),
    "coordinator.expiry": ("MOST_OFFSETS", "MOST_GROUPS"),
    "coordinator.group_coordinator": ("MOST_TIMERS", "MOST_AFTER_A_TURN", "MOST_TOGETHER"),
    "coordinator.later": ("MOST_AT_ONCE", "MOST_OFFSETS"),
    "coordinator.removing": ("MOST_TOMBSTONES", "MOST_AT_ONCE"),
    "coordinator.transaction_settings": ("MOST_CHECKED", "MOST_PARTITIONS_AT_ONCE", "MOST_TAKEN_OVER"),
    "coordinator.transaction_timeouts": ("MOST_ABORTED", "MOST_REMOVED"),
    "log.flushing": ("MOST_SEGMENTS",),
    "log.index_rebuilding": ("BATCHES_A_PIECE",),
    "log.lookups": ("BATCHES_AT_ONCE", "SNAPSHOTS_AT_ONCE"),
    "log.producers": ("LOADED_AT_ONCE",),
    "log.segments": ("SIZES_AT_ONCE",),
    "log.truncation": ("MOST_SEGMENTS", "MOST_SEGMENTS_CUT"),
    "log.validation": ("HEADERS_AT_ONCE",),
    "replication.cuts": ("CUTS_AT_ONCE",),
    "store.embedded.bulk": ("AT_ONCE",),
}
# Each step of a cut makes a segment, so it takes away two.
LEAST = {"MOST_SEGMENTS": 2, "MOST_SEGMENTS_CUT": 2, "MOST_REFUSED_AT_ONCE": 0, "MOST_MADE_AT_ONCE": 0}


@pytest.fixture
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit is another one in whatever module has imported it, too."""
    for place, names in LIMITS.items():
        module = importlib.import_module(f"odradek.{place}")
        for name in names:
            known = getattr(module, name)
            for other in [one for key, one in sys.modules.items() if key.startswith("odradek.")]:
                if vars(other).get(name) == known:
                    monkeypatch.setattr(other, name, LEAST.get(name, 1))


@pytest.mark.usefixtures("_narrow")
@pytest.mark.parametrize("seed", range(12))
def test_what_is_done_in_pieces_keeps_every_promise(seed: int) -> None:
    outcome = run(draw(seed))

    assert outcome.code == OK, outcome.reason
