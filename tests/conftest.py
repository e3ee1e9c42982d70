"""Markers every room may use."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "behaviour(*rows): ticks off these numbered behaviours of the specification; "
        "docs/behaviours.md is written from it",
    )
