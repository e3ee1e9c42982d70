"""`make bench-spark`: every row runs, ours alone and with few records; and the processor time is that of all processes."""

import argparse
import os
import subprocess
import sys
import time

import pytest
from benchmarks.figures import Cell, Figure, Row, table
from benchmarks.spark import processor_time, works
from benchmarks.spark.__main__ import Bench, once
from benchmarks.spark.processor_time import ProcessorTime, Stopwatch
from benchmarks.spark.works import KEYS, OURS, Work

from tests.support import SHORT_LIVED_JAVA

ROW = Cell("B1", "B1", "a batch", "rows/s", True, 1.5, cost_unit="CPU us/row")
BUSY = "import time\nwhile time.process_time() < {}: pass"


@pytest.mark.process
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_row_has_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SHORT_LIVED_JAVA.items():
        monkeypatch.setenv(name, value)
    # That there are figures is to be seen, and not how good they are.
    monkeypatch.setattr(processor_time, "LOOK_S", 1.0)
    monkeypatch.setattr(works, "BATCHES", 3)
    monkeypatch.setattr(works, "TOPICS", 10)
    options = argparse.Namespace(quick=True, only=None, alone=True, repeats=1, records=6_000, dir=None)
    bench = Bench(options)

    bench.run()

    problems = {key: figure.problem for key, row in bench.rows.items() for figure in row.figures[OURS]}
    assert problems == dict.fromkeys(KEYS, None)
    assert all(figure.cost > 0 for row in bench.rows.values() for figure in row.figures[OURS])
    report = bench.report()
    assert [line.split(" | ")[0].strip("| ") for line in report.splitlines() if "| " in line][1:] == list(
        KEYS
    )
    assert "the connector not run: left out; delta-spark not run: left out" in report


def test_what_a_child_of_a_child_took_is_counted_after_its_end() -> None:
    """Spark's daemon does not wait for those it forks."""
    script = f"import os, subprocess, sys, time; subprocess.run([sys.executable, '-c', {BUSY.format(0.3)!r}]); time.sleep(0.3)"
    with ProcessorTime(os.getpid()) as everything:
        before = everything.taken_s()
        subprocess.run([sys.executable, "-c", script], check=True)
        taken = everything.taken_s() - before

    assert 0.2 < taken < 3


def test_the_stopwatch_counts_nothing_but_the_work() -> None:
    everything, broker = ProcessorTime(os.getpid()), ProcessorTime(1 << 30)
    stopwatch = Stopwatch(everything, broker)
    _busy(0.2)
    with stopwatch:
        _busy(0.1)

    assert 0.08 <= stopwatch.cpu_s < 0.19
    assert stopwatch.broker_cpu_s == 0


def test_what_a_look_takes_is_counted_for_nobody() -> None:
    everything = ProcessorTime(os.getpid())
    began, before = time.process_time(), everything.taken_s()
    while time.process_time() < began + 0.5:
        taken = everything.taken_s() - before

    assert -0.2 < taken < 0.25


def _busy(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_work_that_went_wrong_has_no_figure() -> None:
    def run(stopwatch: Stopwatch) -> None:
        raise ValueError("5 instead of 6")

    figure = once(
        Work(ROW, 6, {OURS: run}), OURS, Stopwatch(ProcessorTime(os.getpid()), ProcessorTime(1 << 30))
    )

    assert figure.problem == "ValueError: 5 instead of 6"


def test_the_table_has_ratios_of_rates_and_of_costs() -> None:
    row = Row(ROW, against="tuned")
    row.add("odradek", Figure(200.0, cost=2.0))
    row.add("tuned", Figure(100.0, cost=5.0))

    last = table([row], {}, ["odradek", "tuned"], {}, has_cost_ratio=True).splitlines()[-1]

    assert last == (
        "| B1 | a batch | rows/s | 200 | 2 CPU us/row | 100 | 5 CPU us/row | 2.00x | 2.50x | reached |"
    )
