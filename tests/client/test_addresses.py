"""What needs no resolver."""

import pytest

from odradek.client.addresses import is_ip


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *(("127.0.0.1", True), ("::1", True), ("fe80::1%eth0", True)),  # the last one is of a link
        *(("localhost", False), ("10.0.0", False), ("broker%1", False), ("127.0.0.1\0", False), ("", False)),
    ],
)
def test_an_address_is_told_from_a_name(host: str, expected: bool) -> None:
    assert is_ip(host) is expected
