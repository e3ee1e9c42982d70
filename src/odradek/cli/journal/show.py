"""`odradek journal show`: what changed, when and why; for one partition its time line, also as a picture."""

from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.journal.files import History, blamed_on_its_line
from odradek.cli.journal.words import (
    cause_of,
    change_words,
    event_words,
    history_at,
    move_words,
    place_options,
    time_of_day,
)
from odradek.cli.output import fail, json_option, print_json, print_table, write_picture
from odradek.model.counted import counted
from odradek.pictures.figures import clock, shown_seconds

if TYPE_CHECKING:
    from odradek.advisor.timeline import Moment
    from odradek.model.ids import TopicPartition

LATEST_STEPS = 50


@click.command()
@place_options
@click.option(
    "--partition", "-p", metavar="TOPIC-P", help="Its time line: leader, ISR, replicas, outages, moves."
)
@click.option("--topic", "-t", help="Only what is about this topic.")
@click.option("--since", metavar="TIME", help="From then on, as in 2026-01-31T12:00:00 (UTC) or ms.")
@click.option("--until", metavar="TIME", help="Up to then.")
@click.option(
    "--last", "-n", type=click.IntRange(min=1), default=LATEST_STEPS, show_default=True, help="Changes."
)
@click.option("--all", "-a", "everything", is_flag=True, help="Every change, and steps that changed nothing.")
@click.option("--svg", type=click.Path(path_type=Path), help="With --partition: draw the time line here.")
@click.option(
    "--html", type=click.Path(path_type=Path), help="With --partition: time line and moves as a page."
)
@json_option
def show(
    place: Path | None,
    bootstrap: str | None,
    partition: str | None,
    topic: str | None,
    since: str | None,
    until: str | None,
    last: int,
    everything: bool,
    svg: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    """What changed when and why; with --partition its time line."""
    from odradek.cli.sources import parse_time

    if (svg is not None or html is not None) and partition is None:
        raise click.UsageError("--svg and --html draw a partition's time line; say which with --partition")
    history = history_at(place, bootstrap)
    begin = parse_time(since) if since is not None else None
    end = parse_time(until) if until is not None else None
    # A controller's clock may be behind that of the one before it, so what is kept is not always one piece.
    kept = [
        (number, line)
        for number, line in enumerate(history.lines)
        if (begin is None or line["at_ms"] >= begin) and (end is None or line["at_ms"] <= end)
    ]
    if not kept:
        first, newest = history.lines[0]["at_ms"], history.lines[-1]["at_ms"]
        fail(f"nothing happened then; the journal goes from {clock(first)} to {clock(newest)}")
    with blamed_on_its_line(history):
        if partition is not None:
            # From the start, or what stood before `since` would not be known; without a gap, as a replay takes them.
            whole = list(takewhile(lambda line: end is None or line["at_ms"] <= end, history.lines))
            show_partition(history, whole, partition, begin or 0, svg, html, as_json)
            return
        steps = [
            {
                "line": number,
                "at_ms": line["at_ms"],
                "controller": line.get("controller"),
                "epoch": line["epoch"],
                "event": event_words(history.lines[cause_of(history.lines, number)]["event"]),
                "writes": len(line["writes"]),
                "requests": len(line["requests"]),
                "changes": [c for c in line["changes"] if topic is None or _is_about(c, topic)],
            }
            for number, line in kept
        ]
        if as_json:
            print_json({"steps": steps, "notes": list(history.notes)})
            return
        show_steps(steps, last, everything)
        for note in history.notes:
            print(f"note: {note}")


def show_steps(steps: list[dict[str, Any]], last: int, everything: bool) -> None:
    told = time_of_day(step["at_ms"] for step in steps)
    rows: list[tuple[Any, ...]] = []
    for step in steps:
        about = (told(step["at_ms"]), step["line"], step["event"])
        if everything and not step["changes"]:
            rows.append((*about, "", "", ""))
        rows.extend(
            (*about, change_words(c), move_words(c), c["reason"].split("\n")[0]) for c in step["changes"]
        )
    changed = sum(bool(step["changes"]) for step in steps)
    begin, end = clock(steps[0]["at_ms"]), clock(steps[-1]["at_ms"])
    print(f"{counted(len(steps), 'step')} from {begin} to {end} UTC, {changed} of them changed something.")
    shown = rows if everything else rows[-last:]
    if len(shown) < len(rows):
        print(f"the last {len(shown)} of {counted(len(rows), 'change')}; --all shows them all")
    if shown:
        print_table(("time", "line", "event", "what", "change", "why"), shown)


def show_partition(
    history: History,
    lines: list[dict[str, Any]],
    name: str,
    begin_ms: int,
    svg: Path | None,
    html: Path | None,
    as_json: bool,
) -> None:
    from odradek.advisor.reassignment_steps import as_json as moves_as_json
    from odradek.advisor.reassignment_steps import reassignments
    from odradek.advisor.timeline import outages, timeline
    from odradek.cli.what_if import partition_named

    where: TopicPartition = partition_named(name, "--partition")
    life = timeline(lines, where)
    if not life:
        fail(f"the journal never heard of {where}")
    # How it stood at `begin_ms` belongs to the answer, and so does what had begun before and was not over.
    stood = life[max(0, next((n for n, m in enumerate(life) if m.at_ms > begin_ms), len(life)) - 1)]
    dark = [o for o in outages(life) if o.until_ms is None or o.until_ms > begin_ms]
    moves = [m for m in reassignments(lines, where) if m.ended_ms is None or m.ended_ms > begin_ms]
    from_ms = min([stood.at_ms, *(o.since_ms for o in dark), *(m.began_ms for m in moves)])
    moments = life[next(n for n, m in enumerate(life) if m.at_ms >= from_ms) :]
    end_ms = lines[-1]["at_ms"]
    if svg is not None or html is not None:
        from odradek.pictures.timeline import timeline_page, timeline_svg

        picture = timeline_svg(where, moments, dark, moves, end_ms)
        write_picture(svg, lambda: picture + "\n")
        write_picture(html, lambda: timeline_page(where, picture, moments, dark, moves))
    if as_json:
        print_json(
            {
                "partition": str(where),
                "moments": [moment_as_dict(m) for m in moments],
                "outages": [{"since_ms": o.since_ms, "until_ms": o.until_ms, "why": o.why} for o in dark],
                "reassignments": [moves_as_json(m) for m in moves],
                "notes": list(history.notes),
            }
        )
        return
    now = moments[-1]
    leader = "no broker leads it" if now.is_offline else f"broker {now.leader} leads it"
    stands = "it was deleted" if now.is_gone else f"{leader}, ISR {_ids(now.isr)}"
    print(f"{where}: {stands}; {counted(len(moments), 'change')} since {clock(moments[0].at_ms)} UTC.")
    for outage in dark:
        if outage.until_ms is None:
            print(f"offline since {clock(outage.since_ms)}: {outage.why}")
        else:
            lasted = shown_seconds((outage.until_ms - outage.since_ms) / 1000)
            print(f"offline from {clock(outage.since_ms)} for {lasted}: {outage.why}")
    for move in moves:
        open_ = next((s for s in move.steps if s.at_ms is None), None)
        state = (
            f"took {shown_seconds((move.ended_ms - move.began_ms) / 1000)}"
            if move.ended_ms is not None
            else f"is at step {open_.number if open_ else 12} of {len(move.steps)}"
        )
        print(
            f"reassignment {_ids(move.origin)} -> {_ids(move.target)} began {clock(move.began_ms)}, {state}"
        )
    told = time_of_day(m.at_ms for m in moments)
    print_table(
        ("time", "line", "epoch", "leader", "isr", "replicas", "why"),
        [
            (
                told(m.at_ms),
                m.line,
                m.leader_epoch,
                "none" if m.is_offline else m.leader,
                _ids(m.isr),
                _ids(m.replicas),
                m.why.split("\n")[0],
            )
            for m in moments
        ],
    )
    for file in (svg, html):
        if file is not None:
            print(f"drawn: {file}")
    for note in history.notes:
        print(f"note: {note}")


def moment_as_dict(moment: "Moment") -> dict[str, Any]:
    return {
        "at_ms": moment.at_ms,
        "line": moment.line,
        "controller_epoch": moment.controller_epoch,
        "leader": moment.leader,
        "leader_epoch": moment.leader_epoch,
        "offline": moment.is_offline,
        "isr": list(moment.isr),
        "replicas": list(moment.replicas),
        "adding": list(moment.adding),
        "removing": list(moment.removing),
        "live": list(moment.live),
        "why": moment.why,
    }


def _is_about(change: dict[str, Any], topic: str) -> bool:
    where = change["topic_partition"]
    return topic in (change["name"], None if where is None else where.rpartition("-")[0])


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "-"
