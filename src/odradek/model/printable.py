"""Text of strangers, made fit for people to read: in a line of a log, on a terminal.

A client id, a topic's name in a request that is refused, a record's value are whatever somebody sends: 32 KB of it,
line feeds with a forged line of the log behind them, escape sequences that a terminal obeys.
"""

import re

# Of one piece of a stranger's text, and of a whole line with such pieces in it.
LONGEST_TEXT = 256
LONGEST_LINE = 4096

# Control characters (C0, DEL, C1), what separates lines elsewhere, what turns the direction of writing (a line could
# show other words than it has), and halves of surrogate pairs, which no output can encode.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def printable(text: str) -> str:
    """All of it, each character that is not for printing as an escape of Python's."""
    return _UNSAFE.sub(_escape, text)


def named(name: str) -> str:
    """A name within a sentence, printable; an empty one, which groups of old clients have, as ''."""
    return printable(name) or "''"


def shown(text: str, longest: int = LONGEST_TEXT) -> str:
    """Printable, and at most `longest` characters; what was left out is counted."""
    safe = printable(text[: longest + 1])
    if len(safe) <= longest:
        return safe
    more = f"... ({len(text)} characters)"
    return safe[: longest - len(more)] + more


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
