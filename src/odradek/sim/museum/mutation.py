"""One line of a production function, changed while a `with` lasts.

The function keeps its identity and gets other code, so whoever imported it by name runs the changed line too. The line
that is changed must occur exactly once in the source: when the production code moves on, an exhibit fails loudly
instead of changing nothing.
"""

import inspect
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FunctionType
from typing import Any, NamedTuple


class Change(NamedTuple):
    owner: Any  # a module or a class
    function: str
    line: str  # a part of the source that occurs once
    instead: str


class Outdated(Exception):
    """The line to be changed is not (or not once) in the production code any more."""


@contextmanager
def applied(changes: Sequence[Change]) -> Iterator[None]:
    """Inside, the functions run with their changed lines."""
    sources: dict[FunctionType, str] = {}
    for change in changes:
        function = _function(change)
        source = sources.get(function) or textwrap.dedent(inspect.getsource(function))
        if source.count(change.line) != 1:
            raise Outdated(f"{source.count(change.line)} times in {function.__qualname__}: {change.line}")
        sources[function] = source.replace(change.line, change.instead)
    before = [(function, function.__code__) for function in sources]
    after = [(function, _code(function, source)) for function, source in sources.items()]
    try:
        for function, code in after:
            function.__code__ = code
        yield
    finally:
        for function, code in before:
            function.__code__ = code


def _function(change: Change) -> FunctionType:
    found = inspect.getattr_static(change.owner, change.function, None)
    if isinstance(found, property):
        found = found.fget
    found = getattr(found, "__func__", found)
    if not isinstance(found, FunctionType):
        raise Outdated(f"{change.owner.__name__}.{change.function} is no function")
    return found


def _code(function: FunctionType, source: str) -> CodeType:
    module = compile(source, f"<changed {function.__qualname__}>", "exec", dont_inherit=True)
    return next(
        c for c in module.co_consts if isinstance(c, CodeType) and c.co_name == function.__code__.co_name
    )
