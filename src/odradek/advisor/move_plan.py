"""Which replicas to move where: the fewest moves that reach a goal, aware of racks, load and leaders.

A goal is one of: brokers to drain, brokers to fill (new ones), another replication factor, an even spread. Every
replica that need not move stays where it is, and keeps its place in the list. What changes hands goes to the live
broker with the fewest replicas, in a rack the partition is not in before one it is in (as Apache's assignment wants
it). Last, the order of the lists that changed anyway - for a rebalance of all - is turned so that every broker is the
preferred leader of its share: that copies nothing.

The plan is `AlterPartitionReassignments` targets; nothing here knows of time, bytes or the wire.
"""

from collections.abc import Collection, Iterable, Mapping

from odradek.advisor.names import missing_topic
from odradek.controller.context import ControllerContext
from odradek.model.cluster import LeaderAndIsr
from odradek.model.ids import BrokerId, TopicPartition
from odradek.model.values import dataclass, field

Replicas = tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """One partition, before and after. `adding` are those that must copy it."""

    topic_partition: TopicPartition
    before: Replicas
    after: Replicas

    @property
    def adding(self) -> Replicas:
        return tuple(b for b in self.after if b not in self.before)

    @property
    def removing(self) -> Replicas:
        return tuple(b for b in self.before if b not in self.after)


@dataclass(frozen=True, slots=True)
class MovePlan:
    """`left_out`: partitions that cannot reach the goal, each with the reason. `waits_for`: of moves that can begin and
    not end, the brokers that are not available and must be: every replica of a target has to be in sync."""

    moves: tuple[Move, ...]
    left_out: Mapping[TopicPartition, str] = field(default_factory=dict)
    waits_for: Mapping[TopicPartition, Replicas] = field(default_factory=dict)

    @property
    def targets(self) -> dict[TopicPartition, Replicas]:
        return {move.topic_partition: move.after for move in self.moves}

    @property
    def rollback(self) -> dict[TopicPartition, Replicas]:
        return {move.topic_partition: move.before for move in self.moves}

    @property
    def copies(self) -> int:
        return sum(len(move.adding) for move in self.moves)


@dataclass(frozen=True, slots=True)
class MoveGoal:
    """`replication_factor` None: as it is. `fill`: brokers that take their share from the others."""

    drain: frozenset[BrokerId] = frozenset()
    fill: frozenset[BrokerId] = frozenset()
    replication_factor: int | None = None
    rebalance: bool = False
    topics: frozenset[str] | None = None  # None: all


def move_plan(context: ControllerContext, goal: MoveGoal) -> MovePlan:
    """Raises ValueError when the goal cannot be understood; what cannot be moved stands in `left_out`."""
    _check(context, goal)
    work = _Work(context, goal)
    if goal.replication_factor is not None:
        work.resize(goal.replication_factor)
    if goal.drain:
        work.drain()
    if goal.fill:
        work.spread(receivers=goal.fill)
    if goal.rebalance:
        work.mend_racks()
        work.spread(receivers=None)
    work.turn_leaders(everywhere=goal.rebalance)
    return work.result()


def _check(context: ControllerContext, goal: MoveGoal) -> None:
    if not (goal.drain or goal.fill or goal.rebalance or goal.replication_factor is not None):
        raise ValueError("no goal is given: drain or fill brokers, another replication factor, or rebalance")
    live = sorted(context.brokers)
    for broker in sorted(goal.fill):
        if broker not in context.brokers:
            raise ValueError(
                f"broker {broker} is not alive, so it cannot take replicas; brokers alive: {live}"
            )
        if broker in context.shutting_down_brokers:
            raise ValueError(f"broker {broker} is shutting down, so it cannot take replicas")
    known = set(context.brokers) | {b for b, held in context.partitions_on.items() if held}
    for broker in sorted(goal.drain):
        if broker not in known:
            raise ValueError(f"there is no broker {broker}; brokers are {sorted(known)}")
    if both := sorted(goal.drain & goal.fill):
        raise ValueError(f"broker {both[0]} cannot be drained and filled at once")
    for topic in sorted(goal.topics or ()):
        if topic not in context.topics:
            raise ValueError(missing_topic(context, topic))
    if goal.replication_factor is not None:
        may_take = len(_receivers(context, goal))
        if not 1 <= goal.replication_factor <= may_take:
            raise ValueError(
                f"replication factor {goal.replication_factor}: expected 1 to {may_take}, the live brokers that stay"
            )


def _receivers(context: ControllerContext, goal: MoveGoal) -> list[BrokerId]:
    """Live, staying brokers: they may take replicas."""
    leaving = context.shutting_down_brokers | goal.drain
    return sorted(b for b in context.brokers if b not in leaving)


class _Work:
    """The assignment while it is worked on, with its load by broker. Ties are broken by id, so it is repeatable."""

    def __init__(self, context: ControllerContext, goal: MoveGoal) -> None:
        self.context = context
        self.goal = goal
        self.receivers = _receivers(context, goal)
        self.rack = {b: context.brokers[b].rack for b in context.brokers}
        self.left_out: dict[TopicPartition, str] = {}
        self.now: dict[TopicPartition, list[BrokerId]] = {}
        self.held: dict[BrokerId, set[TopicPartition]] = {b: set() for b in self.receivers}
        for topic_partition in sorted(context.assignments):
            # The load counts whatever is not moved too.
            replicas = context.stored_assignment(topic_partition).target_replicas
            for broker in replicas:
                self.held.setdefault(broker, set()).add(topic_partition)
            if goal.topics is not None and topic_partition.topic not in goal.topics:
                continue
            if context.is_queued_for_deletion(topic_partition.topic):
                self.left_out[topic_partition] = "its topic is being deleted"
            elif topic_partition in context.reassignments:
                self.left_out[topic_partition] = "it is being reassigned already"
            else:
                self.now[topic_partition] = list(replicas)

    # -------------------------------------------------------------------------------------------- goals

    def resize(self, factor: int) -> None:
        for topic_partition, replicas in self.now.items():
            while len(replicas) > factor:
                self._remove(topic_partition, self._most_dispensable(topic_partition))
            while len(replicas) < factor:
                newcomer = self._newcomer(topic_partition, replicas)
                if newcomer is None:
                    self.left_out[topic_partition] = (
                        f"no other live broker can be its replica {len(replicas) + 1}"
                    )
                    break
                self._append(topic_partition, newcomer)

    def drain(self) -> None:
        for topic_partition, replicas in self.now.items():
            for broker in [b for b in replicas if b in self.goal.drain]:
                others = [b for b in replicas if b != broker]
                newcomer = self._newcomer(topic_partition, others)
                if newcomer is None:
                    self.left_out[topic_partition] = f"no other live broker can take it from broker {broker}"
                    continue
                self._replace(topic_partition, broker, newcomer)

    def spread(self, receivers: Collection[BrokerId] | None) -> None:
        """Replicas go from the fullest to the emptiest until no two differ by more than one: the fewest moves.

        With `receivers` those alone take, until they have their share of what all hold."""
        takers = sorted(receivers) if receivers is not None else self.receivers
        while self._spread_once(takers):
            pass  # what a broker took may be what another can give

    def _spread_once(self, takers: list[BrokerId]) -> bool:
        """Each pair of giver and taker looks at a partition once, so the cost stays linear in the moves."""
        to_give: dict[BrokerId, list[TopicPartition]] = {}
        seen: dict[tuple[BrokerId, BrokerId], int] = {}
        moved = False
        while any(
            self._take_one(taker, to_give, seen)
            for taker in sorted(takers, key=lambda b: (len(self.held[b]), b))
        ):
            moved = True
        return moved

    def _take_one(
        self,
        taker: BrokerId,
        to_give: dict[BrokerId, list[TopicPartition]],
        seen: dict[tuple[BrokerId, BrokerId], int],
    ) -> bool:
        for giver in sorted(self.receivers, key=lambda b: (-len(self.held[b]), b)):
            if len(self.held[giver]) <= len(self.held[taker]) + 1:
                return False
            if giver not in to_give:
                # Followers before leaders: a move of a follower disturbs no client.
                to_give[giver] = sorted(self.held[giver], key=lambda tp: (self._is_first(tp, giver), tp))
            offered = to_give[giver]
            for place in range(seen.get((giver, taker), 0), len(offered)):
                seen[giver, taker] = place + 1
                if self._may_pass(offered[place], giver, taker):
                    self._replace(offered[place], giver, taker)
                    return True
        return False

    def mend_racks(self) -> None:
        """A partition with two replicas in one rack, while another rack has none of it, swaps one."""
        for topic_partition, replicas in self.now.items():
            for broker in reversed(replicas):
                others = [b for b in replicas if b != broker]
                if self._racks([*others, broker]) > self._racks(others) or broker not in self.rack:
                    continue
                newcomer = self._newcomer(topic_partition, others)
                if newcomer is not None and self._racks([*others, newcomer]) > self._racks(others):
                    self._replace(topic_partition, broker, newcomer)

    def turn_leaders(self, *, everywhere: bool) -> None:
        """Bring another replica to the front where its broker is preferred less often, until none is by two. Never that of a
        broker that leaves, which may have kept what nobody else could take."""
        free = {
            tp: replicas
            for tp, replicas in self.now.items()
            if len(replicas) > 1 and (everywhere or tuple(replicas) != self._before(tp))
        }
        first: dict[BrokerId, int] = dict.fromkeys(self.receivers, 0)
        for topic_partition in self.context.assignments:
            replicas = (
                self.now.get(topic_partition) or self.context.stored_assignment(topic_partition).replicas
            )
            first[replicas[0]] = first.get(replicas[0], 0) + 1
        staying = frozenset(self.receivers)
        turned = True
        while turned:
            turned = False
            for replicas in free.values():
                best = min((b for b in replicas if b in staying), key=lambda b: (first[b], b), default=None)
                if best is None or first[best] + 1 >= first[replicas[0]]:
                    continue
                first[replicas[0]] -= 1
                first[best] += 1
                replicas.remove(best)
                replicas.insert(0, best)
                turned = True

    # ------------------------------------------------------------------------------------------- choices

    def _newcomer(self, topic_partition: TopicPartition, others: Iterable[BrokerId]) -> BrokerId | None:
        """The live broker that fits best beside `others`: another rack, then the fewest replicas, then its id."""
        there = list(others)
        taken = {self.rack.get(b) for b in there}
        replicas = self.now[topic_partition]
        free = [b for b in self.receivers if b not in replicas and b not in there]
        return min(
            free,
            key=lambda b: (self.rack[b] is not None and self.rack[b] in taken, len(self.held[b]), b),
            default=None,
        )

    def _most_dispensable(self, topic_partition: TopicPartition) -> BrokerId:
        """Drained or dead, then not in sync, then of a rack that has another, then the fullest; the last in the list
        before the preferred, and never the leader while somebody else is there."""
        replicas = self.now[topic_partition]
        state = self.context.leadership(topic_partition)
        isr = state.isr if state is not None else ()
        leader = state.leader if state is not None else None

        def dispensable(broker: BrokerId) -> tuple[bool, bool, bool, bool, int, int]:
            alone = self._racks(replicas) > self._racks([b for b in replicas if b != broker])
            return (
                broker != leader,
                broker not in self.receivers,
                broker not in isr,
                not alone,
                len(self.held.get(broker, ())),
                replicas.index(broker),
            )

        return max(replicas, key=dispensable)

    def _may_pass(self, topic_partition: TopicPartition, giver: BrokerId, taker: BrokerId) -> bool:
        replicas = self.now.get(topic_partition)
        if replicas is None or giver not in replicas or taker in replicas:
            return False
        others = [b for b in replicas if b != giver]
        return self._racks([*others, taker]) >= self._racks(replicas)

    def _racks(self, brokers: Iterable[BrokerId]) -> int:
        """Different racks; brokers without one count as one rack each, so that racks never stand in the way."""
        return len({self.rack.get(b) or f"broker {b}" for b in brokers})

    def _is_first(self, topic_partition: TopicPartition, broker: BrokerId) -> bool:
        return self.now.get(topic_partition, [None])[0] == broker

    # ------------------------------------------------------------------------------------------- changes

    def _replace(self, topic_partition: TopicPartition, old: BrokerId, new: BrokerId) -> None:
        replicas = self.now[topic_partition]
        replicas[replicas.index(old)] = new
        self.held[old].discard(topic_partition)
        self.held[new].add(topic_partition)

    def _remove(self, topic_partition: TopicPartition, broker: BrokerId) -> None:
        self.now[topic_partition].remove(broker)
        self.held[broker].discard(topic_partition)

    def _append(self, topic_partition: TopicPartition, broker: BrokerId) -> None:
        self.now[topic_partition].append(broker)
        self.held[broker].add(topic_partition)

    def _before(self, topic_partition: TopicPartition) -> Replicas:
        return self.context.assignments[topic_partition].replicas

    def result(self) -> MovePlan:
        moves = []
        waits_for: dict[TopicPartition, Replicas] = {}
        for topic_partition, replicas in sorted(self.now.items()):
            move = Move(topic_partition, self._before(topic_partition), tuple(replicas))
            if move.after == move.before:
                continue
            state = self.context.leadership(topic_partition)
            if move.adding and (state is None or state.leader not in self.context.brokers):
                # It would be begun and never end: copies are made of the leader's log.
                self.left_out[topic_partition] = (
                    f"it has no leader, so it cannot be copied; see odradek why {topic_partition}"
                )
            else:
                moves.append(move)
                waited_for = self._waited_for(move, state)
                if waited_for:
                    waits_for[topic_partition] = waited_for
        return MovePlan(tuple(moves), dict(sorted(self.left_out.items())), waits_for)

    def _waited_for(self, move: Move, state: LeaderAndIsr | None) -> Replicas:
        """Who must be there again before every replica of the target can be in the ISR."""
        if not (move.adding or move.removing):
            return ()
        if state is None:  # its first leader is chosen among the target, before anybody goes
            return () if self.context.online_of(move.after, move.topic_partition) else move.after
        behind = [broker for broker in move.after if broker not in state.isr]
        if not self.context.online_of((state.leader,), move.topic_partition):
            behind += state.isr  # one of them has to lead before anybody catches up, and at the end
        online = self.context.online_of(behind, move.topic_partition)
        return tuple(broker for broker in behind if broker not in online)


def bytes_by_broker(
    plan: MovePlan, sizes: Mapping[TopicPartition, int]
) -> tuple[int, dict[BrokerId, int], int]:
    """(bytes to copy in all, by receiving broker, copies whose size is not known)."""
    total, unknown = 0, 0
    received: dict[BrokerId, int] = {}
    for move in plan.moves:
        for broker in move.adding:
            size = sizes.get(move.topic_partition)
            if size is None:
                unknown += 1
                continue
            total += size
            received[broker] = received.get(broker, 0) + size
    return total, received, unknown
