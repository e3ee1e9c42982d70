"""What the demo shows while it runs: a line a step, and a bar while records are collected."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

POLL_S = 0.1


class Screen:
    """On a terminal with rich; into a pipe as plain lines."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._begun = time.monotonic()
        self._console: Any = None
        self._status: Any = None
        if not quiet and sys.stdout.isatty():
            from rich.console import Console

            self._console = Console(highlight=False)

    def say(self, words: str) -> None:
        if self._quiet:
            return
        seconds = time.monotonic() - self._begun
        if self._console is not None:
            from rich.text import Text

            self._console.print(Text.assemble((f"{seconds:6.1f} s  ", "dim"), words))
        else:
            print(f"{seconds:6.1f} s  {words}", flush=True)

    @contextmanager
    def working(self, words: str) -> Iterator[None]:
        """Something that takes a while: a spinner on a terminal, a line elsewhere."""
        if self._console is None:
            self.say(f"{words} ...")
            yield
            return
        with self._console.status(words):
            yield

    @contextmanager
    def collecting(self, total: int) -> Iterator[Callable[[int, str], None]]:
        """Gives a function that takes (records acknowledged, words) and may be called as often as one likes."""
        if self._console is None:
            yield _Lines(self, total)
            return
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        with Progress(
            TextColumn("          collecting"),
            BarColumn(bar_width=36),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} acknowledged"),
            TextColumn("[dim]{task.description}"),
            TimeElapsedColumn(),
            console=self._console,
            refresh_per_second=10,
        ) as progress:
            task = progress.add_task("", total=total)
            yield lambda count, words: progress.update(task, completed=count, description=words)

    def show(self, text: str) -> None:
        if not self._quiet:
            print(text, flush=True)


class _Lines:
    """A line every tenth of the way."""

    def __init__(self, screen: Screen, total: int) -> None:
        self._screen, self._total, self._told = screen, max(total, 1), 0

    def __call__(self, count: int, words: str) -> None:
        tenth = count * 10 // self._total
        if tenth > self._told:
            self._told = tenth
            self._screen.say(f"{count:,} of {self._total:,} acknowledged, {words}")
