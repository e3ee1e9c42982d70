"""Which versions of PySpark the tests are run on."""

import tomllib
from pathlib import Path

import pyspark
import pytest

from tests.spark.versions import is_met, requirements

PYPROJECT = Path("pyproject.toml").read_text(encoding="utf-8")


def test_the_oldest_that_is_allowed_and_each_later_series() -> None:
    text = '[project.optional-dependencies]\nspark = ["numpy", "pyspark>=4.2,<4.5"]'
    assert requirements(text) == ["pyspark==4.2.0", "pyspark==4.3.*", "pyspark==4.4.*"]


def test_what_pyproject_allows_is_read() -> None:
    assert requirements(PYPROJECT)[0] == "pyspark==4.2.0"
    assert any(is_met(requirement, pyspark.__version__) for requirement in requirements(PYPROJECT)) or (
        pyspark.__version__.startswith("4.2.")
    )


@pytest.mark.parametrize(
    ("requirement", "version", "expected"),
    [
        ("pyspark==4.3.*", "4.3.1", True),
        ("pyspark==4.3.*", "4.30.0", False),
        ("pyspark==4.2.0", "4.2.0", True),
        ("pyspark==4.2.0", "4.2.1", False),
    ],
)
def test_a_version_meets_a_requirement(requirement: str, version: str, expected: bool) -> None:
    assert is_met(requirement, version) is expected


def test_a_client_of_a_server_may_not_be_newer_than_pyspark_itself() -> None:
    extras = tomllib.loads(PYPROJECT)["project"]["optional-dependencies"]
    (pyspark_itself,) = (r for r in extras["spark"] if r.startswith("pyspark"))
    (client,) = (r for r in extras["connect"] if r.startswith("pyspark-client"))
    assert client.partition("<")[2] == pyspark_itself.partition("<")[2]
