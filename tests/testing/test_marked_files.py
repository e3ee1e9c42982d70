"""No test is lost because its file was not imported."""

import re
from pathlib import Path

import pytest

from tests.marked_files import MARKED_PART, REST, beside, holds_none, is_marked

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("text", "in_marked", "in_rest"),
    [
        ("def test_a(): ...", False, True),
        ("@pytest.{}process\ndef test_a(): ...", True, True),
        ("pytestmark = [pytest.{}slow, pytest.{}spark]\n", True, False),
        ("pytestmark = pytest.{}sparkling\n", False, True),
    ],
)
def test_a_file_is_passed_over_where_nothing_in_it_is_asked_for(
    tmp_path: Path, text: str, in_marked: bool, in_rest: bool
) -> None:
    file = tmp_path / "test_a.py"
    is_marked.cache_clear()  # the path may be that of the case before
    file.write_text(text.replace("{}", "mark."))  # this file itself has no such mark
    assert (not holds_none(file, MARKED_PART), not holds_none(file, REST)) == (in_marked, in_rest)
    assert not any(holds_none(file, other) for other in ("", "slow", "process"))


def test_a_mark_may_come_from_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "worlds.py").write_text(f"BOTH = [pytest.param(1, marks=pytest.{'mark'}.process)]")
    (tmp_path / "test_a.py").write_text("from tests.a.worlds import BOTH")
    assert not holds_none(tmp_path / "test_a.py", MARKED_PART)


def test_marks_for_many_files_are_where_they_are_found() -> None:
    """`KINDS` of these worlds is for the tests beside them; what tests elsewhere take from there has no marks."""
    marking = {
        file.relative_to(TESTS).as_posix()
        for directory in (TESTS, *(path for path in TESTS.rglob("*") if path.is_dir()))
        for file in beside(directory)
        if is_marked(file) and file.name not in ("conftest.py", "marked_files.py")
    }
    assert marking == {"conformance/worlds.py"}
    for file in set(TESTS.rglob("test_*.py")) - {Path(__file__)}:
        if file.parent.name != "conformance":
            assert re.search(r"worlds import .*\bKINDS\b", file.read_text(encoding="utf-8")) is None, file


def test_the_makefile_asks_for_just_these() -> None:
    makefile = (TESTS.parent / "Makefile").read_text(encoding="utf-8")
    assert f'-m "{MARKED_PART}"' in makefile and f'-m "{REST}"' in makefile
