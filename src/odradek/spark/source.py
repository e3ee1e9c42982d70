"""`spark.read.format("odradek")` and `spark.readStream.format("odradek")`.

    driver:    options -> partitions and offsets -> exact ranges -> tasks
    executor:  ranges -> Fetch -> Arrow                                   (odradek.spark.reading)

Imported by Spark in every planning process, so numpy, pyarrow and the client are imported where they are used.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from odradek.model.errors import ConfigurationError, OdradekError
from odradek.model.ids import NO_TOPIC_ID
from odradek.spark.options import LATEST, SourceOptions, check_batch, check_stream, parse

if TYPE_CHECKING:
    import pyarrow as pa

    from odradek.model.ids import TopicPartition
    from odradek.spark.offsets import Offsets, Place
    from odradek.spark.ranges import Task
    from odradek.spark.subscription import Subscription

_TYPES = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
    "leaderEpoch": IntegerType(),
}
P = ParamSpec("P")
T = TypeVar("T")


def in_a_sentence(planned: Callable[P, T]) -> Callable[P, T]:
    """Spark prints the traceback of what planning raises: of a sentence for the reader only the sentence, and once."""

    @wraps(planned)
    def planning(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return planned(*args, **kwargs)
        except OdradekError as error:
            sentence = error.with_traceback(None)
        sentence.__cause__ = sentence.__context__ = None
        raise sentence

    return planning


def schema_of(options: SourceOptions) -> StructType:
    chosen = options.columns or tuple(name for name in _TYPES if name != "headers" or options.include_headers)
    return StructType([StructField(name, _TYPES[name]) for name in chosen])


class RangesPartition(InputPartition):
    """The ranges one task reads."""

    def __init__(self, ranges: "Task") -> None:
        super().__init__(ranges)


class OdradekSource(DataSource):
    """Topics of any Kafka-compatible cluster, read and written, batch and stream."""

    @classmethod
    def name(cls) -> str:
        return "odradek"

    @in_a_sentence
    def schema(self) -> StructType:
        return schema_of(parse(self.options))

    @in_a_sentence
    def reader(self, schema: StructType) -> DataSourceReader:
        options = parse(self.options)
        check_batch(options)
        return (FilteredReader if options.push_filters else BatchReader)(options, checked(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return or_refusal(lambda: StreamReader(stream_options(self.options), checked(schema)))

    @in_a_sentence
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from odradek.spark.topic_sink import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)

    @in_a_sentence
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from odradek.spark.topic_sink import stream_writer

        return stream_writer(self.options, schema, overwrite=overwrite)


class _Refusal(DataSourceStreamReader):
    """A reader of a query that cannot be: says why when it is first asked for anything."""

    def __init__(self, why: OdradekError) -> None:
        self._why = why

    @in_a_sentence
    def initialOffset(self) -> dict[str, Any]:
        raise self._why

    @in_a_sentence
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        raise self._why

    @in_a_sentence
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        raise self._why

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        raise self._why


def or_refusal(reader: Callable[[], DataSourceStreamReader]) -> DataSourceStreamReader:
    """PySpark stops its reader at the end, even where making it has failed and there is none: of what `streamReader` raises the user's
    last line would be `UnboundLocalError: local variable 'reader'`."""
    try:
        return reader()
    except OdradekError as error:
        return _Refusal(error)


def stream_options(given: Mapping[str, str]) -> SourceOptions:
    options = parse(given)
    check_stream(options)
    return options


def checked(schema: StructType) -> StructType:
    """A schema the user gave must be made of our columns; nothing is cast."""
    for field in schema.fields:
        if _TYPES.get(field.name) != field.dataType:
            known = ", ".join(f"{name} {kind.simpleString()}" for name, kind in _TYPES.items())
            raise ConfigurationError(
                f"there is no column {field.name} {field.dataType.simpleString()} in a topic; there are {known}"
            )
    return schema


class _Executor:
    """The half that is sent to executors: what to build, and how to reach the cluster."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        # For a read without any partition Spark makes one up, with the value None.
        if partition.value is None:
            return iter(())
        from pyspark.sql.pandas.types import to_arrow_schema

        from odradek.spark.reading import read_ranges

        schema = to_arrow_schema(self._schema, timezone="UTC")
        if self._options.tells_lost is None:
            return read_ranges(partition.value, self._options.connection, schema)
        from odradek.spark.left_out import leave
        from odradek.spark.micro_batch import current_batch_id

        told = partial(leave, *self._options.tells_lost, current_batch_id())
        return read_ranges(partition.value, self._options.connection, schema, told)


class BatchReader(_Executor, DataSourceReader):
    @in_a_sentence
    def partitions(self) -> Sequence[InputPartition]:
        from odradek.spark.subscription import Subscription

        subscription = Subscription(self._options)
        try:
            start = subscription.start(default="earliest")
            end, latest = subscription.ends(start)
            begin = subscription.standing(start, latest, what="was to begin at")
            if self._options.transaction_boundaries:
                end = end._replace(
                    places=subscription.boundaries.moved(begin, end.places, end, told_after_s=0)
                )
            return tasks_between(self._options, *self._narrowed(begin, end, subscription), subscription)
        finally:
            subscription.close()

    def _narrowed(
        self, begin: "Mapping[TopicPartition, Place]", end: "Offsets", subscription: "Subscription"
    ) -> "tuple[Mapping[TopicPartition, Place], Offsets]":
        return begin, end


class FilteredReader(BatchReader):
    """Reads less where the conditions of the query say so.

    A class of its own: Spark refuses a reader with `pushFilters` in a session in which spark.sql.python.filterPushdown.enabled is
    not set, which is the default.
    """

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._conditions: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._conditions = filters
        return filters  # which Spark applies all the same

    def _narrowed(
        self, begin: "Mapping[TopicPartition, Place]", end: "Offsets", subscription: "Subscription"
    ) -> "tuple[Mapping[TopicPartition, Place], Offsets]":
        from odradek.spark.pushed_filters import wanted_by

        return subscription.narrowed(begin, end, wanted_by(self._conditions))


class StreamReader(_Executor, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Lives in one planning process for as long as its query; executors get a copy that never plans."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._subscription: Any = None
        self._initial: dict[str, Any] | None = None
        self._target: Offsets | None = None
        self._latest: Offsets | None = None
        self._reached: Mapping[TopicPartition, Place] = {}  # by the batch that was planned last
        # The first batch waits for nothing, as in Spark's connector.
        self._last_advance: float | None = None

    @in_a_sentence
    def initialOffset(self) -> dict[str, Any]:
        # Spark asks more than once, and `latest` is another offset each time.
        if self._initial is None:
            begin: Offsets = self._subscribed().start(default=LATEST)
            self._initial = begin.to_json()
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark knows one limit a source; with both options set the lower one is kept by `latestOffset`.
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @in_a_sentence
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._subscribed().latest()

    @in_a_sentence
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        from odradek.spark.offsets import Offsets, advanced, limited, with_beginning

        before = Offsets.from_json(start)
        now = logs = self._subscribed().latest(before)
        if self._target is not None:
            self._target = now = self._still_there(self._with_all(self._target, before, logs), logs)
        self._latest = now
        # Of a partition that is new what is gone counts for nothing: a limit would be used up by it.
        begin = self._check(before, now) | self._subscribed().standing(before, logs)
        # Never beyond a log. An open transaction may hold the end back below what was read before it was asked for; and a query
        # that begins at `latest` asks for that after its target.
        ends = {
            p: begin[p] if p in begin and begin[p].offset > end.offset else end
            for p, end in now.places.items()
        }
        if isinstance(limit, ReadMaxRows):
            ends = limited(begin, ends, limit.max_rows)
        if self._options.transaction_boundaries:
            ends = self._subscribed().boundaries.moved(begin, ends, now)
        after = advanced(begin, ends)
        if self._waits_for_more(begin, after, limit):
            self._reached = before.places
            return start
        self._reached = after
        if after != before.places:
            self._last_advance = time.monotonic()
        end = Offsets(now.topic_ids, after).to_json()
        if end == before.to_json():
            return start  # with all that stands there
        return with_beginning(end, start) if start == self._initial else end

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The end of the topics as the batch was planned, and how old the first record is that it left."""
        if self._latest is None:
            return None
        from odradek.spark.progress import BEHIND_MS

        found = self._latest.to_json()
        ends = self._latest.places
        behind = {p: ends[p].offset - place.offset for p, place in self._reached.items() if p in ends}
        furthest = sorted((p for p in behind if behind[p] > 0), key=lambda p: (-behind[p], p))
        left = {p: self._reached[p].offset for p in furthest}
        for partition, since_ms in self._subscribed().timestamps_at(left).items():
            ages = found[partition.topic].setdefault(BEHIND_MS, {})
            ages[str(partition.partition)] = max(0, int(time.time() * 1000) - since_ms)
        return found

    @in_a_sentence
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        from odradek.spark.offsets import Offsets, beginning_in

        # Looked at again: a checkpoint may hold a batch that was planned over a cut by somebody who did not look.
        begin = start if start == end else beginning_in(end) or start
        before, after = Offsets.from_json(begin), Offsets.from_json(end)
        subscription = self._subscribed()
        return tasks_between(self._options, subscription.standing(before, after), after, subscription)

    def stop(self) -> None:
        if self._subscription is not None:
            self._subscription.close()

    def __getstate__(self) -> dict[str, Any]:
        """Pickled for executors: without sockets, and without what only planning needs."""
        return {"_options": self._options, "_schema": self._schema}

    def _subscribed(self) -> Any:
        if self._subscription is None:
            from odradek.spark.subscription import Subscription

            self._subscription = Subscription(self._options)
        return self._subscription

    def _check(self, before: "Offsets", now: "Offsets") -> "dict[TopicPartition, Place]":
        """Where the partitions begin that are new; what was lost is raised or told."""
        from odradek.spark.offsets import Place, newly
        from odradek.spark.subscription import is_another_topic

        subscription = self._subscribed()
        subscription.check_same_topics(before, now)
        for partition in sorted(before.places.keys() - now.places.keys()):
            if partition.topic in now.topic_ids and not is_another_topic(partition.topic, before, now):
                subscription.lose(
                    f"{partition}, which this query reads, is not among those that are to be read any more",
                    "reads on without it",
                )
        added = newly(before.places, now.places)
        firsts = subscription.earliest(added) if added else {}
        for partition, first in firsts.items():
            if first > 0:
                subscription.lose(
                    f"{partition} is new to this query, but its first {first} records are gone",
                    f"begins at offset {first}",
                )
        return {p: Place(first, now.places[p].epoch) for p, first in firsts.items()}

    @staticmethod
    def _with_all(target: "Offsets", before: "Offsets", now: "Offsets") -> "Offsets":
        """With the partitions that the query reads already, and of which whoever told of the target had not heard."""
        from odradek.spark.offsets import Offsets

        known = {p: now.places[p] for p in before.places if p in now.places}
        ids = {p.topic: now.topic_ids.get(p.topic, NO_TOPIC_ID) for p in known}
        return Offsets({**ids, **target.topic_ids}, {**known, **target.places})

    def _still_there(self, target: "Offsets", now: "Offsets") -> "Offsets":
        """What is left of the target of this run: a log that was cut below it, or made again, ends where it ends now."""
        from odradek.spark.offsets import Offsets

        reached = self._subscribed().standing(target, now, what="was to read up to")
        ends = {
            p: target.places[p] if place == target.places[p] else now.places[p]
            for p, place in reached.items()
        }
        return Offsets(now.topic_ids, ends)

    def _waits_for_more(
        self, begin: Mapping[Any, "Place"], after: Mapping[Any, "Place"], limit: ReadLimit
    ) -> bool:
        """minOffsetsPerTrigger: too little is new, and maxTriggerDelay has not passed."""
        least = self._options.min_offsets_per_trigger
        is_bound = least is not None and self._target is None and not isinstance(limit, ReadAllAvailable)
        if not is_bound or self._last_advance is None:
            return False
        new = sum(place.offset - (begin[p].offset if p in begin else 0) for p, place in after.items())
        waited_s = time.monotonic() - self._last_advance
        return new < (least or 0) and waited_s < self._options.max_trigger_delay_s


def tasks_between(
    options: SourceOptions,
    begin: "Mapping[TopicPartition, Place]",
    end: "Offsets",
    subscription: "Subscription",
) -> list[InputPartition]:
    """The tasks that read from `begin` to `end`; what is new in `end` is read from offset 0."""
    from odradek.spark.ranges import OffsetRange, plan

    ranges = []
    for partition, place in sorted(end.places.items()):
        topic_id = end.topic_ids.get(partition.topic, NO_TOPIC_ID)
        first = begin[partition].offset if partition in begin else 0
        ranges.append(
            OffsetRange(partition.topic, partition.partition, first, place.offset, topic_id, place.epoch)
        )
    tasks = plan(
        ranges,
        pack_below=options.min_records_per_task,
        min_tasks=options.min_partitions,
        most_per_task=options.max_records_per_partition,
        record_bytes=subscription.record_bytes([r.topic_partition for r in ranges if r.size > 0]),
    )
    return [RangesPartition(task) for task in tasks]
