"""The throttle of a reassignment, as Apache's tool sets it (KIP-73): who is throttled at topics, how much at brokers.

A topic lists the replicas that serve copies (those there are) and those that fetch them (the new ones); the brokers of
both get the rate, of those that are alive: one that comes back fetches from leaders that have it. It stays until somebody removes it: `apply --wait` at its end, `reassign status
--remove-throttle`, or `reassign cancel`. None of them does while moves run, whoever started them: the rate of a broker
is one number for all of its copies, and what is taken away from under a copy lets it loose.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from odradek.cli.config.resources import BROKER, TOPIC, Resource, alter_configs, describe, described
from odradek.cli.output import fail

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient
    from odradek.model.cluster import ReplicaAssignment
    from odradek.model.ids import BrokerId, TopicPartition

# Of a topic or a broker: settings with the values they shall have, None: deleted.
Changes = dict[tuple[int, str], dict[str, str | None]]

DYNAMIC_TOPIC, DYNAMIC_BROKER = 1, 2
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def set_throttle(
    client: "SyncClient",
    before: "Mapping[TopicPartition, tuple[int, ...]]",
    targets: "Mapping[TopicPartition, tuple[BrokerId, ...]]",
    running: "Mapping[TopicPartition, ReplicaAssignment]",
    rate: int,
) -> Changes:
    """Before anything moves; a refusal stops it all, because an unthrottled copy is not what was asked for.

    What already moves in these topics is listed too, or its copies would be let loose. Returns what puts back all
    that was there before.
    """
    serving: dict[TopicPartition, Sequence[int]] = dict(before)
    fetching: dict[TopicPartition, Sequence[int]] = {
        w: [b for b in targets[w] if b not in before[w]] for w in targets
    }
    for where, node in running.items():
        serving.setdefault(where, node.origin_replicas)
        fetching.setdefault(where, node.adding_replicas)
    changes: Changes = {}
    for topic in sorted({where.topic for where in targets}):
        changes[TOPIC, topic] = {LEADERS: _listed(topic, serving), FOLLOWERS: _listed(topic, fetching)}
    alive = client.cluster([]).brokers
    for broker in sorted({b for replicas in (*before.values(), *targets.values()) for b in replicas}):
        if broker in alive:
            changes[BROKER, str(broker)] = dict.fromkeys(RATES, str(rate))
    undo = {
        (kind, name): _values_at(client, Resource(kind, name), tuple(values))
        for (kind, name), values in changes.items()
    }
    try:
        refused = alter_configs(client, changes)
    except BaseException:  # Ctrl-C too: there may be a part of it
        put_back(client, undo)
        raise
    if refused:
        put_back(client, undo)
        (kind, name), why = sorted(refused.items())[0]
        what = "topic" if kind == TOPIC else "broker"
        fail(f"the throttle was refused by {what} {name}: {why}; nothing was started")
    return undo


def _listed(topic: str, replicas: "Mapping[TopicPartition, Sequence[int]]") -> str:
    ours = sorted(where for where in replicas if where.topic == topic)
    return ",".join(f"{where.partition}:{broker}" for where in ours for broker in replicas[where])


def put_back(client: "SyncClient", undo: Changes) -> None:
    """Nothing has started: as if nothing had been asked. What stays is said on standard error."""
    from odradek.model.errors import OdradekError

    for resource, values in sorted(undo.items()):
        try:
            problems = list(alter_configs(client, {resource: values}).values())
        except OdradekError as error:
            problems = [str(error)]
        for problem in problems:
            _say_it_stays(f"{Resource(*resource)}: {problem}")


def still_running(client: "SyncClient") -> str | None:
    """Why the throttle may not be taken away yet; None: nothing runs."""
    from odradek.cli.sources import running_reassignments

    unknown: list[str] = []
    running = sorted(running_reassignments(client, unknown))
    if unknown:
        return f"{unknown[0]}; the running reassignments are not known"
    if running:
        others = f" and {len(running) - 1} more" if len(running) > 1 else ""
        return f"reassignments still run: {running[0]}{others}"
    return None


def remove_throttle(client: "SyncClient", topics: Iterable[str], brokers: Iterable[int]) -> list[str]:
    """What could not be removed, a sentence each. Without a topic that names replicas there is no throttle; of one that is
    gone nobody knows whether it did."""
    from odradek.model.error_codes import ErrorCode
    from odradek.model.errors import OdradekError, ProtocolError

    changes: dict[tuple[int, str], dict[str, str | None]] = {}
    is_one_gone = False
    for topic in sorted(topics):
        try:
            changes.update(_set_at(client, Resource(TOPIC, topic), (LEADERS, FOLLOWERS), DYNAMIC_TOPIC))
        except ProtocolError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            is_one_gone = True
    if not changes and not is_one_gone:
        return []
    problems = []
    for broker in sorted(brokers):
        try:
            changes.update(_set_at(client, Resource(BROKER, str(broker)), RATES, DYNAMIC_BROKER))
        except OdradekError as error:
            problems.append(str(error))
    refused = alter_configs(client, changes)
    return [*problems, *(f"{Resource(kind, name)}: {why}" for (kind, name), why in sorted(refused.items()))]


def _set_at(
    client: "SyncClient", resource: Resource, settings: tuple[str, ...], source: int
) -> dict[tuple[int, str], dict[str, str | None]]:
    """Those of `settings` that are set at this level, to be deleted."""
    found = [entry.name for entry in described(client, resource, list(settings)) if entry.source == source]
    return {resource: dict.fromkeys(found)} if found else {}


def _values_at(client: "SyncClient", resource: Resource, settings: tuple[str, ...]) -> dict[str, str | None]:
    """What is set at this level, None where nothing is."""
    level = DYNAMIC_TOPIC if resource.kind == TOPIC else DYNAMIC_BROKER
    found = {e.name: e.value for e in describe(client, resource, list(settings)) if e.source == level}
    return {name: found.get(name) for name in settings}


def remove_or_say(client: "SyncClient", topics: Iterable[str], brokers: Iterable[int]) -> None:
    """The same, with what is left said on standard error: the moves themselves went well."""
    for problem in remove_throttle(client, topics, brokers):
        _say_it_stays(problem)


def _say_it_stays(problem: str) -> None:
    print(f"odradek: the throttle stays at {problem}; odradek config delete takes it away", file=sys.stderr)
