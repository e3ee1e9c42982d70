"""The lag of every group, for one who looks at a whole cluster: bounded in time, for the cluster may be in trouble."""

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from odradek.client.sync import ClusterView, SyncClient

PATIENCE_S = 3.0
MOST_GROUPS = 200


def lags(
    client: "SyncClient", view: "ClusterView", unknown: list[str], unknown_lags: list[str]
) -> list[dict[str, Any]]:
    """Group, state and lag (None: not known), the furthest behind first. Brokers that do not list their groups are noted in
    `unknown`; in `unknown_lags`, whose lag is not known: also of what nothing is wrong with, where groups are very many."""
    from odradek.cli.topic.offset_ranges import offset_ranges
    from odradek.client import sync_groups
    from odradek.model.errors import OdradekError
    from odradek.model.topic_names import GROUPS_TOPIC

    if GROUPS_TOPIC not in view.topics:
        return []
    listed = sync_groups.list_groups(client, timeout_s=PATIENCE_S)
    deadline = time.monotonic() + PATIENCE_S  # of those whose coordinator answers
    unknown += [f"groups of broker {broker}: {why}" for broker, why in sorted(listed.problems.items())]
    names = sorted(listed.groups)
    committed = {}
    for name in names[:MOST_GROUPS]:
        left_s = deadline - time.monotonic()
        try:
            if left_s <= 0:
                unknown_lags.append(f"lag of {name} and those after it: {PATIENCE_S:g} s are over")
                break
            committed[name] = sync_groups.committed(client, name, timeout_s=left_s)
        except OdradekError as error:
            unknown_lags.append(f"lag of {name}: {error}")
    if len(names) > MOST_GROUPS:
        unknown_lags.append(f"lag of {len(names) - MOST_GROUPS} more groups: odradek group lag tells one's")
    every = {where for offsets in committed.values() for where in offsets}
    ends = offset_ranges(client, view, every, patience_s=PATIENCE_S).ends
    found = []
    for name in names:
        offsets = committed.get(name)
        known = offsets is not None and all(where in ends for where in offsets)
        behind = sum(max(ends[where] - at, 0) for where, at in (offsets or {}).items()) if known else None
        found.append({"group": name, "state": listed.groups[name][1].group_state, "lag": behind})
    return sorted(found, key=lambda row: (-(row["lag"] or 0), row["group"]))
