"""Whether what leads in decoding and hashing is compiled: where numba is installed (`pip install 'odradek[fast]'`).

Importing numba and its compiled code takes half a second of a processor, what numpy takes for ten million small records more than the
kernels. So they are loaded where many processes share it (`odradek.spark.fork_server`), and elsewhere by a process that has decoded as many.
"""

import logging
from typing import Any

WORTH_RECORDS = 10_000_000
logger = logging.getLogger(__name__)

_kernels: Any = None
_left = WORTH_RECORDS  # records until they are worth loading; 0: that was tried


def load() -> None:
    """For this process and its forks; without numba nothing changes."""
    global _kernels, _left
    _left = 0
    try:
        from odradek.spark import kernels
    except Exception as error:
        # It is not there, finds no place for what it compiles, or a full disk or a crash has left half of that in its cache (numba
        # does not sync what it writes, and does not look at what it reads). Each of these raises something else.
        logger.debug("nothing is compiled: %r", error)
        return
    _kernels = kernels


def kernels(records: int = 0) -> Any:
    """The module `odradek.spark.kernels`, or None; `records` are about to be decoded."""
    global _left
    if _left:
        _left = max(0, _left - records)
        if not _left:
            load()
    return _kernels
