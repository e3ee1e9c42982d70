"""A counter-example retold as a scenario of `sim.scenario`: the same steps, taken by whole brokers.

Every action of the search is a paragraph, its name the comment on top. Replicas of the search are brokers 2 and up; broker
1 is controller, and the last broker is there to be elected when 1 dies or is deposed. Requests and answers between
brokers are withheld from the start and let go one by one, as the search delivers its messages; watches of the
controllers are held while a broker comes or goes unnoticed.

What the search leaves open and a cluster cannot: who is first in the assignment. The order is chosen once, so that as
many elections as possible come out as told; before another preferred election the assignment is reordered, which is
told as well and raises the leader epoch, so later epochs are higher than in the comments by as much.

Nor does the search tell brokers apart that have done the same, and looks at what a controller decides under every
naming of them. Whole brokers have ids, and where the smaller one is asked first it matters which. So there is a scenario
for each naming, and `played_as_broken` finds the one that comes out as the search says.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import NamedTuple

from odradek.controller.unclean import PATIENCE_IN_DOUBT_MS
from odradek.sim.explore.model import Model, State
from odradek.sim.explore.values import AlterPartitionMessage, ControllerValue, ReplicaValue

FIRST_CONTROLLER = 1
FIRST_REPLICA = 2
KINDS = ("alter-partition", "altered", "leader-and-isr", "update-metadata", "end-offset")
# Of what was answered, not of the order of the assignment.
BY_ANSWERS = ("ControllerHearsEndOffset", "PatienceEnds")
IN_DOUBT = "unmounted"  # the search does not know that a kernel keeps what a killed broker wrote
NO_COUNTERPART = "# NO COUNTERPART in a whole cluster: "


class Transition(NamedTuple):
    """What stood before and after one action."""

    action: str
    before: State
    after: State


def scenarios_of(
    model: Model, actions: Sequence[str], states: Sequence[State], broken: Sequence[str]
) -> tuple[str, ...]:
    """One for each naming of the replicas, without outcomes: `scenario.play` adds them."""
    steps = [Transition(a, b, c) for a, b, c in zip(actions, states, states[1:], strict=False)]
    brokers = [b + FIRST_REPLICA for b in model.brokers]
    return tuple(_Retelling(model, steps, broken, names).text() for names in permutations(brokers))


def played_as_broken(scenarios: Sequence[str], play: Callable[[str], str]) -> tuple[str, str]:
    """(the scenario, as it came out): the first in which something broke, else the last of all."""
    for retold in scenarios:
        played = play(retold)
        if "\n! " in played:
            break
    return retold, played


class _Retelling:
    def __init__(
        self, model: Model, steps: Sequence[Transition], broken: Sequence[str], names: Sequence[int]
    ) -> None:
        self.names = names
        self.model = model
        self.steps = steps
        self.broken = broken
        self.brokers = sorted(names)
        self.spare = self.brokers[-1] + 1
        self.controller = FIRST_CONTROLLER
        self.dead: list[int] = []
        self.cut_off: list[int] = []  # from the store
        self.first_leader = self._controller(steps[0].before).stored.leader
        self.order = self._best_order()
        self.epochs_ahead = 0  # of the scenario's leader epochs

    # --- the whole

    def text(self) -> str:
        paragraphs = [self._opening()]
        for step in self.steps:
            paragraphs.append("\n".join([f"# {step.action}", *self._told(step), "----"]))
        paragraphs.append("\n".join(self._ending()))
        return "\n\n".join(paragraphs) + "\n"

    def _opening(self) -> str:
        everybody = " ".join(map(str, self.brokers))
        created = [self.first_leader, *(b for b in self.order if b != self.first_leader)]
        lines = [
            f"# Found by exhaustive search: {len(self.steps)} actions break {', '.join(self.broken)}. Replicas 0,",
            f"# 1 ... of the search are brokers {self._listed(self.names)}; 1 is controller, {self.spare} is there to be the next.",
            "",
            f"cluster brokers={self.spare} notices=no replica.lag.time.max.ms=600000",
            f"withhold fetch {everybody}",
            f"topic t replicas={self._listed(created)} min={self.model.scope.min_insync_replicas}",
        ]
        if self.order[0] != self.first_leader:
            lines += [*self._reordered(self.order), "run 1", *(f"drop fetch {b}" for b in self._followers())]
        lines += ["run 1", f"withhold fetched {everybody}"]
        lines += [f"withhold {kind} {everybody}" for kind in KINDS]
        return "\n".join([*lines, "----"])

    def _ending(self) -> list[str]:
        lines = ["# Whatever came of it: everybody is up again and hears everything.", "release", "heal"]
        lines += [f"release-watches {b}" for b in self._held()]
        lines += [f"start {b}" for b in self.dead]
        return [*lines, "settle", "log t-0", "----"]

    def _held(self) -> list[int]:
        return [b for b in (FIRST_CONTROLLER, *self.brokers, self.spare) if b not in self.dead]

    # --- one action

    def _told(self, step: Transition) -> list[str]:
        name, _, rest = step.action.partition("(")
        name = name.split(",")[0].rstrip()
        handler = getattr(self, "_" + re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower(), None)
        if handler is None:
            return [f"{NO_COUNTERPART}{name}."]
        return [*handler(step, rest), *self._left_behind(step)]

    def _left_behind(self, step: Transition) -> Iterator[str]:
        """A leader waits a while for whoever was caught up a moment ago, in the ISR or not. The search takes that while
        for over wherever the replica is no member."""
        for broker in self.brokers:
            before, after = (self._replica(state, broker) for state in (step.before, step.after))
            if after.is_alive and after.is_leader and after.high_watermark > before.high_watermark:
                for follower in after.followers:
                    if follower.broker not in after.isr or follower.broker in after.moving:
                        yield f"lag {broker} t-0 {self.names[follower.broker]}"

    def _leader_write(self, step: Transition, rest: str) -> Iterator[str]:
        yield f"produce t-0 r{_number(rest, 'record')} acks=1 to={self._who(rest)}"

    def _leader_answer_fetch(self, step: Transition, rest: str) -> Iterator[str]:
        if "the second" in rest:
            yield f"{NO_COUNTERPART}it follows no other partition that makes it send a second fetch."
        yield f"{'late-fetch' if 'late' in rest else 'let fetch'} {self.names[_number(rest, 'follower')]}"

    _leader_inc_high_watermark = _leader_answer_fetch

    def _leader_expand_isr(self, step: Transition, rest: str) -> Iterator[str]:
        if "follower=" in rest:
            yield from self._leader_answer_fetch(step, rest)
        else:
            yield "run 0.5"  # it asks again by itself

    def _follower_replicate(self, step: Transition, rest: str) -> Iterator[str]:
        yield f"let fetched {self._who(rest)}"

    _follower_truncate = _follower_replicate

    def _leader_shrink_isr(self, step: Transition, rest: str) -> Iterator[str]:
        yield f"lag {self._who(rest)} t-0 {self.names[_number(rest, 'follower')]}"

    def _leader_isr_answered(self, step: Transition, rest: str) -> Iterator[str]:
        yield f"let altered {self._who(rest)}"

    def _become_leader(self, step: Transition, rest: str) -> Iterator[str]:
        yield f"let leader-and-isr {self._who(rest)} epoch={_number(rest, 'epoch') + self.epochs_ahead}"

    _become_follower = _become_leader

    def _follower_loses_connection(self, step: Transition, rest: str) -> Iterator[str]:
        yield f"drop fetch {self._who(rest)}"

    # --- lives of brokers

    def _broker_crash(self, step: Transition, rest: str) -> Iterator[str]:
        broker = self._who(rest)
        self.dead.append(broker)
        yield f"kill {broker} {IN_DOUBT}"

    def _broker_bounces(self, step: Transition, rest: str) -> Iterator[str]:
        broker = self._who(rest)
        yield from (
            f"hold-watches {self.controller}",
            f"kill {broker} {IN_DOUBT}",
            f"expire {broker}",
            f"start {broker}",
            "run 0.5",
        )

    def _power_cut(self, step: Transition, rest: str) -> Iterator[str]:
        broker = self._who(rest)
        self.dead.append(broker)
        after = self._replica(step.after, broker)
        if after.log:
            yield f"{NO_COUNTERPART}{len(after.log)} of its records were on the disk; here it loses all of them."
        yield f"kill {broker} power=all-lost"

    def _broker_loses_disk(self, step: Transition, rest: str) -> Iterator[str]:
        yield f"wipe {self._who(rest)}"

    def _session_expires(self, step: Transition, rest: str) -> Iterator[str]:
        broker = self._who(rest)
        yield f"hold-watches {self.controller}"
        if broker not in self.dead:
            self.cut_off.append(broker)
            yield f"cut {broker} store"
        yield f"expire {broker}"

    def _broker_registers(self, step: Transition, rest: str) -> Iterator[str]:
        broker = self._who(rest)
        yield f"hold-watches {self.controller}"
        if "epoch=" in rest:  # it was told of an epoch it does not have yet, and registers for that
            yield f"let leader-and-isr {broker} epoch={_number(rest, 'epoch') + self.epochs_ahead}"
        if broker in self.cut_off:
            self.cut_off.remove(broker)
            yield f"heal {broker} store"
        yield "run 0.5"

    def _broker_start(self, step: Transition, rest: str) -> Iterator[str]:
        broker = self._who(rest)
        yield f"hold-watches {self.controller}"
        if self._replica(step.before, broker).registered:
            yield f"expire {broker}"
        self.dead.remove(broker)
        if broker in self.cut_off:
            self.cut_off.remove(broker)
            yield f"heal {broker} store"
        yield f"start {broker}"
        yield "run 0.5"

    # --- controllers

    def _controller_alter_partition(self, step: Transition, rest: str) -> Iterator[str]:
        broker = self.names[_number(rest, "from")]
        if "unanswered" in rest:
            yield "# Its answer is not heard of."
        if self._is_asked_anew(step, self.names.index(broker)):
            yield f"drop alter-partition {broker}"
        yield f"let alter-partition {broker}"

    def _is_asked_anew(self, step: Transition, leader: int) -> bool:
        """The controller heard what the leader asked when it sent its proposal again, and not what was sent first."""
        numbers = self._proposals(step.before, leader)
        asked_before = [
            n for n in numbers if any(n in self._proposals(s.before, leader) for s in self._until(step))
        ]
        if not asked_before or len(asked_before) == len(numbers):
            return False
        return not any(
            self.model.controller_values.number(decision.after) == step.after.controller
            for number in asked_before
            for decision in self.model.decisions("alter_partition", step.before.controller, number)
        )

    def _until(self, step: Transition) -> Sequence[Transition]:
        return self.steps[: next(n for n, one in enumerate(self.steps) if one is step)]

    def _proposals(self, state: State, leader: int) -> list[int]:
        """Numbers of the AlterPartition messages of `leader`."""
        found = []
        for number in self.model.message_sets.of[state.messages]:
            message = self.model.messages.of[number]
            if isinstance(message, AlterPartitionMessage) and message.source == leader:
                found.append(number)
        return found

    def _controller_elect_leader(self, step: Transition, rest: str) -> Iterator[str]:
        before, after = self._controller(step.before), self._controller(step.after)
        elected = self.names[after.stored.leader] if after.stored.leader >= 0 else -1
        if before.live != after.live or after.stored.leader < 0:
            yield from self._controller_hears_of_brokers(step, rest)
            return
        if self.order[0] != elected:
            self.order = (elected, *(b for b in self.order if b != elected))
            yield from self._reordered(self.order)
        yield "elect preferred t-0"

    def _controller_shrink_isr(self, step: Transition, rest: str) -> Iterator[str]:
        yield from self._controller_hears_of_brokers(step, rest)

    def _controller_hears_of_brokers(self, step: Transition, rest: str) -> Iterator[str]:
        yield f"release-watches {self.controller}"
        yield "run 0.2"

    def _controller_crash(self, step: Transition, rest: str) -> Iterator[str]:
        if "in the middle" in step.action:
            yield f"{NO_COUNTERPART}it dies between two of its writes; here before the first of them."
        self.dead.append(self.controller)
        yield f"kill {self.controller}"

    def _controller_elected(self, step: Transition, rest: str) -> Iterator[str]:
        if "does not notice" in step.action:
            yield from (f"hold-watches {b}" for b in (self.controller, *self.brokers) if b not in self.dead)
            yield "depose"
            yield f"wait controller={self.spare}"
            yield "run 0.2"
            self.controller = self.spare
            return
        yield from (f"hold-watches {b}" for b in self.brokers if b not in self.dead)
        yield f"expire {self.controller}"
        yield f"wait controller={self.spare}"
        yield from (f"release-watches {b}" for b in self.brokers if b not in self.dead)
        yield "run 0.2"
        self.controller = self.spare

    def _broker_answers_end_offset(self, step: Transition, rest: str) -> Iterator[str]:
        yield f"let end-offset {self._who(rest)}"

    def _controller_hears_end_offset(self, step: Transition, rest: str) -> Iterator[str]:
        yield "run 0.2"

    def _patience_ends(self, step: Transition, rest: str) -> Iterator[str]:
        yield f"run {PATIENCE_IN_DOUBT_MS // 1000 + 1}"

    # --- a controller that was deposed and has not noticed

    def _broker_hears_of_controller(self, step: Transition, rest: str) -> Iterator[str]:
        yield f"release-watches {self._who(rest)}"
        yield "run 0.2"

    def _old_controller_hears_of_brokers(self, step: Transition, rest: str) -> Iterator[str]:
        yield "# Its watches come in order: it hears of the broker, and then that it was deposed."
        yield f"release-watches {FIRST_CONTROLLER}"
        yield "run 0.2"

    def _old_controller_elects_leader(self, step: Transition, rest: str) -> Iterator[str]:
        yield f"elect preferred t-0 via={FIRST_CONTROLLER}"

    def _old_controller_alter_partition(self, step: Transition, rest: str) -> Iterator[str]:
        yield f"let alter-partition {self.names[_number(rest, 'from')]}"

    # --- helpers

    def _reordered(self, order: Sequence[int]) -> Iterator[str]:
        self.epochs_ahead += 1
        yield f"reassign t-0 to={self._listed(order)}"

    def _followers(self) -> list[int]:
        return [b for b in self.brokers if b != self.first_leader]

    def _best_order(self) -> tuple[int, ...]:
        """In which as many elections as possible come out as told; the first leader first, if that is as good."""
        self.first_leader = self.names[self.first_leader]
        elections = []
        for step in self.steps:
            before, after = self._controller(step.before), self._controller(step.after)
            if after.stored.leader not in (before.stored.leader, -1):
                live = set(after.lives)
                members = {b for b in before.stored.isr if b in live} or set(after.stored.isr)
                could = {self.names[b] for b in members} if before.live != after.live else set(self.brokers)
                leader = self.names[after.stored.leader]
                elections.append((leader, {leader} if step.action.startswith(BY_ANSWERS) else could))

        def right(order: tuple[int, ...]) -> tuple[int, bool]:
            found = 0
            for leader, could in elections:
                if next(b for b in order if b in could) != leader:
                    break  # what comes after it is another scenario
                found += 1
            return found, order[0] == self.first_leader

        return max(permutations(self.brokers), key=right)

    def _controller(self, state: State) -> ControllerValue:
        return self.model.controller_values.of[state.controller]

    def _replica(self, state: State, broker: int) -> ReplicaValue:
        return self.model.replica_values.of[state.replicas[self.names.index(broker)]]

    def _who(self, rest: str) -> int:
        found = re.match(r"\d+", rest)
        assert found is not None, f"no broker in {rest!r}"
        return self.names[int(found.group())]

    @staticmethod
    def _listed(brokers: Sequence[int]) -> str:
        return ",".join(map(str, brokers))


def _number(rest: str, name: str) -> int:
    found = re.search(rf"{name}=(\d+)", rest)
    assert found is not None, f"no {name} in {rest!r}"
    return int(found.group(1))
