"""`odradek topic alter NAME`: more partitions, other settings. Partitions never get fewer: their records would go."""

import click

from odradek.cli.controller_calls import ask_controller
from odradek.cli.output import bootstrap_option, fail, json_option, print_json
from odradek.model.counted import counted
from odradek.model.ids import INT32_MAX


@click.command()
@click.argument("name")
@click.option("--partitions", "-p", type=click.IntRange(1, INT32_MAX), help="Their number afterwards.")
@click.option(
    "--assign", metavar="1,2,3:2,3,1", help="Replicas of the new partitions, the preferred leader first."
)
@click.option("--config", "-c", "configs", multiple=True, metavar="NAME=VALUE", help="A setting; repeatable.")
@click.option("--delete-config", "-d", "deleted", multiple=True, metavar="NAME", help="Back to the default.")
@click.option("--dry-run", is_flag=True, help="Validate; change nothing.")
@bootstrap_option
@json_option
def alter(
    name: str,
    partitions: int | None,
    assign: str | None,
    configs: tuple[str, ...],
    deleted: tuple[str, ...],
    dry_run: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """More partitions, other settings."""
    from odradek.cli.config.alter import parse_pairs
    from odradek.cli.config.resources import TOPIC, Resource, alter_configs, check_name, not_set, words_of
    from odradek.cli.lookup import topic_or_fail
    from odradek.cli.topic.create import parse_assignment
    from odradek.client.sync import SyncClient, code_of
    from odradek.model.error_codes import ErrorCode
    from odradek.protocol.messages.create_partitions import (
        CreatePartitionsAssignment,
        CreatePartitionsRequest,
        CreatePartitionsTopic,
    )

    resource = Resource(TOPIC, name)
    changes = parse_pairs(resource, configs, "--config ")
    for setting in deleted:
        check_name(resource, setting)
        if changes.get(setting) is not None:
            raise click.UsageError(
                f"{setting} is both set by --config and deleted by --delete-config; say one of them"
            )
        changes[setting] = None
    assignment = parse_assignment(assign)
    if assignment and partitions is None:
        raise click.UsageError(
            "--assign is about new partitions; say with --partitions how many there shall be"
        )
    if partitions is None and not changes:
        raise click.UsageError("nothing to change; say --partitions, --config or --delete-config")
    with SyncClient(bootstrap) as client:
        before = len(topic_or_fail(client, name).partitions)
        absent: list[str] = []
        if changes:
            absent = not_set(client, resource, changes)
            refused = alter_configs(client, {resource: changes}, validate_only=dry_run)
            if refused:
                fail(f"{name}: {next(iter(refused.values()))}; nothing was changed")
        if partitions is not None:
            wanted = CreatePartitionsTopic(
                name=name,
                count=partitions,
                assignments=[CreatePartitionsAssignment(broker_ids=list(r)) for r in assignment] or None,
            )
            request = CreatePartitionsRequest(topics=[wanted], timeout_ms=30_000, validate_only=dry_run)
            (answer,) = ask_controller(client, request, lambda a: (t.error_code for t in a.results)).results
            if answer.error_code != ErrorCode.NONE:
                why = (answer.error_message or code_of(answer.error_code).name).rstrip(".")
                also = "; the settings were changed" if changes and not dry_run else ""
                fail(f"{name}: {why}{also}")
    after = partitions if partitions is not None else before
    if as_json:
        print_json(
            {
                "topic": name,
                "partitions_before": before,
                "partitions": after,
                "config": changes,
                "not_set": absent,
                "dry_run": dry_run,
            }
        )
        return
    words = [f"{before} -> {counted(after, 'partition')}"] if partitions is not None else []
    words += [words_of(changes, () if dry_run else absent)] if changes else []
    print(f"{name}: {', '.join(words)}{' would be accepted' if dry_run else ''}")
