"""Random faults of driver, JVM, worker processes, brokers and their roles: each of three sinks has each record once.

`ODRADEK_SPARK_KILLS` says how many (a deck of twenty without it, 200 by `make spark-kills`), `ODRADEK_SPARK_SEED` which.
"""

import os
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import psutil
import pytest

from odradek.testing.process_cluster import ProcessCluster
from tests import forked_drivers
from tests.spark.kills.machine import DECK, SETTINGS, Driver, Machine, drawn

FAULTS = int(os.environ.get("ODRADEK_SPARK_KILLS", len(DECK)))
SEED = int(os.environ.get("ODRADEK_SPARK_SEED", "1"))


def test_a_deck_has_every_kind_and_is_drawn_by_its_seed() -> None:
    assert len(DECK) == 20
    first = list(islice(drawn(1), 40))
    assert sorted(first[:20]) == sorted(first[20:]) == sorted(DECK)
    assert first == list(islice(drawn(1), 40)) != list(islice(drawn(2), 40))


@pytest.mark.spark
def test_a_driver_that_has_ended_takes_nobody_with_it_who_has_its_number_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers come round within minutes where JVMs with a hundred threads come and go; it was the JVM of all other tests."""
    with (
        subprocess.Popen([sys.executable, "-c", ""]) as ended,
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other,
    ):
        monkeypatch.setattr(forked_drivers, "start", lambda *_, **__: ended)
        driver = Driver([], tmp_path / "log")
        gone = psutil.Process(ended.pid)
        ended.wait(60)
        assert not gone.is_running()
        for process in (ended, gone, driver._me):
            setattr(process, "pid" if process is ended else "_pid", other.pid)
        driver._known[0] = gone

        driver.kill_alone()
        driver.end()
        driver.end()

        other.communicate(b"\n", 60)
        assert other.returncode == 0


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600 + 300 * FAULTS)
def test_every_sink_has_each_record_once_after_every_fault(tmp_path: Path) -> None:
    kinds = list(islice(drawn(SEED), FAULTS))
    with (
        ProcessCluster(tmp_path / "brokers", settings=SETTINGS) as cluster,
        Machine(cluster, _made(tmp_path / "sinks"), SEED, kinds) as machine,
    ):
        began = time.monotonic()
        for kind in machine.rounds():
            took_s, began = time.monotonic() - began, time.monotonic()
            print(f"{sum(machine.counts.values())} {kind}: equal, {took_s:.1f} s", flush=True)
    print(f"{dict(machine.counts)}; drivers that ended by themselves: {machine.ended}")
    for why, times in machine.sentences().most_common():
        print(f"{times} x {why}")


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory
