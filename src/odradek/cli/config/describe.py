"""`odradek config describe` and `get`: what a setting is, and which level says so."""

import shlex
from typing import Any

import click

from odradek.cli.config.resources import (
    SOURCES,
    Entry,
    check_name,
    describe,
    resource_named,
    resource_options,
    whose,
)
from odradek.cli.output import bootstrap_option, fail, json_option, print_json, print_table

CHANGED_SOURCES = (1, 2, 3, 4)  # not the default


@click.command(name="describe", context_settings={"allow_extra_args": True})
@resource_options
@click.option("--all", "-a", "everything", is_flag=True, help="Also settings at their default.")
@bootstrap_option
@json_option
def describe_(
    topic: str | None, broker: int | None, cluster: bool, everything: bool, bootstrap: str, as_json: bool
) -> None:
    """The settings that are set, their values and where they come from; --all adds those at their default."""
    from odradek.client.sync import SyncClient

    if bare := click.get_current_context().args:
        raise whose(bare[0])
    resource = resource_named(topic, broker, cluster)
    with SyncClient(bootstrap) as client:
        entries = describe(client, resource, documented=as_json)
    shown = [entry for entry in entries if everything or entry.source in CHANGED_SOURCES]
    if as_json:
        print_json({"resource": str(resource), "settings": [as_dict(entry) for entry in shown]})
        return
    if not shown and cluster:
        print("nothing is set for all brokers; --broker ID shows the settings of one")
        return
    if not shown:
        hint = "" if everything else "; --all shows the defaults"
        print(f"{resource} has no settings of its own{hint}")
        return
    print_table(
        ("setting", "value", "set by", ""),
        [
            (
                entry.name,
                _value(entry),
                SOURCES.get(entry.source, entry.source),
                "read only" if entry.is_read_only else "",
            )
            for entry in shown
        ],
    )


@click.command()
@click.argument("name")
@resource_options
@bootstrap_option
@json_option
def get(
    name: str, topic: str | None, broker: int | None, cluster: bool, bootstrap: str, as_json: bool
) -> None:
    """The value of one setting, alone on a line; --json says where it comes from."""
    from odradek.client.sync import SyncClient

    resource = resource_named(topic, broker, cluster)
    check_name(resource, name)
    with SyncClient(bootstrap) as client:
        found = [
            entry for entry in describe(client, resource, [name], documented=as_json) if entry.name == name
        ]
    if not found and cluster:
        fail(
            f"{name} is not set for all brokers; odradek config get {shlex.quote(name)} --broker ID shows what counts at one"
        )
    if not found:
        fail(
            f"{resource} has no {name}; odradek config describe {resource.option()} --all lists what there is"
        )
    if as_json:
        print_json(as_dict(found[0]))
    elif found[0].is_sensitive:
        fail(f"{name} of {resource} is a secret; brokers do not tell it")
    else:
        print("" if found[0].value is None else found[0].value)


def as_dict(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": SOURCES.get(entry.source, str(entry.source)),
        "read_only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
        "synonyms": [
            {"name": name, "value": value, "source": SOURCES.get(source, str(source))}
            for name, value, source in entry.synonyms
        ],
        "documentation": entry.documentation,
    }


def _value(entry: Entry) -> str:
    if entry.is_sensitive:
        return "[hidden]"
    return "" if entry.value is None else entry.value
