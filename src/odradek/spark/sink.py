"""`writeStream.format("odradek-delta")`: a stream into a Delta table, each batch exactly once; `write` for a batch.

Options: `table` (the directory) and `appId` (who writes: one checkpoint, one id). Why it is exactly once stands
in `odradek.spark.tables`. Two ways lead here.

*Rows*: any stream of rows; the tasks that have them write the Parquet files. A commit notes their count and fingerprint,
and with `rowsAreRecords=true`, where they are a topic's records as they are, which offsets of which partitions they are.

*Fused*, from `readStream.format("odradek-fused")`: where no SQL stands between topic and table, the task that
fetches also writes the Parquet. Only a description of the file crosses the JVM, and this sink commits what is
described. Several times faster, same table.
"""

import json
import os
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StringType, StructField, StructType

import odradek
from odradek.model.errors import ConfigurationError
from odradek.model.ids import NO_TOPIC_ID, TopicId, number_in, topic_id_to_text
from odradek.spark.checkpoints import may_have_batches, read_nothing
from odradek.spark.data_loss import LOST
from odradek.spark.micro_batch import current_batch_id
from odradek.spark.offsets import LARGEST
from odradek.spark.options import NUMBER, SourceOptions
from odradek.spark.places import check_directory, check_evolves, check_table
from odradek.spark.source import (
    OdradekSource,
    RangesPartition,
    StreamReader,
    in_a_sentence,
    or_refusal,
    schema_of,
    stream_options,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

    from odradek.spark.dead_letters import Ahead, Begun, Identity, Range
    from odradek.spark.parts import Part
    from odradek.spark.table_files import Layout
    from odradek.spark.writing import TableOptions, Written

T = TypeVar("T")
# As jobs have them, whose readers these are as well, and as sinks do.
ARGUMENTS = {
    "--partition-by": "partitionBy",
    "--target-file-size": "targetFileSize",
    "--sort-by": "sortBy",
    "--evolve": "evolve",
}
# What one of ours gives the other.
_INNER_OPTIONS = {"killswitch", "shape", "upserts", "deadletters"}
_SPELLED = {
    name.lower(): name
    for name in ("appId", "batchId", "rowsAreRecords", "partitionBy", "targetFileSize", "sortBy")
}
# What the fused source yields instead of rows: the message of one task, as JSON.
DESCRIPTION = StructType([StructField("odradek_written", StringType())])
_LAYOUT_OPTIONS = {"partitionby", "targetfilesize", "sortby"}
_PARQUET_OPTIONS = {"path", "appid", "rowsarerecords", "killswitch", *_LAYOUT_OPTIONS}
_OWN_OPTIONS = {
    "table",
    "appid",
    "killswitch",
    "rowsarerecords",
    "shape",
    "upserts",
    "evolve",
    *_LAYOUT_OPTIONS,
}


def register(spark: "SparkSession") -> None:
    """Makes sources and sink known where our package is not installed but shipped (`--py-files`); else Spark finds them.

    Spark plans a stream in a process of its own, which knows nothing of `--py-files` (its tasks do): it is told by its
    environment where the driver has us from, because that process runs beside the driver.
    """
    context = getattr(
        spark, "sparkContext", None
    )  # a Connect client has none; there the server's Python has us
    if context is not None:
        path = [entry for entry in context.environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
        ours = str(Path(odradek.__file__).parents[1])
        if ours not in path:
            context.environment["PYTHONPATH"] = os.pathsep.join([*path, ours])
    for known in (OdradekSource, DeltaSink, ParquetSink, FusedSource):
        spark.dataSource.register(known)


class DeltaSink(DataSource):
    @classmethod
    def name(cls) -> str:
        return "odradek-delta"

    @in_a_sentence
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return DeltaWriter(self._planned(schema, self.options, overwrite=overwrite), schema)

    @in_a_sentence
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options = self._planned(schema, self.options, overwrite=overwrite, is_stream=False)
        return BatchWriter(DeltaWriter(options, schema))

    @staticmethod
    def _planned(
        schema: StructType, given: Mapping[str, str], *, overwrite: bool, is_stream: bool = True
    ) -> "TableOptions":
        from odradek.spark import object_store, store_probe, tables

        _check_options("odradek-delta", given, _OWN_OPTIONS - _INNER_OPTIONS, overwrite, is_stream=is_stream)
        if given.get("table") and given.get("path", given["table"]) != given["table"]:
            raise ConfigurationError(
                f"path={given['path']}, of start() or save(), is not table={given['table']}: odradek-delta writes to the option "
                f"table; leave the path out"
            )
        if not (is_stream and may_have_batches(given.get("checkpointLocation", ""))):
            object_store.check_listens(given.get("table", ""))
        options = table_options(given, is_stream=is_stream)
        store_probe.check(options.table, "the option table")
        if options.upserts and schema != DESCRIPTION:
            raise ConfigurationError(
                "upserts is for odradek-fused: which row of a query is the last of its key is not known"
            )
        if schema != DESCRIPTION:
            check_layout(options.layout, schema)
        table = tables.open_table(options.table)
        if table is not None:
            tables.check_appendable(table)
        of_letters = given.get("deadLetters")
        if not of_letters:
            return options
        from odradek.spark.topic_options import parse_topic_options

        own = {"appId": f"{options.app_id}:dead-letters", "checkpointLocation": given["checkpointLocation"]}
        return options._replace(
            letters_to=parse_topic_options({**json.loads(of_letters), **own}, is_stream=True)
        )


class DeltaWriter(DataSourceStreamArrowWriter):
    """`write` runs in the tasks; `commit` and `abort` for the driver, in a process of its own each time."""

    def __init__(self, options: "TableOptions", schema: StructType) -> None:
        self.options = options
        self._schema = schema

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> "Written":
        return self.written(iterator, current_batch_id())

    def written(self, iterator: "Iterator[pa.RecordBatch]", batch_id: int) -> "Written":
        from odradek.spark.writing import Written, together, write_rows

        if self._schema == DESCRIPTION:
            told = [Written.from_text(text) for batch in iterator for text in batch.column(0).to_pylist()]
            return together(told, DESCRIPTION)
        return write_rows(iterator, self._schema, self.options, batch_id=batch_id)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        from odradek.spark import growth, tables
        from odradek.spark.dead_letters import (
            RANGES,
            REPLAYED,
            TOPIC_IDS,
            Ahead,
            ahead_of,
            begun,
            is_ahead,
            noted,
        )
        from odradek.spark.evolution import FIXED, Evolve
        from odradek.spark.shape import KEPT_LETTERS, LETTERS
        from odradek.spark.writing import together

        written = _written(messages, is_fused=self._schema == DESCRIPTION)
        switch = self.options.kill_switch
        switch.at("before-commit", batchId)
        if written:
            whole = together(written, DESCRIPTION)
            self._check_letters(whole)
            has_letters = bool(whole.letters) or self.options.shape is not None
            is_asked = batchId and (has_letters or self._schema == DESCRIPTION)
            there = tables.open_table(self.options.table) if is_asked else None
            self._check_checkpoint(whole, batchId, there)
            who: dict[str, Any] = {"app_id": self.options.app_id, "batch_id": batchId}
            ranges = [(part.topic, part.partition, part.start, part.end) for part in whole.parts]
            topic_ids = _topic_ids(whole.parts)
            before = begun(self.options.letters, **who) if has_letters else None
            known = ahead_of(there, self.options.app_id) if there is not None and has_letters else Ahead({})
            # Not from a checkpoint that is not the table's: WrongCheckpoint comes before a letter of it is anywhere.
            earlier = self._of_earlier(known, before, whole, topic_ids)
            is_new = bool(whole.letters or before or earlier) and not self._is_there(whole, batchId)
            read_now = self._read_now(whole, batchId, earlier, ranges) if earlier and is_new else set()
            ahead = {one: topic_id for one, topic_id in earlier.items() if is_ahead(ranges, one)}
            if whole.letters:
                if is_new:
                    if before is not None:
                        before.check_kept(whole.letters, topic_ids)
                    self._send_letters(whole, batchId)
                # Before the rows: a batch that is in the table has its letters, whatever happens in between.
                tables.commit(
                    self.options.letters,
                    **who,
                    files=whole.letters,
                    parts=(),
                    schema=LETTERS if self.options.letters_to is None else KEPT_LETTERS,
                    note={RANGES: ranges, **({TOPIC_IDS: topic_ids} if topic_ids else {})},
                    evolve=Evolve(adds=True),  # an older release wrote fewer
                )
            what: dict[str, Any] = {
                "files": whole.files,
                "parts": whole.parts,
                "schema": to_arrow_schema(whole.schema, timezone="UTC"),
                "note": {
                    "letters": sum(file.records for file in whole.letters),
                    "refused": whole.refused,
                    "newestMs": whole.newest_ms,
                    "files": len(whole.files),
                    **({LOST: whole.lost} if whole.lost else {}),
                    **({REPLAYED: noted(read_now)} if read_now else {}),
                    **known.noted(ahead),
                },
                "evolve": self.options.evolve,
                "query_id": whole.query_id,
                "checkpoint": self.options.checkpoint,
            }
            if self.options.upserts:
                from odradek.spark import upsert

                upsert.merge(self.options.table, **who, **what)
            else:
                tables.commit(
                    self.options.table,
                    **who,
                    **what,
                    rows=whole.rows,
                    spec=self.options.layout.spec,
                )
            if self.options.evolve != FIXED:
                growth.forget(self.options.table, self.options.app_id, batchId)
        switch.at("after-commit", batchId)
        switch.when_gone("before-checkpoint", batchId, self)

    def _is_there(self, whole: "Written", batch_id: int) -> bool:
        from odradek.spark import tables
        from odradek.spark.parts import merged

        options = self.options
        table = tables.open_table(options.table)
        return table is not None and tables.has_batch(
            table,
            options.table,
            options.app_id,
            batch_id,
            merged(whole.parts),
            whole.query_id,
            options.checkpoint,
            has_lost=whole.lost > 0,
        )

    def _of_earlier(
        self,
        known: "Ahead",
        before: "Begun | None",
        whole: "Written",
        topic_ids: "Mapping[str, str]",
    ) -> "dict[Identity, str]":
        """The letters of attempts before, whose records this batch reads or a later one, each with the id of its topic. Not those of which
        this batch has met that they are gone: lost, or of a topic that was made again. Other records have their offsets then, or none."""
        from odradek.spark.dead_letters import is_another_topic, is_in

        found = known.letters
        if before is not None:
            found = found | {one: before.topic_ids.get(one[0], "") for one in before.letters()}
        return {
            one: topic_id
            for one, topic_id in found.items()
            if not is_another_topic(topic_id, topic_ids.get(one[0], "")) and not is_in(whole.gone, one)
        }

    def _read_now(
        self, whole: "Written", batch_id: int, earlier: "Collection[Identity]", ranges: "Sequence[Range]"
    ) -> "set[Identity]":
        """Which of them are rows now. Where rows do not tell where they are from: of what the batch has read all that are no letters. Among
        these may be some that are skipped now, as their job is told to; fed again the others would be rows twice. A table with a row a key
        takes no letters, and there nobody knows which."""
        from odradek.spark.dead_letters import is_in, letters_now, rows_now

        options, shape = self.options, self.options.shape
        found = {one for one in earlier if is_in(ranges, one)}
        if not found or shape is None:
            return set()
        if shape.has_meta and not options.upserts:
            return rows_now(options.table, options.app_id, batch_id, whole.files, found)
        if options.upserts and whole.refused != sum(file.records for file in whole.letters):
            return set()
        return found - letters_now(options.letters, options.app_id, batch_id, whole.letters)

    def _send_letters(self, whole: "Written", batch_id: int) -> None:
        """Before any commit: of a batch that comes again that deletes their files."""
        from odradek.spark.letters_out import send_letters

        options, to = self.options, self.options.letters_to
        if to is None:
            return
        # A new checkpoint counts from 0 again: it is another writer, whose batches are not those of the one before.
        own = to._replace(app_id=f"{to.app_id}:{whole.query_id}")
        send_letters(options.letters, whole.letters, own, batch_id=batch_id)

    def _check_checkpoint(self, whole: "Written", batch_id: int, table: "DeltaTable | None") -> None:
        """What is fused commits every batch: a `table` without the one before has not been written from this checkpoint, or was put
        back to how it was before."""
        from odradek.spark import tables

        if self._schema != DESCRIPTION or not batch_id:
            return
        path, app_id = self.options.table, self.options.app_id
        done = None if table is None else tables.last_batch(table, app_id)
        if done is not None and done >= batch_id - 1:
            return
        if read_nothing(self.options.checkpoint, -1 if done is None else done, batch_id - 1):
            return  # an older release committed no batch without records
        # It says more where it is a batch of another query, or the store has lost commits.
        self._is_there(whole, batch_id)
        has, advice = "no batch", "begin with a checkpoint of its own (--checkpoint)"
        if done is not None:
            has = f"batch {done} as the last one"
            advice = (
                "restore the one that belongs to the table, or begin with a checkpoint and an id of its own (--checkpoint, --app-id), at "
                "the first offsets that the table lacks (--starting-offsets)"
            )
        raise tables.WrongCheckpoint(
            f"{path} has {has} of application {app_id!r}, and this checkpoint is at batch {batch_id}: it belongs to another table or "
            f"another job, or the table was re-created, was put back to how it was, or has lost commits (`odradek spark verify` says "
            f"which rows); {advice}"
        )

    def _check_letters(self, whole: "Written") -> None:
        from odradek.spark.on_error import Most

        shape = self.options.shape
        if shape is not None and shape.most_letters:
            records = sum(part.fingerprint.count for part in whole.parts)
            Most.of(shape.most_letters).check(whole.refused, records)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        from odradek.spark import tables

        written = _written(messages)
        if self.options.upserts:
            from odradek.spark import upsert

            upsert.discard(self.options.table, [file for w in written for file in w.files])
        for table, files in (
            (self.options.table, [file for w in written for file in w.files]),
            (self.options.letters, [file for w in written for file in w.letters]),
        ):
            tables.abort(
                table,
                app_id=self.options.app_id,
                batch_id=batchId,
                files=files,
                comes_again=self.options.is_named,
                was_tried=None not in messages,  # not where a task has failed
            )


class ParquetSink(DataSource):
    """`format("odradek-parquet")`: the rows of any query into a directory of Parquet files, batch and stream, each batch exactly once."""

    @classmethod
    def name(cls) -> str:
        return "odradek-parquet"

    @in_a_sentence
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return self._planned(schema, overwrite=overwrite, is_stream=True)

    @in_a_sentence
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return BatchWriter(self._planned(schema, overwrite=overwrite, is_stream=False))

    def _planned(self, schema: StructType, *, overwrite: bool, is_stream: bool) -> "ParquetWriter":
        given = {name.lower(): value for name, value in self.options.items()}
        _check_options(
            "odradek-parquet", given, _PARQUET_OPTIONS - _INNER_OPTIONS, overwrite, is_stream=is_stream
        )
        if not given.get("path"):
            raise ConfigurationError("the option path is missing: the directory of the files")
        check_directory(
            given["path"],
            "the option path",
            "a batch is shown by the renaming of a directory, which an object store has not; odradek-delta writes to s3://",
        )
        taken = [name for name in schema.names if name.lower() == "batch"]
        if taken:
            raise ConfigurationError(
                f"the rows have a column {taken[0]}, and readers take the one of that name from the directories, batch=...; give it "
                f"another name"
            )
        options = table_options({**given, "table": given["path"]}, is_stream=is_stream, is_delta=False)
        check_layout(options.layout, schema)
        return ParquetWriter(given["path"], options, schema)


class ParquetWriter(DeltaWriter):
    """Tasks write aside; what differs is the step that shows it."""

    def __init__(self, path: str, options: "TableOptions", schema: StructType) -> None:
        from odradek.spark.parquet_directory import staged

        super().__init__(options._replace(table=staged(path)), schema)
        self._path = path

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        from odradek.spark import parquet_directory
        from odradek.spark.writing import together

        written = _written(messages)
        switch = self.options.kill_switch
        switch.at("before-commit", batchId)
        if written:
            whole = together(written, DESCRIPTION)
            parquet_directory.commit(
                self._path,
                app_id=self.options.app_id,
                batch_id=batchId,
                files=whole.files,
                parts=whole.parts,
                rows=whole.rows,
                is_named=self.options.is_named,
                query_id=whole.query_id,
                checkpoint=self.options.checkpoint,
            )
        switch.at("after-commit", batchId)
        switch.when_gone("before-checkpoint", batchId, self)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        from odradek.spark import in_work, parquet_directory

        files = [file.name for w in _written(messages) for file in w.files]
        if not self.options.is_named:  # no later batch finds what tasks have left that were killed
            files += [name for _, name in in_work.listed(self.options.table, self.options.app_id, batchId)]
        parquet_directory.abort(self._path, files)


class BatchWriter(DataSourceArrowWriter):
    """A batch write: one batch of what a stream would write, and in the same step."""

    def __init__(self, writer: DeltaWriter) -> None:
        self._writer = writer
        self._batch_id = writer.options.batch_id

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> "Written":
        return self._writer.written(iterator, self._batch_id)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._writer.commit(messages, self._batch_id)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        self._writer.abort(messages, self._batch_id)


class FusedSource(OdradekSource):
    """The source whose tasks write the table's files themselves; takes the options of source and sink."""

    @classmethod
    def name(cls) -> str:
        return "odradek-fused"

    @in_a_sentence
    def schema(self) -> StructType:
        self._source_options()  # what is wrong with these is a sentence of load(), before there is a query
        return DESCRIPTION

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return or_refusal(lambda: FusedReader(self._source_options(), table_options(self.options)))

    def _source_options(self) -> SourceOptions:
        return stream_options(
            {name: v for name, v in self.options.items() if name.lower() not in _OWN_OPTIONS}
        )


class GrowingPartition(InputPartition):
    """What a task reads, and the columns of the table that it writes to."""

    def __init__(self, value: Any, there: "pa.Schema | None") -> None:
        super().__init__(value)
        self.there = there


class FusedReader(StreamReader):
    def __init__(self, options: SourceOptions, table: "TableOptions") -> None:
        super().__init__(options, schema_of(options))
        self._table = table

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_table": self._table}

    @in_a_sentence
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        from odradek.spark import growth
        from odradek.spark.evolution import FIXED

        # A batch without records has a task as well: the table notes the first of a topic that is empty, and knows the next.
        tasks = super().partitions(start, end) or [RangesPartition(())]
        if self._table.evolve == FIXED:
            return tasks
        there = growth.columns_of(self._table.table)
        return [GrowingPartition(task.value, there) for task in tasks]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        from odradek.spark.writing import write_ranges

        table = self._table
        if isinstance(partition, GrowingPartition):
            table = table._replace(there=partition.there)
        written = write_ranges(
            partition.value, self._options.connection, self._schema, table, batch_id=current_batch_id()
        )
        text = pa.array([written.to_text()], pa.string())
        yield pa.record_batch([text], schema=to_arrow_schema(DESCRIPTION, timezone="UTC"))


def _check_options(
    who: str, given: Mapping[str, str], known: set[str], overwrite: bool, *, is_stream: bool
) -> None:
    if overwrite:
        how = "outputMode must be append" if is_stream else 'mode("append") adds to what is there'
        raise ConfigurationError(f"{who} only appends: {how}")
    of_kind = {"checkpointlocation"} if is_stream else {"batchid"}
    if any(name.lower().startswith("storage.") for name in given):
        raise ConfigurationError(
            f"{who} has no options storage.*: address and credentials of an object store are in the environment of driver and "
            f"executors (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, ...), and so in no plan or log of Spark's"
        )
    unknown = sorted({name.lower() for name in given} - known - _INNER_OPTIONS - of_kind - {"path"})
    if unknown:
        names = sorted(_SPELLED.get(name, name) for name in known | (of_kind - {"checkpointlocation"}))
        raise ConfigurationError(f"{who} has no option {unknown[0]}; it has {', '.join(names)}")


def table_options(
    given: Mapping[str, str], *, is_stream: bool = True, is_delta: bool = True
) -> "TableOptions":
    from odradek.spark.evolution import Evolve
    from odradek.spark.kill_switch import KillSwitch
    from odradek.spark.shape import Shape
    from odradek.spark.table_files import Layout
    from odradek.spark.tables import layout_of
    from odradek.spark.writing import TableOptions

    options = {name.lower(): value for name, value in given.items()}
    is_named = is_stream or bool(options.get("appid"))
    needed = [("table", "the directory of the table")]
    if is_named:
        needed.append(("appId", "a name for this writer"))
    if is_named and not is_stream:
        needed.append(("batchId", NUMBER))
    for name, what in needed:
        if not options.get(name.lower()):
            raise ConfigurationError(f"the option {name} is missing: {what}")
    if is_delta:
        check_table(options["table"], "the option table")
    number = options.get("batchid", "0")
    batch_id = number_in(number, LARGEST)
    if batch_id is None or (not is_named and number != "0"):
        raise ConfigurationError(f"batchId={number!r}: expected a whole number, beside an appId")
    switch = KillSwitch.from_text(options.get("killswitch"))
    are_records = options.get("rowsarerecords", "false").lower()
    if are_records not in ("true", "false"):
        raise ConfigurationError(f"rowsAreRecords={are_records!r}: expected true or false")
    shape = Shape.from_text(options["shape"]) if options.get("shape") else None
    upserts = options.get("upserts", "")
    cut = [options.get(name, "") for name in ("partitionby", "targetfilesize", "sortby")]
    layout = _of_options(layout_of, options["table"], *cut) if is_delta else _of_options(Layout.of, *cut)
    evolve = _of_options(Evolve.of, options.get("evolve", ""))
    if evolve.changes_more:
        check_evolves(options["table"], f"the option evolve={evolve}")
    return TableOptions(
        options["table"],
        options["appid"] if is_named else uuid.uuid4().hex,
        switch,
        are_records == "true",
        shape,
        upserts,
        layout,
        evolve,
        batch_id,
        is_named,
        checkpoint=options.get("checkpointlocation", "").removeprefix("file:"),
    )


def check_layout(layout: "Layout", schema: StructType) -> None:
    """Of the rows of a query."""
    from pyspark.sql.pandas.types import to_arrow_schema

    _of_options(layout.check, to_arrow_schema(schema, timezone="UTC"))


def _of_options(read: Callable[..., T], *arguments: object) -> T:
    """A sentence that begins with an argument of a job begins with the option of a sink; what was given stays as it is."""
    try:
        return read(*arguments)
    except ConfigurationError as error:
        said = str(error)
    argument, _, what = said.partition(" ")
    raise ConfigurationError(f"{ARGUMENTS[argument]}={what}" if argument in ARGUMENTS else said)


def _topic_ids(parts: "Iterable[Part]") -> dict[str, str]:
    """Of topics that have one."""
    return {
        part.topic: topic_id_to_text(TopicId(part.topic_id)) for part in parts if part.topic_id != NO_TOPIC_ID
    }


def _written(messages: Sequence[WriterCommitMessage | None], *, is_fused: bool = False) -> "list[Written]":
    """The messages of tasks that had something to write, or where reading and writing are fused, something to tell; of tasks
    that failed there is none."""
    from odradek.spark.writing import Written

    told = [m for m in messages if isinstance(m, Written)]
    return [m for m in told if m.files or m.parts or (is_fused and m.schema != DESCRIPTION)]
