"""A test module that imports `both_ways` runs with what numba compiles and without; without numba, the first is skipped."""

from collections.abc import Iterator

import pytest

from odradek.spark import compiled


@pytest.fixture(params=["numpy", "compiled"], autouse=True, scope="module")
def both_ways(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "compiled":
        pytest.importorskip("numba")
        compiled.load()
        assert compiled.kernels() is not None
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "numpy":
            patch.setattr(compiled, "_kernels", None)
            patch.setattr(compiled, "_left", compiled.WORTH_RECORDS << 20)
        yield
