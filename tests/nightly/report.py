"""The one table of a night: what was done, what it cost, what did not hold."""

from collections.abc import Sequence
from statistics import median

from tests.nightly.hostile import Result
from tests.nightly.storm import Injected, Round


def report(rounds: Sequence[Round], attacks: Sequence[Result]) -> list[str]:
    """Lines of Markdown; the last ones say what went wrong, or that nothing did."""
    injected = [fault for one in rounds for fault in one.injected]
    lines = [*_faults(injected), "", *_books(rounds, len(injected))]
    if attacks:
        lines += ["", *_attacks(attacks)]
    return [*lines, "", *_wrong(rounds, attacks)]


def _faults(injected: Sequence[Injected]) -> list[str]:
    lines = ["| fault | times | lasted, s | healed after, s: median, worst |", "|---|---|---|---|"]
    for kind in sorted({fault.kind for fault in injected}):
        of_kind = [fault for fault in injected if fault.kind == kind]
        healed = [fault.healed_s for fault in of_kind]
        lasted = sum(fault.lasted_s for fault in of_kind)
        lines.append(f"| {kind} | {len(of_kind)} | {lasted:.0f} | {median(healed):.2f}, {max(healed):.2f} |")
    return lines


def _books(rounds: Sequence[Round], faults: int) -> list[str]:
    acknowledged = sum(one.acknowledged for one in rounds if one.is_compared)
    gap = max((one.longest_gap_s for one in rounds), default=0.0)
    lines = [
        f"{faults} faults in {len(rounds)} rounds; {acknowledged} records acknowledged, each read back once, in order and at its "
        f"offset, where no line below says otherwise; longest time without an acknowledgement of any partition {gap:.1f} s."
    ]
    for one in rounds:
        if not one.is_compared:
            lines.append(
                f"A round was stopped: {one.acknowledged} records of it were acknowledged and not read back."
            )
    return lines


def _attacks(attacks: Sequence[Result]) -> list[str]:
    lines = [
        "| hostile input | inputs | answered | closed | unanswered | slowest answer beside, ms | memory before, at most, MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in attacks:
        lines.append(
            f"| {one.family} | {one.inputs} | {one.answered} | {one.closed} | {one.unanswered} | {one.slowest_beside_ms:.0f} | "
            f"{one.memory_before_mb}, {one.memory_peak_mb} |"
        )
    return lines


def _wrong(rounds: Sequence[Round], attacks: Sequence[Result]) -> list[str]:
    wrong = [sentence for one in (*rounds, *attacks) for sentence in one.wrong]
    right = "Nothing was lost, doubled, moved or stuck." if rounds or attacks else "Nothing was tried."
    return [f"WRONG: {sentence}" for sentence in wrong] or [right]
