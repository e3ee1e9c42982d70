"""The throttle of a reassignment, as Apache's tool sets it (KIP-73): who is throttled at topics, how much at brokers.

A topic lists the replicas that serve copies (those there are) and those that fetch them (the new ones); every broker
of the cluster gets the rate. It stays until somebody removes it: `apply --wait` at its end, `reassign status
--remove-throttle`, or `reassign cancel`.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from odradek.cli.config_resources import BROKER, TOPIC, alter_configs
from odradek.cli.output import fail

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient
    from odradek.model.ids import BrokerId, TopicPartition

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
    for broker in sorted({b for replicas in (*before.values(), *targets.values()) for b in replicas}):
        if broker in client.cluster([]).brokers:
            changes[BROKER, str(broker)] = dict.fromkeys(RATES, str(rate))
    refused = alter_configs(client, changes)
    if refused:
        (kind, name), why = sorted(refused.items())[0]
        what = "topic" if kind == TOPIC else "broker"
        fail(f"the throttle was refused by {what} {name}: {why}; nothing was started")


def remove_throttle(client: "SyncClient", topics: Iterable[str], brokers: Iterable[int]) -> list[str]:
    """What could not be removed, a sentence each."""
    changes: dict[tuple[int, str], dict[str, str | None]] = {
        (TOPIC, topic): {LEADERS: None, FOLLOWERS: None} for topic in sorted(topics)
    }
    changes.update({(BROKER, str(broker)): dict.fromkeys(RATES) for broker in brokers})
    refused = alter_configs(client, changes)
    return [f"{name}: {why}" for (_, name), why in sorted(refused.items())]
