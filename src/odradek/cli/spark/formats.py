"""The options that say what values and keys are made of."""

from collections.abc import Callable
from typing import Any

import click

_OF_VALUES = (
    click.option("--registry", default="", metavar="URL", help="Where the schemas of Avro and Protobuf are."),
    click.option(
        "--schema-file",
        default="",
        type=click.Path(),
        help="Instead: Avro's schema as JSON, or a descriptor set of protoc.",
    ),
    click.option("--message", default="", metavar="NAME", help="Of the Protobuf file; else its first."),
    click.option(
        "--subject",
        default="",
        metavar="NAME",
        help="Whose newest schema gives the columns; else TOPIC-value.",
    ),
    click.option(
        "--framed",
        "is_framed",
        is_flag=True,
        help="With a file: values have a schema id before them, which is skipped.",
    ),
)
_OF_KEYS = (
    click.option(
        "--key-format", default="raw", show_default=True, help="As --format, for the keys: __key is decoded."
    ),
    click.option("--key-schema", default="", metavar="COLUMNS", help="Of keys in JSON."),
    click.option("--key-schema-file", default="", type=click.Path(), help="As --schema-file, for the keys."),
    click.option("--key-message", default="", metavar="NAME", help="As --message, for the keys."),
    click.option("--key-subject", default="", metavar="NAME", help="As --subject; else TOPIC-key."),
)


def format_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed((*_OF_VALUES, *_OF_KEYS)):
        command = option(command)
    return command


def value_format_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OF_VALUES):
        command = option(command)
    return command
