"""Standard input, output and error as whoever started us left them: closed, or in a charset that lacks a character.

A descriptor that is closed (`<&-`, `>&-`) is the next one that is opened: a log's file would be standard output, and libuv ends a
process that closes descriptor 0, 1 or 2 (its `uv__close` asserts it). So each of the three that is free becomes /dev/null.
"""

import io
import os
import sys

TYPE_CHECKING = False  # the module `typing` would be a third of the time of `odradek --help`
if TYPE_CHECKING:
    from typing import BinaryIO

ESCAPED = "odradek.escaped"  # the name of an error handler of codecs


def make_whole() -> None:
    """Before anything else is opened. `sys.stdin` stays None where it was closed, for whoever reads it to say so."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # free, and the lowest that is
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stderr is None:  # to `print` that means standard output
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 (as long as the process lives)
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 (as long as the process lives)
    if isinstance(sys.stdout, io.TextIOWrapper):
        escape_what_is_missing(sys.stdout)


def escape_what_is_missing(out: io.TextIOWrapper) -> None:
    r"""A name with a character that `out` has not is printed as in JSON, `\u2192`: a table that can be read but for a letter, and
    JSON of the same value. UTF-8 has them all, but for what stands for a byte."""
    import codecs

    codecs.register_error(ESCAPED, _escaped)
    out.reconfigure(errors=ESCAPED)


def _escaped(error: UnicodeError) -> tuple[str | bytes, int]:
    """One character; what stands for a byte of a file's name, or of an argument, leaves as it came (PEP 383)."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    import json

    character = error.object[error.start]
    is_a_byte = "\udc80" <= character <= "\udcff"
    return bytes([ord(character) - 0xDC00]) if is_a_byte else json.dumps(character)[1:-1], error.start + 1


def standard_input(what: str) -> "BinaryIO":
    """Its bytes: JSON, records and exports are UTF-8 whatever the locale of a shell. `what`, as in "a plan", is read from it; Failed
    where it is closed."""
    if sys.stdin is None:  # started with `<&-`
        from odradek.cli.output import fail

        fail(f"standard input is closed, and {what} would be read from there")
    return sys.stdin.buffer
