"""Files of tests that share a Spark session, and so are all handed to one worker of pytest-xdist.

A session is a JVM with a broker, a server of forks and what Spark compiles of its first queries: ten seconds of a processor and
more. Handed out file by file, they would begin one in every worker.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any

# The fixture `spark` of `tests/spark/conftest.py`, among the arguments of a test or of a fixture.
TAKES = re.compile(r"\bdef \w+\([^)]*\bspark *[:,)]")
GROUP = "the Spark session"


@cache
def takes_the_session(file: Path) -> bool:
    return TAKES.search(file.read_text(encoding="utf-8")) is not None


def group_of(node_id: str, root: Path) -> str:
    """What one worker gets as a whole: a file, or all of those that share the session."""
    name = node_id.split("::", 1)[0]
    return GROUP if takes_the_session(root / name) else name


def scheduling(config: Any, log: Any) -> Any:
    """As `--dist loadfile` has it otherwise."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid, config.rootpath)

    return Scheduling(config, log)
