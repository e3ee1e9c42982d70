"""The faults of `disk_faults` and `wire_faults` by name, as `faults` has its own."""

from odradek.sim import disk_faults, wire_faults

TABLE = {**disk_faults.TABLE, **wire_faults.TABLE}
