"""What tests take of the machine they run on: where they write, and how their brokers begin."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import conftest, forked_brokers


@pytest.mark.parametrize(
    ("available_kb", "limit", "is_enough"),
    [
        (16 << 20, "max", True),
        (16 << 20, str(12 << 30), True),
        (16 << 20, str(4 << 30), False),
        (2 << 20, "max", False),
    ],
)
def test_tests_write_to_memory_only_where_there_is_as_much_as_they_may_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, available_kb: int, limit: str, is_enough: bool
) -> None:
    meminfo, most = tmp_path / "meminfo", tmp_path / "memory.max"
    meminfo.write_text(f"MemTotal:       33554432 kB\nMemAvailable:   {available_kb} kB\n")
    most.write_text(f"{limit}\n")
    monkeypatch.setattr(conftest, "MEMINFO", meminfo)
    monkeypatch.setattr(conftest, "MOST_MEMORY", most)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=16 << 30))

    assert conftest.has_room(tmp_path) is is_enough


def test_where_the_kernel_does_not_say_what_is_free_tests_write_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conftest, "MEMINFO", tmp_path / "none")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=16 << 30))

    assert not conftest.has_room(tmp_path)


def test_brokers_are_new_pythons_where_processes_have_no_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    broker: Any = object()
    begun: list[Any] = []
    monkeypatch.setattr(forked_brokers, "new_python", lambda *asked: begun.append(asked))

    forked_brokers.launch(broker, 1, 2)

    assert begun == [(broker, 1, 2)]
