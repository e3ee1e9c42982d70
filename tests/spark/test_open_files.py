"""Files that are read again and again: few of them are open at a time."""

from pathlib import Path

import pytest

from odradek.spark.open_files import OpenFiles


def test_the_file_that_was_read_longest_ago_is_closed_and_opened_again(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_text(path.name)
    a, b, c = paths

    with OpenFiles(most=2) as files:
        first, second = files.opened(a), files.opened(b)
        assert files.opened(a) is first
        third = files.opened(c)

        assert (first.closed, second.closed, third.closed) == (False, True, False)
        assert files.opened(b).read() == b"b"
        assert first.closed
        files.close(c)
        files.close(c)
        assert third.closed
        last = files.opened(b)

    assert last.closed


def test_a_file_that_is_not_there_is_none_of_them(tmp_path: Path) -> None:
    with OpenFiles(most=1) as files:
        with pytest.raises(FileNotFoundError):
            files.opened(tmp_path / "nothing")
        (tmp_path / "nothing").write_text("something")
        assert files.opened(tmp_path / "nothing").read() == b"something"
