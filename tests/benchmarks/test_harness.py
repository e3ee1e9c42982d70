"""The harness: frames as the protocol has them, medians, verdicts, and a loss that has no figure."""

import argparse
import contextlib
import json
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from benchmarks.bench import BEGIN, CELLS, END, Bench, arguments, run_and_report, write
from benchmarks.figures import Cell, Figure, Row, number, table

from benchmarks import librdkafka, measures, paced_load, raw_frames, raw_load
from odradek.protocol.headers import decode_request_header
from odradek.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from odradek.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from odradek.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from odradek.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.records.reader import decode_batch
from tests.support import eventually, started

ROOT = Path(__file__).parents[2]


def test_a_raw_produce_frame_is_one_the_broker_decodes():
    value = raw_load.value_of(300)
    frame = raw_frames.produce(
        "orders", 3, raw_frames.batch_of_one(value, 1_700_000_000_000), acks=-1, correlation_id=77
    )
    (size,) = struct.unpack_from(">i", frame)
    assert size == len(frame) - 4
    header = decode_request_header(memoryview(frame)[4:])
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (
        0,
        7,
        77,
        "bench",
    )
    assert struct.unpack_from(">i", frame, raw_frames.CORRELATION_AT) == (77,)
    request = ProduceRequest.decode(7, memoryview(frame)[4:], header.body_offset)
    assert (request.acks, request.topic_data[0].name) == (-1, "orders")
    data = request.topic_data[0].partition_data[0]
    assert data.index == 3
    (record,) = decode_batch(data.records)
    assert (record.key, record.value, record.timestamp) == (None, value, 1_700_000_000_000)


def test_values_differ_by_kind_and_are_a_hundred_bytes():
    values = {raw_load.value_of(kind) for kind in range(raw_load.KINDS)}
    assert len(values) == raw_load.KINDS
    assert {len(value) for value in values} == {raw_load.RECORD_SIZE}


def test_an_answer_is_read_where_its_fields_stand():
    partition = PartitionProduceResponse(index=3, error_code=19, base_offset=1234, log_append_time_ms=-1)
    body = ProduceResponse(
        responses=[TopicProduceResponse(name="orders", partition_responses=[partition])]
    ).encode(7)
    answer = raw_frames.ProduceAnswer("orders")
    whole = struct.pack(">ii", len(body) + 4, 9) + body
    assert len(whole) == answer.size
    assert answer.layout.unpack(whole) == (len(body) + 4, 9, 19, 1234)


def test_metadata_is_read_as_the_protocol_writes_it():
    message = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=2, host="h", port=9, rack=None)],
        controller_id=2,
        topics=[
            MetadataResponseTopic(
                name="t",
                partitions=[
                    MetadataResponsePartition(
                        partition_index=1, leader_id=2, replica_nodes=[2, 3], isr_nodes=[2]
                    )
                ],
            )
        ],
    )
    found = raw_frames._read_metadata(message.encode(1))
    assert found == raw_frames.Leadership({2: raw_frames.Broker("h", 9)}, 2, {1: 2}, {1: [2]})


def test_the_error_of_create_topics_is_found():
    topic = CreatableTopicResult(name="orders", error_code=36, error_message="it is there")
    assert raw_frames._create_topics_error(CreateTopicsResponse(topics=[topic]).encode(2)) == 36


@pytest.mark.parametrize("value", [0, 1, 63, 64, -1, -64, -65, 300, 2**31])
def test_varints_are_zigzag(value):
    data = raw_frames.varint(value)
    number_, shift = 0, 0
    for byte in data:
        number_ |= (byte & 0x7F) << shift
        shift += 7
    assert (number_ >> 1) ^ -(number_ & 1) == value


def row(cell, ours=(), theirs=()):
    made = Row(cell)
    for value in ours:
        made.add("odradek", Figure(value, cpu_s_per_gb=2.0, rss_mb=30.0, notes={"p99 us": value * 2}))
    for value in theirs:
        made.add("apache", Figure(value))
    return made


MORE = Cell("X", "PX", "more of it", "MB/s", ratio_reach=1.5, client_limit="mock")
LESS = Cell("Y", "PY", "less of it", "ms", more_is_better=False, limit=300)


def test_a_ratio_above_one_is_good_whichever_way_the_measure_goes():
    assert row(MORE, [30, 20, 10], [10]).ratio() == 2.0
    assert row(LESS, [10], [30]).ratio() == 3.0
    assert row(MORE, [30]).ratio() is None


def test_verdicts():
    assert row(MORE, [30], [10]).verdict({}) == "reached"
    assert row(MORE, [14], [10]).verdict({}) == "missed (>= 1.5x)"
    assert row(MORE, [14]).verdict({}) == "no peer (>= 1.5x)"
    assert row(MORE, [30], [10]).verdict({"mock": 33}) == "reached, client-bound"
    assert row(LESS, [301]).verdict({}) == "missed (<= 300 ms)"
    assert row(LESS, [300]).verdict({}) == "reached"
    assert row(Cell("Z", "PZ", "z", "rows/s", floor=100), [99]).verdict({}) == "missed (>= 100 rows/s)"


def test_a_cell_with_a_loss_has_no_figure():
    lossy = row(MORE, [30, 31], [10])
    lossy.add("odradek", Figure(99.0, problem="3 lost, 0 damaged"))
    assert lossy.median("odradek") is None
    assert lossy.ratio() is None
    assert lossy.verdict({}) == "no figure"
    text = table([lossy], {}, ["odradek", "apache"], {})
    assert "no figure: 3 lost, 0 damaged" in text


def test_the_table_has_median_spread_cost_and_why_a_peer_is_missing():
    text = table([row(MORE, [30, 20, 10])], {}, ["odradek", "apache"], {"apache": "no java on this machine"})
    (line,) = text.splitlines()[2:]
    assert "20.0 (10.0 - 30.0)" in line
    assert "2 CPU s/GB, 30.0 MB RSS, p99 us 40.0" in line
    assert "not run (no java on this machine)" in line
    assert line.count("|") == text.splitlines()[0].count("|")


def test_numbers_are_short():
    assert [number(v) for v in (None, 0.1234, 5, 12.345, 123.4, 12345.6)] == [
        "-",
        "0.123",
        "5",
        "12.3",
        "123",
        "12,346",
    ]


def test_the_cells_have_names_of_their_own():
    assert len({cell.key for cell in CELLS}) == len(CELLS)
    measures = {cell.measure for cell in CELLS}
    assert {"P1", "P2", "P4", "P6", "P8", "P9", "P10", "P11"} <= measures
    assert sum(cell.measure == "P8" for cell in CELLS) == 6


@pytest.mark.parametrize(("module", "row"), [("benchmarks.bench", "P99"), ("benchmarks.spark", "d7")])
def test_a_row_that_is_not_there_is_said_before_anything_is_measured(module: str, row: str) -> None:
    """An empty table would look like a result, and --write would keep it."""
    answer = subprocess.run(
        [sys.executable, "-m", module, "--quick", "--only", row],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert (answer.returncode, answer.stdout) == (2, "")
    assert f"no such row: {row.upper()}; there are " in answer.stderr


def test_a_row_of_small_loads_says_how_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """It said `1,000 partitions`, and that the goal was reached, of 200."""

    def titles(*options: str) -> dict[str, str]:
        monkeypatch.setattr(sys, "argv", ["bench", "--without-apache", *options])
        return {key: row.cell.title for key, row in Bench(arguments()).rows.items()}

    whole = titles()
    assert whole == {cell.key: cell.title for cell in CELLS}
    changed = {key: title for key, title in titles("--quick").items() if title != whole[key]}
    assert changed == {
        "P19": "200 partitions RF 3, created and visible on all brokers",
        "P22": "acks=all RF 3, 1 in flight, beside 400 followed partitions, median",
        "P23": "1,000 clients connect at once and are answered",
        "C2": "one of 100 consumers dies: stable after the end of its session",
        "C4": "a coordinator with 100,000 offsets is loaded",
        "C5": "compaction of 100 MB of 1 KB records, 10 % unique keys",
        "C6": "400 idle members, a heartbeat each 3 s",
    }


def test_repeats_are_counted_in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    for many, told in ((1, "\n1 repeat, alternating"), (2, "\n2 repeats, alternating")):
        monkeypatch.setattr(sys, "argv", ["bench", "--without-apache", "--repeats", str(many)])
        assert told in Bench(arguments()).report()


def test_write_replaces_what_stands_between_the_marks_alone(tmp_path):
    path = tmp_path / "benchmarks.md"
    write("first", path)
    path.write_text(path.read_text().replace(BEGIN, f"Words of a person.\n\n{BEGIN}") + "\nAnd after.\n")
    write("second", path)
    text = path.read_text()
    assert "first" not in text
    assert text.index("Words of a person.") < text.index(BEGIN) < text.index("second") < text.index(END)
    assert text.endswith("And after.\n")


def test_the_paced_client_fetches_and_reads_as_the_protocol_says():
    ours, brokers = socket.socketpair()
    link = paced_load.Consuming.__new__(paced_load.Consuming)
    link.topic, link.partition, link.socket = "orders", 3, ours
    link.offset, link.rest, link.read_at = 7, b"", {}
    link.head = paced_load.fetch_answer_head("orders")
    link.fetch()
    asked = memoryview(brokers.recv(65536))[4:]
    header = decode_request_header(asked)
    request = FetchRequest.decode(header.api_version, asked[header.body_offset :])
    (wanted,) = request.topics[0].partitions
    assert (request.topics[0].topic, wanted.partition, wanted.fetch_offset) == ("orders", 3, 7)
    records = b""
    for offset, kind in ((7, 500), (8, 501)):
        value = kind.to_bytes(8, "little").ljust(raw_load.RECORD_SIZE, b".")
        batch = raw_frames.batch_of_one(value, 1_700_000_000_000)
        records += struct.pack(">q", offset) + batch[8:]
    partition = PartitionData(partition_index=3, high_watermark=9, last_stable_offset=9, records=records)
    body = FetchResponse(responses=[FetchableTopicResponse(topic="orders", partitions=[partition])]).encode(4)
    answer = struct.pack(">ii", len(body) + 4, 1) + body
    brokers.sendall(answer[:20])
    link.receive()
    assert link.read_at == {}
    brokers.sendall(answer[20:])
    link.receive()
    assert sorted(link.read_at) == [500, 501] and link.offset == 9
    ours.close()
    brokers.close()


def test_a_consumer_is_timed_from_its_first_records_on():
    read = librdkafka.Consumed(count=1_100, seconds=1.5, first_s=0.5, first_count=100)
    assert read.per_second == 1_000


def test_a_bench_makes_the_directory_that_it_is_given(tmp_path: Path) -> None:
    class LooksAtIt:
        options = argparse.Namespace(dir=tmp_path / "of" / "brokers", write=False)

        def run(self) -> None:
            tempfile.mkdtemp(dir=self.options.dir)

        def report(self) -> str:
            return ""

    run_and_report(LooksAtIt())
    assert len(list((tmp_path / "of" / "brokers").iterdir())) == 1


# What the machine can do is measured first, for ten seconds of a processor: it stops nothing.
UNCALIBRATED = """
from benchmarks import bench
bench.Bench.calibrate = lambda self: None
bench.run_and_report(bench.Bench(bench.arguments()))
"""


def _is_broker(process: psutil.Process) -> bool:
    try:
        return "odradek.server" in process.cmdline()
    except psutil.NoSuchProcess:  # it has ended between the two looks
        return False


def _lives(process: psutil.Process) -> bool:
    """Whoever has it once its parent is gone may not ask for its end."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def _brokers_of(bench: int, count: int) -> list[psutil.Process]:
    """None, or all that many."""
    started = psutil.Process(bench).children(recursive=True)
    brokers = [process for process in started if _is_broker(process)]
    return brokers if len(brokers) == count else []


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_bench_that_is_ended_by_a_signal_stops_its_brokers(number: signal.Signals, tmp_path: Path) -> None:
    options = ["--only", "P19", "--without-apache", "--dir", tmp_path]
    command = [sys.executable, "-c", UNCALIBRATED, *options]
    with started(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as bench:
        brokers = eventually(lambda: _brokers_of(bench.pid, 3), 60, "three brokers are started")
        bench.send_signal(number)
        _, said = bench.communicate(timeout=60)

    assert said.endswith("benchmarks: stopped; nothing is left running\n")
    assert bench.returncode == 128 + number
    assert not [broker for broker in brokers if broker.is_running()]


@pytest.mark.process
def test_the_brokers_of_a_bench_that_is_killed_end_with_it(tmp_path: Path) -> None:
    options = ["--only", "P19", "--without-apache", "--dir", tmp_path]
    command = [sys.executable, "-c", UNCALIBRATED, *options]
    with started(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as bench:
        brokers = eventually(lambda: _brokers_of(bench.pid, 3), 60, "three brokers are started")
        bench.kill()
    try:
        eventually(lambda: not any(map(_lives, brokers)), 30, "no broker lives")
    finally:
        for broker in filter(_lives, brokers):
            broker.kill()


def test_the_client_uses_no_more_of_a_core_than_it_has_time(monkeypatch, capsys):
    """What it does before and behind the requests that are measured is not done in their time."""
    now = SimpleNamespace(seconds=0.0)
    clock = SimpleNamespace(process_time=lambda: now.seconds, perf_counter=lambda: now.seconds)

    def measured(link, answer, seconds):
        now.seconds += 2 * seconds  # a second half of it was the warm-up
        return seconds, [100.0]

    known = SimpleNamespace(brokers={1: ("h", 1)}, leaders={0: 1})
    monkeypatch.setattr(
        raw_frames, "any_broker", lambda bootstrap: SimpleNamespace(metadata=lambda topic: known)
    )
    monkeypatch.setattr(raw_load, "Link", lambda *_: SimpleNamespace(answered=1))
    monkeypatch.setattr(raw_load, "one_in_flight", measured)
    monkeypatch.setattr(raw_load, "time", clock)
    monkeypatch.setattr(sys, "argv", ["raw_load", "--bootstrap", "h:1", "--topic", "t", "--acks", "1"])
    raw_load.main()
    assert json.loads(capsys.readouterr().out)["client_cores"] == pytest.approx(1.0)


def test_the_memory_of_a_broker_that_has_not_taken_the_records_is_no_figure(monkeypatch):
    records = SimpleNamespace(count=1000, size=1000)
    monkeypatch.setattr(measures, "time", SimpleNamespace(sleep=lambda seconds: None))
    monkeypatch.setattr(raw_frames, "create_topic", lambda *_, **__: None)
    monkeypatch.setattr(librdkafka, "produce", lambda *_: librdkafka.Produced(990, 10, 1.0))
    cluster = SimpleNamespace(rss_mb=lambda: 50.0, cpu_s=lambda: 1.0, bootstrap=["h:1"])
    idle, after = measures.p10(cluster, records, 0.002)
    assert idle.problem is None
    assert after.problem == "20 records failed"
