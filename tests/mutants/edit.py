"""One chosen change of a production function, anchored to the function and to a part of its syntax tree.

    Edit("replication.partition:Partition.shrink_if_lagging", "self._advance_high_watermark(now_ms)", "pass")

`at` names the module below `odradek` and the function in it; a function that moves changes this one word. `old` is an
expression or a run of statements that occurs once in the function's body, `new` what stands there instead. `old` is compared
as a tree: layout, comments and quotes do not matter, `...` stands for any expression, for the rest of the arguments, or for a
whole body, and a local variable may have another name by now. Where both are a head without its body (`if leaving: ...`), the
condition alone is changed. A table is named like a function, one of its rows by the key:
`controller.partition_states:TRANSITIONS[ONLINE]`.

What is found is a `Site`, as a mutation drawn by a seed is: both are put in the same way (`patching`, `trial`).
"""

import ast
import gc
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import odradek
from tests.mutants.sites import Site

PACKAGE = Path(odradek.__file__).parent
CHOSEN = "chosen"
_IGNORED = frozenset({"ctx", "kind", "type_comment", "annotation", "returns"})
_ATOMS = (
    ast.Name,
    ast.Constant,
    ast.Attribute,
    ast.Call,
    ast.Subscript,
    ast.Tuple,
    ast.List,
    ast.Dict,
    ast.Set,
)


class Outdated(Exception):
    """What is to be changed is not (or not once) in the production code any more."""


class Edit(NamedTuple):
    at: str
    old: str
    new: str

    @property
    def path(self) -> str:
        """Of the file, below the package."""
        return self.at.partition(":")[0].replace(".", "/") + ".py"

    @property
    def function(self) -> str:
        return self.at.partition(":")[2]


def site_of(edit: Edit, package: Path = PACKAGE) -> Site:
    """Where the edit is made. Raises Outdated."""
    file = package / edit.path
    if not file.exists():
        raise Outdated(f"{edit.at}: there is no {edit.path}")
    return found_in(file.read_text(encoding="utf-8"), edit)


def found_in(source: str, edit: Edit) -> Site:
    """The same in a given text of the module."""
    anchors = list(_named(_tree(source).body, edit.function.split(".")))
    if not anchors:
        raise Outdated(f"{edit.at}: nothing of that name is in {edit.path}")
    bodies = [part for anchor in anchors for part in (anchor.body if _is_function(anchor) else [anchor])]
    old, new = _parsed(edit.old), _parsed(edit.new or "pass")
    if not (isinstance(old, ast.expr) and isinstance(new, ast.expr)):
        old = _as_statements(old)
    matches = list(_matches(bodies, old, {}, frozenset()))
    if not matches:
        missing = _names(_as_list(old)) - _names(bodies)
        matches = list(_matches(bodies, old, dict.fromkeys(missing, ""), _locals(anchors)))
    if len(matches) != 1:
        raise Outdated(f"{edit.at}: {len(matches)} times in it: {edit.old}")
    nodes, renamed = matches[0]
    head = _head(old, new)
    if head is not None:
        nodes, new = [getattr(nodes[0], head)], getattr(_as_list(new)[0], head)
    return _site(source, edit, nodes, _written(new, nodes, renamed))


@cache
def _tree(source: str) -> ast.Module:
    tree = ast.parse(source)
    gc.freeze()  # it stays: each collection, of which a simulated run ends with one, would pass over all its nodes
    return tree


def _named(body: Sequence[ast.AST], names: Sequence[str]) -> Iterator[Any]:
    """The functions (a property and its setter share a name), the assignment of this name, or one row of its table."""
    name, _, key = names[0].removesuffix("]").partition("[")
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name == names[0] and len(names) > 1:
            yield from _named(node.body, names[1:])
        elif _is_function(node) and names == [node.name]:
            yield node
        elif isinstance(node, ast.Assign | ast.AnnAssign) and len(names) == 1:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                yield _row(node.value, key) if key else node
        elif isinstance(node, ast.If | ast.Try):
            yield from _named([*node.body, *node.orelse], names)


def _row(table: Any, key: str) -> ast.expr:
    return next(
        value
        for k, value in zip(table.keys, table.values, strict=True)
        if k is not None and ast.unparse(k) == key
    )


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _parsed(text: str) -> ast.expr | list[ast.stmt]:
    text = textwrap.dedent(text).strip()
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        # `return` and `continue` are words of a function's body alone
        inside: Any = ast.parse("async def f():\n while True:\n" + textwrap.indent(text, "  ")).body[0]
        return list(inside.body[0].body)


def _as_statements(pattern: ast.expr | list[ast.stmt]) -> list[ast.stmt]:
    return [ast.Expr(pattern)] if isinstance(pattern, ast.expr) else pattern


Found = tuple[list[Any], dict[str, str]]  # the nodes, and the names of today for those of the pattern


def _matches(
    bodies: Sequence[ast.AST], old: ast.expr | list[ast.stmt], names: dict[str, str], free: frozenset[str]
) -> Iterator[Found]:
    """`names`: those of the pattern that are there no more, `free`: the local variables that may have taken their place."""
    if isinstance(old, ast.expr):
        for node in _walk(bodies):
            if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
                bound = dict(names)
                if _same(old, node, bound, free):
                    yield [node], bound
        return
    for statements in _blocks(bodies):
        for first in range(len(statements) - len(old) + 1):
            run = statements[first : first + len(old)]
            bound = dict(names)
            if _same(old, run, bound, free):
                yield run, bound


def _walk(bodies: Sequence[ast.AST]) -> Iterator[ast.AST]:
    for body in bodies:
        stack = [body]
        while stack:
            node = stack.pop()
            yield node
            # Python 3.11 does not know where in the text the parts of an f-string stand.
            if not isinstance(node, ast.JoinedStr):
                stack += ast.iter_child_nodes(node)


def _blocks(bodies: Sequence[ast.AST]) -> Iterator[list[Any]]:
    yield list(bodies)
    for node in _walk(bodies):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield block


def _same(old: Any, node: Any, names: dict[str, str], free: frozenset[str]) -> bool:
    """`names` is filled with what the pattern's names are called now."""
    if isinstance(old, ast.Constant) and old.value is ...:
        return isinstance(node, ast.expr)
    if isinstance(old, ast.Name) and old.id in names and isinstance(node, ast.Name):
        if not names[old.id] and node.id in free and node.id not in names.values():
            names[old.id] = node.id
        return names[old.id] == node.id
    if isinstance(old, list):
        return isinstance(node, list) and _same_list(old, node, names, free)
    if not isinstance(old, ast.AST):
        return type(old) is type(node) and bool(old == node)
    if type(old) is not type(node):
        return False
    if isinstance(old, ast.Call) and old.args and _is_rest(old.args[-1]) and not old.keywords:
        return _same(old.func, node.func, names, free) and _same(old.args, node.args, names, free)
    ignored = _IGNORED | {"orelse"} if _is_head(old) else _IGNORED
    return all(
        _same(getattr(old, field), getattr(node, field), names, free)
        for field in old._fields
        if field not in ignored
    )


def _same_list(old: list[Any], node: list[Any], names: dict[str, str], free: frozenset[str]) -> bool:
    if old and _is_rest(old[-1]):
        old, node = old[:-1], node[: len(old) - 1]
    return len(old) == len(node) and all(_same(a, b, names, free) for a, b in zip(old, node, strict=True))


def _is_rest(node: Any) -> bool:
    if isinstance(node, ast.Expr):
        node = node.value
    return isinstance(node, ast.Constant) and node.value is ...


def _names(nodes: Sequence[ast.AST]) -> frozenset[str]:
    return frozenset(node.id for node in _walk(nodes) if isinstance(node, ast.Name))


def _locals(functions: Sequence[ast.AST]) -> frozenset[str]:
    """Parameters and what is assigned."""
    parameters = {node.arg for node in _walk(functions) if isinstance(node, ast.arg)}
    stored = {n.id for n in _walk(functions) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return frozenset(parameters | stored)


def _as_list(pattern: ast.expr | list[ast.stmt]) -> list[Any]:
    return pattern if isinstance(pattern, list) else [pattern]


def _head(old: ast.expr | list[ast.stmt], new: ast.expr | list[ast.stmt]) -> str | None:
    """The part that differs, where both are the head of one compound statement and leave its body out."""
    one, other = _as_list(old)[0], _as_list(new)[0]
    if type(one) is not type(other) or not _is_head(other):
        return None
    return "iter" if isinstance(one, ast.For) else "test"


def _is_head(node: ast.AST) -> bool:
    """`if ready: ...`, whatever its body and its `else` are."""
    body = getattr(node, "body", None)
    return isinstance(body, list) and len(body) == 1 and _is_rest(body[0])


def _written(new: Any, nodes: Sequence[Any], renamed: dict[str, str]) -> str:
    """The text to be put in, indented as the place asks for."""
    renamed = {old: now for old, now in renamed.items() if now}
    if isinstance(nodes[0], ast.expr):
        text = ast.unparse(_Renamed(renamed).visit(new))
        return text if isinstance(new, _ATOMS) else f"({text})"
    text = "\n".join(ast.unparse(_Renamed(renamed).visit(node)) for node in _as_list(new))
    return textwrap.indent(text, " " * nodes[0].col_offset).lstrip()


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._new = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self._new.get(node.id, node.id), node.ctx)


def _site(source: str, edit: Edit, nodes: Sequence[Any], new: str) -> Site:
    lines = source.encode().splitlines(keepends=True)
    first, last = nodes[0], nodes[-1]
    start = sum(map(len, lines[: first.lineno - 1])) + first.col_offset
    end = sum(map(len, lines[: last.end_lineno - 1])) + last.end_col_offset
    old = source.encode()[start:end].decode()
    return Site(edit.path, edit.function, first.lineno, CHOSEN, start, end, old, new)
