"""A test switch: the whole driver dies by SIGKILL at a named step of a named batch.

The steps are those of the exactly-once protocol, in order:

    before-write        a task is about to write its first Parquet file
    after-write         a task has written its file; the driver has not heard of it
    before-commit       all tasks are done; the table knows nothing of the batch
    after-commit        the table has the batch; the driver's `commit` has not returned
    before-checkpoint   `commit` has returned and was acknowledged; Spark has not noted the batch as done

Of the sink into topics (`odradek.spark.topic_commit`) there are between before-commit and after-commit

    after-begin         whoever wrote before is fenced, and the topic does not have the batch
    after-send          the rows are sent, what the batch notes of itself is not
    before-end          all is sent, the transaction is open

Nothing in production sets it: it comes from `--die-at` of a job, which exists for the tests and for the demo.
"""

import os
import signal
import weakref
from typing import Any, NamedTuple

from odradek.model.errors import ConfigurationError

STEPS = ("before-write", "after-write", "before-commit", "after-commit", "before-checkpoint")
# Of the sink into topics, in order.
TOPIC_STEPS = (*STEPS[:3], "after-begin", "after-send", "before-end", *STEPS[3:])


class KillSwitch(NamedTuple):
    step: str = ""
    batch_id: int = -1
    pids: tuple[int, ...] = ()  # in the order in which they are killed

    def at(self, step: str, batch_id: int) -> None:
        """Kills if this is the step and the batch; returns otherwise."""
        assert step in TOPIC_STEPS
        if step == self.step and batch_id == self.batch_id:
            _kill(self.pids)

    def when_gone(self, step: str, batch_id: int, holder: Any) -> None:
        """Kills when `holder` is destroyed.

        Spark's sink process keeps its writer until after it has answered that the commit succeeded. The JVM
        then still waits for the end of the conversation before it notes the batch as done, so a kill at the
        writer's end falls between the two, and always.
        """
        assert step in TOPIC_STEPS
        if step == self.step and batch_id == self.batch_id:
            weakref.finalize(holder, _kill, self.pids)

    def to_text(self) -> str:
        return f"{self.step}:{self.batch_id}:{','.join(map(str, self.pids))}" if self.step else ""

    @classmethod
    def from_text(cls, text: str | None) -> "KillSwitch":
        if not text:
            return cls()
        step, batch_id, pids = text.split(":")
        if step not in TOPIC_STEPS:
            raise ConfigurationError(f"the kill switch knows {', '.join(TOPIC_STEPS)}, not {step!r}")
        return cls(step, int(batch_id), tuple(int(pid) for pid in pids.split(",") if pid))


def _kill(pids: tuple[int, ...]) -> None:
    # All are stopped before the first is killed: one that sees another's end would end in its own way, and say so.
    others = [pid for pid in pids if pid != os.getpid()]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in others:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
    os.kill(os.getpid(), signal.SIGKILL)


OFF = KillSwitch()
