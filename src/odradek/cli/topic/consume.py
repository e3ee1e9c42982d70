"""`odradek topic consume NAME`: records by assignment, in the order of each partition.

`--offset` says from where and to where (offsets.py). With a `to`, or with `--exit`, the command ends there; else it
waits for more (reading.py). `--format` is kcat's: %t topic, %p partition, %o offset,
%k key, %v or %s value, %T timestamp in ms, %h headers, %K and %S lengths (-1 for null), \\n, \\t, \\xHH.

At a terminal control characters of keys, values and headers are shown as escapes: a record is not to move its cursor,
set its title or look like another record. A pipe or a file gets the bytes as they are, as does `--raw`.
"""

import re
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from odradek.cli.output import bootstrap_option, fail, is_given, json_option
from odradek.cli.topic.escapes import ESCAPE, meaning
from odradek.model.counted import numbered

if TYPE_CHECKING:
    from odradek.records.reader import Record

FIELD = re.compile(rb"%([a-zA-Z%])|" + ESCAPE)


@click.command()
@click.argument("name")
@click.option("--partition", "-p", "partitions", type=int, multiple=True, help="Only this one; repeatable.")
@click.option(
    "--offset",
    "-o",
    "span",
    default="start",
    show_default=True,
    help="FROM, :TO or FROM:TO, each start, end, a number, -n for the last n, or a time: @1h (ago), @2026-01-31, @ms.",
)
@click.option("--count", "-n", type=click.IntRange(min=1), help="Stop after this many records.")
@click.option("--exit", "-e", "at_end", is_flag=True, help="Stop at the present end instead of waiting.")
@click.option(
    "--format",
    "-f",
    "form",
    default=r"%v\n",
    show_default=True,
    help="%t topic, %p partition, %o offset, %k key, %v value, %T timestamp, %h headers, %K %S lengths.",
)
@click.option("--read-committed", is_flag=True, help="Leave out records of aborted and open transactions.")
@click.option("--raw", is_flag=True, help="Bytes as they are, at a terminal too.")
@bootstrap_option
@json_option
def consume(
    name: str,
    partitions: tuple[int, ...],
    span: str,
    count: int | None,
    at_end: bool,
    form: str,
    read_committed: bool,
    raw: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Records to standard output. Without --exit and an end it waits for more until Ctrl-C, and for brokers that are away."""
    from odradek.cli.lookup import topic_or_fail
    from odradek.cli.sources import now_ms
    from odradek.cli.topic.offsets import nothing_there, parse_span, resolve
    from odradek.cli.topic.reading import Endless, up_to
    from odradek.client.sync import SyncClient
    from odradek.model.ids import TopicPartition

    if as_json and is_given("form"):
        raise click.UsageError("--format and --json are two forms; say one of them")
    first, last = parse_span(span, now_ms())
    if at_end and last is None:
        last = "end"
    is_shown = sys.stdout.isatty() and not raw
    write = (
        json_writer(name, is_shown=is_shown)
        if as_json
        else format_writer(name, form, of_record=shown if is_shown else bytes)
    )
    with SyncClient(bootstrap) as client:
        topic = topic_or_fail(client, name)
        there = topic.partitions
        if unknown := [p for p in partitions if p not in there]:
            fail(f"{name} has {numbered(len(there), 'partition')}; there is no {unknown[0]}")
        chosen = [TopicPartition(name, p) for p in sorted(set(partitions or there))]
        found: Iterator[tuple[int, Record] | None]
        if last is None:
            endless = Endless(client, name, topic.topic_id, chosen, first, read_committed=read_committed)
            found = endless.records()
        else:
            positions = resolve(client, chosen, first, read_committed=read_committed)
            bounds = resolve(client, chosen, last, read_committed=read_committed)
            if nothing := nothing_there(client, chosen, first):
                if nothing.is_beyond_the_end and len(nothing.ends) == len(chosen):
                    fail(nothing.sentence(name))
                print(f"odradek: {nothing.sentence(name)}", file=sys.stderr)
                positions |= nothing.awaited
            found = up_to(client, chosen, positions, bounds, read_committed=read_committed)
        write_all(found, write, count)


def write_all(
    found: "Iterator[tuple[int, Record] | None]",
    write: "Callable[[int, Record], bytes]",
    count: int | None,
) -> None:
    """To standard output, at most `count`; at a None, and at the end however it comes, nothing is left in a buffer."""
    out = sys.stdout.buffer
    written = 0
    try:
        for one in found:
            if one is None:
                out.flush()
                continue
            out.write(write(*one))
            written += 1
            if written == count:
                return
    finally:
        out.flush()


def shown(data: bytes) -> bytes:
    """For a terminal."""
    from odradek.model.printable import printable

    return printable(data.decode(errors="backslashreplace")).encode()


def format_writer(
    topic: str, form: str, *, of_record: "Callable[[bytes], bytes]" = bytes
) -> "Callable[[int, Record], bytes]":
    """Compiles a format string once: a list of constants and of functions from a record to bytes. What somebody has
    put into a record goes through `of_record`."""
    fields: dict[bytes, Callable[[int, Record], bytes]] = {
        b"t": lambda _p, _r: topic.encode(),
        b"p": lambda p, _r: b"%d" % p,
        b"o": lambda _p, r: b"%d" % r.offset,
        b"k": lambda _p, r: of_record(r.key or b""),
        b"v": lambda _p, r: of_record(r.value or b""),
        b"s": lambda _p, r: of_record(r.value or b""),
        b"T": lambda _p, r: b"%d" % r.timestamp,
        b"h": lambda _p, r: of_record(b",".join(k.encode() + b"=" + (v or b"") for k, v in r.headers)),
        b"K": lambda _p, r: b"%d" % (-1 if r.key is None else len(r.key)),
        b"S": lambda _p, r: b"%d" % (-1 if r.value is None else len(r.value)),
    }
    parts: list[bytes | Callable[[int, Record], bytes]] = []
    text = form.encode(errors="surrogateescape")
    position = 0
    for found in FIELD.finditer(text):
        parts.append(text[position : found.start()])
        position = found.end()
        letter, escape = found.groups()
        if escape is not None:
            parts.append(meaning(escape))
        elif letter == b"%":
            parts.append(b"%")
        elif letter in fields:
            parts.append(fields[letter])
        else:
            known = " ".join(f"%{name.decode()}" for name in sorted(fields))
            raise click.UsageError(f"--format: %{letter.decode()} means nothing; there are {known} %%")
    parts.append(text[position:])

    def write(partition: int, record: "Record") -> bytes:
        return b"".join([part if isinstance(part, bytes) else part(partition, record) for part in parts])

    return write


def json_writer(topic: str, *, is_shown: bool = False) -> "Callable[[int, Record], bytes]":
    """JSON escapes most control characters by itself; the others (C1, right to left) where it is `is_shown`."""
    import json

    from odradek.model.printable import printable

    def write(partition: int, record: "Record") -> bytes:
        line = {
            "topic": topic,
            "partition": partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": text_or_base64(record.key),
            "value": text_or_base64(record.value),
            "headers": [[key, text_or_base64(value)] for key, value in record.headers],
        }
        text = json.dumps(line, ensure_ascii=False)
        if is_shown and printable(text) != text:
            text = json.dumps(line)
        return text.encode() + b"\n"

    return write


def text_or_base64(data: bytes | None) -> "str | dict[str, str] | None":
    """Bytes that are text as text; others as {"base64": ...}, so that nothing is lost on the way back."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        import base64

        return {"base64": base64.b64encode(data).decode()}
