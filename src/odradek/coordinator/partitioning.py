"""Which partition of an internal topic a group belongs to, and with it which broker coordinates it."""

GROUPS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"


def partition_of(name: str, partitions: int) -> int:
    """`(hash & 0x7fffffff) % n`, the hash being Java's `String.hashCode`: over UTF-16 units, 32 bits."""
    hashed = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        hashed = (31 * hashed + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return (hashed & 0x7FFFFFFF) % partitions


def utf16_units(text: str) -> int:
    """The length of a string as Java counts it."""
    return len(text) + sum(1 for letter in text if letter > "\uffff")
