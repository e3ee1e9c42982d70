"""Known bugs, each as a change of one production function that only tests make, to show that the search sees them.

A mutation is a context manager; inside it, a *new* `Model` must be made, for a model remembers what it asked.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from odradek.broker.fetch_sessions import FetchSession
from odradek.broker.handlers.fetch import FetchWait
from odradek.controller import alter_partition, partition_states
from odradek.model.error_codes import ErrorCode
from odradek.replication import partition as partitions
from odradek.replication.isr import PendingExpandIsr, PendingShrinkIsr
from odradek.replication.partition import Partition
from odradek.replication.replica import Replica
from odradek.sim.explore.model import Model, Scope
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
        def make_follower(self: Partition, leadership: Any, assignment: Any) -> bool:
            self.truncate_to(self.high_watermark, 0)
            return bool(old(self, leadership, assignment))

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


def no_epoch_in_fetch() -> Any:
    """Before KIP-320: a fetch does not say which leader it means."""

    def change(old: Any) -> Any:
        def want(self: FetchSession, key: Any, index: int, current_leader_epoch: int, *rest: Any) -> Any:
            return old(self, key, index, -1, *rest)

        return want

    return _patched(FetchSession, "want", change)


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


QUIET = Scope(
    broker_crashes=0, session_expirations=0, lost_connections=0, controller_crashes=0, partition_epochs=5
)
TWO = QUIET._replace(brokers=2)
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
    )
)


def mutated_model(mutation: Mutation) -> Model:
    model = Model(mutation.scope)
    # Without epochs in fetches, those of an older epoch are heard as well.
    model.fences_fetches = mutation.name != no_epoch_in_fetch.__name__
    return model
