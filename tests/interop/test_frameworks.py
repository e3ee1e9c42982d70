"""Frameworks in Python that bring their own clients, with applications as their readers would write them."""

from collections import Counter
from pathlib import Path

import confluent_kafka
import pytest

from odradek.testing.process_cluster import ProcessCluster
from tests.clients.exactly_once import DEATHS, PARTITIONS, SOURCE, TARGET, Audit, arguments, running
from tests.clients.support import create_topic, number_in, value_of
from tests.interop.python_packages import interpreter_with

RECORDS = 300  # between two kills
PROGRAMS = Path(__file__).parent / "frameworks"


class Counted(Audit):
    """How often each number came."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap, TARGET)
        self.numbers: Counter[int] = Counter()

    def take(self, message: confluent_kafka.Message) -> None:
        self.numbers[number_in(message.value())] += 1


@pytest.mark.parametrize(
    ("program", "requirement", "exactly_once"),
    [
        ("of_faststream.py", "faststream[confluent]==0.7.8", False),
        ("of_quix.py", "quixstreams==3.28.1", True),
    ],
)
def test_nothing_is_lost_when_the_application_a_leader_and_coordinators_are_killed(
    tmp_path: Path, program: str, requirement: str, exactly_once: bool
) -> None:
    python = interpreter_with(requirement)
    with ProcessCluster(tmp_path) as cluster:
        for topic in (SOURCE, TARGET):
            create_topic(cluster, topic, partitions=PARTITIONS)
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        command = [str(python), str(PROGRAMS / program), *arguments(cluster.bootstrap)]
        sent = 0
        with running(cluster, command, audit := Counted(cluster.bootstrap)) as trial:

            def write() -> None:
                nonlocal sent
                for number in range(sent, sent + RECORDS):
                    producer.produce(SOURCE, value_of(number), partition=number % PARTITIONS)
                assert producer.flush(60) == 0
                sent += RECORDS

            def kill_loop() -> None:
                """Where no more is written meanwhile, all may have come out before the last of them."""
                for _ in range(DEATHS):
                    write()
                    trial.comes_out(1)
                    trial.loop.kill()

            write()
            trial.comes_out(RECORDS // 4)
            kills = [kill_loop, trial.kill_leader, trial.kill_coordinator_of_group]
            for kill in kills:
                write()
                trial.comes_out(RECORDS // 4)
                kill()
            trial.goes_on_until(lambda: len(audit.numbers) == sent, "everything comes out")
            trial.goes_on_until(lambda: audit.is_at_end, "and there is no more")
            if exactly_once:
                assert set(audit.numbers.values()) == {1}
