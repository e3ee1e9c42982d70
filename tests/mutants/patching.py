"""Mutations put into the running process: the code of their functions is replaced in place.

A function keeps its identity and gets other code, so whoever imported it by name runs the changed one too. For good in a child
made by `fork` after everything is imported (no start of Python, no import, no collection for each mutant), or while a `with`
lasts.
"""

import importlib
import inspect
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from odradek.sim.coverage import all_objects
from tests.mutants.edit import PACKAGE, Edit, site_of
from tests.mutants.sites import Site, changed


class CannotPatch(Exception):
    """Only a process that imports the changed file will show it; the message says why."""


def functions_of(path: Path) -> dict[tuple[str, int], list[FunctionType]]:
    """(qualified name, first line) -> the live functions of that text, of one file."""
    found: dict[tuple[str, int], list[FunctionType]] = {}
    for each in all_objects():
        if type(each) is FunctionType and each.__code__.co_filename == str(path):
            found.setdefault((each.__code__.co_qualname, each.__code__.co_firstlineno), []).append(each)
    return found


def outer_code(path: Path, source: str, line: int) -> CodeType:
    """Of the function around this line that is inside no other."""
    around = [code for code in _compiled(path, source) if line in _lines(code)]
    if len(around) != 1:
        raise CannotPatch(f"{len(around)} functions hold {path.name}:{line}")
    return around[0]


def key_of(site: Site) -> str:
    """`path:first line` of the outermost function, as `tests.mutants.reached` names it."""
    path = PACKAGE / site.path
    return f"{site.path}:{outer_code(path, path.read_text(encoding='utf-8'), site.line).co_firstlineno}"


def patch(site: Site) -> None:
    _put_in([site])


@contextmanager
def applied(edits: Iterable[Edit]) -> Iterator[None]:
    """Inside, the functions run with these changes. Raises Outdated."""
    before: list[tuple[FunctionType, CodeType]] = []
    try:
        by_path: dict[str, list[Site]] = {}
        for edit in edits:
            by_path.setdefault(edit.path, []).append(site_of(edit))
        for sites in by_path.values():
            before += _put_in(sites)
        yield
    finally:
        for function, code in before:
            function.__code__ = code


def _put_in(sites: Sequence[Site]) -> list[tuple[FunctionType, CodeType]]:
    """Several sites of one file at once. The functions that were changed, each with the code it had."""
    path = PACKAGE / sites[0].path
    source = path.read_text(encoding="utf-8")
    text = source
    for site in sorted(sites, key=lambda site: site.start, reverse=True):
        text = changed(text, site)
    before, after = _compiled(path, source), _compiled(path, text)
    name = "odradek." + sites[0].path.removesuffix(".py").replace("/", ".")
    module = importlib.import_module(name.removesuffix(".__init__"))
    replaced = []
    for place in sorted({before.index(outer_code(path, source, site.line)) for site in sites}):
        old, new = before[place], after[place]
        if old.co_qualname != new.co_qualname or old.co_freevars != new.co_freevars:
            raise CannotPatch("another set of variables of the function around it")
        for function in _alive(module, path, old):
            replaced.append((function, function.__code__))
            function.__code__ = new
    return replaced


def _alive(module: ModuleType, path: Path, code: CodeType) -> list[FunctionType]:
    """Whoever holds this code: what the module calls so, or what the collector knows of."""
    found: object = module
    for name in code.co_qualname.split("."):
        found = vars(found).get(name) if hasattr(found, "__dict__") else None
    if isinstance(found, classmethod | staticmethod):
        found = found.__func__
    found = inspect.unwrap(found) if callable(found) else found
    if isinstance(found, FunctionType) and found.__code__.co_filename == str(path):
        return [found]
    alive = functions_of(path).get((code.co_qualname, code.co_firstlineno), [])
    if not alive:
        raise CannotPatch("nobody holds the function")
    return alive


@lru_cache(maxsize=64)
def _compiled(path: Path, source: str) -> list[CodeType]:
    return list(_functions(compile(source, str(path), "exec")))


def _functions(code: CodeType) -> Iterator[CodeType]:
    """Those of a module and of its classes."""
    for constant in code.co_consts:
        # From Python 3.14 on annotations are made by a function, whose lines are those of what they annotate.
        if not isinstance(constant, CodeType) or constant.co_name == "__annotate__":
            continue
        if constant.co_flags & CO_OPTIMIZED:
            yield constant
        else:
            yield from _functions(constant)


def _lines(code: CodeType) -> range:
    """Of the text, as far as it holds code, with that of what is defined inside."""
    last = code.co_firstlineno
    stack = [code]
    while stack:
        one = stack.pop()
        last = max([last, *(line for _, _, line in one.co_lines() if line is not None)])
        stack += [constant for constant in one.co_consts if isinstance(constant, CodeType)]
    return range(code.co_firstlineno, last + 1)
