"""A partition's time line: a lane for every broker that had a replica, what it was then, and when nobody led.

lane of a broker:  leads | in the ISR | has a replica and is behind | is not alive
across all lanes:  red where the partition had no leader; a bar above where a reassignment ran
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from odradek.pictures.colours import AWAY, BEHIND, IN_SYNC, INK, LEADS, MOVES, NOBODY_LEADS
from odradek.pictures.document import heading, page, paragraph, scrolling, table
from odradek.pictures.drawing import Drawing
from odradek.pictures.figures import clock, shown_seconds
from odradek.pictures.scales import Scale
from odradek.pictures.steps import draw_moved, steps_table

if TYPE_CHECKING:
    from odradek.advisor.reassignment_steps import Reassigned
    from odradek.advisor.timeline import Moment, Outage
    from odradek.model.ids import TopicPartition

WIDTH, LEFT, RIGHT, TOP, LANE = 960, 90, 20, 70, 30
LEGEND = (
    (LEADS, "leads"),
    (IN_SYNC, "in the ISR"),
    (BEHIND, "behind"),
    (AWAY, "not alive"),
    (NOBODY_LEADS, "no leader"),
    (MOVES, "reassignment"),
)
THINNEST = 1.5


def timeline_svg(
    where: "TopicPartition",
    moments: "Sequence[Moment]",
    dark: "Sequence[Outage]",
    moves: "Sequence[Reassigned]",
    end_ms: int,
) -> str:
    begin_ms = moments[0].at_ms
    end_ms = max(end_ms, moments[-1].at_ms + 1)
    brokers = sorted({broker for moment in moments for broker in (*moment.replicas, *moment.isr)})
    drawing = Drawing(WIDTH, f"{where} from {clock(begin_ms)} to {clock(end_ms)} UTC")
    x = Scale(begin_ms, end_ms, LEFT, WIDTH - RIGHT)

    drawing.text(10, 22, drawing.title, 15)
    for place, (colour, words) in enumerate(LEGEND):
        drawing.rectangle(10 + place * 130, 34, 12, 12, colour, stroke=INK, stroke_width=0.5)
        drawing.text(28 + place * 130, 44, words)
    ends = [*(moment.at_ms for moment in moments[1:]), end_ms]
    bottom = TOP + LANE * len(brokers)
    for lane, broker in enumerate(brokers):
        y = TOP + LANE * lane
        drawing.text(10, y + 18, f"broker {broker}")
        drawing.line(LEFT, y + LANE - 2, WIDTH - RIGHT, y + LANE - 2)
        for moment, until in zip(moments, ends, strict=True):
            colour, words = _role(moment, broker)
            if colour:
                tip = f"{clock(moment.at_ms)} broker {broker} {words}, epoch {moment.leader_epoch}: {moment.why}"
                wide = max(THINNEST, x(until) - x(moment.at_ms))
                drawing.rectangle(x(moment.at_ms), y + 4, wide, LANE - 10, colour, tip)
    for outage in dark:
        until = outage.until_ms if outage.until_ms is not None else end_ms
        wide = max(THINNEST, x(until) - x(outage.since_ms))
        tip = f"offline from {clock(outage.since_ms)}: {outage.why}"
        drawing.rectangle(x(outage.since_ms), TOP, wide, bottom - TOP, NOBODY_LEADS, tip, fill_opacity=0.35)
    for move in moves:
        until = move.ended_ms if move.ended_ms is not None else end_ms
        wide = max(THINNEST, x(until) - x(move.began_ms))
        tip = f"reassignment {list(move.origin)} to {list(move.target)}"
        drawing.rectangle(x(move.began_ms), TOP - 12, wide, 8, MOVES, tip)
    _axis(drawing, x, bottom)
    return drawing.svg()


def _role(moment: "Moment", broker: int) -> tuple[str, str]:
    if broker not in moment.live:
        return (AWAY, "is not alive") if broker in moment.replicas else ("", "")
    if broker == moment.leader:
        return LEADS, "leads"
    if broker in moment.isr:
        return IN_SYNC, "is in the ISR"
    return (BEHIND, "is behind") if broker in moment.replicas else ("", "")


def _axis(drawing: Drawing, x: Scale, y: float) -> None:
    drawing.line(LEFT, y + 4, WIDTH - RIGHT, y + 4, INK)
    for part in range(5):
        at = int(x.low + (x.high - x.low) * part // 4)
        across = LEFT + (WIDTH - LEFT - RIGHT) * part / 4
        drawing.line(across, y + 4, across, y + 9, INK)
        anchor = "end" if part == 4 else "start" if part == 0 else "middle"
        drawing.text(across, y + 22, clock(at)[11:], 11, text_anchor=anchor)


def timeline_page(
    where: "TopicPartition",
    picture: str,
    moments: "Sequence[Moment]",
    dark: "Sequence[Outage]",
    moves: "Sequence[Reassigned]",
) -> str:
    parts = [scrolling(picture, "time line")]
    for outage in dark:
        lasted = (
            "and still is"
            if outage.until_ms is None
            else f"for {shown_seconds((outage.until_ms - outage.since_ms) / 1000)}"
        )
        parts.append(paragraph(f"Offline from {clock(outage.since_ms)} {lasted}: {outage.why}"))
    for move in moves:
        parts.append(heading(f"Reassignment {list(move.origin)} to {list(move.target)}"))
        parts.append(scrolling(draw_moved(move), "its steps"))
        parts.append(steps_table(move))
    parts.append(heading("Every change"))
    parts.append(
        table(
            ("time (UTC)", "line", "epoch", "leader", "ISR", "replicas", "why"),
            [
                (
                    clock(m.at_ms),
                    m.line,
                    m.leader_epoch,
                    "none" if m.is_offline else m.leader,
                    list(m.isr),
                    list(m.replicas),
                    m.why,
                )
                for m in moments
            ],
        )
    )
    return page(f"{where}: time line", parts)
