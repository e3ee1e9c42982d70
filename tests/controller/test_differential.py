"""Apache's traces, told again to our core: the same decisions, or a difference docs/differences.md lists."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controller.golden import Trace, scenarios

DOCUMENT = Path(__file__).parents[2] / "docs" / "differences.md"
SCENARIOS = list(scenarios())


def listed() -> dict[str, set[str]]:
    """Difference -> traces it may be seen in, from the first table of the document."""
    rows: dict[str, set[str]] = {}
    for line in DOCUMENT.read_text(encoding="utf-8").split("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 5 and re.fullmatch(r"[a-z][a-z-]+", cells[0]) and cells[0] != "id":
            assert cells[1] and cells[2] and cells[3], f"{cells[0]}: say what, why and what it is tied to"
            rows[cells[0]] = {name.strip() for name in cells[4].split(",")}
    return rows


def is_folded(ours: list[object], theirs: list[object]) -> bool:
    """Ours left values out, in between or before, and ends at the same."""
    rest = iter(theirs)
    return bool(ours) and bool(theirs) and ours[-1] == theirs[-1] and all(value in rest for value in ours)


def moves(sequence: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Without moves from a state to itself, save re-elections: those a repeat of the event repeats."""
    return [move for move in sequence if move[0] != move[1] or move[0] == "OnlinePartition"]


def differences(trace: Trace) -> Iterator[tuple[str, str]]:
    """(difference, where). One that fits no description is named after what differs, and is listed nowhere."""
    apache, ours = trace.apache, trace.ours
    for name in sorted({*apache.states, *ours.states}):
        theirs, mine = apache.states[name], ours.states[name]
        if mine != theirs:
            yield ("fold" if is_folded(mine, theirs) else "other state", f"{name}: {theirs} / {mine}")
    for name in sorted({*apache.epochs, *ours.epochs}):
        theirs_epoch, mine_epoch = apache.epochs.get(name, -1), ours.epochs.get(name, -1)
        if mine_epoch != theirs_epoch:
            more = "drop-rises" if mine_epoch > theirs_epoch >= 0 else "other epoch"
            yield ("fewer-epochs" if 0 <= mine_epoch < theirs_epoch else more, name)
    for topic in sorted({*apache.nodes, *ours.nodes}):
        written, mine_written = apache.nodes[topic], ours.nodes[topic]
        if mine_written == written:
            continue
        if mine_written == written[: len(mine_written)] and any(99 in n[0] for n in written[-1].values()):
            yield "dead-refused", topic
        else:
            yield ("one-topic-write" if is_folded(mine_written, written) else "other topic node", topic)
    for name in sorted({*apache.partitions, *ours.partitions}):
        if moves(apache.partitions[name]) != moves(ours.partitions[name]):
            yield "other partition states", f"{name}: {apache.partitions[name]} / {ours.partitions[name]}"
    for key in sorted({*apache.replicas, *ours.replicas}):
        theirs_moves, mine_moves = moves(apache.replicas[key]), moves(ours.replicas[key])
        if mine_moves != theirs_moves:
            yield _replica_difference(theirs_moves, mine_moves, key), f"{key}: {theirs_moves} / {mine_moves}"
    for key in sorted({*apache.told, *ours.told}):
        told, mine_told = apache.told[key], ours.told[key]
        if mine_told != told:
            yield _told_difference(trace, key, told, mine_told), f"{key}: {told} / {mine_told}"
    if apache.new != ours.new:
        yield "other new replicas", str(apache.new ^ ours.new)
    for key in sorted({*apache.stopped, *ours.stopped}):
        if apache.stopped[key] != ours.stopped[key]:
            once = apache.stopped[key] == {True, False} and ours.stopped[key] == {True}
            yield ("stopped-once" if once else "other stop"), str(key)
    if apache.answers != ours.answers:
        yield "other answers", f"{apache.answers} / {ours.answers}"


def _replica_difference(
    theirs: list[tuple[str, str]], mine: list[tuple[str, str]], key: tuple[str, int]
) -> str:
    through_online = [("OfflineReplica", "OnlineReplica"), ("OnlineReplica", "OfflineReplica")]
    for at in range(len(theirs)):
        if theirs[at : at + 2] == through_online and theirs[:at] + theirs[at + 2 :] == mine:
            return "deleted-stay-down"
    return "dead-refused" if key[1] == 99 and mine == [] else "other replica states"


def _told_difference(trace: Trace, key: tuple[str, int], theirs: list[object], mine: list[object]) -> str:
    if is_folded(mine, theirs):
        return "told-once"
    missing = theirs[len(mine) :]
    if mine == theirs[: len(mine)]:
        if any(99 in told[2] for told in missing):  # type: ignore[index]
            return "dead-refused"
        theirs_moves, mine_moves = moves(trace.apache.replicas[key]), moves(trace.ours.replicas[key])
        if theirs_moves != mine_moves:
            return _replica_difference(theirs_moves, mine_moves, key)
        if len(missing) == 1:
            return "quiet-resume"
    return "other LeaderAndIsr"


@pytest.mark.behaviour(171)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_same_events_lead_to_the_same_decisions_or_to_a_listed_difference(scenario: str) -> None:
    found: dict[str, list[str]] = {}
    for name, where in differences(Trace(scenario).run()):
        found.setdefault(name, []).append(where)
    expected = {name for name, traces in listed().items() if scenario in traces}
    assert set(found) == expected, found


def test_every_trace_named_in_the_document_is_there() -> None:
    named = {trace for traces in listed().values() for trace in traces}
    assert named <= set(SCENARIOS)
    assert len(SCENARIOS) == 24


def test_a_trace_that_is_tampered_with_differs() -> None:
    trace = Trace("03a-leader-failure").run()
    assert list(differences(trace)) == []
    trace.apache.states["lf-0"][-1] = (3, frozenset({3}))
    trace.apache.told["lf-0", 1].pop()
    trace.apache.partitions["lf-0"].pop()
    trace.apache.answers.append("lf-0: NONE")
    assert {name for name, _ in differences(trace)} == {
        "other state",
        "other partition states",
        "other LeaderAndIsr",
        "other answers",
    }
