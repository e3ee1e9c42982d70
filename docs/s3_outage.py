"""Writes docs/s3-outage.md: the outage of S3, told by a cluster that is really run, command by command.

python docs/s3_outage.py

tests/cli/test_s3_outage.py runs the same story and holds the page to what comes out.
"""

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from odradek.cli.up import describe, show
from odradek.client.sync import SyncClient
from odradek.testing.process_cluster import ProcessCluster

PAGE = Path(__file__).parent / "s3-outage.md"
PICTURE = Path(__file__).parent / "s3-outage.svg"
TOPIC = "dw_test"
VICTIM = 2
# As `up` would print them: the brokers of this story are processes of their own kind, and those of `up` have one command line.
PIDS = {1: 28301, 2: 28302, 3: 28303}
RECORDS = 6
SETTINGS = {
    "odradek.controlled.shutdown.refuse": "offline",
    # The refusal is repeated three times before it is final; here after a moment instead of five seconds.
    "controlled.shutdown.retry.backoff.ms": "100",
}

HEAD = """<!-- Written by docs/s3_outage.py from a cluster that really ran. Change that. -->

# S3's outage, and the warning before it

A log cluster is overloaded. To avoid copying, its topics have one replica. Two of the new machines answer slowly, so one
is removed from the cluster with a simple `kill`. Producers report partitions without a leader: the state node says
`leader: -1`, and the ISR is the broker that was removed. No other broker can be elected, because no other has the data; a
failover would have lost it. S3's conclusion: move the partitions *before* the machine is removed.
Apache Kafka gives no warning: ControlledShutdown of the only replica returns no error.

Below is the same outage on a cluster of three brokers, with the output of each command. Times differ from run to run.
"""


class Command(NamedTuple):
    """What was typed and what came of it."""

    typed: str
    output: str
    code: int


class Section(NamedTuple):
    """`varies`: the output holds times and line numbers that differ in every run."""

    title: str
    words: str
    commands: tuple[Command, ...]
    varies: bool = False


class Stage:
    """The cluster, and a shell in front of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.cluster = ProcessCluster(directory / "cluster", brokers=3, settings=SETTINGS)

    def odradek(self, *arguments: str, stdin: str = "", shown: str | None = None) -> Command:
        answer = subprocess.run(
            [sys.executable, "-m", "odradek.cli.main", *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=self.directory,
            env={**os.environ, "ODRADEK_BOOTSTRAP": self.cluster.bootstrap},
        )
        typed = shown if shown is not None else f"odradek {' '.join(arguments)}"
        return Command(typed, self._portable(answer.stdout + answer.stderr), answer.returncode)

    def wait(self, holds: Callable[[], bool], what: str) -> None:
        self.cluster.wait_until(holds, what)

    def leaders(self) -> list[int]:
        with SyncClient(self.cluster.bootstrap, request_timeout_s=30) as client:
            partitions = client.cluster([TOPIC]).topics[TOPIC].partitions
            return [p.leader for p in partitions.values()]

    def log_since(self, position: int) -> str:
        text = self.cluster.brokers[VICTIM].log_file.read_text(encoding="utf-8")[position:]
        return self._portable(text)

    def log_size(self) -> int:
        return len(self.cluster.brokers[VICTIM].log_file.read_text(encoding="utf-8"))

    def _portable(self, text: str) -> str:
        """Ports as `odradek up` takes them, and no directory of this machine."""
        for broker_id, broker in self.cluster.brokers.items():
            text = text.replace(broker.address, f"127.0.0.1:{9091 + broker_id}")
        return text.replace(f"{self.directory}/", "./")


def run(directory: Path) -> list[Section]:
    """The story; every line of the page comes from here."""
    stage = Stage(directory)
    with stage.cluster:
        keep_control_elsewhere(stage)
        return [
            prepare(stage),
            quote(stage),
            refusal(stage),
            outage(stage),
            back(stage),
            heal(stage),
            look_back(stage),
        ]


def keep_control_elsewhere(stage: Stage) -> None:
    """The broker that goes is not the controller, or its end would be two stories."""
    with SyncClient(stage.cluster.bootstrap) as client:
        controller = client.cluster([]).controller_id
    if controller == VICTIM:
        stage.cluster.kill(VICTIM)
        stage.cluster.restart(VICTIM)


def prepare(stage: Stage) -> Section:
    up = "odradek up --brokers 3 --dir ./cluster"
    settings = "".join(f" --set {name}={value}" for name, value in SETTINGS.items())
    lines = "".join(f"key-{n} record {n}\n" for n in range(RECORDS))
    written = f"for n in {' '.join(map(str, range(RECORDS)))}; do echo key-$n record $n; done"
    return Section(
        "The cluster",
        "Three brokers that check before they stop, and a topic with one replica of each partition. What follows is typed in a "
        "second terminal, where the first was opened; process ids are those that `up` prints.",
        (
            Command(f"{up} \\\n   {settings}", table_of_up(stage), 0),
            stage.odradek("topic", "create", TOPIC, "--assign", "1:2:3:1:2:3"),
            stage.odradek(
                *("topic", "produce", TOPIC, "-K", " "),
                stdin=lines,
                shown=f"{written} | odradek topic produce {TOPIC} -K ' '",
            ),
        ),
    )


def table_of_up(stage: Stage) -> str:
    """What `odradek up` prints of these brokers, but for how long they took."""
    report = describe(stage.cluster)
    for broker in report["brokers"]:
        number = broker["id"]
        broker.update(port=9091 + number, pid=PIDS[number], dir=f"/home/me/cluster/broker-{number}")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        show(report, 0.0)
    return printed.getvalue().partition("\n")[2]


def quote(stage: Stage) -> Section:
    return Section(
        "Before: the impact",
        "What would stopping broker 2 cost? The command runs the controller's own steps on a copy of the metadata. "
        "It works with any Kafka cluster, through `--bootstrap`.",
        (stage.odradek("shutdown-impact", "--broker", str(VICTIM), "--out", "remedy.json"),),
    )


def refusal(stage: Stage) -> Section:
    broker = stage.cluster.brokers[VICTIM]
    position = stage.log_size()
    broker.signal(signal.SIGTERM)
    stage.wait(lambda: "stays up" in stage.log_since(position), "the broker says that it stays")
    said = without_times(stage.log_since(position))
    assert broker.is_running, "a broker that refuses goes on"
    return Section(
        "The refusal",
        "`kill` requests a controlled shutdown. With `odradek.controlled.shutdown.refuse=offline` the broker "
        "refuses, and logs the reason and the reassignment that is needed first. The partitions stay available.",
        (
            Command(f"kill {PIDS[VICTIM]}", "", 0),
            Command(
                f"tail -n {len(said.splitlines())} cluster/broker-{VICTIM}/broker.log | cut -d' ' -f3-",
                said,
                0,
            ),
            stage.odradek("why", TOPIC),
        ),
    )


def outage(stage: Stage) -> Section:
    stage.cluster.kill(VICTIM)
    stage.wait(lambda: stage.leaders().count(-1) == 2, "two partitions are offline")
    # A broker of ours is named to clients for two seconds more; then everybody says the same.
    stage.wait(lambda: "not there" in stage.odradek("cluster", "health").output, "the broker is missed")
    return Section(
        "`kill -9`: the outage",
        "A broker cannot refuse `kill -9`. Now the state is that of S3: no leader, and no other broker that could "
        "be elected. `why` names what is missing and the effect of each remedy; `what-if` reads the store, which "
        "needs no running broker.",
        (
            Command(f"kill -9 {PIDS[VICTIM]}", "", 0),
            stage.odradek("why", f"{TOPIC}-1"),
            stage.odradek("cluster", "health"),
            stage.odradek("elect", "unclean", f"{TOPIC}-1"),
            stage.odradek("what-if", "--start", str(VICTIM), "--store", "cluster"),
        ),
    )


def back(stage: Stage) -> Section:
    stage.cluster.restart(VICTIM)
    stage.wait(lambda: -1 not in stage.leaders(), "every partition has a leader")
    return Section(
        "The broker returns",
        "As predicted, its partitions come back with it, and nothing is lost.",
        (
            Command(f"odradek start --config cluster/broker-{VICTIM}/server.properties &", "", 0),
            stage.odradek("why", TOPIC),
        ),
    )


def heal(stage: Stage) -> Section:
    applied = stage.odradek("reassign", "apply", "remedy.json", "--wait")
    again = stage.odradek("shutdown-impact", "--broker", str(VICTIM))
    code = stage.cluster.terminate(VICTIM)
    stage.wait(lambda: -1 not in stage.leaders(), "every partition has a leader")
    consumed = stage.odradek("topic", "consume", TOPIC, "--exit", "--format", r"%k %v\n")
    records = sorted(consumed.output.splitlines())
    return Section(
        "The reassignment that heals it",
        "`shutdown-impact` wrote the remedy. After it is applied, stopping the broker has no impact, and the broker "
        "accepts `kill`: exit code 0, every partition has a leader, every record is there.",
        (
            Command(applied.typed, _without_progress(applied.output), applied.code),
            again,
            Command("kill %1; wait %1; echo $?", f"{code}\n", 0),
            stage.odradek("why", TOPIC),
            Command(
                f"odradek topic consume {TOPIC} --exit --format '%k %v\\n' | sort",
                "\n".join(records) + "\n",
                0,
            ),
        ),
    )


def look_back(stage: Stage) -> Section:
    name = f"{TOPIC}-1"
    shown = stage.odradek(*("journal", "show", "cluster", "--partition", name, "--svg", "s3-outage.svg"))
    return Section(
        "Looking back",
        "The controllers' journal contains the outage, and the reassignment step by step.\n\n![time line](s3-outage.svg)",
        (shown,),
        varies=True,
    )


def _without_progress(output: str) -> str:
    """How many steps are seen while it waits depends on the moment."""
    lines = [line for line in output.splitlines() if not re.match(r"\d+ of \d+ done; ", line)]
    return "\n".join(lines) + "\n"


def without_times(log: str) -> str:
    """The broker's own lines of that moment, without the time in front; each sentence once."""
    lines: dict[str, None] = {}
    for line in log.splitlines():
        lines[re.sub(r"^\S+ \S+ ", "", line)] = None
    return "\n".join(lines) + "\n"


def render(sections: Sequence[Section]) -> str:
    parts = [HEAD]
    for section in sections:
        words = "\n\n".join(textwrap.fill(text, 120) for text in section.words.split("\n\n"))
        typed = "".join(f"$ {command.typed}\n{command.output}" for command in section.commands)
        parts.append(f"\n## {section.title}\n\n{words}\n\n```\n{typed}```\n")
    return "".join(parts)


def comparable(page: str) -> str:
    """A page without what differs in every run: times, line numbers, and who happens to be controller."""
    told = re.sub(r"  controller$", "", page.partition("\n## Looking back\n")[0], flags=re.MULTILINE)
    return re.sub(r"controller \d", "controller N", told)


if __name__ == "__main__":
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        told = run(Path(work))
        PAGE.write_text(render(told), encoding="utf-8")
        PICTURE.write_text((Path(work) / "s3-outage.svg").read_text(encoding="utf-8"), encoding="utf-8")
    print(f"wrote docs/{PAGE.name} in {time.monotonic() - begun:.1f} s")
