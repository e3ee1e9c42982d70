"""The logger of the classic state-change lines, of the controller and of the broker (row 83).

The words are made by `controller.state_change_log` and by the broker; here they only get their level. TRACE, at which
Apache says what happens to single replicas, is below DEBUG.
"""

import logging

TRACE = 5
logging.addLevelName(TRACE, "TRACE")
logger = logging.getLogger("odradek.state_change")

_LEVELS = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
}


def write_line(level: str, text: str) -> None:
    logger.log(_LEVELS[level.upper()], "%s", text)


def is_wanted() -> bool:
    """Making the lines of a large election takes longer than the election."""
    return logger.isEnabledFor(logging.INFO)
