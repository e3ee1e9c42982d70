"""`odradek journal diff A B`: where two journals part. `journal diff A --drop-event N`: A against its own replay.

Exit code 0 when nothing differs, else 1, as diff does.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from odradek.cli.journal.files import History, blamed_on_its_line, read_history
from odradek.cli.journal.words import (
    cause_of,
    change_options,
    change_words,
    changed_settings,
    check_lines,
    event_words,
)
from odradek.cli.output import json_option, print_json, print_table
from odradek.model.counted import counted
from odradek.pictures.figures import clock

if TYPE_CHECKING:
    from odradek.controller.context import ControllerContext

SHOWN = 20


class Side(NamedTuple):
    """One of the two: its changes in order, and the cluster at its end."""

    name: str
    changes: list[dict[str, Any]]
    final: "ControllerContext | None"


@click.command()
@click.argument("first", type=click.Path(path_type=Path), metavar="A")
@click.argument("second", required=False, type=click.Path(path_type=Path), metavar="[B]")
@change_options
@json_option
def diff(
    first: Path,
    second: Path | None,
    drop: tuple[int, ...],
    settings: tuple[str, ...],
    until: str | None,
    as_json: bool,
) -> None:
    """Where two journals first differ; or a journal and its replay without an event or with another setting."""
    from odradek.cli.sources import parse_time

    is_replay = bool(drop or settings)
    if is_replay == (second is not None):
        raise click.UsageError(
            "compare A with what? Say a second journal, or --drop-event LINE, or --set NAME=VALUE"
        )
    until_ms = parse_time(until) if until is not None else None
    history = read_history(first)
    compared_with = () if second is None else (read_history(second),)
    with blamed_on_its_line(history, *compared_with):
        one = side_of(history, str(first), until_ms)
        if compared_with:
            other = side_of(*compared_with, str(second), until_ms)
        else:
            other = changed_side(history, drop, settings, until_ms)
        report = compare(one, other)
        if as_json:
            print_json(report)
        else:
            show(report)
    sys.exit(0 if report["same"] else 1)


def side_of(history: History, name: str, until_ms: int | None) -> Side:
    """As recorded; its end is what the code of today makes of it."""
    check_lines(history, ())
    from odradek.advisor.replay import replay
    from odradek.cli.journal.files import settings_of

    steps, core = replay(history.lines, settings=settings_of(history), until_ms=until_ms)
    # As far as it is played again: the answers of a step's writes may be later, and a clock may have been behind.
    played = history.lines[: steps[-1].line + 1] if steps else []
    changes = [
        {
            **change,
            "at_ms": line["at_ms"],
            "event": event_words(history.lines[cause_of(history.lines, n)]["event"]),
        }
        for n, line in enumerate(played)
        for change in line["changes"]
    ]
    return Side(name, changes, core.context)


def changed_side(
    history: History, drop: tuple[int, ...], pairs: tuple[str, ...], until_ms: int | None
) -> Side:
    from odradek.advisor.replay import replay
    from odradek.controller.journal import as_json

    check_lines(history, drop)
    had, changed = changed_settings(history, pairs)
    steps, core = replay(
        history.lines,
        settings=changed or had,
        drop=drop,
        until_ms=until_ms,
    )
    changes = [
        {
            **as_json(change),
            "at_ms": history.lines[step.line]["at_ms"],
            "event": event_words(history.lines[cause_of(history.lines, step.line)]["event"]),
        }
        for step in steps
        for change in step.effects.changes
    ]
    words = [f"without line {n}" for n in drop] + [f"with {pair}" for pair in pairs]
    return Side(f"its replay {' and '.join(words)}", changes, core.context)


def compare(one: Side, other: Side) -> dict[str, Any]:
    """The first change that differs, those only one has, and the partitions that end differently."""
    first = next(
        (n for n, (a, b) in enumerate(zip(one.changes, other.changes, strict=False)) if _key(a) != _key(b)),
        None,
    )
    if first is None and len(one.changes) != len(other.changes):
        first = min(len(one.changes), len(other.changes))
    ends = differing_ends(one.final, other.final)
    return {
        "same": first is None and not ends,
        "first": one.name,
        "second": other.name,
        "changes": [len(one.changes), len(other.changes)],
        "first_difference": None
        if first is None
        else {
            "number": first,
            "in_first": one.changes[first] if first < len(one.changes) else None,
            "in_second": other.changes[first] if first < len(other.changes) else None,
        },
        "partitions": ends,
    }


def differing_ends(
    one: "ControllerContext | None", other: "ControllerContext | None"
) -> list[dict[str, Any]]:
    found = []
    known = set(one.assignments if one else ()) | set(other.assignments if other else ())
    for where in sorted(known):
        a, b = _state(one, where), _state(other, where)
        if a != b:
            found.append({"partition": str(where), "first": a, "second": b})
    return found


def _state(context: "ControllerContext | None", where: Any) -> dict[str, Any] | None:
    if context is None or where not in context.assignments:
        return None
    state = context.leadership(where)
    return {
        "state": context.partition_state(where).value,
        "leader": None if state is None else state.leader,
        "isr": [] if state is None else sorted(state.isr),
        "replicas": list(context.assignments[where].replicas),
    }


def _key(change: dict[str, Any]) -> tuple[Any, ...]:
    """Two changes are the same when they say the same about the same; when it was does not count."""
    names = ("kind", "topic_partition", "replica", "name", "source", "to", "leader_and_isr")
    return tuple(str(change[name]) for name in names)


def show(report: dict[str, Any]) -> None:
    if report["same"]:
        print(f"No difference: {counted(report['changes'][0], 'change')} in both, and the same end.")
        return
    print(f"A is {report['first']}, B is {report['second']}.")
    first = report["first_difference"]
    if first is not None:
        print(f"They part at change {first['number']}:")
        print_table(
            ("", "time (UTC)", "event", "what", "from", "to", "why"),
            [
                (name, "", "", "nothing any more", "", "", "")
                if change is None
                else (
                    name,
                    clock(change["at_ms"]),
                    change["event"],
                    change_words(change),
                    change["source"],
                    change["to"],
                    change["reason"].split("\n")[0],
                )
                for name, change in (("A", first["in_first"]), ("B", first["in_second"]))
            ],
        )
    ends = report["partitions"]
    if not ends:
        print("Both end the same.")
        return
    print(f"{counted(len(ends), 'partition')} with another end:")
    print_table(
        ("partition", "leader in A", "leader in B", "isr in A", "isr in B"),
        [
            (
                end["partition"],
                _leader(end["first"]),
                _leader(end["second"]),
                _isr(end["first"]),
                _isr(end["second"]),
            )
            for end in ends[:SHOWN]
        ],
    )
    if len(ends) > SHOWN:
        print(f"and {len(ends) - SHOWN} more; --json lists all")


def _leader(state: dict[str, Any] | None) -> str:
    if state is None:
        return "not there"
    return "none" if state["leader"] is None or state["leader"] < 0 else str(state["leader"])


def _isr(state: dict[str, Any] | None) -> str:
    return "" if state is None else ",".join(map(str, state["isr"]))
