"""`odradek journal replay`: the same events through today's code; to a point in time, without one, with a setting.

Nothing changed (no --drop-event, no --set): exit code 0 when every step came out as recorded, 1 when not, for then this
version of the code decides differently. With a change the first step that differs is its first consequence.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.journal.files import History, blamed_on_its_line
from odradek.cli.journal.words import (
    change_options,
    change_words,
    changed_settings,
    check_lines,
    event_words,
    history_at,
    move_words,
    place_options,
)
from odradek.cli.output import fail, json_option, print_json, print_table
from odradek.model.counted import counted
from odradek.pictures.figures import clock

if TYPE_CHECKING:
    from odradek.advisor.replay import Step
    from odradek.controller.context import ControllerContext

SHOWN = 20


@click.command()
@place_options
@change_options
@click.option("--topic", "-t", help="At the end, only partitions of this topic.")
@json_option
def replay(
    place: Path | None,
    bootstrap: str | None,
    drop: tuple[int, ...],
    settings: tuple[str, ...],
    until: str | None,
    topic: str | None,
    as_json: bool,
) -> None:
    """Replay a journal: does the present code decide the same, and what was the cluster's state then?"""
    from odradek.advisor.replay import first_difference
    from odradek.advisor.replay import replay as play
    from odradek.cli.sources import parse_time

    history = history_at(place, bootstrap)
    with blamed_on_its_line(history):
        check_lines(history, drop)
        had, changed = changed_settings(history, settings)
        until_ms = parse_time(until) if until is not None else None
        steps, core = play(history.lines, settings=changed or had, drop=drop, until_ms=until_ms)
        if not steps:
            fail(f"nothing happened up to then; the journal begins {clock(history.lines[0]['at_ms'])} UTC")
        different = first_difference(steps)
        report = {
            "steps": len(steps),
            "until_ms": history.lines[steps[-1].line]["at_ms"],
            "changed": bool(drop or settings),
            "as_recorded": different is None,
            "first_difference": None if different is None else difference(history, different),
            "controller": None if core.context is None else core.context.broker,
            "partitions": [] if core.context is None else partitions_of(core.context, topic),
            "notes": list(history.notes),
        }
        if as_json:
            print_json(report)
        else:
            show(report)
        sys.exit(0 if different is None or drop or settings else 1)


def difference(history: History, step: "Step") -> dict[str, Any]:
    from odradek.advisor.replay import is_the_same
    from odradek.controller.journal import effects_as_json

    line = history.lines[step.line]
    now = effects_as_json(step.effects)
    parts = [name for name in now if not is_the_same(now[name], line.get(name))]
    return {
        "line": step.line,
        "at_ms": line["at_ms"],
        "event": event_words(line["event"]),
        "differs_in": parts,
        "recorded": {name: line.get(name) for name in parts},
        "now": {name: now[name] for name in parts},
    }


def partitions_of(context: "ControllerContext", topic: str | None) -> list[dict[str, Any]]:
    found = []
    for where in sorted(context.assignments):
        if topic is not None and where.topic != topic:
            continue
        state = context.leadership(where)
        found.append(
            {
                "partition": str(where),
                "state": context.partition_state(where).value,
                "leader": None if state is None else state.leader,
                "isr": [] if state is None else list(state.isr),
                "replicas": list(context.assignments[where].replicas),
            }
        )
    return found


def show(report: dict[str, Any]) -> None:
    count, until = report["steps"], clock(report["until_ms"])
    if report["as_recorded"]:
        print(f"{counted(count, 'step')} played again, up to {until} UTC: the same came out at every one.")
    else:
        first = report["first_difference"]
        what = "the first consequence" if report["changed"] else "the first difference"
        print(f"{counted(count, 'step')} played again, up to {until} UTC; {what} is at line {first['line']}:")
        print(f"  {clock(first['at_ms'])} {first['event']}; what differs: {', '.join(first['differs_in'])}")
        for name, changes in (("recorded", first["recorded"]), ("now", first["now"])):
            for change in (changes.get("changes") or [])[:SHOWN]:
                print(f"  {name:>8}: {change_words(change)} {move_words(change)}")
    if report["controller"] is None:
        print("there is no controller at the end")
    rows = report["partitions"]
    print(f"The cluster then: {counted(len(rows), 'partition')}.")
    if rows:
        print_table(
            ("partition", "state", "leader", "isr", "replicas"),
            [
                (
                    row["partition"],
                    row["state"],
                    "none" if row["leader"] is None or row["leader"] < 0 else row["leader"],
                    ",".join(map(str, row["isr"])),
                    ",".join(map(str, row["replicas"])),
                )
                for row in rows[:SHOWN]
            ],
        )
    if len(rows) > SHOWN:
        print(f"and {len(rows) - SHOWN} more; --topic narrows it, --json lists all")
    for note in report["notes"]:
        print(f"note: {note}")
