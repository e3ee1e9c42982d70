"""Which partition of an internal topic a group belongs to, and with it which broker coordinates it."""

from sys import byteorder

_UTF_16 = "utf-16-le" if byteorder == "little" else "utf-16-be"


def partition_of(name: str, partitions: int) -> int:
    """`(hash & 0x7fffffff) % n`, the hash being Java's `String.hashCode`: over UTF-16 units, 32 bits."""
    hashed = 0
    for unit in memoryview(name.encode(_UTF_16, "surrogatepass")).cast("H"):
        hashed = (31 * hashed + unit) & 0xFFFFFFFF
    return (hashed & 0x7FFFFFFF) % partitions


def utf16_units(text: str) -> int:
    """The length of a string as Java counts it."""
    return len(text) if text.isascii() else len(text.encode(_UTF_16, "surrogatepass")) // 2
