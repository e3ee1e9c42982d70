"""The fixtures, used as a project of somebody else uses them: by another pytest, in a directory of its own."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from odradek.model.topic_names import check_topic_name
from odradek.testing import running_cluster
from odradek.testing.pytest_plugin import _bring_back, _wanted
from odradek.testing.topic_names import topic_name_for

ROOT = Path(__file__).parents[2]
PLUGIN = "pytest_odradek"

PROJECT = """
import pytest
from odradek.client.sync import SyncClient
from odradek.model.errors import ConfigurationError

clusters = []

def brokers_of(cluster):
    with SyncClient(cluster.bootstrap) as client:
        return sorted(client.cluster([]).brokers)

def test_there_are_as_many_brokers_as_the_configuration_says(odradek_cluster):
    clusters.append(odradek_cluster)
    assert brokers_of(odradek_cluster) == [1, 2]
    assert odradek_cluster.cluster.settings["num.partitions"] == "5"

@pytest.mark.odradek(brokers=1, settings={"num.partitions": "7"})
def test_there_are_as_many_as_the_test_says(odradek_cluster):
    assert odradek_cluster is not clusters[0]
    assert brokers_of(odradek_cluster) == [1]
    assert odradek_cluster.cluster.settings == {"num.partitions": "7", "min.insync.replicas": "1"}

@pytest.mark.xfail(raises=ConfigurationError, strict=True)
@pytest.mark.odradek(settings={"num.partitons": "1"})
def test_a_misspelt_setting_is_an_error_of_the_fixture(odradek_cluster):
    pass

topics = []

@pytest.mark.parametrize("value", ["a/b", "c d"])
def test_each_has_a_topic_of_its_own_in_one_cluster(odradek_shared_cluster, odradek_topic, value):
    topics.append((odradek_topic, odradek_shared_cluster.bootstrap))
    assert len(odradek_shared_cluster.isr(odradek_topic)) == 2
    assert len({name for name, _ in topics}) == len(topics)
    assert len({bootstrap for _, bootstrap in topics}) == 1
"""
CONFIGURATION = """[pytest]
addopts = --strict-markers
odradek_brokers = 2
odradek_settings =
    num.partitions = 5
    min.insync.replicas=1
"""


def run(directory: Path, test: str, configuration: str = "[pytest]\n") -> subprocess.CompletedProcess[str]:
    (directory / "pytest.ini").write_text(configuration)
    (directory / "test_project.py").write_text(test)
    known = any(name == "odradek" for name, _ in registered())
    return subprocess.run(
        [sys.executable, "-m", "pytest", *([] if known else ["-p", PLUGIN]), "-q", "-p", "no:cacheprovider"],
        cwd=directory,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )


def registered() -> list[tuple[str, str]]:
    from importlib.metadata import entry_points

    return [(entry.name, entry.value) for entry in entry_points(group="pytest11")]


def test_a_project_has_clusters_as_it_says(tmp_path: Path) -> None:
    done = run(tmp_path, PROJECT, CONFIGURATION)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "..x.." in done.stdout, "all five ran"


class Configuration:
    """As pytest has read it."""

    def __init__(self, brokers: str = "3", settings: tuple[str, ...] = ()) -> None:
        self.values = {"odradek_brokers": brokers, "odradek_settings": list(settings)}

    def getini(self, name: str) -> object:
        return self.values[name]


@pytest.mark.parametrize(
    ("configuration", "mark", "sentence"),
    [
        (Configuration(brokers="many"), None, "odradek_brokers: 'many' is no number"),
        (Configuration(settings=("num.partitions",)), None, "expected NAME=VALUE"),
        (
            Configuration(),
            SimpleNamespace(args=(), kwargs={"brokers": None}),
            "@pytest.mark.odradek(brokers=...): None is no number",
        ),
        (
            Configuration(),
            SimpleNamespace(args=(), kwargs={"settings": None}),
            "@pytest.mark.odradek(settings=...): None is no dict",
        ),
        (
            Configuration(),
            SimpleNamespace(args=(), kwargs={"broker": 1}),
            "@pytest.mark.odradek(broker): write brokers=",
        ),
        (Configuration(), SimpleNamespace(args=(1,), kwargs={}), "write brokers=, settings="),
    ],
)
def test_what_cannot_be_is_one_sentence(
    configuration: Configuration, mark: SimpleNamespace | None, sentence: str
) -> None:
    with pytest.raises(pytest.UsageError) as refused:
        _wanted(configuration, [] if mark is None else [mark])  # type: ignore[arg-type,list-item]

    assert sentence in str(refused.value)


def test_what_is_said_of_a_class_counts_for_its_tests_that_say_something_else() -> None:
    of_class = SimpleNamespace(args=(), kwargs={"brokers": 1, "settings": {"num.partitions": "7"}})
    of_test = SimpleNamespace(args=(), kwargs={"settings": {"min.insync.replicas": "1"}})
    found = _wanted(Configuration(), [of_test, of_class])  # type: ignore[arg-type,list-item]
    assert found == {"brokers": 1, "settings": {"num.partitions": "7", "min.insync.replicas": "1"}}


LEFT_BEHIND = """
import pytest

@pytest.mark.odradek(brokers=1, settings={"num.partitions": "3", "min.insync.replicas": "1"})
class TestOfAClass:
    @pytest.mark.odradek(settings={"num.partitions": "7"})
    def test_both_marks_count_and_the_nearer_one_first(self, odradek_cluster):
        assert odradek_cluster.cluster.ids == [1]
        assert odradek_cluster.cluster.settings == {"num.partitions": "7", "min.insync.replicas": "1"}

@pytest.mark.xfail(strict=True)
def test_fails_before_it_starts_again_what_it_killed(odradek_shared_cluster, odradek_topic):
    odradek_shared_cluster.kill(2)
    odradek_shared_cluster.pause(3)
    assert False

def test_has_a_topic_on_every_broker(odradek_shared_cluster, odradek_topic):
    assert sorted(odradek_shared_cluster.isr(odradek_topic)) == [1, 2, 3]
"""


def test_a_test_that_fails_leaves_the_shared_cluster_to_the_next_one(tmp_path: Path) -> None:
    """All that came later failed with INVALID_REPLICATION_FACTOR, and nobody was told whose fault that was."""
    done = run(tmp_path, LEFT_BEHIND, "[pytest]\naddopts = --strict-markers\n")

    assert done.returncode == 0, done.stdout + done.stderr
    assert ".x." in done.stdout


def test_those_that_are_brought_back_are_known_to_all_before_anything_is_asked_of_them() -> None:
    with running_cluster.running_cluster(brokers=3) as cluster:
        local = cluster.cluster
        for broker, leave in ((2, cluster.kill), (3, cluster.pause)):
            leave(broker)
            cluster.call(local.until(lambda: not knows(local, of=broker), "it is missed"))  # noqa: B023
            _bring_back(cluster)
            assert knows(local, of=broker), broker


def knows(cluster: running_cluster.LocalCluster, *, of: int) -> bool:
    return all(
        of in runtime.broker.metadata.brokers for broker, runtime in cluster.runtimes.items() if broker != of
    )


@pytest.mark.parametrize("page", ["README.md", "docs/testing.md"])
def test_what_the_documents_show_runs(tmp_path: Path, page: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    shown = [block for block in blocks if "def test_" in block]
    assert len(shown) == (1 if page == "README.md" else 2)

    done = run(tmp_path, "\n".join(shown), "[pytest]\naddopts = --strict-markers\n")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "." * sum(block.count("def test_") for block in shown) in done.stdout


def test_who_does_not_use_a_fixture_pays_for_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "import sys\ndef test_it():\n    assert 'odradek.server' not in sys.modules\n")

    assert done.returncode == 0, done.stdout


def test_brokers_run_as_they_do_without_pytest() -> None:
    """Where a plugin is found in the package, all of it is loaded with other assertions: of this checkout, as it is installed."""
    assert type(running_cluster.__spec__.loader).__name__ == "SourceFileLoader"  # type: ignore[union-attr]


def test_pytest_finds_them_by_the_name_that_the_package_registers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["entry-points"]["pytest11"] == {"odradek": PLUGIN}


@pytest.mark.parametrize("test", ["test_orders[a/b-ü]", "test_" + "x" * 400, "///"])
def test_a_topic_named_after_a_test_has_a_legal_name(test: str) -> None:
    first, second = topic_name_for(test), topic_name_for(test)

    check_topic_name(first)
    assert first != second
