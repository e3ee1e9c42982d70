"""Which other Pythons `make test-pythons` finds."""

import sys
from pathlib import Path

import pytest

from tests import pythons


def test_what_does_not_run_is_no_python(tmp_path: Path) -> None:
    broken = tmp_path / "python3.14"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    assert pythons.version_of(str(broken)) is None
    assert pythons.version_of(str(tmp_path / "python3.15")) is None
    assert pythons.version_of(sys.executable) == sys.version_info[:3]


def test_one_of_each_series_is_asked_and_not_that_of_the_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, told in (("a", "3 98 1"), ("b", "3 98 2"), ("old", "3 10 4"), ("c", "3 99 0")):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {told}\n")
        (tmp_path / name).chmod(0o755)
    named = [str(tmp_path / name) for name in ("a", "b", "old", "c", "nonesuch")]
    monkeypatch.setenv("PYTHONS", " ".join([*named, sys.executable]))
    assert pythons.others() == {(3, 98): named[0], (3, 99): named[3]}
