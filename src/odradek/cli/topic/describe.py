"""`odradek topic describe [NAME...]`"""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from odradek.cli.output import bootstrap_option, fail, json_option, print_json, print_table

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient
    from odradek.model.ids import TopicPartition

TOPIC_RESOURCE = 2
DYNAMIC_TOPIC_CONFIG = 1
TOPICS_AT_ONCE = 500  # in one DescribeConfigs


@click.command()
@click.argument("names", nargs=-1)
@bootstrap_option
@json_option
def describe(names: tuple[str, ...], bootstrap: str, as_json: bool) -> None:
    """Leaders, ISR and settings of topics; of all of them when none is named."""
    from odradek.cli.lookup import fail_of_a_bad_name, no_such_topic
    from odradek.cli.topic.offset_ranges import offset_ranges
    from odradek.client.sync import SyncClient
    from odradek.model.error_codes import ErrorCode
    from odradek.model.ids import TopicId, TopicPartition, topic_id_to_text

    unknown: list[str] = []
    described: list[dict[str, Any]] = []
    with SyncClient(bootstrap) as client:
        view = client.cluster(names or None)
        for name, code in sorted(view.errors.items()):
            if not names:
                unknown.append(f"topic {name}: {code.name}")
                continue
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                no_such_topic(client, name)
            if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
                fail_of_a_bad_name(name)
            fail(f"{name}: {code.name}")
        every = [
            TopicPartition(name, index) for name, topic in view.topics.items() for index in topic.partitions
        ]
        found = offset_ranges(client, view, every)
        unknown += [f"offsets of {which}: {why}" for which, why in grouped(found.problems)]
        configs = topic_overrides(client, sorted(view.topics), unknown)
        for name in sorted(view.topics):
            topic = view.topics[name]
            partitions = []
            for index, p in topic.partitions.items():
                key = TopicPartition(name, index)
                partitions.append(
                    {
                        "partition": index,
                        "leader": p.leader,
                        "leader_epoch": p.leader_epoch,
                        "replicas": list(p.replicas),
                        "isr": list(p.isr),
                        "offline": list(p.offline_replicas),
                        "log_start_offset": found.starts.get(key),
                        "high_watermark": found.ends.get(key),
                    }
                )
            described.append(
                {
                    "topic": name,
                    "topic_id": topic_id_to_text(TopicId(topic.topic_id)),
                    "config": configs.get(name),
                    "partitions": partitions,
                }
            )
    if as_json:
        print_json(described)
        for note in unknown:
            print(f"odradek: not known: {note}", file=sys.stderr)
        return
    for topic_ in described:
        config = topic_["config"]
        settings = ", ".join(f"{k}={v}" for k, v in (config or {}).items()) or (
            "settings unknown" if config is None else "no settings of its own"
        )
        print(f"{topic_['topic']}  id {topic_['topic_id']}  {settings}")
        print_table(
            ("partition", "leader", "epoch", "replicas", "isr", "start", "high watermark"),
            [
                (
                    p["partition"],
                    p["leader"] if p["leader"] >= 0 else "none",
                    p["leader_epoch"],
                    ",".join(map(str, p["replicas"])),
                    ",".join(map(str, p["isr"])) + (" (short)" if len(p["isr"]) < len(p["replicas"]) else ""),
                    "" if p["log_start_offset"] is None else p["log_start_offset"],
                    "" if p["high_watermark"] is None else p["high_watermark"],
                )
                for p in topic_["partitions"]
            ],
        )
    for note in unknown:
        print(f"not known: {note}")


def grouped(problems: "Mapping[TopicPartition, str]") -> list[tuple[str, str]]:
    """One entry a reason: a broker that is silent leads perhaps a thousand."""
    by_reason: dict[str, list[TopicPartition]] = {}
    for where, why in sorted(problems.items()):
        by_reason.setdefault(why, []).append(where)
    return [
        (f"{which[0]} and {len(which) - 1} more" if len(which) > 1 else str(which[0]), why)
        for why, which in by_reason.items()
    ]


def topic_overrides(
    client: "SyncClient", names: Sequence[str], unknown: list[str]
) -> dict[str, dict[str, str | None]]:
    """The settings of the topics themselves, without those they have from their brokers; why some are not known goes to
    `unknown`."""
    from odradek.client.sync import ANY, answered
    from odradek.model.error_codes import ErrorCode
    from odradek.model.errors import ProtocolError
    from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    found = {}
    for begin in range(0, len(names), TOPICS_AT_ONCE):
        some = names[begin : begin + TOPICS_AT_ONCE]
        resources = [
            DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None)
            for name in some
        ]
        try:
            results = client.call(ANY, DescribeConfigsRequest(resources=resources)).results
        except ProtocolError as error:
            unknown.append(f"settings of {', '.join(some[:3])}{', ...' if len(some) > 3 else ''}: {error}")
            continue
        for result in results:
            name = result.resource_name
            if result.error_code != ErrorCode.NONE:
                refusal = answered(result.error_code, f"topic {name}", result.error_message)
                unknown.append(f"settings of {refusal}")
                continue
            found[name] = {
                entry.name: entry.value
                for entry in sorted(result.configs, key=lambda entry: entry.name)
                if entry.config_source == DYNAMIC_TOPIC_CONFIG
            }
    return found
