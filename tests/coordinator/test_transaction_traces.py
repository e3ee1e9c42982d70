"""What Apache Kafka answered, request by request, against the pure transaction coordinator: docs/differences.md says where
it is otherwise, and KNOWN which steps of the traces show it."""

import pytest

from tests.coordinator.traces import Trace, traces
from tests.coordinator.transaction_traces import TransactionPlayer, is_of_transactions

# Trace -> steps that differ, each with the row of docs/differences.md.
KNOWN = {
    # DescribeTransactions names the partitions that have no marker yet, as it is in that moment.
    "transactions-failover-3.9/prepared": {"8 DescribeTransactions"},
    # The end of a transaction does not wait for the next block of producer ids.
    "transactions-failover-3.9/epoch-exhaustion-open": {"10 DescribeTransactions"},
    # A leader lets no epoch ahead of the coordinator's into an open transaction, so no marker meets one.
    "transactions-3.9/wrong-epochs": {"40 DescribeTransactions", "41 InitProducerId"},
}
FOLDERS = (
    "transactions-3.9",
    "transactions-v1-on-4.1",
    "transactions-4.1",
    "transactions-failover-3.9",
    "transactions-limits-3.9",
)
ALL = [trace for folder in FOLDERS for trace in traces(folder).values() if is_of_transactions(trace)]


@pytest.mark.parametrize("trace", ALL, ids=lambda trace: f"{trace.folder}/{trace.name}")
def test_a_trace_is_answered_as_it_was_recorded(trace: Trace) -> None:
    differences = TransactionPlayer(trace).play()

    found = {line.split(":")[0] for line in differences}
    assert found == KNOWN.get(f"{trace.folder}/{trace.name}", set()), "\n".join(differences)


def test_every_trace_that_differs_is_there() -> None:
    assert set(KNOWN) <= {f"{trace.folder}/{trace.name}" for trace in ALL}
    assert len(ALL) == 41
