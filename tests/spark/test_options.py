"""The options: Spark's names, any case, and a sentence for everything that cannot work."""

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from odradek.model.errors import ConfigurationError
from odradek.spark import options
from odradek.spark.options import SourceOptions, check_batch, check_stream, parse
from odradek.spark.source import OdradekSource
from tests.support import each

NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def parsed(**more: str) -> SourceOptions:
    return parse({**NEEDED, **more})


def test_what_is_not_said_has_a_default() -> None:
    options = parsed()

    assert options.subscribe == ("orders",)
    assert options.connection.bootstrap == "localhost:9092"
    assert options.connection.fail_on_data_loss
    assert not options.connection.read_committed
    assert options.starting is None and options.max_offsets_per_trigger is None


def test_names_are_taken_in_any_case_as_spark_gives_them() -> None:
    options = parse(
        {
            "KAFKA.bootstrap.SERVERS": "a:1,b:2",
            "SUBSCRIBE": " b , a,",
            "maxoffsetspertrigger": "10",
            "failondataloss": "FALSE",
            "kafka.isolation.level": "read_committed",
            "maxTriggerDelay": "10s",
            "columns": "value, LEADEREPOCH",
        }
    )

    assert options.subscribe == ("a", "b")
    assert options.max_offsets_per_trigger == 10
    assert not options.connection.fail_on_data_loss
    assert options.connection.read_committed
    assert options.max_trigger_delay_s == 10
    assert options.columns == ("value", "leaderEpoch")


# Option -> what is given, where it is found, and what it is there.
EACH: dict[str, tuple[str, str, object]] = {
    "startingOffsets": ("earliest", "starting", "earliest"),
    "endingOffsets": ("latest", "ending", "latest"),
    "startingTimestamp": ("5", "starting_timestamps", 5),
    "endingTimestamp": ("6", "ending_timestamps", 6),
    "startingOffsetsByTimestamp": ('{"orders":{"0":5}}', "starting_timestamps", {"orders": {0: 5}}),
    "endingOffsetsByTimestamp": ('{"orders":{"0":6}}', "ending_timestamps", {"orders": {0: 6}}),
    "startingOffsetsByTimestampStrategy": ("latest", "latest_without_timestamp", True),
    "failOnDataLoss": ("false", "connection.fail_on_data_loss", False),
    "maxOffsetsPerTrigger": ("7", "max_offsets_per_trigger", 7),
    "minOffsetsPerTrigger": ("8", "min_offsets_per_trigger", 8),
    "maxTriggerDelay": ("2m", "max_trigger_delay_s", 120.0),
    "minPartitions": ("9", "min_partitions", 9),
    "maxRecordsPerPartition": ("10", "max_records_per_partition", 10),
    "minRecordsPerTask": ("11", "min_records_per_task", 11),
    "includeHeaders": ("true", "include_headers", True),
    "columns": ("value", "columns", ("value",)),
    "maxRecordBytes": ("12", "connection.max_record_bytes", 12),
    "readSegments": ("false", "connection.read_segments", "false"),
    "pushFilters": ("true", "push_filters", True),
    "kafka.client.id": ("me", "connection.client_id", "me"),
    "kafka.client.rack": ("zone-a", "connection.client_rack", "zone-a"),
    "kafka.isolation.level": ("read_committed", "connection.read_committed", True),
    "kafka.request.timeout.ms": ("45000", "connection.request_timeout_s", 45.0),
    "kafka.max.partition.fetch.bytes": ("1000", "connection.fetch_max_bytes", 1000),
    "kafka.fetch.max.bytes": ("2000", "connection.fetch_max_bytes", 2000),
}


@each(EACH)
def test_each_option_changes_what_it_is_about_and_nothing_else(option: str) -> None:
    given, place, expected = EACH[option]
    default = parsed()
    group, _, name = place.rpartition(".")
    inner = getattr(default, group) if group else default
    assert getattr(inner, name) != expected
    changed = inner._replace(**{name: expected})
    assert parsed(**{option: given}) == (default._replace(**{group: changed}) if group else changed)


def test_every_option_that_is_used_is_known_here() -> None:
    others = {"kafka.bootstrap.servers", "kafka.security.protocol", "transactionBoundaries"}
    ways = {"subscribe", "subscribePattern", "assign"}
    assert set(EACH) | others | ways == {*options._USED, *options._KAFKA_USED}
    committed = parsed(**{"kafka.isolation.level": "read_committed", "transactionBoundaries": "true"})
    assert committed.transaction_boundaries


def test_of_two_limits_of_a_fetch_the_smaller_one_counts() -> None:
    partition, whole = "kafka.max.partition.fetch.bytes", "kafka.fetch.max.bytes"
    for sizes in (("1000", "2000"), ("2000", "1000")):
        assert parsed(**dict(zip((partition, whole), sizes, strict=True))).connection.fetch_max_bytes == 1000


def test_the_three_ways_to_subscribe() -> None:
    servers = {"kafka.bootstrap.servers": "localhost:9092"}

    assert parse({**servers, "subscribePattern": "or.*"}).pattern == "or.*"
    assert parse({**servers, "assign": '{"orders":[1,0]}'}).assign == {"orders": (0, 1)}
    with pytest.raises(ConfigurationError, match="found none of them"):
        parse(servers)
    for text in (
        "{}",
        '{"orders":[]}',
        '{"orders":{"0":5}}',
        '{"orders":"01"}',
        '{"orders":[0.7]}',
        '{"orders":[-1]}',
    ):
        with pytest.raises(ConfigurationError, match="assign: expected"):
            parse({**servers, "assign": text})
    with pytest.raises(ConfigurationError, match="found subscribe and assign"):
        parse({**NEEDED, "assign": '{"orders":[0]}'})


def test_timestamps_for_all_or_by_partition() -> None:
    assert parsed(startingTimestamp="1700000000000").starting_timestamps == 1_700_000_000_000
    by_partition = parsed(startingOffsetsByTimestamp='{"orders":{"0":5}}')
    assert by_partition.starting_timestamps == {"orders": {0: 5}}
    both = parsed(startingTimestamp="7", startingOffsetsByTimestamp='{"orders":{"0":5}}')
    assert both.starting_timestamps == 7, "of Spark's connector too it goes before the others"
    both = parsed(endingTimestamp="7", endingOffsetsByTimestamp='{"orders":{"0":5}}')
    assert both.ending_timestamps == 7


def test_options_of_a_consumer_group_are_accepted_and_mean_nothing() -> None:
    assert parsed(groupIdPrefix="x", **{"fetchOffset.numRetries": "3"}) == parsed()
    with pytest.warns(UserWarning, match=r"kafka\.session\.timeout\.ms has no meaning"):
        assert parsed(**{"kafka.session.timeout.ms": "1"}) == parsed()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"commitGroup": "spark.orders"}, "not told of the last batch of its query; .*commit_group"),
        ({"failOnDataLos": "true"}, "no option failondatalos; did you mean failOnDataLoss"),
        ({"zzz": "1"}, "no option zzz; known are"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger='0': expected a whole number above 0"),
        ({"maxOffsetsPerTrigger": "²"}, "maxOffsetsPerTrigger='²': expected a whole number above 0"),
        ({"maxOffsetsPerTrigger": "many"}, "expected a whole number"),
        # A number of 32 bits on the wire, or to a socket.
        (
            {"kafka.fetch.max.bytes": "3000000000"},
            "='3000000000': expected a whole number above 0, up to 2147",
        ),
        (
            {"kafka.max.partition.fetch.bytes": "2147483648"},
            "expected a whole number above 0, up to 2147483647",
        ),
        ({"kafka.request.timeout.ms": "30000000000"}, "expected a whole number above 0, up to 2147483647"),
        ({"includeHeaders": "perhaps"}, "includeHeaders='perhaps': expected true or false"),
        (
            {"includeHeaders": "true", "columns": "key,value"},
            "includeHeaders=true: columns=key,value has no headers; name headers there too, or leave one of the two out",
        ),
        ({"startingOffsets": "yesterday"}, "startingOffsets='yesterday' is no JSON"),
        ({"startingOffsets": f'{{"t":{{"0":{"1" * 5000}}}}}'}, "startingOffsets='.* is no JSON .*digits"),
        ({"startingOffsets": "[1]"}, "expected earliest, latest"),
        ({"startingTimestamp": "noon"}, "expected milliseconds since 1970"),
        ({"startingTimestamp": "²"}, "expected milliseconds since 1970"),
        ({"startingTimestamp": str(2**63)}, "expected milliseconds since 1970"),
        ({"startingOffsetsByTimestamp": '{"orders":5}'}, "expected as in"),
        ({"startingOffsetsByTimestamp": '{"orders":{"0":1.9}}'}, "expected as in"),
        ({"endingOffsetsByTimestamp": '{"orders":{"0":5,"00":6}}'}, "expected as in"),
        # Asked for the offset at -1, a broker tells the end.
        ({"startingOffsetsByTimestamp": '{"orders":{"0":-1}}'}, "expected as in .*milliseconds since 1970"),
        ({"endingOffsetsByTimestamp": '{"orders":{"0":-2}}'}, "expected as in .*milliseconds since 1970"),
        ({"endingOffsetsByTimestamp": '{"orders":{"0":9223372036854775808}}'}, "expected as in"),
        ({"maxTriggerDelay": "soon"}, "expected a duration"),
        ({"kafka.bootstrap.servers": "localhost"}, "bootstrap address 'localhost': expected host:port"),
        ({"kafka.bootstrap.servers": "localhost:99999"}, "port 99999 is not between 1 and 65535"),
        ({"kafka.security.protocol": "SASL_SSL"}, "only PLAINTEXT"),
        ({"kafka.sasl.jaas.config": "secret"}, "only PLAINTEXT"),
        ({"columns": "value,colour"}, "there is no 'colour'"),
        (
            {"minOffsetsPerTrigger": "15", "maxOffsetsPerTrigger": "12"},
            "minOffsetsPerTrigger=15 is above maxOffsetsPerTrigger=12",
        ),
        ({"kafka.isolation.level": "strict"}, "expected read_uncommitted or read_committed"),
    ],
)
def test_what_cannot_work_is_said(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        parsed(**given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets=latest: a batch read ends there"),
        ({"startingOffsets": '{"orders":{"1":0,"2":-1}}'}, r"startingOffsets has -1 \(latest\) for orders-2"),
        ({"endingOffsets": "earliest"}, "endingOffsets=earliest: nothing lies before that"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, r"endingOffsets has -2 \(earliest\) for orders-0"),
    ],
)
def test_a_batch_refuses_what_would_read_nothing(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        check_batch(parsed(**given))
    if "startingOffsets" in given:
        check_stream(parsed(**given))
    check_batch(parsed(startingOffsets='{"orders":{"0":-2}}', endingOffsets='{"orders":{"0":-1}}'))


@pytest.mark.parametrize(
    "given",
    [
        {"endingOffsets": "latest"},
        {"endingTimestamp": "5"},
        {"endingOffsetsByTimestamp": '{"orders":{"0":5}}'},
    ],
)
def test_a_stream_refuses_an_end(given: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"a stream has no end: .*availableNow"):
        check_stream(parsed(**given))
    check_batch(parsed(**given))


def test_a_stream_refuses_conditions_which_spark_would_not_pass() -> None:
    check_batch(parsed(pushFilters="true"))
    check_stream(parsed(pushFilters="false"))
    with pytest.raises(ConfigurationError, match="pushFilters=true: Spark passes conditions to batch reads"):
        check_stream(parsed(pushFilters="true"))


def test_the_source_asks_for_what_a_batch_and_a_stream_refuse() -> None:
    source = OdradekSource({**NEEDED, "startingOffsets": "latest"})
    with pytest.raises(ConfigurationError, match="startingOffsets"):
        source.reader(source.schema())
    source = OdradekSource({**NEEDED, "endingOffsets": "latest"})
    reader = source.streamReader(source.schema())
    # Whichever Spark asks first: of a checkpoint that is there it is not the first of them.
    for ask in (
        reader.initialOffset,
        lambda: reader.latestOffset({}, ReadAllAvailable()),
        lambda: reader.partitions({}, {}),
    ):
        with pytest.raises(ConfigurationError, match="endingOffsets"):
            ask()


def test_segments_are_read_where_that_can_be_proved_unless_it_is_switched_off() -> None:
    assert parsed().connection.read_segments == "auto"
    assert parsed(readSegments="False").connection.read_segments == "false"
    with pytest.raises(ConfigurationError, match="readSegments='yes': expected auto or true or false"):
        parsed(readSegments="yes")


def test_a_delay_without_a_unit_is_in_milliseconds() -> None:
    assert parsed(maxTriggerDelay="1500").max_trigger_delay_s == 1.5


def test_a_secret_is_not_repeated_in_the_message() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parsed(**{"kafka.sasl.jaas.config": "hunter2"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("pattern", ["(", "*"])
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="is no regular expression"):
        parse({"kafka.bootstrap.servers": "a:1", "subscribePattern": pattern})
