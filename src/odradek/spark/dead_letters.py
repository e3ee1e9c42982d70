"""The dead letters of a table: a Delta table of their own below it, read back for people and programs.

A letter that was fed again (`odradek.spark.replay`) stays where it is; that it was is noted by the commit that added its row. So
is one of an attempt that died before its rows, where a later attempt of the same batch could read the record, or where that was
planned with less, a later batch. Until that has read it, it is ahead: the record is to be read again, so nobody feeds the letter.
"""

import base64
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from odradek.model.counted import counted
from odradek.model.errors import OdradekError
from odradek.spark import tables
from odradek.spark.formats.registry import shown_url
from odradek.spark.parquet import OWN_DIRECTORY, TableFile, batch_of
from odradek.spark.shape import LETTERS, Shape
from odradek.spark.storage import storage_of
from odradek.spark.table_rows import PlacedFile, attached, files_of, path_of
from odradek.spark.writing import dead_letters_of

REPLAYED = "replayed"  # in the note of a commit: which letters its rows were
# In the note of a commit: letters whose records the application is to read again; or the batch whose note names them, and from which
# offsets on they still are. Release 0.2.0 knows letters only, and stops at the other: under another name it would feed them.
AHEAD = "ahead"
RANGES = "ranges"  # in the note of letters: what their batch has read
TOPIC_IDS = "topicIds"  # in the note of letters: of the topics that their batch has read, where they have one
_SHAPE = f"{OWN_DIRECTORY}/shape.json"
REPLAY_APP = "odradek dlq replay"
_SHOWN = [name for name in LETTERS.names if name != "timestamp"]
_IDENTITY = pa.schema([LETTERS.field(name) for name in ("topic", "partition", "offset", "timestamp")])
_IN_ROWS = pa.schema([(f"__{field.name}", field.type) for field in _IDENTITY])
_BATCH, _BATCH_BYTES = 256, 32 << 20  # of letters read at once: each may have megabytes

# A letter: topic, partition, offset, and timestamp in microseconds, because a topic may be made again.
Identity = tuple[str, int, int, int]
Range = tuple[str, int, int, int]  # topic, partition, first offset, end


class NoTable(OdradekError):
    """There is no table to have dead letters."""


class TakenByAnother(OdradekError):
    """Another driver of the application is at the batch, and its letters are no longer here."""

    def __init__(self, app_id: str, batch_id: int) -> None:
        super().__init__(
            f"batch {batch_id} of application {app_id!r} belongs to another driver by now, which has taken its dead letters: end "
            f"one of the two, and start this one again"
        )


class ReadOtherwise(OdradekError):
    """The letters of a batch are there, of an attempt that died before its rows, and now it would have more."""


class NoteGone(OdradekError):
    """The note that names some letters is in neither place, so which of them are rows, or will be, nobody knows any more."""

    def __init__(self, table: str, note: str, otherwise: str = "") -> None:
        super().__init__(
            f"{table}: {note}, which names them, is gone from {OWN_DIRECTORY}/batches and from Delta's log; put the file back from a "
            f"copy. Without one no dead letter of this table can be replayed{otherwise}"
        )


class DeadLetter(NamedTuple):
    topic: str
    partition: int
    offset: int
    error: str
    key: bytes | None
    value: bytes | None
    stage: str = "value"
    schema_id: int | None = None
    is_replayed: bool = False

    @property
    def value_text(self) -> str:
        return (self.value or b"").decode(errors="replace")

    def to_json(self) -> dict[str, Any]:
        """The bytes as they were, in base64: what is in here could not be read."""

        def as_text(data: bytes | None) -> str | None:
            return None if data is None else base64.b64encode(data).decode()

        return {**self._asdict(), "key": as_text(self.key), "value": as_text(self.value)}


def dead_letters(table: str, values: int | None = None, *, has_replayed: bool = True) -> list[DeadLetter]:
    """In the order of topic, partition, offset and timestamp, each record once.

    With `values` the first so many have their bytes, and the others have none: of some, all may not fit in memory. Without
    `has_replayed` those that were replayed are not among these.
    """
    if tables.open_table(table) is None and tables.open_table(dead_letters_of(table)) is None:
        raise NoTable(
            f"there is no Delta table at {table}, nor dead letters below it; those that go to a topic are in a table, too: below "
            f"that of the job, or below its --directory"
        )
    done = replayed(table)
    seen: set[Identity] = set()
    found: list[tuple[Identity, DeadLetter]] = []
    without: list[tuple[Identity, DeadLetter]] = []
    for letters in batches(table):
        who = identities(letters)
        # Without the timestamp: Python knows no moment after the year 9999.
        for one, row in zip(who, letters.select(_SHOWN).to_pylist(), strict=True):
            if one in seen:  # a batch that was read again, or two applications have refused it
                continue
            seen.add(one)
            place = (row["topic"], row["partition"], row["offset"])
            why = (row["error"], row["key"], row["value"], row["stage"], row["schemaId"])
            letter = DeadLetter(*place, *why, one in done)
            if has_replayed or not letter.is_replayed:
                found.append((one, letter))
            else:
                without.append((one, _without_bytes(letter)))
        if values is not None:
            found.sort(key=_identity)
            without += [(one, _without_bytes(letter)) for one, letter in found[values:]]
            del found[values:]
    return [letter for _, letter in sorted(found + without, key=_identity)]


def _identity(told: tuple[Identity, DeadLetter]) -> Identity:
    return told[0]


def _without_bytes(letter: DeadLetter) -> DeadLetter:
    return letter._replace(key=None, value=None)


def batches(table: str) -> Iterator[pa.RecordBatch]:
    """All letters that are there now, those of an application's last batch first, with the columns of `LETTERS`: null where they
    were written before there was one."""
    place = dead_letters_of(table)
    opened = tables.open_table(place)
    names = [] if opened is None else [placed.name for placed in reversed(files_of(opened))]
    return in_files(place, names, LETTERS)


def in_files(place: str, files: Iterable[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The letters of these files, with the columns of `schema`: null where a file has none."""
    storage = storage_of(place)
    for name in files:
        with storage.parquet(name) as file:
            names = [name for name in schema.names if name in file.schema_arrow.names]
            for batch in file.iter_batches(batch_size=_at_once(file.metadata), columns=names):
                columns = [
                    batch.column(field.name).cast(field.type)
                    if field.name in names
                    else pa.nulls(batch.num_rows, field.type)
                    for field in schema
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _at_once(file: pq.FileMetaData) -> int:
    size: int = sum(file.row_group(n).total_byte_size for n in range(file.num_row_groups))
    rows: int = file.num_rows
    return max(1, min(_BATCH, _BATCH_BYTES * rows // max(1, size)))


class Begun(NamedTuple):
    """A batch whose letters are committed, the last of its application that has any."""

    place: str  # of the table of letters
    app_id: str
    batch_id: int
    files: tuple[str, ...]  # of its letters
    others: tuple[str, ...]  # which have some of them where somebody has written files anew
    records: int  # letters that it has, as it noted
    ranges: tuple[Range, ...]  # that it has read; an older release noted none
    topic_ids: Mapping[str, str]  # of these topics, where they are known

    def check_kept(self, files: Iterable[TableFile], topic_ids: Mapping[str, str]) -> None:
        """Where the batch itself is not there: ReadOtherwise where its letters lack some of those in the files. As the batch has
        its letters, these would be taken by nobody, and their records be nowhere. `topic_ids`: of the topics as they are read now."""
        lost = letters_now(self.place, self.app_id, self.batch_id, files)
        for names in (self.files, self.others):
            lost -= identities_in(self.place, names) if lost else set()
        if not lost:
            return
        of_batch = f"batch {self.batch_id} of application {self.app_id!r}"
        anew = {x for x in lost if is_another_topic(self.topic_ids.get(x[0], ""), topic_ids.get(x[0], ""))}
        if anew:
            topic, partition, offset, _ = min(anew)
            raise ReadOtherwise(
                f"{self.place}: topic {topic} was deleted and created again since {of_batch} was begun, and {counted(len(anew), 'record')} "
                f"of the new one {'is a dead letter' if len(anew) == 1 else 'are dead letters'}, as at offset {offset} of "
                f"{topic}-{partition}; the dead letters of the batch are those of the old one, so nobody would have "
                f"{'it' if len(anew) == 1 else 'them'}: begin with a new checkpoint and another id of the "
                f"application (--app-id, option appId), at the first offsets that no batch before has read (--starting-offsets)"
            )
        topic, partition, offset, _ = min(lost)
        if self.ranges and not any(is_in(self.ranges, one) for one in lost):
            raise ReadOtherwise(
                f"{self.place}: {of_batch} has read more now than when it was begun, and "
                f"{counted(len(lost), 'record')} of that {'is a dead letter' if len(lost) == 1 else 'are dead letters'}, as at offset "
                f"{offset} of {topic}-{partition}; its dead letters are those of then, so nobody would have "
                f"{'it' if len(lost) == 1 else 'them'}: put its plan of then back into the checkpoint (offsets/{self.batch_id}, with its .crc), or "
                f"delete that of now and let it read less (--max-offsets-per-trigger, option maxOffsetsPerTrigger)"
            )
        raise ReadOtherwise(
            f"{self.place}: {counted(len(lost), 'record')} of {of_batch} cannot be read "
            f"now and could be when the batch was begun, as at offset {offset} of {topic}-{partition}; its dead letters are those "
            f"of then, so nobody would have them: end the batch with the options of then, or once its registry answers as it did"
        )

    def letters(self) -> set[Identity]:
        """Where somebody has written files anew, those of the ranges that the batch has read."""
        found = identities_in(self.place, self.files)
        if len(found) < self.records and self.ranges:
            found |= {one for one in identities_in(self.place, self.others) if is_in(self.ranges, one)}
        return found


def letters_now(place: str, app_id: str, batch_id: int, files: Iterable[TableFile]) -> set[Identity]:
    """Those of a batch that is not committed; TakenByAnother where its files are gone."""
    try:
        return identities_in(place, (file.name for file in files))
    except FileNotFoundError:  # as orphans, by the driver whose letters these are
        raise TakenByAnother(app_id, batch_id) from None


def rows_now(
    table: str, app_id: str, batch_id: int, files: Iterable[TableFile], letters: Collection[Identity]
) -> set[Identity]:
    """Those of the letters whose records are rows of these files, of a batch that is not committed, with our columns of where they are
    from; TakenByAnother where the files are gone."""
    offsets = pa.array(sorted({offset for _, _, offset, _ in letters}), pa.int64())
    found: set[Identity] = set()
    try:
        for file in files:
            placed = PlacedFile(file.name, file.partition, file.size_bytes)
            with storage_of(table).parquet(file.name) as source:
                names = [name for name in _IN_ROWS.names if name in source.schema_arrow.names]
                for some in source.iter_batches(columns=names):
                    rows = attached(some, placed, _IN_ROWS).select(_IN_ROWS.names)
                    rows = rows.filter(pc.is_in(rows.column("__offset"), offsets))
                    found.update(identities(rows.rename_columns(_IDENTITY.names)))
    except FileNotFoundError:
        raise TakenByAnother(app_id, batch_id) from None
    return found.intersection(letters)


def is_in(ranges: Iterable[Range], one: Identity) -> bool:
    return any(
        one[:2] == (topic, partition) and start <= one[2] < end for topic, partition, start, end in ranges
    )


def is_another_topic(before: str, now: str) -> bool:
    """By the ids of a topic of one name, "" where one is not known."""
    return bool(before and now) and before != now


def begun(place: str, app_id: str, batch_id: int) -> Begun | None:
    opened = tables.open_table(place)
    if opened is None or tables.last_batch(opened, app_id) != batch_id:
        return None
    return _begun(opened, place, app_id, batch_id)


class Ahead(NamedTuple):
    """The letters whose records an application is to read again, each with the id of its topic, "" where that is unknown."""

    letters: dict[Identity, str]
    batch_id: int = -1  # whose note names them one by one
    named: Mapping[Identity, str] = {}  # by that note

    def noted(self, letters: Mapping[Identity, str]) -> dict[str, Any]:
        """What a later batch notes, for which it is these. It does not name again each of what may be many, unless there are others."""
        if not letters:
            return {}
        first = _first_of(letters)
        if _from(self.named, first) == letters:
            offsets = [[*where, first[where]] for where in sorted(first)]
            return {AHEAD: {"batch": self.batch_id, "from": offsets}}
        by_id: dict[str, set[Identity]] = {}
        for one, topic_id in letters.items():
            by_id.setdefault(topic_id, set()).add(one)
        return {
            AHEAD: [
                {**entry, "topicId": topic_id}
                for topic_id in sorted(by_id)
                for entry in noted(by_id[topic_id])
            ]
        }


def _first_of(letters: Mapping[Identity, str]) -> dict[tuple[str, str, int], int]:
    """By topic id, topic and partition the least offset."""
    first: dict[tuple[str, str, int], int] = {}
    for (topic, partition, offset, _), topic_id in letters.items():
        where = (topic_id, topic, partition)
        first[where] = min(offset, first.get(where, offset))
    return first


def _from(letters: Mapping[Identity, str], first: Mapping[tuple[str, str, int], int]) -> dict[Identity, str]:
    return {
        one: topic_id
        for one, topic_id in letters.items()
        if (least := first.get((topic_id, *one[:2]))) is not None and least <= one[2]
    }


def ahead_of(opened: DeltaTable, app_id: str) -> Ahead:
    """Behind the application's last batch in the table. NoteGone: that refers to a batch whose note is not there."""
    done = tables.last_batch(opened, app_id)
    if done is None:
        return Ahead({})
    told, first = _told_ahead(opened, app_id, done), None
    if isinstance(told, dict):
        done, first = told["batch"], {tuple(where): least for *where, least in told["from"]}
        told = _told_ahead(opened, app_id, done)
        if not told:  # else its letters would be fed, whose records are read again, or are rows already
            raise NoteGone(
                path_of(opened.table_uri),
                f"application {app_id!r} is to read again records that are dead letters, and the note of its batch {done}",
                "; another id of the application (--app-id, option appId) with a new checkpoint, where this one was, can read on",
            )
    named = {one: entry.get("topicId", "") for entry in told for one in _in_entry(entry)}
    return Ahead(named if first is None else _from(named, first), done, named)


def _told_ahead(opened: DeltaTable, app_id: str, batch_id: int) -> Any:
    return (tables.noted_in(opened, app_id, batch_id) or {}).get(AHEAD, ())


def is_ahead(ranges: Iterable[Range], one: Identity) -> bool:
    """Whether who has read these ranges comes to the record only now. What is below them is gone from the topic."""
    return all(one[:2] != (topic, partition) or end <= one[2] for topic, partition, _, end in ranges)


def ahead(table: str) -> dict[str, set[Identity]]:
    """By application the letters whose records it is to read again."""
    opened, of_letters = tables.open_table(table), tables.open_table(dead_letters_of(table))
    found = {}
    if opened is not None and of_letters is not None:
        for app_id in sorted({note["appId"] for note in tables.notes(of_letters)}):
            if letters := ahead_of(opened, app_id).letters:
                found[app_id] = set(letters)
    return found


def not_ended(table: str) -> list[Begun]:
    """Batches whose letters are there, and that are not in the table: they come again, and may read some of these records then."""
    place = dead_letters_of(table)
    opened, of_letters = tables.open_table(table), tables.open_table(place)
    found = []
    if opened is not None and of_letters is not None:
        for app_id in sorted({note["appId"] for note in tables.notes(of_letters)}):
            last, done = tables.last_batch(of_letters, app_id), tables.last_batch(opened, app_id)
            if last is not None and (done is None or done < last):
                found.append(_begun(of_letters, place, app_id, last))
    return found


def _begun(opened: DeltaTable, place: str, app_id: str, batch_id: int) -> Begun:
    names = [placed.name for placed in files_of(opened)]
    own = {name for name in names if batch_of(name.rsplit("/", 1)[-1], app_id) == batch_id}
    others = tuple(name for name in names if name not in own)
    note = tables.noted_in(opened, app_id, batch_id) or {}
    ranges = tuple((topic, partition, start, end) for topic, partition, start, end in note.get(RANGES, ()))
    topic_ids = note.get(TOPIC_IDS, {})
    return Begun(
        place, app_id, batch_id, tuple(sorted(own)), others, note.get("records", 0), ranges, topic_ids
    )


def identities_in(place: str, names: Iterable[str]) -> set[Identity]:
    return {one for letters in in_files(place, names, _IDENTITY) for one in identities(letters)}


def identities(letters: pa.RecordBatch) -> list[Identity]:
    columns = [letters.column(name) for name in ("topic", "partition", "offset")]
    columns.append(letters.column("timestamp").cast(pa.int64()))
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def replayed(table: str) -> set[Identity]:
    """The letters whose rows are in the table."""
    opened = tables.open_table(table)
    if opened is None:
        return set()
    found: set[Identity] = set()
    for note in tables.notes(opened):
        for entry in note.get(REPLAYED, ()):
            found |= _in_entry(entry)
    return found


def _in_entry(entry: Mapping[str, Any]) -> set[Identity]:
    return {(entry["topic"], entry["partition"], *place) for place in entry["letters"]}


def noted(done: set[Identity]) -> list[dict[str, Any]]:
    """Letters as a commit's note has them."""
    by_partition: dict[tuple[str, int], list[list[int]]] = {}
    for topic, partition, offset, timestamp in sorted(done):
        by_partition.setdefault((topic, partition), []).append([offset, timestamp])
    return [
        {"topic": topic, "partition": partition, "letters": places}
        for (topic, partition), places in by_partition.items()
    ]


def keep_shape(table: str, shape: Shape) -> None:
    """How the values of a table are read, for those who feed its letters again. Without the password of a registry."""
    of_key = shape.key
    if of_key is not None:
        of_key = of_key._replace(format=of_key.format._replace(registry=shown_url(of_key.format.registry)))
    kept = shape._replace(format=shape.format._replace(registry=shown_url(shape.format.registry)), key=of_key)
    storage_of(table).replace(_SHAPE, json.dumps(kept.to_json()).encode())


def kept_shape(table: str) -> Shape | None:
    try:
        return Shape.from_text(storage_of(table).read(_SHAPE).decode())
    except FileNotFoundError:
        return None
