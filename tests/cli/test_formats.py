"""What the topic verbs read and write: format strings, offsets, lines, tables."""

import contextlib
import json
import os
import pty
import subprocess
import sys
import termios

import click
import pytest

from odradek.cli import output, terminal
from odradek.cli.output import Failed
from odradek.cli.topic.consume import format_writer, json_writer, shown
from odradek.cli.topic.create import parse_assignment, parse_settings
from odradek.cli.topic.escapes import unescaped
from odradek.cli.topic.offsets import Nothing, nothing_there, parse_span, resolve, timestamp_ms
from odradek.cli.topic.produce import lines_or_pauses, parse_line
from odradek.client.partitioning import murmur2, partition_of
from odradek.client.sync import OffsetAndEpoch
from odradek.model.ids import TopicPartition
from odradek.records.reader import Record

NOW_MS = 1_800_000_000_000
RECORD = Record(7, 1_700_000_000_123, b"k", b"v\xff", (("a", b"1"), ("b", None)))


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (r"%t %p %o %k %v %T %h\n", b"flights 3 7 k v\xff 1700000000123 a=1,b=\n"),
        (r"%s%%%K/%S\t\x41\\n", b"v\xff%1/2\tA\\n"),
        ("", b""),
        ("no fields", b"no fields"),
    ],
)
def test_a_format_string_is_kcats(form, expected):
    assert format_writer("flights", form)(3, RECORD) == expected


HOSTILE = Record(1, 2, b"\x1b]0;owned\x07", "a\nb\x9b31m\u202eé".encode() + b"\xff", (("\x1b[2J", b"\r"),))


def test_at_a_terminal_a_record_moves_nothing_and_the_format_still_does():
    written = format_writer("t", "%k|%v|%h\\n\\x1b", of_record=shown)(0, HOSTILE)
    assert written.decode() == "\\x1b]0;owned\\x07|a\\nb\\x9b31m\\u202eé\\xff|\\x1b[2J=\\r\n\x1b"


def test_json_at_a_terminal_is_the_same_json_without_control_characters():
    record = HOSTILE._replace(value="a\x9b31m\u202eé".encode())
    piped, seen = json_writer("t")(0, record), json_writer("t", is_shown=True)(0, record)
    assert json.loads(piped) == json.loads(seen)
    assert seen.decode()[:-1].isprintable() and not piped.decode()[:-1].isprintable()


def test_null_key_and_value_are_empty_and_their_lengths_minus_one():
    record = Record(0, 0, None, None)
    assert format_writer("t", "%k|%v|%K|%S")(0, record) == b"||-1|-1"


def test_an_unknown_field_is_refused_with_the_known_ones():
    with pytest.raises(click.UsageError, match="%x means nothing; there are %K %S %T"):
        format_writer("t", "%x")


def test_json_lines_lose_nothing_and_can_be_produced_again():
    line = json_writer("flights")(3, RECORD)
    assert json.loads(line) == {
        "topic": "flights",
        "partition": 3,
        "offset": 7,
        "timestamp": 1_700_000_000_123,
        "key": "k",
        "value": {"base64": "dv8="},
        "headers": [["a", "1"], ["b", None]],
    }
    again = parse_line(line, 1, None, "json", ())
    assert (again.key, again.value, again.timestamp) == (b"k", b"v\xff", 1_700_000_000_123)
    assert list(again.headers) == [("a", b"1"), ("b", None)]


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"[" * 100_000,
        b'{"value": 5}',
        b'{"value": {"base64": "!"}}',
        b'{"key": {"base32": "ME======"}}',
        b'{"headers": [1]}',
        rb'{"headers": [["\ud800", "1"]]}',
        b'{"timestamp": 1e400}',
        b'{"timestamp": 9223372036854775808}',
        b'{"timestamp": -2}',
    ],
)
def test_a_line_that_is_no_record_in_json_is_named_by_number(line):
    with pytest.raises(Failed, match="line 12 is not a record in JSON"):
        parse_line(line, 12, None, "json", ())


def test_a_line_of_any_length_is_put_together_once():
    """A file without an end of line came to as many copies of itself as it has pieces."""
    copied = 0

    class Piece(bytes):
        def __radd__(self, before):
            nonlocal copied
            copied += len(before)
            return bytes(before) + bytes(self)

    pieces = [Piece(b"x" * 100)] * 50 + [Piece(b"y\nz\n\nw")]
    read_end, write_end = os.pipe()
    os.close(write_end)

    class Stream:
        def fileno(self):
            return read_end

        def read1(self, _size):
            return pieces.pop(0) if pieces else b""

    try:
        assert list(lines_or_pauses(Stream())) == [b"x" * 5000 + b"y", b"z", b"", b"w"]
    finally:
        os.close(read_end)
    assert copied <= 5000


def test_a_key_is_split_off_at_the_first_delimiter():
    record = parse_line(b"k:v:w", 1, ":", "text", ())
    assert (record.key, record.value) == (b"k", b"v:w")
    with pytest.raises(Failed, match="line 4 has no ':'"):
        parse_line(b"kv", 4, ":", "text", ())
    assert parse_line(b"kv", 4, None, "text", ()).key is None
    assert unescaped(r"\t::") is unescaped(r"\t::"), "it is not looked at again for each line"


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("start", ("start", None)),
        ("end", ("end", None)),
        ("42", ("42", None)),
        ("-5", ("-5", None)),
        (":10", ("start", "10")),
        ("3:10", ("3", "10")),
        (":", ("start", "end")),
        ("7:", ("7", "end")),
        ("@1700000000000", ("@1700000000000", None)),
        ("@2013-01-01T05:30:00", ("@1357018200000", None)),
        ("@2013-01-01:@2013-01-02T05:30", ("@1356998400000", "@1357104600000")),
        ("@1:end", ("@1", "end")),
        ("@2013", ("@2013", None)),  # digits alone are milliseconds
        ("@1h", (f"@{NOW_MS - 3_600_000}", None)),
        ("@90m:@30s", (f"@{NOW_MS - 5_400_000}", f"@{NOW_MS - 30_000}")),
        ("@2d:end", (f"@{NOW_MS - 172_800_000}", "end")),
        ("@999999w", ("@0", None)),
        ("@1969-12-31T23:59:59.999", ("@0", None)),  # -1 would mean the end
    ],
)
def test_offsets_from_and_to(text, span):
    assert parse_span(text, NOW_MS) == span


@pytest.mark.parametrize("text", ["x", "1:2:3", "@", "@1y", "@-1h", "@h", "start-1", "1..2", "1h", "@1h30"])
def test_what_is_no_offset_is_refused_with_the_forms_there_are(text):
    with pytest.raises(
        click.UsageError, match=r"expected start, end, a number, -n, @1h, @2026-01-31, .* FROM:TO"
    ):
        parse_span(text, NOW_MS)


@pytest.mark.parametrize("text", ["@2026-02-31", "@2026-01-31T25:00", "0:@2026-13-01", f"@{2**63}"])
def test_a_time_that_there_is_not_is_refused_with_what_is_wrong_with_it(text):
    with pytest.raises(click.UsageError, match=r"there is no such time \(.+\); expected start"):
        parse_span(text, NOW_MS)


@pytest.mark.parametrize(
    "line", [b'{"id": 7, "name": "x"}', b'{"key": "k", "payload": "as kcat writes it"}', b"{}"]
)
def test_an_object_that_is_no_record_does_not_become_a_record_without_a_value(line):
    """In a compacted topic that would delete what its key has."""
    with pytest.raises(Failed, match=r"line 3 is not a record in JSON .*key, value"):
        parse_line(line, 3, None, "json", ())


def test_a_date_without_a_zone_is_utc():
    assert timestamp_ms("@1970-01-01T00:00:01", NOW_MS) == 1000
    assert timestamp_ms("@1970-01-01T01:00:00+01:00", NOW_MS) == 0
    assert timestamp_ms("@5", NOW_MS) == 5
    assert timestamp_ms("@2004-10-10T04:40:14.021", NOW_MS) == 1_097_383_214_021, "no millisecond too early"


class Offsets:
    """A client that knows offsets: partition 0 holds 10 to 20, partition 1 nothing."""

    def begin_offsets(self, partitions):
        return {p: (10, 0)[p.partition] for p in partitions}

    def end_offsets(self, partitions, *, read_committed=False):
        return {p: (20, 0)[p.partition] for p in partitions}

    def list_offsets(self, wanted):
        """Records of partition 0 are as old as their offset."""
        return {
            p: OffsetAndEpoch(max(10, ms) if p.partition == 0 and ms < 20 else -1, 0)
            for p, ms in wanted.items()
        }


@pytest.mark.parametrize(
    ("border", "expected"),
    [
        ("start", (10, 0)),
        ("end", (20, 0)),
        ("-3", (17, 0)),
        ("-99", (10, 0)),
        ("-0", (20, 0)),
        ("15", (15, 0)),
        ("99", (20, 0)),
    ],
)
def test_a_border_is_an_offset_of_each_partition_within_what_is_there(border, expected):
    partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
    found = resolve(Offsets(), partitions, border)
    assert tuple(found[p] for p in partitions) == expected


def test_an_offset_that_is_named_is_meant_though_an_open_transaction_begins_before_it():
    """Who reads committed records gets those from there on, when it has ended, and none that lie before."""

    class Open(Offsets):
        def end_offsets(self, partitions, *, read_committed=False):
            return dict.fromkeys(partitions, 15 if read_committed else 20)

    where = TopicPartition("t", 0)
    found = {border: resolve(Open(), [where], border, read_committed=True) for border in ("18", "-3", "end")}
    assert found == {"18": {where: 18}, "-3": {where: 12}, "end": {where: 15}}


@pytest.mark.parametrize(
    ("border", "said"),
    [
        ("start", None),
        ("end", None),
        ("-99", None),
        ("0", None),
        ("20", "t has no offset 20 yet: partition 1 ends at 0"),
        ("99", "t has no offset 99 yet: partition 0 ends at 20, partition 1 ends at 0"),
        ("@5", None),
        (
            "@20",
            "t has no record from 1970-01-01 00:00:00 UTC on yet: partition 0 ends at 20, partition 1 ends at 0",
        ),
        (
            f"@{2**63 - 1}",
            "t has no record from 9223372036854775807 ms on yet: partition 0 ends at 20, partition 1 ends at 0",
        ),
    ],
)
def test_where_nothing_is_yet_is_said_with_where_it_ends(border, said):
    found = nothing_there(Offsets(), [TopicPartition("t", 0), TopicPartition("t", 1)], border)
    assert (found and found.sentence("t")) == said


def test_many_partitions_are_not_all_named():
    ends = {TopicPartition("t", n): n for n in range(9)}
    assert Nothing("99", ends).sentence("t").endswith("partition 4 ends at 4 and 4 more")


# Values of the Java client's Utils.murmur2, as its own test has them.
@pytest.mark.parametrize(
    ("data", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_keys_are_hashed_as_the_java_client_does(data, signed):
    assert murmur2(data) == signed & 0xFFFFFFFF
    assert partition_of(data, 6) == (signed & 0x7FFFFFFF) % 6


def test_assignments_and_settings_are_read_or_refused():
    assert parse_assignment("1,2,3:2,3,1") == [[1, 2, 3], [2, 3, 1]]
    assert parse_assignment(None) == []
    with pytest.raises(click.UsageError, match="a colon between partitions"):
        parse_assignment("1;2")
    assert parse_settings(("retention.ms=-1", "cleanup.policy=compact,delete")) == {
        "retention.ms": "-1",
        "cleanup.policy": "compact,delete",
    }
    with pytest.raises(click.UsageError, match=r"did you mean retention\.ms"):
        parse_settings(("retention.mss=1",))
    with pytest.raises(click.UsageError, match="expected NAME=VALUE"):
        parse_settings(("retention.ms",))


def test_a_table_into_a_pipe_is_aligned_and_never_wraps(capsys):
    output.print_table(("name", "count"), [("a" * 200, 5), ("b", 12_345)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("NAME") and lines[0].endswith("COUNT")
    assert lines[1] == "a" * 200 + "      5"
    assert lines[2] == "b" + " " * 199 + "  12345"
    assert len(lines) == 3


def test_a_name_that_somebody_chose_for_a_terminal_stays_in_its_row(capsys):
    """A group, a client and a transactional id may be any text."""
    output.print_table(("group", "lag"), [("evil\x1b]0;owned\x07\nbilling  0", 5), ("b\u202e", 12)])
    assert capsys.readouterr().out == (
        "GROUP                             LAG\n"
        "evil\\x1b]0;owned\\x07\\nbilling  0    5\n"
        "b\\u202e                            12\n"
    )


def test_a_dash_among_numbers_leaves_them_to_the_right(capsys):
    output.print_table(("committed", "schema"), [(2, "-"), ("-", "-"), (12, "-")])
    assert capsys.readouterr().out == ("COMMITTED  SCHEMA\n        2  -\n        -  -\n       12  -\n")


def test_a_terminal_as_wide_as_the_longest_row_gets_the_same_table(capsys, monkeypatch):
    monkeypatch.setattr(terminal, "columns", lambda: 13)
    output.print_table(("name", "count"), [("orders", 5), ("b", 12)])
    wide = capsys.readouterr().out
    monkeypatch.setattr(terminal, "columns", lambda: None)
    output.print_table(("name", "count"), [("orders", 5), ("b", 12)])
    assert wide == capsys.readouterr().out == "NAME    COUNT\norders      5\nb          12\n"


def test_a_terminal_too_narrow_for_a_row_gets_an_entry_a_line(capsys, monkeypatch):
    """Neither cut nor wrapped in the middle of a row: what is empty is left out, what is long goes on below."""
    monkeypatch.setattr(terminal, "columns", lambda: 20)
    output.print_table(("name", "address", ""), [("a", "127.0.0.1:9092", "up"), ("b", "not there", "")])
    assert capsys.readouterr().out == (
        "NAME     a\nADDRESS  127.0.0.1:9\n         092\n         up\n\nNAME     b\nADDRESS  not there\n"
    )


def test_a_table_without_a_row_is_not_silent_in_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setattr(output.terminal, "columns", lambda: 20)
    output.print_table(("group", "state", "type", "assignor"), [])
    assert capsys.readouterr().out == "GROUP  STATE  TYPE  ASSIGNOR\n"


def test_a_real_terminal_is_asked_how_wide_it_is():
    """Through a pseudo-terminal of 40 columns: no line is longer, and none is lost."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 40))
    script = (
        "from odradek.cli.output import print_table\n"
        "print_table(('partition', 'from', 'to', 'copies to', 'leaves', 'bytes'), [('orders-0', '1,2', '3,2', 3, 1, '0 B')])\n"
    )
    with os.fdopen(ours, "rb", buffering=0) as screen:
        process = subprocess.Popen([sys.executable, "-c", script], stdout=theirs, stdin=theirs)
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # how Linux says that the other end is closed
            while more := screen.read(4096):
                shown += more
        assert process.wait(60) == 0
    lines = shown.decode().replace("\r\n", "\n").splitlines()
    assert lines == [
        "PARTITION  orders-0",
        "FROM       1,2",
        "TO         3,2",
        "COPIES TO  3",
        "LEAVES     1",
        "BYTES      0 B",
    ]
