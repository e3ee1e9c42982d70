"""`odradek topic produce NAME`: a record per line of standard input, until its end.

What a line means is said by options, as in kcat: `--key-delimiter` splits a key off, `--format json` reads
what `topic consume --json` writes. Records are batched; a batch goes out when it is full or a tenth of a
second old, so that typed lines are sent as they are typed.
"""

import base64
import json
import select
import sys
import time
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

import click

from odradek.cli.output import Failed, bootstrap_option, fail, json_option, print_json
from odradek.cli.standard_streams import standard_input
from odradek.cli.topic.escapes import unescaped
from odradek.model.counted import counted, numbered

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient
    from odradek.model.errors import OdradekError
    from odradek.model.ids import TopicPartition
    from odradek.records.builder import NewRecord

BATCH_RECORDS = 5_000
BATCH_BYTES = 500_000
LINGER_S = 0.1
# Of a record in JSON; where it was is written by `topic consume`, and not read.
FIELDS = ("key", "value", "headers", "timestamp", "topic", "partition", "offset")


@click.command()
@click.argument("name")
@click.option("--partition", "-p", type=int, help="Send all to this partition instead of by key.")
@click.option(
    "--key-delimiter",
    "-K",
    metavar="TEXT",
    help="Where a line's key ends and its value begins; \\t and \\x1f as in a format.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="text: a line is a value, or key and value; json: what `topic consume --json` writes.",
)
@click.option("--header", "-H", "headers", multiple=True, metavar="NAME=VALUE", help="On every record.")
@click.option(
    "--acks",
    type=click.Choice(["all", "1", "0"]),
    default="all",
    show_default=True,
    help="Which replicas must have a record: all in sync, the leader, or none.",
)
@click.option(
    "--compression",
    "-z",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="Of the batches.",
)
@bootstrap_option
@json_option
def produce(
    name: str,
    partition: int | None,
    key_delimiter: str | None,
    form: str,
    headers: tuple[str, ...],
    acks: str,
    compression: str,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Records from standard input, a line each."""
    from odradek.cli.lookup import topic_or_fail
    from odradek.client.sync import SyncClient
    from odradek.model.errors import OdradekError
    from odradek.model.ids import TopicPartition

    if key_delimiter == "":
        raise click.UsageError(
            "--key-delimiter is empty; expected the text between key and value, as in -K :"
        )
    if key_delimiter is not None and form == "json":
        raise click.UsageError("--key-delimiter is for lines of text; a line in JSON says its key")
    standard_lines = standard_input("records, a line each,")
    common = tuple(_header(text) for text in headers)
    counts: dict[int, int] = {}
    last_offsets: dict[int, int | None] = {}  # None: with acks=0 nobody answers
    with SyncClient(bootstrap) as client:
        partitions = len(topic_or_fail(client, name).partitions)
        if partition is not None and not 0 <= partition < partitions:
            fail(f"{name} has {numbered(partitions, 'partition')}; there is no {partition}")
        gathered: dict[int, list[NewRecord]] = {}

        def send() -> None:
            for target in sorted(gathered):
                where, there = TopicPartition(name, target), 0
                try:
                    for count, offset in appended(client, where, gathered[target], compression, acks):
                        there += count
                        counts[target] = counts.get(target, 0) + count
                        last_offsets[target] = offset + count - 1 if offset >= 0 else None
                except OdradekError as error:
                    what = what_is_there(
                        error, name, written, number, sorted(gathered), target, there, are_told=acks != "0"
                    )
                    fail(f"{error}; {what}")
            gathered.clear()

        size = waiting = keyless = 0
        of_headers = sum(len(key.encode()) + len(value) for key, value in common)  # beside those of a line
        number = written = 0  # lines that were gathered, and that the topic has
        for line in lines_or_pauses(standard_lines):
            if line is not None:
                try:
                    record = parse_line(line, number + 1, key_delimiter, form, common)
                except Failed as failed:
                    fail(f"{failed}; {_upto(written, name, are_told=acks != '0')}, and nothing behind")
                if gathered and size + len(line) + of_headers > BATCH_BYTES:
                    send()  # without this one: together they might be more than the topic takes
                    size, waiting, written = 0, 0, number
                number += 1
                if partition is not None:
                    target = partition
                else:
                    target, keyless = _target(record.key, partitions, keyless)
                gathered.setdefault(target, []).append(record)
                size += len(line) + of_headers
                waiting += 1
            full = size >= BATCH_BYTES or waiting >= BATCH_RECORDS
            if gathered and (full or line is None):
                send()
                size, waiting, written = 0, 0, number
        send()
    if as_json:
        print_json(
            {
                "topic": name,
                "records": sum(counts.values()),
                "partitions": {
                    str(p): {"records": counts[p], "last_offset": last_offsets[p]} for p in sorted(counts)
                },
            }
        )
    else:
        records = counted(sum(counts.values()), "record")
        print(f"{records} to {counted(len(counts), 'partition')} of {name}", file=sys.stderr)


def appended(
    client: "SyncClient", where: "TopicPartition", records: "Sequence[NewRecord]", compression: str, acks: str
) -> Iterator[tuple[int, int]]:
    """How many are there, and the offset of the first (-1: with acks=0), a batch each: of halves where the topic does not take as much
    at once."""
    from odradek.model.errors import OdradekError
    from odradek.records.builder import build_batch

    pieces = [records]
    while pieces:
        some = pieces.pop()
        batch = build_batch(some, codec=compression)
        try:
            offset = client.produce(where, batch, acks={"all": -1}.get(acks) or int(acks))
        except OdradekError as error:
            if len(some) == 1 or not is_too_large(error):
                raise
            half = len(some) // 2
            pieces += [some[half:], some[:half]]
        else:
            yield len(some), offset


def is_too_large(error: "OdradekError") -> bool:
    """For what the topic takes at once (`max.message.bytes`, `segment.bytes`): nothing of the batch is there."""
    from odradek.model.error_codes import ErrorCode
    from odradek.model.errors import ProtocolError

    codes = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
    return isinstance(error, ProtocolError) and error.code in codes


def _upto(written: int, name: str, *, are_told: bool) -> str:
    if not written:
        return f"no line is in {name}"
    if not are_told:
        return f"lines 1 to {written} were sent to {name}, and nobody says whether they are there"
    return f"lines 1 to {written} are in {name}"


def what_is_there(
    error: "OdradekError",
    name: str,
    written: int,
    number: int,
    targets: list[int],
    failed: int,
    first: int = 0,
    *,
    are_told: bool = True,
) -> str:
    """After a batch that was not acknowledged: whoever sends again has to know what would be there twice. `first`: so many of the
    partition that failed were sent before. `are_told`: others were acknowledged."""
    from odradek.client.sync import may_be_appended

    before = [str(target) for target in targets if target < failed]
    behind = [str(target) for target in targets if target > failed]
    done = "are there" if are_told else "were sent"
    are = "may be" if may_be_appended(error) else "are not"
    parts = [f"those of partition {failed} {are} there"]
    if first:
        parts = [f"the first {first} of those of partition {failed} are there, and the others {are}"]
    if before:
        parts.insert(0, f"those of {_partitions(before)} {done}")
    if behind:
        parts.append(f"those of {_partitions(behind)} are not there")
    if not written:
        return f"of lines 1 to {number} for {name} {', '.join(parts)}"
    return f"{_upto(written, name, are_told=are_told)}; of lines {written + 1} to {number} {', '.join(parts)}"


def _partitions(numbers: list[str]) -> str:
    return f"partition{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def lines_or_pauses(stream: IO[bytes]) -> Iterator[bytes | None]:
    """Lines without their end; None whenever the input pauses for a tenth of a second."""
    begun: list[bytes] = []  # of the line whose end has not come
    descriptor = stream.fileno()
    while True:
        ready, _, _ = select.select([descriptor], [], [], LINGER_S)
        if not ready:
            yield None
            select.select([descriptor], [], [])
            continue
        data = stream.read1(1 << 16)  # type: ignore[attr-defined]
        if not data:
            break
        first, *others = data.split(b"\n")
        begun.append(first)
        if others:
            yield b"".join(begun)
            *whole, last = others
            yield from whole
            begun = [last]
    if rest := b"".join(begun):
        yield rest


def _record_in(value: Any) -> dict[str, Any]:
    """What anybody has as JSON is not to become a record without a key and a value: that one may delete others."""
    if not isinstance(value, dict):
        raise TypeError(f"{type(value).__name__} instead of an object")
    unknown = [name for name in value if name not in FIELDS]
    if unknown or value.keys().isdisjoint(("key", "value")):
        found = f"{unknown[0]!r} is none of" if unknown else "there is nothing of"
        raise ValueError(f"{found} {', '.join(FIELDS)}")
    return value


def _encodable(text: str) -> str:
    text.encode()  # half a character is JSON, and cannot be sent
    return text


def _timestamp(value: Any) -> int:
    """Milliseconds; -1 is none."""
    from odradek.model.settings import LONG_MAX

    number = int(value)
    if not -1 <= number <= LONG_MAX:
        raise ValueError(f"timestamp {number} is out of range")
    return number


def parse_line(
    line: bytes, number: int, key_delimiter: str | None, form: str, headers: tuple[tuple[str, bytes], ...]
) -> "NewRecord":
    from odradek.records.builder import NewRecord

    now_ms = int(time.time() * 1000)
    if form == "json":
        try:
            found = _record_in(json.loads(line))
            return NewRecord(
                _bytes(found.get("key")),
                _bytes(found.get("value")),
                _timestamp(found.get("timestamp", now_ms)),
                [(_encodable(str(k)), _bytes(v)) for k, v in found.get("headers", [])] + list(headers),
            )
        except (ValueError, AttributeError, TypeError, OverflowError, RecursionError) as error:
            fail(f"line {number} is not a record in JSON ({error}); topic consume --json shows the form")
    key: bytes | None = None
    value = line
    if key_delimiter is not None:
        before, found_delimiter, after = line.partition(unescaped(key_delimiter))
        if not found_delimiter:
            fail(f"line {number} has no {key_delimiter!r} between key and value")
        key, value = before, after
    return NewRecord(key, value, now_ms, headers)


def _target(key: bytes | None, partitions: int, keyless: int) -> tuple[int, int]:
    """The partition, and the count of records without a key: those change partition with every full batch."""
    if key is None:
        return (keyless // BATCH_RECORDS) % partitions, keyless + 1
    from odradek.client.partitioning import partition_of

    return partition_of(key, partitions), keyless


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--header {text}: expected NAME=VALUE")
    return _encodable(name), value.encode(errors="surrogateescape")


def _bytes(value: Any) -> bytes | None:
    """Text, null, or {"base64": ...} where the bytes are no text."""
    if value is None:
        return None
    if isinstance(value, dict):
        if "base64" not in value:
            raise ValueError(f'{value!r} is no {{"base64": ...}}')
        return base64.b64decode(value["base64"], validate=True)
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is neither text nor null")
    return value.encode()
