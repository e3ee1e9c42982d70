"""What a broker imports until it serves, imported by whoever forks brokers: once for all of them."""

import contextlib
from importlib import import_module

_MODULES = (
    "odradek.server.main",
    "odradek.server.broker_runtime",
    "odradek.server.seams",
    "odradek.store.embedded",
)


def preload() -> None:
    for name in _MODULES:
        import_module(name)
    with contextlib.suppress(ImportError):  # an extra
        import_module("uvloop")
