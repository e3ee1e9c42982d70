"""What was measured so far, in a file beside this one: a new measurement takes the place of the old one of the same work,
store and size, and of nothing else. The tables of docs/controller-scale.md are made from it."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.controller.figures import Sample
from benchmarks.controller.memory import Memory

FILE = Path(__file__).with_name("measured.json")


@dataclass
class Kept:
    samples: list[Sample] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)

    def with_new(self, samples: Sequence[Sample], memories: Sequence[Memory]) -> "Kept":
        again = {(s.store, s.work, s.partitions) for s in samples}
        sizes = {m.partitions for m in memories}
        return Kept(
            [s for s in self.samples if (s.store, s.work, s.partitions) not in again] + [*samples],
            sorted(
                [m for m in self.memories if m.partitions not in sizes] + [*memories],
                key=lambda m: m.partitions,
            ),
        )


def read(file: Path = FILE) -> Kept:
    if not file.exists():
        return Kept()
    values = json.loads(file.read_text())
    return Kept([Sample(**one) for one in values["samples"]], [Memory(**one) for one in values["memory"]])


def write(kept: Kept, file: Path = FILE) -> None:
    """A sample a line, so that a change shows what was measured again."""
    samples = sorted(kept.samples, key=lambda s: (s.work, s.store, s.partitions))
    lines = ",\n".join(json.dumps(_rounded(asdict(sample))) for sample in samples)
    memories = ",\n".join(json.dumps(_rounded(asdict(memory))) for memory in kept.memories)
    file.write_text(f'{{"samples": [\n{lines}\n], "memory": [\n{memories}\n]}}\n')


def _rounded(values: dict[str, object]) -> dict[str, object]:
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in values.items()}
