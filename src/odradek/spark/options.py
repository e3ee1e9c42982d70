"""The options of the source, under the names of Spark's own Kafka connector, so that code moves over unchanged.

Names are taken in any case, as Spark takes them. A name that is not known is an error with a suggestion: a
misspelt `failOnDataLoss` must not go unnoticed. Of the `kafka.*` options those that mean something to this
source are used; those of a consumer it does not have are accepted; those that ask for security it cannot
give are refused.
"""

import difflib
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from odradek.client.sync_connection import parse_addresses
from odradek.model.errors import ConfigurationError
from odradek.model.ids import INT32_MAX, number_in
from odradek.spark import offsets
from odradek.spark.offsets import Offsets

EARLIEST = "earliest"
LATEST = "latest"
AUTO, TRUE, FALSE = "auto", "true", "false"
_SYMBOLIC = {EARLIEST: offsets.EARLIEST, LATEST: offsets.LATEST}
# What a batch write of an application lacks without a batchId.
NUMBER = "its number: the same of the same appId is written once; without an appId each is another"
# topic -> partition -> offset or timestamp
PerPartition = dict[str, dict[int, int]]

COLUMNS = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
    "leaderEpoch",
)

_USED = (
    "kafka.bootstrap.servers",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    # ours
    "columns",
    "minRecordsPerTask",
    "maxRecordBytes",
    "readSegments",
    "pushFilters",
    "transactionBoundaries",
)
# Known to Spark's connector, without a meaning here: there is no consumer group and no consumer to keep.
_ACCEPTED = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
_KAFKA_USED = (
    "kafka.bootstrap.servers",
    "kafka.client.id",
    "kafka.client.rack",
    "kafka.isolation.level",
    "kafka.request.timeout.ms",
    "kafka.max.partition.fetch.bytes",
    "kafka.fetch.max.bytes",
    "kafka.security.protocol",
)


# What our jobs say: a directory and an application, as JSON.
_INNER = ("tellslost",)


class ConnectionOptions(NamedTuple):
    """What an executor needs to know to reach the cluster; small, because it travels with every task."""

    bootstrap: str
    client_id: str = "odradek-spark"
    request_timeout_s: float = 30.0
    fetch_max_bytes: int = 8 << 20
    read_committed: bool = False
    fail_on_data_loss: bool = True
    max_record_bytes: int = 16 << 20
    read_segments: str = AUTO
    client_rack: str = ""


class SourceOptions(NamedTuple):
    connection: ConnectionOptions
    # Exactly one of the three says what is read.
    subscribe: tuple[str, ...] | None = None
    pattern: str | None = None
    assign: dict[str, tuple[int, ...]] | None = None
    # earliest, latest, or offsets per partition (-1 latest, -2 earliest); None is the default of batch or stream
    starting: str | dict[str, Any] | None = None
    ending: str | dict[str, Any] | None = None
    starting_timestamps: int | PerPartition | None = None
    ending_timestamps: int | PerPartition | None = None
    latest_without_timestamp: bool = False
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_s: float = 15 * 60.0
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    min_records_per_task: int = 25_000
    include_headers: bool = False
    columns: tuple[str, ...] | None = None
    push_filters: bool = False
    transaction_boundaries: bool = False
    # Where tasks say which offsets they have left out as lost, and for whom: of jobs into topics (`odradek.spark.left_out`).
    tells_lost: tuple[str, str] | None = None


def parse(given: Mapping[str, str]) -> SourceOptions:
    """SourceOptions, or a ConfigurationError that names the option, what stands there, and what would work."""
    options = OptionReader(given)
    of_users = {name: value for name, value in given.items() if name.lower() not in _INNER}
    OptionReader(of_users).refuse_unknown(_USED, _ACCEPTED, _KAFKA_USED, who="the odradek source")
    connection = ConnectionOptions(
        bootstrap=options.required("kafka.bootstrap.servers", "the brokers as host:port,host:port"),
        client_id=options.text("kafka.client.id") or "odradek-spark",
        request_timeout_s=(options.positive("kafka.request.timeout.ms", INT32_MAX) or 30_000) / 1000,
        fetch_max_bytes=min(
            options.positive("kafka.max.partition.fetch.bytes", INT32_MAX) or 8 << 20,
            options.positive("kafka.fetch.max.bytes", INT32_MAX) or 8 << 20,
        ),
        read_committed=options.choice(
            "kafka.isolation.level", {"read_uncommitted": False, "read_committed": True}, "read_uncommitted"
        ),
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        max_record_bytes=options.positive("maxRecordBytes") or 16 << 20,
        read_segments=options.one_of("readSegments", (AUTO, TRUE, FALSE)),
        client_rack=options.text("kafka.client.rack") or "",
    )
    parse_addresses(connection.bootstrap)
    most, least = options.positive("maxOffsetsPerTrigger"), options.positive("minOffsetsPerTrigger")
    if most is not None and least is not None and least > most:
        # Taken, every batch would wait for what it may not read, until maxTriggerDelay.
        raise ConfigurationError(f"minOffsetsPerTrigger={least} is above maxOffsetsPerTrigger={most}")
    at_boundaries = options.flag("transactionBoundaries", False)
    if at_boundaries and not connection.read_committed:
        raise ConfigurationError(
            "transactionBoundaries=true needs kafka.isolation.level=read_committed: whoever reads uncommitted records "
            "reads those of open transactions, and of aborted ones"
        )
    include_headers, columns = options.flag("includeHeaders", False), _columns(options)
    if include_headers and columns is not None and "headers" not in columns:
        raise ConfigurationError(
            f"includeHeaders=true: columns={','.join(columns)} has no headers; name headers there too, or leave one of the two out"
        )
    subscribe, pattern, assign = _subscription(options)
    return SourceOptions(
        connection=connection,
        subscribe=subscribe,
        pattern=pattern,
        assign=assign,
        starting=options.offsets("startingOffsets"),
        ending=options.offsets("endingOffsets"),
        starting_timestamps=options.timestamps("startingOffsetsByTimestamp", "startingTimestamp"),
        ending_timestamps=options.timestamps("endingOffsetsByTimestamp", "endingTimestamp"),
        latest_without_timestamp=options.choice(
            "startingOffsetsByTimestampStrategy", {"error": False, "latest": True}, "error"
        ),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_s=options.duration_s("maxTriggerDelay", 15 * 60.0),
        min_partitions=options.positive("minPartitions"),
        max_records_per_partition=options.positive("maxRecordsPerPartition"),
        min_records_per_task=options.positive("minRecordsPerTask") or 25_000,
        include_headers=include_headers,
        columns=columns,
        push_filters=options.flag("pushFilters", False),
        transaction_boundaries=at_boundaries,
        tells_lost=_tells_lost(options),
    )


def _tells_lost(options: "OptionReader") -> tuple[str, str] | None:
    if options.text("tellsLost") is None:
        return None
    said = options.json("tellsLost", 'as in {"directory":"/data/job","appId":"job"}')
    return said["directory"], said["appId"]


def check_batch(options: SourceOptions) -> None:
    """What a batch read cannot mean: it goes from somewhere to where the logs end, or before."""
    _refuse_places(
        "startingOffsets", options.starting, LATEST, "a batch read ends there and would read nothing"
    )
    _refuse_places("endingOffsets", options.ending, EARLIEST, "nothing lies before that")


def check_stream(options: SourceOptions) -> None:
    if options.ending is not None or options.ending_timestamps is not None:
        raise ConfigurationError(
            "a stream has no end: endingOffsets, endingOffsetsByTimestamp and endingTimestamp are for batch reads; "
            "trigger(availableNow=True) stops at what is there when it starts"
        )
    if options.push_filters:
        raise ConfigurationError(
            "pushFilters=true: Spark passes conditions to batch reads only; leave it out of a stream"
        )


def _refuse_places(option: str, wanted: str | dict[str, Any] | None, refused: str, why: str) -> None:
    if wanted == refused:
        raise ConfigurationError(f"{option}={refused}: {why}")
    if isinstance(wanted, dict):
        number = _SYMBOLIC[refused]
        places = Offsets.from_json(wanted, option).places
        for partition in sorted(p for p, place in places.items() if place.offset == number):
            raise ConfigurationError(f"{option} has {number} ({refused}) for {partition}: {why}")


def _subscription(
    options: "OptionReader",
) -> tuple[tuple[str, ...] | None, str | None, dict[str, tuple[int, ...]] | None]:
    ways = [name for name in ("subscribe", "subscribePattern", "assign") if options.text(name)]
    if len(ways) != 1:
        found = " and ".join(ways) or "none of them"
        raise ConfigurationError(
            f"one of subscribe, subscribePattern and assign says what to read; found {found}"
        )
    if text := options.text("subscribe"):
        topics = tuple(sorted({t.strip() for t in text.split(",") if t.strip()}))
        if not topics:
            raise ConfigurationError(f"subscribe={text!r}: expected topic names separated by commas")
        return topics, None, None
    if text := options.text("subscribePattern"):
        try:
            re.compile(text)
        except re.error as error:
            raise ConfigurationError(
                f"subscribePattern={text!r} is no regular expression: {error}"
            ) from error
        return None, text, None
    wanted = options.json("assign", 'as in {"orders":[0,1]}')
    try:
        assign = {topic: tuple(sorted(_partitions(wanted[topic]))) for topic in sorted(wanted)}
        if not any(assign.values()):
            raise ValueError("nothing would be read")
    except ValueError as error:
        raise ConfigurationError(f'assign: expected {{"topic":[partition, ...]}}, found {wanted}') from error
    return None, None, assign


def _partitions(value: Any) -> set[int]:
    """Of a list: an object with their offsets, say, would be read from somewhere else than it tells."""
    if not isinstance(value, list):
        raise ValueError(f"{value} is no list")
    return {offsets.partition_of(str(offsets.whole(p))) for p in value}


def _columns(options: "OptionReader") -> tuple[str, ...] | None:
    text = options.text("columns")
    if text is None:
        return None
    by_name = {column.lower(): column for column in COLUMNS}
    chosen = []
    for name in (name.strip() for name in text.split(",")):
        if name.lower() not in by_name:
            raise ConfigurationError(f"columns: there is no {name!r}; there are {', '.join(COLUMNS)}")
        chosen.append(by_name[name.lower()])
    return tuple(dict.fromkeys(chosen))


class OptionReader:
    """The options as given, each read as one type; every complaint names the option."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}

    def refuse_unknown(
        self, used: Sequence[str], accepted: Sequence[str], of_kafka: Sequence[str], *, who: str
    ) -> None:
        known = {name.lower(): name for name in (*used, *accepted, *of_kafka)}
        for name in sorted(self._given):
            if name in known:
                continue
            if name.startswith("kafka."):
                if name.startswith(("kafka.ssl.", "kafka.sasl.")):
                    raise ConfigurationError(f"{name}: only PLAINTEXT listeners are spoken to so far")
                warnings.warn(f"{name} has no meaning for {who} and is not used", stacklevel=3)
                continue
            if name == "commitgroup":
                raise ConfigurationError(
                    "commitGroup: a source is not told of the last batch of its query; "
                    "odradek.spark.group_offsets.commit_group(spark, query, bootstrap=..., group=...) is, once it has started"
                )
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {known[near[0]]}?" if near else f"; known are {', '.join(used)}"
            raise ConfigurationError(f"there is no option {name}{hint}")
        protocol = self.text("kafka.security.protocol") or "PLAINTEXT"
        if protocol.upper() != "PLAINTEXT":
            raise ConfigurationError(
                f"kafka.security.protocol={protocol}: only PLAINTEXT listeners are spoken to so far"
            )

    def text(self, name: str) -> str | None:
        value = self._given.get(name.lower())
        return value.strip() if value is not None else None

    def required(self, name: str, what: str) -> str:
        value = self.text(name)
        if not value:
            raise ConfigurationError(f"the option {name} is missing: {what}")
        return value

    def positive(self, name: str, largest: int = offsets.LARGEST) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        number = number_in(value, largest)
        if not number:
            up_to = f", up to {largest}" if largest < offsets.LARGEST else ""
            raise ConfigurationError(f"{name}={value!r}: expected a whole number above 0{up_to}")
        return number

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, {"true": True, "false": False}, str(default).lower())

    def choice(self, name: str, choices: Mapping[str, bool], default: str) -> bool:
        return choices[self.one_of(name, tuple(choices), default)]

    def one_of(self, name: str, choices: Sequence[str], default: str = "") -> str:
        """Without a default the first of them is it."""
        value = (self.text(name) or default or choices[0]).lower()
        if value not in choices:
            raise ConfigurationError(f"{name}={value!r}: expected {' or '.join(choices)}")
        return value

    def duration_s(self, name: str, default: float) -> float:
        value = self.text(name)
        if value is None:
            return default
        match = re.fullmatch(r"(\d+)\s*(ms|s|m|min|h|d|)", value)
        if match is None:
            raise ConfigurationError(f"{name}={value!r}: expected a duration as in 500ms, 10s, 15m, 1h")
        # A bare number is milliseconds, as Spark takes it.
        units = {"": 0.001, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
        return int(match[1]) * units[match[2]]

    def json(self, name: str, example: str) -> dict[str, Any]:
        text = self.text(name)
        try:
            value = json.loads(text or "")
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(f"{name}={text!r} is no JSON ({error}); expected {example}") from error
        if not isinstance(value, dict):
            raise ConfigurationError(f"{name}={text!r}: expected {example}")
        return value

    def offsets(self, name: str) -> str | dict[str, Any] | None:
        value = self.text(name)
        if value is None or value.lower() in (EARLIEST, LATEST):
            return value.lower() if value else None
        return self.json(name, 'earliest, latest, or as in {"orders":{"0":17,"1":-2}}')

    def timestamps(self, by_partition: str, for_all: str) -> int | PerPartition | None:
        """Of both the one for all goes first, as in Spark's connector."""
        value = self.text(for_all)
        if value is not None:
            number = number_in(value, offsets.LARGEST)
            if number is None:
                raise ConfigurationError(f"{for_all}={value!r}: expected milliseconds since 1970")
            return number
        if self.text(by_partition) is None:
            return None
        example = 'as in {"orders":{"0":1700000000000}}, milliseconds since 1970'
        wanted = self.json(by_partition, example)
        try:
            found = {
                topic: {offsets.partition_of(p): offsets.whole(t) for p, t in wanted[topic].items()}
                for topic in sorted(wanted)
            }
            # Below 0 it is no time: a broker that is asked for the offset at -1 tells the end.
            if not all(0 <= t <= offsets.LARGEST for of_one in found.values() for t in of_one.values()):
                raise ValueError("a time is not negative, and has 64 bits")
            return found
        except (AttributeError, ValueError) as error:
            raise ConfigurationError(f"{by_partition}={wanted}: expected {example}") from error
