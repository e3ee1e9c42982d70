"""Judges how long a group keeps a member that is silent."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from odradek.sim.checkers.continuity import Continuity
from odradek.sim.checkers.history import Anomaly

# Behind the end of a session: a request that is on its way, a look that comes late, a coordinator that has other work first.
LATE_S = 1.0


class Present(NamedTuple):
    """A member that a coordinator counts, and that waits for no answer of it."""

    broker: str
    group: str
    member: str  # its instance, or else its id
    session_s: float
    memory: object  # the same as long as the coordinator was not loaded again, nor the group made again


class Silences:
    """stays-silent: a group goes on without a member that has been silent for its session and `LATE_S`, by the member's own account.
    Whoever waits for an answer cannot heartbeat: its session begins when it was answered, heard or not."""

    def __init__(self) -> None:
        self._present = Continuity()

    def observe(
        self, all_present: Iterable[Present], spoke_s: Mapping[str, float], now_s: float
    ) -> Iterator[Anomaly]:
        """`spoke_s`: when a member asked something last, or was answered; of none that is not in it anything is known."""
        self._present.look(now_s)
        for one in all_present:
            key = one.broker, one.group, one.member
            silent_s = self._present.lasts_s(key, one.memory, spoke_s.get(one.member))
            if silent_s > one.session_s + LATE_S:
                yield Anomaly(
                    "stays-silent",
                    None,
                    f"{one.member} is a member of {one.group} at {one.broker}, and silent for {silent_s:.3f} s",
                )
