"""Known bugs, each as a change of one production function that only tests make, to show that the search sees them.

A mutation is a context manager; inside it, a *new* `Model` must be made, for a model remembers what it asked.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from odradek.broker.fetch_sessions import FetchSession
from odradek.broker.handlers.fetch import FetchWait
from odradek.controller import alter_partition, broker_changes, eligible, partition_states
from odradek.log.partition_log import PartitionLog
from odradek.model.error_codes import ErrorCode
from odradek.replication import partition as partitions
from odradek.replication.follower import FollowerFetcher
from odradek.replication.isr import PendingExpandIsr, PendingShrinkIsr
from odradek.replication.partition import Partition
from odradek.replication.replica import Replica
from odradek.sim.explore.model import Model, Scope
from odradek.sim.museum.mutation import Change, applied
from odradek.store.memory import Tree


class Mutation(NamedTuple):
    name: str
    what: str
    breaks: str  # the invariant that must name it
    scope: Scope  # in which its counter-example is found soon
    apply: Callable[[], Any]


@contextmanager
def _patched(owner: Any, name: str, change: Callable[[Any], Any]) -> Iterator[None]:
    """`change` makes the new attribute from the old one."""
    old = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
    setattr(owner, name, change(old))
    try:
        yield
    finally:
        setattr(owner, name, old)


@contextmanager
def cut_to_high_watermark() -> Iterator[None]:
    """Before KIP-101: a new follower cuts its log to its own high watermark, and trusts what is left."""

    def become(old: Any) -> Any:
        def make_follower(self: Partition, leadership: Any, assignment: Any) -> None:
            self.truncate_to(self.high_watermark, 0)
            old(self, leadership, assignment)

        return make_follower

    with (
        _patched(Partition, "make_follower", become),
        _patched(Replica, "is_diverging", lambda old: lambda self, epoch, offset: None),
    ):
        yield


def mark_over_committed_isr() -> Any:
    """The high watermark does not wait for a replica the controller was asked to add."""
    return _patched(PendingExpandIsr, "maximal_isr", lambda old: property(lambda self: self.isr))


def shrink_before_the_answer() -> Any:
    """A leader counts on a smaller ISR before the controller has stored it."""
    return _patched(PendingShrinkIsr, "maximal_isr", lambda old: property(lambda self: self.proposed_isr))


@contextmanager
def no_epoch_in_fetch() -> Iterator[None]:
    """Before KIP-320: a fetch does not say which leader it means, and a log takes records of any epoch."""

    def change(old: Any) -> Any:
        def want(self: FetchSession, key: Any, index: int, current_leader_epoch: int, *rest: Any) -> Any:
            return old(self, key, index, -1, *rest)

        return want

    second_look = Change(
        PartitionLog, "append_as_follower", "if header.leader_epoch > leader_epoch:", "if False:"
    )
    with _patched(FetchSession, "want", change), applied([second_look]):
        yield


def counted_before_cut() -> Any:
    """KAFKA-13141: a fetch that has to be answered with a divergence moves the follower's position all the same."""

    def change(old: Any) -> Any:
        def look(self: FetchWait, wanted: Any, so_far: int, now_ms: int) -> Any:
            partition = wanted.partition or self._resolve(wanted)
            if wanted.current_leader_epoch == partition.leader_epoch and partition.is_leader:
                self._note_position(partition, wanted, now_ms)
            return old(self, wanted, so_far, now_ms)

        return look

    return _patched(FetchWait, "_look", change)


def elect_anybody() -> Any:
    """A leader from outside the ISR, although nobody allowed it."""

    def change(old: Any) -> Any:
        return lambda **given: old(**{**given, "isr": (), "unclean_allowed": True})

    return _patched(partition_states, "offline_leader", change)


def joins_below_the_epoch() -> Any:
    """KAFKA-7128: a follower joins the ISR at the high watermark, below the start of the leader's epoch."""

    def change(old: Any) -> Any:
        return lambda self, follower: follower.has_fetched and follower.log_end_offset >= self.high_watermark

    return _patched(Partition, "is_in_sync", change)


def rolls_back_on_doubt() -> Any:
    """A leader takes INVALID_UPDATE_VERSION or FENCED_LEADER_EPOCH for a refusal of its proposal."""
    more = {ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH}
    return _patched(partitions, "ROLL_BACK", lambda old: old | more)


def any_incarnation_joins() -> Any:
    """Before KIP-841 and KIP-903: the controller does not ask whether a new member lives, nor which life it is in."""
    return _patched(alter_partition, "_is_eligible", lambda old: lambda context, partition, member: True)


def names_the_next_life() -> Any:
    """H1: a proposal that is sent again names the follower's newest incarnation, which nobody found in sync."""

    def change(old: Any) -> Any:
        def proposal(self: Partition, own_broker_epoch: Any) -> Any:
            self._proposed_epochs = {f.broker: f.broker_epoch for f in self.followers.values()}
            return old(self, own_broker_epoch)

        return proposal

    return _patched(Partition, "proposal", change)


def shorter_is_a_prefix() -> Any:
    """KAFKA-6361: a leader that does not know the follower's epoch takes its log for a prefix."""

    def change(old: Any) -> Any:
        def is_diverging(self: Replica, epoch: int, offset: int) -> Any:
            found = old(self, epoch, offset)
            return found if found is not None and offset > self.log.log_end_offset else None

        return is_diverging

    return _patched(Replica, "is_diverging", change)


def writes_without_fence() -> Any:
    """KAFKA-6082: the store takes a write of a controller whether or not another was elected since."""

    def change(old: Any) -> Any:
        return lambda self, session_id, writes, fence: old(self, session_id, writes, None)

    return _patched(Tree, "write", change)


def bounced_is_as_before() -> Any:
    """A broker that was away and back before anybody looked keeps its place in the ISR, with what it has left."""
    line = "bounced = [b for b in sorted(now) if b in before and now[b].epoch > before[b].epoch]"
    return applied([Change(broker_changes, "tasks_of_brokers", line, "bounced = []")])


def eligible_in_its_next_life() -> Any:
    """KIP-966: an eligible replica stays eligible although it stopped without having flushed."""
    return applied(
        [Change(eligible, "plan_lost", "[broker for broker in brokers if broker in current.elr]", "[]")]
    )


def judged_one_by_one() -> Any:
    """Ours: of two that return without their records the smaller id was judged while the other was still eligible."""
    return applied([Change(eligible, "successor", "if b not in lost and ", "if ")])


def takes_an_answer_twice() -> Any:
    """An answer to a fetch sent before the last one is taken for the answer to that. (A real log would refuse the
    records it has already; the one of the search takes what it is given.)"""
    return applied([Change(FollowerFetcher, "_partition_fetched", "number < followed.named_at", "False")])


QUIET = Scope(
    broker_crashes=0, session_expirations=0, lost_connections=0, controller_crashes=0, partition_epochs=5
)
TWO = QUIET._replace(brokers=2)
CUT = TWO._replace(power_cuts=1, broker_crashes=1, records=1, min_insync_replicas=2)
SHORT = QUIET._replace(records=1, leader_epochs=2, partition_epochs=4)

MUTATIONS: tuple[Mutation, ...] = tuple(
    Mutation(make.__name__, cast(str, make.__doc__), breaks, scope, make)
    for make, breaks, scope in (
        (cut_to_high_watermark, "StrongIsr", QUIET),
        (mark_over_committed_isr, "StrongIsr", TWO),
        (shrink_before_the_answer, "StrongIsr", QUIET),
        (no_epoch_in_fetch, "TypeOk", QUIET),
        (counted_before_cut, "StrongIsr", QUIET),
        (elect_anybody, "StrongIsr", TWO._replace(session_expirations=1)),
        (joins_below_the_epoch, "StrongIsr", SHORT),
        (rolls_back_on_doubt, "StrongIsr", TWO),
        (any_incarnation_joins, "StrongIsr", TWO._replace(broker_crashes=1, lost_disks=1)),
        (names_the_next_life, "StrongIsr", TWO._replace(records=1, broker_crashes=1, lost_disks=1)),
        (shorter_is_a_prefix, "StrongIsr", QUIET),
        (writes_without_fence, "I10", TWO._replace(deposals=1)),
        (bounced_is_as_before, "I8", CUT),
        (eligible_in_its_next_life, "I8", CUT),
        (judged_one_by_one, "I8", CUT),
        (takes_an_answer_twice, "ValidHighWatermark", TWO._replace(second_fetches=True)),
    )
)


def mutated_model(mutation: Mutation) -> Model:
    model = Model(mutation.scope)
    # Without epochs in fetches, those of an older epoch are heard as well.
    model.fences_fetches = mutation.name != no_epoch_in_fetch.__name__
    return model
