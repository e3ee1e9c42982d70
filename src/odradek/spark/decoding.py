"""Values that are decoded on their way into a topic: `odradek spark transform --format json`, and what could not be.

Rows go on to SQL, or the records as they are where there is none; letters must not. A task leaves these aside and says so:

    DIRECTORY/_odradek/decoded/PREFIX-BATCH/RUN/STAGE-TASK.json     what a task of the batch read, and its files of letters

A task that runs again replaces what it said. SQL that names the records twice reads them twice, and Spark asks anew for the end
of the topics for each time: what one has in this batch the other may have in the next. So the letters of a batch are those of
the range that its first reading has, each offset once. A run of the query that is killed leaves what its tasks said; the next one may deal
the same offsets out to other tasks, so it counts its own alone. The driver commits the letters of a batch in one step, before the batch itself, so a
batch that is in the topic has its letters (`odradek.spark.topic_sink`). Where they go to a topic as well, they are in the transaction of the batch.
"""

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odradek.spark import tables
from odradek.spark.arrow_schema import rows_schema
from odradek.spark.checkpoints import Ranges, ranges_of_batch, topic_ids_of_batch
from odradek.spark.dead_letters import RANGES, TOPIC_IDS, Range, TakenByAnother, begun
from odradek.spark.evolution import Evolve
from odradek.spark.micro_batch import current_batch_id, current_run_id
from odradek.spark.on_error import Most
from odradek.spark.parquet import OWN_DIRECTORY, TableFile, application_prefix
from odradek.spark.shape import COLUMNS, KEPT_LETTERS, Shape
from odradek.spark.table_files import Layout, TableFiles
from odradek.spark.writing import dead_letters_of


class Decoding:
    """Runs in the tasks: records in, rows out. Of a record whose value can be read, the columns `as_they_are`, or where these
    are none, those of the value."""

    def __init__(self, shape: Shape, directory: str, app_id: str, as_they_are: tuple[str, ...] = ()) -> None:
        self._shape = shape.to_text()  # which Spark can send
        self._directory = directory
        self._app_id = app_id
        self._as_they_are = as_they_are

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "runs in a task"
        shape, wanted = Shape.from_text(self._shape), rows_schema((*COLUMNS, "headers"))
        batch_id = current_batch_id()
        letters = TableFiles(dead_letters_of(self._directory), self._app_id, batch_id, Layout())
        records = refused = 0
        read: dict[str, list[int]] = {}
        try:
            for batch in batches:
                done = shape.applied(batch.select(wanted.names).cast(wanted), batch_id=batch_id)
                letters.write(done.letters)
                records += batch.num_rows
                refused += done.refused
                _note_range(batch, read)
                if self._as_they_are:
                    yield batch.take(pa.array(done.good)).select(self._as_they_are)
                else:
                    yield done.rows
            files = letters.close()
        except BaseException:
            letters.discard()
            raise
        told = {"read": sorted(read.items()), "records": records, "refused": refused, "letters": files}
        file = f"{context.stageId()}-{context.partitionId()}.json"
        _leave(_directory(self._directory, self._app_id, batch_id) / current_run_id() / file, told)


def commit_letters(
    directory: str,
    app_id: str,
    batch_id: int,
    most: str,
    *,
    run_id: str,
    checkpoint: str = "",
    check: Callable[[], bool] | None = None,
    stage: Callable[[list[TableFile]], None] | None = None,
) -> int:
    """How many letters the batch has, as tasks of this run of the query said; TooManyLetters where that is more than
    allowed, and nothing is committed then. `checkpoint` tells how often the query reads the records, and from where to where.

    Where there are any, `check` raises first if they may not be committed, and says whether the batch itself is there. `stage` is
    given their files before the commit: of a batch that comes again that deletes them.
    TakenByAnother where it would not get all of them, ReadOtherwise where the batch was begun with fewer.
    """
    told = sorted(_told(_directory(directory, app_id, batch_id) / run_id), key=_begins)
    once = sorted(_disjoint(told), key=_begins)
    if most:
        Most.of(most).check(sum(one["refused"] for one in once), sum(one["records"] for one in once))
    is_there = check is not None and any(one["letters"] for one in told) and check()
    ranges = ranges_of_batch(checkpoint, batch_id) if checkpoint else []
    if len(ranges) < 2:
        files = [TableFile.from_json(file) for one in once for file in one["letters"]]
    else:
        files = _each_once(directory, app_id, batch_id, told, ranges[0], is_needed=stage is not None)
    topic_ids = topic_ids_of_batch(checkpoint, batch_id) if files else {}
    before = begun(dead_letters_of(directory), app_id, batch_id) if files and not is_there else None
    if before is not None:
        before.check_kept(files, topic_ids)
    if files and stage is not None:
        stage(files)
    if files:
        tables.commit(
            dead_letters_of(directory),
            app_id=app_id,
            batch_id=batch_id,
            files=files,
            parts=(),
            schema=KEPT_LETTERS,
            note={
                RANGES: _read(once)
                if len(ranges) < 2
                else [(*place, *offsets) for place, offsets in ranges[0].items()],
                **({TOPIC_IDS: topic_ids} if topic_ids else {}),
            },
            evolve=Evolve(adds=True),
        )
    return sum(file.records for file in files)


def _told(directory: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(directory.glob("*.json")):
        # What is gone another driver has taken away, to whom the batch belongs by now.
        with suppress(FileNotFoundError):
            yield json.loads(file.read_text(encoding="utf-8"))


def _disjoint(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that read most, and none that read again what one of these did."""
    found: list[dict[str, Any]] = []
    covered: dict[str, list[tuple[int, int]]] = {}
    for one in sorted(told, key=lambda one: -int(one["records"])):
        if any(
            first <= end and begin <= last
            for partition, (first, last) in one["read"]
            for begin, end in covered.get(partition, ())
        ):
            continue
        found.append(one)
        for partition, (first, last) in one["read"]:
            covered.setdefault(partition, []).append((first, last))
    return found


def _begins(one: dict[str, Any]) -> tuple[str, int, int]:
    """In this order of tasks the letters of a partition are in that of their offsets: a task has a run of what is read."""
    places = ((*place.rpartition("-"), first) for place, (first, _) in one["read"])
    return min(
        ((topic, int(partition), first) for topic, _, partition, first in places), default=("", -1, -1)
    )


def _read(told: list[dict[str, Any]]) -> list[Range]:
    """Of each task, which has read all from the first offset to the last."""
    places = ((*place.rpartition("-"), first, last) for one in told for place, (first, last) in one["read"])
    return [(topic, int(partition), first, last + 1) for topic, _, partition, first, last in places]


def _each_once(
    directory: str,
    app_id: str,
    batch_id: int,
    told: list[dict[str, Any]],
    ranges: Ranges,
    *,
    is_needed: bool,
) -> list[TableFile]:
    """Files with the letters that are within the ranges, written anew: those of tasks that read the same hold some of them twice.

    Where another driver has committed them there are none; where the letters are needed all the same, TakenByAnother."""
    table = dead_letters_of(directory)
    files = [TableFile.from_json(file) for one in told for file in one["letters"]]
    writer = TableFiles(table, app_id, batch_id, Layout())
    seen: set[tuple[str, int, int]] = set()
    try:
        for file in files:
            with pq.ParquetFile(Path(table) / file.name) as source:
                for rows in source.iter_batches():
                    writer.write(rows.filter(pa.array(list(_are_new(rows, ranges, seen)), pa.bool_())))
        return writer.close()
    except FileNotFoundError:
        writer.discard()
        opened = tables.open_table(table)
        done = None if opened is None else opened.transaction_version(app_id)
        if done is None or done < batch_id:
            raise
        if is_needed:
            raise TakenByAnother(app_id, batch_id) from None
        return []  # another driver has committed them
    except BaseException:
        writer.discard()
        raise
    finally:
        tables.abort(table, app_id=app_id, batch_id=batch_id, files=files)


def _are_new(rows: pa.RecordBatch, ranges: Ranges, seen: set[tuple[str, int, int]]) -> Iterator[bool]:
    for row in rows.select(["topic", "partition", "offset"]).to_pylist():
        place = (row["topic"], row["partition"], row["offset"])
        begin, end = ranges.get(place[:2], (0, 0))
        is_new = begin <= place[2] < end and place not in seen
        seen.add(place)
        yield is_new


def _leave(file: Path, told: dict[str, Any]) -> None:
    while True:
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_name(uuid.uuid4().hex)
        try:
            new.write_text(json.dumps(told), encoding="utf-8")
            os.replace(new, file)
            return
        except (
            FileNotFoundError
        ):  # another driver, to whom the batch belongs by now, took the directory away in between
            continue


def letters_in(directory: str, app_id: str, batch_id: int) -> int:
    """How many letters of the batch are committed."""
    table = tables.open_table(dead_letters_of(directory))
    done = None if table is None else table.transaction_version(app_id)
    if done is None or done < batch_id:
        return 0
    note = tables.noted(dead_letters_of(directory), app_id, batch_id)
    return 0 if note is None else int(note["records"])


def forget(directory: str, app_id: str, batch_id: int) -> None:
    """What tasks said of batches up to this one, which are there."""
    prefix = application_prefix(app_id)
    for path in (Path(directory) / OWN_DIRECTORY / "decoded").glob(f"{prefix}*"):
        if int(path.name[len(prefix) :]) <= batch_id:
            shutil.rmtree(path, ignore_errors=True)  # two may be at it


def _directory(directory: str, app_id: str, batch_id: int) -> Path:
    return Path(directory) / OWN_DIRECTORY / "decoded" / f"{application_prefix(app_id)}{batch_id:010d}"


def _note_range(batch: pa.RecordBatch, read: dict[str, list[int]]) -> None:
    """Of each partition the first offset that a task read, and the last."""
    if not batch.num_rows:
        return
    table = pa.table({name: batch.column(name) for name in ("topic", "partition", "offset")})
    found = table.group_by(["topic", "partition"]).aggregate([("offset", "min"), ("offset", "max")])
    for row in found.to_pylist():
        known = read.setdefault(f"{row['topic']}-{row['partition']}", [row["offset_min"], row["offset_max"]])
        known[0], known[1] = min(known[0], row["offset_min"]), max(known[1], row["offset_max"])
