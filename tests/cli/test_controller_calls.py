"""Verbs that only the controller can do, while it is another one than a moment ago."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.cli import controller_calls
from odradek.cli.output import Failed
from odradek.cli.reassign import status
from odradek.cli.reassign.rows import Row
from odradek.client.sync import CONTROLLER, SyncClient
from odradek.client.sync_connection import ConnectionLost, Unreachable
from odradek.model.error_codes import ErrorCode
from odradek.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tests.cli.conftest import Shell
from tests.support import eventually


def test_a_verb_outlives_the_controller(start_cluster: Callable[..., Any]) -> None:
    """Metadata is older than a death: the one that is named does not answer any more."""
    cluster, shell = start_cluster(3)
    controller = shell.json("cluster", "health")["controller"]
    cluster.kill(controller)
    left = [b for b in (1, 2, 3) if b != controller]
    assert shell.ok("topic", "create", "t", "--assign", f"{left[0]},{left[1]}").startswith("t created")
    eventually(
        lambda: shell.json("cluster", "health")["controller"] in left, what="who is asked has heard of it"
    )


@pytest.fixture
def waited() -> list[float]:
    """The seconds that each question gave the controller."""
    return []


@pytest.fixture
def answers(shell: Shell, waited: list[float], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is put here comes instead of the controller's answers, one after the other."""
    planned: list[Any] = []
    original = SyncClient.call

    def call(self: SyncClient, broker: int, request: Any, **options: Any) -> Any:
        if broker == CONTROLLER and isinstance(request, CreateTopicsRequest) and planned:
            assert request.timeout_ms <= 30_000
            waited.append(options["timeout_s"])
            answer = planned.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        return original(self, broker, request, **options)

    monkeypatch.setattr(SyncClient, "call", call)
    monkeypatch.setattr(controller_calls, "PAUSE_S", 0.001)
    return planned


def refused(topic: str) -> CreateTopicsResponse:
    row = CreatableTopicResult(name=topic, error_code=ErrorCode.NOT_CONTROLLER, error_message=None)
    return CreateTopicsResponse(topics=[row])


def test_who_is_not_the_controller_any_more_is_not_the_last_to_be_asked(
    shell: Shell, answers: list[Any]
) -> None:
    answers += [refused("late"), Unreachable("the cluster has no controller at the moment"), refused("late")]
    assert shell.ok("topic", "create", "late").startswith("late created")
    assert answers == []


def test_who_is_asked_who_is_controller_now_has_no_more_time_than_there_is(
    shell: Shell, answers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all others are stopped `why`, which waits two seconds for a controller, stood still for thirty."""
    original = SyncClient.cluster
    given: list[float | None] = []

    def cluster(self: SyncClient, *args: Any, **options: Any) -> Any:
        if not answers:  # the refusal has come
            given.append(options.get("timeout_s"))
        return original(self, *args, **options)

    monkeypatch.setattr(SyncClient, "cluster", cluster)
    answers += [refused("in-time")]
    assert shell.ok("topic", "create", "in-time").startswith("in-time created")
    assert given[0] is not None and 0 < given[0] <= controller_calls.PATIENCE_S


def test_a_broker_that_does_not_tell_who_is_controller_now_ends_no_verb(
    shell: Shell, answers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was done by then: who has refused has refused, and to ask who it is now changes nothing."""
    original = SyncClient.cluster
    passing = [ConnectionLost("closed by the other side"), ConnectionLost("no answer in time")]

    def cluster(self: SyncClient, *args: Any, **options: Any) -> Any:
        if passing and not answers:  # the refusal has come
            raise passing.pop()
        return original(self, *args, **options)

    monkeypatch.setattr(SyncClient, "cluster", cluster)
    answers += [refused("told")]
    assert shell.ok("topic", "create", "told").startswith("told created")
    assert passing == []


def test_whoever_asks_waits_longer_than_the_controller_may(
    shell: Shell, answers: list[Any], waited: list[float]
) -> None:
    """A topic that was created and has no leader yet is not told as a controller that does not answer."""
    why = "The topic was created; not all of its partitions have a leader yet."
    row = CreatableTopicResult(name="slow", error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=why)
    answers += [CreateTopicsResponse(topics=[row])]
    assert shell("topic", "create", "slow")[2] == f"odradek: slow: {why[:-1]}\n"
    assert waited and min(waited) > 30.0


def test_a_cluster_without_a_controller_is_one_sentence(
    shell: Shell, answers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller_calls.ask_controller, "__kwdefaults__", {"patience_s": 0.0})
    answers += [refused("never")]
    code, out, err = shell("topic", "create", "never")
    assert (code, out) == (1, "")
    assert err == "odradek: no controller answers: the broker that was asked is not the controller any more\n"


def test_who_looks_again_and_again_outlives_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_calls, "PAUSE_S", 0.001)
    passing = [
        ConnectionLost("closed by the other side"),
        Unreachable("no broker answers"),
        Failed("no controller"),
    ]

    def look() -> str:
        if passing:
            raise passing.pop()
        return "seen"

    assert controller_calls.poll(look) == "seen"
    passing.append(Unreachable("no broker answers"))
    with pytest.raises(Unreachable):
        controller_calls.poll(look, patience_s=0.0)


def test_waiting_for_a_move_goes_on_when_the_controller_dies(
    start_cluster: Callable[..., Any], tmp_path: Path
) -> None:
    """The move waits for a broker that is down; meanwhile the controller dies, whom the client was connected to."""
    cluster, shell = start_cluster(4)
    controller = shell.json("cluster", "health")["controller"]
    leader, target, other = (b for b in (1, 2, 3, 4) if b != controller)
    shell.ok("topic", "create", "t", "--assign", f"{leader},{other}")
    plan = tmp_path / "plan.json"
    move = {"topic": "t", "partition": 0, "replicas": [target, other]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    told: list[str] = []

    def killing(line: str, **_: object) -> None:
        told.append(line)
        if "0 of 1 done" in line and controller in cluster.cluster.runtimes:
            cluster.kill(controller)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.print", killing)
        patch.setattr("odradek.cli.reassign.apply.status_rows", _seen_running_once(status.status_rows))
        code = shell("reassign", "apply", plan, "--wait")[0]
    assert (code, told[-1]) == (0, "1 of 1 done")
    assert controller not in cluster.cluster.runtimes
    eventually(
        lambda: shell.json("topic", "describe", "t")[0]["partitions"][0]["replicas"] == [target, other],
        what="who is asked has heard of it",
    )


def _seen_running_once(look: Any) -> Any:
    """The first look finds it running, however quick it was: then the controller is killed, and looked at again."""
    rows: list[Any] = []

    def looked(client: Any, targets: Any) -> Any:
        if not rows:
            rows.extend(
                Row(where, (), tuple(target), (), (), 1, (), 4, "copying")
                for where, target in targets.items()
            )
            return rows
        return look(client, targets)

    return looked
