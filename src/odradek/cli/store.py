"""`odradek store`: the nodes of the metadata store, in an embedded store's file or in ZooKeeper. Brokers may run
meanwhile, save for `import`.

`export` and `import` move a stopped cluster between the two; what is in the file stands in `store/portable.py`.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.group import VerbGroup
from odradek.cli.output import fail, json_option, print_json, print_table
from odradek.cli.standard_streams import standard_input
from odradek.cli.store_edits import delete, set_
from odradek.cli.store_places import Place, Tree, node_at, place_options, reading, say, text_of, writing
from odradek.model.counted import counted

if TYPE_CHECKING:
    from odradek.store.api import Stat


@click.group(cls=VerbGroup)
def store() -> None:
    """Read, mend and move the metadata store."""


store.add_command(set_)
store.add_command(delete)


@store.command()
@place_options
@click.argument("path", default="/")
@click.option("--all", "-a", "recursive", is_flag=True, help="Everything below, not only the children.")
@json_option
def ls(path: str, recursive: bool, place: Place, as_json: bool) -> None:
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
@place_options
@click.argument("path")
@json_option
def get(path: str, place: Place, as_json: bool) -> None:
    """The value of PATH, as it is."""
    with reading(place) as tree:
        node = node_at(tree, path)
    if as_json:
        print_json({"path": path, "value": text_of(node.data), **described(node.stat)})
    else:
        click.echo(node.data)


@store.command()
@place_options
@click.argument("path", required=False)
@json_option
def stat(path: str | None, place: Place, as_json: bool) -> None:
    """The versions of PATH; without it, of the store as a whole, and who uses it."""
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
            facts, sessions = summary(place, tree)
    if as_json:
        print_json(facts if sessions is None else {**facts, "sessions": sessions})
        return
    print_table(("what", "value"), list(facts.items()))
    if sessions is not None:
        print_table(("session", "timeout ms", "process"), [tuple(row.values()) for row in sessions])


@store.command()
@place_options
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@json_option
def export(file: Path, place: Place, as_json: bool) -> None:
    """Write all persistent nodes to FILE (`-` is standard output). Stop the brokers first if the cluster is to move."""
    from odradek.store import portable

    with reading(place) as tree:
        found = tree.below("/")
    nodes = portable.portable(found)
    brokers = portable.registered_brokers(found)
    if brokers:
        one = len(brokers) == 1
        who = f"broker {brokers[0]} is" if one else f"brokers {', '.join(brokers)} are"
        changes, runs = ("it changes", "it runs") if one else ("they change", "they run")
        say(f"{who} registered: what {changes} from now on, if {runs}, is not in the export")
    zxid = max(node.stat.mzxid for _, node in found)
    write_lines(file, portable.encode(nodes, zxid))
    if str(file) != "-":
        report = {"nodes": len(nodes), "cluster_id": portable.cluster_id_of(nodes), "file": str(file)}
        if as_json:
            print_json(report)
        else:
            print(f"{counted(len(nodes), 'node')} of cluster {report['cluster_id']} in {file}")


@store.command("import")
@place_options
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--force", is_flag=True, help="Remove the cluster that is there already.")
@json_option
def import_(file: Path, force: bool, place: Place, as_json: bool) -> None:
    """Load what `export` wrote to FILE into an empty store. No broker may run on it."""
    from odradek.store import portable

    try:
        nodes = portable.decode(read_lines(file))
    except portable.CannotMove as error:
        fail(f"{file}: {error}")
    with writing(place) as (session, run):
        run(portable.check_target(session, force=force))
        run(portable.write_all(session, nodes))
    report = {"nodes": len(nodes), "cluster_id": portable.cluster_id_of(nodes), "store": place.name}
    if as_json:
        print_json(report)
    else:
        print(
            f"{counted(len(nodes), 'node')} of cluster {report['cluster_id']} in {place.name}; its brokers can start"
        )


# ---- inside


def summary(place: Place, tree: Tree) -> tuple[dict[str, Any], list[dict[str, Any]] | None]:
    """Of the store as a whole. An ensemble does not tell a client who has sessions; the brokers are registered."""
    from odradek.store.embedded.operations import Reading

    if isinstance(tree, Reading):
        facts = {"file": str(place.file), "zxid": tree.zxids()[0], "nodes": len(tree.below("/"))}
        return facts, [row._asdict() for row in tree.sessions()]
    from odradek.store import portable

    found = tree.below("/")
    return {
        "zookeeper": place.ensemble and place.ensemble.zookeeper_connect,
        "cluster_id": portable.cluster_id_of(portable.portable(found)),
        "zxid": max(node.stat.mzxid for _, node in found),
        "nodes": len(found),
        "brokers": ", ".join(portable.registered_brokers(found)) or None,
    }, None


def write_lines(file: Path, lines: Iterable[str]) -> None:
    """Whole or not at all, and readable by us alone: configurations may hold passwords."""
    if str(file) == "-":
        for line in lines:
            print(line)
        return
    beside = file.with_name(f".{file.name}.new-{os.getpid()}")
    try:
        with open(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as out:
            out.writelines(f"{line}\n" for line in lines)
            out.flush()
            os.fsync(out.fileno())
        os.replace(beside, file)
    except OSError as error:
        beside.unlink(missing_ok=True)
        fail(f"{file} cannot be written: {error.strerror}")


def read_lines(file: Path) -> list[str]:
    try:
        text = (standard_input("an export").read() if str(file) == "-" else file.read_bytes()).decode()
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        fail(f"{file} is no export: not a text in UTF-8")
    # Not at what else Unicode calls the end of a line.
    return text.removesuffix("\n").split("\n") if text else []


def described(stat: "Stat") -> dict[str, Any]:
    return {**stat._asdict(), "ephemeral_owner": stat.ephemeral_owner or None}
