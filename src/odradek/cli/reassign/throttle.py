"""The throttle of a reassignment, as Apache's tool sets it (KIP-73): who is throttled at topics, how much at brokers.

A topic lists the replicas that serve copies (those there are) and those that fetch them (the new ones); every broker
of the cluster gets the rate. It stays until somebody removes it: `apply --wait` at its end, `reassign status
--remove-throttle`, or `reassign cancel`.
"""

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from odradek.cli.config.resources import BROKER, TOPIC, Resource, alter_configs, describe
from odradek.cli.output import fail

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient
    from odradek.model.ids import BrokerId, TopicPartition

DYNAMIC_TOPIC, DYNAMIC_BROKER = 1, 2
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def set_throttle(
    client: "SyncClient",
    before: "Mapping[TopicPartition, tuple[int, ...]]",
    targets: "Mapping[TopicPartition, tuple[BrokerId, ...]]",
    rate: int,
) -> None:
    """Before anything moves; a refusal stops it all, because an unthrottled copy is not what was asked for."""
    changes: dict[tuple[int, str], dict[str, str | None]] = {}
    for topic in sorted({where.topic for where in targets}):
        ours = [where for where in sorted(targets) if where.topic == topic]
        leaders = [f"{w.partition}:{b}" for w in ours for b in before[w]]
        followers = [f"{w.partition}:{b}" for w in ours for b in targets[w] if b not in before[w]]
        changes[TOPIC, topic] = {LEADERS: ",".join(leaders), FOLLOWERS: ",".join(followers)}
    alive = client.cluster([]).brokers
    for broker in sorted({b for replicas in (*before.values(), *targets.values()) for b in replicas}):
        if broker in alive:
            changes[BROKER, str(broker)] = dict.fromkeys(RATES, str(rate))
    refused = alter_configs(client, changes)
    if refused:
        (kind, name), why = sorted(refused.items())[0]
        what = "topic" if kind == TOPIC else "broker"
        fail(f"the throttle was refused by {what} {name}: {why}; nothing was started")


def remove_throttle(client: "SyncClient", topics: Iterable[str], brokers: Iterable[int]) -> list[str]:
    """What could not be removed, a sentence each. Without a topic that names replicas there is no throttle."""
    from odradek.model.errors import OdradekError

    changes: dict[tuple[int, str], dict[str, str | None]] = {}
    for topic in sorted(topics):
        changes.update(_set_at(client, Resource(TOPIC, topic), (LEADERS, FOLLOWERS), DYNAMIC_TOPIC))
    if not changes:
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
    found = [entry.name for entry in describe(client, resource, list(settings)) if entry.source == source]
    return {resource: dict.fromkeys(found)} if found else {}


def remove_or_say(client: "SyncClient", topics: Iterable[str], brokers: Iterable[int]) -> None:
    """The same, with what is left said on standard error: the moves themselves went well."""
    for problem in remove_throttle(client, topics, brokers):
        print(
            f"odradek: the throttle stays at {problem}; odradek config delete takes it away", file=sys.stderr
        )
