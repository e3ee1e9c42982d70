"""The text of scenarios: paragraphs, commands, words. Nothing here knows what a command does."""

import re
import shlex
from dataclasses import dataclass, field

from odradek.model.ids import TopicPartition

LINE = "----"


@dataclass(slots=True)
class Paragraph:
    comment: list[str]
    commands: list[str]
    outcome: list[str]


class Wrong(Exception):
    """A line that cannot be understood."""


def parse(text: str) -> list[Paragraph]:
    found = []
    for piece in re.split(r"\n\s*\n", text.strip("\n")):
        lines = piece.split("\n")
        if LINE in lines:
            at = lines.index(LINE)
            before, after = lines[:at], lines[at + 1 :]
        else:
            before, after = lines, []
        comment = [line for line in before if line.startswith("#")]
        found.append(
            Paragraph(comment, [line for line in before if line and not line.startswith("#")], after)
        )
    return found


def render(paragraphs: list[Paragraph]) -> str:
    pieces = []
    for p in paragraphs:
        pieces.append("\n".join([*p.comment, *p.commands, *([LINE, *p.outcome] if p.commands else [])]))
    return "\n\n".join(pieces) + "\n"


@dataclass
class Words:
    """A command's words: those with `=` by name, the others in order."""

    plain: list[str] = field(default_factory=list)
    named: dict[str, str] = field(default_factory=dict)


def words_of(command: str) -> tuple[str, Words]:
    verb, *rest = shlex.split(command)
    words = Words()
    for word in rest:
        name, equals, value = word.partition("=")
        if equals and re.fullmatch(r"[a-z][a-z0-9.-]*", name):
            words.named[name] = value
        else:
            words.plain.append(word)
    return verb, words


SHORT = {
    "min": "min.insync.replicas",
    "unclean": "unclean.leader.election.enable",
    "flush": "flush.messages",
    "segment": "segment.bytes",
    "retention": "retention.ms",
}


def partition_of(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def listed(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)
