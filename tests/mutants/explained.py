"""Mutations that no test can tell from the code as it is, each with its reason: `explained.txt`."""

from collections.abc import Iterator
from pathlib import Path

from tests.mutants.sites import Change

PAGE = Path(__file__).parent / "explained.txt"


def explained() -> dict[Change, str]:
    """Change -> reason.

    Blocks of `key: value` lines between empty ones; lines that begin with # are comments."""
    return dict(_blocks(PAGE.read_text(encoding="utf-8")))


def _blocks(text: str) -> Iterator[tuple[Change, str]]:
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if lines:
            fields = dict(line.split(": ", 1) for line in lines)
            reason = fields.pop("reason")
            yield Change(**fields), reason
