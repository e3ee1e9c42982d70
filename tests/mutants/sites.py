"""Where a source file can be changed, and into what: from its syntax tree, one small change a site.

The operators are the usual ones of mutation testing (Offutt et al., "sufficient operators", 1996): relations, logic,
arithmetic, constants, conditions, and statements left out.
"""

import ast
from typing import NamedTuple

# Changes of text that a person reads, or of what only a debugger sees, prove nothing; nor do those of a method that only says
# that whoever derives from its class has to have one (`_is_abstract`).
SKIPPED_FUNCTIONS = frozenset({"__repr__", "__str__", "describe"})

RELATIONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}


class Change(NamedTuple):
    """A site without its line, which would not outlive the next edit of the file; `old` and `new` as in one line."""

    path: str
    function: str
    operator: str
    old: str
    new: str


class Site(NamedTuple):
    """One change. `start` and `end` are offsets in the file's UTF-8 bytes; `old` stands there, `new` replaces it."""

    path: str  # relative to src/odradek
    function: str
    line: int
    operator: str
    start: int
    end: int
    old: str
    new: str

    @property
    def change(self) -> Change:
        return Change(
            self.path, self.function, self.operator, " ".join(self.old.split()), " ".join(self.new.split())
        )

    @property
    def name(self) -> str:
        """Its own: verdicts are kept by it. A line may have the same change twice, at other bytes of the file."""
        what = f"{_short(self.old)} -> {_short(self.new)}"
        return f"{self.path}:{self.line} {self.function}: {self.operator}: {what} @{self.start}"


def _short(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= 70 else joined[:67] + "..."


def sites_of(path: str, source: str) -> list[Site]:
    """All sites of one file, in the order of its text."""
    found = _Walk(path, source.encode())
    found.visit(ast.parse(source))
    return sorted(found.sites, key=lambda site: (site.start, site.end, site.operator, site.new))


def changed(source: str, site: Site) -> str:
    """The file with this one change. The rest keeps its lines, so that a trace names the right ones."""
    data = source.encode()
    assert data[site.start : site.end].decode() == site.old, f"{site.name}: the text is another one"
    return (data[: site.start] + site.new.encode() + data[site.end :]).decode()


class _Walk(ast.NodeVisitor):
    """Statements and expressions inside functions; annotations, decorators, defaults and docstrings stay."""

    def __init__(self, path: str, source: bytes) -> None:
        self.path = path
        self.source = source
        self.sites: list[Site] = []
        self._names: list[str] = []
        self._line_starts = [0]
        for line in source.splitlines(keepends=True):
            self._line_starts.append(self._line_starts[-1] + len(line))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._names.append(node.name)
        for inner in node.body:
            if isinstance(inner, ast.FunctionDef | ast.ClassDef):
                self.visit(inner)
        self._names.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in SKIPPED_FUNCTIONS or _is_abstract(node):
            return
        self._names.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self._names.pop()

    def visit_If(self, node: ast.If) -> None:
        if self._names and not _is_typing_only(node.test):
            self._change(node.test, "condition negated", f"not ({self._text(node.test)})")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._change(node.test, "loop left out", "False")
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        return  # what we rule out is no behaviour

    def visit_Raise(self, node: ast.Raise) -> None:
        self._change(node, "error not raised", "pass")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node.value, ast.Call):
            self._change(node, "call left out", "pass")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._change(node, "assignment left out", "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._change(node, "assignment left out", "pass")
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._change(node, "deletion left out", "pass")

    def visit_Break(self, node: ast.Break) -> None:
        self._change(node, "break to continue", "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._change(node, "continue left out", "pass")

    def visit_Compare(self, node: ast.Compare) -> None:
        for index, relation in enumerate(node.ops):
            other = RELATIONS[type(relation)]
            operators = [*node.ops[:index], other(), *node.ops[index + 1 :]]
            self._rewrite(node, "relation", ast.Compare(node.left, operators, node.comparators))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._rewrite(node, "logic", ast.BoolOp(other, node.values))
        for index in range(len(node.values)):
            left = [*node.values[:index], *node.values[index + 1 :]]
            self._rewrite(node, "term left out", ast.BoolOp(node.op, left) if len(left) > 1 else left[0])
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._rewrite(node, "not left out", node.operand)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        other = ARITHMETIC.get(type(node.op))
        is_text = any(
            isinstance(side, ast.Constant | ast.JoinedStr) and not _is_number(side)
            for side in (node.left, node.right)
        )
        if other is not None and not is_text:
            self._rewrite(node, "arithmetic", ast.BinOp(node.left, other(), node.right))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._change(node, "constant", str(not node.value))
        elif _is_number(node):
            self._change(node, "constant", repr(node.value + 1))  # type: ignore[operator]

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
            self._change(node.func, "function", FUNCTIONS[node.func.id])
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        return  # a sentence

    def _rewrite(self, node: ast.expr, operator: str, into: ast.expr) -> None:
        # In brackets: the tree was a part of a larger expression.
        self._change(node, operator, f"({ast.unparse(into)})")

    def _change(self, node: ast.expr | ast.stmt, operator: str, new: str) -> None:
        if not self._names:
            return
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._line_starts[node.lineno - 1] + node.col_offset
        end = self._line_starts[node.end_lineno - 1] + node.end_col_offset
        old = self.source[start:end].decode()
        self.sites.append(Site(self.path, ".".join(self._names), node.lineno, operator, start, end, old, new))

    def _text(self, node: ast.expr) -> str:
        return ast.unparse(node)


def _is_abstract(node: ast.FunctionDef) -> bool:
    """Nothing but `raise NotImplementedError`, perhaps behind a docstring."""
    return ast.unparse(node.body[-1]) == "raise NotImplementedError" and all(
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        for statement in node.body[:-1]
    )


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _is_typing_only(test: ast.expr) -> bool:
    return ast.unparse(test) == "TYPE_CHECKING"
