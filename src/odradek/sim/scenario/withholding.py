"""Verbs of scenarios that hold single requests and answers between brokers back, and let them go one by one.

| command | does, and prints |
|---|---|
| `withhold KIND B ...` | what brokers B ask or are answered waits: `fetch`, `fetched` (the answer), `alter-partition`, `altered`, `leader-and-isr`, `stop-replica`, `update-metadata`, `end-offset` (the question what B holds, before an election) |
| `let fetch B` | one fetch of B reaches its leader. What B had been answered before arrives first, if B waits for it |
| `let fetched B` | the answer arrives |
| `let alter-partition B` | one reaches the controller; an answer B has not got yet is lost, and B asks again |
| `let altered B`, `let end-offset B`, `let leader-and-isr B [epoch=E]` | the oldest goes on; `epoch`: all up to the first of that leader epoch |
| `late-fetch B`, `late-alter-partition B` | one that was under way when B gave its connection up arrives at the leader, or the controller, of then |
| `drop KIND B` | it is lost, and its connection with it |
| `release [KIND B ...]` | nothing is withheld any more |
| `lag L P B` | B has not caught up with leader L for as long as one may (`replica.lag.time.max.ms`), whatever the clock says |

`let` waits a second for what is to go on, and says so if there is nothing.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from odradek.replication.followers import NEVER_MS
from odradek.sim.faults.withheld import KINDS, Withheld, leader_epochs_of
from odradek.sim.scenario.text import Words, Wrong, partition_of
from odradek.sim.world import NotInTime, SimBroker, World

PATIENCE_S = 1.0
SOON_S = 0.05


class Withholding:
    """Mixed into the stage of a scenario."""

    if TYPE_CHECKING:

        @property
        def world(self) -> World: ...

    _broker: Callable[[str], SimBroker]
    _withheld: Withheld | None

    @property
    def withheld(self) -> Withheld:
        if self._withheld is None:
            self._withheld = Withheld(self.world)
        return self._withheld

    def do_withhold(self, words: Words) -> None:
        kind, *brokers = words.plain
        if kind not in KINDS.values():
            raise Wrong(f"nothing of the kind {kind!r} can be withheld; {', '.join(KINDS.values())} can")
        for number in brokers:
            self.withheld.withhold(kind, self._broker(number).name)

    def do_release(self, words: Words) -> None:
        kinds = words.plain[:1] or list(KINDS.values())
        names = [self._broker(n).name for n in words.plain[1:]] or [
            b.name for b in self.world.brokers.values()
        ]
        for kind in kinds:
            for name in names:
                self.withheld.release(kind, name)

    def do_let(self, words: Words) -> Iterator[str]:
        kind, number = words.plain
        name = self._broker(number).name
        withheld = self.withheld
        if kind == "fetch":
            if withheld.is_unanswered("fetch", name):
                if withheld.has("fetched", name):
                    withheld.let("fetched", name)
                else:
                    self.world.run_for(SOON_S)
                    return
        elif kind == "alter-partition" and not withheld.has(kind, name):
            withheld.drop("altered", name)
        epoch = words.named.get("epoch")

        def wanted(frame: bytes) -> bool:
            return epoch is None or int(epoch) in leader_epochs_of(frame)

        def is_waiting() -> bool:
            if withheld.has(kind, name, wanted):
                return False
            withheld.let(kind, name)  # the one that is wanted waits behind it, perhaps still with its sender
            return True

        try:
            self.world.run_while(is_waiting, PATIENCE_S, f"{kind} of {name}")
        except NotInTime:
            yield f"no {kind} of {number}{'' if epoch is None else f' in epoch {epoch}'}"
            return
        withheld.let(kind, name, wanted)
        self.world.run_for(SOON_S)

    def do_drop(self, words: Words) -> Iterator[str]:
        kind, number = words.plain
        if not self.withheld.drop(kind, self._broker(number).name):
            yield f"no {kind} of {number}"
        self.world.run_for(4 * SOON_S)

    def do_late_fetch(self, words: Words) -> Iterator[str]:
        yield from self._late("fetch", words)

    def do_late_alter_partition(self, words: Words) -> Iterator[str]:
        yield from self._late("alter-partition", words)

    def _late(self, kind: str, words: Words) -> Iterator[str]:
        if not self.withheld.late(kind, self._broker(words.plain[0]).name):
            yield f"no late {kind} of {words.plain[0]}"
        self.world.run_for(SOON_S)

    def do_lag(self, words: Words) -> Iterator[str]:
        leader, text, follower = words.plain
        broker, runtime = self._broker(leader), self._broker(leader).runtime
        assert runtime is not None and broker.host is not None
        replica = runtime.broker.replicas.partitions.get(partition_of(text))
        state = None if replica is None else replica.followers.get(self._broker(follower).broker_id)
        if replica is None or state is None or not replica.is_leader:
            yield f"{leader} does not lead {text}"
            return

        def fall_behind() -> None:
            state.last_caught_up_time_ms = NEVER_MS
            replica.shrink_if_lagging(runtime.now_ms())
            runtime.parts.gateway.end_turn()  # type: ignore[union-attr]

        self.world.loop.call_as(broker.host, fall_behind)
        self.world.run_for(SOON_S)
