"""Descriptors that are closed and charsets that lack a letter, as shells, cron and supervisors hand them over."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
from functools import partial

import pytest

from odradek.cli import main
from odradek.cli.standard_streams import escape_what_is_missing
from odradek.testing.process_cluster import free_ports
from tests.support import each, eventually, started

ALL = (0, 1, 2)


def assert_serves_and_stops(port, *command, **options):
    with started(*command, **options) as process:

        def is_served():
            assert process.poll() is None
            return main.main(["topic", "list", "--bootstrap", f"127.0.0.1:{port}"]) == 0

        eventually(is_served, 60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def close(descriptors):
    for descriptor in descriptors:
        os.close(descriptor)


@each(((0,), (1,), (2,), ALL))
def test_a_standard_descriptor_that_is_closed_becomes_dev_null_and_the_others_stay(*closed):
    program = (
        "import json, os, sys\n"
        "from odradek.cli.standard_streams import make_whole\n"
        "make_whole()\n"
        "print('to the output'); print('to the error', file=sys.stderr)\n"
        "told = [[os.readlink(f'/proc/self/fd/{n}'), os.get_inheritable(n)] for n in range(3)]\n"
        "os.write(int(sys.argv[1]), json.dumps(told).encode())\n"
    )
    ours, theirs = os.pipe()
    try:
        ended = subprocess.run(
            [sys.executable, "-c", program, str(theirs)],
            pass_fds=(theirs,),
            preexec_fn=partial(close, closed),
            stdin=subprocess.PIPE,
            capture_output=True,
            text=True,
        )
        told = json.loads(os.read(ours, 4096))
    finally:
        close((ours, theirs))
    assert tuple(number for number in ALL if told[number][0] == os.devnull) == closed
    assert all(is_inheritable for _, is_inheritable in told)
    assert (ended.returncode, ended.stdout, ended.stderr) == (
        0,
        "" if 1 in closed else "to the output\n",
        "" if 2 in closed else "to the error\n",
    )


@pytest.mark.process
@pytest.mark.parametrize("closed", [(0,), (2,), ALL], ids=str)
def test_a_cluster_starts_and_stops_where_standard_descriptors_are_closed(closed, tmp_path):
    """libuv ended the process that closed them, and a broker with uvloop could not watch what /dev/null had become."""
    (port,) = free_ports(1)
    command = [
        sys.executable,
        "-m",
        "odradek",
        "up",
        "--brokers",
        "1",
        "--port",
        str(port),
        "--dir",
        str(tmp_path / "up"),
    ]
    assert_serves_and_stops(
        port,
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=partial(close, closed),
    )


@pytest.mark.process
def test_a_broker_starts_and_stops_where_standard_descriptors_are_closed(tmp_path):
    (port,) = free_ports(1)
    config = tmp_path / "server.properties"
    config.write_text(f"broker.id=1\nlisteners=PLAINTEXT://127.0.0.1:{port}\nlog.dirs={tmp_path / 'data'}\n")
    command = [sys.executable, "-m", "odradek", "start", "--config", str(config)]
    assert_serves_and_stops(port, command, preexec_fn=partial(close, ALL))


NAME = "zwölf→☃\U0001f479"


@each(
    (
        ("ascii", b"zw\\u00f6lf\\u2192\\u2603\\ud83d\\udc79"),
        ("iso8859-1", b"zw\xf6lf\\u2192\\u2603\\ud83d\\udc79"),
        ("UTF8", NAME.encode()),
    )
)
def test_a_letter_that_the_charset_of_the_output_has_not_is_printed_as_in_json(encoding, printed):
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding)
    escape_what_is_missing(out)
    print(NAME, file=out)
    print(json.dumps({"name": NAME}, ensure_ascii=False), file=out, flush=True)
    lines = raw.getvalue().splitlines()
    assert lines[0] == printed
    assert json.loads(lines[1].decode(encoding)) == {"name": NAME}


@each((("ascii", b"a\xe9\\u00f6\xff\n"), ("utf-8", b"a\xe9\xc3\xb6\xff\n")))
def test_a_byte_of_a_path_that_is_no_text_is_printed_as_it_came(encoding, printed):
    """What was done under such a name was said to be refused."""
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding=encoding)
    escape_what_is_missing(out)
    print("a\udce9ö\udcff", file=out, flush=True)
    assert raw.getvalue() == printed


@each(
    (
        ("wire", "decode", "--key", "ApiVersions", "--version", "0", "--response"),
        ("wire", "decode", "--lines"),
        ("reassign", "apply", "-"),
        ("topic", "produce", "orders"),
    )
)
def test_what_would_be_read_from_a_closed_standard_input_is_said(*command):
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stderr(said):
        patch.setattr("sys.stdin", None)
        code = main.main([*command])
    assert code == (2 if command[:3] == ("wire", "decode", "--key") else 1)
    assert re.fullmatch(
        "odradek: standard input is closed, and .* would be read from there\n", said.getvalue()
    )


def test_json_is_utf_8_whatever_the_charset_of_a_shell_and_comes_back_the_same():
    """A topic of a CreateTopics request, whose name is checked by brokers only."""
    message = {"topics": [], "timeoutMs": 1, "validateOnly": False}
    message["topics"].append(
        {"name": NAME, "numPartitions": 1, "replicationFactor": 1, "assignments": [], "configs": []}
    )
    there = ["--key", "CreateTopics", "--version", "2", "--request"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}

    def wire(verb, text):
        command = [sys.executable, "-m", "odradek", "wire", verb, *there]
        return subprocess.run(command, input=text, capture_output=True, env=environment)

    encoded = wire("encode", json.dumps(message, ensure_ascii=False).encode())
    assert encoded.returncode == 0, encoded.stderr
    decoded = wire("decode", encoded.stdout)
    assert decoded.returncode == 0, decoded.stderr
    assert json.loads(decoded.stdout)["topics"][0]["name"] == NAME
