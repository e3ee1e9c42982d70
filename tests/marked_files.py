"""Files that hold no test a run asks for, by what is written in them: they are not imported.

`make test` runs in two parts, what is marked `process` or `spark` and the rest, and every worker of both collects for itself.
To import all tests takes five seconds of a processor, to read them none.
"""

import re
from functools import cache
from pathlib import Path

MARKED_PART, REST = "process or spark", "not process and not spark"  # as the Makefile has them
MARK = re.compile(r"\bmark\.(process|spark)\b")
MARKED_WHOLE = re.compile(r"^pytestmark = .*\bmark\.(process|spark)\b", re.MULTILINE)


def holds_none(file: Path, markers: str) -> bool:
    """Whether no test of `file` can be among those of `-m markers`. False where that is not known."""
    if markers == REST:
        return MARKED_WHOLE.search(file.read_text(encoding="utf-8")) is not None
    if markers == MARKED_PART:
        return not (is_marked(file) or any(map(is_marked, beside(file.parent))))
    return False


@cache
def is_marked(file: Path) -> bool:
    return MARK.search(file.read_text(encoding="utf-8")) is not None


@cache
def beside(directory: Path) -> list[Path]:
    """What is no file of tests, and may mark those that are in the same directory: conftest.py, parameters."""
    return [file for file in directory.glob("*.py") if not file.name.startswith("test_")]
