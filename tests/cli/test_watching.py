"""`--watch`, whose output may be a pipe: whoever reads it sees each picture when it is made, not when 8 KB are full."""

import io
import sys
from typing import Any

import pytest

from odradek.cli import cluster_health, main
from odradek.cli.reassign import status as status_verb
from odradek.cli.reassign.rows import Row
from odradek.model.ids import TopicPartition
from tests.cli.test_sources import view


def runs(*_: object, **__: object) -> list[Row]:
    return [Row(TopicPartition("t", 0), (1, 2), (2,), (2,), (1,), 1, (1,), 4, "broker 2: copying")]


@pytest.mark.parametrize("verb", ["cluster health", "reassign status"])
def test_what_is_watched_through_a_pipe_comes_at_once(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    arrived: list[bytes] = []

    def pause(_s: float) -> None:
        arrived.append(pipe.getvalue())
        raise KeyboardInterrupt

    def report(_client: object) -> dict[str, Any]:
        return healthy

    with monkeypatch.context() as patched:
        patched.setattr(cluster_health, "min_insync_replicas", lambda *_: {})
        patched.setattr(cluster_health, "silent_brokers", lambda *_: {})
        client: Any = type("Client", (), {"cluster": lambda _self: view([1], t=[([1], [])])})()
        healthy = cluster_health.health_report(client)
    monkeypatch.setattr(cluster_health, "health_report", report)
    monkeypatch.setattr(status_verb, "status_rows", runs)
    monkeypatch.setattr("time.sleep", pause)
    pipe = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe))
    assert main.main([*verb.split(), "--watch", "--bootstrap", "127.0.0.1:1"]) == 130
    assert len(arrived) == 1 and (b"controller" in arrived[0] or b"1 running" in arrived[0])
