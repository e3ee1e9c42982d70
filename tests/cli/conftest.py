"""A cluster in this process, and a shell that runs verbs against it without starting Python again."""

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from odradek.cli import main
from odradek.cli.topic import offset_ranges as offset_ranges_module
from odradek.testing.running_cluster import RunningCluster, running_cluster


class Shell:
    """`shell("topic", "list")` -> (exit code, standard output, standard error); the cluster's bootstrap is added."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __call__(self, *arguments: object, offline: bool = False) -> tuple[int, str, str]:
        where = [] if offline else ["--bootstrap", self.bootstrap]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main.main([*map(str, arguments), *where])
            except SystemExit as exit_:
                code = int(exit_.code or 0)
        assert "a mistake of ours" not in err.getvalue(), err.getvalue()
        return code, out.getvalue(), err.getvalue()

    def json(self, *arguments: object, offline: bool = False) -> Any:
        """What --json prints, whatever the exit code."""
        _, out, err = self(*arguments, "--json", offline=offline)
        assert out, err
        return json.loads(out)

    def ok(self, *arguments: object) -> str:
        code, out, err = self(*arguments)
        assert code == 0, (out, err)
        return out


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person wants to see after two seconds what is not known by then; here a busy machine may take longer."""
    monkeypatch.setattr(offset_ranges_module.offset_ranges, "__kwdefaults__", {"patience_s": 30.0})


@pytest.fixture
def start_cluster() -> Iterator[Callable[..., tuple[RunningCluster, Shell]]]:
    """A cluster of its own for tests that kill brokers."""
    with contextlib.ExitStack() as stack:

        def start(brokers: int = 3, **options: Any) -> tuple[RunningCluster, Shell]:
            # Records of the tests are old: half a minute after the start retention would delete them.
            options["settings"] = {"log.retention.ms": "-1", **options.get("settings", {})}
            cluster = stack.enter_context(running_cluster(brokers=brokers, **options))
            return cluster, Shell(cluster.bootstrap)

        yield start


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[RunningCluster, Shell]]:
    """Four brokers nobody kills, for all tests of a file."""
    with running_cluster(brokers=4) as cluster:
        yield cluster, Shell(cluster.bootstrap)


@pytest.fixture(scope="module")
def shell(shared: tuple[RunningCluster, Shell]) -> Shell:
    return shared[1]
