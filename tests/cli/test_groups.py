"""`odradek group`: against brokers in this process, and members that are another client."""

import contextlib
import itertools
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest

from odradek.advisor.what_if import what_if
from odradek.advisor.what_if_steps import CatchUp, Elect, Kill, Start, ask
from odradek.cli import cluster_health
from odradek.cli.groups.moving import Move, coordinators_moved, sentences
from odradek.cli.groups.why import moment
from odradek.cli.topic import offset_ranges as offset_ranges_module
from odradek.cli.topic.offset_ranges import Extents
from odradek.cli.topic.offsets import ms_of
from odradek.client import sync_groups, sync_records
from odradek.client.sync import SyncClient
from odradek.client.sync_fetch import Fetched
from odradek.coordinator.assigned import assigned_partitions
from odradek.coordinator.records import GroupKey, GroupRecord, StoredGroup, encode
from odradek.model.error_codes import ErrorCode
from odradek.model.groups import Position
from odradek.model.ids import BrokerId, TopicPartition
from odradek.records.builder import NewRecord, build_batch
from odradek.testing.running_cluster import RunningCluster, running_cluster
from tests.cli.conftest import Shell
from tests.controller.world import three
from tests.support import eventually

PARTITIONS = 3
RECORDS = 12
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def groups_cluster() -> Iterator[RunningCluster]:
    settings = {"group.initial.rebalance.delay.ms": "0", "log.retention.ms": "-1"}
    with running_cluster(brokers=3, settings=settings) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def shell(groups_cluster: RunningCluster) -> Shell:
    return Shell(groups_cluster.bootstrap)


@pytest.fixture
def orders(shell: Shell) -> str:
    """A topic of this test alone, RECORDS records in its PARTITIONS partitions, four each."""
    name = f"orders-{next(NUMBERS)}"
    shell.ok("topic", "create", name, "-p", PARTITIONS, "-r", 3)
    producer = confluent_kafka.Producer({"bootstrap.servers": shell.bootstrap})
    for number in range(RECORDS):
        producer.produce(name, b"%d" % number, partition=number % PARTITIONS, timestamp=1_000 + number)
    assert producer.flush(30) == 0
    return name


@contextlib.contextmanager
def reading(
    shell: Shell, group: str, topic: str, records: int = RECORDS, protocol: str = "classic"
) -> Iterator[confluent_kafka.Consumer]:
    """A member that has read and committed so many records."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": shell.bootstrap,
            "group.id": group,
            "client.id": "reader",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    read = 0
    try:
        while read < records:
            message = consumer.poll(30)
            assert message is not None and message.error() is None, message and message.error()
            read += 1
        if records:
            consumer.commit(asynchronous=False)
        yield consumer
    finally:
        consumer.close()


def left(shell: Shell, group: str, topic: str, records: int = RECORDS) -> None:
    with reading(shell, group, topic, records):
        pass


def test_a_group_with_a_member_is_listed_described_and_shown(shell: Shell, orders: str) -> None:
    with reading(shell, "billing", orders):
        listed = {row["group"]: row for row in shell.json("group", "list")}
        assert (listed["billing"]["state"], listed["billing"]["protocol_type"]) == ("Stable", "consumer")
        (told,) = shell.json("group", "describe", "billing")
        assert (told["members"], told["partitions"], told["lag"], told["assignor"]) == (1, 3, 0, "range")
        assert told["coordinator"] == listed["billing"]["coordinator"]
        (member,) = shell.json("group", "members", "billing")
        assert (member["client"], member["topics"]) == ("reader", [orders])
        assert [p["partition"] for p in member["partitions"]] == [0, 1, 2]
        assert shell.ok("group", "members", "billing").startswith("billing is Stable: 1 member\n")
        assert f"{orders}-0,1,2" in shell.ok("group", "members", "billing")
        assert [row["group"] for row in shell.json("group", "list", "--state", "stable")] == ["billing"]
        assert "billing" not in {row["group"] for row in shell.json("group", "list", "--state", "empty")}


def test_a_group_of_the_new_protocol_is_shown_like_any_other(shell: Shell, orders: str) -> None:
    with reading(shell, "modern", orders, protocol="consumer"):
        (told,) = shell.json("group", "describe", "modern")
        assert (told["state"], told["type"], told["members"], told["lag"]) == ("Stable", "consumer", 1, 0)
        (member,) = shell.json("group", "members", "modern")
        assert [p["partition"] for p in member["partitions"]] == [0, 1, 2]
        assert shell.json("why", "modern")["well"]
        assert shell("group", "seek", "modern", "--topic", orders, "--to-earliest", "--yes")[0] == 1
    report = shell.json("group", "seek", "modern", "--topic", orders, "--to-earliest", "--yes")
    assert report["ok"] and shell.json("group", "lag", "modern")["lag"] == RECORDS


def test_lag_is_what_lies_between_the_commit_and_the_high_watermark(shell: Shell, orders: str) -> None:
    left(shell, "late", orders)
    producer = confluent_kafka.Producer({"bootstrap.servers": shell.bootstrap})
    for _ in range(5):
        producer.produce(orders, b"more", partition=1)
    assert producer.flush(30) == 0
    report = shell.json("group", "lag", "late")
    assert (report["state"], report["lag"], report["unknown"]) == ("Empty", 5, [])
    assert [(p["committed"], p["high_watermark"], p["lag"]) for p in report["partitions"]] == [
        (4, 4, 0),
        (4, 9, 5),
        (4, 4, 0),
    ]
    assert shell.ok("group", "lag", "late").startswith("late is Empty: 3 partitions, lag 5\n")
    assert shell.ok("group", "members", "late") == "late is Empty and has no members\n"


def test_where_one_end_is_not_known_the_lag_of_the_group_is_not(
    shell: Shell, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the others lag was told as all of it."""
    left(shell, "half", orders)
    ranges = offset_ranges_module.offset_ranges

    def one_is_silent(*asked: Any, **options: Any) -> Extents:
        found = ranges(*asked, **options)
        silent = min(found.ends)
        del found.ends[silent]
        found.problems[silent] = "no answer in time"
        return found

    monkeypatch.setattr(offset_ranges_module, "offset_ranges", one_is_silent)
    report = shell.json("group", "lag", "half")
    assert (report["lag"], [one["lag"] for one in report["partitions"]]) == (None, [None, 0, 0])
    assert shell.ok("group", "lag", "half").startswith("half is Empty: 3 partitions, lag not known\n")


def test_leaders_are_asked_once_however_many_groups_are_described(
    shell: Shell, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is silent is waited for 2 s: for each of a thousand groups that was half an hour."""
    names = [f"many-{number}-{orders}" for number in range(3)]
    for number, name in enumerate(names):
        shell.ok("group", "seek", name, "--topic", orders, "--to-offset", number, "--yes")
    asked: list[int] = []

    def counted(client: Any, view: Any, partitions: Iterable[TopicPartition]) -> Extents:
        wanted = list(partitions)
        asked.append(len(wanted))
        return offset_ranges(client, view, wanted)

    offset_ranges = offset_ranges_module.offset_ranges
    monkeypatch.setattr(offset_ranges_module, "offset_ranges", counted)
    found = shell.json("group", "describe", *names)
    assert asked == [PARTITIONS]
    assert [row["lag"] for row in found] == [RECORDS, RECORDS - PARTITIONS, RECORDS - 2 * PARTITIONS]


def test_a_partition_whose_topic_is_gone_has_no_lag_and_says_why() -> None:
    where = TopicPartition("orders", 0)
    assert Position(where, committed=7, start=None, end=None).lag is None
    assert Position(where, committed=None, start=0, end=9).lag is None
    assert Position(where, committed=9, start=0, end=4).lag == 0, "the log was cut below the commit"


@pytest.mark.parametrize(
    ("border", "offsets", "words"),
    [
        (["--to-earliest"], [0, 0, 0], ""),
        (["--to-latest"], [4, 4, 4], ""),
        (["--to-offset", 2], [2, 2, 2], ""),
        (["--to-offset", 40], [4, 4, 4], "40 is beyond its end"),
        (["--by", -3], [1, 1, 1], ""),
        (["--by", -30], [0, 0, 0], "-26 is below its start"),
        (["--to-timestamp", 1_004], [2, 1, 1], ""),
        (["--to-timestamp", 1_010], [4, 3, 3], "no record that late"),
    ],
)
def test_seek_shows_and_then_moves(
    shell: Shell, orders: str, border: list[object], offsets: list[int], words: str
) -> None:
    left(shell, "seeker", orders)
    code, out, _ = shell("group", "seek", "seeker", "--topic", orders, *border)
    assert code == 1 and out.startswith("seeker: nothing is moved yet; --yes moves\n")
    assert words in out
    before = shell.json("group", "lag", "seeker")["partitions"]
    assert [p["committed"] for p in before if p["topic"] == orders] == [4, 4, 4], "only shown"
    report = shell.json("group", "seek", "seeker", "--topic", orders, *border, "--yes")
    assert report["ok"] is True
    assert [(row["before"], row["after"], row["done"]) for row in report["results"]] == [
        (4, offset, True) for offset in offsets
    ]
    after = shell.json("group", "lag", "seeker")["partitions"]
    assert [p["committed"] for p in after if p["topic"] == orders] == offsets


def test_seek_takes_some_partitions_of_a_topic_or_all_that_were_committed(shell: Shell, orders: str) -> None:
    left(shell, "some", orders)
    report = shell.json("group", "seek", "some", "-t", f"{orders}:0,2", "--to-earliest", "--execute")
    assert [row["target"] for row in report["results"]] == [f"{orders}-0", f"{orders}-2"]
    report = shell.json("group", "seek", "some", "--all-topics", "--to-latest", "--yes")
    assert [row["before"] for row in report["results"]] == [0, 4, 0]


def test_seek_makes_a_group_that_nobody_has_used_yet(shell: Shell, orders: str) -> None:
    code, _, err = shell("group", "seek", "unused", "--all-topics", "--to-latest")
    assert code == 1 and "has committed nothing" in err
    shell.ok("group", "seek", "unused", "--topic", orders, "--to-latest", "--yes")
    assert shell.json("group", "lag", "unused")["lag"] == 0


def test_a_group_with_members_is_neither_moved_nor_deleted(shell: Shell, orders: str) -> None:
    with reading(shell, "busy", orders):
        code, out, err = shell("group", "seek", "busy", "--topic", orders, "--to-earliest", "--yes")
        assert (code, out) == (1, "")
        assert "busy is Stable, with 1 member: stop them first" in err
        code, out, err = shell("group", "delete", "busy", "--yes")
        assert (code, out) == (1, "")
        assert "it is Stable, with 1 member" in err
        assert shell.json("group", "lag", "busy")["lag"] == 0


def test_a_member_that_joins_between_the_look_and_the_commit_is_told(
    shell: Shell, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left(shell, "raced", orders)
    real = sync_groups.commit
    members = []

    def joined_meanwhile(client, group, offsets):
        member = reading(shell, "raced", orders, records=0)
        members.append(member)
        consumer = member.__enter__()
        consumer.poll(0)

        def is_member() -> bool:
            consumer.poll(0.1)
            return len(shell.json("group", "members", "raced")) == 1

        eventually(is_member, 30.0, "somebody has joined")
        return real(client, group, offsets)

    monkeypatch.setattr(sync_groups, "commit", joined_meanwhile)
    try:
        code, out, _ = shell("group", "seek", "raced", "--topic", orders, "--to-earliest", "--yes")
    finally:
        members[0].__exit__(None, None, None)
    assert code == 1
    assert out.count("a member has joined the group meanwhile") == PARTITIONS


def test_delete_says_what_would_go_and_does_it_only_when_told(shell: Shell, orders: str) -> None:
    left(shell, "old", orders)
    code, out, _ = shell("group", "delete", "old")
    assert code == 1 and out.startswith("Nothing is deleted yet; --yes deletes, for good:")
    assert "old" in {row["group"] for row in shell.json("group", "list")}
    report = shell.json("group", "delete", "old", "--yes")
    about = {"state": "Empty", "members": 0, "offsets": 3}
    assert report == {"ok": True, "results": [{"target": "old", "done": True, "error": None, **about}]}
    assert "old" not in {row["group"] for row in shell.json("group", "list")}
    code, _, err = shell("group", "delete", "old", "--yes")
    assert code == 1 and err.startswith("odradek: there is no group old")
    assert shell("group", "delete", "old", "--yes", "--if-exists")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["seek", "any", "--to-latest"], 2, "say which partitions"),
        (["seek", "any", "--topic", "x", "--all-topics", "--to-latest"], 2, "say which partitions"),
        (["seek", "any", "--all-topics"], 2, "say one of --to-earliest"),
        (["seek", "any", "--all-topics", "--to-latest", "--by", "1"], 2, "say one of --to-earliest"),
        (["seek", "any", "--all-topics", "--to-timestamp", "soon"], 2, "there is no such time"),
        (["seek", "any", "--topic", "nonesuch", "--to-latest"], 1, "there is no topic nonesuch"),
        (["members", "nonesuch"], 1, "there is no group nonesuch"),
        (["lag", "nonesuch"], 1, "there is no group nonesuch"),
        (["describe", "nonesuch"], 1, "there is no group nonesuch"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    shell: Shell, arguments: list[str], code: int, words: str
) -> None:
    found, out, err = shell("group", *arguments, "--json")
    assert (found, out) == (code, "")
    assert words in json.loads(err)["error"]


def test_seek_refuses_a_partition_there_is_not(shell: Shell, orders: str) -> None:
    code, _, err = shell("group", "seek", "any", "--topic", f"{orders}:7", "--to-latest")
    assert code == 1 and "3 partitions, 0 to 2; there is no 7" in err
    code, _, err = shell("group", "seek", "any", "--topic", f"{orders}:x", "--to-latest")
    assert code == 2 and "expected partitions by number" in err


def test_a_misspelt_group_gets_the_nearest_one(shell: Shell, orders: str) -> None:
    left(shell, "shipping", orders)
    code, _, err = shell("group", "lag", "shiping")
    assert (code, err) == (1, "odradek: there is no group shiping; did you mean shipping?\n")


def test_a_group_with_any_name_is_named_so_that_a_terminal_obeys_nothing(shell: Shell, orders: str) -> None:
    name = f"\x1b[31mred\nof-{orders}"
    shell.ok("group", "seek", name, "--topic", orders, "--to-earliest", "--yes")
    shown = f"\\x1b[31mred\\nof-{orders}"
    assert shown in shell.ok("group", "list")
    assert {row["group"] for row in shell.json("group", "list")} >= {name}
    (described,) = shell.json("group", "describe", name)
    for arguments in (
        ("group", "lag", name),
        ("why", name),
        ("group", "lag", f"red\nof-{orders}"),
        ("group", "members", name),
        ("what-if", "--kill", described["coordinator"]),
        ("group", "seek", name, "--topic", orders, "--to-earliest"),
        ("group", "delete", name, "--yes"),
    ):
        _, out, err = shell(*arguments)
        assert "\x1b" not in out + err and shown in out + err, arguments


def test_a_look_at_a_cluster_without_groups_makes_no_topic_for_them() -> None:
    with running_cluster(brokers=1) as cluster:
        shell = Shell(cluster.bootstrap)
        assert shell.json("group", "list") == []
        assert shell.json("group", "describe") == []
        assert shell("group", "lag", "nobody")[0] == 1
        assert shell.json("topic", "list", "--internal") == []


def test_groups_go_on_where_their_coordinator_died(tmp_path: Path) -> None:
    with running_cluster(brokers=3, settings={"group.initial.rebalance.delay.ms": "0"}) as cluster:
        shell = Shell(cluster.bootstrap)
        shell.ok("topic", "create", "orders", "-p", 1, "-r", 3)
        shell.ok("group", "seek", "readers", "--topic", "orders", "--to-earliest", "--yes")
        (before,) = shell.json("group", "describe", "readers")
        cluster.kill(before["coordinator"])
        (after,) = shell.json("group", "describe", "readers")
        assert after["coordinator"] != before["coordinator"]
        assert shell.json("group", "lag", "readers")["partitions"][0]["committed"] == 0


def test_an_old_broker_is_asked_in_its_own_versions(
    shell: Shell, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FindCoordinator one by one before version 4, OffsetFetch of one group before 8, no KIP-848 at all."""
    left(shell, "ancient", orders)
    from odradek.client.sync_connection import SyncConnection

    real = SyncConnection._negotiate

    def old(self, deadline):
        real(self, deadline)
        self.versions |= {10: (0, 3), 9: (1, 7), 16: (0, 3), 15: (0, 4)}
        self.versions.pop(69, None)

    monkeypatch.setattr(SyncConnection, "_negotiate", old)
    (told,) = shell.json("group", "describe", "ancient")
    assert (told["state"], told["lag"]) == ("Empty", 0)
    assert {"group": "ancient", "state": "", "type": ""}.items() <= {
        row["group"]: row for row in shell.json("group", "list")
    }["ancient"].items()
    assert shell("group", "lag", "nonesuch")[0] == 1


@pytest.mark.parametrize(
    ("assignment", "partitions"),
    [
        (b"", ()),
        (b"\0\0\0\0\0\1\0\1t\0\0\0\2\0\0\0\5\0\0\0\1", (TopicPartition("t", 1), TopicPartition("t", 5))),
        (b"\0\0\0\0\0\1\0\1t\0\0\0\0\xff\xff\xff\xff", ()),
        (b"\0\0\x7f\xff\xff\xff\0\1t\0\0\0\0", None),
        (b"\0\0\0\0\0\1\0\1t\x7f\xff\xff\xff\0\0\0\1", None),
        (b"\0\0\0\0\0\1\0\x09t", None),
        (b"\0\0\0\0\0\1\0\1\xff\0\0\0\0", None),
        (b"\xff\xff\0\0\0\0", None),
        (b"\0", None),
    ],
)
def test_an_assignment_is_read_or_unknown(
    assignment: bytes, partitions: tuple[TopicPartition, ...] | None
) -> None:
    assert assigned_partitions(assignment) == partitions


def test_why_tells_who_owns_what_since_when_and_what_deaths_do(shell: Shell, orders: str) -> None:
    with reading(shell, "asked", orders):
        code, out, _ = shell("why", "asked")
        assert code == 0, out
        assert out.startswith("group asked is well: Stable for ")
        assert out.count("reader") >= PARTITIONS and " dies: " in out
        found = shell.json("why", "--group", "asked")
        assert found["well"] and found["unknown"] == []
        assert [p["lag"] for p in found["partitions"]] == [0, 0, 0]
        assert all(p["owned_since_ms"] > 1_700_000_000_000 for p in found["partitions"])
        deaths = {death["broker"]: death for death in found["deaths"]}
        assert sorted(deaths) == [1, 2, 3]
        assert deaths[found["coordinator"]]["coordinator_after"] not in (None, -1, found["coordinator"])
        assert sum(len(death["new_leaders"]) for death in deaths.values()) == PARTITIONS


def test_why_of_a_group_that_nobody_reads_for_says_how_far_it_is(shell: Shell, orders: str) -> None:
    left(shell, "dozing", orders)
    shell.ok("group", "seek", "dozing", "--topic", f"{orders}:1", "--by", "-3", "--yes")
    code, out, _ = shell("why", "dozing")
    assert code == 1
    assert out.startswith("group dozing is not well:\n  no   dozing keeps up: 3 records behind")
    assert f"{orders}-1 is read on: 3 behind, and the group has no members" in out


def test_a_topic_goes_before_a_group_of_its_name_unless_told(shell: Shell, orders: str) -> None:
    left(shell, orders, orders)
    assert shell.ok("why", orders).startswith(f"{orders} is well: 3 partitions")
    assert shell.ok("why", "--group", orders).startswith(f"group {orders} is well: Empty")
    code, _, err = shell("why", "--group", "nonesuch")
    assert code == 1 and err.startswith("odradek: there is no group nonesuch")
    code, _, err = shell("why", "nonesuch")
    assert code == 1 and err.startswith("odradek: there is no topic, partition or group nonesuch")


def test_the_past_is_found_however_much_was_committed_since(
    shell: Shell, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of the group lies behind thousands of commits; beyond a bound nobody looks for it."""
    from odradek.cli.groups import history

    with reading(shell, "chatty", orders) as consumer:
        for _ in range(40):
            consumer.commit(asynchronous=False, offsets=[confluent_kafka.TopicPartition(orders, 0, 4)])
        monkeypatch.setattr(history, "FIRST_READ", 4)
        assert all(p["owned_since_ms"] for p in shell.json("why", "chatty")["partitions"])
        monkeypatch.setattr(history, "MOST", 4)
        found = shell.json("why", "chatty")
        assert [p["owned_since_ms"] for p in found["partitions"]] == [None] * PARTITIONS
        assert found["unknown"] == ["since when its members have what they have: no record of chatty tells"]


def test_the_past_of_a_group_begins_with_its_own_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the same name was deleted before: members that it had did not come and go in this one."""
    from odradek.cli.groups import history

    def written(number: int, group: StoredGroup | None) -> bytes:
        record = NewRecord(*encode(GroupRecord(GroupKey("g"), group)), timestamp=1_000 * number)
        return build_batch([record], base_offset=number)

    lives = [StoredGroup("consumer", number, None, None, 0, ()) for number in (7, 8, 1)]
    log = [written(number, group) for number, group in enumerate((*lives[:2], None, lives[2]), start=3)]
    where = TopicPartition("__consumer_offsets", 0)
    monkeypatch.setattr(history, "partition_of_group", lambda *_: where)
    fetched = [Fetched(memoryview(b"".join(log)), 7, (), 7, 3)]
    monkeypatch.setattr(sync_records, "read_range", lambda *_, **__: [fetched.pop()])
    client: Any = SimpleNamespace(begin_offsets=lambda _: {where: 3}, end_offsets=lambda _: {where: 7})
    found = history.history(client, "g", 8_000)
    assert [(one.number, one.at_ms) for one in found.generations] == [(1, 6_000)]
    assert fetched == [], "what was read to its beginning is not read again"


def test_what_if_names_the_groups_whose_coordinator_moves(shell: Shell, orders: str) -> None:
    left(shell, "steered", orders)
    (before,) = shell.json("group", "describe", "steered")
    found = shell.json("what-if", "--kill", before["coordinator"])
    (move,) = [move for move in found["coordinators"] if "steered" in move["groups"]]
    assert move["before"] == before["coordinator"] and move["after"] not in (-1, before["coordinator"])
    pair = f"coordinator {move['before']} -> {move['after']} of "
    _, out, _ = shell("what-if", "--kill", before["coordinator"])
    assert any(line.startswith(pair) for line in out.splitlines())
    folded = [line for line in out.splitlines() if "__consumer_offsets" in line]
    assert len(folded) == 1 and " new leader" in folded[0], "one line for its fifty partitions"
    assert orders in out
    others = sorted({1, 2, 3} - {before["coordinator"]})
    found = shell.json("what-if", "--kill", others[0])
    assert not any("steered" in move["groups"] for move in found["coordinators"])


def test_a_group_without_a_name_is_seen_in_a_sentence() -> None:
    """Old clients commit for one: `group.id` empty, and no subscription."""
    move = Move(TopicPartition("__consumer_offsets", 0), BrokerId(3), BrokerId(1), ("g1", ""))
    assert sentences([move]) == ["coordinator 3 -> 1 of '', g1"]


def test_a_group_without_a_name_is_seen_in_a_table(
    shell: Shell, orders: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was a row that begins with nothing, and on a narrow terminal one without a group. Before there is one, no group of
    KIP-848 is asked for in its place, which is refused with INVALID_GROUP_ID."""
    shell.ok("group", "seek", "another", "--topic", orders, "--to-earliest", "--yes")
    assert shell("group", "lag", "")[2].startswith("odradek: there is no group ''")
    refused = shell("group", "seek", "", "--all-topics", "--to-earliest")[2]
    assert refused.startswith("odradek: '' has committed nothing")
    shell.ok("group", "seek", "", "--topic", orders, "--to-earliest", "--yes")
    for verb in (["list"], ["describe"], ["delete", "", "another", "--if-exists"]):
        _, out, _ = shell("group", *verb)
        assert any(line.startswith("'' ") for line in out.splitlines()), verb
    assert "" in [row["group"] for row in shell.json("group", "list")]
    report = {
        "groups": [{"group": "", "state": "Empty", "lag": 3}],
        "unknown": [],
        "brokers": [],
        "missing_brokers": [],
    }
    report |= {"healthy": True, "verdict": "healthy", "controller": 1, "partitions": 3}
    cluster_health.show({**report, "offline": [], "under_min_isr": [], "under_replicated": []})
    assert capsys.readouterr().out.splitlines()[-1].startswith("'' ")
    code, out, _ = shell("group", "delete", "", "--yes")
    assert code == 0 and out.splitlines()[-1].startswith("'' ")


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        ("2026-01-31T02:30:00", "02:30:00"),
        ("2026-01-31T00:00:00", "00:00:00"),
        ("2026-01-30T23:59:59", "2026-01-30 23:59:59"),
    ],
)
def test_a_time_of_day_is_one_of_today(at: str, shown: str) -> None:
    """In the night it was one of the evening before."""
    now_ms, at_ms = (ms_of(datetime.fromisoformat(text)) for text in ("2026-01-31T03:00:00", at))
    assert moment(at_ms, now_ms) == shown


def test_a_time_of_day_is_one_of_today_in_the_evening_too() -> None:
    now_ms, at_ms = (ms_of(datetime.fromisoformat(f"2026-01-31T{text}")) for text in ("23:00:00", "01:00:00"))
    assert moment(at_ms, now_ms) == "01:00:00"


def silent_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the groups of broker 2 is told."""
    original = sync_groups.list_groups

    def listed(client: Any, **options: Any) -> sync_groups.Listed:
        groups = original(client, **options).groups
        return sync_groups.Listed(
            {name: (broker, row) for name, (broker, row) in groups.items() if broker != 2},
            {2: "no answer in time"},
        )

    monkeypatch.setattr(sync_groups, "list_groups", listed)


def test_groups_that_a_broker_does_not_tell_are_missed_when_all_are_described(
    shell: Shell, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `group list`: a table without them looked as if there were no others."""
    left(shell, f"known-{orders}", orders)
    silent_broker(monkeypatch)
    code, _, err = shell("group", "describe")
    assert (code, err) == (1, "odradek: groups of broker 2 are not known: no answer in time\n")


def test_coordinators_of_a_silent_broker_are_said_to_move_though_nobody_tells_their_groups(
    shell: Shell, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks what becomes of a broker's death may ask because it hangs."""
    left(shell, f"moving-{orders}", orders)
    world = three("__consumer_offsets", [2, 1], [1, 2])
    answers = [what_if(world.context, kill=[BrokerId(2)])]
    silent_broker(monkeypatch)
    (move,) = coordinators_moved(answers, shell.bootstrap)
    assert (move.before, move.after, move.groups) == (2, 1, None)
    assert sentences([move]) == ["coordinator 2 -> 1 of 1 of __consumer_offsets's partitions"]


def test_where_there_is_no_group_no_coordinator_is_said_to_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """That there is none is known of a live cluster; of a journal it is not."""
    world = three("__consumer_offsets", [2, 1], [1, 2])
    answers = [what_if(world.context, kill=[BrokerId(2)])]
    monkeypatch.setattr("odradek.cli.groups.moving.groups_by_partition", lambda _: ({}, ()))
    (move,) = coordinators_moved(answers, "localhost:9092")
    assert (move.before, move.after, move.groups) == (2, 1, ())
    assert sentences([move]) == []
    (unknown,) = coordinators_moved(answers, None)
    assert unknown.groups is None
    assert sentences([unknown]) == ["coordinator 2 -> 1 of 1 of __consumer_offsets's partitions"]


def test_coordinators_move_from_before_the_first_step_to_after_the_last() -> None:
    world = three("__consumer_offsets", [2, 1], [1, 3])
    there_and_back = (Kill((BrokerId(2),)), Start((BrokerId(2),)), CatchUp(), Kill((BrokerId(3),)))
    answers, _ = ask(world.context, there_and_back)
    (move,) = coordinators_moved(answers, None)
    assert (str(move.partition), move.before, move.after) == ("__consumer_offsets-0", 2, 1)
    answers, _ = ask(world.context, (*there_and_back, Elect(False, None)))
    assert coordinators_moved(answers, None) == [], "it is where it was"


def test_health_tells_who_lags_and_is_healthy_all_the_same(shell: Shell, orders: str) -> None:
    left(shell, "healthy", orders)
    assert {"group": "healthy", "state": "Empty", "lag": 0} in shell.json("cluster", "health")["groups"]
    shell.ok("group", "seek", "healthy", "--topic", orders, "--to-earliest", "--yes")
    report = shell.json("cluster", "health")
    assert report["groups"][0]["lag"] >= RECORDS and report["healthy"]
    assert {"group": "healthy", "state": "Empty", "lag": RECORDS} in report["groups"]
    lines = [line.split() for line in shell.ok("cluster", "health").splitlines()]
    assert ["healthy", "Empty", str(RECORDS)] in lines


def test_a_commit_beyond_the_end_takes_nothing_off_the_lag_of_other_partitions(
    shell: Shell, orders: str
) -> None:
    """As after an unclean election: one log was cut below the commit, and another one is not read."""
    offsets = {TopicPartition(orders, 0): 4 + RECORDS, TopicPartition(orders, 1): 0}
    with SyncClient(shell.bootstrap) as client:
        assert set(sync_groups.commit(client, "cut", offsets).values()) == {ErrorCode.NONE}
    lag = RECORDS // PARTITIONS
    assert shell.json("group", "lag", "cut")["lag"] == lag
    assert {"group": "cut", "state": "Empty", "lag": lag} in shell.json("cluster", "health")["groups"]


def test_a_lag_that_is_not_known_makes_no_cluster_unhealthy(
    shell: Shell, orders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more groups than are asked, nobody's `until odradek cluster health` would ever have ended."""
    from odradek.cli.groups import lags

    for group in ("lag-asked", "lag-not-asked"):
        with reading(shell, group, orders):
            pass
    monkeypatch.setattr(lags, "MOST_GROUPS", 1)
    code, out, err = shell("cluster", "health")
    assert code == 0, (out, err)
    assert out.startswith("healthy: ") and "more groups: odradek group lag tells one's" in out
    monkeypatch.setattr(lags, "PATIENCE_S", 0.0)
    monkeypatch.setattr(
        sync_groups, "list_groups", lambda client, timeout_s: sync_groups.Listed({}, {2: "silent"})
    )
    code, out, err = shell("cluster", "health")
    assert code == 3 and out.startswith("not known to be healthy: "), (out, err)


def test_health_does_not_wait_for_a_coordinator_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    from odradek.cli.groups import lags

    monkeypatch.setattr(lags, "PATIENCE_S", 0.5)
    settings = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "3"}
    with running_cluster(brokers=3, settings=settings) as cluster:
        shell = Shell(cluster.bootstrap)
        shell.ok("topic", "create", "orders", "-p", 1, "-r", 3)
        for number in range(6):
            shell.ok("group", "seek", f"g{number}", "--topic", "orders", "--to-earliest", "--yes")
        (told,) = shell.json("group", "describe", "g0")
        cluster.kill(told["coordinator"])
        report = eventually(
            lambda: not (found := shell.json("cluster", "health"))["healthy"] and found, what="it is missed"
        )
        there = {row["group"] for row in report["groups"]}
        assert "g0" not in there, "nobody lists it while nobody coordinates it"


def test_what_a_transaction_commits_is_committed_once_that_one_is(shell: Shell, orders: str) -> None:
    """A reader whose transactions are all aborted is one that has committed nothing for as long."""
    from odradek.cli.groups.history import history

    consumer = confluent_kafka.Consumer({"bootstrap.servers": shell.bootstrap, "group.id": "trader"})
    producer = confluent_kafka.Producer({"bootstrap.servers": shell.bootstrap, "transactional.id": "trader"})
    producer.init_transactions(30)
    seen = []
    with SyncClient(shell.bootstrap) as client:
        for partition, end in enumerate((producer.abort_transaction, producer.commit_transaction)):
            producer.begin_transaction()
            offsets = [confluent_kafka.TopicPartition(orders, partition, 3)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
            seen.append(history(client, "trader", 0).committed_at_ms.keys())
            end(30)
        eventually(lambda: sync_groups.committed(client, "trader") == {TopicPartition(orders, 1): 3}, 30)
        seen.append(history(client, "trader", 0).committed_at_ms.keys())
    consumer.close()
    assert seen == [set(), set(), {TopicPartition(orders, 1)}]
