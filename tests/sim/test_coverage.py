"""What seeds never reach is named."""

from odradek.replication.partition import Partition
from odradek.sim import coverage
from odradek.sim.coverage import Reached, _key


def test_what_was_reached_and_what_was_not_are_told_apart() -> None:
    said: list[str] = []
    assert coverage.told([5], said.append) == 0
    shares = {line.split()[0]: float(line.split()[1]) for line in said if "%" in line}

    assert list(shares) == list(coverage.ROOMS)
    assert 30 < shares["replication"] < 100
    assert shares["store/embedded"] == 0, "the store of a simulated world is another one"
    never = [line for line in said if line.startswith("never entered: ")]
    assert any(line.endswith(" Partition.lose_disk") for line in never)
    assert not any(line.endswith(" Partition.append") for line in never)


def test_a_function_is_known_by_its_place() -> None:
    assert _key(Partition.append.__code__) in Reached().lines
