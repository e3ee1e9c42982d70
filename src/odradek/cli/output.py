"""What verbs print: a table for people, JSON for programs."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn

import click

from odradek.cli import terminal
from odradek.cli.waiting import WAIT_S, wait_for_cluster
from odradek.model.errors import OdradekError
from odradek.model.printable import printable

LEAST_ROOM = 10  # of a cell in a terminal narrower than any


class Failed(OdradekError):
    """The answer is no, in one sentence; exit code 1."""


def json_option(command: Any) -> Any:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")(command)


def bootstrap_option(command: Any) -> Any:
    """`--bootstrap`, which the verb gets, and `--wait`, which it does not: it begins when the cluster is there."""

    @wraps(command)
    def begun(*, wait: bool, bootstrap: str, **others: Any) -> Any:
        if wait:
            wait_for_cluster(bootstrap, quiet=bool(others.get("as_json")))
        return command(bootstrap=bootstrap, **others)

    help_ = f"Wait for a cluster that is starting, at most {WAIT_S:g} s."
    return address_option(click.option("--wait", is_flag=True, help=help_)(begun))


def address_option(command: Any) -> Any:
    """`--bootstrap` alone, for a verb whose own `--wait` says more."""
    return click.option(
        "--bootstrap",
        "-b",
        default="127.0.0.1:9092",
        show_default=True,
        envvar="ODRADEK_BOOTSTRAP",
        help="host:port of any broker, several separated by commas.",
    )(command)


def state_option(states: Sequence[str], example: str) -> Callable[[Any], Any]:
    """`--state`, repeatable, in any case; the verb gets them as they are written in `states`."""

    def known(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
        by_lower = {state.lower(): state for state in states}
        unknown = [state for state in given if state.lower() not in by_lower]
        if unknown:
            raise click.UsageError(f"--state {unknown[0]}: there are {', '.join(states)}")
        return tuple(by_lower[state.lower()] for state in given)

    help_ = f"Only those in this state, as in {example}."
    return click.option("--state", "states", multiple=True, metavar="STATE", callback=known, help=help_)


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False), flush=True)


def not_known(what: str, problems: Mapping[int, str]) -> list[str]:
    """Of each broker that did not tell it, in a sentence."""
    return [f"{what} of broker {broker} are not known: {why}" for broker, why in problems.items()]


def say_not_known(what: str, problems: Mapping[int, str]) -> None:
    """Beside the answer, which goes to standard output."""
    for sentence in not_known(what, problems):
        print(f"odradek: {sentence}", file=sys.stderr)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Aligned columns; numbers to the right, with the dashes among them. A pipe gets text that never wraps, a terminal
    that is too narrow for the longest row one entry a line. Without a row there are the names of the columns. Control
    characters are shown as escapes: many a name is whatever somebody sent, and a row is a line."""
    cells = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    numeric = [
        bool(cells) and _are_numbers({row[position] for row in cells}) for position in range(len(columns))
    ]
    lines = [[name.upper() for name in columns], *cells]
    widths = [max(len(line[position]) for line in lines) for position in range(len(columns))]
    printed = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    ]
    room = terminal.columns()
    if cells and room is not None and max(map(len, printed)) > room:
        printed = list(_entries(columns, cells, room))
    for text in printed:
        print(text)


def _entries(columns: Sequence[str], rows: Iterable[Sequence[str]], room: int) -> Iterable[str]:
    """`NAME  value` a line and a blank line between two rows; what is empty is left out, what is too long goes on below
    its beginning."""
    from textwrap import wrap

    first = max(map(len, columns)) + 2
    for number, row in enumerate(rows):
        if number:
            yield ""
        for name, cell in zip(columns, row, strict=True):
            for piece, line in enumerate(wrap(cell, max(room - first, LEAST_ROOM))):
                yield f"{'' if piece else name.upper():<{first}}{line}"


def _are_numbers(cells: set[str]) -> bool:
    """A dash stands for a number that there is none of; a column of nothing else is no column of numbers."""
    return cells != {"-"} and all(map(_is_number, cells - {"-"}))


def _is_number(text: str) -> bool:
    return text.lstrip("-").replace(".", "", 1).isdigit() if text else True


def is_given(parameter: str) -> bool:
    """On the command line, where its default could not be told from it."""
    source = click.get_current_context().get_parameter_source(parameter)
    return source is click.core.ParameterSource.COMMANDLINE


def fail(sentence: str) -> NoReturn:
    raise Failed(sentence)


def write_picture(file: Path | None, made: Callable[[], str]) -> None:
    """What `--svg` and `--html` ask for; nothing is drawn that nobody asked for."""
    if file is not None:
        file.write_text(made(), encoding="utf-8")
