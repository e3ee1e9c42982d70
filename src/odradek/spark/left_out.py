"""Offsets that tasks of a job into topics have left out as lost, until their batch notes how many.

A task that reads knows of them, and what goes to the sink is rows. So it says beside them

    DIRECTORY/_odradek/lost/PREFIX-BATCH/UUID.json     {"topic": ..., "partition": ..., "start": ..., "end": ...}

What is lost stays lost: where a task runs again, a batch comes again, or SQL reads the records twice, each offset counts once. Of a
batch without rows there is no note: what tasks said of it stays.
"""

import json
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path

from odradek.model.ids import TopicPartition
from odradek.spark.parquet import OWN_DIRECTORY, application_prefix


def leave(
    directory: str, app_id: str, batch_id: int, partition: TopicPartition, start: int, end: int
) -> None:
    """Says that the offsets [start, end) of a partition were to be read by the batch, and are gone."""
    said = {"topic": partition.topic, "partition": partition.partition, "start": start, "end": end}
    place = _directory(directory, app_id, batch_id)
    place.mkdir(parents=True, exist_ok=True)
    new = place / uuid.uuid4().hex
    new.write_text(json.dumps(said), encoding="utf-8")
    new.rename(new.with_suffix(".json"))


def lost_in(directory: str, app_id: str, batch_id: int) -> int:
    """How many offsets tasks said of the batch, each once."""
    return _count(_directory(directory, app_id, batch_id))


def lost_without_note(directory: str, app_id: str | None, noted: Iterable[tuple[str, int]]) -> int:
    """The same of all batches of one application or of all whose notes do not tell, because there are none. `noted`: of which
    there are, by application and batch. A driver that has noted one may have died before it forgot."""
    prefix = "part-" if app_id is None else application_prefix(app_id)
    told = {_directory(directory, *batch) for batch in noted}
    lost = (Path(directory) / OWN_DIRECTORY / "lost").glob(f"{prefix}*")
    return sum(_count(one) for one in lost if one not in told)


def forget(directory: str, app_id: str, batch_id: int) -> None:
    """What tasks said of a batch that has noted it."""
    shutil.rmtree(_directory(directory, app_id, batch_id), ignore_errors=True)


def _count(directory: Path) -> int:
    found = [json.loads(file.read_text(encoding="utf-8")) for file in directory.glob("*.json")]
    count = 0
    upto: dict[TopicPartition, int] = {}
    for one in sorted(found, key=lambda one: one["start"]):
        where = TopicPartition(one["topic"], one["partition"])
        start = max(one["start"], upto.get(where, 0))
        count += max(0, one["end"] - start)
        upto[where] = max(one["end"], start)
    return count


def _directory(directory: str, app_id: str, batch_id: int) -> Path:
    return Path(directory) / OWN_DIRECTORY / "lost" / f"{application_prefix(app_id)}{batch_id:010d}"
