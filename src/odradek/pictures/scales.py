"""Where a value stands on an axis, and which values an axis names."""

import math
from typing import NamedTuple


class Scale(NamedTuple):
    """Values from `low` to `high` on pixels from `start` to `end`; upwards where `end` is the smaller."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (self.end - self.start) * (value - self.low) / (self.high - self.low)


def nice_ticks(low: float, high: float, wanted: int = 6) -> list[float]:
    """Round numbers between low and high."""
    if high <= low:
        return [low]
    raw = (high - low) / max(wanted, 1)
    magnitude = 10 ** math.floor(math.log10(raw))
    step = next(m * magnitude for m in (1, 2, 2.5, 5, 10) if m * magnitude >= raw)
    first = math.ceil(low / step - 1e-9) * step
    count = int((high - first) / step + 1e-9)
    return [round(first + index * step, 10) for index in range(count + 1)]
