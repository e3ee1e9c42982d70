"""The measurement of the controller at size: it runs, it does what it says it measures, and it counts right."""

import asyncio
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from benchmarks.controller import __main__ as program
from benchmarks.controller import cluster, figures, kept
from benchmarks.controller.figures import Sample
from benchmarks.controller.kept import Kept
from benchmarks.controller.memory import Memory
from benchmarks.controller.works import WORKS

from odradek.server.environment import Environment

T = TypeVar("T")
PARTITIONS = 60


@pytest.fixture(scope="module", params=["memory", "embedded"])
def samples(request: pytest.FixtureRequest) -> dict[str, Sample]:
    measured = asyncio.run(program.measure(request.param, PARTITIONS, list(WORKS), 1))
    return {sample.work: sample for sample in measured}


def test_every_work_is_measured(samples: dict[str, Sample]) -> None:
    """Each asserts by itself that its work was done: nobody left over, everybody elected, nothing kept."""
    assert set(samples) == set(WORKS)
    assert all(sample.seconds > 0 and sample.touched > 0 for sample in samples.values())


def test_the_counts_are_those_of_the_work(samples: dict[str, Sample]) -> None:
    """One write a partition that changes, none where nothing is decided; one request of a kind and broker."""
    led = PARTITIONS // 3
    writes = {name: sample.counts["writes"] for name, sample in samples.items()}
    requests = {name: sample.counts["requests"] for name, sample in samples.items()}
    assert writes["failover"] <= 1, "only /feature, once"
    assert writes["startup"] == 0
    assert writes["failover-dead"] - writes["broker-failure"] in (0, 1)
    assert writes["broker-failure"] == writes["shutdown"] == PARTITIONS
    assert writes["election"] == led == samples["election"].touched
    assert writes["creation"] == samples["creation"].touched
    assert requests["election"] == 3 + 3, "LeaderAndIsr and UpdateMetadata for each broker"
    assert requests["broker-failure"] == 2 + 2, "two brokers are left"
    assert samples["failover"].counts["nodes read"] > PARTITIONS


def test_a_thousand_partitions_are_waited_for_while_a_thread_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """From `large_step` partitions on a thread has the core. Nothing else moves meanwhile, and it is not done."""
    monkeypatch.setattr(cluster, "QUIET_S", 0.03)
    run_step = Environment.run_step
    steps = 0

    def held_up(self: Environment, work: Callable[[], T]) -> "asyncio.Future[T]":
        nonlocal steps
        steps += 1
        may_go_on = threading.Event()
        self.loop.call_later(5 * cluster.QUIET_S, may_go_on.set)
        return run_step(self, lambda: (may_go_on.wait(), work())[1])

    monkeypatch.setattr(Environment, "run_step", held_up)
    (sample,) = asyncio.run(program.measure("memory", 1_000, ["failover"], 1))
    assert steps and sample.seconds > steps * 5 * cluster.QUIET_S
    assert sample.counts["requests"] == 3 * 3, (
        "LeaderAndIsr, UpdateMetadata, and the metadata of brokers, of each"
    )


def test_a_part_that_is_measured_again_takes_its_own_place_and_no_other(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, page = tmp_path / "measured.json", tmp_path / "page.md"
    monkeypatch.setattr(kept.read, "__defaults__", (file,))
    monkeypatch.setattr(kept.write, "__defaults__", (file,))
    monkeypatch.setattr(program, "PAGE", page)
    page.write_text(f"before\n{program.BEGIN}\n{program.END}\nbehind\n")
    old = [replace(sample, work="election", store="memory", partitions=60) for sample in _samples(60, 77e6)]
    kept.write(Kept([*_samples(10_000, 0.2), *old], [Memory(10_000, 1.0, 2.0, 3.0, 4.0)]))
    arguments = [
        "--partitions",
        "60",
        "--stores",
        "memory",
        "--only",
        "election",
        "--repeats",
        "1",
        "--no-memory",
    ]
    assert program.main(arguments) == 0
    printed = capsys.readouterr().out
    assert "| preferred election of a third of all | memory |" in printed
    assert "embedded" not in printed, "only what was measured"
    assert len(kept.read(file).samples) == 6, "nothing is kept unless it was said"
    assert program.main([*arguments, "--write"]) == 0
    after = kept.read(file)
    assert [sample.work for sample in after.samples] == ["election", *["failover"] * 3]
    assert after.samples[0].seconds < 77e6
    assert after.memories == [Memory(10_000, 1.0, 2.0, 3.0, 4.0)]
    written = page.read_text()
    assert written.startswith("before\n") and written.endswith("behind\n")
    assert re.search(r"election of a third of all \| memory \| \d", written), "however long it took"
    assert "of the controller | embedded |  | 0.300 (0.200 - 0.400)" in written
    assert "| 10,000 | 1 | 2 | 3 | 4 |" in written


def test_the_page_says_what_is_kept() -> None:
    assert program.report(kept.read()).split("\n", 2)[2] in program.PAGE.read_text(encoding="utf-8")


def test_what_was_taken_beside_other_work_is_marked() -> None:
    quiet, busy = (
        _samples(10_000, 0.1),
        [replace(s, load=figures.QUIET_LOAD + 1) for s in _samples(10_000, 0.1)],
    )
    assert "\\*" not in figures.table(quiet, WORKS)
    assert "0.150 (0.100 - 0.200) \\*" in figures.table(busy, WORKS)


@pytest.mark.parametrize(
    ("loads", "told"),
    [
        ((0.5, 2.25), "load of the machine 0.5 - 2.2, with \\* above 2.5: other work ran."),
        ((0.5, 11.7), "load of the machine 0.5 - 0.5, with \\* above 2.5: other work ran."),
        ((11.7, 11.2), "load of the machine 11.2 - 11.7, and \\* stands for more than 2.5: other work ran."),
    ],
)
def test_the_load_of_the_machine_is_told_also_where_it_was_never_quiet(
    loads: tuple[float, float], told: str
) -> None:
    samples = [replace(s, load=load) for load in loads for s in _samples(10_000, 0.1)]
    assert told in program.report(Kept(samples))


def test_a_run_with_no_row_of_where_the_seconds_go_has_no_such_table() -> None:
    assert "Where the seconds" not in program.report(Kept(_samples(10_000, 0.1)))
    assert "Where the seconds of 100,000 partitions go:" in program.report(
        Kept(_samples(figures.GOAL_AT, 0.1))
    )


def _samples(partitions: int, seconds: float) -> list[Sample]:
    names = ("store calls", "nodes read", "writes", "bytes written", "requests", "bytes told")
    counts = dict.fromkeys(names, 3) | {"bytes told": partitions * 100}
    return [
        Sample("embedded", partitions, "failover", partitions, s, s, 0.0, 0.0, 0.0, counts, 0.5)
        for s in (seconds, seconds * 2, seconds * 1.5)
    ]


def test_growth_is_the_slope_of_the_logarithms() -> None:
    assert figures.exponent([(1, 5), (10, 50), (100, 500)]) == pytest.approx(1.0)
    assert figures.exponent([(1, 5), (10, 500)]) == pytest.approx(2.0)
    assert figures.exponent([(1, 7), (10, 7), (100, 7)]) == pytest.approx(0.0)
    assert figures.exponent([(10, 7)]) is None
    assert figures.exponent([(10, 0), (100, 0)]) is None


def test_a_row_has_medians_and_says_whether_the_goal_was_reached() -> None:
    samples = _samples(10_000, 0.1) + _samples(100_000, 1.0)
    (row,) = [line for line in figures.table(samples, WORKS).splitlines() if "embedded" in line]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[2:4] == ["0.150 (0.100 - 0.200)", "1.50 (1.00 - 2.00)"]
    assert cells[-1] == "<= 2 s: reached"
    slow = figures.table(_samples(100_000, 2.0), WORKS)
    assert "<= 2 s: missed" in slow


def test_the_page_has_room_for_the_tables() -> None:
    page = program.PAGE.read_text(encoding="utf-8")
    assert page.count(program.BEGIN) == page.count(program.END) == 1
