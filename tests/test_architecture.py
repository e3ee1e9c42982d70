"""The arrows of docs/README.md: who may import whom, read from the syntax tree."""

import ast
import gc
from collections.abc import Container, Iterator
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src" / "odradek"

# package -> packages of ours it may import (itself always). Imports point left and down only.
ALLOWED: dict[str, set[str]] = {
    "model": set(),
    "protocol": {"model"},
    "records": {"model", "protocol"},
    "log": {"model", "protocol", "records"},
    "replication": {"model", "protocol", "records", "log"},
    "coordinator": {"model", "protocol", "records"},
    "controller": {"model"},
    "advisor": {"model", "controller"},
    "pictures": {"model", "controller", "advisor"},
    "broker": {"model", "protocol", "records", "log", "replication", "coordinator"},
    "store": {"model"},
    "client": {"model", "protocol", "records"},
    "server": {
        "model", "protocol", "records", "log", "replication", "coordinator", "controller", "advisor", "broker",
        "store", "client",
    },
    "spark": {"model", "protocol", "records", "client"},
}  # fmt: skip
# These stand on top and may import everything below them.
TOP = {"cli", "web", "testing", "sim", "demo"}

FORBIDDEN_IN_PURE = {"asyncio", "logging", "time", "random", "os", "socket", "threading"}
PURE = {
    "model",
    "protocol",
    "records",
    "replication",
    "coordinator",
    "controller",
    "advisor",
    "pictures",
    "broker",
}
PURE_FILES = {"store/api.py", "store/layout.py", "store/memory.py"}
# Only this module may import the library.
SOLE_IMPORTERS = {"kazoo": {"store/zookeeper/link.py"}, "sqlite3": {"store/"}}


@cache
def modules() -> list[Path]:
    return sorted(SRC.rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    gc.freeze()  # it stays, and the collector has nothing to find in it
    return tree


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All of them, also inside functions and branches. What expressions consist of, nine nodes of ten, is passed over."""
    ahead: list[ast.AST] = [tree]
    while ahead:
        node = ahead.pop()
        yield node
        for within in ("body", "orelse", "finalbody", "handlers", "cases"):
            ahead += getattr(node, within, ())


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Every module named by an import anywhere in the file, also inside functions.

    `if TYPE_CHECKING:` blocks count too: an arrow that only types need is an arrow.
    """
    for node in statements(tree_of(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            assert node.module is not None
            yield node.lineno, node.module
            if node.module == "odradek":
                for alias in node.names:
                    if alias.name != "__version__":  # which stands in no room
                        yield node.lineno, f"odradek.{alias.name}"


def wrong_imports(name: str, found: list[tuple[int, str]]) -> list[str]:
    """The imports that the file `name` (relative to the package) may not have."""
    room = name.split("/")[0].removesuffix(".py")
    wrong = []
    for line, module in found:
        top, *rest = module.split(".")
        if top == "odradek" and rest and room not in TOP and room in ALLOWED:
            target = rest[0]
            if target != room and target not in ALLOWED[room]:
                wrong.append(f"{name}:{line}: {room} -> {target}")
        if (room in PURE or name in PURE_FILES) and top in FORBIDDEN_IN_PURE:
            wrong.append(f"{name}:{line}: a pure module imports {top}")
        if top in SOLE_IMPORTERS and not any(name.startswith(sole) for sole in SOLE_IMPORTERS[top]):
            wrong.append(f"{name}:{line}: only {sorted(SOLE_IMPORTERS[top])} may import {top}")
    return wrong


def test_imports_point_left_and_down() -> None:
    found = [
        wrong
        for path in modules()
        for wrong in wrong_imports(str(path.relative_to(SRC)), list(imports(path)))
    ]
    assert found == []


def test_every_package_has_its_place_among_the_arrows() -> None:
    packages = {p.parent.name for p in SRC.glob("*/__init__.py")}

    assert packages <= set(ALLOWED) | TOP


def test_only_files_py_opens_files_in_the_log() -> None:
    """`log/` reaches the disk through `files.Directory` alone; memory_files.py is the same interface in memory."""
    for path in sorted((SRC / "log").glob("*.py")):
        if path.name in {"files.py", "memory_files.py"}:
            continue
        tree = tree_of(path)
        opened = [
            n.lineno
            for n in ast.walk(tree)
            if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "open"
        ]

        assert opened == [], f"{path.name} opens a file"
        assert not {m.split(".")[0] for _, m in imports(path)} & {
            "os",
            "pathlib",
            "shutil",
            "asyncio",
            "time",
        }


def import_graph() -> dict[str, set[str]]:
    """Module -> modules of ours it imports; names without the package's."""
    known = {
        ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__"): path
        for path in modules()
    }
    return {name: imported(path, known) - {name} for name, path in known.items()}


def imported(path: Path, known: Container[str]) -> set[str]:
    """Which of these the file imports: a module, or the one that a name of it comes from."""
    found: set[str] = set()
    for node in statements(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            whole = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name.removeprefix("odradek.") in known else str(node.module) for name in whole}
    return {short for name in found if (short := name.removeprefix("odradek.")) in known}


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Sets of at least two modules that all reach each other."""
    found: list[set[str]] = []
    reachable = {name: _reach(graph, name) for name in graph}
    for name in sorted(graph):
        if not any(name in circle for circle in found):
            circle = {other for other in reachable[name] if name in reachable[other]}
            if len(circle) > 1:
                found.append(circle)
    return found


def _reach(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    ahead = [start]
    while ahead:
        for other in graph[ahead.pop()] - seen:
            seen.add(other)
            ahead.append(other)
    return seen


def test_files_do_not_import_each_other_in_circles() -> None:
    """Be it for a type or inside a function."""
    assert circles(import_graph()) == []


def test_a_circle_is_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == [{"b", "c"}]


def test_an_import_is_seen_wherever_it_stands() -> None:
    text = """
import a
if x:
    import b
else:
    def f():
        with y:
            import c
class C:
    def m(self):
        for z in y:
            import d
        else:
            import e
        while z:
            import f
try:
    import g
except E:
    import h
else:
    import i
finally:
    match x:
        case 1:
            import j
async def k():
    async with x:
        async for y in z:
            import k
try:
    pass
except* E:
    import l
"""
    names = {n.names[0].name for n in statements(ast.parse(text)) if isinstance(n, ast.Import)}
    assert names == {*"abcdefghijkl"}


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("controller/core.py", "odradek.protocol.headers"),
        ("model/ids.py", "odradek.store.api"),
        ("broker/core.py", "asyncio"),
        ("store/layout.py", "time"),
        ("store/embedded.py", "kazoo.client"),
        ("spark/source.py", "odradek.server.main"),
    ],
)
def test_a_wrong_arrow_is_seen(name: str, module: str) -> None:
    assert wrong_imports(name, [(1, module)]) != []


# What a partition may be at the next moment. Read before an `await` and used after it, it is what was.
PARTITION_STATE = {
    "is_leader", "leader_epoch", "partition_epoch", "high_watermark", "log_end_offset", "maximal_isr", "follower_readers",
}  # fmt: skip


def state_read_by_who_waits(tree: ast.Module) -> list[str]:
    return [
        f"{function.name}:{node.lineno}: {node.attr}"
        for function in ast.walk(tree)
        if isinstance(function, ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and node.attr in PARTITION_STATE
    ]


def test_who_waits_reads_no_state_of_a_partition() -> None:
    """A function that waits asks a plain one, which decides in one go: the mistake that asyncio invites (KAFKA-13254,
    9835 and 6517 were its like under threads) cannot be written."""
    found = {
        path.name: state_read_by_who_waits(tree_of(path)) for path in sorted((SRC / "server").glob("*.py"))
    }
    assert {name: read for name, read in found.items() if read} == {}


def test_state_of_a_partition_kept_over_an_await_is_seen() -> None:
    text = "async def f(self):\n    epoch = self.partition.leader_epoch\n    await self.flush()\n    self.answer(epoch)"
    assert state_read_by_who_waits(ast.parse(text)) == ["f:2: leader_epoch"]


NAMES_OF_THE_BROKERS = ("__consumer_offsets", "__transaction_state")


def names_written(tree: ast.Module) -> list[str]:
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in NAMES_OF_THE_BROKERS
    ]


def test_the_names_of_the_internal_topics_are_written_once() -> None:
    """Who may not import coordinators had a copy of its own."""
    mentioning = [
        path
        for path in modules()
        if any(name in path.read_text(encoding="utf-8") for name in NAMES_OF_THE_BROKERS)
    ]
    found = {path.relative_to(SRC).as_posix(): names_written(tree_of(path)) for path in mentioning}
    assert {name: names for name, names in found.items() if names} == {
        "model/topic_names.py": list(NAMES_OF_THE_BROKERS)
    }
