"""Backslashes in an option, as of `--format` and `--key-delimiter`: \\n, \\t, \\r, \\0, \\\\, \\xHH. Others stand for themselves."""

import re
from functools import lru_cache

ESCAPE = rb"\\(n|t|r|\\|0|x[0-9a-fA-F]{2})"
_MEANINGS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"\\": b"\\", b"0": b"\0"}


def meaning(escape: bytes) -> bytes:
    """Of what stands behind the backslash."""
    return bytes.fromhex(escape[1:].decode()) if escape[:1] == b"x" else _MEANINGS[escape]


@lru_cache(1)  # asked for each line, and there is one delimiter
def unescaped(text: str) -> bytes:
    return re.sub(ESCAPE, lambda found: meaning(found[1]), text.encode(errors="surrogateescape"))
