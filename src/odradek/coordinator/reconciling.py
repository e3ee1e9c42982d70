"""The next step of one member from what it has towards its target, and what it is told (KIP-848).

Nobody is given a partition before the one who has it said that it let go. A member that must let go keeps its epoch
until it says so; then it is given what is free, and waits for the rest:

    STABLE                 has what its epoch says; a newer target takes it on
    UNREVOKED_PARTITIONS   was told to let go of some; goes on when its owned partitions hold none of them
    UNRELEASED_PARTITIONS  is in the target's epoch; others still have some of its partitions
    UNKNOWN                written by a later version; goes on when it owns nothing
"""

from collections.abc import Callable

from odradek.coordinator.consumer_records import NOTHING, Assignment, Current, MemberState

IsFree = Callable[[bytes, int], bool]
# What a member says it owns; None: it said nothing.
Owned = Assignment | None


def next_step(
    current: Current, target: Assignment, target_epoch: int, owned: Owned, is_free: IsFree
) -> Current | None:
    """None: only whoever owns nothing may go on from a state that is not known here."""
    match current.state:
        case MemberState.STABLE:
            if current.epoch == target_epoch:
                return current
            return _towards(current, current.epoch, target, target_epoch, owned, is_free)
        case MemberState.UNREVOKED_PARTITIONS:
            if _owns_any(owned, current.revoking):
                return current
            epoch = min(current.epoch + 1, target_epoch)
            return _towards(current, epoch, target, target_epoch, owned, is_free)
        case MemberState.UNRELEASED_PARTITIONS:
            return _towards(current, current.epoch, target, target_epoch, owned, is_free)
        case MemberState.UNKNOWN:
            if owned is None or any(owned.values()):
                return None
            return _towards(current, target_epoch, target, target_epoch, owned, is_free)


def _towards(
    current: Current, epoch: int, target: Assignment, target_epoch: int, owned: Owned, is_free: IsFree
) -> Current:
    keep: dict[bytes, tuple[int, ...]] = {}
    revoke: dict[bytes, tuple[int, ...]] = {}
    for topic, partitions in current.assigned.items():
        wanted = frozenset(target.get(topic, ()))
        _put(keep, topic, tuple(one for one in partitions if one in wanted))
        _put(revoke, topic, tuple(one for one in partitions if one not in wanted))
    if revoke and _owns_any(owned, revoke):
        return Current(epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, keep, revoke)
    has: dict[bytes, tuple[int, ...]] = {}
    is_whole = True
    for topic, partitions in target.items():
        kept = frozenset(keep.get(topic, ()))
        # What is revoked here and now is the member's own, and not free for it: it is not in its target.
        taken = tuple(one for one in partitions if one in kept or is_free(topic, one))
        is_whole = is_whole and len(taken) == len(partitions)
        _put(has, topic, taken)
    state = MemberState.STABLE if is_whole else MemberState.UNRELEASED_PARTITIONS
    return Current(target_epoch, current.epoch, state, has, NOTHING)


def _put(into: dict[bytes, tuple[int, ...]], topic: bytes, partitions: tuple[int, ...]) -> None:
    if partitions:
        into[topic] = partitions


def _owns_any(owned: Owned, of: Assignment) -> bool:
    """Whoever says nothing is believed to own all."""
    if owned is None:
        return True
    return any(not frozenset(partitions).isdisjoint(owned.get(topic, ())) for topic, partitions in of.items())


def is_subset(owned: Owned, of: Assignment) -> bool:
    return owned is not None and all(
        frozenset(partitions) <= frozenset(of.get(topic, ())) for topic, partitions in owned.items()
    )


def is_same(one: Assignment, other: Assignment) -> bool:
    """Whatever the order."""
    return one.keys() == other.keys() and all(
        frozenset(partitions) == frozenset(other[topic]) for topic, partitions in one.items()
    )
