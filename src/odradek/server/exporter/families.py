"""The text format of Prometheus, version 0.0.4: what a family of samples is, and its lines.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# So many lines are made at a stretch, or of longer ones so many characters: a millisecond. Whoever names a group takes up to 32,767.
LINES_AT_ONCE = 500
CHARACTERS_AT_ONCE = 100_000

# So many partitions, or groups, are looked at between two looks of the loop at what else there is: half a millisecond.
ROWS_AT_ONCE = 100
# Whose name it is, where it is of no MBean; and the labels of what is told by partition.
EXPORTER = "kafka_exporter"
PARTITION = ("topic", "partition")

Number = int | float
Sample = tuple[tuple[str | int, ...], Number]  # values of the family's labels, and the number


class Family(NamedTuple):
    """`kind`: counter or gauge. `source`: whose name it is, an MBean of Apache's or an exporter; empty: ours."""

    name: str
    kind: str
    text: str
    labels: tuple[str, ...] = ()
    source: str = ""


def pieces(family: Family, samples: Iterable[Sample]) -> Iterator[str]:
    """All lines of a family, as few hundred at a time. A label with an empty value is left out, which says the same."""
    yield f"# HELP {family.name} {_escaped(family.text)}\n# TYPE {family.name} {family.kind}\n"
    lines: list[str] = []
    size = 0
    for sample in samples:
        line = _line(family, sample)
        lines.append(line)
        size += len(line)
        if len(lines) >= LINES_AT_ONCE or size >= CHARACTERS_AT_ONCE:
            yield "".join(lines)
            lines, size = [], 0
    if lines:
        yield "".join(lines)


def _line(family: Family, sample: Sample) -> str:
    values, number = sample
    labels = ",".join(
        [
            f'{name}="{_quoted(value)}"'
            for name, value in zip(family.labels, values, strict=True)
            if value != ""
        ]
    )
    return f"{family.name}{{{labels}}} {number}\n" if labels else f"{family.name} {number}\n"


def _quoted(value: str | int) -> str:
    return str(value) if isinstance(value, int) else _escaped(value).replace('"', '\\"')


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def table(*families: Family) -> dict[str, Family]:
    """By name."""
    return {family.name: family for family in families}


def one(family: Family, number: Number) -> str:
    """All there is of a family without labels."""
    return "".join(pieces(family, [((), number)]))
