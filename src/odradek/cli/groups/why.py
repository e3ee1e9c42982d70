"""`odradek why GROUP`: of a live cluster, whose metadata `why` has read already."""

import time
from typing import TYPE_CHECKING, Any

from odradek.cli.output import print_table
from odradek.model.counted import counted
from odradek.model.errors import OdradekError
from odradek.model.groups import Group, GroupHistory, Position
from odradek.model.printable import named, printable

if TYPE_CHECKING:
    from odradek.advisor.explain import Why
    from odradek.advisor.explain_group import Death
    from odradek.cli.sources import Source
    from odradek.client.sync import SyncClient
    from odradek.model.ids import TopicPartition

SHOWN = 20
DAY_MS = 86_400_000


def answer(source: "Source", name: str, bootstrap: str, *, as_json: bool) -> int | None:
    """Prints the answer; its exit code, or None where there is no such group."""
    from odradek.advisor.explain_group import deaths, owned_since, why_group
    from odradek.cli.groups.descriptions import describe_groups, positions
    from odradek.cli.groups.history import history, partition_of_group
    from odradek.cli.output import print_json
    from odradek.client.sync import SyncClient

    with SyncClient(bootstrap) as client:
        group = describe_groups(client, [name]).get(name)
        if group is None:
            return None
        at = partition_of_group(client, name)
        read, problems = positions(client, group)
        past, unknown = past_of(client, group, source.now_ms, history)
    unknown += [f"end of {where}: {why}" for where, why in sorted(problems.items())]
    unknown += source.unknown
    trees = why_group(source.observed(), group, at, read, past, source.now_ms)
    since = owned_since(past) if past is not None else {}
    dead = deaths(source.decided(), at, [one.partition for one in read])
    if as_json:
        print_json(as_dict(group, at, trees, read, since, dead, unknown))
    else:
        show(group, trees, read, since, dead, unknown, source.now_ms)
    return 0 if all(tree.holds for tree in trees) else 1


def past_of(
    client: "SyncClient", group: Group, now_ms: int, history: Any
) -> tuple[GroupHistory | None, list[str]]:
    """A coordinator in trouble must not keep back what else is known."""
    try:
        past: GroupHistory = history(client, group.name, now_ms)
    except OdradekError as error:
        return None, [f"the past of {group.name}: {error}"]
    if past.generations or not group.members:
        return past, []
    return past, [f"since when its members have what they have: no record of {group.name} tells"]


def as_dict(
    group: Group,
    at: "TopicPartition",
    trees: "tuple[Why, ...]",
    read: list[Position],
    since: "dict[TopicPartition, int]",
    dead: "list[Death]",
    unknown: list[str],
) -> dict[str, Any]:
    return {
        "group": group.name,
        "well": all(tree.holds for tree in trees),
        "state": group.state,
        "coordinator": group.coordinator,
        "coordinator_partition": str(at),
        "trees": [tree.as_json() for tree in trees],
        "partitions": [
            {
                "partition": str(one.partition),
                "committed": one.committed,
                "lag": one.lag,
                "member": None if one.owner is None else one.owner.member_id,
                "client": None if one.owner is None else one.owner.client_id,
                "owned_since_ms": since.get(one.partition) if one.owner is not None else None,
            }
            for one in read
        ],
        "deaths": [
            {
                "broker": death.broker,
                "coordinator_after": death.coordinator,
                "commits_refused": death.commits_refused,
                "new_leaders": [str(where) for where in death.new_leaders],
                "offline": [str(where) for where in death.offline],
            }
            for death in dead
        ],
        "unknown": unknown,
    }


def show(
    group: Group,
    trees: "tuple[Why, ...]",
    read: list[Position],
    since: "dict[TopicPartition, int]",
    dead: "list[Death]",
    unknown: list[str],
    now_ms: int,
) -> None:
    from odradek.cli.groups.descriptions import name_of

    wrong = [tree for tree in trees if not tree.holds]
    stable = trees[1]
    if wrong:
        print(f"group {named(group.name)} is not well:")
        for tree in wrong:
            for line in tree.lines():
                print(f"  {printable(line)}")
    else:
        members = counted(len(group.members), "member")
        print(f"group {named(group.name)} is well: {stable.detail}, {members}.")
    if read:
        rows = sorted(read, key=lambda one: (-(one.lag or 0), one.partition))
        print_table(
            ("partition", "lag", "reader", "client", "since"),
            [
                (
                    one.partition,
                    "-" if one.lag is None else one.lag,
                    "nobody" if one.owner is None else name_of(one.owner),
                    "" if one.owner is None else one.owner.client_id,
                    moment(since.get(one.partition) if one.owner is not None else None, now_ms),
                )
                for one in rows[:SHOWN]
            ],
        )
        if len(rows) > SHOWN:
            print(f"and {len(rows) - SHOWN} more; --json lists all")
    for death in dead:
        print(death.sentence)
    for note in unknown:
        print(f"not known: {printable(note)}")


def moment(at_ms: int | None, now_ms: int) -> str:
    """`12:31:07` of today, else with the date; UTC."""
    if at_ms is None:
        return ""
    form = "%H:%M:%S" if at_ms // DAY_MS == now_ms // DAY_MS else "%Y-%m-%d %H:%M:%S"
    return time.strftime(form, time.gmtime(at_ms / 1000))
