"""CRC-32C: its value, and what a starting broker does not pay for it."""

import subprocess
import sys

from odradek.records.checksum import crc32c


def test_the_check_value_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720, appendix B.4
    assert crc32c(memoryview(b"x123456789")[1:]) == 0xE3069283


def test_the_package_is_not_imported_only_its_extension() -> None:
    """Its `__init__` reads distribution metadata, which takes longer than all our modules of records together."""
    program = "import sys; import odradek.records.checksum; sys.exit('crc32c' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
