"""`odradek log dump`, as a person uses it."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from odradek.cli.log_verbs import log
from tests.log.logs import NOW, Disk, batch, config, idempotent, marker, produce
from tests.support import GOLDEN

DATA = GOLDEN / "log-dir" / "data"


def run(*arguments: object, exit_code: int = 0) -> str:
    result = CliRunner().invoke(log, ["dump", *map(str, arguments)])
    assert result.exit_code == exit_code, result.output
    return result.output


def test_a_partition_directory_prints_as_dump_log_segments_prints_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA)
    lines = run("--records", "t-0").splitlines()
    expected = (GOLDEN / "log-dir" / "dump" / "t-0.txt").read_text().splitlines()
    assert lines[: len(expected)] == expected
    assert lines[len(expected) :] == [
        "Dumping t-0/leader-epoch-checkpoint",
        "epoch: 0 startOffset: 0",
        "epoch: 1 startOffset: 62",
        "epoch: 2 startOffset: 102",
        "Dumping t-0/partition.metadata",
        "topicId: v_WWQZzWTDqAmK3g5Yj2cA",
    ]


def test_json_says_the_same_one_object_a_line() -> None:
    path = DATA / "t-0" / "00000000000000000193.log"
    (line,) = run("--json", "--records", path).splitlines()
    item = json.loads(line)
    assert item["file"] == str(path) and item["baseOffset"] == 193 and item["isvalid"] is True
    assert item["records"][0]["controlType"] == "COMMIT" and item["records"][0]["coordinatorEpoch"] == 0
    snapshot = [
        json.loads(line)
        for line in run("--json", DATA / "t-0" / "00000000000000000194.snapshot").splitlines()
    ]
    assert [(p["producerId"], p["lastOffset"]) for p in snapshot] == [(1000, 171), (1001, 192), (1002, 187)]


def test_without_records_batches_alone_are_printed() -> None:
    output = run(DATA / "t-0" / "00000000000000000180.log")
    assert "baseOffset: 188" in output and "| offset" not in output


def test_damaged_files_are_named_and_the_exit_code_says_so(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000180.log"
    shutil.copy(DATA / "t-0" / path.name, path)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    assert "isvalid: false" in run(path, exit_code=1)
    path.write_bytes(data[:-3])
    assert f"Found 628 invalid bytes at the end of {path}" in run(path, exit_code=1)


@pytest.mark.parametrize(
    "name", ["leader-epoch-checkpoint", "00000000000000000180.snapshot", "partition.metadata"]
)
def test_a_small_file_that_is_torn_keeps_no_other_from_being_printed(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t-0"
    shutil.copytree(DATA / "t-0", path)
    (path / name).write_bytes(b"x")
    whole = run(DATA / "t-0").replace(str(DATA / "t-0"), str(path))
    lines = run(path, exit_code=1).splitlines()
    headings = [line for line in whole.splitlines() if line.startswith("Dumping")]
    assert [line for line in lines if line.startswith("Dumping")] == headings
    assert [line for line in lines if line.startswith("error: ")] == [
        lines[lines.index(f"Dumping {path / name}") + 1]
    ]


def test_a_codec_without_a_name_is_shown_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000180.log"
    data = bytearray((DATA / "t-0" / path.name).read_bytes())
    data[22] = 5  # attributes of the first batch: the codec is their lowest three bits
    path.write_bytes(data)

    first = json.loads(run("--json", path, exit_code=1).splitlines()[0])

    assert (first["compresscodec"], first["isvalid"]) == ("5", False)


def test_a_directory_without_segments_says_what_one_looks_like(tmp_path: Path) -> None:
    assert "<topic>-<partition>" in run(tmp_path, exit_code=1)


def test_what_is_no_file_of_a_partition_is_said_so_and_passed_over(tmp_path: Path) -> None:
    for name in ("broker.log", "server.properties"):
        (tmp_path / name).write_text("words\n")
        assert f"{name} is no file of a partition" in run(tmp_path / name, exit_code=2)
    assert "no segment files" in run(tmp_path, exit_code=1)


def test_what_we_wrote_dumps_in_the_same_shape(tmp_path: Path) -> None:
    disk = Disk(tmp_path, config(segment_bytes=1500, index_interval_bytes=200))
    ours = disk.create()
    for n in range(12):
        produce(ours, idempotent(n * 2, 2, at=NOW + n, is_transactional=n > 8), epoch=n // 4)
    produce(ours, marker(commit=False), from_coordinator=True, epoch=3)
    produce(ours, batch(5, codec="gzip"), epoch=3)
    ours.close()
    items = [json.loads(line) for line in run("--json", "--records", disk.log_path).splitlines()]
    theirs = [json.loads(line) for line in run("--json", "--records", DATA / "t-0").splitlines()]

    def shapes(dumped: list[dict[str, object]]) -> set[tuple[str, tuple[str, ...]]]:
        return {(str(i["file"]).rpartition("/")[2].rpartition(".")[2], tuple(i)) for i in dumped}

    assert shapes(items) == shapes(theirs)
    # Every index entry points at the batch that ends with its offset, as DumpLogSegments demands.
    batches = {(i["file"][:-4], i["position"]): i["lastOffset"] for i in items if "baseOffset" in i}
    entries = [i for i in items if i["file"].endswith(".index")]
    assert entries and all(batches[i["file"][:-6], i["position"]] == i["offset"] for i in entries)
