"""What a broker has in memory before its first bad moment."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import odradek

# Prints the modules that are there once a broker is warm, and then those that its requests may bring beside.
WARMED = """
import json, sys
import odradek.server.main, odradek.server.broker_runtime, odradek.server.environment, odradek.server.shutdown_refusal
import odradek.server.threads, odradek.store.embedded.session, odradek.store.zookeeper.session
from odradek.server.warm_up import warm_up

warm_up()
files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
from odradek.broker.handlers.table import HANDLERS
from odradek.protocol.compiler import flat_codec
from odradek.protocol.messages import request_class, response_class

for key, handler in HANDLERS.items():
    if isinstance(handler, str):
        __import__(f"odradek.broker.handlers.{handler}")
    for message_class in (request_class(key), response_class(key)):
        if message_class.IS_FLAT:
            flat_codec(message_class)
print(json.dumps([files, sorted(set(sys.modules) - set(files))]))
"""
SOURCES = Path(odradek.__file__).parents[1]
# What is imported within a function and not before, and when that is.
EXPLAINED = {
    "crc32c": "where its extension module cannot be loaded by itself, as the broker starts",
    "odradek.protocol.json_form": "by tools: no broker writes messages as JSON",
    "odradek.server.exporter.listener": "as the broker starts",
    "odradek.server.exporter.page": "as the broker starts",
    "odradek.server.exporter.seen": "as the broker starts",
    "odradek.server.uv_loop": "as the process starts",
    "odradek.store.zookeeper.last_session": "as the broker starts",
    "odradek.store.zookeeper.stores": "as the broker starts",
}


def test_a_warm_broker_reads_no_python_file_any_more() -> None:
    """One without a descriptor answered no AlterPartition and no ListGroups, if nobody had asked it before."""
    child = subprocess.run([sys.executable, "-c", WARMED], capture_output=True, text=True, check=True)
    at_hand, for_requests = json.loads(child.stdout)
    assert for_requests == [], "handlers, messages and their codecs"
    late = {
        wanted
        for name, path in at_hand.items()
        if name.partition(".")[0] == "odradek" and path is not None
        for wanted in imported_within_functions(Path(path))
        if wanted not in at_hand
    }
    assert late - set(EXPLAINED) == set()
    assert set(EXPLAINED) - late == set(), "no longer so"


def imported_within_functions(path: Path) -> Iterator[str]:
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for statement in ast.walk(function):
            if isinstance(statement, ast.Import):
                yield from (name.name for name in statement.names)
            elif isinstance(statement, ast.ImportFrom) and statement.module:
                yield statement.module
                whole = [f"{statement.module}.{name.name}" for name in statement.names]
                yield from (name for name in whole if (SOURCES / f"{name.replace('.', '/')}.py").exists())
