"""What a broker imports until it serves, imported by whoever forks brokers: once for all of them."""

import contextlib
import gc
from importlib import import_module

from odradek.server.warm_up import warm_up

_MODULES = (
    "odradek.server.main",
    "odradek.server.broker_runtime",
    "odradek.server.environment",
    "odradek.store.embedded",
)


def preload() -> None:
    gc.disable()  # it would look at ever more modules, and find that all of them stay
    try:
        for name in _MODULES:
            import_module(name)
        with contextlib.suppress(ImportError):  # an extra
            import_module("odradek.server.uv_loop")
        # Too early for one broker; for several at once it keeps them from competing for the processor as they start.
        warm_up()
    finally:
        gc.enable()
