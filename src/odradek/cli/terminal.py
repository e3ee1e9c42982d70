"""How wide what we print may be. Without `shutil`, which imports five modules for it."""

import os
import sys


def columns() -> int | None:
    """Of the terminal that standard output is; None: it is a pipe or a file, and nobody's width is to be kept."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):  # no terminal, or closed
        return None


def is_read() -> bool:
    """False where standard output is a pipe whose reader is gone; told without writing to it."""
    import select

    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):
        return True
    return not any(flags & select.POLLERR for _, flags in poll.poll(0))
