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


def python_of(version: str, path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)
    return str(path)


def test_one_of_each_series_is_asked_and_not_that_of_the_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    major, minor, micro = sys.version_info[:3]
    other = minor + 1 if minor == pythons.OLDEST[1] else minor - 1
    found = python_of(f"3 {other} 1", tmp_path / "bin" / f"python3.{other}")
    python_of(f"3 {other} 2", tmp_path / "versions" / f"3.{other}.2" / "bin" / "python3")
    python_of(f"{major} {minor} {micro + 1}", tmp_path / "versions" / "3.0" / "bin" / "python3")
    python_of("3 10 9", tmp_path / "versions" / "3.10.9" / "bin" / "python3")
    kept = python_of("3 98 0", tmp_path / "versions" / "3.98.0" / "bin" / "python3")

    assert pythons.others() == {(3, other, 1): found, (3, 98, 0): kept}


def test_those_that_are_named_are_asked_whatever_their_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    named = [python_of(f"3 11 {micro}", tmp_path / f"python{micro}") for micro in (1, 2, 1)]
    monkeypatch.setenv("PYTHONS", " ".join([*named, str(tmp_path / "nonesuch")]))

    assert pythons.others() == {(3, 11, 1): named[0], (3, 11, 2): named[1]}
    assert capsys.readouterr().out == f"{tmp_path}/nonesuch: passed over, it is no Python that runs\n"
