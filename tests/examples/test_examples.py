"""Every example runs exactly as it stands, and says what it promises."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import SHORT_LIVED_JAVA

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SAYS = {
    "what_if.py": ["orders-1: falls under min ISR", "orders-2: ", "leader 3 -> 1"],
    "survive_a_leader.py": ["got kill -9", "10000 of 10000 records are acknowledged"],
    "topic_to_spark.py": ["sensor-0", "499.5", "sensor-2"],
}
MARKS = {"survive_a_leader.py": pytest.mark.process, "topic_to_spark.py": pytest.mark.spark}


def test_every_example_has_a_line_here():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in SAYS])
def test_an_example_runs_as_printed(name, tmp_path):
    answer = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=800,
        env={**os.environ, **SHORT_LIVED_JAVA},
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    for words in SAYS[name]:
        assert words in answer.stdout
