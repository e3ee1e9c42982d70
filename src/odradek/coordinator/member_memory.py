"""How much memory members of groups take, about, and how much all of a broker may take together.

A JoinGroup of a few megabytes costs its sender nothing, and what it offers is held until its session ends: a client that makes up group
after group would take all memory there is. So whoever brings more than there is room for is told COORDINATOR_NOT_AVAILABLE, which
clients try again; who is a member, and brings no more than before, is not asked. Decision 0072.
"""

from collections.abc import Iterable, Mapping

from odradek.coordinator.bounded_memory import BoundedMemory, of_text

# Over all groups of a broker. New members may have MOST_BYTES_OF_NEW of it: the rest is for what members bring that are there, as
# assignments grow while one of a group is away.
MOST_BYTES = 256 << 20
MOST_BYTES_OF_NEW = MOST_BYTES // 8 * 7
# What members of one group bring: its leader is told it in one answer, and whoever describes the group.
MOST_BYTES_OF_A_GROUP = 64 << 20
MOST_BYTES_OF_NEW_IN_A_GROUP = MOST_BYTES_OF_A_GROUP // 8 * 7

# Of objects beside their text, as they were measured: a member with what looks for it, and an id that was given.
BYTES_OF_A_MEMBER = 1_500
BYTES_OF_AN_ID = 1_000
# A member counts for no less, so one that stays below is never refused. What is known of it after a load is a part of what it will
# say again, and an assignment grows by some bytes when others come: a group must get over both wherever there is no room.
LEAST_OF_A_MEMBER = 4_000
# Of a name, or of bytes; and of a partition that is assigned, with whose it is.
BYTES_OF_A_NAME = 60
BYTES_OF_A_PARTITION = 80


class Held:
    """A number that many add to."""

    __slots__ = ("size_bytes",)

    def __init__(self) -> None:
        self.size_bytes = 0


class MemberMemory(BoundedMemory):
    def has_room(self, more_bytes: int, held_bytes: int, group_bytes: int, *, is_new: bool) -> bool:
        """`held_bytes`: by all that are there now; `group_bytes`: by those of its group."""
        most, most_of_a_group = (
            (MOST_BYTES_OF_NEW, MOST_BYTES_OF_NEW_IN_A_GROUP)
            if is_new
            else (MOST_BYTES, MOST_BYTES_OF_A_GROUP)
        )
        return held_bytes + more_bytes <= most and group_bytes + more_bytes <= most_of_a_group

    def line(self) -> str:
        return (
            f"members of groups take {self.size_bytes} of the {MOST_BYTES} bytes of memory that they may take together, {MOST_BYTES_OF_A_GROUP} "
            f"in one group: whoever joins is to come again, {self.refused} times so far; `odradek group describe` shows where members come from"
        )


def of_names(names: Iterable[str]) -> int:
    return sum(BYTES_OF_A_NAME + of_text(name) for name in names)


def of_protocols(protocols: Iterable[tuple[str, bytes]]) -> int:
    return sum(2 * BYTES_OF_A_NAME + of_text(name) + len(metadata) for name, metadata in protocols)


def of_assignment(assignment: Mapping[bytes, tuple[int, ...]]) -> int:
    return 4 * BYTES_OF_A_NAME * len(assignment) + BYTES_OF_A_PARTITION * sum(map(len, assignment.values()))
