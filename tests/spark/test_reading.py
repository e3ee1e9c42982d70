"""What is kept between tasks, and for whom."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from odradek.spark import reading
from odradek.spark.options import ConnectionOptions
from odradek.spark.reading import client_for


def test_a_client_is_kept_for_the_thread_that_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that read at once would take each other's answers from one connection."""
    monkeypatch.setattr(reading, "_clients", {})
    options = ConnectionOptions("127.0.0.1:9")

    here = client_for(options)
    with ThreadPoolExecutor(1) as other:
        there = other.submit(client_for, options).result()
        again = other.submit(client_for, options).result()

    assert again is there
    assert there is not here
    assert client_for(options) is here
