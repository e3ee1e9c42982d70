"""`odradek store set` and `odradek store delete`: to mend a node that somebody damaged, or to take one away.

ZooKeeper has zkCli for that; a store in a file had nothing. Nothing is done without --yes, nothing over a value that was
not the one shown, and no value that could not be read either.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from odradek.cli.output import fail, json_option, print_json
from odradek.cli.standard_streams import standard_input
from odradek.cli.store_places import (
    Place,
    existing_file,
    node_at,
    place_options,
    reading,
    text_of,
    writing,
)
from odradek.model.counted import counted

if TYPE_CHECKING:
    from odradek.store.api import Node

YES = click.option("--yes", "-y", is_flag=True, help="Do it. Without it nothing is changed.")


@click.command("set")
@place_options
@click.argument("path")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True, path_type=Path))
@YES
@json_option
def set_(path: str, file: Path, yes: bool, place: Place, as_json: bool) -> None:
    """Write what is in FILE (`-` is standard input) to the node PATH. What brokers could not read is refused."""
    from odradek.store.api import BadVersion, Node, NoNode

    data = (standard_input("the node").read() if str(file) == "-" else file.read_bytes()).strip()
    with reading(_existing(place)) as tree:
        before = node_at(tree, path)
    problem = why_unreadable(path, Node(data, before.stat))
    if problem is not None:
        fail(f"that could not be read either: {problem}; nothing was changed")
    if yes:
        with writing(place) as (session, run):
            try:
                run(session.set(path, data, before.stat.version))
            except (BadVersion, NoNode):
                fail(f"{path} has changed since it was shown; run the command again")
    _report(path, before, "written" if yes else None, as_json, after=data)


@click.command("delete")
@place_options
@click.argument("path")
@YES
@json_option
def delete(path: str, yes: bool, place: Place, as_json: bool) -> None:
    """Delete the node PATH, as /controller to elect another one. A node with children is not deleted."""
    from odradek.store.api import BadVersion, NoNode, NotEmpty

    with reading(_existing(place)) as tree:
        before = node_at(tree, path)
        below = tree.children(path)
    if below:
        fail(
            f"{path} has {counted(len(below), 'node')} below it, first {path.rstrip('/')}/{below[0]}; delete those first"
        )
    if yes:
        with writing(place) as (session, run):
            try:
                run(session.delete(path, before.stat.version))
            except (BadVersion, NoNode, NotEmpty):
                fail(f"{path} has changed since it was shown; run the command again")
    _report(path, before, "deleted" if yes else None, as_json)


def why_unreadable(path: str, node: "Node") -> str | None:
    """For nodes whose value brokers read; of all others anything may be written."""
    from odradek.model.ids import BrokerId, number_in
    from odradek.store import layout
    from odradek.store.fields import Unreadable

    parts = path.split("/")[1:]
    try:
        match parts:
            case ["brokers", "topics", topic]:
                layout.decode_topic(topic, node)
            case ["brokers", "topics", _, "partitions", _, "state"]:
                layout.decode_partition_state(path, node.data, node.stat.version)
            case ["brokers", "ids", name] if (number := number_in(name)) is not None:
                layout.decode_registration(BrokerId(number), node)
            case ["config", "changes", _]:
                layout.check_entity(path, layout.decode_config_change(path, node.data))
            case ["config", kind, *_] if kind != "changes":
                layout.decode_config(path, node.data)
            case ["controller"]:
                layout.decode_controller(node.data)
            case ["isr_change_notification", _]:
                layout.decode_isr_change(path, node.data)
            case ["admin", "preferred_replica_election"]:
                layout.decode_partition_list(path, node.data)
            case ["controller_epoch"]:
                layout.decode_controller_epoch(node.data)
            case ["cluster", "id"]:
                layout.decode_cluster_id(node.data)
            case ["feature"]:
                layout.decode_feature(node.data)
            case ["latest_producer_id_block"]:
                layout.decode_producer_id_block(node)
            case ["admin", "reassign_partitions"]:
                layout.decode_reassignment(node.data)
    except Unreadable as error:
        return str(error)
    return None


def _existing(place: Place) -> Place:
    if place.file is not None:
        existing_file(place)
    return place


def _report(path: str, before: "Node", done: str | None, as_json: bool, after: bytes | None = None) -> None:
    if as_json:
        report = {"path": path, "version": before.stat.version, "before": text_of(before.data)}
        new = {} if after is None else {"after": text_of(after)}
        print_json({**report, **new, "done": done is not None})
    else:
        print(f"{path}: {done}." if done else f"{path}: nothing is changed yet; --yes does it.")
        print(f"before, version {before.stat.version}: {before.data.decode(errors='backslashreplace')}")
        if after is not None:
            print(f"{'now' if done else 'then'}: {after.decode(errors='backslashreplace')}")
    sys.exit(0 if done else 1)
