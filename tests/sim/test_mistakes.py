"""Exit code 127: whatever raises where nobody expected it is seen, however well the cluster coped."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.core import Broker
from odradek.broker.handlers.table import HANDLERS
from odradek.controller.core import ControllerCore
from odradek.coordinator.group_coordinator import GroupCoordinator
from odradek.log.flushing import FlushPlan
from odradek.protocol.api_keys import ApiKey
from odradek.sim.clients.workload import Workload
from odradek.sim.loop import Host, SimLoop
from odradek.sim.observed.views import Views
from odradek.sim.observed.watch import Watch
from odradek.sim.plan import draw
from odradek.sim.run import CRASH, OK, Outcome, describe, run
from odradek.sim.shrink import signature
from tests.mutants.worlds import GROUP, WORLDS


class OurMistake(Exception):
    pass


def now_and_then(function: Callable[..., Any], *, every: int) -> Callable[..., Any]:
    """As `function`, and each `every`-th call fails."""
    calls = 0

    def called(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls % every == 0:
            raise OurMistake("nobody foresaw it")
        return function(*arguments, **named)

    return called


def crashed(outcome: Outcome, where: str) -> None:
    assert outcome.code == CRASH, outcome.line
    assert where in outcome.reason and "OurMistake" in outcome.reason
    text = describe(outcome)
    assert "Traceback" in text and "nobody foresaw it" in text
    assert text.splitlines()[-1].startswith(f"seed {outcome.seed}: crash, ")
    assert signature(outcome) == (CRASH, "OurMistake")


def test_a_request_that_could_not_be_handled_although_it_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handle = HANDLERS[ApiKey.METADATA]
    assert not isinstance(handle, str)
    monkeypatch.setitem(HANDLERS, ApiKey.METADATA, now_and_then(handle, every=9))
    crashed(run(draw(14)), "could not be handled")


def test_a_coordinator_that_is_loaded_again_by_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupCoordinator, "step", now_and_then(GroupCoordinator.step, every=40))
    outcome = run(WORLDS[GROUP][0])

    assert outcome.code == CRASH, outcome.line
    assert "a mistake of ours" in outcome.reason and "OurMistake: nobody foresaw it" in outcome.reason


def test_a_controller_that_resigns_by_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ControllerCore, "step", now_and_then(ControllerCore.step, every=25))
    crashed(run(draw(14)), "resigns")


def test_a_flush_that_fails_for_no_reason_of_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    seed = next(n for n in range(40) if draw(n).flushes)
    monkeypatch.setattr(FlushPlan, "run", now_and_then(FlushPlan.run, every=5))
    crashed(run(draw(seed)), "work on the log directories failed")


def test_a_broker_that_stops_for_a_mistake_although_it_is_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Broker, "take_effects", now_and_then(Broker.take_effects, every=300))
    outcome = run(draw(14))

    assert outcome.code == CRASH and "OurMistake" in outcome.reason


def test_a_client_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Workload, "consumer", now_and_then(Workload.consumer, every=1))
    crashed(run(draw(14)), "nobody asked: ")


def test_the_run_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watch, "check", now_and_then(Watch.check, every=40))
    outcome = run(draw(14))

    assert outcome.code == CRASH and "OurMistake" in outcome.reason


def test_whoever_watches_a_controller_and_fails_does_not_make_it_resign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Observers never take part, not even by failing."""
    resigned: list[str] = []
    monkeypatch.setattr(Views, "view", now_and_then(Views.view, every=30))
    outcome = run(
        draw(14),
        observe=lambda world: resigned.extend(text for _, text in world.notes if "resigns" in text),
    )

    crashed(outcome, "whoever watched a controller")
    assert resigned == []


def test_what_was_foreseen_is_no_mistake() -> None:
    """Disks that fail, sessions that end, brokers that are killed: errors with names of ours."""
    seed = next(n for n in range(200) if {"fsync_fails", "disk_full"} & {f.kind for f in draw(n).faults})

    assert run(draw(seed)).code == OK


def test_a_failure_that_somebody_asks_for_is_none_and_ended_tasks_are_let_go() -> None:
    loop, host = SimLoop(0), Host("b1", 1)
    context = loop.context_of(host)

    async def fail() -> None:
        raise OurMistake

    async def ask() -> None:
        with pytest.raises(OurMistake):
            await loop.create_task(fail(), context=context)

    for number in range(500):
        loop.call_later(number / 1000, lambda: loop.create_task(ask(), context=context), context=context)
    loop.run_until(1.0)
    assert loop.unasked_failures() == []
    assert len(host._kept) <= 250

    loop.call_soon(lambda: loop.create_task(fail(), context=context), context=context)
    loop.run_until(2.0)
    assert [type(task.exception()) for task in loop.unasked_failures()] == [OurMistake]
    assert all(isinstance(task, asyncio.Task) for task in host._kept)
