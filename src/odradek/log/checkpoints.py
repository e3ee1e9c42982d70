"""The small text files of a log directory, as Apache writes them. Bytes in, values out; nothing here opens a file.

A checkpoint is `0` (version), the number of entries, then one entry a line. An empty file holds nothing: a crash
right after its creation leaves one, and Apache keeps `cleaner-offset-checkpoint` that way.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from odradek.log.leader_epochs import EpochEntry
from odradek.model.errors import OdradekError
from odradek.model.ids import TopicId, TopicPartition, topic_id_from_text, topic_id_to_text

RECOVERY_POINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
# Ours: which broker epoch runs here, under which kernel. Apache's brokers pass it over.
RUNNING = "running-broker"
_RUNNING = ("brokerEpoch", "bootId", "logDirs", "logs")  # its fields
META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
LEADER_EPOCHS = "leader-epoch-checkpoint"
DIRECTORY_MOVES = "log-directory-moves"
# Empty; there from before the first gap in the offsets of a log is written. Ours: Apache's brokers pass it over.
OFFSET_GAPS = "offset-gaps"
# Ours as well: how many aborted transactions are in the `.txnindex` of which segment.
TRANSACTION_INDEX_SIZES = "transaction-index-sizes"

VERSION = 0

# Java's `Properties.store` puts a backslash before `=`, `:`, `#`, `!` and a backslash of a value; of these its `load` needs the last.
_ESCAPED = re.compile(r"\\(.)")


class MalformedCheckpoint(OdradekError):
    """The file is not what its name says. What it held can be had otherwise, or the caller says what is lost."""


def _lines(data: bytes, name: str) -> list[str]:
    """The entry lines, after version and count were checked against them."""
    if not data:
        return []
    try:
        lines = data.decode("utf-8").splitlines()
        version, count = int(lines[0]), int(lines[1])
    except (UnicodeDecodeError, ValueError, IndexError):
        raise MalformedCheckpoint(f"{name}: no version and count on the first two lines") from None
    if version != VERSION:
        raise MalformedCheckpoint(f"{name}: version {version}, this program reads {VERSION}")
    entries = lines[2:]
    if len(entries) != count or not data.endswith(b"\n"):
        raise MalformedCheckpoint(f"{name}: {count} entries announced, {len(entries)} lines found")
    return entries


def _text(entries: Iterable[str]) -> bytes:
    lines = list(entries)
    return "".join([f"{VERSION}\n{len(lines)}\n", *(f"{line}\n" for line in lines)]).encode("utf-8")


def read_offsets(data: bytes, name: str) -> dict[TopicPartition, int]:
    """`topic partition offset` a line."""
    offsets = {}
    for line in _lines(data, name):
        try:
            topic, partition, offset = line.split()
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise MalformedCheckpoint(f"{name}: {line!r} is not topic, partition and offset") from None
    return offsets


def offsets_to_bytes(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _text(f"{key.topic} {key.partition} {offset}" for key, offset in sorted(offsets.items()))


def read_epochs(data: bytes, name: str = LEADER_EPOCHS) -> list[EpochEntry]:
    """`epoch start_offset` a line, both rising."""
    entries: list[EpochEntry] = []
    for line in _lines(data, name):
        try:
            epoch, start = map(int, line.split())
        except ValueError:
            raise MalformedCheckpoint(f"{name}: {line!r} is not epoch and start offset") from None
        if (
            epoch < 0
            or start < 0
            or (entries and not (epoch > entries[-1].epoch and start > entries[-1].start_offset))
        ):
            raise MalformedCheckpoint(f"{name}: {line!r} does not rise above the entry before it")
        entries.append(EpochEntry(epoch, start))
    return entries


def epochs_to_bytes(entries: Iterable[EpochEntry]) -> bytes:
    return _text(f"{entry.epoch} {entry.start_offset}" for entry in entries)


def read_index_sizes(data: bytes, name: str = TRANSACTION_INDEX_SIZES) -> dict[int, int]:
    """`base_offset entries` a line, of segments with entries."""
    sizes = {}
    for line in _lines(data, name):
        try:
            base_offset, entries = map(int, line.split())
        except ValueError:
            raise MalformedCheckpoint(f"{name}: {line!r} is not base offset and number of entries") from None
        sizes[base_offset] = entries
    return sizes


def index_sizes_to_bytes(sizes: Iterable[tuple[int, int]]) -> bytes:
    return _text(f"{base_offset} {entries}" for base_offset, entries in sizes)


def read_partition_metadata(data: bytes) -> TopicId:
    """The topic id of a `partition.metadata`."""
    try:
        fields = dict(line.split(": ", 1) for line in data.decode("utf-8").splitlines() if line.strip())
        version, text = int(fields["version"]), fields["topic_id"]
        topic_id = topic_id_from_text(text)
    except (UnicodeDecodeError, ValueError, KeyError):
        raise MalformedCheckpoint(f"{PARTITION_METADATA}: no version and topic_id in {data!r}") from None
    if version != VERSION or len(topic_id) != 16:
        raise MalformedCheckpoint(f"{PARTITION_METADATA}: version {version}, topic id {text!r}")
    return topic_id


def partition_metadata_to_bytes(topic_id: TopicId) -> bytes:
    # Apache writes no newline behind the id.
    return f"version: {VERSION}\ntopic_id: {topic_id_to_text(topic_id)}".encode()


def read_moves(data: bytes | None) -> int:
    """How often a replica went from one log directory to another (`future_logs`); 0 where nothing says so. A file of
    ours: Apache's brokers pass it over.
    """
    if not data:
        return 0
    try:
        fields = dict(line.split(": ", 1) for line in data.decode("utf-8").splitlines() if line.strip())
        version, moves = int(fields["version"]), int(fields["moves"])
    except (UnicodeDecodeError, ValueError, KeyError):
        raise MalformedCheckpoint(f"{DIRECTORY_MOVES}: no version and moves in {data!r}") from None
    if version != VERSION or moves < 0:
        raise MalformedCheckpoint(f"{DIRECTORY_MOVES}: version {version}, {moves} moves")
    return moves


def moves_to_bytes(moves: int) -> bytes:
    return f"version: {VERSION}\nmoves: {moves}\n".encode()


class MetaProperties(NamedTuple):
    """Whose log directory this is. None: the file does not say (Apache's does from the first start on)."""

    broker_id: int | None
    cluster_id: str | None


def read_meta_properties(data: bytes) -> MetaProperties:
    """Java's properties format as far as this file uses it: `key=value` lines, `#` comments."""
    fields = {}
    for line in data.decode("utf-8", "replace").splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            key, equals, value = line.partition("=")
            if not equals:
                raise MalformedCheckpoint(f"{META_PROPERTIES}: {line!r} is not key=value")
            fields[key.strip()] = _ESCAPED.sub(r"\1", value.strip())
    version = fields.get("version", "0")
    if version not in ("0", "1"):
        raise MalformedCheckpoint(f"{META_PROPERTIES}: version {version}, this program reads 0 and 1")
    broker_id = fields.get("broker.id", fields.get("node.id"))
    try:
        return MetaProperties(None if broker_id is None else int(broker_id), fields.get("cluster.id"))
    except ValueError:
        raise MalformedCheckpoint(f"{META_PROPERTIES}: broker.id={broker_id} is no number") from None


def meta_properties_to_bytes(broker_id: int, cluster_id: str) -> bytes:
    escaped = cluster_id.replace("\\", "\\\\")
    return f"#\n#\nbroker.id={broker_id}\nversion=0\ncluster.id={escaped}\n".encode()


def clean_shutdown_to_bytes(broker_epoch: int = -1) -> bytes:
    """KIP-966 names the broker epoch of the life that ended in order; -1: not known."""
    return f'{{"version":0,"brokerEpoch":{broker_epoch}}}'.encode()


def read_clean_shutdown(data: bytes) -> int:
    """The broker epoch in the marker; -1 if it names none (as Apache's in ZooKeeper mode)."""
    try:
        epoch = json.loads(data)["brokerEpoch"]
    except (ValueError, KeyError, TypeError):
        return -1
    return epoch if isinstance(epoch, int) else -1


class Running(NamedTuple):
    """What a broker that runs says in each of its log directories, so that the next one may know what was there."""

    broker_epoch: int
    boot_id: str  # of the kernel under which it runs
    directories: int  # so many log directories it has
    logs: int  # so many logs are in this one, in use or refused


def running_to_bytes(running: Running) -> bytes:
    return json.dumps({"version": 0, **dict(zip(_RUNNING, running, strict=True))}).encode()


def read_running(data: bytes) -> Running | None:
    """The last line counts. None: it is not what a broker wrote."""
    try:
        found = json.loads(data.rpartition(b"\n")[2])
        running = Running(*(found[name] for name in _RUNNING))
    except (ValueError, KeyError, TypeError):
        return None
    return running if all(map(isinstance, running, (int, str, int, int))) else None
