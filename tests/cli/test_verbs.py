"""Each verb against three real broker processes, as a shell runs it."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading

import pytest

from odradek.client.sync import SyncClient
from odradek.client.sync_transaction import Transaction
from odradek.model.ids import TopicPartition
from odradek.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.records.builder import NewRecord, build_batch
from odradek.testing.process_cluster import ProcessCluster
from tests.support import eventually, started

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    # Some records here are of 1970: half a minute after the start retention would delete them.
    keep = {"log.retention.ms": "-1"}
    with ProcessCluster(tmp_path_factory.mktemp("cluster"), brokers=3, settings=keep) as running:
        yield running


@pytest.fixture(scope="module")
def odradek(cluster):
    """Runs a verb; (exit code, standard output, standard error)."""

    def run(*arguments, stdin=b""):
        answer = subprocess.run(
            [sys.executable, "-m", "odradek.cli.main", *arguments, "--bootstrap", cluster.bootstrap],
            input=stdin,
            capture_output=True,
            timeout=120,
        )
        assert b"Traceback" not in answer.stderr, answer.stderr.decode()
        return answer.returncode, answer.stdout.decode(), answer.stderr.decode()

    return run


@pytest.fixture(scope="module")
def orders(odradek):
    """A topic with three partitions and four records in them."""
    code, out, err = odradek("topic", "create", "orders", "-p", "3", "-r", "3", "-c", "min.insync.replicas=2")
    assert (code, out) == (0, "orders created: 3 partitions, 3 replicas each\n"), err
    code, _, err = odradek(
        "topic", "produce", "orders", "-K", ":", "-H", "a=1", stdin=b"k1:v1\nk2:v2\nk3:v3\nk1:v4\n"
    )
    assert (code, err) == (0, "4 records to 3 partitions of orders\n")
    return "orders"


def test_a_record_does_nothing_to_a_terminal_unless_it_is_told_to(odradek, cluster):
    odradek("topic", "create", "hostile", "-p", "1", "-r", "1")
    odradek("topic", "produce", "hostile", stdin=b"\x1b]0;owned\x07\x9bm\n")
    consume = [sys.executable, "-m", "odradek.cli.main", "topic", "consume", "hostile", "--exit"]

    def at_a_terminal(*options):
        ours, theirs = pty.openpty()
        with os.fdopen(ours, "rb", buffering=0) as shown, os.fdopen(theirs, "wb", buffering=0) as terminal:
            subprocess.run(
                [*consume, *options, "--bootstrap", cluster.bootstrap], stdout=terminal, timeout=60
            )
            return shown.read(1000)

    assert at_a_terminal() == b"\\x1b]0;owned\\x07\\x9bm\r\n"
    assert at_a_terminal("--raw") == b"\x1b]0;owned\x07\x9bm\r\n"
    piped = subprocess.run([*consume, "--bootstrap", cluster.bootstrap], capture_output=True, timeout=60)
    assert piped.stdout == b"\x1b]0;owned\x07\x9bm\n"


def test_create_says_what_came_of_it_and_who_leads(odradek):
    code, out, _ = odradek("topic", "create", "created", "-p", "2", "-r", "3", "--json")
    made = json.loads(out)
    assert code == 0
    (topic,) = made["results"]
    assert (made["ok"], topic["target"], topic["done"], topic["error"]) == (True, "created", True, None)
    assert set(topic["leaders"]) == {"0", "1"}
    code, _, err = odradek("topic", "create", "created")
    assert code == 1
    assert err.startswith("odradek: created: ") and "--if-not-exists accepts it" in err
    code, out, _ = odradek("topic", "create", "created", "--if-not-exists", "--json")
    assert (code, json.loads(out)["results"][0]["done"]) == (0, False)


def test_create_with_an_assignment_puts_the_preferred_leader_first(odradek):
    code, out, err = odradek("topic", "create", "assigned", "--assign", "3,1:1,2", "--json")
    assert code == 0, err
    assert json.loads(out)["results"][0]["leaders"] == {"0": 3, "1": 1}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["-r", "4"], 1, "4"),
        (["-c", "retention.mss=1"], 2, "did you mean retention.ms?"),
        (["-c", "retention.ms=soon"], 1, "retention.ms"),
        (["--assign", "1,2", "-p", "3"], 2, "--assign says how many already"),
        (["--assign", "1,9"], 1, "9"),
        (["--assign", "1,99999999999"], 2, "expected broker ids"),
        (["-p", "99999999999"], 2, "99999999999"),
    ],
)
def test_create_refuses_what_cannot_be_in_one_sentence(odradek, arguments, code, words):
    found, out, err = odradek("topic", "create", "refused", *arguments)
    assert (found, out) == (code, "")
    assert words in err and err.count("\n") == 1
    assert "refused" not in odradek("topic", "list")[1]


def test_list_names_topics_with_partitions_and_replicas(odradek, orders):
    code, out, _ = odradek("topic", "list", "--json")
    listed = {topic["topic"]: topic for topic in json.loads(out)}
    assert code == 0
    assert (listed["orders"]["partitions"], listed["orders"]["replicas"]) == (3, 3)
    assert len(listed["orders"]["topic_id"]) == 22
    code, out, _ = odradek("topic", "list")
    assert out.splitlines()[0].split() == [
        "TOPIC",
        "PARTITIONS",
        "REPLICAS",
        "UNDER",
        "REPLICATED",
        "TOPIC",
        "ID",
    ]


def test_describe_shows_leaders_offsets_and_what_was_set(odradek, orders):
    code, out, _ = odradek("topic", "describe", "orders", "--json")
    (topic,) = json.loads(out)
    assert code == 0
    assert topic["config"] == {"min.insync.replicas": "2"}
    assert [p["partition"] for p in topic["partitions"]] == [0, 1, 2]
    assert sum(p["high_watermark"] for p in topic["partitions"]) == 4
    assert all(sorted(p["isr"]) == [1, 2, 3] and p["leader"] == p["replicas"][0] for p in topic["partitions"])
    code, out, _ = odradek("topic", "describe", "orders")
    assert out.splitlines()[0].endswith("min.insync.replicas=2")


@pytest.mark.parametrize("verb", ["describe", "consume", "produce"])
def test_a_misspelt_topic_gets_the_nearest_one(odradek, orders, verb):
    code, out, err = odradek("topic", verb, "order")
    assert (code, out) == (1, "")
    assert err == "odradek: there is no topic order; did you mean orders?\n"


@pytest.mark.parametrize("verb", [["describe"], ["consume"], ["produce"], ["alter", "-p", "3"]], ids=" ".join)
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "the empty string is not allowed"),
        ("größe", "'größe' contains one or more characters other than"),
    ],
)
def test_a_name_that_no_topic_may_have_is_said_so(odradek, verb, name, why):
    code, out, err = odradek("topic", verb[0], name, *verb[1:])
    assert (code, out) == (1, "")
    assert err.startswith(f"odradek: topic name is invalid: {why}") and err.count("\n") == 1


def test_consume_writes_what_the_format_says(odradek, orders):
    code, out, _ = odradek("topic", "consume", "orders", "-e", "-f", r"%k=%v %h\n")
    assert code == 0
    assert sorted(out.splitlines()) == ["k1=v1 a=1", "k1=v4 a=1", "k2=v2 a=1", "k3=v3 a=1"]
    # Records of one key are in one partition, in order.
    assert out.index("v1") < out.index("v4")


def test_consume_takes_offsets_partitions_and_counts(odradek, orders):
    every = [
        json.loads(text) for text in odradek("topic", "consume", "orders", "-e", "--json")[1].splitlines()
    ]
    assert len(every) == 4
    of_k1 = [record for record in every if record["key"] == "k1"]
    partition = of_k1[0]["partition"]
    assert [record["offset"] for record in of_k1] == [0, 1]
    one = ["topic", "consume", "orders", "-p", str(partition)]
    assert odradek(*one, "-o", "-1", "-e")[1] == "v4\n"
    assert odradek(*one, "-o", ":1")[1] == "v1\n"
    assert odradek(*one, "-o", "1:2")[1] == "v4\n"
    assert odradek(*one, "-o", "end", "-e")[1] == ""
    assert odradek(*one, "-o", f"@{of_k1[0]['timestamp']}", "-e")[1] == "v1\nv4\n"
    _, out, err = odradek(*one, "-o", "@2100-01-01", "-e")
    assert (out, err) == (
        "",
        f"odradek: orders has no record from 2100-01-01 00:00:00 UTC on yet: partition {partition} ends at 2\n",
    )
    assert odradek(*one, "-o", "@1h", "-e")[1] == "v1\nv4\n"
    assert odradek(*one, "-o", "99", "-e") == (
        1,
        "",
        f"odradek: orders has no offset 99 yet: partition {partition} ends at 2\n",
    )
    assert odradek(*one, "-o", "2", "-e") == (0, "", "")
    assert odradek(*one, "-n", "1")[1] == "v1\n"
    code, _, err = odradek("topic", "consume", "orders", "-p", "7")
    assert (code, err) == (1, "odradek: orders has 3 partitions, 0 to 2; there is no 7\n")


def test_consume_beyond_the_end_says_so_and_waits_for_the_offset(odradek, cluster):
    odradek("topic", "create", "further", "-p", "1", "-r", "1")
    with started(
        [sys.executable, "-m", "odradek.cli.main", "topic", "consume", "further", "-o", "2", "-n", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ODRADEK_BOOTSTRAP": cluster.bootstrap},
    ) as reader:
        assert reader.stderr.readline() == "odradek: further has no offset 2 yet: partition 0 ends at 0\n"
        odradek("topic", "produce", "further", stdin=b"a\nb\nc\n")
        assert reader.communicate(timeout=60)[0] == "c\n"


def test_consume_leaves_out_an_open_transaction_and_waits_for_nothing_of_it(odradek, cluster):
    odradek("topic", "create", "opened", "-p", "2", "-r", "1")
    read = ("topic", "consume", "opened", "--read-committed", "-f", r"%p %o %v\n")
    with SyncClient(cluster.bootstrap) as client:
        odradek("topic", "produce", "opened", "-p", "0", stdin=b"a\n")
        transaction = Transaction(client, "opened", timeout_ms=300_000)
        transaction.begin()
        open_ = build_batch([NewRecord(None, b"open")], is_transactional=True)
        transaction.send({TopicPartition("opened", 0): [open_]})
        odradek("topic", "produce", "opened", "-p", "0", stdin=b"b\n")
        odradek("topic", "produce", "opened", "-p", "1", stdin=b"c\n")

        assert odradek(*read, "--exit") == (0, "0 0 a\n1 0 c\n", "")
        assert odradek(*read, "-n", "2") == (0, "0 0 a\n1 0 c\n", "")
        assert odradek(*read, "-o", ":3", "-p", "0") == (0, "0 0 a\n", "")
        assert odradek(*read, "-o", "-1", "-e", "-p", "0") == (0, "0 0 a\n", "")
        assert odradek(*read, "-o", "2", "-e", "-p", "0") == (0, "", "")
        transaction.commit()

    assert odradek(*read, "-n", "3", "-p", "0") == (0, "0 0 a\n0 1 open\n0 2 b\n", "")


def test_a_partition_that_is_named_twice_is_one(odradek, orders):
    beyond = ("topic", "consume", orders, "-o", "99", "--exit")
    once = odradek(*beyond, "-p", "0")
    assert once[0] == 1 and once[2].startswith("odradek: orders has no offset 99 yet: partition 0 ends at ")
    assert odradek(*beyond, "-p", "0", "-p", "0") == once


def test_consume_waits_for_more_until_it_has_its_count(odradek, cluster):
    odradek("topic", "create", "later", "-p", "1", "-r", "1")
    got = []
    reader = threading.Thread(
        target=lambda: got.append(odradek("topic", "consume", "later", "-o", "end", "-n", "2"))
    )
    reader.start()
    # Whenever it has resolved `end`, one of these comes after that.
    while reader.is_alive():
        odradek("topic", "produce", "later", stdin=b"x\nx\n")
        reader.join(0.1)
    assert got == [(0, "x\nx\n", "")]


@contextlib.contextmanager
def reading(cluster, topic, form, count):
    """A reader that waits for more, in a process of its own."""
    with started(
        [sys.executable, "-m", "odradek.cli.main", "topic", "consume", topic, "-f", form, "-n", str(count)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "ODRADEK_BOOTSTRAP": cluster.bootstrap},
    ) as reader:
        try:
            yield reader
        finally:
            reader.kill()


def test_a_reader_that_retention_has_overtaken_reads_on_at_what_is_there(odradek, cluster):
    odradek("topic", "create", "overtaken", "-p", "1", "-r", "1")
    odradek("topic", "produce", "overtaken", stdin=b"a\nb\n")
    with reading(cluster, "overtaken", r"%o %v\n", 3) as reader, SyncClient(cluster.bootstrap) as client:
        assert [reader.stdout.readline() for _ in range(2)] == ["0 a\n", "1 b\n"]
        reader.send_signal(signal.SIGSTOP)
        odradek("topic", "produce", "overtaken", stdin=b"c\nd\n")
        delete = DeleteRecordsPartition(partition_index=0, offset=3)
        leader, _ = client.leader(TopicPartition("overtaken", 0))
        rows = [DeleteRecordsTopic(name="overtaken", partitions=[delete])]
        answer = client.call(leader, DeleteRecordsRequest(topics=rows, timeout_ms=30_000))
        assert answer.topics[0].partitions[0].low_watermark == 3
        reader.send_signal(signal.SIGCONT)
        assert reader.communicate(timeout=60) == (
            "3 d\n",
            "odradek: overtaken-0: offsets 2 to 2 are not there any more (retention, or DeleteRecords); "
            "reading on at 3\n",
        )


def test_a_reader_of_a_topic_that_is_created_again_reads_the_new_one_from_its_start(odradek, cluster):
    """It waited, without a word, until the new one had as many records as had been read of the old one."""
    odradek("topic", "create", "again", "-p", "1", "-r", "1")
    odradek("topic", "produce", "again", stdin=b"a\nb\n")
    with reading(cluster, "again", r"%o %v\n", 3) as reader:
        assert [reader.stdout.readline() for _ in range(2)] == ["0 a\n", "1 b\n"]
        odradek("topic", "delete", "again", "--yes")
        eventually(lambda: odradek("topic", "create", "again", "-p", "1", "-r", "1")[0] == 0)
        odradek("topic", "produce", "again", stdin=b"c\n")
        read, told = reader.communicate(timeout=60)
        assert read == "0 c\n"
        # A reader that looks between the two is told that there is none, and that it is read again.
        assert [line for line in told.splitlines() if "again-0: " not in line] == [
            "odradek: again was deleted and created again; reading the new one from its start"
        ]


def test_nothing_is_left_out_of_a_new_topic_that_is_longer_already_than_the_old_one_was(odradek, cluster):
    """It read on where it had been, and never said a word of the records before that."""
    odradek("topic", "create", "longer", "-p", "1", "-r", "1")
    odradek("topic", "produce", "longer", stdin=b"a\nb\n")
    with reading(cluster, "longer", r"%o %v\n", 5) as reader:
        assert [reader.stdout.readline() for _ in range(2)] == ["0 a\n", "1 b\n"]
        reader.send_signal(signal.SIGSTOP)
        odradek("topic", "delete", "longer", "--yes")
        eventually(lambda: odradek("topic", "create", "longer", "-p", "1", "-r", "1")[0] == 0)
        odradek("topic", "produce", "longer", stdin=b"c\nd\ne\n")
        reader.send_signal(signal.SIGCONT)
        assert reader.communicate(timeout=60) == (
            "0 c\n1 d\n2 e\n",
            "odradek: longer was deleted and created again; reading the new one from its start\n",
        )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_in_json_comes_back_in_json(odradek, codec):
    topic = f"codec-{codec}"
    odradek("topic", "create", topic, "-p", "1", "-r", "2")
    lines = [
        {"key": "k", "value": "text", "timestamp": 5, "headers": [["h", "1"]]},
        {"key": None, "value": {"base64": "AP8="}, "timestamp": 6, "headers": []},
    ]
    stdin = "".join(json.dumps(line) + "\n" for line in lines).encode()
    code, out, err = odradek(
        "topic", "produce", topic, "--format", "json", "-z", codec, "--json", stdin=stdin
    )
    assert code == 0, err
    assert json.loads(out)["partitions"] == {"0": {"records": 2, "last_offset": 1}}
    found = [json.loads(text) for text in odradek("topic", "consume", topic, "-e", "--json")[1].splitlines()]
    assert [{name: record[name] for name in lines[0]} for record in found] == lines


def test_who_asks_for_no_acknowledgement_is_told_no_offset(odradek):
    odradek("topic", "create", "unacknowledged", "-p", "1", "-r", "1")
    code, out, err = odradek(
        "topic", "produce", "unacknowledged", "--acks", "0", "--json", stdin=b"a\nb\nc\n"
    )
    assert code == 0, err
    assert json.loads(out)["partitions"] == {"0": {"records": 3, "last_offset": None}}


def test_a_line_that_is_no_record_is_refused_by_number(odradek, orders):
    code, _, err = odradek(
        "topic", "produce", "orders", "--format", "json", stdin=b'{"value": "x"}\nnonsense\n'
    )
    assert code == 1
    assert "line 2 is not a record in JSON" in err and "; no line is in orders, and nothing behind" in err


def test_what_was_written_before_a_line_that_is_no_record_is_told(odradek, cluster):
    odradek("topic", "create", "halves", "-p", "1", "-r", "1")
    lines = [b"k:%d" % n for n in range(5_003)]

    code, _, err = odradek("topic", "produce", "halves", "-K", ":", stdin=b"\n".join([*lines, b"none"]))
    told = re.fullmatch(
        r"odradek: line 5004 has no ':' between key and value; lines 1 to (\d+) are in halves, and nothing behind\n",
        err,
    )
    assert code == 1 and told is not None, err
    last = odradek("topic", "consume", "halves", "-o", "-1", "--exit")
    assert last == (0, f"{int(told[1]) - 1}\n", "")


def test_what_if_answers_from_metadata_alone(odradek, orders, cluster):
    code, out, _ = odradek("what-if", "--kill", "3", "--json")
    answer = json.loads(out)
    of_orders = [p for p in answer["partitions"] if p["partition"].startswith("orders-")]
    assert len(of_orders) == 3
    for partition in of_orders:
        assert partition["leader_after"] in (1, 2)
        assert 3 not in partition["isr_after"]
        led = partition["leader_before"] == 3
        assert partition["verdict"] == ("new leader" if led else "ISR changes")
    code, out, _ = odradek("what-if", "--kill", "2,3", "--json")
    answer = json.loads(out)
    assert (code, answer["safe"]) == (1, False)
    verdicts = {p["partition"]: p["verdict"] for p in answer["partitions"]}
    assert verdicts["orders-0"] == "falls under min ISR"
    code, out, _ = odradek("what-if", "--kill", "2", "--kill", "3")
    assert code == 1
    assert "orders-0" in out and "falls under min ISR" in out


@pytest.mark.parametrize(
    ("kill", "code", "words"), [("9", 1, "brokers alive: 1, 2, 3"), ("x", 2, "as in --kill 3")]
)
def test_what_if_refuses_a_broker_that_is_not_there(odradek, kill, code, words):
    found, out, err = odradek("what-if", "--kill", kill)
    assert (found, out) == (code, "")
    assert words in err


def test_health_tells_of_a_dead_broker_and_of_its_return(odradek, orders, cluster):
    code, out, _ = odradek("cluster", "health", "--json")
    report = json.loads(out)
    assert (code, report["healthy"], [b["id"] for b in report["brokers"]]) == (0, True, [1, 2, 3])
    victim = next(b["id"] for b in report["brokers"] if b["id"] != report["controller"])
    cluster.kill(victim)
    try:
        found = eventually(
            lambda: (
                (r := json.loads(odradek("cluster", "health", "--json")[1]))["missing_brokers"]
                and {"orders-0", "orders-1", "orders-2"} <= {p["partition"] for p in r["under_replicated"]}
                and r
            ),
            60,
            what="the dead broker is missed, and its replicas are",
        )
        assert found["missing_brokers"] == [victim]
        assert not found["healthy"]
        code, out, _ = odradek("cluster", "health")
        assert code == 1
        assert out.startswith("NOT healthy") and "not there" in out
    finally:
        cluster.restart(victim)
    eventually(lambda: odradek("cluster", "health")[0] == 0, deadline_s=60, what="healthy again")


def test_a_closed_pipe_ends_the_reader_without_a_word(cluster, orders):
    """As with `odradek topic consume orders | head`: the pipe takes less than there is to write."""
    form = "%v" * 50_000
    command = [sys.executable, "-m", "odradek.cli.main", "topic", "consume", orders, "-e", "-f", form]
    reader = subprocess.Popen(
        [*command, "--bootstrap", cluster.bootstrap], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert reader.stdout.read(1) == b"v"
    reader.stdout.close()
    _, err = reader.communicate(timeout=60)
    assert (reader.returncode, err) == (1, b"")


def test_a_reader_that_waits_for_more_ends_with_whoever_reads_it(cluster, orders):
    """As with `odradek topic consume orders | head -1`: the next record may be hours away."""
    command = [sys.executable, "-m", "odradek.cli.main", "topic", "consume", orders]
    reader = subprocess.Popen(
        [*command, "--bootstrap", cluster.bootstrap], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert [reader.stdout.readline()[:1] for _ in range(4)] == [b"v"] * 4
    reader.stdout.close()
    _, err = reader.communicate(timeout=60)
    assert (reader.returncode, err) == (1, b"")
