"""Apache's command-line tools print against our brokers what they print against Apache's.

One session of commands, told to a cluster of three of Apache's brokers and to three of ours; then the two
transcripts are compared command by command. Ids, sizes, times and addresses are normalised.
"""

from collections.abc import Sequence

import pytest

from tests.interop.apache import Tools
from tests.interop.cluster import APACHES, OURS
from tests.interop.transcripts import LOG_DIRS, Chapter, Session, Transcript, differences, transcript_of

TOPIC = "org.apache.kafka.tools.TopicCommand"
CONFIG = "kafka.admin.ConfigCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
CONSOLE_PRODUCER = "kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
BROKERS = ("--entity-type", "brokers")


def topics(session: Session) -> None:
    run = session.run
    run(TOPIC, "--list")
    run(TOPIC, "--create", "--topic", "t", "--replica-assignment", "1:2,2:3,3:1")
    run(TOPIC, "--create", "--topic", "t", "--partitions", 1)
    run(TOPIC, "--create", "--topic", "t", "--partitions", 1, "--if-not-exists")
    configured = ("--config", "retention.ms=60000", "--config", "min.insync.replicas=2")
    run(TOPIC, "--create", "--topic", "configured", "--replica-assignment", "3:1:2", *configured)
    run(TOPIC, "--create", "--topic", "all", "--partitions", 2, "--replication-factor", 3)
    run(TOPIC, "--create", "--topic", "dotted.name", "--replica-assignment", "1")
    run(TOPIC, "--create", "--topic", "dotted_name", "--replica-assignment", "1")
    for name in ("bad/name", "x" * 250, ".", "with space"):
        run(TOPIC, "--create", "--topic", name, "--partitions", 1)
    run(TOPIC, "--create", "--topic", "many", "--partitions", 1, "--replication-factor", 4)
    run(TOPIC, "--create", "--topic", "none", "--partitions", 0)
    run(TOPIC, "--create", "--topic", "none", "--partitions", 1, "--config", "no.such.setting=1")
    run(TOPIC, "--create", "--topic", "none", "--partitions", 1, "--config", "retention.ms=soon")
    run(TOPIC, "--create", "--topic", "none", "--partitions", 1, "--config", "cleanup.policy=neither")
    run(TOPIC, "--create", "--topic", "none", "--replica-assignment", "1:1")
    run(TOPIC, "--create", "--topic", "none", "--replica-assignment", "1:2,1")
    for name in ("t", "configured", "all", "dotted.name"):
        session.cluster.wait_full(name)
    run(TOPIC, "--list")
    run(TOPIC, "--list", "--topic", "dotted.*")
    run(TOPIC, "--describe", "--topic", "t")
    run(TOPIC, "--describe", "--topic", "configured")
    run(TOPIC, "--describe", "--topics-with-overrides")
    run(TOPIC, "--describe", "--topic", "missing")
    run(TOPIC, "--describe", "--topic", "missing", "--if-exists")
    run(TOPIC, "--describe", "--under-replicated-partitions")
    run(TOPIC, "--describe", "--unavailable-partitions")
    run(TOPIC, "--describe", "--under-min-isr-partitions")
    run(TOPIC, "--describe", "--at-min-isr-partitions", "--topic", "t")
    run(TOPIC, "--alter", "--topic", "t", "--partitions", 5)
    session.cluster.wait_full("t")
    run(TOPIC, "--describe", "--topic", "t")
    run(TOPIC, "--alter", "--topic", "t", "--partitions", 2)
    run(TOPIC, "--alter", "--topic", "missing", "--partitions", 2)
    run(TOPIC, "--delete", "--topic", "dotted.name")
    run(TOPIC, "--delete", "--topic", "missing")
    session.cluster.wait_deleted("dotted.name")
    session.cluster.wait_until(lambda: "dotted" not in session.look(TOPIC, "--list"), "dotted.name is gone")
    run(TOPIC, "--list")


def configs(session: Session) -> None:
    run = session.run
    topic = ("--entity-type", "topics", "--entity-name", "t")
    run(CONFIG, "--describe", *topic)
    run(CONFIG, "--alter", *topic, "--add-config", "retention.ms=1000,cleanup.policy=[compact,delete]")
    run(CONFIG, "--describe", *topic)
    run(CONFIG, "--describe", "--all", *topic)
    run(CONFIG, "--alter", *topic, "--delete-config", "retention.ms")
    run(CONFIG, "--alter", *topic, "--delete-config", "retention.ms")
    run(CONFIG, "--describe", "--entity-type", "topics")
    run(CONFIG, "--alter", *topic, "--add-config", "retention.ms=soon")
    run(CONFIG, "--alter", *topic, "--add-config", "no.such.setting=1")
    run(CONFIG, "--describe", "--entity-type", "topics", "--entity-name", "missing")
    missing = ("--entity-type", "topics", "--entity-name", "missing")
    run(CONFIG, "--alter", *missing, "--add-config", "retention.ms=1")
    broker = (*BROKERS, "--entity-name", 1)
    default = (*BROKERS, "--entity-default")
    run(CONFIG, "--alter", *broker, "--add-config", "message.max.bytes=2000000")
    run(CONFIG, "--alter", *default, "--add-config", "log.retention.ms=70000000")
    session.cluster.wait_until(
        lambda: (
            "2000000" in session.look(CONFIG, "--describe", *broker)
            and all(  # any broker may be asked for what holds of all of them, and each hears of it for itself
                "70000000" in session.look(CONFIG, "--describe", "--all", *BROKERS, "--entity-name", one)
                for one in session.cluster.brokers
            )
        ),
        "the configuration is there",
    )
    run(CONFIG, "--describe", *broker)
    run(CONFIG, "--describe", *default)
    run(CONFIG, "--describe", "--all", *broker)
    run(CONFIG, "--alter", *broker, "--add-config", "broker.rack=r")
    run(CONFIG, "--alter", *broker, "--add-config", "message.max.bytes=many")
    run(CONFIG, "--alter", *broker, "--delete-config", "message.max.bytes")
    run(CONFIG, "--alter", *default, "--delete-config", "log.retention.ms")
    run(CONFIG, "--describe", *broker)


def refusals(session: Session) -> None:
    """What a broker or a topic may not be told while it runs, and what only other clusters have."""
    run = session.run
    topic = ("--entity-type", "topics", "--entity-name", "t")
    for wrong in (
        "retention.ms=1_000",
        "retention.ms=-2",
        "retention.ms=9999999999999999999",
        "segment.ms=0",
        "compression.type=",
        "min.cleanable.dirty.ratio=nan",
        "index.interval.bytes=1.5",
        "cleanup.policy=delete+",
        "leader.replication.throttled.replicas=a:b",
    ):
        run(CONFIG, "--alter", *topic, "--add-config", wrong)
    every_broker = ("--entity-type", "brokers", "--entity-default")
    for wrong in (
        "max.connections=0",
        "max.connections.per.ip=0",
        "max.connection.creation.rate=0",
        "num.io.threads=100",
        "num.network.threads=7",
        "num.replica.fetchers=0",
        "background.threads=21",
        "log.cleaner.threads=3",
        "principal.builder.class=x",
        "log.segment.bytes=1",
        "num.partitions=7",
        "advertised.listeners=PLAINTEXT://x:1",
        "ssl.keystore.location=/x",
    ):
        run(CONFIG, "--alter", *every_broker, "--add-config", wrong)
    run(CONFIG, "--describe", *every_broker)
    metrics = ("--entity-type", "client-metrics", "--entity-name", "m")
    run(CONFIG, "--alter", *metrics, "--add-config", "interval.ms=1000")
    run(QUORUM, "describe", "--status")
    run(FEATURES, "upgrade", "--feature", "x=1")
    run(FEATURES, "disable", "--feature", "transaction.version")


def quotas(session: Session) -> None:
    run = session.run
    ann, app = (
        ("--entity-type", "users", "--entity-name", "ann"),
        ("--entity-type", "clients", "--entity-name", "app"),
    )
    every_user = ("--entity-type", "users", "--entity-default")
    run(CONFIG, "--alter", *ann, "--add-config", "producer_byte_rate=1000,consumer_byte_rate=2000.5")
    run(CONFIG, "--alter", *ann, "--add-config", "producer_byte_rate=1000,consumer_byte_rate=2000")
    run(CONFIG, "--alter", *ann, "--add-config", "producer_byte_rate=-1")
    run(CONFIG, "--alter", *ann, "--add-config", "request_percentage=many")
    run(CONFIG, "--alter", *ann, *app, "--add-config", "request_percentage=150")
    run(CONFIG, "--alter", *every_user, "--add-config", "controller_mutation_rate=5.5")
    run(CONFIG, "--alter", *app, "--add-config", "producer_byte_rate=7")
    address = ("--entity-type", "ips", "--entity-name", "127.0.0.9")
    run(CONFIG, "--alter", *address, "--add-config", "connection_creation_rate=100")
    every = (("users",), ("clients",), ("ips",))
    session.cluster.wait_until(
        lambda: all(session.look(CONFIG, "--describe", "--entity-type", *of) for of in every),
        "the quotas are there",
    )
    for of in every:
        run(CONFIG, "--describe", "--entity-type", *of)
    run(CONFIG, "--describe", *ann)
    run(CONFIG, "--describe", *ann, *app)
    run(CONFIG, "--describe", *every_user)
    run(CONFIG, "--alter", *ann, "--delete-config", "producer_byte_rate")
    run(CONFIG, "--alter", *ann, "--delete-config", "producer_byte_rate")
    session.cluster.wait_until(
        lambda: "producer_byte_rate" not in session.look(CONFIG, "--describe", *ann), "the quota is gone"
    )
    run(CONFIG, "--describe", *ann)


def moves(session: Session) -> None:
    run = session.run
    t0 = {"topic": "t", "partition": 0}

    def plan(name: str, *rows: dict[str, object]) -> tuple[str, str]:
        return "--reassignment-json-file", session.file(name, {"version": 1, "partitions": list(rows)})

    run(REASSIGN, "--list")
    there = plan("there.json", {**t0, "replicas": [2, 3]}, {"topic": "t", "partition": 1, "replicas": [3, 2]})
    run(REASSIGN, *there, "--execute", "--throttle", "10000000")
    session.cluster.wait_reassigned("t", {0: [2, 3], 1: [3, 2]})
    session.cluster.wait_full("t")
    run(REASSIGN, *there, "--verify")
    run(REASSIGN, "--list")
    run(CONFIG, "--describe", "--entity-type", "topics", "--entity-name", "t")
    run(REASSIGN, *plan("dead.json", {**t0, "replicas": [2, 9]}), "--execute")
    missing = {"topic": "missing", "partition": 0, "replicas": [1]}
    run(REASSIGN, *plan("missing.json", missing), "--execute")
    run(REASSIGN, *plan("twice.json", {**t0, "replicas": [2, 2]}), "--execute")
    run(REASSIGN, *there, "--cancel")
    run(TOPIC, "--describe", "--topic", "t")


def elections(session: Session) -> None:
    run = session.run
    preferred = ("--election-type", "preferred")
    run(ELECT, *preferred, "--topic", "t", "--partition", 2)
    swapped = {"version": 1, "partitions": [{"topic": "t", "partition": 2, "replicas": [1, 3]}]}
    run(REASSIGN, "--reassignment-json-file", session.file("swap.json", swapped), "--execute")
    session.cluster.wait_reassigned("t", {2: [1, 3]})
    session.cluster.wait_full("t")
    run(ELECT, *preferred, "--topic", "t", "--partition", 2)
    run(ELECT, *preferred, "--topic", "t", "--partition", 2)
    run(ELECT, *preferred, "--topic", "t", "--partition", 99)
    run(ELECT, *preferred, "--topic", "missing", "--partition", 0)
    run(ELECT, "--election-type", "unclean", "--topic", "t", "--partition", 0)
    run(ELECT, *preferred, "--all-topic-partitions")
    run(ELECT, "--election-type", "best", "--all-topic-partitions")
    run(TOPIC, "--describe", "--topic", "t")


def records(session: Session) -> None:
    run = session.run
    run(TOPIC, "--create", "--topic", "lines", "--replica-assignment", "1:2")
    session.cluster.wait_full("lines")
    run(CONSOLE_PRODUCER, "--topic", "lines", stdin="one|two|three|")
    here = ("--topic", "lines", "--partition", 0, "--offset", "earliest", "--timeout-ms", 20000)
    run(CONSOLE_CONSUMER, *here, "--max-messages", 3)
    shown = ("--property", "print.offset=true", "--property", "print.partition=true")
    run(CONSOLE_CONSUMER, *here, "--max-messages", 2, *shown)
    run(OFFSETS, "--topic", "lines")
    run(OFFSETS, "--topic", "lines", "--time", "earliest")
    run(OFFSETS, "--topic", "missing")
    until = {"version": 1, "partitions": [{"topic": "lines", "partition": 0, "offset": 2}]}
    run(DELETE_RECORDS, "--offset-json-file", session.file("records.json", until))
    run(OFFSETS, "--topic", "lines", "--time", "earliest")
    run(LOG_DIRS, "--describe")
    run(LOG_DIRS, "--describe", "--broker-list", "2", "--topic-list", "lines")
    run(LOG_DIRS, "--describe", "--broker-list", "1,9")


def elsewhere(session: Session) -> None:
    """Last, for what it leaves behind."""
    for command, arguments in DIFFERENT:
        session.run(command, *arguments)


# What ours do otherwise, on purpose; docs/mixing.md says why.
DIFFERENT: Sequence[tuple[str, tuple[str, ...]]] = (
    # Apache's controller makes a topic that waits for a broker nobody has heard of, and then cannot delete it.
    (TOPIC, ("--create", "--topic", "none", "--replica-assignment", "1:9")),
    # Apache's brokers of 3.9 know of no feature beside ZooKeeper.
    (FEATURES, ("describe",)),
)

CHAPTERS: Sequence[Chapter] = (topics, configs, refusals, quotas, moves, elections, records)


@pytest.fixture(scope="module")
def transcripts(
    tmp_path_factory: pytest.TempPathFactory, tools: Tools
) -> tuple[dict[str, Transcript], dict[str, Transcript]]:
    """Ours and Apache's."""
    ours, apaches = (
        transcript_of(kind, tmp_path_factory.mktemp("tools"), tools, (*CHAPTERS, elsewhere))
        for kind in (OURS, APACHES)
    )
    return ours, apaches


@pytest.mark.parametrize("chapter", [chapter.__name__ for chapter in CHAPTERS])
def test_the_tools_print_what_they_print_against_apache(
    transcripts: tuple[dict[str, Transcript], dict[str, Transcript]], chapter: str
) -> None:
    ours, apaches = (transcript[chapter] for transcript in transcripts)
    assert (found := differences(ours, apaches)) is None, found


def test_what_differs_on_purpose_differs_still(
    transcripts: tuple[dict[str, Transcript], dict[str, Transcript]],
) -> None:
    """An entry that is not true any more is to be taken out."""
    ours, apaches = (transcript["elsewhere"] for transcript in transcripts)
    assert len(ours) == len(DIFFERENT)
    for (command, mine), (_, theirs) in zip(ours, apaches, strict=True):
        assert mine != theirs, command
