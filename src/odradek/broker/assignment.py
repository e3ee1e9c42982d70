"""Where the replicas of new partitions go, as Apache computes it: in order around the brokers, over racks.

Without racks: the first replica of partition p is the broker after that of p-1; the others follow at a
distance that grows by one each time the leaders have gone round, so that the load of a dead broker spreads.

With racks: the brokers are arranged in turns of their racks, and a replica skips a broker while a rack, or
another broker, is still without a copy.

`start` and `shift` are random for a new topic. For partitions added later `start` is the place of the first
replica of partition 0, so that they go on where the topic began.
"""

from collections.abc import Mapping, Sequence

from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError
from odradek.model.ids import BrokerId

Assignment = dict[int, tuple[BrokerId, ...]]


def assign_replicas(
    racks: Mapping[int, str | None],
    *,
    partitions: int,
    replication_factor: int,
    start: int,
    shift: int,
    first_partition: int = 0,
) -> Assignment:
    """`racks` are the live brokers, by id, with their rack or None. ProtocolError says what is wrong."""
    if partitions <= 0:
        raise ProtocolError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise ProtocolError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > len(racks):
        raise ProtocolError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {len(racks)}.",
        )
    known = {broker: rack for broker, rack in racks.items() if rack is not None}
    if not known:
        return _around(sorted(racks), partitions, replication_factor, start, shift, first_partition)
    if len(known) != len(racks):
        without = sorted(set(racks) - set(known))
        raise ProtocolError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Not all brokers have rack information for replica rack aware assignment: {without} have none; "
            "set broker.rack on all or on none.",
        )
    return _over_racks(known, partitions, replication_factor, start, shift, first_partition)


def _nth(first: int, shift: int, nth: int, count: int) -> int:
    """Place of the nth further replica: somewhere behind the first, never on it."""
    return (first + 1 + (shift + nth) % (count - 1)) % count


def _around(
    brokers: Sequence[int],
    partitions: int,
    replication_factor: int,
    start: int,
    shift: int,
    first_partition: int,
) -> Assignment:
    count = len(brokers)
    assignment: Assignment = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start) % count
        replicas = [brokers[first]]
        replicas += [brokers[_nth(first, shift, nth, count)] for nth in range(replication_factor - 1)]
        assignment[partition] = tuple(map(BrokerId, replicas))
    return assignment


def _over_racks(
    racks: Mapping[int, str],
    partitions: int,
    replication_factor: int,
    start: int,
    shift: int,
    first_partition: int,
) -> Assignment:
    brokers = rack_alternated(racks)
    count = len(brokers)
    rack_count = len(set(racks.values()))
    assignment: Assignment = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start) % count
        replicas = [brokers[first]]
        used_racks = {racks[brokers[first]]}
        nth = 0
        while len(replicas) < replication_factor:
            broker = brokers[_nth(first, shift * rack_count, nth, count)]
            nth += 1
            is_rack_free = racks[broker] not in used_racks or len(used_racks) == rack_count
            is_broker_free = broker not in replicas or len(replicas) == count
            if is_rack_free and is_broker_free:
                replicas.append(broker)
                used_racks.add(racks[broker])
        assignment[partition] = tuple(map(BrokerId, replicas))
    return assignment


def rack_alternated(racks: Mapping[int, str]) -> list[int]:
    """Brokers in turns of their racks: the first of each rack by name, then the second of each, ..."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        by_rack.setdefault(racks[broker], []).append(broker)
    rows = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max(map(len, rows))
    return [row[place] for place in range(longest) for row in rows if place < len(row)]
