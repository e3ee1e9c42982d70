"""What is done about records that become no row: by kind of error, and how many of them are too many.

    dlq                              each of them is kept aside, as it was
    skip | pause                     left out; the job stops at the first
    value=dlq,schema=pause,key=skip  by kind; a kind that is not named is kept aside

The kinds are where it went wrong: `key`, `value` (the bytes), `schema` (none, unknown, or of other columns), `size` (too
large to be parsed) and `registry` (nobody answers). The last one stops the job unless it is named: an outage of a registry
says nothing about the records, and letters of all of them help nobody.
"""

import re
from typing import NamedTuple

from odradek.model.counted import counted
from odradek.model.errors import ConfigurationError, OdradekError
from odradek.spark.formats.decoded import REGISTRY, STAGES

ACTIONS = ("dlq", "skip", "pause")


class TooManyLetters(OdradekError):
    """A batch has more records that become no row than the job allows; nothing of it is written."""


def actions_of(text: str) -> dict[str, str]:
    """By kind. ConfigurationError names what is wrong."""
    if text in ACTIONS:
        return dict.fromkeys(STAGES, text) | ({REGISTRY: "pause"} if text == "dlq" else {})
    found = dict.fromkeys(STAGES, "dlq") | {REGISTRY: "pause"}
    for part in text.split(","):
        kind, _, action = (word.strip() for word in part.partition("="))
        if kind not in STAGES or action not in ACTIONS:
            raise ConfigurationError(
                f"--on-error {text}: there are {', '.join(ACTIONS)}, or one of them by kind of error as in "
                f"value=dlq,schema=pause; kinds are {', '.join(STAGES)}"
            )
        found[kind] = action
    return found


class Most(NamedTuple):
    """How many records of a batch may become no row: so many, or so many of a hundred."""

    number: float
    is_share: bool

    @classmethod
    def of(cls, text: str) -> "Most":
        if not re.fullmatch(r"\d+|\d+(\.\d+)?\s*%", text):
            raise ConfigurationError(
                f"--max-dead-letters {text}: expected a number as in 100, or a share as in 1%"
            )
        return cls(float(text.rstrip("% ")), text.endswith("%"))

    def check(self, refused: int, records: int) -> None:
        """Of a whole batch, before any of it is committed."""
        most = records * self.number / 100 if self.is_share else self.number
        if refused > most:
            allowed = f"{self.number:g} %" if self.is_share else f"{self.number:g}"
            raise TooManyLetters(
                f"{refused:,} of {counted(records, 'record')} in this batch become no row, and --max-dead-letters allows {allowed}: "
                f"nothing of the batch is written; see what is wrong with --on-error pause, or allow more"
            )
