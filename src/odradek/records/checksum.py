"""CRC-32C of any bytes-like, without a copy: `crc32c(buffer) -> int`.

The function is the C one of the package `crc32c` (hardware instructions where there are any). The package's
own `__init__` reads distribution metadata, which costs a starting broker 50 ms, so its extension module is
loaded beside it; whatever goes wrong there, the plain import does the same work.
"""

from collections.abc import Callable
from functools import cache
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

Tables = tuple[list[int], ...]  # of what each of the four bytes becomes


def crc32c_of_changed(crc: int, before: bytes, after: bytes, behind_bytes: int) -> int:
    """The checksum of `after` and what stands behind it, where `crc` is that of `before` and the same bytes behind.

    These are not looked at. A CRC is linear: what two heads of the same length differ in goes through as many zeros as
    there are bytes behind, whatever those bytes are; through all of them in as many steps as their number has bits.
    """
    assert len(before) == len(after), "bytes behind it would be elsewhere"
    difference = crc32c(before) ^ crc32c(after)
    for power in range(behind_bytes.bit_length()):
        if behind_bytes >> power & 1:
            difference = _through(_zeros(power), difference)
    return crc ^ difference


@cache
def _zeros(power: int) -> Tables:
    """What 2 ** `power` bytes of zeros make of a difference."""
    bits = [1 << bit for bit in range(32)]
    if power:
        half = _zeros(power - 1)
        becomes = [_through(half, _through(half, bit)) for bit in bits]
    else:
        becomes = [crc32c(b"\0", bit) ^ crc32c(b"\0") for bit in bits]
    tables: Tables = ([0], [0], [0], [0])
    for bit, value in enumerate(becomes):
        tables[bit // 8].extend([value ^ other for other in tables[bit // 8]])
    return tables


def _through(tables: Tables, difference: int) -> int:
    first, second, third, fourth = tables
    return (
        first[difference & 0xFF]
        ^ second[difference >> 8 & 0xFF]
        ^ third[difference >> 16 & 0xFF]
        ^ fourth[difference >> 24]
    )
