"""Who was elected, and why: read from the state-change journals that every controller writes."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ControllerElected:
    at_ms: int
    broker: int
    epoch: int


@dataclass(frozen=True)
class LeaderElected:
    """A partition that changed its leader. `reason` is the controller's own sentence."""

    at_ms: int
    partition: str
    leader_before: int
    leader: int
    leader_epoch: int
    isr_before: tuple[int, ...]
    isr: tuple[int, ...]
    reason: str
    controller: int


@dataclass(frozen=True)
class Elections:
    controllers: tuple[ControllerElected, ...]
    leaders: tuple[LeaderElected, ...]

    def controller_after(self, at_ms: float) -> ControllerElected | None:
        return next((c for c in self.controllers if c.at_ms >= at_ms), None)

    def leaders_between(self, first_ms: float, last_ms: float) -> list[LeaderElected]:
        return [leader for leader in self.leaders if first_ms <= leader.at_ms < last_ms]


def read(journals: Iterable[Path], topic: str) -> Elections:
    """The journals of all brokers, merged by time."""
    lines = sorted(_lines(journals), key=lambda line: line["at_ms"])
    controllers: list[ControllerElected] = []
    leaders: list[LeaderElected] = []
    led: dict[str, dict[str, Any]] = {}
    for line in lines:
        epoch = line["epoch"]
        if line["event"].get("type") == "Elected" and not any(c.epoch == epoch for c in controllers):
            controllers.append(ControllerElected(line["at_ms"], line["controller"], epoch))
        for partition, (state, reason) in _settled(line["changes"], topic).items():
            before = led.get(partition)
            led[partition] = state
            if before is not None and before["leader"] != state["leader"]:
                leaders.append(
                    LeaderElected(
                        line["at_ms"],
                        partition,
                        before["leader"],
                        state["leader"],
                        state["leader_epoch"],
                        tuple(before["isr"]),
                        tuple(state["isr"]),
                        reason,
                        line["controller"],
                    )
                )
    return Elections(tuple(controllers), tuple(leaders))


def _settled(changes: list[dict[str, Any]], topic: str) -> dict[str, tuple[dict[str, Any], str]]:
    """Partition -> (its state after the step, why). Of several changes the election itself says why."""
    settled: dict[str, tuple[dict[str, Any], str]] = {}
    elections: dict[str, str] = {}
    for change in changes:
        state, partition = change.get("leader_and_isr"), change.get("topic_partition")
        if state is None or partition is None or partition.rpartition("-")[0] != topic:
            continue
        if change["kind"] == "partition":
            elections[partition] = change["reason"]
        settled[partition] = state, elections.get(partition, change["reason"])
    return settled


def _lines(journals: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for journal in journals:
        with journal.open(encoding="utf-8") as lines:
            for text in lines:
                try:
                    line = json.loads(text)
                except ValueError:
                    continue  # the line a killed controller was writing; it may be back, and its lines go on behind
                yield line
