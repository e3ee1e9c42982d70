"""`odradek topic create NAME`: answers when every partition has a leader."""

import sys

import click

from odradek.cli.broker_lists import replica_list
from odradek.cli.controller_calls import ask_controller
from odradek.cli.outcomes import outcome, print_outcomes
from odradek.cli.output import bootstrap_option, fail, is_given, json_option
from odradek.cli.pairs import named_values
from odradek.cli.waiting import wait_for_brokers
from odradek.model.counted import counted
from odradek.model.ids import INT32_MAX
from odradek.model.topic_names import GROUPS_TOPIC, TRANSACTIONS_TOPIC

# Whoever sends CreateTopics gives them their settings, with Apache too; with cleanup.policy=delete, which others default to, commits would
# be gone after a week.
BROKERS_OWN = (GROUPS_TOPIC, TRANSACTIONS_TOPIC)
INT16_MAX = 2**15 - 1  # as wide as a replication factor is on the wire


@click.command()
@click.argument("name")
@click.option(
    "--partitions",
    "-p",
    type=click.IntRange(max=INT32_MAX),
    default=-1,
    help="How many; -1 is the broker's num.partitions.",
)
@click.option(
    "--replication-factor",
    "-r",
    type=click.IntRange(max=INT16_MAX),
    default=-1,
    help="Replicas of each; -1 is the broker's default.",
)
@click.option("--assign", metavar="1,2,3:2,3,1", help="Replicas per partition, the preferred leader first.")
@click.option("--config", "-c", "configs", multiple=True, metavar="NAME=VALUE", help="A topic setting.")
@click.option("--if-not-exists", is_flag=True, help="An existing topic is no error.")
@bootstrap_option
@json_option
def create(
    name: str,
    partitions: int,
    replication_factor: int,
    assign: str | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Create a topic."""
    from odradek.client.sync import SyncClient, code_of
    from odradek.model.error_codes import ErrorCode
    from odradek.protocol.messages.create_topics import (
        CreatableReplicaAssignment,
        CreatableTopic,
        CreatableTopicConfig,
        CreateTopicsRequest,
    )

    assignment = parse_assignment(assign)
    if assignment and (partitions != -1 or replication_factor != -1):
        raise click.UsageError(
            "--assign says how many already; leave --partitions and --replication-factor out"
        )
    settings = parse_settings(configs)
    if name in BROKERS_OWN and "cleanup.policy" not in settings:
        raise click.UsageError(
            f"{name}: brokers make it when it is needed, with settings that it needs; by hand add -c cleanup.policy=compact"
        )
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=replication_factor,
                assignments=[
                    CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
                    for index, replicas in enumerate(assignment)
                ],
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
            )
        ],
        timeout_ms=30_000,
        validate_only=False,
    )
    with SyncClient(bootstrap) as client:
        if is_given("wait"):
            ids = {broker for replicas in assignment for broker in replicas}
            wait_for_brokers(client, count=replication_factor, ids=ids, quiet=as_json)
        (answer,) = ask_controller(client, request, lambda a: (t.error_code for t in a.topics)).topics
        code = code_of(answer.error_code)
        existed = code == ErrorCode.TOPIC_ALREADY_EXISTS
        if code != ErrorCode.NONE and not (existed and if_not_exists):
            why = (answer.error_message or code.name).rstrip(".")
            why += _hint(why, name) if existed else ""
            if not as_json:
                fail(f"{name}: {why}")
            print_outcomes([outcome(name, done=False, error=why)], exit_code=1)
            sys.exit(1)
        found = client.topic(name, timeout_s=10, is_known=True, is_new=not existed)
    if as_json:
        leaders = {str(index): view.leader for index, view in found.partitions.items()}
        print_outcomes([outcome(name, done=not existed, leaders=leaders)], exit_code=0)
    else:
        word = "is there already" if existed else "created"
        replicas = len(next(iter(found.partitions.values())).replicas)
        print(
            f"{name} {word}: {counted(len(found.partitions), 'partition')}, {counted(replicas, 'replica')} each"
        )


def _hint(why: str, name: str) -> str:
    if "marked for deletion" in why:
        return f"; its name is free when it is gone: odradek why {name}"
    return "; --if-not-exists accepts it"


def parse_assignment(text: str | None) -> list[list[int]]:
    """`1,2,3:2,3,1` -> one list of broker ids per partition."""
    if not text:
        return []
    try:
        found: list[list[int]] = [list(replica_list(part, "--assign")) for part in text.split(":")]
    except click.UsageError:
        raise click.UsageError(
            f"--assign {text}: expected broker ids, a colon between partitions, as in 1,2,3:2,3,1"
        ) from None
    twice = [broker for brokers in found for broker in brokers if brokers.count(broker) > 1]
    if twice:
        raise click.UsageError(f"--assign {text}: broker {twice[0]} stands twice in one partition")
    return found


def parse_settings(pairs: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE pairs; a name that no topic setting has gets the nearest one."""
    from odradek.model.settings import TOPIC_SETTINGS, unknown_setting

    settings = named_values(pairs, "--config ", "retention.ms=86400000")
    for name in settings:
        if name not in TOPIC_SETTINGS:
            raise click.UsageError(str(unknown_setting(name, TOPIC_SETTINGS, "topic")))
    return settings
