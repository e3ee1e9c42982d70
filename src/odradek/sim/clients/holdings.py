"""What one member of a group believes to own, and since when; the history is told when it has let go.

It owns a partition no longer than its session: by then the coordinator may have given it up, and it has not heard of it. A request
without an answer may still be carried out, and says less than what its member has taken since. So what a member takes within
`IN_DOUBT_S` of one, and did not name in it, is not judged: Apache's protocol has the same gap.
"""

from collections.abc import Callable

from odradek.sim.checkers.sharers import Held, Shared, SharingHistory

IN_DOUBT_S = 30.0


class Holdings:
    def __init__(
        self, name: str, history: SharingHistory, session_ms: int, now_s: Callable[[], float]
    ) -> None:
        self._name = name
        self._history = history
        self._session_s = session_ms / 1000
        self._now_s = now_s
        self._owned: dict[Shared, float] = {}  # since when
        self._unsure: set[Shared] = set()  # of these
        self._said: frozenset[Shared] = frozenset()  # to be owned, in the last request without an answer
        self._lease_s = 0.0  # how long the coordinator keeps the session at least
        self._in_doubt_until_s = 0.0

    @property
    def owned(self) -> frozenset[Shared]:
        return frozenset(self._owned)

    @property
    def in_order(self) -> list[Shared]:
        """As they were taken."""
        return list(self._owned)

    def since_s(self, shared: Shared) -> float:
        return self._owned[shared]

    @property
    def is_in_doubt(self) -> bool:
        return self._now_s() < self._in_doubt_until_s

    @property
    def sure(self) -> list[Shared]:
        return sorted(shared for shared in self._owned if shared not in self._unsure)

    def go_on_as(self, name: str) -> None:
        """Another member, of which nobody has heard anything."""
        self.give_up()
        self._name = name
        self._lease_s = self._in_doubt_until_s = 0.0

    def no_answer(self) -> None:
        self._in_doubt_until_s = self._now_s() + IN_DOUBT_S
        self._said = frozenset(self._owned)

    def renewed(self, asked_s: float) -> None:
        """A request was answered that begins the session anew."""
        now_s = self._now_s()
        if now_s > self._lease_s:  # it may have been without its partitions in between
            for shared, from_s in self._owned.items():
                if shared not in self._unsure:
                    self._history.held.append(Held(self._name, shared, from_s, self._lease_s))
                self._owned[shared] = now_s
        self._lease_s = asked_s + self._session_s

    def assigned(self, assigned: frozenset[Shared]) -> None:
        """All that it is to have from now on."""
        now_s = self._now_s()
        for shared in [one for one in self._owned if one not in assigned]:
            self._let_go(shared)
        for shared in sorted(assigned):
            if shared not in self._owned:
                self._owned[shared] = now_s
                if now_s < self._in_doubt_until_s and shared not in self._said:
                    self._unsure.add(shared)

    def give_up(self) -> None:
        """It owns nothing from now on."""
        for shared in list(self._owned):
            self._let_go(shared)

    def _let_go(self, shared: Shared) -> None:
        from_s = self._owned.pop(shared)
        if shared in self._unsure:
            self._unsure.discard(shared)
            return
        until_s = min(self._now_s(), self._lease_s)
        self._history.held.append(Held(self._name, shared, from_s, until_s))
