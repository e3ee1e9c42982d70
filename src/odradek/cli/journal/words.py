"""Steps of a journal in words, and the options the journal's verbs share."""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from odradek.cli.journal.files import History, read_history
from odradek.cli.observations import is_observed
from odradek.cli.output import fail
from odradek.pictures.figures import clock


def place_options(command: Any) -> Any:
    """PLACE, or --bootstrap: the journals of the brokers of a cluster of ours on this machine."""
    command = click.option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        help="Instead of PLACE: a cluster of ours whose brokers run on this machine.",
    )(command)
    return click.argument("place", required=False, type=click.Path(path_type=Path))(command)


def change_options(command: Any) -> Any:
    """--drop-event, --set, --until: what is different when it is played again."""
    for option in (
        click.option("--until", metavar="TIME", help="Stop there, as in 2026-01-31T12:00:00 (UTC) or ms."),
        click.option(
            "--set", "settings", multiple=True, metavar="NAME=VALUE", help="With another controller setting."
        ),
        click.option(
            "--drop-event",
            "drop",
            multiple=True,
            type=click.IntRange(min=0),
            metavar="LINE",
            help="Without this event.",
        ),
    ):
        command = option(command)
    return command


def history_at(place: Path | None, bootstrap: str | None) -> History:
    if (place is None) == (bootstrap is None):
        raise click.UsageError(
            "which journal? Say a file, a cluster's directory or a broker's properties; or --bootstrap"
        )
    if place is not None:
        return read_history(place)
    from odradek.cli.journal.files import journals_of_cluster

    return journals_of_cluster(bootstrap or "")


def changed_settings(history: History, pairs: tuple[str, ...]) -> Any:
    """The settings the controller had, and the same with `pairs` in them (None when there are none)."""
    from odradek.cli.journal.files import settings_of
    from odradek.controller.context import ControllerSettings
    from odradek.model.settings import BROKER_SETTINGS, nearest, parse_value
    from odradek.model.values import replace

    had = settings_of(history)
    names = {name for name in ControllerSettings.__match_args__}
    changes: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        attribute = name.removeprefix("odradek.").replace(".", "_")
        if not equals or attribute not in names or name not in BROKER_SETTINGS:
            known = sorted(
                n for n in BROKER_SETTINGS if n.removeprefix("odradek.").replace(".", "_") in names
            )
            guess = nearest(name, dict.fromkeys(known))
            hint = f"did you mean {guess}?" if guess else f"a controller reads {', '.join(known)}"
            raise click.UsageError(
                f"--set {pair}: expected NAME=VALUE of a setting the controller reads; {hint}"
            )
        changes[attribute] = parse_value(BROKER_SETTINGS[name], value)
    return had, (replace(had, **changes) if changes else None)


def check_lines(history: History, drop: tuple[int, ...]) -> None:
    """Before a journal is played again."""
    if is_observed(history.lines):
        fail(
            "that journal was recorded from outside (journal record) and has no decisions of a controller, so "
            "there is nothing to play again; journal show and why --journal read it"
        )
    for number in drop:
        if number >= len(history.lines):
            fail(
                f"there is no line {number}; the journal has {len(history.lines)}, 0 to {len(history.lines) - 1}"
            )
        if history.lines[number]["event"]["type"] == "WritesAnswered":
            begin = number
            while history.lines[begin]["event"]["type"] == "WritesAnswered":
                begin -= 1
            fail(f"line {number} is the store's answer to line {begin}; drop that one")


def time_of_day(all_ms: Iterable[int]) -> Callable[[int], str]:
    """`clock` without the date where all of them are of one day: a table has little room."""
    days = {clock(at_ms)[:10] for at_ms in all_ms}
    return (lambda at_ms: clock(at_ms)[11:]) if len(days) <= 1 else clock


def event_words(event: Mapping[str, Any]) -> str:
    """`broker 1 is elected, epoch 3`; an event nobody wrote words for is its name, spaced."""
    kind = str(event.get("type"))
    if kind == "Requested":
        event = event["body"]
        kind = f"{event['type'].removesuffix('Asked')}Requested"  # as journals say that are older than `Requested`
    match kind:
        case "Elected":
            return f"broker {event['broker']} is elected, epoch {event['controller_epoch']}"
        case "Resigned":
            return f"it resigns: {event['reason']}"
        case "BrokersChanged":
            return f"brokers are {_ids(b['broker_id'] for b in event['brokers']) or 'none'}"
        case "TopicsChanged":
            created = ", ".join(t["topic"] for t in event["created"])
            return f"topics: {created} created" if created else "topics changed"
        case "TopicAssignmentsChanged":
            names = [topic["topic"] for topic in event["topics"]]
            names += [node.get("topic") or node["path"] for node in event.get("unreadable", ())]
            return f"assignment of {', '.join(names)} written"
        case "DeleteTopicsRequested":
            return f"delete {', '.join(event['topics']) or 'nothing'}"
        case "ConfigChanged":
            return f"configuration of {event['entity_type']}/{event['entity_name']}"
        case "AlterPartitionRequested":
            return f"AlterPartition of broker {event['broker']}"
        case "ControlledShutdownRequested":
            return f"broker {event['broker']} wants to stop"
        case "AlterReassignmentsRequested":
            moves = [
                f"{where} to {_ids(t)}" if t is not None else f"cancel {where}"
                for where, t in sorted(event["targets"].items())
            ]
            return f"reassign {', '.join(moves[:3])}{' ...' if len(moves) > 3 else ''}"
        case "ReassignmentStep":
            return f"next step for {', '.join(event['partitions'][:3])}"
        case "ElectLeadersRequested":
            return f"{'unclean' if event['unclean'] else 'preferred'} election asked for"
        case "LeaderAndIsrAnswered" | "UpdateMetadataAnswered" | "StopReplicaAnswered":
            error = "" if event["error"] == "NONE" else f": {event['error']}"
            return f"broker {event['broker']} answered {kind.removesuffix('Answered')}{error}"
        case "EndOffsetsAnswered":
            return f"broker {event['broker']} said what it holds"
        case "TellingsLost":
            return f"broker {event['broker']} answers again, after what it was to be told was given up"
        case "WritesAnswered":
            stored = sum(answer["type"] == "Stored" for answer in event["answers"])
            return f"{stored} of {len(event['answers'])} writes stored"
        case "Tick":
            return "time passed"
        case _:
            return re.sub(r"(?<!^)(?=[A-Z])", " ", kind).lower()


def change_words(change: Mapping[str, Any]) -> str:
    """`orders-3`, `orders-3/2`, a broker's or a topic's name."""
    where = change["topic_partition"]
    if where is None:
        kind = change["kind"]
        return (
            f"{kind} {change['name']}".strip()
            if kind in ("broker", "topic", "controller", "machine")
            else change["name"]
        )
    return str(where) if change["replica"] is None else f"{where}/{change['replica']}"


def move_words(change: Mapping[str, Any]) -> str:
    """`OfflinePartition -> OnlinePartition`, and whether that came to nothing."""
    if change["source"] == change["to"] and change["kind"] == "failure":
        return f"{change['source']} stays"
    failed = " failed" if change["kind"] == "failure" and change["to"] != "refused" else ""
    return f"{change['source']} -> {change['to']}{failed}"


def cause_of(lines: list[dict[str, Any]], number: int) -> int:
    """The line of the event itself: what it led to stands after the answers of its writes."""
    while number and lines[number]["event"]["type"] == "WritesAnswered":
        number -= 1
    return number


def _ids(brokers: Any) -> str:
    return ",".join(str(broker) for broker in brokers)
