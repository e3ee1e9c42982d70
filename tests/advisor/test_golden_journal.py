"""A journal whose requests stood in events of their own, one a kind, before all of them became `Requested`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from odradek.advisor.replay import first_difference, replay
from odradek.cli.journal.words import event_words
from odradek.controller.journal import as_json, event_from_json

LINES: list[Mapping[str, Any]] = [
    json.loads(line)
    for line in Path("tests/golden/journal/controller-1.jsonl").read_text(encoding="utf-8").splitlines()
]
REQUESTS = {
    "AlterPartitionRequested",
    "ControlledShutdownRequested",
    "AllocateProducerIdsRequested",
    "ElectLeadersRequested",
    "AlterReassignmentsRequested",
    "ListReassignmentsRequested",
}


def test_a_journal_of_the_old_shape_is_played_again_and_says_the_same_at_every_step() -> None:
    assert {line["event"]["type"] for line in LINES} >= REQUESTS, "each of the six kinds is in it"
    steps, core = replay(LINES)
    assert len(steps) == len(LINES)
    assert first_difference(steps) is None
    assert core.context is None, "it ends with a resignation"


def test_its_requests_are_shown_in_the_same_words_as_those_of_today() -> None:
    words = []
    for line in LINES:
        event = line["event"]
        if event["type"] in REQUESTS:
            words.append(event_words(event))
            assert event_words(as_json(event_from_json(event))) == words[-1]
    assert words == [
        "AlterPartition of broker 2",
        "AlterPartition of broker 2",
        "allocate producer ids requested",
        "preferred election asked for",
        "unclean election asked for",
        "AlterPartition of broker 1",
        "reassign nix-0 to 1, cancel t-0, t-1 to 1,2",
        "list reassignments requested",
        "list reassignments requested",
        "broker 1 wants to stop",
        "broker 3 wants to stop",
        "reassign t-0 to 1",
    ]
