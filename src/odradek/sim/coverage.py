"""Which statements of the rooms that decide are never reached by seeds, and which functions are never entered.

A function is traced until all its lines have been seen, so that most of a run is not traced at all.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import odradek
from odradek.sim.not_entered import reason

ROOMS = ("replication", "log", "broker", "server", "store/embedded")
ROOT = Path(odradek.__file__).parent

Key = tuple[
    str, int, str
]  # file, first line, name: a mutant gives a function other code, and a module is compiled anew


class Reached:
    """Lines of every function of the rooms, and which of them have been reached."""

    def __init__(self) -> None:
        self.lines = _lines()
        self.missing = {key: set(lines) for key, lines in self.lines.items()}
        self.entered: set[Key] = set()

    def trace(self, frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        missing = self.missing.get(key := _key(frame.f_code))
        if missing is None:
            return None
        self.entered.add(key)
        return self._traced(missing) if missing else None

    @staticmethod
    def _traced(missing: set[int]) -> Callable[..., Any]:
        def line(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
            missing.discard(frame.f_lineno)
            return line

        return line

    def table(self) -> Iterator[str]:
        for room in ROOMS:
            prefix = f"{ROOT / room}/"
            keys = [key for key in self.lines if key[0].startswith(prefix)]
            count = sum(len(self.lines[key]) for key in keys)
            reached = count - sum(len(self.missing[key]) for key in keys)
            named = {key for key in keys if reason(*_shown(key)) is not None}
            within = sum(len(self.lines[key]) for key in keys if key not in named)
            reached_within = within - sum(len(self.missing[key]) for key in keys if key not in named)
            yield (
                f"{room:16} {100 * reached / max(count, 1):5.1f} % of {count} lines in functions, "
                f"{100 * reached_within / max(within, 1):5.1f} % of the {within} that worlds are to reach"
            )
        never = sorted(self.lines.keys() - self.entered)
        reasons = Counter(reason(*_shown(key)) for key in never)
        for why, count in sorted((why, count) for why, count in reasons.items() if why):
            yield f"{count:4} functions never entered: {why}"
        for key in never:
            if reason(*_shown(key)) is None:
                yield f"never entered: {_shown(key)[0]}:{key[1]} {key[2]}"


@cache
def _lines() -> dict[Key, frozenset[int]]:
    """Read from the files once in a process."""
    found = {}
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            module = compile(path.read_text(encoding="utf-8"), str(path), "exec")
            for code in _functions(module):
                key = _key(code)
                found[key] = frozenset(line for _, _, line in code.co_lines() if line) - {key[1]}
    return found


def _functions(code: CodeType) -> Iterator[CodeType]:
    """Those written with a name; comprehensions count for whoever they stand in, class bodies for nobody."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & 0x2 and not constant.co_name.startswith(
                "<"
            ):  # CO_NEWLOCALS: not a class body
                yield constant
            yield from _functions(constant)


def _shown(key: Key) -> tuple[str, str]:
    """The file as the table of reasons names it, and the function."""
    return Path(key[0]).relative_to(ROOT).as_posix(), key[2]


def _key(code: CodeType) -> Key:
    return code.co_filename, code.co_firstlineno, code.co_qualname


@contextmanager
def traced(reached: Reached) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(reached.trace)
    try:
        yield
    finally:
        sys.settrace(before)


def merged(parts: Iterable[tuple[set[Key], dict[Key, set[int]]]]) -> Reached:
    """Of several processes: what any of them has reached."""
    whole = Reached()
    for entered, missing in parts:
        whole.entered |= entered
        for key, lines in missing.items():
            whole.missing[key] &= lines
    return whole
