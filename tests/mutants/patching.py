"""One mutation put into the running process: the code of its function is replaced in place.

For a child made by `fork` after everything is imported: no start of Python, no import, no collection for each mutant.
"""

import gc
import importlib
import sys
from collections.abc import Iterator
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FunctionType

import odradek
from tests.mutants.sites import Site, changed

PACKAGE = Path(odradek.__file__).parent


class CannotPatch(Exception):
    """Only a process that imports the changed file will show it; the message says why."""


def functions_of(path: Path) -> dict[tuple[str, int], list[FunctionType]]:
    """(qualified name, first line) -> the live functions of that text, of one file."""
    found: dict[tuple[str, int], list[FunctionType]] = {}
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename == str(path):
            found.setdefault((each.__code__.co_qualname, each.__code__.co_firstlineno), []).append(each)
    return found


def outer_code(path: Path, source: str, line: int) -> CodeType:
    """Of the function around this line that is inside no other."""
    around = [code for code in _functions(compile(source, str(path), "exec")) if line in _lines(code)]
    if len(around) != 1:
        raise CannotPatch(f"{len(around)} functions hold {path.name}:{line}")
    return around[0]


def key_of(site: Site) -> str:
    """`path:first line` of the outermost function, as `tests.mutants.reached` names it."""
    path = PACKAGE / site.path
    return f"{site.path}:{outer_code(path, path.read_text(encoding='utf-8'), site.line).co_firstlineno}"


def patch(site: Site) -> None:
    path = PACKAGE / site.path
    source = path.read_text(encoding="utf-8")
    before = outer_code(path, source, site.line)
    after = {
        (code.co_qualname, code.co_firstlineno): code
        for code in _functions(compile(changed(source, site), str(path), "exec"))
    }[before.co_qualname, before.co_firstlineno]
    if before.co_freevars != after.co_freevars:
        raise CannotPatch("another set of variables of the function around it")
    name = "odradek." + site.path.removesuffix(".py").replace("/", ".")
    if name not in sys.modules:
        importlib.import_module(name.removesuffix(".__init__"))
    alive = functions_of(path).get((before.co_qualname, before.co_firstlineno), [])
    if not alive:
        raise CannotPatch("nobody holds the function")
    for function in alive:
        function.__code__ = after


def _functions(code: CodeType) -> Iterator[CodeType]:
    """Those of a module and of its classes."""
    for constant in code.co_consts:
        if not isinstance(constant, CodeType):
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
