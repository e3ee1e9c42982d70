"""Whether a connection to an object store broke under a request that may have been done, by what delta-rs says of it."""

import pytest

from odradek.spark.object_store import TIMEOUT_VARIABLE, _is_broken

# As object_store writes it: tries, the time that all of them took, and how the last one ended.
SAID = (
    "Error performing PUT http://127.0.0.1:9/bucket/t/_delta_log/00000000000000000007.json in {took}, after {retries} retries, "
    "max_retries: 100000, retry_timeout: 90s - HTTP error: error sending request: {why}"
)


@pytest.mark.parametrize(
    ("took", "is_broken"),
    [
        ("812ns", True),
        ("250.7µs", True),
        ("99.5ms", True),  # a number above 90, of another unit
        ("89.999s", True),
        ("90s", False),
        ("90.000000001s", False),
        ("120.5s", False),
    ],
)
def test_what_broke_before_the_time_for_trying_was_over_was_not_tried_again(
    took: str, is_broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TIMEOUT_VARIABLE, raising=False)  # 30 s, and three times that for trying

    assert _is_broken(SAID.format(took=took, retries=0, why="connection reset by peer")) is is_broken
    assert not _is_broken(SAID.format(took=took, retries=0, why="tcp connect error"))


def test_the_time_for_trying_follows_from_that_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIMEOUT_VARIABLE, "0.5")

    assert _is_broken(SAID.format(took="1.4s", retries=0, why="broken pipe"))
    assert not _is_broken(SAID.format(took="1.5s", retries=7, why="broken pipe"))


@pytest.mark.parametrize(
    "why", ["Connection reset by peer (os error 104)", "connection aborted", "Broken pipe", "unexpected EOF"]
)
def test_without_a_time_it_is_the_word_that_counts(why: str) -> None:
    """Of an upload delta-rs tells no time."""
    assert _is_broken(f"Generic S3 error: {why}")
    assert not _is_broken("Generic S3 error: tcp connect error")
