"""The form of a `server.properties`: Java's, with its comments, continued lines and escapes."""

import re

from odradek.model.errors import ConfigurationError

# What Java's `trim` takes off both ends of every value, and `\s` off the parts of a list. `strip` alone knows more blanks.
AROUND_VALUES = "".join(map(chr, range(ord(" ") + 1)))
AROUND_PARTS = " \t\n\x0b\f\r"
# Not `splitlines`, which also ends a line at what Java takes as a part of it, such as U+2028.
_END_OF_LINE = re.compile(r"\r\n|\r|\n")


def parse_properties(text: str) -> dict[str, str]:
    """A Java properties file: `#` and `!` comments, `=`, `:` or blank between, `\\` continues a line."""
    properties: dict[str, str] = {}
    lines = iter(_END_OF_LINE.split(text))
    for line in lines:
        line = line.lstrip(" \t\f")
        if not line or line[0] in "#!":
            continue
        # Joined once: a value may be continued over every line of a long file. What is cut off leaves an even number of
        # backslashes at its end, so each part says by itself whether another follows.
        parts = [line]
        while _ends_with_odd_backslashes(parts[-1]):
            parts[-1] = parts[-1][:-1]
            parts.append(next(lines, "").lstrip(" \t\f"))
        key, value = _split_property("".join(parts))
        properties[_unescape(key)] = _unescape(value)
    return properties


def _ends_with_odd_backslashes(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split_property(line: str) -> tuple[str, str]:
    position = 0
    while position < len(line):
        character = line[position]
        if character == "\\":
            position += 2
            continue
        if character in "=: \t\f":
            break
        position += 1
    key, rest = line[:position], line[position:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return key, rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\" or position == len(text):
            out.append(character)
            continue
        character = text[position]
        position += 1
        if character == "u":
            digits = text[position : position + 4]
            if len(digits) != 4 or any(d not in "0123456789abcdefABCDEF" for d in digits):
                raise ConfigurationError(f"\\u{digits}: four hexadecimal digits must follow \\u")
            out.append(chr(int(digits, 16)))
            position += 4
        else:
            out.append({"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(character, character))
    text = "".join(out)
    try:
        # What lies beyond 16 bits is two escapes, as Java has it: native2ascii writes them so.
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ConfigurationError(
            f"{text!r}: half of a character, whose other half must be escaped beside it"
        ) from None
