"""A port is given to one process, though nobody listens on it yet."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.testing import process_cluster
from odradek.testing.process_cluster import ClusterNotReady, free_ports
from tests.support import started

TWO = range(32_100, 32_102)  # of which no cluster has any
ANOTHER = f"""
from odradek.testing import process_cluster
process_cluster.FREE_PORTS = {TWO!r}
print(*process_cluster.free_ports(1), flush=True)
input()
"""


def test_what_another_process_was_given_is_not_free_while_it_lives(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(process_cluster, "FREE_PORTS", TWO)
    command = [sys.executable, "-c", ANOTHER]
    elsewhere = {**os.environ, "TMPDIR": str(tmp_path)}
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=elsewhere) as another:
        assert another.stdout is not None
        theirs = int(another.stdout.readline())
        assert [free_ports(1)[0] for _ in range(20)] == [next(p for p in TWO if p != theirs)] * 20
        with pytest.raises(ClusterNotReady, match="no 2 free ports between 32100 and 32102"):
            free_ports(2)
        another.communicate("\n")
    assert sorted(free_ports(2)) == list(TWO)


def test_a_process_is_given_a_port_again_only_where_there_is_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ten = range(32_110, 32_120)
    monkeypatch.setattr(process_cluster, "FREE_PORTS", ten)
    assert sorted(free_ports(1)[0] for _ in ten) == list(ten)
    assert free_ports(1)[0] in ten


def test_where_nothing_can_be_locked_ports_are_free_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_cluster, "FREE_PORTS", TWO)
    monkeypatch.setattr(process_cluster, "_ports_taken", lambda process_id: -1)
    assert sorted(free_ports(2)) == list(TWO)


def test_where_no_file_can_be_made_nothing_is_locked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def none() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(process_cluster, "FOR_ALL", tmp_path / "none")
    monkeypatch.setattr("tempfile.gettempdir", none)
    assert process_cluster._ports_taken.__wrapped__(0) == -1
