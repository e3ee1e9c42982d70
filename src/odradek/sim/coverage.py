"""Which statements of the rooms that decide are never reached by seeds, and which functions are never entered.

A function is traced until all its lines have been seen, so that most of a run is not traced at all.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import odradek
from odradek.sim.plan import draw
from odradek.sim.run import OK
from odradek.sim.run import run as run_plan

ROOMS = ("replication", "log", "broker", "server", "store/embedded")
ROOT = Path(odradek.__file__).parent

Key = tuple[
    str, int, str
]  # file, first line, name: the museum gives a function other code, and a module is compiled anew


class Reached:
    """Lines of every function of the rooms, and which of them have been reached."""

    def __init__(self) -> None:
        self.lines: dict[Key, frozenset[int]] = {}
        self.missing: dict[Key, set[int]] = {}
        self.entered: set[Key] = set()
        for room in ROOMS:
            for path in sorted((ROOT / room).rglob("*.py")):
                module = compile(path.read_text(encoding="utf-8"), str(path), "exec")
                for code in _functions(module):
                    key = _key(code)
                    self.lines[key] = frozenset(line for _, _, line in code.co_lines() if line) - {key[1]}
                    self.missing[key] = set(self.lines[key])

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
            yield f"{room:16} {100 * reached / max(count, 1):5.1f} % of {count} lines in functions"
        for file, first, name in sorted(self.lines.keys() - self.entered):
            yield f"never entered: {Path(file).relative_to(ROOT)}:{first} {name}"


def _functions(code: CodeType) -> Iterator[CodeType]:
    """Those written with a name; comprehensions count for whoever they stand in, class bodies for nobody."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & 0x2 and not constant.co_name.startswith(
                "<"
            ):  # CO_NEWLOCALS: not a class body
                yield constant
            yield from _functions(constant)


def _key(code: CodeType) -> Key:
    return code.co_filename, code.co_firstlineno, code.co_qualname


def told(seeds: Sequence[int], say: Callable[[str], None]) -> int:
    """Runs the seeds in this process; 0, or the code of the first that failed."""
    reached = Reached()
    failed = OK
    before = sys.gettrace()
    sys.settrace(reached.trace)
    try:
        for seed in seeds:
            outcome = run_plan(draw(seed))
            failed = failed or outcome.code
    finally:
        sys.settrace(before)
    for line in reached.table():
        say(line)
    return failed
