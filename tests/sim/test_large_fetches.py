"""Worlds in which every fetch is taken in and looked at in slices, one partition a slice: no world has the thousands of partitions
for which brokers do that (`odradek.broker.large_fetches`)."""

import pytest

from odradek.broker import large_fetches
from odradek.broker.handlers import fetch
from odradek.sim.plan import draw
from odradek.sim.run import OK, run


# Each was red once: 12 and 25 completed a fetch twice, 26, 33 and 34 kept a high watermark from followers, 61 gave one that
# is over another deadline, and in 7, 18 and 20 two fetches of a connection cut each other short for ever.
@pytest.mark.parametrize("seed", [7, 12, 18, 20, 25, 26, 33, 34, 61])
def test_fetches_in_slices_keep_every_promise(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = []
    begin = large_fetches.LargeFetch.begin

    def counted(self: large_fetches.LargeFetch, now_ms: int) -> object:
        begun.append(self.session.replica_id)
        return begin(self, now_ms)

    monkeypatch.setattr(large_fetches.LargeFetch, "begin", counted)
    monkeypatch.setattr(fetch, "LARGE_BYTES", 0)
    for module in (fetch, large_fetches):
        monkeypatch.setattr(module, "MOST_AT_ONCE", 0)
    monkeypatch.setattr(large_fetches, "OF_A_STEP", 1)

    outcome = run(draw(seed))

    assert outcome.code == OK, outcome.reason
    assert len(begun) > 100 and min(begun) < 0 <= max(begun), "fetches of consumers and of followers"
