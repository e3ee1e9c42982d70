"""Where a query of Spark's own connector stands, read from its checkpoint: a job of ours begins there.

    CHECKPOINT/offsets/N    where batch N ends: a line with a version, one with Spark's metadata, then one a source,
                            in v2 (spark.sql.streaming.offsetLog.formatVersion) with the source's name and a colon before it
    CHECKPOINT/commits/N    batch N is done

The last batch that is done counts. One that was begun and is not done is read again by whoever goes on; whether the old
sink has some of its rows is that sink's matter.
"""

import json
from collections.abc import Collection, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from odradek.model.errors import ConfigurationError
from odradek.model.ids import NO_TOPIC_ID, TopicId, topic_id_to_text

Ranges = dict[tuple[str, int], tuple[int, int]]

# In what a sink notes of a batch: of which query it is, and where it ends in its sources (`ends_of_batch`). Older releases noted none.
QUERY_ID = "queryId"
ENDS = "ends"
_NO_ID = topic_id_to_text(TopicId(NO_TOPIC_ID))


def starting_offsets(directory: str, topics: Collection[str]) -> str:
    """As the option startingOffsets takes it. ConfigurationError says what of the checkpoint is not as it should be."""
    batch = _last_done(Path(directory))
    file = Path(directory) / "offsets" / str(batch)
    try:
        lines = _by_source(file).values()
    except OSError as error:
        raise ConfigurationError(f"--from-checkpoint {directory}: {file}: {error.strerror}") from None
    found: dict[str, Any] = {}
    for line in lines:
        for topic, partitions in _of_connector(line).items():
            if topic in found:
                raise ConfigurationError(
                    f"--from-checkpoint {directory}: several sources of that query read {topic}, each from where it stands; "
                    f"give --starting-offsets"
                )
            found[topic] = partitions
    if not found:
        raise ConfigurationError(
            f"--from-checkpoint {directory}: batch {batch} has no offsets of topics; is it of a query that reads Kafka?"
        )
    missing = sorted(set(topics) - set(found))
    if missing:
        raise ConfigurationError(
            f"--from-checkpoint {directory}: that query reads {', '.join(sorted(found))}, not {missing[0]}"
        )
    return json.dumps({topic: found[topic] for topic in sorted(topics)}, sort_keys=True)


def ranges_of_batch(directory: str, batch_id: int) -> list[Ranges]:
    """What a batch reads, by its own word, of each source of the query: {(topic, partition): (first offset, end)}.

    The first batch begins wherever its sources found the topics to begin: that is taken for 0.
    """
    ends, begins = _ends_of(Path(directory), batch_id), _ends_of(Path(directory), batch_id - 1)
    return [
        {place: (begins.get(source, {}).get(place, 0), offset) for place, offset in end.items()}
        for source, end in ends.items()
    ]


def read_nothing(directory: str, after: int, upto: int) -> bool:
    """Whether by its own word the query has read nothing in batches behind `after` (-1: from its first one), up to this one: false
    where nobody knows."""
    if not directory:
        return False
    try:
        ends, begins = ({} if batch < 0 else _ends_of(Path(directory), batch) for batch in (upto, after))
    except (OSError, ConfigurationError):
        return False
    return any(ends.values()) and all(
        offset == begins.get(source, {}).get(place, 0)
        for source, end in ends.items()
        for place, offset in end.items()
    )


def _ends_of(directory: Path, batch_id: int) -> dict[str, dict[tuple[str, int], int]]:
    try:
        lines = _by_source(directory / "offsets" / str(batch_id))
    except FileNotFoundError:
        return {}
    return {
        source: {
            (topic, int(partition)): offset
            for topic, offsets in _of_connector(line).items()
            for partition, offset in offsets.items()
        }
        for source, line in lines.items()
    }


def ends_of_batch(directory: str, batch_id: int) -> str:
    """What tells a batch from one of its number that was planned anew: a digest of where it ends, by its own word, in each source of
    the query. "" where nobody knows: in a batch write, or where the checkpoint is in no directory that is mounted here."""
    try:
        lines = _by_source(Path(directory) / "offsets" / str(batch_id)) if directory else {}
    except (OSError, ConfigurationError):
        return ""
    ends = {source: _of_connector(line) or line for source, line in lines.items()}
    return blake2b(json.dumps(ends, sort_keys=True).encode(), digest_size=8).hexdigest() if ends else ""


def topic_ids_of_batch(directory: str, batch_id: int) -> dict[str, str]:
    """Of the topics that a batch reads, where their brokers have any, by the word of the checkpoint; none where nobody knows."""
    try:
        lines = _by_source(Path(directory) / "offsets" / str(batch_id)).values() if directory else ()
    except (OSError, ConfigurationError):
        return {}
    entries = [entry for line in lines if _of_connector(line) for entry in json.loads(line).items()]
    return {topic: entry["id"] for topic, entry in entries if entry.get("id", _NO_ID) != _NO_ID}


def _by_source(file: Path) -> dict[str, str]:
    """What stands there of each source: by its place in the query, or by its name."""
    lines = file.read_text(encoding="utf-8").splitlines()
    version, sources = "".join(lines[:1]), lines[2:]  # between them stands what Spark notes for itself
    if version == "v1":
        return {str(place): line for place, line in enumerate(sources)}
    if version == "v2":
        named = (line.partition(":") for line in sources)
        return {source: offsets for source, _, offsets in sorted(named)}
    raise ConfigurationError(f"{file} is in the form {version!r}, and v1 and v2 are known")


def may_have_batches(location: str) -> bool:
    """Whether a query with this checkpointLocation may have ended a batch. Only a directory that is mounted can say no."""
    path = Path(location.removeprefix("file://").removeprefix("file:"))
    return not path.is_absolute() or not path.is_dir() or any((path / "commits").glob("[0-9]*"))


def says_otherwise(note: Mapping[str, Any], key: str, value: str) -> bool:
    """Whether the note of a batch has another `QUERY_ID`, or `ENDS`, than this. No, where one of the two does not know."""
    return bool(value) and note.get(key, value) != value


def has_begun(directory: str) -> bool:
    """Whether a query with this checkpoint goes on where that stands. One that died before it noted its first batch has left a
    directory, and begins as if it were new."""
    return any(Path(directory, "offsets").glob("[0-9]*"))


def _last_done(directory: Path) -> int:
    if not (directory / "offsets").is_dir():
        raise ConfigurationError(f"--from-checkpoint {directory}: there is no directory `offsets` in it")
    done = [int(file.name) for file in (directory / "commits").glob("*") if file.name.isdecimal()]
    if not done:
        raise ConfigurationError(
            f"--from-checkpoint {directory}: no batch is done, so there is nothing to go on from"
        )
    return max(done)


def _of_connector(line: str) -> dict[str, dict[str, int]]:
    """{topic: {partition: offset}}, or nothing where the line is of another kind of source."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    # Ours has ids and epochs beside the offsets.
    by_topic = {t: v.get("offsets", v) for t, v in found.items() if isinstance(v, dict)}
    is_ours = len(by_topic) == len(found) and all(
        isinstance(v, dict) and all(p.isdecimal() and type(offset) is int for p, offset in v.items())
        for v in by_topic.values()
    )
    return by_topic if is_ours else {}
