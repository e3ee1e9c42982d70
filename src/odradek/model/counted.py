"""Numbers with their noun, and names of which there may be very many, as people read them."""

from collections.abc import Sequence


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 partition`, `3 partitions`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def numbered(count: int, noun: str) -> str:
    """`3 partitions, 0 to 2`: which numbers they have."""
    return f"{counted(count, noun)}, {'number 0' if count == 1 else f'0 to {count - 1}'}"


def first_of(names: Sequence[object], most: int) -> str:
    """`a-0, a-1 and 7 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more
