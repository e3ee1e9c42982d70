"""CRC-32C: its value, and what a starting broker does not pay for it."""

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from odradek.records.checksum import crc32c, crc32c_of_changed


def test_the_check_value_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720, appendix B.4
    assert crc32c(memoryview(b"x123456789")[1:]) == 0xE3069283


def test_the_package_is_not_imported_only_its_extension() -> None:
    """Its `__init__` reads distribution metadata, which takes longer than all our modules of records together."""
    program = "import sys; import odradek.records.checksum; sys.exit('crc32c' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@given(
    heads=st.integers(0, 60).flatmap(lambda size: st.tuples(*2 * [st.binary(min_size=size, max_size=size)])),
    behind=st.binary(max_size=100) | st.sampled_from([bytes(1 << 16), b"x" * (1 << 16), b"y" * 200_001]),
)
def test_the_checksum_of_another_head_needs_only_the_length_of_what_is_behind(
    heads: tuple[bytes, bytes], behind: bytes
) -> None:
    before, after = heads

    assert crc32c_of_changed(crc32c(before + behind), before, after, len(behind)) == crc32c(after + behind)
