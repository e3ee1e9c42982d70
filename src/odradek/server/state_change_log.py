"""The logger of the classic state-change lines, of the controller and of the broker (row 83).

The words are made by `controller.state_change_log` and by the broker; here they only get their level. TRACE,
at which Apache says what happens to single replicas, is below DEBUG.
"""

import logging
import time
from collections.abc import Iterable

from odradek.log.files import Directory
from odradek.model.printable import LONGEST_LINE, shown
from odradek.model.settings import BrokerSettings
from odradek.server.appended_file import AppendedFile
from odradek.server.log_limits import LimitedLog, OneLine

TRACE = 5
logging.addLevelName(TRACE, "TRACE")
logger = logging.getLogger("odradek.state_change")

Line = tuple[str, str]  # level, text

_LEVELS = {
    "TRACE": TRACE,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
}


def file_name(settings: BrokerSettings) -> str:
    """Several brokers may have one `odradek.journal.dir`, and would write over each other's lines."""
    return f"state-change-{settings.broker_id}.log" if settings.odradek_journal_dir else "state-change.log"


class FileHandler(logging.Handler):
    """A file beside the journal, in Apache's form."""

    def __init__(self, directory: Directory, name: str, log: LimitedLog) -> None:
        super().__init__()
        self._file = AppendedFile(directory, name, log)
        self.setFormatter(OneLine("[%(asctime)s] %(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self._file.append((self.format(record) + "\n").encode())

    def append_lines(self, lines: Iterable[Line], at_ms: int) -> None:
        """As `emit` would have written them at that time, one by one; in one write."""
        at = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at_ms // 1000))},{at_ms % 1000:03d}"
        words = {level: f"[{at}] {logging.getLevelName(number)} " for level, number in _LEVELS.items()}
        whole = [f"{words[level]}{shown(text, LONGEST_LINE)}\n" for level, text in lines]
        if whole:
            self._file.append("".join(whole).encode())


def write_to(directory: Directory, name: str, log: LimitedLog) -> None:
    """For a process with one broker: these lines go to their file instead of the broker's own log."""
    logger.addHandler(FileHandler(directory, name, log))
    logger.propagate = False


def write_line(level: str, text: str) -> None:
    logger.log(_LEVELS[level.upper()], "%s", text)


def write_lines(lines: Iterable[Line], at_ms: int) -> None:
    """As `write_line` for each, at that time. A record of `logging` costs 25 us, more than the election it tells
    of; so where our own file is the only reader, none is made."""
    if logger.propagate or not all(isinstance(handler, FileHandler) for handler in logger.handlers):
        for level, text in lines:
            write_line(level, text)
        return
    wanted = {level: is_wanted(number) for level, number in _LEVELS.items()}
    kept = [line for line in lines if wanted[line[0]]]
    for handler in logger.handlers:
        assert isinstance(handler, FileHandler)
        handler.append_lines(kept, at_ms)


def is_wanted(level: int = logging.INFO) -> bool:
    """Making the lines of a large election takes longer than the election."""
    return logger.isEnabledFor(level)
