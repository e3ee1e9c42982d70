"""The loggers of this process and their levels, in Kafka's words (the resource BROKER_LOGGER)."""

import logging
from collections.abc import Mapping

from odradek.server.state_change_log import TRACE

ROOT = "root"
_NUMBERS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}


def levels() -> dict[str, str]:
    """Every logger with the level that is in force for it, its own or that of a logger above."""
    # Of a copy: a thread that imports a module makes others.
    made = list(logging.Logger.manager.loggerDict.items())
    known = sorted(name for name, logger in made if isinstance(logger, logging.Logger))
    return {name: _word(logging.getLogger(name).getEffectiveLevel()) for name in known} | {
        ROOT: _word(logging.getLogger().getEffectiveLevel())
    }


def set_levels(wanted: Mapping[str, str | None]) -> None:
    for name, word in wanted.items():
        logger = logging.getLogger() if name == ROOT else logging.getLogger(name)
        logger.setLevel(logging.NOTSET if word is None else _NUMBERS[word])


def _word(number: int) -> str:
    return next((word for word, least in _NUMBERS.items() if number >= least), "TRACE")
