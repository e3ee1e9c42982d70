"""Logs of topics that the store does not know, as after an older copy of it was restored. Nobody serves them, and nobody deletes them."""

from collections.abc import Collection

from odradek.model.ids import BrokerId, TopicPartition
from odradek.store import api, layout
from odradek.store.fields import Unreadable
from odradek.store.pending_deletions import decode_pending_deletions, pending_deletions_path


async def logs_of_unknown_topics(
    store: api.Store, broker: BrokerId, logs: Collection[TopicPartition], configured: Collection[str]
) -> list[TopicPartition]:
    """In order, without those that the controller is about to have deleted. `configured`: topics that have a node of settings, as every
    topic gets one; the store is asked only where a log is of none of them."""
    suspects = sorted(key for key in logs if key.topic not in configured)
    if not suspects:
        return []
    known = set(await store.children(layout.TOPICS))
    (node,) = await store.get_many([pending_deletions_path(broker)])
    try:
        pending = {} if node is None else decode_pending_deletions(broker, node.data)
    except Unreadable:  # the controller says so
        pending = {}
    return [key for key in suspects if key.topic not in known and key not in pending]
