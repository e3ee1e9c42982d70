"""`odradek test-cluster` in this process: what it prints. `test_test_cluster.py` has what needs one of its own."""

import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from odradek.cli import main
from odradek.cli import test_cluster as verb


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a signal, as soon as it waits for one."""

    @contextmanager
    def at_once() -> Iterator[threading.Event]:
        ended = threading.Event()
        ended.set()
        yield ended

    monkeypatch.setattr(verb, "_stopped_by_signals", at_once)


@pytest.mark.usefixtures("stopped")
def test_its_addresses_are_said_to_people_and_to_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["test-cluster", "-n", "1"]) == 0
    assert re.fullmatch(
        r"1 broker ready in \d+ ms, bootstrap 127\.0\.0\.1:\d+\n"
        r"control http://127\.0\.0\.1:\d+; Ctrl-C stops the cluster\.\n",
        capsys.readouterr().out,
    )

    assert main.main(["test-cluster", "-n", "2", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said.keys() == {"bootstrap", "control"}
    assert re.fullmatch(r"127\.0\.0\.1:\d+,127\.0\.0\.1:\d+", said["bootstrap"])
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", said["control"])


def test_beside_a_command_they_are_said_only_where_json_is_asked_for(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verb, "_leave_first_interrupt_to_command", lambda ended: None)
    print_it = "import os; print(os.environ['ODRADEK_BOOTSTRAP'], os.environ['ODRADEK_CONTROL'])"
    command = ["--", sys.executable, "-S", "-c", print_it]
    for option in ([], ["--json"]):
        with pytest.raises(SystemExit) as ended:
            main.main(["test-cluster", "-n", "1", *option, *command])
        assert ended.value.code == 0
        *said, addresses = capfd.readouterr().out.splitlines()
        bootstrap, control = addresses.split()
        assert json.loads("".join(said) or "null") == (
            {"bootstrap": bootstrap, "control": control} if option else None
        )
