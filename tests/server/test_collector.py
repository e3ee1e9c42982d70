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


def test_it_rests_until_the_last_of_those_that_make_something_at_once_is_done() -> None:
    """A slice of the loop comes and goes while a thread makes a coordinator; and neither is behind the other by any rule."""
    thread, piece = collector.resting(), collector.resting()
    thread.__enter__()
    piece.__enter__()
    thread.__exit__(None, None, None)
    assert not gc.isenabled()
    with collector.resting():
        pass
    assert not gc.isenabled()
    piece.__exit__(None, None, None)
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
