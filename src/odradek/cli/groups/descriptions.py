"""Groups as values, asked of their coordinators; and how far each has read, asked of the leaders."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from odradek.cli.output import fail
from odradek.model.groups import CLASSIC, CONSUMER, DEAD, Group, GroupMember, Position
from odradek.model.ids import BrokerId, TopicPartition
from odradek.model.printable import named

if TYPE_CHECKING:
    from odradek.client.sync import SyncClient

SHOWN_GROUPS = 10


def describe_groups(client: "SyncClient", names: Iterable[str]) -> dict[str, Group]:
    """Those that are there, in the order of their names."""
    from odradek.client import sync_groups

    wanted = sorted(set(names))
    if not wanted or not sync_groups.has_groups(client):
        return {}
    found: dict[str, Group] = {}
    unknown = []
    for name, (broker, row) in sync_groups.describe(client, wanted).items():
        if row.group_state in ("", DEAD):
            if name:  # one of KIP-848 has one, and to ask for one without is refused
                unknown.append(name)
        else:
            found[name] = _classic(row, BrokerId(broker))
    if unknown:
        for name, (broker, row) in sync_groups.describe_consumer_groups(client, unknown).items():
            found[name] = _consumer(row, BrokerId(broker))
    return {name: found[name] for name in wanted if name in found}


def describe_or_fail(client: "SyncClient", names: Iterable[str]) -> dict[str, Group]:
    """All of these."""
    wanted = tuple(names)
    found = describe_groups(client, wanted)
    for name in wanted:
        if name not in found:
            no_such_group(client, name)
    return found


def no_such_group(client: "SyncClient", name: str) -> NoReturn:
    from odradek.client.sync_groups import list_groups
    from odradek.model.settings import nearest

    there = list_groups(client).groups
    guess = nearest(name, there)
    if guess and guess != name:
        fail(f"there is no group {named(name)}; did you mean {named(guess)}?")
    names = [named(one) for one in sorted(there)]
    shown = ", ".join(names[:SHOWN_GROUPS]) or "none"
    fail(
        f"there is no group {named(name)}; groups there are: {shown}{', ...' if len(names) > SHOWN_GROUPS else ''}"
    )


def positions(client: "SyncClient", group: Group) -> tuple[list[Position], dict[TopicPartition, str]]:
    """Every partition that the group has committed or that a member owns; and why an end is not known."""
    (read,), problems = positions_of(client, [group])
    return read, problems


def positions_of(
    client: "SyncClient", groups: Iterable[Group]
) -> tuple[list[list[Position]], dict[TopicPartition, str]]:
    """The same of each. Leaders are asked once for all of them: one that is silent is waited for."""
    from odradek.client.sync_groups import committed

    known = [(committed(client, group.name), group.owners()) for group in groups]
    starts, ends, problems = borders(client, {where for pair in known for some in pair for where in some})
    return [
        [
            Position(where, offsets.get(where), starts.get(where), ends.get(where), owners.get(where))
            for where in sorted({*offsets, *owners})
        ]
        for offsets, owners in known
    ], problems


def borders(
    client: "SyncClient", every: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int], dict[TopicPartition, str]]:
    """Starts, ends (high watermarks), and the reasons of what is missing."""
    from odradek.cli.topic.offset_ranges import offset_ranges

    wanted = list(every)
    if not wanted:
        return {}, {}, {}
    view = client.cluster({where.topic for where in wanted})
    found = offset_ranges(client, view, wanted)
    problems = dict(found.problems)
    for where in wanted:
        if where not in found.ends and where not in problems:
            topic = view.topics.get(where.topic)
            is_there = topic is not None and where.partition in topic.partitions
            problems[where] = "it has no leader" if is_there else "there is no such partition any more"
    return found.starts, found.ends, problems


def _classic(row: Any, broker: BrokerId) -> Group:
    from odradek.coordinator.assigned import assigned_partitions
    from odradek.coordinator.subscription import CONSUMER as CONSUMER_TYPE
    from odradek.coordinator.subscription import subscribed_topics

    # Metadata and assignments of other types (Connect's) are their own affair; outside Stable they are not shown.
    is_read = row.protocol_type == CONSUMER_TYPE

    def member(told: Any) -> GroupMember:
        topics = subscribed_topics(told.member_metadata) if is_read and told.member_metadata else None
        return GroupMember(
            told.member_id,
            told.group_instance_id,
            told.client_id,
            told.client_host,
            None if topics is None else tuple(sorted(topics)),
            assigned_partitions(told.member_assignment) if topics is not None else None,
        )

    members = tuple(sorted(map(member, row.members), key=lambda one: one.member_id))
    return Group(
        row.group_id, row.group_state, CLASSIC, row.protocol_type, row.protocol_data, broker, members
    )


def _consumer(row: Any, broker: BrokerId) -> Group:
    from odradek.coordinator.subscription import CONSUMER as CONSUMER_TYPE

    members = tuple(
        GroupMember(
            told.member_id,
            told.instance_id,
            told.client_id,
            told.client_host,
            tuple(sorted(told.subscribed_topic_names)),
            tuple(
                sorted(
                    TopicPartition(topic.topic_name, number)
                    for topic in told.assignment.topic_partitions
                    for number in topic.partitions
                )
            ),
        )
        for told in sorted(row.members, key=lambda one: one.member_id)
    )
    return Group(row.group_id, row.group_state, CONSUMER, CONSUMER_TYPE, row.assignor_name, broker, members)


def as_list(partitions: Iterable[TopicPartition]) -> str:
    """`orders-0,1,2 audit-0`."""
    by_topic: dict[str, list[int]] = {}
    for where in sorted(partitions):
        by_topic.setdefault(where.topic, []).append(where.partition)
    return " ".join(f"{topic}-{','.join(map(str, numbers))}" for topic, numbers in by_topic.items())


def total_lag(found: Iterable[Position]) -> int | None:
    """None: of some partition it is not known. What nobody has committed yet does not count."""
    lags = [one.lag for one in found if one.committed is not None]
    known = [lag for lag in lags if lag is not None]
    return sum(known) if len(known) == len(lags) else None


def name_of(member: GroupMember) -> str:
    """How people know it: by the name its configuration gives it, else by the id it was given."""
    return member.instance_id or member.member_id
