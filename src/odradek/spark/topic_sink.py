"""`write.format("odradek")` and `writeStream.format("odradek")`: rows into topics, each batch exactly once and whole.

Columns as Spark's own connector takes them: `value` (binary or string) and, where they are there, `key`, `headers`, `topic`,
`partition`; and `timestamp`. Others are left out. Why it is exactly once stands in `odradek.spark.topic_commit`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from odradek.model.errors import ConfigurationError
from odradek.spark.micro_batch import current_batch_id

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.spark.parquet import TableFile
    from odradek.spark.topic_options import TopicOptions
    from odradek.spark.topic_writing import Staged

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])


class _Column(NamedTuple):
    kinds: tuple[DataType, ...]
    told: str


_BYTES = _Column((BinaryType(), StringType()), "binary or string")
_COLUMNS = {
    "key": _BYTES,
    "value": _BYTES,
    "headers": _Column((ArrayType(_HEADER),), "array<struct<key: string, value: binary>>"),
    "topic": _Column((StringType(),), "string"),
    "partition": _Column((IntegerType(),), "int"),
    "timestamp": _Column((TimestampType(), TimestampNTZType()), "timestamp"),
}


def batch_writer(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> "TopicWriter":
    options = _planned(given, schema, overwrite=overwrite, is_stream=False)
    if not options.is_named:
        from odradek.spark.topic_writing import sweep

        sweep(options)
    return TopicWriter(options)


def stream_writer(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> "TopicStreamWriter":
    return TopicStreamWriter(_planned(given, schema, overwrite=overwrite, is_stream=True))


def _planned(
    given: Mapping[str, str], schema: StructType, *, overwrite: bool, is_stream: bool
) -> "TopicOptions":
    from odradek.client.sync import SyncClient
    from odradek.spark.subscription import topic_to_write
    from odradek.spark.topic_options import parse_topic_options

    options = parse_topic_options(given, is_stream=is_stream)
    if overwrite:
        how = "outputMode must be append" if is_stream else 'mode("append") adds to it'
        raise ConfigurationError(f"a topic cannot be overwritten: {how}")
    check_columns(schema, options.topic)
    with SyncClient(options.connection.bootstrap, client_id=options.connection.client_id) as client:
        if options.topic is not None:
            topic_to_write(client, options.topic, "topic")
        else:
            client.cluster([])  # a wrong address is a sentence now
    return options


def check_columns(schema: StructType, topic: str | None) -> None:
    found = {field.name.lower(): field.dataType for field in schema.fields}
    if "value" not in found:
        raise ConfigurationError(
            f"there is no column value, which becomes the records' values; there are {', '.join(schema.names)}"
        )
    if topic is None and "topic" not in found:
        raise ConfigurationError("neither the option topic nor a column topic says where the rows go")
    for name, column in _COLUMNS.items():
        kind = found.get(name)
        if name == "topic" and topic is not None:
            continue
        if kind is not None and not any(_is_like(kind, wanted) for wanted in column.kinds):
            raise ConfigurationError(f"column {name} is {kind.simpleString()}; expected {column.told}")


def _is_like(kind: DataType, wanted: DataType) -> bool:
    """The same but for what may be null."""
    return kind.simpleString() == wanted.simpleString()


class TopicStreamWriter(DataSourceStreamArrowWriter):
    """`write` runs in the tasks; `commit` and `abort` for the driver, in a process of its own each time."""

    def __init__(self, options: "TopicOptions") -> None:
        self._options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> "Staged":
        from odradek.spark.topic_writing import stage

        return stage(iterator, self._options, batch_id=current_batch_id())

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _commit(self._options, messages, batchId)
        self._options.kill_switch.when_gone("before-checkpoint", batchId, self)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _abort(self._options, messages)


class TopicWriter(DataSourceArrowWriter):
    """A batch write: one transaction."""

    def __init__(self, options: "TopicOptions") -> None:
        self._options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> "Staged":
        from odradek.spark.topic_writing import stage

        return stage(iterator, self._options, batch_id=self._options.batch_id)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _commit(self._options, messages, self._options.batch_id)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _abort(self._options, messages)


def _commit(options: "TopicOptions", messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
    staged = _staged(messages)
    if not options.is_decoded:
        _commit_or_discard(options, staged, batch_id)
        return
    from odradek.spark import decoding
    from odradek.spark.kill_switch import OFF
    from odradek.spark.letters_out import stage_letters
    from odradek.spark.topic_commit import check
    from odradek.spark.topic_writing import discard
    from odradek.spark.writing import dead_letters_of

    of_letters: list[Staged] = []

    def stage(files: "Sequence[TableFile]") -> None:
        into = options._replace(topic=options.letters_topic, kill_switch=OFF)
        of_letters.append(stage_letters(dead_letters_of(options.directory), files, into, batch_id=batch_id))

    try:
        # Before the rows: a batch that is in the topic has its letters, whatever happens in between. Not those of a checkpoint
        # that is not the topic's: nobody could tell them from letters of the right one, which come again under other numbers.
        letters = decoding.commit_letters(
            options.directory,
            options.app_id,
            batch_id,
            options.most_letters,
            run_id=max((one.run_id for one in staged), default=""),
            checkpoint=options.checkpoint,
            check=lambda: check(options, staged, batch_id),
            stage=stage if options.letters_topic else None,
        )
        _commit_or_discard(options, [*staged, *of_letters], batch_id, letters=letters)
    except BaseException:
        discard(options, of_letters)  # of which Spark knows nothing
        raise
    decoding.forget(options.directory, options.app_id, batch_id)


def _commit_or_discard(
    options: "TopicOptions", staged: "Sequence[Staged]", batch_id: int, *, letters: int = 0
) -> None:
    """Of a batch without records there is no transaction."""
    from odradek.spark import left_out
    from odradek.spark.topic_commit import commit
    from odradek.spark.topic_writing import discard

    if any(one.places for one in staged):
        lost = left_out.lost_in(options.directory, options.app_id, batch_id)
        commit(options, staged, batch_id, letters=letters, lost=lost)
        left_out.forget(options.directory, options.app_id, batch_id)
    else:
        discard(options, staged)


def _abort(options: "TopicOptions", messages: Sequence[WriterCommitMessage | None]) -> None:
    """Of a commit that raised as well, even where the transaction is committed: what was staged is needed by nobody."""
    from odradek.spark.topic_writing import discard, forget

    discard(options, _staged(messages))
    if not options.is_named:  # no later batch finds what tasks have left that were killed
        forget(options, options.batch_id)


def _staged(messages: Sequence[WriterCommitMessage | None]) -> "list[Staged]":
    """Of tasks that failed there is no message."""
    from odradek.spark.topic_writing import Staged

    return [message for message in messages if isinstance(message, Staged)]
