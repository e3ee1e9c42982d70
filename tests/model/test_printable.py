"""What strangers write, as people get to see it."""

import sys

import pytest

from odradek.model.printable import LONGEST_TEXT, printable, shown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a plain name", "a plain name"),
        ("größe 価格 👩‍👩‍👧 \u00a0\u3000", "größe 価格 👩‍👩‍👧 \u00a0\u3000"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("a\n[2026-01-01] ERROR b\r\tc", "a\\n[2026-01-01] ERROR b\\r\\tc"),
        ("\x9b31m\x7f\x85\u2028", "\\x9b31m\\x7f\\x85\\u2028"),
        ("\u202etxt.exe\u2066\u200f", "\\u202etxt.exe\\u2066\\u200f"),
        ("1\u061c2", "1\\u061c2"),
        ("\ud800", "\\ud800"),
    ],
)
def test_only_what_is_not_for_printing_is_escaped(text: str, expected: str) -> None:
    assert printable(text) == expected
    assert printable(expected) == expected


def test_no_character_ends_a_line_or_begins_an_escape_sequence() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    safe = printable(everything)
    assert safe.splitlines() == [safe]
    safe.encode()  # no half of a surrogate pair is left
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in safe)


@pytest.mark.parametrize("text", ["a" * 32_767, "\x1b" * 32_767, "\x1b" * 100, "a" * 257])
def test_long_text_is_cut_and_says_how_long_it_was(text: str) -> None:
    cut = shown(text)
    assert len(cut) <= LONGEST_TEXT
    assert cut.endswith(f"... ({len(text)} characters)")
    assert shown("a" * 256) == "a" * 256
