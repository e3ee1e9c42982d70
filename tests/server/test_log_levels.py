"""Levels of this process's loggers in Kafka's words."""

import logging
from collections.abc import Iterator

import pytest

from odradek.server import log_levels


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("odradek.test_log_levels")
    before = logging.getLogger().level
    yield logger
    logger.setLevel(logging.NOTSET)
    logging.getLogger().setLevel(before)


def test_every_word_is_a_level_that_lets_through_what_it_says(logger: logging.Logger) -> None:
    for word in ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"):
        log_levels.set_levels({logger.name: word})
        assert log_levels.levels()[logger.name] == word
    log_levels.set_levels({logger.name: "WARN"})
    assert logger.isEnabledFor(logging.WARNING)
    assert not logger.isEnabledFor(logging.INFO)


def test_without_a_level_of_its_own_a_logger_has_that_of_the_one_above(logger: logging.Logger) -> None:
    log_levels.set_levels({log_levels.ROOT: "ERROR", logger.name: "DEBUG"})
    assert log_levels.levels()[log_levels.ROOT] == "ERROR"
    log_levels.set_levels({logger.name: None})
    assert log_levels.levels()[logger.name] == "ERROR"


def test_a_logger_that_is_made_meanwhile_is_in_nobodys_way() -> None:
    """By a thread that imports a module, as one does when the broker has started. The effects of the turn would be lost, and
    the broker stop."""
    known: dict[str, object] = dict(logging.Logger.manager.loggerDict)

    class LookedAt:
        @property
        def __class__(self) -> type:
            known["odradek.test_made_meanwhile"] = logging.Logger("odradek.test_made_meanwhile")
            return object

    known["odradek.test_looked_at"] = LookedAt()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logging.Logger.manager, "loggerDict", known)
        assert "odradek.test_looked_at" not in log_levels.levels()
