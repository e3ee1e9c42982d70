"""Numbers with their noun, as people read them."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 partition`, `3 partitions`."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def numbered(count: int, noun: str) -> str:
    """`3 partitions, 0 to 2`: which numbers they have."""
    return f"{counted(count, noun)}, {'number 0' if count == 1 else f'0 to {count - 1}'}"
