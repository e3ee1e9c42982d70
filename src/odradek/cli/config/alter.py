"""`odradek config set` and `delete`: one setting or several, all others stay as they are."""

import click

from odradek.cli.config.resources import (
    Resource,
    alter_configs,
    check_name,
    not_set,
    resource_named,
    resource_options,
    words_of,
)
from odradek.cli.output import bootstrap_option, fail, json_option, print_json
from odradek.cli.pairs import named_values


@click.command(name="set")
@click.argument("pairs", nargs=-1, required=True, metavar="NAME=VALUE...")
@resource_options
@click.option("--dry-run", is_flag=True, help="Validate; change nothing.")
@bootstrap_option
@json_option
def set_(
    pairs: tuple[str, ...],
    topic: str | None,
    broker: int | None,
    cluster: bool,
    dry_run: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Change settings while the cluster runs; others keep their values."""
    resource = resource_named(topic, broker, cluster)
    alter(resource, parse_pairs(resource, pairs), bootstrap, dry_run, as_json)


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@resource_options
@click.option("--dry-run", is_flag=True, help="Validate; change nothing.")
@bootstrap_option
@json_option
def delete(
    names: tuple[str, ...],
    topic: str | None,
    broker: int | None,
    cluster: bool,
    dry_run: bool,
    bootstrap: str,
    as_json: bool,
) -> None:
    """Remove settings, so that the next level applies again: broker, cluster or default."""
    resource = resource_named(topic, broker, cluster)
    for name in names:
        check_name(resource, name)
    alter(resource, dict.fromkeys(names), bootstrap, dry_run, as_json)


def parse_pairs(resource: Resource, pairs: tuple[str, ...], option: str = "") -> dict[str, str | None]:
    changes: dict[str, str | None] = {**named_values(pairs, option, "retention.ms=86400000")}
    for name in changes:
        check_name(resource, name)
    return changes


def alter(
    resource: Resource, changes: dict[str, str | None], bootstrap: str, dry_run: bool, as_json: bool
) -> None:
    from odradek.client.sync import SyncClient

    with SyncClient(bootstrap) as client:
        absent = not_set(client, resource, changes)
        refused = alter_configs(client, {resource: changes}, validate_only=dry_run)
    if refused:
        fail(f"{resource}: {next(iter(refused.values()))}; nothing was changed")
    if as_json:
        print_json({"resource": str(resource), "changes": changes, "not_set": absent, "dry_run": dry_run})
        return
    print(
        f"{resource}: {words_of(changes, () if dry_run else absent)}{' would be accepted' if dry_run else ''}"
    )
