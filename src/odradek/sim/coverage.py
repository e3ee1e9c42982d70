"""Which statements of the rooms that decide are never reached by seeds, and which functions are never entered.

Every function of these rooms gets other code for the time being: its own, with a mark before each statement. A mark costs a few
dozen nanoseconds, so that seeds run at nearly their usual speed, and as they do without.
"""

import ast
import dis
import gc
import importlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

import odradek
from odradek.sim.not_entered import reason

ROOMS = ("replication", "log", "broker", "server", "store/embedded")
ROOT = Path(odradek.__file__).parent
# Of the statements that worlds are to reach, where rules decide what is lost.
LEAST_SHARE = {"replication": 0.9, "log": 0.9}
MARKS = "__reached__"  # of a module: a byte for every statement of its functions

# File, first line, name. A mutated function has other code, and a module may be compiled anew.
Key = tuple[str, int, str]
Seen = dict[str, bytes]  # file -> its marks


class Function(NamedTuple):
    statements: tuple[int, ...]  # their marks, the first of its own first
    code: CodeType


class Module(NamedTuple):
    marks: int
    functions: Mapping[Key, Function]


@cache
def modules() -> dict[str, Module]:
    """Read from the files once in a process."""
    return {str(path): _marked(path) for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))}


def all_objects() -> list[object]:
    """Of this process, those that are frozen (`gc.freeze`) as well."""
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    found = gc.get_objects()
    if frozen:
        gc.freeze()
    return found


@contextmanager
def watched() -> Iterator[dict[str, bytearray]]:
    """What is reached in the meantime: file -> its marks."""
    found: dict[str, bytearray] = {}
    codes: dict[Key, CodeType] = {}
    for file, module in modules().items():
        if not file.endswith("__main__.py"):
            marks = found[file] = bytearray(module.marks)
            try:
                imported = importlib.import_module(_module_name(file))
            except ModuleNotFoundError as missing:
                if str(missing.name).startswith("odradek"):
                    raise
                continue  # a library of an extra: nothing there is ever entered
            setattr(imported, MARKS, marks)
            codes.update((key, function.code) for key, function in module.functions.items())
    before: list[tuple[FunctionType, CodeType]] = []
    for function in all_objects():
        if type(function) is FunctionType:
            own = function.__code__
            code = codes.get(_key(own))
            if code is not None and code.co_freevars == own.co_freevars:
                before.append((function, own))
                function.__code__ = code
    try:
        yield found
    finally:
        for function, own in before:
            function.__code__ = own


def merged(parts: Iterable[Mapping[str, bytes | bytearray]]) -> Seen:
    """Of several processes: what any of them has reached."""
    whole: Seen = {}
    for part in parts:
        for file, marks in part.items():
            before = whole.get(file, bytes(len(marks)))
            whole[file] = bytes(a | b for a, b in zip(before, marks, strict=True))
    return whole


def never_entered(seen: Mapping[str, bytes | bytearray]) -> list[Key]:
    return [
        key
        for file, module in modules().items()
        for key, function in module.functions.items()
        if not any(seen[file][mark] for mark in function.statements if file in seen)
    ]


def without_reason(seen: Mapping[str, bytes | bytearray]) -> list[str]:
    return [
        f"never entered: {shown(key)[0]}:{key[1]} {key[2]}"
        for key in never_entered(seen)
        if reason(*shown(key)) is None
    ]


def entered_with_reason(seen: Mapping[str, bytes | bytearray]) -> list[str]:
    """A reason that is not true any more."""
    never = set(never_entered(seen))
    return [
        f"entered, and has a reason not to be: {shown(key)[0]}:{key[1]} {key[2]}"
        for module in modules().values()
        for key in module.functions
        if reason(*shown(key)) is not None and key not in never
    ]


def too_little(seen: Mapping[str, bytes | bytearray]) -> list[str]:
    return [
        f"too little is reached: {room}, of what worlds are to reach {least:.0%} at least"
        for room, least in LEAST_SHARE.items()
        if (counts := _counts(seen, room))["reached_wanted"] < least * counts["wanted"]
    ]


def _counts(seen: Mapping[str, bytes | bytearray], room: str) -> Counter[str]:
    """Of statements; `wanted`: those of functions that have no reason not to be entered."""
    counts: Counter[str] = Counter()
    for file, module in modules().items():
        if file.startswith(f"{ROOT / room}/"):
            for key, function in module.functions.items():
                reached = sum(seen[file][mark] for mark in function.statements) if file in seen else 0
                is_to_be = reason(*shown(key)) is None
                counts.update(
                    all=len(function.statements),
                    reached=reached,
                    wanted=len(function.statements) * is_to_be,
                    reached_wanted=reached * is_to_be,
                )
    return counts


def table(seen: Mapping[str, bytes | bytearray]) -> Iterator[str]:
    for room in ROOMS:
        counts = _counts(seen, room)
        yield (
            f"{room:16} {_percent(counts['reached'], counts['all'])} of {counts['all']} statements in functions, "
            f"{_percent(counts['reached_wanted'], counts['wanted'])} of the {counts['wanted']} that worlds are to reach"
        )
    reasons = Counter(reason(*shown(key)) for key in never_entered(seen))
    for why, count in sorted((why, count) for why, count in reasons.items() if why):
        yield f"{count:4} functions never entered: {why}"
    yield from without_reason(seen)
    yield from entered_with_reason(seen)
    yield from too_little(seen)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(whole, 1):5.1f} %"


def shown(key: Key) -> tuple[str, str]:
    """The file as the table of reasons names it, and the function."""
    return Path(key[0]).relative_to(ROOT).as_posix(), key[2]


def _key(code: CodeType) -> Key:
    return code.co_filename, code.co_firstlineno, code.co_qualname


def _module_name(file: str) -> str:
    path = Path(file).relative_to(ROOT.parent).with_suffix("")
    parts = path.parts[:-1] if path.name == "__init__" else path.parts
    return ".".join(parts)


# --- marks in the code


def _marked(path: Path) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    marker = _Marker()
    marker.visit(tree)
    functions = {
        _key(code): Function(tuple(sorted(_marks_of(code))), code)
        for code in _functions(compile(tree, str(path), "exec", dont_inherit=True))
    }
    return Module(marker.count, {key: found for key, found in functions.items() if found.statements})


class _Marker(ast.NodeTransformer):
    """Puts `__reached__[n] = 1` before each statement within functions."""

    def __init__(self) -> None:
        self.count = 0
        self._depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._visit_function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        depth, self._depth = self._depth, 0
        self.generic_visit(node)
        self._depth = depth
        return node

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        self._depth += 1
        node.body = self._with_marks(node.body)
        self._depth -= 1
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if self._depth:
            for name in ("body", "orelse", "finalbody"):
                statements = getattr(node, name, None)
                if isinstance(statements, list) and statements:
                    setattr(node, name, self._with_marks(statements))
            for name in ("handlers", "cases"):
                for below in getattr(node, name, ()):
                    self.generic_visit(below)
            return node
        return super().generic_visit(node)

    def _with_marks(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for statement in statements:
            if isinstance(statement, ast.Global | ast.Nonlocal) or _is_ellipsis(statement):
                found.append(statement)
                continue
            mark = _mark(self.count, statement)
            self.count += 1
            is_docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            visited = self.visit(statement)
            found += [visited, mark] if is_docstring else [mark, visited]
        return found


def _mark(number: int, statement: ast.stmt) -> ast.stmt:
    """`__reached__[number] = 1`, where `statement` stands: a line that fails is named as without it."""
    place = {name: getattr(statement, name) for name in statement._attributes}
    marks, index = ast.Name(MARKS, ast.Load(), **place), ast.Constant(number, **place)
    target = ast.Subscript(marks, index, ast.Store(), **place)
    return ast.Assign([target], ast.Constant(1, **place), **place)


def _is_ellipsis(statement: ast.stmt) -> bool:
    """The body of an overload, or of what a protocol asks for: nobody is to enter it."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and statement.value.value is Ellipsis
    )


_LOADS_NUMBER = ("LOAD_CONST", "LOAD_SMALL_INT")  # the latter from Python 3.14 on


def _marks_of(code: CodeType) -> Iterator[int]:
    """Of the function itself: functions in it have their own."""
    instructions = [i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"]
    for name, mark, store in zip(instructions, instructions[1:], instructions[2:], strict=False):
        if name.argval == MARKS and mark.opname in _LOADS_NUMBER and store.opname == "STORE_SUBSCR":
            yield mark.argval


def _functions(code: CodeType) -> Iterator[CodeType]:
    """Those written with a name; comprehensions count for whoever they stand in, class bodies for nobody."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & 0x2 and not constant.co_name.startswith(
                "<"
            ):  # CO_NEWLOCALS: no class body
                yield constant
            yield from _functions(constant)
