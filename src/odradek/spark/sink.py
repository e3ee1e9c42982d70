"""`writeStream.format("odradek-delta")`: a stream into a Delta table, each batch exactly once.

Options: `table` (the directory) and `appId` (who writes: one checkpoint, one id). Why it is exactly once stands
in `odradek.spark.tables`. Two ways lead here.

*Rows*: any stream of rows; the tasks that have them write the Parquet files. A commit notes their count and fingerprint,
and with `rowsAreRecords=true`, where they are a topic's records as they are, which offsets of which partitions they are.

*Fused*, from `readStream.format("odradek-fused")`: where no SQL stands between topic and table, the task that
fetches also writes the Parquet. Only a description of the file crosses the JVM, and this sink commits what is
described. Several times faster, same table.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StringType, StructField, StructType

import odradek
from odradek.model.errors import ConfigurationError
from odradek.spark.micro_batch import current_batch_id
from odradek.spark.options import SourceOptions
from odradek.spark.source import OdradekSource, StreamReader, in_a_sentence, schema_of, stream_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from odradek.spark.writing import TableOptions, Written

# What the fused source yields instead of rows: the message of one task, as JSON.
DESCRIPTION = StructType([StructField("odradek_written", StringType())])
_PARQUET_OPTIONS = {"path", "appid", "rowsarerecords", "killswitch"}
_OWN_OPTIONS = {"table", "appid", "killswitch", "rowsarerecords", "shape", "upserts"}


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
        if overwrite:
            raise ConfigurationError("odradek-delta only appends: outputMode must be append")
        unknown = sorted(
            {name.lower() for name in self.options} - _OWN_OPTIONS - {"path", "checkpointlocation"}
        )
        if unknown:
            raise ConfigurationError(
                f"odradek-delta has no option {unknown[0]}; it has table, appId and rowsAreRecords"
            )
        options = table_options(self.options)
        if options.upserts and schema != DESCRIPTION:
            raise ConfigurationError(
                "upserts is for odradek-fused: of the rows of a query nobody knows which is the last of its key"
            )
        return DeltaWriter(options, schema)


class DeltaWriter(DataSourceStreamArrowWriter):
    """`write` runs in the tasks; `commit` and `abort` for the driver, in a process of its own each time."""

    def __init__(self, options: "TableOptions", schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> "Written":
        from odradek.spark.writing import Written, together, write_rows

        if self._schema == DESCRIPTION:
            told = [Written.from_text(text) for batch in iterator for text in batch.column(0).to_pylist()]
            return together(told, told[0].schema if told else DESCRIPTION)
        return write_rows(iterator, self._schema, self._options, batch_id=current_batch_id())

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        from odradek.spark import tables
        from odradek.spark.shape import LETTERS
        from odradek.spark.writing import together

        written = _written(messages)
        switch = self._options.kill_switch
        switch.at("before-commit", batchId)
        if written:
            whole = together(written, written[0].schema)
            self._check_letters(whole)
            who: dict[str, Any] = {"app_id": self._options.app_id, "batch_id": batchId}
            if whole.letters:
                # Before the rows: a batch that is in the table has its letters, whatever happens in between.
                tables.commit(
                    self._options.letters,
                    **who,
                    files=whole.letters,
                    parts=(),
                    schema=LETTERS,
                    adds_columns=True,
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
                },
            }
            if self._options.upserts:
                from odradek.spark import upsert

                upsert.merge(self._options.table, **who, **what)
            else:
                tables.commit(self._options.table, **who, **what, rows=whole.rows)
        switch.at("after-commit", batchId)
        switch.when_gone("before-checkpoint", batchId, self)

    def _check_letters(self, whole: "Written") -> None:
        from odradek.spark.on_error import Most

        shape = self._options.shape
        if shape is not None and shape.most_letters:
            records = sum(part.fingerprint.count for part in whole.parts)
            Most.of(shape.most_letters).check(whole.refused, records)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        from odradek.spark import tables

        written = _written(messages)
        if self._options.upserts:
            from odradek.spark import upsert

            upsert.discard(self._options.table, [file for w in written for file in w.files])
        for table, files in (
            (self._options.table, [file for w in written for file in w.files]),
            (self._options.letters, [file for w in written for file in w.letters]),
        ):
            tables.abort(table, app_id=self._options.app_id, batch_id=batchId, files=files)


class ParquetSink(DataSource):
    """`writeStream.format("odradek-parquet")`: the rows of any query into a directory of Parquet files, each batch exactly once."""

    @classmethod
    def name(cls) -> str:
        return "odradek-parquet"

    @in_a_sentence
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        if overwrite:
            raise ConfigurationError("odradek-parquet only appends: outputMode must be append")
        given = {name.lower(): value for name, value in self.options.items()}
        unknown = sorted(given.keys() - _PARQUET_OPTIONS - {"checkpointlocation"})
        if unknown:
            raise ConfigurationError(
                f"odradek-parquet has no option {unknown[0]}; it has path, appId and rowsAreRecords"
            )
        if not given.get("path"):
            raise ConfigurationError("the option path is missing: the directory of the files")
        return ParquetWriter(given["path"], table_options({**given, "table": given["path"]}), schema)


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
        switch = self._options.kill_switch
        switch.at("before-commit", batchId)
        if written:
            whole = together(written, written[0].schema)
            parquet_directory.commit(
                self._path,
                app_id=self._options.app_id,
                batch_id=batchId,
                files=whole.files,
                parts=whole.parts,
                rows=whole.rows,
            )
        switch.at("after-commit", batchId)
        switch.when_gone("before-checkpoint", batchId, self)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        from odradek.spark import parquet_directory

        parquet_directory.abort(self._path, [file for w in _written(messages) for file in w.files])


class FusedSource(OdradekSource):
    """The source whose tasks write the table's files themselves; takes the options of source and sink."""

    @classmethod
    def name(cls) -> str:
        return "odradek-fused"

    def schema(self) -> StructType:
        return DESCRIPTION

    @in_a_sentence
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = stream_options(
            {name: v for name, v in self.options.items() if name.lower() not in _OWN_OPTIONS}
        )
        return FusedReader(options, table_options(self.options))


class FusedReader(StreamReader):
    def __init__(self, options: SourceOptions, table: "TableOptions") -> None:
        super().__init__(options, schema_of(options))
        self._table = table

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_table": self._table}

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        from odradek.spark.writing import write_ranges

        written = write_ranges(
            partition.value, self._options.connection, self._schema, self._table, batch_id=current_batch_id()
        )
        text = pa.array([written.to_text()], pa.string())
        yield pa.record_batch([text], schema=to_arrow_schema(DESCRIPTION, timezone="UTC"))


def table_options(given: Mapping[str, str]) -> "TableOptions":
    from odradek.spark.kill_switch import KillSwitch
    from odradek.spark.shape import Shape
    from odradek.spark.writing import TableOptions

    options = {name.lower(): value for name, value in given.items()}
    for name, what in (("table", "the directory of the table"), ("appId", "a name for this writer")):
        if not options.get(name.lower()):
            raise ConfigurationError(f"the option {name} is missing: {what}")
    switch = KillSwitch.from_text(options.get("killswitch"))
    are_records = options.get("rowsarerecords", "false").lower()
    if are_records not in ("true", "false"):
        raise ConfigurationError(f"rowsAreRecords={are_records!r}: want true or false")
    shape = Shape.from_text(options["shape"]) if options.get("shape") else None
    upserts = options.get("upserts", "")
    return TableOptions(options["table"], options["appid"], switch, are_records == "true", shape, upserts)


def _written(messages: Sequence[WriterCommitMessage | None]) -> "list[Written]":
    """The messages of tasks that had something to write; of tasks that failed there is none."""
    from odradek.spark.writing import Written

    return [m for m in messages if isinstance(m, Written) and (m.files or m.parts)]
