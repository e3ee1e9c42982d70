"""How a job is told of and ended: a line a batch, Ctrl-C after the batch, one sentence of what failed."""

import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event
from typing import TYPE_CHECKING

from odradek.cli.output import fail, print_json

if TYPE_CHECKING:
    from odradek.spark.jobs.tables import Batch, Job, Planned


def explain_or_run(plans: "Sequence[Planned]", *, is_explained: bool, as_json: bool) -> None:
    if is_explained:
        explain(plans, as_json=as_json)
    else:
        run_until_stopped(plans, as_json=as_json)


def explain(plans: "Sequence[Planned]", *, as_json: bool) -> None:
    if as_json:
        print_json([dict(plan.lines()) for plan in plans])
        return
    for plan in plans:
        for name, text in plan.lines():
            print(f"{name:8} {text}")
        if plan is not plans[-1]:
            print()


def run_until_stopped(plans: "Sequence[Planned]", *, as_json: bool) -> None:
    from odradek.spark.connect import is_remote
    from odradek.spark.jobs.tables import run, words_of
    from odradek.spark.session import find_java, require_pyspark

    require_pyspark()
    # Of a JVM that is gone we say it in a sentence.
    logging.getLogger("py4j").addHandler(logging.NullHandler())
    if not is_remote(plans[0].job.master):
        java = find_java()
        if not as_json:
            print(f"{java}", file=sys.stderr)

    def tell(job: "Job", batch: "Batch") -> None:
        if as_json:
            print_json({"table": job.target, **batch._asdict()})
        else:
            print(f"{job.target}  {batch}" if len(plans) > 1 else str(batch), flush=True)

    def tell_failure(job: "Job", sentence: str) -> None:
        if len(plans) > 1:
            print(f"{job.target}: {sentence}", file=sys.stderr, flush=True)

    with _asked_to_stop() as stop, _kept_from_the_terminal(plans[0].job):
        failed = run(plans, tell, stop.is_set, tell_failure)
    if failed:
        log = words_of(plans[0].job)
        if len(plans) == 1:
            fail(f"{next(iter(failed.values()))} (all that Spark says of it: {log})")
        fail(
            "; ".join(f"{name}: {sentence}" for name, sentence in failed.items())
            + f" (Spark's own words: {log})"
        )


@contextmanager
def _kept_from_the_terminal(job: "Job") -> Iterator[None]:
    """PySpark logs what Spark's analysis refuses, on standard error, as JSON with the trace of the JVM. It goes where all goes
    that Spark says; a Connect server has a log of its own."""
    from pyspark.logger import PySparkLogger

    from odradek.spark.connect import is_remote

    before = {}
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        words = PySparkLogger.getLogger(name)
        before[words] = words.handlers[:]
        words.handlers.clear()
        words.addHandler(
            logging.NullHandler() if is_remote(job.master) else logging.FileHandler(job.log, delay=True)
        )
    try:
        yield
    finally:
        for words, handlers in before.items():
            for handler in words.handlers:
                handler.close()
            words.handlers[:] = handlers


@contextmanager
def _asked_to_stop() -> Iterator[Event]:
    """The first signal asks for the end after the batch; the second ends at once, which loses nothing either."""
    stop = Event()
    # While a session starts, standard error is Spark's log: a copy is still the terminal.
    terminal = os.dup(2) if sys.stderr is not None else os.open(os.devnull, os.O_WRONLY)

    def ask(number: int, _frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        with suppress(OSError):  # it was closed, with whoever looked at it
            os.write(terminal, b"ends after this batch; once more ends at once\n")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(terminal)
