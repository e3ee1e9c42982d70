"""By this name pytest finds the fixtures of `odradek.testing.pytest_plugin`.

A package of its own: pytest rewrites the assertions of the package in which a plugin is, and brokers are to run here as they do
elsewhere.
"""

from odradek.testing.pytest_plugin import (
    odradek_cluster,
    odradek_shared_cluster,
    odradek_topic,
    pytest_addoption,
    pytest_configure,
)

__all__ = [
    "odradek_cluster",
    "odradek_shared_cluster",
    "odradek_topic",
    "pytest_addoption",
    "pytest_configure",
]
