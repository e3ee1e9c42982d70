"""`odradek store`: the nodes of the embedded store, as they stand in its file. Brokers may run meanwhile.

Only reading: no session is opened, nobody is told of anything, and a file that is not there is not made.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.output import fail, json_option, print_json, print_table

if TYPE_CHECKING:
    from odradek.store.api import Node, Stat
    from odradek.store.embedded.operations import Reading

STORE_FILE = "odradek-store.sqlite"


def store_option(command: Any) -> Any:
    return click.option(
        "--store",
        "place",
        default=".",
        show_default="this directory",
        envvar="ODRADEK_STORE",
        type=click.Path(path_type=Path),
        help=f"The file; or a directory with {STORE_FILE}, as `up --dir` makes one; or a broker's properties.",
    )(command)


@click.group()
def store() -> None:
    """Read the metadata store."""


@store.command()
@click.argument("path", default="/")
@click.option("--all", "-a", "recursive", is_flag=True, help="Everything below, not only the children.")
@store_option
@json_option
def ls(path: str, recursive: bool, place: Path, as_json: bool) -> None:
    """The nodes below PATH, with their versions and owners."""
    from odradek.store.api import child_path

    with reading(place) as tree:
        node_at(tree, path)
        if recursive:
            found = [(below, node.stat) for below, node in tree.below(path) if below != path]
        else:
            paths = [child_path(path, name) for name in tree.children(path)]
            nodes = zip(paths, tree.get_many(paths), strict=True)
            found = [(below, node.stat) for below, node in nodes if node is not None]
    if as_json:
        print_json([{"path": below, **described(stat)} for below, stat in found])
    else:
        print_table(
            ("path", "version", "czxid", "mzxid", "owner"),
            [(p, stat.version, stat.czxid, stat.mzxid, stat.ephemeral_owner or "") for p, stat in found],
        )


@store.command()
@click.argument("path")
@store_option
@json_option
def get(path: str, place: Path, as_json: bool) -> None:
    """The value of PATH, as it is."""
    with reading(place) as tree:
        node = node_at(tree, path)
    if as_json:
        print_json({"path": path, "value": text_of(node.data), **described(node.stat)})
    else:
        click.echo(node.data)


@store.command()
@click.argument("path", required=False)
@store_option
@json_option
def stat(path: str | None, place: Path, as_json: bool) -> None:
    """The versions of PATH; without it, of the store as a whole, and who has a session with it."""
    with reading(place) as tree:
        if path is not None:
            node = node_at(tree, path)
            facts: dict[str, Any] = {
                "path": path,
                **described(node.stat),
                "bytes": len(node.data),
                "children": len(tree.children(path)),
            }
            sessions = None
        else:
            facts = {"file": str(file_of(place)), "zxid": tree.zxids()[0], "nodes": len(tree.below("/"))}
            sessions = [row._asdict() for row in tree.sessions()]
    if as_json:
        print_json(facts if sessions is None else {**facts, "sessions": sessions})
        return
    print_table(("what", "value"), list(facts.items()))
    if sessions is not None:
        print_table(("session", "timeout ms", "process"), [tuple(row.values()) for row in sessions])


# ---- inside


@contextmanager
def reading(place: Path) -> Iterator["Reading"]:
    """One state of the store, that of the last commit."""
    from odradek.store.embedded.database import Database
    from odradek.store.embedded.operations import Reading

    database = Database(file_of(place), create=False)
    try:
        with database.reading():
            yield Reading(database)
    finally:
        database.close()


def file_of(place: Path) -> Path:
    if place.is_dir():
        file = place / STORE_FILE
        if not file.exists():
            fail(f"there is no {STORE_FILE} in {place.resolve()}; name the store's file with --store")
        return file
    if place.suffix == ".properties":
        from odradek.model.settings import BrokerSettings, parse_properties

        file_name = BrokerSettings(parse_properties(place.read_text(encoding="utf-8"))).store_file
        if file_name is None:
            fail(f"{place} keeps its metadata in ZooKeeper; zkCli.sh reads that")
        return Path(file_name)
    return place


def node_at(tree: "Reading", path: str) -> "Node":
    from odradek.store.api import NoNode, parent_of

    try:
        return tree.get(path)
    except NoNode:
        above = parent_of(path)
        while tree.exists(above) is None:
            above = parent_of(above)
        names = tree.children(above)
        shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        return fail(f"there is no node {path}; below {above} there are: {shown or 'none'}")


def described(stat: "Stat") -> dict[str, Any]:
    return {**stat._asdict(), "ephemeral_owner": stat.ephemeral_owner or None}


def text_of(data: bytes) -> str | None:
    """None for a value that is no text; `get` without --json writes its bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
