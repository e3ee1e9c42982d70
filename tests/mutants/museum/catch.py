"""Who catches an exhibit: a scenario that comes out otherwise, or a seed that fails, and after how many."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from odradek.sim import scenario
from odradek.sim.plan import draw
from odradek.sim.run import CORRECTNESS, CRASH, LIVENESS, OK, run
from odradek.sim.scenario.stage import Stage
from odradek.sim.scenario.text import parse
from tests.mutants.edit import Outdated
from tests.mutants.mutant import Mutant
from tests.mutants.patching import applied

# Seconds of the processor that a scenario or a seed may take; the real ones take half a second and two.
LONGEST_STORY_S, LONGEST_SEED_S = 2.0, 6.0
KINDS = {CRASH: "crash", LIVENESS: "liveness", CORRECTNESS: "correctness"}


class TooLong(BaseException):
    """A change that makes the program go round in circles. No handler of the program may take it for its own."""


class Caught(NamedTuple):
    by: str  # name of the scenario
    how: str


def by_text(exhibit: Mutant | None, text: str) -> str:
    """How the outcome of the scenario differs under the change; empty if it does not. None: nothing is changed.

    Raises Outdated: a change that cannot be made shows nothing.
    """
    try:
        with applied(exhibit.edits if exhibit else ()), _not_longer_than(LONGEST_STORY_S):
            after = scenario.play(text)
    except TooLong:
        return "goes round in circles"
    except Outdated:
        raise
    except (
        Exception
    ) as error:  # whatever the changed program raises in the scenario's own turn shows it as well
        return f"{type(error).__name__}: {error}"
    if after == text:
        return ""
    before = set(text.splitlines())
    new = [line for line in after.splitlines() if line not in before]
    broken = [line for line in new if line.startswith("!")]
    return (broken or new or ["an outcome is missing"])[0]


def shows(exhibit: Mutant, text: str) -> bool:
    """Whether `by_text` would say something: the scenario is played up to the first command that comes out otherwise."""
    try:
        with applied(exhibit.edits), _not_longer_than(LONGEST_STORY_S):
            return _comes_out_otherwise(text)
    except TooLong:
        return True
    except Outdated:
        raise
    except Exception:
        return True


def _comes_out_otherwise(text: str) -> bool:
    stage = Stage()
    said: list[str] = []
    paragraphs = parse(text)
    try:
        for paragraph in paragraphs:
            said = []
            for command in paragraph.commands:
                said += stage.does(command)
                if said != paragraph.outcome[: len(said)]:
                    return True
            if said != paragraph.outcome and paragraph is not paragraphs[-1]:
                return True
        return said + stage.end() != paragraphs[-1].outcome
    finally:
        stage.close()


def by_scenarios(exhibit: Mutant, paths: Sequence[Path]) -> Caught | None:
    """The first scenario that comes out otherwise."""
    if exhibit.own_scenario:
        how = by_text(exhibit, scenario.play(exhibit.own_scenario))
        if how:
            return Caught("its own scenario", how)
    for path in paths:
        how = by_text(exhibit, path.read_text(encoding="utf-8"))
        if how:
            return Caught(path.stem, how)
    return None


def by_seeds(exhibit: Mutant, begin: int, end: int) -> tuple[int, str] | None:
    """The first seed of these that fails under the change, and does not without it; and how it fails."""
    for seed in range(begin, end):
        with applied(exhibit.edits):
            how = _fails(seed)
        if how and not _fails(seed):
            return seed, how
    return None


def _fails(seed: int) -> str:
    try:
        with _not_longer_than(LONGEST_SEED_S):
            outcome = run(draw(seed))
    except TooLong:
        return "goes round in circles"
    if outcome.code == OK:
        return ""
    name = outcome.anomalies[0].name if outcome.anomalies else outcome.reason
    return f"{KINDS[outcome.code]}: {name}"


@contextmanager
def _not_longer_than(seconds: float) -> Iterator[None]:
    def too_long(number: int, frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
