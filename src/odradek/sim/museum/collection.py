"""Everything the museum shows."""

from odradek.sim.museum import controller_bugs, once_unseen, own_bugs, replication_bugs, storage_bugs
from odradek.sim.museum.exhibit import Exhibit

EXHIBITS: tuple[Exhibit, ...] = (
    *replication_bugs.EXHIBITS,
    *controller_bugs.EXHIBITS,
    *storage_bugs.EXHIBITS,
    *own_bugs.EXHIBITS,
    *once_unseen.EXHIBITS,
)
