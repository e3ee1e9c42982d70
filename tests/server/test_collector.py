"""The collector of cycles keeps away from what is made to stay."""

import gc
from collections.abc import Iterator

import pytest

from odradek.server import collector


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    was_frozen = gc.get_freeze_count() > 0  # by tests/conftest.py
    gc.collect()
    yield
    gc.unfreeze()
    assert gc.isenabled()
    if was_frozen:
        gc.collect()
        gc.freeze()


def test_it_rests_meanwhile_and_no_longer_whatever_happens() -> None:
    with pytest.raises(ZeroDivisionError), collector.resting():
        assert not gc.isenabled()
        raise ZeroDivisionError
    assert gc.isenabled()


def test_what_many_were_made_is_never_looked_at() -> None:
    frozen = gc.get_freeze_count()
    with collector.resting():
        kept = [[] for _ in range(collector.MOST_YOUNG_OBJECTS + 1_000)]  # type: ignore[var-annotated]
    assert gc.get_freeze_count() >= frozen + len(kept)


def test_what_few_were_made_stays_its_business() -> None:
    """Frozen, a cycle among them would stay for ever."""
    frozen = gc.get_freeze_count()
    with collector.resting():
        kept = [[] for _ in range(100)]  # type: ignore[var-annotated]
    # Of what is frozen some may have gone meanwhile, by its count of references.
    assert gc.get_freeze_count() < frozen + len(kept)
