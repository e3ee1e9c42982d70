"""What verbs print: a table for people, JSON for programs. Rich is imported for a terminal alone."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import click

from odradek.model.errors import OdradekError


class Failed(OdradekError):
    """The answer is no, in one sentence; exit code 1."""


def json_option(command: Any) -> Any:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")(command)


def bootstrap_option(command: Any) -> Any:
    return click.option(
        "--bootstrap",
        "-b",
        default="127.0.0.1:9092",
        show_default=True,
        envvar="ODRADEK_BOOTSTRAP",
        help="host:port of any broker, several separated by commas.",
    )(command)


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False), flush=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Aligned columns; numbers to the right. A pipe gets plain text that never wraps."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    numeric = [
        bool(cells) and all(_is_number(row[position]) for row in cells) for position in range(len(columns))
    ]
    if sys.stdout.isatty():
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for name, right in zip(columns, numeric, strict=True):
            table.add_column(name, justify="right" if right else "left", overflow="fold")
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))
        Console().print(table)
        return
    lines = [[name.upper() for name in columns], *cells]
    widths = [max(len(line[position]) for line in lines) for position in range(len(columns))]
    for line in lines:
        print(
            "  ".join(
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(line, widths, numeric, strict=True)
            ).rstrip()
        )


def _is_number(text: str) -> bool:
    return text.lstrip("-").replace(".", "", 1).isdigit() if text else True


def fail(sentence: str) -> NoReturn:
    raise Failed(sentence)
