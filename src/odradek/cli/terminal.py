"""How wide what we print may be. Without `shutil`, which imports five modules for it."""

import os
import sys


def columns() -> int | None:
    """Of the terminal that standard output is, or as COLUMNS says; None: nobody's width is to be kept, as in a pipe."""
    told = os.environ.get("COLUMNS", "")
    if told.isdigit() and int(told) > 0:
        return int(told)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):  # a pipe, a file, or closed
        return None
