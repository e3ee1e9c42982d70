"""What happened when, in milliseconds of the wall clock: acknowledgements in slots, and named moments."""

from collections.abc import Iterator
from dataclasses import dataclass, field

SLOT_MS = 20


@dataclass(frozen=True)
class Moment:
    """Something that happened at one time; `name` is for code, `words` for people."""

    at_ms: float
    name: str
    words: str


@dataclass
class Timeline:
    begun_ms: float
    moments: list[Moment] = field(default_factory=list)
    slots: dict[int, dict[int, int]] = field(default_factory=dict)  # slot -> partition -> acknowledgements
    longest_gap_ms: float = 0.0
    longest_gap_at_ms: float = 0.0  # when it ended
    last_ack_ms: float = 0.0

    def mark(self, at_ms: float, name: str, words: str) -> None:
        self.moments.append(Moment(at_ms, name, words))
        self.moments.sort(key=lambda moment: moment.at_ms)

    def moment(self, name: str) -> Moment | None:
        return next((moment for moment in self.moments if moment.name == name), None)

    def acknowledged(self, at_ms: float, partition: int) -> None:
        if self.last_ack_ms:
            gap_ms = at_ms - self.last_ack_ms
            if gap_ms > self.longest_gap_ms:
                self.longest_gap_ms, self.longest_gap_at_ms = gap_ms, at_ms
        self.last_ack_ms = at_ms
        slot = self.slots.setdefault(int((at_ms - self.begun_ms) // SLOT_MS), {})
        slot[partition] = slot.get(partition, 0) + 1

    @property
    def ended_ms(self) -> float:
        times = [moment.at_ms for moment in self.moments] + [self.last_ack_ms, self.begun_ms]
        return max(times)

    def per_second(self) -> Iterator[tuple[float, float]]:
        """(seconds since the beginning, acknowledgements per second) for every slot, empty ones too."""
        for slot in range(max(self.slots, default=-1) + 1):
            count = sum(self.slots.get(slot, {}).values())
            yield slot * SLOT_MS / 1000, count * 1000 / SLOT_MS
