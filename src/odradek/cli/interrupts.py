"""Ctrl-C before a verb has begun.

What a signal's handler raises Python swallows in callbacks of weak references, and each import has one: the command would
go on as if nobody had stopped it. As long as only modules are imported nothing has to be ended in order, so the signal
ends the process itself. From then on it raises KeyboardInterrupt, as everywhere.
"""

import signal
from typing import Any

_put_off: list[Any] = []  # the handler that counts again once a verb has begun


def end_at_once() -> None:
    """Not where whoever started us ignores it, as `nohup` or a shell's `&` do."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        _put_off.append(signal.signal(signal.SIGINT, signal.SIG_DFL))


def unwind() -> None:
    """After `end_at_once`; where that did nothing, as in a program that calls a verb, nor does this."""
    while _put_off:
        signal.signal(signal.SIGINT, _put_off.pop())
