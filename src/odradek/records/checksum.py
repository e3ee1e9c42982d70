"""CRC-32C of any bytes-like, without a copy: `crc32c(buffer) -> int`.

The function is the C one of the package `crc32c` (hardware instructions where there are any). The package's
own `__init__` reads distribution metadata, which costs a starting broker 50 ms, so its extension module is
loaded beside it; whatever goes wrong there, the plain import does the same work.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Any

Crc32c = Callable[..., int]


def _load() -> Crc32c:
    package = PathFinder.find_spec("crc32c")
    if package is not None and package.submodule_search_locations:
        spec = PathFinder.find_spec("crc32c._crc32c", list(package.submodule_search_locations))
        if spec is not None and spec.loader is not None:
            module: Any = module_from_spec(spec)
            spec.loader.exec_module(module)
            if module.crc32c(b"123456789") == 0xE3069283:  # check value of CRC-32C (RFC 3720, B.4)
                return module.crc32c  # type: ignore[no-any-return]
    from crc32c import crc32c as slowly_imported

    return slowly_imported


crc32c: Crc32c = _load()

_ZEROS = bytes(1 << 16)


def crc32c_of_changed(crc: int, before: bytes, after: bytes, behind_bytes: int) -> int:
    """The checksum of `after` and what stands behind it, where `crc` is that of `before` and the same bytes behind.

    These are not looked at. A CRC is linear: what two heads of the same length differ in goes through as many zeros as
    there are bytes behind, whatever those bytes are.
    """
    assert len(before) == len(after), "bytes behind it would be elsewhere"
    changed, unchanged = crc32c(before) ^ crc32c(after), 0
    while behind_bytes:
        zeros = memoryview(_ZEROS)[:behind_bytes]
        changed, unchanged = crc32c(zeros, changed), crc32c(zeros, unchanged)
        behind_bytes -= len(zeros)
    return crc ^ changed ^ unchanged
