"""Where a reader stands in every partition, as values and as the JSON that Spark keeps in its checkpoint.

    {"orders": {"epochs": {"0": 4}, "id": "QCg8mRkXQhqbNVvHYBrTEQ", "offsets": {"0": 17}}}

Spark compares offsets as text, so the form is canonical: keys sorted, numbers ints. An epoch belongs to its
offset and changes only with it; an election without a new record must not look like news. Where the first batch of a query
ends, `began` has the same of where it begins.

The topic id tells a topic from a later one of the same name. The leader epoch is that of the leader who said that
its log reaches to the offset: whether another leader's log still does can be asked (KIP-320).
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from odradek.model.errors import ConfigurationError
from odradek.model.ids import (
    NO_TOPIC_ID,
    TopicId,
    TopicPartition,
    name_in_digits,
    topic_id_from_text,
    topic_id_to_text,
)

LATEST = -1
EARLIEST = -2
BEGAN = "began"  # beside the offsets of a topic, where a query's first batch ends: its place in `start`
LARGEST = 2**63 - 1  # of offsets and of times, on the wire


def whole(value: Any) -> int:
    """A number of JSON. ValueError where it is not whole: `int` would take 1.7 for 1, and true as well."""
    if type(value) is not int:
        raise ValueError(f"{value} is no whole number")
    return value


def partition_of(text: str) -> int:
    """Of a name in JSON; ValueError where it is none, or one in another spelling."""
    if (number := name_in_digits(text)) is None:
        raise ValueError(f"{text} is no partition")
    return number


class Place(NamedTuple):
    """The next offset to be read, and the epoch of the leader whose log reached to it (-1: not known)."""

    offset: int
    epoch: int = -1


class Offsets(NamedTuple):
    topic_ids: Mapping[str, bytes]
    places: Mapping[TopicPartition, Place]

    def to_json(self) -> dict[str, Any]:
        by_topic: dict[str, dict[str, Place]] = {}
        for partition, place in self.places.items():
            by_topic.setdefault(partition.topic, {})[str(partition.partition)] = place
        found: dict[str, Any] = {}
        for topic, members in sorted(by_topic.items()):
            places = sorted(members.items())
            found[topic] = {
                "epochs": {text: int(place.epoch) for text, place in places},
                "id": topic_id_to_text(TopicId(self.topic_ids.get(topic, NO_TOPIC_ID))),
                "offsets": {text: int(place.offset) for text, place in places},
            }
        return found

    @classmethod
    def from_json(cls, value: Mapping[str, Any], where: str = "offsets") -> "Offsets":
        """Reads our own form, and that of Spark's connector: {"orders": {"0": 17}}."""
        topic_ids: dict[str, bytes] = {}
        places: dict[TopicPartition, Place] = {}
        try:
            for topic in sorted(value):
                entry = value[topic]
                offsets = entry.get("offsets", entry)
                epochs = entry.get("epochs", {}) if "offsets" in entry else {}
                if "id" in entry:
                    topic_ids[topic] = topic_id_from_text(entry["id"])
                for text in sorted(offsets, key=partition_of):
                    offset = whole(offsets[text])
                    if not EARLIEST <= offset <= LARGEST:
                        raise ValueError(f"{offset} is no offset")
                    places[TopicPartition(topic, partition_of(text))] = Place(
                        offset, int(epochs.get(text, -1))
                    )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f'{where}: expected {{"topic":{{"partition":offset}}}} with -1 for latest and -2 for earliest, '
                f"found {value}"
            ) from error
        return cls(topic_ids, places)


def with_beginning(end: Mapping[str, Any], start: Mapping[str, Any]) -> dict[str, Any]:
    """The end of a query's first batch, which tells where that begins, too: Spark keeps ends alone, and asks a query that is
    started again within its first batch anew for the beginning. At `latest` it is another one by then, of topics that came before
    the first batch as well, which begin at 0."""
    return {topic: {**entry, BEGAN: start.get(topic, {"offsets": {}})} for topic, entry in end.items()}


def beginning_in(end: Mapping[str, Any]) -> dict[str, Any]:
    """Where the batch begins, if its end tells; else nothing."""
    return {topic: entry[BEGAN] for topic, entry in end.items() if BEGAN in entry}


def limited(
    start: Mapping[TopicPartition, Place], end: Mapping[TopicPartition, Place], most: int
) -> dict[TopicPartition, Place]:
    """As far towards `end` as `most` records go, each partition in proportion to what waits in it.

    The sum is exactly `most`, so a trigger never reads more than it was allowed; what rounding leaves over goes to partitions that
    it leaves nothing, so that none starves beside a large one, and then to those with the largest remainders.
    """
    waiting = {
        p: max(0, end[p].offset - start[p].offset if p in start else end[p].offset) for p in sorted(end)
    }
    total = sum(waiting.values())
    if total <= most:
        return dict(end)
    shares = {p: most * count // total for p, count in waiting.items()}
    spare = most - sum(shares.values())
    remainders = {p: most * count % total for p, count in waiting.items() if most * count % total}
    in_turn = sorted(remainders, key=lambda p: (shares[p] > 0, -remainders[p], p))
    for partition in in_turn[:spare]:
        shares[partition] += 1
    return {
        p: Place((start[p].offset if p in start else 0) + shares[p], end[p].epoch)
        if shares[p] < waiting[p]
        else end[p]
        for p in sorted(end)
    }


def advanced(
    start: Mapping[TopicPartition, Place], end: Mapping[TopicPartition, Place]
) -> dict[TopicPartition, Place]:
    """`end`, but where nothing is new the place of `start`, epoch and all."""
    return {p: start[p] if p in start and start[p].offset == end[p].offset else end[p] for p in sorted(end)}


def newly(start: Mapping[TopicPartition, Place], end: Iterable[TopicPartition]) -> list[TopicPartition]:
    """Partitions that were not there when `start` was taken."""
    return sorted(p for p in end if p not in start)
