"""Cuts of followers' logs that take more than one turn: their steps are taken in slices, and what is for a thread goes aside."""

from collections.abc import Callable
from functools import partial
from typing import Any

from odradek.broker.aside import Aside
from odradek.broker.slices import Slices
from odradek.model.ids import TopicPartition
from odradek.replication.cuts import Cut
from odradek.replication.waiting import Outbox


class FollowerCuts:
    def __init__(
        self, outbox: Outbox, slices: Slices, aside: Aside, wake_fetcher: Callable[[TopicPartition], None]
    ) -> None:
        self._outbox = outbox
        self._slices = slices
        self._aside = aside
        self._wake_fetcher = wake_fetcher

    def begin(self, now_ms: int) -> None:
        """At the end of the turn in which they came."""
        cuts, self._outbox.cuts[:] = self._outbox.cuts[:], []
        for cut in cuts:
            self._go_on_with(cut, now_ms)

    def _go_on_with(self, cut: Cut, now_ms: int) -> None:
        if cut.work is None:
            self._slices.begin(partial(self._step, cut, None))
        else:
            self._aside.ask(self._aside.lookups, lambda: cut.work, partial(self._made, cut), now_ms)

    def _step(self, cut: Cut, came: Any, now_ms: int) -> bool:
        """Each in a piece of its own, for each is told something else."""
        try:
            cut.go_on(now_ms, came)
        except Exception as mistake:
            # No memory, say: the log is whole, or given up, and whoever fetches next asks anew.
            cut.give_up(f"a mistake of ours: {mistake!r}", now_ms)
            self._wake_fetcher(cut.topic_partition)
            raise
        if cut.is_over:
            self._wake_fetcher(cut.topic_partition)
        else:
            self._go_on_with(cut, now_ms)
        return False

    def _made(self, cut: Cut, came: Any, now_ms: int) -> None:
        """By the thread. The next step has a turn of its own, as all have."""
        if came is None:
            cut.give_up("what a thread had to do before it could not be done", now_ms)
            self._wake_fetcher(cut.topic_partition)
            return
        self._slices.begin(partial(self._step, cut, came))
