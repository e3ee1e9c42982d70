"""A few seeds from beginning to end; many more are run by `python -m odradek.sim --seeds 0:2000`."""

import logging

import pytest

from odradek.controller import bulk_moves
from odradek.sim.plan import draw
from odradek.sim.run import OK, describe, run

# Each found a bug of ours once, of a broker's or of the simulator's; docs/simulator.md tells which. What they do now has
# shifted with the code.
ONCE_RED = (
    8, 10, 14, 39, 51, 61, 66, 71, 84, 94, 116, 125, 136, 165, 189, 258, 327, 343, 360, 376, 473, 475, 538, 554, 596, 611, 622, 633, 879, 889, 913, 919, 942, 953, 993, 1300,
    1364, 1409, 1593, 1655, 1696, 1767, 1787, 1823, 1846, 1868, 1944, 1966, 2221, 9029, 880104,
)  # fmt: skip


@pytest.mark.parametrize("seed", [*range(12), *ONCE_RED])
def test_a_seed_is_right_and_comes_to_rest(seed: int) -> None:
    outcome = run(draw(seed))
    assert outcome.code == OK, describe(outcome)


@pytest.mark.parametrize("seed", [3, 20, 41])
def test_the_same_seed_is_the_same_run(seed: int) -> None:
    first, second = run(draw(seed)), run(draw(seed))
    assert (first.trace_hash, first.events) == (second.trace_hash, second.events)


@pytest.mark.parametrize("seed", [3, 8, 41])
def test_what_a_controller_does_for_many_partitions_is_what_it_does_for_few(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loops of `bulk_moves` in whole brokers; `--seeds --twice` does this with every seed."""
    few = run(draw(seed))
    changes: list[type] = []
    monkeypatch.setattr(bulk_moves, "WORTH_IT", 1)
    monkeypatch.setattr(
        bulk_moves, "_change", lambda kind, values: changes.append(kind) or tuple.__new__(kind, values)
    )
    many = run(draw(seed))

    assert (many.code, many.trace_hash, many.events) == (OK, few.trace_hash, few.events)
    assert changes, "the loops made them"


def test_a_run_leaves_the_logs_as_they_were(caplog: pytest.LogCaptureFixture) -> None:
    run(draw(1))  # with a broker killed, of which others warn while the logs are quiet
    logging.getLogger("odradek.server").warning("still heard")

    assert "still heard" in caplog.text
