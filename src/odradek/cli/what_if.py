"""`odradek what-if --kill N`: the controller's own step on a fork of the live metadata.

The metadata comes from any Kafka-compatible cluster by Metadata and DescribeConfigs; nothing is written and
nothing is told to anybody. Exit code 0 when every partition stays available for acks=all, 1 when one does not.
"""

import sys
from typing import TYPE_CHECKING

import click

from odradek.cli.output import bootstrap_option, fail, json_option, print_json, print_table

if TYPE_CHECKING:
    from odradek.client.sync import ClusterView, SyncClient
    from odradek.controller.what_if import WhatIf
    from odradek.model.cluster import TopicConfig
    from odradek.model.facts import MetadataLoaded

# What the controller's decisions depend on.
READ_SETTINGS = ("min.insync.replicas", "unclean.leader.election.enable")
BAD = ("goes offline", "stays offline", "falls under min ISR", "stays under min ISR")
SHOWN_PARTITIONS = 20


@click.command(name="what-if")
@click.option("--kill", multiple=True, required=True, metavar="ID[,ID]", help="Brokers that fail together.")
@bootstrap_option
@json_option
def what_if(kill: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """What the controller would do if brokers died."""
    from odradek.client.sync import SyncClient
    from odradek.controller import what_if as controller

    victims = broker_ids(kill)
    with SyncClient(bootstrap) as client:
        view = client.cluster()
        if unknown := [broker for broker in victims if broker not in view.brokers]:
            alive = ", ".join(map(str, sorted(view.brokers)))
            fail(f"broker {unknown[0]} is not alive, so it cannot die; brokers alive: {alive}")
        snapshot = snapshot_of(view, topic_configs(client, view))
    answer = controller.what_if(controller.context_of(snapshot), kill=victims)
    if as_json:
        print_json(as_dict(answer, view.controller_id in victims))
    else:
        show(answer, view.controller_id if view.controller_id in victims else None)
    sys.exit(1 if answer.with_verdict(*BAD) else 0)


def broker_ids(texts: tuple[str, ...]) -> list[int]:
    try:
        return sorted({int(part) for text in texts for part in text.split(",")})
    except ValueError:
        raise click.UsageError(
            f"--kill {' '.join(texts)}: want broker ids, as in --kill 3 or --kill 1,2"
        ) from None


def topic_configs(client: "SyncClient", view: "ClusterView") -> "dict[str, TopicConfig]":
    """The settings that decide, with the brokers' defaults folded in."""
    from odradek.cli.topic_describe import topic_settings
    from odradek.model.cluster import TopicConfig

    configs = {}
    for name in sorted(view.topics):
        values = topic_settings(client, name)
        configs[name] = TopicConfig({key: values[key][0] or "" for key in READ_SETTINGS if key in values})
    return configs


def snapshot_of(view: "ClusterView", configs: "dict[str, TopicConfig]") -> "MetadataLoaded":
    """What Metadata says, in the form a controller loads. Store versions are made up: nothing is written."""
    from odradek.model.cluster import BrokerRegistration, Endpoint, LeaderAndIsr, ReplicaAssignment
    from odradek.model.facts import MetadataLoaded, StoredPartitionState, TopicAssignment
    from odradek.model.ids import (
        NO_TOPIC_ID,
        BrokerEpoch,
        BrokerId,
        ControllerEpoch,
        LeaderEpoch,
        PartitionEpoch,
        TopicId,
        TopicPartition,
    )

    def ids(brokers: tuple[int, ...]) -> tuple[BrokerId, ...]:
        return tuple(BrokerId(broker) for broker in brokers)

    brokers = tuple(
        BrokerRegistration(
            BrokerId(broker.broker_id),
            BrokerEpoch(0),
            (Endpoint("PLAINTEXT", "PLAINTEXT", broker.address.host, broker.address.port),),
            broker.rack,
        )
        for broker in sorted(view.brokers.values())
    )
    topics, states = [], {}
    for name in sorted(view.topics):
        topic = view.topics[name]
        # A cluster without topic ids gets none here either; the controller gives it one in its own memory.
        topic_id = TopicId(topic.topic_id) if topic.topic_id != NO_TOPIC_ID else None
        assignments = {index: ReplicaAssignment(ids(p.replicas)) for index, p in topic.partitions.items()}
        topics.append(TopicAssignment(name, topic_id, assignments))
        for index, p in topic.partitions.items():
            states[TopicPartition(name, index)] = StoredPartitionState(
                LeaderAndIsr(
                    BrokerId(p.leader), LeaderEpoch(max(p.leader_epoch, 0)), ids(p.isr), PartitionEpoch(0)
                ),
                ControllerEpoch(1),
            )
    return MetadataLoaded(brokers, tuple(topics), states, configs)


def as_dict(answer: "WhatIf", kills_controller: bool) -> dict[str, object]:
    return {
        "question": answer.question,
        "safe": not answer.with_verdict(*BAD),
        "controller_dies": kills_controller,
        "summary": answer.summary,
        "partitions": [
            {
                "partition": str(outcome.topic_partition),
                "verdict": outcome.verdict,
                "leader_before": outcome.leader_before,
                "leader_after": outcome.leader_after,
                "isr_before": list(outcome.isr_before),
                "isr_after": list(outcome.isr_after),
                "min_insync_replicas": outcome.min_insync_replicas,
                "reason": outcome.reason,
            }
            for outcome in answer.outcomes
        ],
    }


def show(answer: "WhatIf", controller: int | None) -> None:
    words = ", ".join(f"{count} {verdict}" for verdict, count in answer.summary.items())
    print(f"{answer.question}: {words or 'no partition is touched'}")
    if controller is not None:
        print(f"broker {controller} is the controller: another one is elected first")
    rows = [
        (
            str(outcome.topic_partition),
            outcome.verdict,
            f"{_leader(outcome.leader_before)} -> {_leader(outcome.leader_after)}",
            f"{_list(outcome.isr_before)} -> {_list(outcome.isr_after)}",
            outcome.min_insync_replicas,
        )
        for outcome in answer.outcomes
        if outcome.verdict != "unchanged"
    ]
    if rows:
        print_table(("partition", "verdict", "leader", "isr", "min isr"), rows[:SHOWN_PARTITIONS])
    if len(rows) > SHOWN_PARTITIONS:
        print(f"and {len(rows) - SHOWN_PARTITIONS} more; --json lists all")


def _leader(broker: int) -> str:
    return str(broker) if broker >= 0 else "none"


def _list(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "-"
