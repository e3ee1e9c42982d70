"""From where and to where `topic consume` reads, as people write it: `FROM`, `:TO` or `FROM:TO`.

Either side is `start`, `end`, an offset, `-n` (the last n), or a time: `@1h` (so long ago; ms, s, m, h, d, w),
`@2026-01-31`, `@2026-01-31T12:00`, with seconds, parts of them and a zone where wanted (UTC without one), or `@` and
milliseconds since 1970. A time is the first record from then on.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import click

from odradek.model.counted import first_of

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient
    from odradek.model.ids import TopicPartition

DATE = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?"
AGO = re.compile(r"(\d+)(ms|s|min|m|h|d|w)")
BORDER = re.compile(rf"(?:start|end|-?\d+|@(?:{DATE}|{AGO.pattern}|\d+))?")
UNIT_MS = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
FORMS = "expected start, end, a number, -n, @1h, @2026-01-31, @2026-01-31T12:00, @milliseconds, or FROM:TO of these"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INT64_MAX = 2**63 - 1  # as wide as a time is on the wire
LAST_DATE_MS = 253_402_300_799_999  # of those that have four digits for the year
SHOWN = 5  # partitions in a sentence


def parse_span(text: str, now_ms: int) -> tuple[str, str | None]:
    """`FROM:TO` into its sides, times as `@ms`; TO is None when there is no end. A colon inside a time of day is none of
    ours."""
    first = BORDER.match(text)
    assert first is not None, "all of it is optional"
    rest = text[first.end() :]
    last = BORDER.fullmatch(rest[1:]) if rest.startswith(":") else None
    if rest and last is None:
        raise click.UsageError(f"--offset {text}: {FORMS}")
    try:
        return (
            _without_words(first.group(), now_ms) or "start",
            None if last is None else _without_words(last.group(), now_ms) or "end",
        )
    except ValueError as error:
        raise click.UsageError(f"--offset {text}: there is no such time ({error}); {FORMS}") from None


def _without_words(border: str, now_ms: int) -> str:
    return f"@{timestamp_ms(border, now_ms)}" if border.startswith("@") else border


def timestamp_ms(border: str, now_ms: int) -> int:
    """Milliseconds since 1970; never negative, for those have meanings of their own in ListOffsets. ValueError: no
    time."""
    text = border.removeprefix("@")
    ago = AGO.fullmatch(text)
    if ago is not None:
        return max(0, now_ms - int(ago[1]) * UNIT_MS[ago[2]])
    if text.isdigit():
        if int(text) > INT64_MAX:
            raise ValueError(f"{text} ms do not fit into 64 bits")
        return int(text)
    return max(0, ms_of(datetime.fromisoformat(text)))


def ms_of(moment: datetime) -> int:
    """Since 1970; without a zone it is UTC. In whole numbers: as a fraction a time may be a millisecond less."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // timedelta(milliseconds=1)


def resolve(
    client: "SyncClient", partitions: "list[TopicPartition]", border: str, *, read_committed: bool = False
) -> "dict[TopicPartition, int]":
    """What a border means in each partition, as an offset between its start and its end."""
    if border == "start":
        return client.begin_offsets(partitions)
    if border.startswith("@"):
        wanted = client.list_offsets(dict.fromkeys(partitions, int(border[1:])))
        ends = client.end_offsets(partitions)
        return {p: found.offset if found.offset >= 0 else ends[p] for p, found in wanted.items()}
    starts = client.begin_offsets(partitions)
    # An offset that is named is meant, whoever may read it by now.
    ends = client.end_offsets(partitions, read_committed=read_committed and not border.isdigit())
    if border == "end":
        return ends
    number, is_of_the_last = int(border), border.startswith("-")  # -0 is the last none
    return {
        p: min(max(ends[p] + number if is_of_the_last else number, starts[p]), ends[p]) for p in partitions
    }


class Nothing(NamedTuple):
    """Partitions that have nothing from where it should begin, and where they end."""

    border: str
    ends: "Mapping[TopicPartition, int]"

    @property
    def is_beyond_the_end(self) -> bool:
        """An offset that nobody has written yet; of a time it is no mistake that nothing came since."""
        return not self.border.startswith("@")

    @property
    def awaited(self) -> "dict[TopicPartition, int]":
        """Where whoever waits begins: at the offset asked for, once it is there."""
        return dict.fromkeys(self.ends, int(self.border)) if self.is_beyond_the_end else {}

    def sentence(self, topic: str) -> str:
        ends = [f"partition {p.partition} ends at {end}" for p, end in sorted(self.ends.items())]
        what = f"offset {self.border}"
        if not self.is_beyond_the_end:
            what = f"record from {_moment(int(self.border[1:]))} on"
        return f"{topic} has no {what} yet: {first_of(ends, SHOWN)}"


def _moment(ms: int) -> str:
    if ms > LAST_DATE_MS:
        return f"{ms} ms"
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def nothing_there(client: "SyncClient", partitions: "list[TopicPartition]", border: str) -> Nothing | None:
    """Partitions whose end an offset lies beyond; of a time, only if no partition has a record from then on. None: there
    is something, or the border is one that cannot be too large."""
    if border.startswith("@"):
        found = client.list_offsets(dict.fromkeys(partitions, int(border[1:])))
        is_late = all(found[p].offset < 0 for p in partitions)
        return Nothing(border, client.end_offsets(partitions)) if is_late else None
    if not border.isdigit():
        return None
    ends = {p: end for p, end in client.end_offsets(partitions).items() if int(border) > end}
    return Nothing(border, ends) if ends else None
