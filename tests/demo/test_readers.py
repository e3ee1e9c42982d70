"""The group that reads while the demo writes: whatever it misses, and whatever it reads twice, is counted."""

import pytest

from odradek.demo import readers as readers_module
from odradek.demo.readers import NotJoined, Readers, group_coordinated_by
from odradek.demo.report import verdict_lines
from odradek.testing.running_cluster import running_cluster
from tests.demo.results import a_result


class Message:
    def __init__(self, partition: int, offset: int) -> None:
        self._partition, self._offset = partition, offset

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset


@pytest.mark.parametrize(
    ("offsets", "missing", "again"),
    [([0, 1, 2, 3], 0, 0), ([0, 1, 3], 1, 0), ([0, 1], 2, 0), ([2, 3, 0, 1, 2, 2], 0, 2), ([], 4, 0)],
)
def test_each_offset_is_counted(offsets: list[int], missing: int, again: int) -> None:
    readers = Readers("127.0.0.1:1", "orders", "readers", [0, 1])
    readers._note([Message(0, offset) for offset in offsets])
    reading = readers.reading({0: 4, 1: 0})
    assert (reading.missing, reading.again) == (missing, again)


def test_a_group_that_does_not_come_about_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers_module, "JOIN_S", 0.2)
    with Readers("127.0.0.1:1", "orders", "readers", [0]) as readers, pytest.raises(NotJoined) as told:
        readers.joined()
    assert "group readers did not come about within 0.2 s: 0 of 1 partitions have a reader" in str(told.value)


def test_the_groups_coordinator_is_the_broker_that_will_be_killed() -> None:
    from odradek.client.sync import SyncClient
    from odradek.client.sync_groups import coordinators

    with running_cluster(brokers=3) as cluster, SyncClient(cluster.bootstrap) as client:
        for broker in (1, 2, 3):
            name = group_coordinated_by(client, "orders", broker)
            assert coordinators(client, [name]) == {name: broker}


def test_records_the_group_missed_are_no_success() -> None:
    result = a_result()
    result.problems.append("group readers did not read 3 records")
    assert not result.ok
    assert verdict_lines(result)[0] == "group readers did not read 3 records"
