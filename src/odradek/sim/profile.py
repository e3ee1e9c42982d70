"""Which share of a run is the loop, the codec, the log, the brokers, the checkers: by sampling, not by guess.

A timer of the process's CPU time fires every millisecond; the innermost frame of ours says where the time went. What
the standard library does counts for whoever of us called it.
"""

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EVERY_S = 0.001
# The first prefix that fits, of the path below `odradek/`.
SHARES = (
    ("loop", ("sim/loop", "sim/network", "sim/store")),
    ("checkers", ("sim/checkers", "sim/observed", "sim/topics", "controller/invariants")),
    ("clients", ("sim/clients", "sim/faults", "sim/run", "sim/world")),
    ("codec", ("protocol/", "client/", "server/connection")),
    ("log", ("log/", "records/")),
    ("store", ("store/",)),
    ("controller", ("controller/", "server/controller", "server/journal", "server/outboxes")),
    ("broker", ("broker/", "replication/", "server/", "coordinator/", "model/")),
)  # fmt: skip


class Shares:
    def __init__(self) -> None:
        self.samples: Counter[str] = Counter()

    def lines(self, events: int, cpu_s: float) -> Iterator[str]:
        total = sum(self.samples.values()) or 1
        yield f"{events / cpu_s:.0f} events per second of a core, of which:"
        for name, count in self.samples.most_common():
            yield f"  {name:10} {100 * count / total:5.1f} %"

    def note(self, frame: FrameType | None) -> None:
        self.samples[_share_of(frame)] += 1


@contextmanager
def sampled() -> Iterator[Shares]:
    shares = Shares()
    before = signal.signal(signal.SIGPROF, lambda _, frame: shares.note(frame))
    signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)
    try:
        yield shares
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _share_of(frame: FrameType | None) -> str:
    while frame is not None:
        path = frame.f_code.co_filename.replace("\\", "/")
        _, found, below = path.rpartition("/odradek/")
        if found:
            for name, prefixes in SHARES:
                if below.startswith(prefixes):
                    return name
            return "other"
        frame = frame.f_back
    return "other"
