"""What went wrong in a query, in the one sentence that says it, out of the two hundred lines that Spark makes of it."""

import re

_LAST_LINE = re.compile(r"(?P<where>[\w.]+): (?P<what>.+)")


def sentence_of(error: BaseException) -> str:
    """The last line of the Python traceback in Spark's message, ours if there is one of ours; else Spark's first line."""
    lines = str(error).splitlines()
    found: list[tuple[str, str]] = []
    is_in_traceback = False
    for line in lines:
        text = line.strip()
        if "Traceback (most recent call last):" in text:  # the first of them stands behind words of Spark's
            is_in_traceback = True
        elif is_in_traceback and not line.startswith((" ", "\t")):
            if match := _LAST_LINE.fullmatch(text):
                found.append((match["where"], match["what"]))
            is_in_traceback = False
    ours = [what for where, what in found if where.startswith("odradek.")]
    if ours:
        return ours[-1]
    if found:
        where, what = found[-1]
        return f"{where}: {what}"
    return lines[0] if lines else type(error).__name__
