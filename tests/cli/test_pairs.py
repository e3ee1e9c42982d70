"""Settings as they are typed."""

import pytest
from click import UsageError

from odradek.cli.pairs import named_values


def test_a_value_may_hold_what_separates_and_may_be_empty() -> None:
    found = named_values(("a=b=c", "d=", "a=b=c"), "--set ", "x=1")
    assert found == {"a": "b=c", "d": ""}


@pytest.mark.parametrize("pair", ["retention.ms", "=1", ""])
def test_what_is_no_pair_is_told_what_one_looks_like(pair: str) -> None:
    with pytest.raises(UsageError) as caught:
        named_values((pair,), "--config ", "retention.ms=1")
    assert caught.value.message == f"--config {pair}: expected NAME=VALUE, as in retention.ms=1"


def test_two_values_of_one_name_are_refused() -> None:
    with pytest.raises(UsageError) as caught:
        named_values(("x=1", "x=2"), "", "x=1")
    assert caught.value.message == "x is given twice, as 1 and as 2; say one of them"
