"""`odradek sim`: a whole cluster, with its faults, from one seed. See `odradek.sim.command`."""

from odradek.sim.command import sim

__all__ = ["sim"]
