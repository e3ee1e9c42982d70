"""Since when something that is looked at again and again has been there."""

from collections.abc import Hashable

# Between two looks; in a longer time it may have gone and come back, and nobody saw it.
MOST_S = 0.5


class Continuity:
    """`look` begins each look; `lasts_s` is asked then of all that is there."""

    def __init__(self) -> None:
        self._since: dict[Hashable, tuple[object, float]] = {}
        self._before: dict[Hashable, tuple[object, float]] = {}
        self._now_s = 0.0

    def look(self, now_s: float) -> None:
        self._before, self._since = self._since if now_s - self._now_s <= MOST_S else {}, {}
        self._now_s = now_s

    def lasts_s(self, key: Hashable, memory: object, begun_s: float | None) -> float:
        """How long it has been there by now, and no longer than since `begun_s`; None: nobody knows of that, and it has begun now.

        It begins now as well unless it was there at the last look, of the same `memory` (what remembers it: another one was made later).
        """
        known, since_s = self._before.get(key, (memory, self._now_s))
        if known is not memory:
            since_s = self._now_s
        self._since[key] = memory, since_s
        return 0.0 if begun_s is None else self._now_s - max(since_s, begun_s)
