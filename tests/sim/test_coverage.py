"""What seeds never reach is named, with the reason where somebody gave one."""

from fnmatch import fnmatchcase

from odradek.replication.partition import Partition
from odradek.sim import coverage
from odradek.sim.coverage import Reached, _key, merged, traced
from odradek.sim.not_entered import NOT_ENTERED, reason
from odradek.sim.plan import draw
from odradek.sim.run import run


def reached_by(seed: int) -> Reached:
    reached = Reached()
    with traced(reached):
        assert run(draw(seed)).code == 0
    return reached


def test_what_was_reached_and_what_was_not_are_told_apart() -> None:
    said = list(reached_by(5).table())
    shares = {line.split()[0]: float(line.split()[1]) for line in said if "lines in functions" in line}

    assert list(shares) == list(coverage.ROOMS)
    assert 30 < shares["replication"] < 100
    assert shares["store/embedded"] == 0, "the store of a simulated world is another one"
    never = [line for line in said if line.startswith("never entered: ")]
    assert any(line.endswith(" Partition.lose_disk") for line in never)
    assert not any(line.endswith(" Partition.append") for line in never)
    assert not any(" OsFile." in line for line in never), "there is a reason"
    assert any(line.endswith("never entered: the real disk: a world has `log.memory_files`") for line in said)


def test_a_function_is_known_by_its_place() -> None:
    assert _key(Partition.append.__code__) in Reached().lines


def test_what_processes_have_reached_is_put_together() -> None:
    one, other = Reached(), Reached()
    key = _key(Partition.append.__code__)
    first, *rest = sorted(one.lines[key])
    for reached, lines in ((one, {first}), (other, set(rest))):
        reached.entered.add(key)
        reached.missing[key] -= lines
    whole = merged((part.entered, {key: part.missing[key]}) for part in (one, other))

    assert whole.entered == {key}
    assert whole.missing[key] == set()


def test_every_reason_is_of_a_function_that_is_there() -> None:
    names = [coverage._shown(key) for key in Reached().lines]
    for pattern, _ in NOT_ENTERED:
        assert any(fnmatchcase(" ".join(name), pattern) for name in names), pattern


def test_what_has_a_reason_is_not_entered() -> None:
    """In one seed; `--coverage` names whatever is not entered by 64 and has none."""
    entered = {coverage._shown(key) for key in reached_by(3).entered}
    assert sorted(name for name in entered if reason(*name) is not None) == []
