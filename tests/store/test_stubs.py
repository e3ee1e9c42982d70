"""Each name of our stubs of kazoo is there in kazoo: some are not its interface, and may go with a release."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

client = pytest.importorskip("kazoo.client")

STUBS = Path(__file__).parents[2] / "stubs"


def stubbed() -> Iterator[tuple[str, str, set[str]]]:
    """Module, class (none: of the module itself), the names that the stub gives it."""
    for path in sorted(STUBS.rglob("*.pyi")):
        module = ".".join(path.relative_to(STUBS).with_suffix("").parts).removesuffix(".__init__")
        body = ast.parse(path.read_text(encoding="utf-8")).body
        yield module, "", names(body)
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield module, node.name, names(node.body)


def names(body: list[ast.stmt]) -> set[str]:
    fields = {
        node.target.id
        for node in body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    return fields | {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def test_what_the_stubs_say_is_there() -> None:
    made = client.KazooClient()
    instances = {
        type(one).__name__: one for one in (made, made._connection, made.handler, made.handler.async_result())
    }
    found = list(stubbed())
    missing = []
    for module, name, expected in found:
        there = importlib.import_module(module)
        holder = instances.get(name, getattr(there, name, None)) if name else there
        missing += [f"{module}.{name}.{each}" for each in sorted(expected) if not hasattr(holder, each)]

    assert missing == []
    assert {"KazooClient", "ConnectionHandler", "AsyncResult", "SequentialThreadingHandler", "EventType"} <= {
        name for _, name, _ in found
    }
