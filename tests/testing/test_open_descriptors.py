"""The guard over descriptors that tests leave open can fail, and forgives what the collector takes."""

import os
from pathlib import Path

import pytest

from tests.open_descriptors import OpenDescriptors
from tests.support import no_collector, open_under


class Held:
    """A file that is closed when nobody holds this any more."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT)

    def __del__(self) -> None:
        os.close(self._descriptor)


class InACircle(Held):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.myself = self


def test_a_file_of_tests_that_leaves_descriptors_open_is_red_and_says_which(tmp_path: Path) -> None:
    guard = OpenDescriptors()
    guard.test_begins(Path("test_a.py"))
    held = [Held(tmp_path / f"{n}.log") for n in range(3)]
    guard.test_ended()
    guard.test_begins(Path("test_a.py"))
    with pytest.raises(
        pytest.fail.Exception, match=r"descriptors are left open: .*0\.log, .*1\.log, .*2\.log"
    ):
        guard.file_ended(2)
    guard.test_begins(Path("test_b.py"))
    guard.file_ended(2)  # none of its doing
    assert held


def test_what_goes_round_in_circles_is_closed_once_it_is_many(tmp_path: Path) -> None:
    with no_collector():
        guard = OpenDescriptors(most_garbage=5)
        guard.test_begins(Path("test_a.py"))
        for held in (4, 0, 4):
            for n in range(4):
                InACircle(tmp_path / f"{n}.log")
            guard.test_ended()
            assert len(open_under(tmp_path)) == held
        guard.file_ended(2)
        assert open_under(tmp_path) == []
