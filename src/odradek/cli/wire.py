"""`odradek wire decode|encode`: what do these bytes say, and what bytes say this?

For people who debug and for tests. Bytes are bodies in hex, without header; JSON has the form Kafka's own
converters print. With `--lines` each line of standard input is a question of its own, and each gets a line
back, `{"error": ...}` if it was a bad one; the exit code is then 0, for the lines say it all.
"""

import json
from collections.abc import Callable
from typing import Any

import click

from odradek.cli.group import VerbGroup
from odradek.cli.standard_streams import standard_input
from odradek.model.errors import OdradekError


class BadQuestion(OdradekError):
    """The command or a line asks for something that cannot be; the message says what would have worked."""


@click.group(cls=VerbGroup)
def wire() -> None:
    """Decode and encode protocol messages."""


def _verb(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.argument("text", required=False),
        click.option("--lines", is_flag=True, help="Answer JSON lines: key, version, type, hex or json."),
        click.option("--response", "kind", flag_value="response", help="It is a response."),
        click.option("--request", "kind", flag_value="request", help="It is a request."),
        click.option("--version", type=int, help="Version of the message."),
        click.option("--key", help="API key, by number or name."),
    ):
        command = option(command)
    return command


@wire.command()
@_verb
def decode(**options: Any) -> None:
    """Bytes in, JSON out: TEXT is hex, or standard input is."""
    _run("decode", **options)


@wire.command()
@_verb
def encode(**options: Any) -> None:
    """JSON in, bytes out: TEXT is JSON, or standard input is."""
    _run("encode", **options)


def _run(
    verb: str, *, key: str | None, version: int | None, kind: str | None, lines: bool, text: str | None
) -> None:
    if lines:
        if text is not None or key is not None or version is not None or kind is not None:
            raise click.UsageError("--lines reads key, version, type and the rest from standard input")
        for line in standard_input("requests, a line each,"):
            if line.strip():
                print(json.dumps(answer_line(verb, line), ensure_ascii=False), flush=True)
        return
    if key is None or version is None or kind is None:
        raise click.UsageError("needs --key, --version and --request or --response (or --lines)")
    try:
        if text is None:
            text = standard_input("a message").read().decode()
        if verb == "decode":
            print(json.dumps(decoded(key, version, kind, text), ensure_ascii=False))
        else:
            print(encoded(key, version, kind, _json(text)))
    except (OdradekError, UnicodeDecodeError) as error:
        raise click.UsageError(str(error)) from None
    except RecursionError:
        raise click.UsageError("nested too deeply for any message") from None


def answer_line(verb: str, line: bytes) -> dict[str, Any]:
    """What was asked for, with `json` where the line had `hex`, and `hex` where it had `json`."""
    try:
        row = _json(line)
        if not isinstance(row, dict):
            raise BadQuestion("a line is an object with key, version, type and hex or json")
        key, version, kind = (_part(row, name) for name in ("key", "version", "type"))
        if type(version) is not int:
            raise BadQuestion(f"version is a number, not {version!r}")
        answer = {"key": key, "version": version, "type": kind}
        # A line may have both, as those of the golden file do: then the verb says which is the question.
        question = {"decode": "hex", "encode": "json"}[verb]
        if question not in row:
            question = "json" if question == "hex" else "hex"
        if question not in row:
            raise BadQuestion("a line needs hex or json")
        if question == "hex":
            return answer | {"json": decoded(key, version, kind, row["hex"])}
        return answer | {"hex": encoded(key, version, kind, row["json"])}
    except OdradekError as error:
        return {"error": str(error)}
    except RecursionError:
        return {"error": "nested too deeply for any message"}


def _part(row: dict[str, Any], name: str) -> Any:
    if name not in row:
        raise BadQuestion(f"a line needs {name}")
    return row[name]


def decoded(key: Any, version: int, kind: Any, text: Any) -> dict[str, Any]:
    try:
        body = bytes.fromhex(text)
    except (TypeError, ValueError) as error:
        raise BadQuestion(f"not hex: {error}") from None
    message = _message_class(key, kind)
    shown: dict[str, Any] = message.decode(version, body).to_json(version)
    return shown


def encoded(key: Any, version: int, kind: Any, value: Any) -> str:
    body: bytes = _message_class(key, kind).from_json(version, value).encode(version)
    return body.hex()


def _message_class(key: Any, kind: Any) -> Any:
    from odradek.protocol import messages

    if kind not in ("request", "response"):
        raise BadQuestion(f"type is request or response, not {kind!r}")
    number = _key_number(key)
    return messages.request_class(number) if kind == "request" else messages.response_class(number)


def _key_number(key: Any) -> int:
    from odradek.protocol.api_keys import APIS

    if type(key) is int:
        return key
    if isinstance(key, str):
        try:
            return int(key)
        except ValueError:
            for api in APIS.values():
                if api.name.lower() == key.lower():
                    return api.key
    raise BadQuestion(
        f"no API key {key!r}; expected a number or one of {', '.join(a.name for a in APIS.values())}"
    )


def _json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadQuestion(f"not JSON: {error}") from None
