"""The logger of the classic state-change lines, of the controller and of the broker (row 83).

The words are made by `controller.state_change_log` and by the broker; here they only get their level. TRACE,
at which Apache says what happens to single replicas, is below DEBUG.
"""

import logging

from odradek.controller.effects import Effects
from odradek.controller.state_change_log import lines
from odradek.model.ids import BrokerId, ControllerEpoch

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


def write_step(controller: BrokerId, epoch: ControllerEpoch, effects: Effects) -> None:
    if logger.isEnabledFor(logging.INFO) and (effects.changes or effects.requests):
        for level, text in lines(effects, controller, epoch):
            logger.log(_LEVELS[level], "%s", text)
