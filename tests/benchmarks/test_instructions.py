"""Instructions are counted alike each time, and say what is missing where they cannot be."""

import subprocess
from pathlib import Path

import pytest

from benchmarks import instructions


def test_what_only_the_first_world_costs_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        seeds = command[command.index(instructions.WORLDS) + 1 :]
        refs = f"{900_000_000 + 500_000_000 * len(seeds):,}"
        return subprocess.CompletedProcess(
            command, 0, f"{1_000 * len(seeds)}\n", f"==1==\n==1== I   refs:      {refs}\n"
        )

    monkeypatch.setattr(subprocess, "run", run)
    found = instructions.cost(Path("elsewhere"), (3, 8))
    assert found == instructions.Cost(2_000, 1_000_000_000)
    assert found.of_an_event == 500_000


def test_worlds_that_fail_are_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(
            command, 1, "", "==1== I   refs:      5\nModuleNotFoundError: odradek"
        )

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(RuntimeError, match="ModuleNotFoundError"):
        instructions.cost(Path("elsewhere"), (3,))


def test_without_valgrind_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(instructions.shutil, "which", lambda name: None)
    assert instructions.main([]) == 1
    assert capsys.readouterr().out == "valgrind is not there; Debian's package valgrind has it\n"
