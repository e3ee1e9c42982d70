"""`odradek group delete GROUP...`: with --yes; without it, what would go is shown and nothing is done.

A group with members is not deleted: its coordinator refuses it (NON_EMPTY_GROUP).
"""

import sys

import click

from odradek.cli.outcomes import outcome, show_deletions
from odradek.cli.output import bootstrap_option, json_option


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@click.option("--yes", "-y", is_flag=True, help="Do it. Without it nothing is deleted.")
@click.option("--if-exists", is_flag=True, help="A group that does not exist is no error.")
@bootstrap_option
@json_option
def delete(names: tuple[str, ...], yes: bool, if_exists: bool, bootstrap: str, as_json: bool) -> None:
    """Delete groups without members, with the offsets they have committed."""
    from odradek.cli.groups.descriptions import describe_groups, no_such_group
    from odradek.client import sync_groups
    from odradek.client.sync import SyncClient
    from odradek.model.counted import counted
    from odradek.model.error_codes import ErrorCode

    with SyncClient(bootstrap) as client:
        found = describe_groups(client, names)
        for name in names:
            if name not in found and not if_exists:
                no_such_group(client, name)
        report = []
        for name, group in found.items():
            offsets = len(sync_groups.committed(client, name))
            why = f"it is {group.state}, with {counted(len(group.members), 'member')}: stop them first"
            error = why if group.is_active else None
            report.append(
                outcome(
                    name,
                    done=False,
                    error=error,
                    state=group.state,
                    members=len(group.members),
                    offsets=offsets,
                )
            )
        idle = [entry["target"] for entry in report if not entry["error"]]
        if yes and idle:
            answers = sync_groups.delete(client, idle)
            for entry in report:
                if (code := answers.get(entry["target"])) is None:
                    continue
                # Asked twice, because its coordinator moved: the first time was the one that counted.
                entry["done"] = code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND)
                if not entry["done"]:
                    entry["error"] = code.name
    exit_code = show_deletions(
        report,
        yes=yes,
        as_json=as_json,
        headings=("group", "state", "offsets"),
        cells=lambda entry: (entry["state"], entry["offsets"]),
    )
    sys.exit(exit_code)
