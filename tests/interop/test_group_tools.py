"""Apache's tools for groups, transactions and internal topics print against our brokers what they print against Apache's."""

from collections.abc import Sequence

import pytest

from odradek.coordinator.partitioning import partition_of
from tests.interop.apache import Tools
from tests.interop.cluster import APACHES, OURS
from tests.interop.transcripts import (
    DUMP,
    GROUPS,
    TRANSACTIONS,
    Chapter,
    Session,
    Transcript,
    differences,
    transcript_of,
)

TOPIC = "org.apache.kafka.tools.TopicCommand"
RESETTER = "org.apache.kafka.tools.StreamsResetter"
OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
FORMATTERS = "org.apache.kafka.tools.consumer"
INTERNAL_PARTITIONS = 4


def prepared(session: Session) -> None:
    """Both clusters lay the internal topics in the same places, so that the same brokers coordinate."""
    places = {index: [index % 3 + 1] for index in range(INTERNAL_PARTITIONS)}
    session.cluster.create_topic("__consumer_offsets", places, cleanup_policy="compact")
    session.cluster.create_topic("__transaction_state", places, cleanup_policy="compact")
    session.cluster.create_topic("grouped", {0: [1, 2], 1: [2, 3]})
    session.tell("produce", "grouped", 2, 20)


def groups(session: Session) -> None:
    run = session.run
    readers = ("--group", "readers")
    run(GROUPS, "--list")
    session.tell("subscribe", "grouped", "readers", 20, "auto.offset.reset=earliest", "client.id=reader")
    run(GROUPS, "--list")
    run(GROUPS, "--list", "--state")
    run(GROUPS, "--list", "--state", "stable")
    run(GROUPS, "--list", "--type")
    for what in ("--offsets", "--members", "--state"):
        run(GROUPS, "--describe", *readers, what)
    run(GROUPS, "--describe", "--all-groups")
    run(GROUPS, "--describe", "--group", "missing")
    run(GROUPS, "--describe", "--group", "missing", "--state")
    session.tell("hold", "grouped", "readers", "first", "client.id=reader")
    run(GROUPS, "--list", "--state")
    run(GROUPS, "--describe", *readers)
    run(GROUPS, "--describe", *readers, "--members", "--verbose")
    run(GROUPS, "--describe", *readers, "--state")
    of_topic = (*readers, "--topic", "grouped")
    run(GROUPS, "--reset-offsets", *of_topic, "--to-earliest", "--execute")
    run(GROUPS, "--delete-offsets", *of_topic)
    run(GROUPS, "--delete", *readers)
    session.tell("release", "first")
    session.cluster.wait_until(
        lambda: "Empty" in session.look(GROUPS, "--describe", *readers, "--state"), "the member has left"
    )
    run(GROUPS, "--describe", *readers)


def resets(session: Session) -> None:
    run = session.run
    readers = ("--group", "readers", "--topic", "grouped")
    run(GROUPS, "--reset-offsets", *readers, "--to-earliest", "--dry-run")
    run(GROUPS, "--reset-offsets", *readers, "--to-earliest", "--execute")
    run(GROUPS, "--reset-offsets", *readers, "--shift-by", 3, "--execute")
    run(GROUPS, "--reset-offsets", *readers, "--shift-by", -30, "--execute")
    run(GROUPS, "--reset-offsets", *readers, "--to-latest", "--execute")
    run(GROUPS, "--reset-offsets", *readers, "--to-datetime", "2000-01-01T00:00:00.000", "--execute")
    run(
        GROUPS, "--reset-offsets", "--group", "readers", "--topic", "grouped:1", "--to-offset", 7, "--execute"
    )
    run(GROUPS, "--reset-offsets", *readers, "--to-current", "--export", "--dry-run")
    run(GROUPS, "--reset-offsets", "--group", "newcomers", "--topic", "grouped", "--to-latest", "--execute")
    run(GROUPS, "--reset-offsets", "--group", "readers", "--topic", "missing", "--to-latest", "--execute")
    run(GROUPS, "--describe", "--all-groups", "--offsets")
    run(GROUPS, "--delete-offsets", "--group", "readers", "--topic", "grouped:0")
    run(GROUPS, "--delete-offsets", "--group", "readers", "--topic", "missing")
    run(GROUPS, "--describe", "--group", "readers")
    run(TOPIC, "--create", "--topic", "readers-store-changelog", "--replica-assignment", "1")
    session.cluster.wait_full("readers-store-changelog")
    application = ("--application-id", "readers", "--input-topics", "grouped")
    run(RESETTER, *application, "--to-offset", 2, "--dry-run")
    run(RESETTER, *application, "--to-offset", 2)
    session.cluster.wait_deleted("readers-store-changelog")
    run(RESETTER, "--application-id", "readers", "--input-topics", "missing")
    run(GROUPS, "--describe", "--group", "readers")


def transactions(session: Session) -> None:
    run = session.run
    for name, end in (("billing-1", "commit"), ("billing-2", "abort"), ("billing-3", "open")):
        session.tell("transact", "grouped", name, 5, end, "transaction.timeout.ms=600000")
    run(TRANSACTIONS, "list")
    for name in ("billing-1", "billing-2", "billing-3", "missing"):
        run(TRANSACTIONS, "describe", "--transactional-id", name)
    run(TRANSACTIONS, "describe-producers", "--topic", "grouped", "--partition", 0)
    run(TRANSACTIONS, "find-hanging", "--topic", "grouped")
    run(TRANSACTIONS, "find-hanging", "--broker-id", 1, "--max-transaction-timeout", 1)
    run(OFFSETS, "--topic", "grouped")
    here = ("--topic", "grouped", "--partition", 0, "--offset", 10, "--timeout-ms", 4000)
    for isolation in ("read_uncommitted", "read_committed"):
        run(CONSOLE_CONSUMER, *here, "--isolation-level", isolation)
    # Behind 10 records, 5 and their marker, 5 and theirs.
    run(TRANSACTIONS, "abort", "--topic", "grouped", "--partition", 0, "--start-offset", 22)
    run(TRANSACTIONS, "abort", "--topic", "grouped", "--partition", 0, "--start-offset", 3)
    run(TRANSACTIONS, "describe-producers", "--topic", "grouped", "--partition", 0)
    run(CONSOLE_CONSUMER, *here, "--isolation-level", "read_committed")


def internals(session: Session) -> None:
    """What stands in the internal topics, by the tools that read it."""
    for topic, key, decoder, formatters in (
        (
            "__consumer_offsets",
            "readers",
            "--offsets-decoder",
            ("OffsetsMessageFormatter", "GroupMetadataMessageFormatter"),
        ),
        (
            "__transaction_state",
            "billing-1",
            "--transaction-log-decoder",
            ("TransactionLogMessageFormatter",),
        ),
    ):
        partition = partition_of(key, INTERNAL_PARTITIONS)
        for formatter in formatters:
            all_of_it = ("--topic", topic, "--partition", partition, "--offset", "earliest")
            session.run(
                CONSOLE_CONSUMER, *all_of_it, "--timeout-ms", 4000, "--formatter", f"{FORMATTERS}.{formatter}"
            )
        directory = session.cluster.data_of(partition % 3 + 1) / f"{topic}-{partition}"
        (segment,) = directory.glob("*.log")
        session.run_on_files(DUMP, decoder, "--files", str(segment))


def removals(session: Session) -> None:
    run = session.run
    run(GROUPS, "--delete", "--group", "readers")
    run(GROUPS, "--delete", "--group", "missing")
    run(GROUPS, "--list")


CHAPTERS: Sequence[Chapter] = (groups, resets, transactions, internals, removals)


@pytest.fixture(scope="module")
def transcripts(
    tmp_path_factory: pytest.TempPathFactory, tools: Tools
) -> tuple[dict[str, Transcript], dict[str, Transcript]]:
    """Ours and Apache's."""
    ours, apaches = (
        transcript_of(kind, tmp_path_factory.mktemp("tools"), tools, (prepared, *CHAPTERS))
        for kind in (OURS, APACHES)
    )
    return ours, apaches


@pytest.mark.parametrize("chapter", [chapter.__name__ for chapter in CHAPTERS])
def test_tools_of_groups_and_transactions_print_what_they_print_against_apache(
    transcripts: tuple[dict[str, Transcript], dict[str, Transcript]], chapter: str
) -> None:
    ours, apaches = (transcript[chapter] for transcript in transcripts)
    assert (found := differences(ours, apaches)) is None, found
