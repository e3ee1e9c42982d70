"""Where partitions begin and end, as far as their leaders say.

A look at a cluster in trouble must not fail on what is in trouble: a leader may be silent, or have no high watermark to
tell yet (OFFSET_NOT_AVAILABLE, after an election below min.insync.replicas). Such a partition is left out, with the reason.
"""

import time
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from odradek.client.sync import ClusterView, SyncClient
    from odradek.model.ids import TopicPartition

# Leaders that have just moved, or whom metadata does not name yet, are asked again for as long.
PATIENCE_S = 2.0
PAUSE_S = 0.05


class Extents(NamedTuple):
    starts: "dict[TopicPartition, int]"
    ends: "dict[TopicPartition, int]"  # high watermarks
    problems: "dict[TopicPartition, str]"  # of those that are in only one of them, or in neither


def offset_ranges(
    client: "SyncClient",
    view: "ClusterView",
    partitions: "Iterable[TopicPartition]",
    *,
    patience_s: float = PATIENCE_S,
) -> Extents:
    """Of those of `partitions` that have a leader in `view`."""
    from odradek.client.sync import EARLIEST, LATEST

    deadline = time.monotonic() + patience_s
    found = Extents({}, {}, {})
    open_ = sorted(where for where in partitions if _leader(view, where) in view.brokers)
    while open_:
        with client.waiting_once():
            for offsets, timestamp in ((found.starts, EARLIEST), (found.ends, LATEST)):
                missing = [where for where in open_ if where not in offsets]
                _ask(client, view, missing, timestamp, offsets, found.problems, deadline)
        open_ = [where for where in open_ if where not in found.starts or where not in found.ends]
        if time.monotonic() + PAUSE_S > deadline:
            break
        if open_:
            time.sleep(PAUSE_S)
            view = client.cluster({where.topic for where in open_})
    for where in [where for where in found.problems if where not in open_]:
        del found.problems[where]
    return found


def known_ends(
    client: "SyncClient",
    view: "ClusterView",
    partitions: "Collection[TopicPartition]",
    *,
    read_committed: bool,
    patience_s: float,
) -> "tuple[dict[TopicPartition, int], dict[TopicPartition, str]]":
    """Where those end whose leaders answer now (with `read_committed` the last stable offset), and why it is not known of the others."""
    from odradek.client.sync import LATEST

    ends: dict[TopicPartition, int] = {}
    problems: dict[TopicPartition, str] = {}
    deadline = time.monotonic() + patience_s
    _ask(client, view, partitions, LATEST, ends, problems, deadline, read_committed=read_committed)
    return {where: ends[where] for where in sorted(ends)}, problems


def _leader(view: "ClusterView", where: "TopicPartition") -> int:
    topic = view.topics.get(where.topic)
    partition = topic.partitions.get(where.partition) if topic is not None else None
    return partition.leader if partition is not None else -1


def _ask(
    client: "SyncClient",
    view: "ClusterView",
    partitions: "Collection[TopicPartition]",
    timestamp: int,
    offsets: "dict[TopicPartition, int]",
    problems: "dict[TopicPartition, str]",
    deadline: float,
    *,
    read_committed: bool = False,
) -> None:
    """Each leader has its share of the time that is left."""
    from odradek.client.sync import code_of
    from odradek.model.error_codes import ErrorCode
    from odradek.model.errors import OdradekError
    from odradek.model.ids import TopicPartition
    from odradek.protocol.messages.list_offsets import (
        ListOffsetsPartition,
        ListOffsetsRequest,
        ListOffsetsTopic,
    )

    by_leader: dict[int, dict[str, list[int]]] = {}
    for where in partitions:
        topics = by_leader.setdefault(_leader(view, where), {})
        topics.setdefault(where.topic, []).append(where.partition)
    for number, (leader, topics) in enumerate(sorted(by_leader.items())):
        asked = [TopicPartition(name, index) for name, members in topics.items() for index in members]
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(read_committed),
            topics=[
                ListOffsetsTopic(
                    name=name,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=index, current_leader_epoch=-1, timestamp=timestamp
                        )
                        for index in members
                    ],
                )
                for name, members in topics.items()
            ],
        )
        if leader not in view.brokers:
            problems.update(dict.fromkeys(asked, "it has no leader"))
            continue
        share_s = (deadline - time.monotonic()) / (len(by_leader) - number)
        try:
            answer = client.call(leader, request, timeout_s=max(share_s, PAUSE_S))
        except OdradekError as error:
            problems.update(dict.fromkeys(asked, str(error)))
            continue
        for topic in answer.topics:
            for row in topic.partitions:
                where = TopicPartition(topic.name, row.partition_index)
                if row.error_code == ErrorCode.NONE:
                    offsets[where] = row.offset
                else:
                    problems[where] = f"broker {leader} says {code_of(row.error_code).name}"
