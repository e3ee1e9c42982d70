"""Judges what members of a group were told that is converted from one protocol to the other and back.

The names are those of `sharers` and of `groups`, and three more:

| name | meaning |
|---|---|
| sent-off | a member is told that it is none, and its session has not ended |
| former-epoch | a commit is taken with an epoch that the member had before the one it was told |
| instance-refused | a classic member is told that its instance is another one's, which it does not understand |

A generation of a classic member is an epoch of the group: in a classic group it
counts from the first share that was told of it, as in `groups`.

A group without members begins with epoch 1 when the next one joins with the other protocol, as Apache's does. So epochs are compared
as long as somebody was a member all the time: from an answer to him until his session, counted from when he asked, or his leaving.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from odradek.model.ids import TopicPartition
from odradek.sim.checkers.groups import GroupHistory, check_groups
from odradek.sim.checkers.history import Anomaly
from odradek.sim.checkers.removals import Removal
from odradek.sim.checkers.sharers import SharingHistory, check_sharing

Span = tuple[float, float]


class Conversions(NamedTuple):
    upgrades: int
    downgrades: int


@dataclass(slots=True)
class MixedHistory:
    sharing: SharingHistory = field(default_factory=SharingHistory)  # of members of either protocol
    offsets: GroupHistory = field(default_factory=GroupHistory)  # committed and fetched
    presence: dict[str, list[Span]] = field(default_factory=dict)  # of a member: it certainly was one
    sent_off: list[tuple[str, float, float]] = field(
        default_factory=list
    )  # when, and how long it was one at least
    in_former_epochs: list[tuple[str, float, int]] = field(default_factory=list)  # commits that were taken
    refused: list[tuple[str, float]] = field(default_factory=list)  # their instance
    _protocols: list[tuple[float, int, bool]] = field(default_factory=list)

    def was_there(self, member: str, from_s: float, until_s: float) -> None:
        spans = self.presence.setdefault(member, [])
        if spans and from_s <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(until_s, spans[-1][1])
        else:
            spans.append((from_s, until_s))

    def left(self, member: str, at_s: float) -> None:
        """It may be none from now on."""
        spans = self.presence.get(member, [])
        if spans:
            spans[-1] = spans[-1][0], min(spans[-1][1], at_s)

    def is_none(self, member: str, told_s: float) -> None:
        """Nobody knows it, by an answer."""
        spans = self.presence.get(member, [])
        if spans and told_s < spans[-1][1]:
            self.sent_off.append((member, told_s, spans[-1][1]))
            spans[-1] = spans[-1][0], told_s

    def was_of(self, epoch: int, told_s: float, *, is_of_kip_848: bool) -> None:
        """What the group was when somebody was told his share of this epoch."""
        self._protocols.append((told_s, epoch, is_of_kip_848))

    def was_last_classic(self, since_s: float) -> bool | None:
        """In the latest epoch that anybody was told of since then; None: nobody was."""
        found = [(epoch, not kind) for told_s, epoch, kind in self._protocols if told_s > since_s]
        return max(found)[1] if found else None

    def restarts(self) -> list[Removal]:
        """When there may have been no member."""
        found: list[Removal] = []
        end: float | None = None
        for from_s, until_s in sorted(span for spans in self.presence.values() for span in spans):
            if end is not None and from_s > end:
                found.append(Removal(end, from_s))
            end = until_s if end is None else max(end, until_s)
        return found

    def conversions(self) -> Conversions:
        """Seen by those who were told of an epoch before and of one after; a group that began anew was not converted."""
        upgrades = downgrades = 0
        restarts = self.restarts()
        last: tuple[int, int, bool] | None = None  # how often it had begun anew, its epoch, its kind
        for told_s, epoch, is_of_kip_848 in self._protocols:
            life = sum(restart.seen_s <= told_s for restart in restarts)
            if last is not None and epoch > last[1]:
                upgrades += is_of_kip_848 and not last[2]
                downgrades += last[2] and not is_of_kip_848
            if last is None or epoch > last[1] or life > last[0]:
                last = life, epoch, is_of_kip_848
        return Conversions(upgrades, downgrades)


def check_mixed(
    history: MixedHistory,
    gone: Iterable[TopicPartition] = (),
    *,
    is_lossy: bool = False,
    have_clocks_jumped: bool = False,
) -> Iterator[Anomaly]:
    """`gone`: with the topic its id, and what everybody owned of it; `have_clocks_jumped`: nobody
    knows who is a member. In both cases only offsets are judged."""
    gone = list(gone)
    yield from check_groups(history.offsets, gone, is_lossy=is_lossy)
    if not (is_lossy or gone or have_clocks_jumped):
        yield from check_sharing(history.sharing, may_have_begun_anew=history.restarts())
        for member, told_s, until_s in history.sent_off:
            text = f"{member} is none at {told_s:.3f} s, and had a session until {until_s:.3f} s at least"
            yield Anomaly("sent-off", None, text)
        for member, asked_s, epoch in history.in_former_epochs:
            text = f"{member} was told a later epoch than {epoch} before it committed with that at {asked_s:.3f} s"
            yield Anomaly("former-epoch", None, text)
        for member, told_s in history.refused:
            yield Anomaly("instance-refused", None, f"of {member}, which is classic, at {told_s:.3f} s")
