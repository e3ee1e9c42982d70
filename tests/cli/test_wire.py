"""`odradek wire`, from the outside: every golden line both ways, and bad questions."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner, Result

from odradek.cli.main import main
from odradek.cli.wire import wire
from odradek.protocol.api_keys import APIS
from tests.support import golden_lines, started

METADATA = {"topics": None, "allowAutoTopicCreation": True, "includeTopicAuthorizedOperations": False}


def run(*arguments: str, stdin: str | bytes = "") -> Result:
    return CliRunner().invoke(wire, arguments, input=stdin)


def ask_lines(verb: str, lines: list[str | bytes]) -> list[dict]:
    raw = [line.encode() if isinstance(line, str) else line for line in lines]
    done = run(verb, "--lines", stdin=b"\n".join(raw) + b"\n")
    assert done.exit_code == 0
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_one_message_each_way() -> None:
    done = run("decode", "--key", "3", "--version", "12", "--request", "00010000")
    assert (done.exit_code, json.loads(done.stdout)) == (0, METADATA)
    done = run("encode", "--key", "3", "--version", "12", "--request", json.dumps(METADATA))
    assert (done.exit_code, done.stdout) == (0, "00010000\n")


def test_standard_input_and_names_of_keys_will_do_too() -> None:
    done = run("decode", "--key", "apiversions", "--version", "0", "--response", stdin="0023 00000000\n")
    assert json.loads(done.stdout) == {"errorCode": 35, "apiKeys": []}
    done = run("encode", "--key", "ApiVersions", "--version", "0", "--response", stdin=done.stdout)
    assert done.stdout == "002300000000\n"


def test_every_golden_line_both_ways() -> None:
    rows = [
        row
        for row in golden_lines("wire.jsonl.gz")
        if row["key"] in APIS and row["version"] >= APIS[row["key"]].first_version
    ]
    answers = ask_lines("decode", [json.dumps(row) for row in rows])
    assert [answer["json"] for answer in answers] == [row["json"] for row in rows]
    known = [row for row in rows if row["sample"] != "unknown-tag"]
    answers = ask_lines("encode", [json.dumps(row) for row in known])
    assert [answer["hex"] for answer in answers] == [row["hex"] for row in known]
    assert len(known) == 2510


def test_a_line_with_one_of_the_two_is_answered_with_the_other() -> None:
    base = {"key": 3, "version": 12, "type": "request"}
    for verb in ("decode", "encode"):
        assert ask_lines(verb, [json.dumps(base | {"hex": "00010000"})]) == [base | {"json": METADATA}]
        assert ask_lines(verb, [json.dumps(base | {"json": METADATA})]) == [base | {"hex": "00010000"}]


BASE = {"key": 3, "version": 12, "type": "request", "hex": "00010000"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        (b"\xff\xfe\xff", "not JSON"),
        ("5", "a line is an object"),
        ("{}", "needs key"),
        (json.dumps(BASE | {"key": 38}), "API key 38 is not known; known are 0-37, "),
        (json.dumps(BASE | {"key": "Meta"}), "no API key 'Meta'; expected a number or one of Produce, "),
        (json.dumps(BASE | {"key": [1]}), "no API key [1]"),
        (json.dumps(BASE | {"version": 13}), "MetadataRequest version 13 is not known; known are 0-12"),
        (json.dumps(BASE | {"version": "12"}), "version is a number, not '12'"),
        (json.dumps(BASE | {"type": "reply"}), "type is request or response, not 'reply'"),
        (json.dumps(BASE | {"type": ["request"]}), "type is request or response"),
        (json.dumps(BASE | {"hex": "0g"}), "not hex"),
        (json.dumps(BASE | {"hex": 5}), "not hex"),
        (json.dumps(BASE | {"hex": "0001"}), "MetadataRequest version 12: ends too early, after 2 bytes"),
        (json.dumps(BASE | {"hex": "0001000000"}), "1 bytes left over"),
        (json.dumps({k: v for k, v in BASE.items() if k != "hex"}), "needs hex or json"),
    ],
)
def test_a_bad_line_is_answered_with_an_error_and_the_next_one_as_ever(line: str | bytes, said: str) -> None:
    first, second = ask_lines("decode", [line, json.dumps(BASE)])
    assert list(first) == ["error"] and said in first["error"]
    assert second["json"] == METADATA


def test_a_bad_line_to_encode_is_named_too() -> None:
    base = {"key": 3, "version": 12, "type": "request"}
    [answer] = ask_lines("encode", [json.dumps(base | {"json": METADATA | {"topics": [{"name": "t"}]}})])
    assert answer == {"error": "MetadataRequest.topics[0]: field 'topicId' is missing in version 12"}
    for depth in range(900, 1000, 7):
        deep = json.dumps(base | {"json": 5}).replace("5", "[" * depth + "]" * depth)
        [answer] = ask_lines("encode", [deep])
        assert list(answer) == ["error"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["decode", "--key", "3", "--version", "12", "--request", "0001"], "ends too early"),
        (["decode", "--key", "3", "--version", "12", "--request", "xx"], "not hex"),
        (["decode", "--key", "3", "--version", "99", "--request", "00"], "known are 0-12"),
        (["decode", "--key", "3", "--request", "00"], "needs --key, --version"),
        (["decode", "--key", "3", "--version", "x", "--request", "00"], "not a valid integer"),
        (["decode", "--lines", "--key", "3"], "--lines reads key"),
        (["encode", "--key", "3", "--version", "12", "--request", "{"], "not JSON"),
        (["encode", "--key", "3", "--version", "12", "--request", "{}"], "field 'topics' is missing"),
    ],
)
def test_a_bad_call_is_one_sentence_and_exit_code_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["wire", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err and len(captured.err.splitlines()) == 1


def test_lines_are_answered_one_by_one_as_they_come() -> None:
    """A test at the other end of a pipe may wait for each answer before it asks again."""
    command = [sys.executable, "-m", "odradek.cli.main", "wire", "decode", "--lines"]
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        for _ in range(2):
            process.stdin.write(json.dumps(BASE) + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["json"] == METADATA
        process.stdin.close()
        assert process.wait(60) == 0
