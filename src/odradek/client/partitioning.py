"""Which partition a key belongs to: murmur2 as the Java client computes it, so that both agree."""

MULTIPLIER = 0x5BD1E995
SEED = 0x9747B28C
MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Austin Appleby's MurmurHash2, 32 bit, with the seed of the Java client."""
    h = (SEED ^ len(data)) & MASK
    whole = len(data) & ~3
    for position in range(0, whole, 4):
        k = int.from_bytes(data[position : position + 4], "little") * MULTIPLIER & MASK
        k = (k ^ (k >> 24)) * MULTIPLIER & MASK
        h = (h * MULTIPLIER & MASK) ^ k
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * MULTIPLIER & MASK
    h = (h ^ (h >> 13)) * MULTIPLIER & MASK
    return h ^ (h >> 15)


def partition_of(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions
