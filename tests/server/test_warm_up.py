"""What a broker has in memory before its first bad moment."""

import subprocess
import sys

WARMED = """
import sys
from odradek.broker.handlers.table import HANDLERS
from odradek.server import warm_up

warm_up.warm_up()
names = [HANDLERS[key] for key, _ in warm_up._BETWEEN_BROKERS]
print(*(name for name in names if isinstance(name, str) and f"odradek.broker.handlers.{name}" not in sys.modules))
"""


def test_what_brokers_ask_of_each_other_is_handled_without_a_file_to_be_read() -> None:
    """A broker without a descriptor answered no AlterPartition, if nobody had asked it before: its handler could not be imported."""
    child = subprocess.run([sys.executable, "-c", WARMED], capture_output=True, text=True, check=True)
    assert child.stdout.split() == []
