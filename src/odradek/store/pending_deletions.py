"""`/odradek/strays/<broker>`: replicas a broker must still delete although no topic node names them any more.

Ours; Apache knows no such node, and readers of the tree who do not know it lose nothing by that. StopReplica names
a topic without its id, so whoever takes over must know whose data it is about.

The path keeps the word by which clusters know it.

    {"version":1,"topics":[{"topic":"orders","id":"AAAAAAAAAAAAAAAAAAAAAA","partitions":[0,3]}]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from odradek.model.ids import BrokerId, TopicId, TopicPartition, topic_id_from_text, topic_id_to_text
from odradek.model.topic_names import problem_with
from odradek.store.api import ConditionalOps, DeleteTree, Put
from odradek.store.fields import Fields, Unreadable

OURS = "/odradek"
ROOT = f"{OURS}/strays"


def pending_deletions_path(broker: BrokerId) -> str:
    return f"{ROOT}/{broker}"


def encode_pending_deletions(pending: Mapping[TopicPartition, TopicId]) -> bytes:
    topics: dict[tuple[str, TopicId], list[int]] = {}
    for (topic, partition), topic_id in sorted(pending.items()):
        topics.setdefault((topic, topic_id), []).append(partition)
    rows = [
        {"topic": topic, "id": topic_id_to_text(topic_id), "partitions": partitions}
        for (topic, topic_id), partitions in topics.items()
    ]
    return json.dumps({"version": 1, "topics": rows}, separators=(",", ":"), ensure_ascii=False).encode()


def decode_pending_deletions(broker: BrokerId, data: bytes) -> dict[TopicPartition, TopicId]:
    fields = Fields(pending_deletions_path(broker), data, (1,))
    found: dict[TopicPartition, TopicId] = {}
    for row in fields.items("topics"):
        if not isinstance(row, dict) or not isinstance(row.get("topic"), str):
            raise fields.fail("topics", "objects with topic, id and partitions", row)
        problem = problem_with(row["topic"])
        if problem is not None:
            raise Unreadable(fields.path, f"no name of a topic: {problem}")
        try:
            topic_id = topic_id_from_text(str(row.get("id")))
        except ValueError:
            raise fields.fail("id", "22 characters of URL-safe base64", row.get("id")) from None
        partitions = row.get("partitions")
        if not isinstance(partitions, list):
            raise fields.fail("partitions", "a list of numbers", partitions)
        for number in partitions:
            found[TopicPartition(row["topic"], fields.as_integer("partitions", number))] = topic_id
    return found


def write_pending_deletions(broker: BrokerId, pending: Mapping[TopicPartition, TopicId]) -> ConditionalOps:
    """The node is gone when nothing is left."""
    if not pending:
        return ConditionalOps((DeleteTree(pending_deletions_path(broker)),))
    return ConditionalOps(
        (Put(pending_deletions_path(broker), encode_pending_deletions(pending)),), parents=(OURS, ROOT)
    )
