"""A test module that imports `both_ways` runs with what numba compiles and without; without numba, the first is skipped.

A test of many drawn examples takes `@drawn_once` and goes through the `WAYS` itself: to draw them, and to find slowly what is
right, costs as much as to try them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

from odradek.spark import compiled

WAYS = ("numpy", "compiled") if find_spec("numba") else ("numpy",)
drawn_once = pytest.mark.parametrize("both_ways", [None], ids=["each"], indirect=True)


@contextmanager
def going(way: str) -> Iterator[None]:
    if way == "compiled":
        compiled.load()
        assert compiled.kernels() is not None
    with pytest.MonkeyPatch.context() as patch:
        if way == "numpy":
            patch.setattr(compiled, "_kernels", None)
            patch.setattr(compiled, "_left", compiled.WORTH_RECORDS << 20)
        yield


@pytest.fixture(params=["numpy", "compiled"], autouse=True, scope="module")
def both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param is None:
        yield
        return
    if request.param not in WAYS:
        pytest.skip("without numba")
    with going(request.param):
        yield
