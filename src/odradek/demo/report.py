"""The report as text: what the terminal shows at the end, and the sentences the page shares with it."""

from odradek.demo.result import DemoResult
from odradek.pictures.figures import rounded


def facts(result: DemoResult) -> list[tuple[str, str]]:
    """The numbers a reader looks for first."""
    timeline, proof = result.timeline, result.proof
    kill, full = timeline.moment("kill"), timeline.moment("isr-full")
    restart = timeline.moment("restart")
    found = [(f"{result.records:,}", "records in the files")]
    if proof is not None:
        found += [(f"{proof.lost:,}", "lost"), (f"{proof.doubled:,}", "doubled")]
    if timeline.longest_gap_ms:
        found.append((f"{timeline.longest_gap_ms:.0f} ms", "longest gap without an acknowledgement"))
    if kill is not None:
        elected = result.elections.controller_after(kill.at_ms)
        if elected is not None:
            found.append((f"{max(elected.at_ms - kill.at_ms, 0):.0f} ms", "kill -9 to a new controller"))
        leader = timeline.moment("leader")
        if leader is not None:
            found.append((f"{max(leader.at_ms - kill.at_ms, 0):.0f} ms", "kill -9 to new leaders"))
        coordinator = timeline.moment("coordinator")
        if coordinator is not None:
            found.append((f"{max(coordinator.at_ms - kill.at_ms, 0):.0f} ms", "kill -9 to a new coordinator"))
    if result.reading is not None:
        found += [
            (f"{result.reading.missing:,}", "records the group missed"),
            (f"{result.reading.again:,}", "records the group read again"),
            (f"{result.reading.longest_gap_ms:.0f} ms", "longest time the group read nothing"),
        ]
    if restart is not None and full is not None:
        found.append((f"{(full.at_ms - restart.at_ms) / 1000:.1f} s", "restart to every ISR full"))
    return found


def verdict_lines(result: DemoResult) -> list[str]:
    """One sentence when all held; else one for each thing that did not."""
    proof = result.proof
    if result.ok:
        return [
            f"All {result.records:,} records of the files are in the topic and in the table, each exactly once, "
            f"{_group_words(result)}though broker {result.killed}, {roles(result)}, was killed on the way."
        ]
    lines = list(result.problems)
    if proof is not None and not proof.holds:
        lines.append(
            f"files {proof.files.count:,}, topic {proof.topic.count:,}, table {proof.table.count:,}: "
            f"{proof.lost:,} lost, {proof.doubled:,} doubled"
        )
    return lines or ["The demo did not come to its end."]


def _group_words(result: DemoResult) -> str:
    return (
        "" if result.reading is None else f"and a group of {result.reading.members} read them all meanwhile, "
    )


def roles(result: DemoResult) -> str:
    """What the broker was that was killed."""
    if result.coordinator_before != result.killed:
        return "controller and leader"
    return "controller, leader and the group's coordinator"


def text_report(result: DemoResult) -> str:
    lines = ["", *verdict_lines(result), ""]
    width = max(len(value) for value, _ in facts(result))
    lines += [f"  {value.rjust(width)}  {words}" for value, words in facts(result)]
    kill = result.timeline.moment("kill")
    if kill is not None:
        lines += ["", "Who was elected, and why (ms after the kill):"]
        elected = result.elections.controller_after(kill.at_ms)
        if elected is not None:
            lines.append(
                f"  {rounded(elected.at_ms - kill.at_ms, signed=True):>6}  controller {result.controller_before} -> {elected.broker} "
                f"(epoch {elected.epoch}): broker {result.killed}'s session ended with its process"
            )
        restart = result.timeline.moment("restart")
        last = restart.at_ms if restart is not None else float("inf")
        for leader in result.elections.leaders_between(kill.at_ms - 50, last):
            lines.append(
                f"  {rounded(leader.at_ms - kill.at_ms, signed=True):>6}  {leader.partition} {leader.leader_before} -> {leader.leader}: "
                f"{leader.reason}"
            )
    if result.proof is not None:
        lines += ["", "          records  hash"]
        for name in ("files", "topic", "table"):
            census = getattr(result.proof, name)
            lines.append(f"  {name}  {census.count:>9,}  {census.fingerprint}")
    if result.aggregate is not None and result.aggregate.measure is not None:
        lines += ["", f"Mean {result.aggregate.measure} by {result.aggregate.row_name}, worst first:"]
        groups = [group for group in result.aggregate.by_row() if group.measured]
        for group in sorted(groups, key=lambda g: -g.total / g.measured)[:5]:
            lines.append(
                f"  {group.row:>4}  {rounded(group.total / group.measured, 1):>6}  ({group.records:,} records)"
            )
    return "\n".join(lines)


def as_dict(result: DemoResult) -> dict[str, object]:
    """The same for programs."""
    timeline, proof = result.timeline, result.proof
    kill = timeline.moment("kill")
    elected = result.elections.controller_after(kill.at_ms) if kill is not None else None
    return {
        "ok": result.ok,
        "problems": verdict_lines(result) if not result.ok else [],
        "records": result.records,
        "lost": proof.lost if proof is not None else None,
        "doubled": proof.doubled if proof is not None else None,
        "places": {
            name: {"records": census.count, "hash": census.fingerprint}
            for name, census in (
                [("files", proof.files), ("topic", proof.topic), ("table", proof.table)]
                if proof is not None
                else []
            )
        },
        "longest_gap_ms": round(timeline.longest_gap_ms, 1),
        "killed": result.killed,
        "controller": {
            "before": result.controller_before,
            "after": elected.broker if elected is not None else None,
            "epoch": elected.epoch if elected is not None else None,
        },
        "leaders": [
            {
                "partition": leader.partition,
                "before": leader.leader_before,
                "after": leader.leader,
                "leader_epoch": leader.leader_epoch,
                "reason": leader.reason,
            }
            for leader in (result.elections.leaders if kill is not None else ())
            if kill is not None and leader.at_ms >= kill.at_ms
        ],
        "moments": [
            {"name": moment.name, "ms": round(moment.at_ms - timeline.begun_ms, 1), "words": moment.words}
            for moment in timeline.moments
        ],
        "group": None
        if result.reading is None
        else {
            "name": result.reading.group,
            "members": result.reading.members,
            "missing": result.reading.missing,
            "again": result.reading.again,
            "longest_gap_ms": round(result.reading.longest_gap_ms, 1),
            "coordinator_before": result.coordinator_before,
            "coordinator_after": result.coordinator_after,
        },
        "driver_killed_at": result.driver_killed_at,
        "batches": result.batches,
        "start_ms": round(result.start_ms, 1),
        "seconds": round(result.seconds, 1),
    }
