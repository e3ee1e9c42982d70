"""`python -m odradek.sim`."""

from odradek.sim.command import sim

if __name__ == "__main__":
    sim()
