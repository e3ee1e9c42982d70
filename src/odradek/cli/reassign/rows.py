"""One reassignment as it stands: what is printed of it, and drawn."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from odradek.model.ids import TopicPartition


class Row(NamedTuple):
    """`step` 0: it does not run. `behind`: records the slowest newcomer lacks, None where nobody said."""

    partition: "TopicPartition"
    replicas: tuple[int, ...]
    target: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    leader: int
    isr: tuple[int, ...]
    step: int
    sentence: str
    behind: int | None = None

    @property
    def is_running(self) -> bool:
        return self.step > 0

    @property
    def is_done(self) -> bool:
        return not self.is_running and self.replicas == self.target
