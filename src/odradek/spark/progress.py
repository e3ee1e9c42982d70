"""What Spark's progress of a query says of the offsets that are ours: where a batch ended, and how far behind that is.

A progress is what `query.lastProgress` gives or what a `StreamingQueryListener` is told; sources of other formats in it are
passed over.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from odradek.model.ids import TopicPartition
from odradek.spark.offsets import Offsets


def ends_of(progress: Any) -> dict[TopicPartition, int]:
    """Up to where the batch has read, of all topics of all sources that are ours; of one that is read twice, by both.

    >>> ends_of({"sources": [{"endOffset": '{"orders": {"offsets": {"0": 17}}}'}]})
    {TopicPartition(topic='orders', partition=0): 17}
    """
    ends: dict[TopicPartition, int] = {}
    for source in _sources(progress):
        for partition, end in offsets_in(_field(source, "endOffset")).items():
            ends[partition] = min(end, ends.get(partition, end))
    return ends


def lag_of(progress: Any) -> dict[TopicPartition, int]:
    """Records between the end of the batch and the end of the topic, as it was when the batch was planned.

    >>> lag_of({"sources": [{"endOffset": '{"orders": {"offsets": {"0": 17}}}',
    ...                      "latestOffset": '{"orders": {"offsets": {"0": 20}}}'}]})
    {TopicPartition(topic='orders', partition=0): 3}
    """
    lag: dict[TopicPartition, int] = {}
    for source in _sources(progress):
        latest = offsets_in(_field(source, "latestOffset"))
        for partition, end in offsets_in(_field(source, "endOffset")).items():
            lag[partition] = max(lag.get(partition, 0), latest.get(partition, end) - end)
    return lag


# Beside the offsets of a progress's `latestOffset`: how old the first record is that the batch left, by partition.
BEHIND_MS = "behindMs"


def lag_s_of(progress: Any) -> dict[TopicPartition, float]:
    """How old the first record is that the batch left in a partition, in seconds; 0 where it left none.

    Of 32 partitions at most: those of which nobody asked are not in it.

    >>> lag_s_of({"sources": [{"endOffset": '{"orders": {"offsets": {"0": 17, "1": 4}}}',
    ...     "latestOffset": '{"orders": {"behindMs": {"0": 1500}, "offsets": {"0": 20, "1": 4}}}'}]})
    {TopicPartition(topic='orders', partition=0): 1.5, TopicPartition(topic='orders', partition=1): 0.0}
    """
    found = {partition: 0.0 for partition, records in lag_of(progress).items() if not records}
    for source in _sources(progress):
        latest = _read(_field(source, "latestOffset"))
        for topic, entry in latest.items():
            ages = entry.get(BEHIND_MS, {}) if isinstance(entry, dict) else {}
            found |= {TopicPartition(topic, int(p)): ms / 1000 for p, ms in ages.items()}
    return dict(sorted(found.items()))


def offsets_in(value: Any) -> dict[TopicPartition, int]:
    """Of one field of a source, which is JSON as text or as it was read; nothing where it is not ours, or not known yet."""
    found = _read(value)
    if not all(isinstance(v, dict) and "offsets" in v for v in found.values()):
        return {}
    return {p: place.offset for p, place in Offsets.from_json(found).places.items()}


def _read(value: Any) -> dict[str, Any]:
    found = json.loads(value) if isinstance(value, str) else value
    return found if isinstance(found, dict) else {}


def _sources(progress: Any) -> Iterator[Any]:
    yield from progress["sources"] if isinstance(progress, Mapping) else progress.sources


def _field(source: Any, name: str) -> Any:
    return source[name] if isinstance(source, Mapping) else getattr(source, name)
