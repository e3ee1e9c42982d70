"""The numbered behaviours of the cleaner (L), and the tests that show them.

    python -m tests.log.compaction.rows                           write docs/cleaner-behaviours.md
    python -m tests.log.compaction.rows --mutations [ROW ...]     which mutation of tests/mutants/table/cleaner.py turns no test red

A test ticks a row off with `@pytest.mark.behaviour("L7")`.
"""

import sys
from pathlib import Path

from tests.coordinator.rows import TESTS, ticked, try_mutations
from tests.mutants.table import OF_CLEANER

PAGE = Path(TESTS).parent / "docs" / "cleaner-behaviours.md"
ROWS = {
    "L1": "The dirty part begins at `cleaner-offset-checkpoint`; a log is due when its share of bytes is strictly above `min.cleanable.dirty.ratio`, the dirtiest first, or whatever the ratio when its oldest dirty record is older than `max.compaction.lag.ms`",
    "L2": "Never cleaned: the active segment, what is at or behind an open transaction, and segments with a record younger than `min.compaction.lag.ms`",
    "L3": "A checkpoint below the log's start or above its end is not believed",
    "L4": "First pass, the dirty part: key to last offset; a full map ends the pass there, and that is the new checkpoint",
    "L5": "Second pass, from the log's start: a record stays if it is the last of its key, or above the map's end; records without a key go",
    "L6": "A key that comes again only in what cannot be cleaned yet keeps its older value until then",
    "L7": "Offsets, timestamps, producer, sequence and leader epoch never change; a batch keeps base offset and last offset delta, one in which all stays is copied byte for byte, compressed ones are compressed again with their codec",
    "L8": "A batch that loses all goes, except the one with the last sequence of a producer the log knows: it stays without records",
    "L9": "The last batch of a segment stays, without records if need be, so that the end of the log cannot move back (KAFKA-17076; 3.9 drops it)",
    "L10": "The first cleaning that meets a tombstone, or a marker whose data are gone, gives the batch its delete horizon: clock + `delete.retention.ms` (KIP-534)",
    "L11": "The first cleaning after the horizon drops them, once every replica has passed them; nothing starts a cleaning for their sake",
    "L12": "The horizon is the batch's and does not move; a superseded tombstone goes at once; an empty value is no tombstone",
    "L13": "Data of an aborted transaction go at the first cleaning; its marker gets a horizon once no batch of it is met, and goes after that",
    "L14": "`.txnindex` is written again with the aborted transactions of which data were met",
    "L15": "Neighbouring segments become one as long as log, indexes and offsets fit",
    "L16": "Where nothing stays of a group of segments, one segment is left all the same",
    "L17": "With compact,delete whole segments go by retention, and cleaning begins at the log's start",
    "L18": "Produce without a key to a compacted topic: INVALID_RECORD (87), the whole batch refused",
    "L19": "A batch that cannot be opened makes the log uncleanable until the next start, and others are cleaned on; damage takes the replica out of service",
    "L20": "A log that is cut, deleted or moved meanwhile is left as it is; followers clean as leaders do",
}


def page() -> str:
    tests = ticked()
    lines = [
        "<!-- Written by tests/log/compaction/rows.py from the markers of the tests. -->",
        "",
        "# Behaviours of the cleaner",
        "",
        "What Apache Kafka 3.9.1 does, as its source and the directories it left say, and where ours does otherwise; how it works stands in",
        "[compaction](compaction.md). A mutation is a change of the code that turns a test of its row red",
        "(`python -m tests.log.compaction.rows --mutations` runs them all).",
        "",
        "| # | behaviour | tests | mutation |",
        "|---|---|---|---|",
    ]
    mutants = {row: mutant for mutant in OF_CLEANER for row in mutant.rows}
    for name, text in ROWS.items():
        named = "<br>".join(f"`{test}`" for test in tests.get(name, ()))
        mutation = f"{mutants[name].what} (`{mutants[name].edits[0].at}`)"
        lines.append(f"| {name} | {text} | {named} | {mutation} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__" and "--mutations" in sys.argv:
    sys.exit(try_mutations(OF_CLEANER, {name: set(tests) for name, tests in ticked().items()}, sys.argv[2:]))
elif __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
