"""UpdateMetadata (key 6), versions 0-8: the cluster as every broker and client shall see it.

The list of live brokers is replaced, partitions are merged, leader -2 takes one out, and so does a full request that does not
name it. Refused as a whole as
LeaderAndIsr is. Whoever waits for a topic's leaders, and fetchers whose leader moved, are told.

A controller finds this broker by its registration, and names all live brokers in each request: one that does not name this broker, or
names a port that there is not, is no controller's, whatever epochs it gives. Obeyed, it would leave clients without an address of any broker until the next change.

v0 one address a broker, partitions as a flat list.
v1 an address a listener.
v2 racks.
v3 listener names (KIP-103).
v4 offline replicas (KIP-112).
v5 broker epoch (KIP-380), partitions by topic.
v6 flexible.
v7 topic ids (KIP-516).
v8 KRaft or not (KIP-866).
"""

from typing import TYPE_CHECKING

from odradek.broker.answers import Answer, Reply
from odradek.broker.leader_wait import topic_key
from odradek.model.error_codes import ErrorCode
from odradek.model.ids import LAST_PORT, BrokerId
from odradek.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request


def handle(broker: "Broker", request: "Request", now_ms: int) -> Answer:
    version = request.api_version
    waits = broker.control_queue.wait(request)
    if waits is not None:
        return waits
    asked = UpdateMetadataRequest.decode(version, request.body)
    refused = broker.control_gate.refusal(request, asked, is_kraft=asked.is_k_raft_controller, now_ms=now_ms)
    if isinstance(refused, ErrorCode):
        return Reply([UpdateMetadataResponse(error_code=refused).encode(version)])
    if refused is not None:
        return refused
    if not _names(asked, broker.broker_id, request.connection.listener, version):
        broker.control_gate.say_unnamed(request, asked, now_ms)
        return Reply([UpdateMetadataResponse(error_code=ErrorCode.INVALID_REQUEST).encode(version)])
    change = broker.metadata.commit_update(asked, now_ms)
    broker.replicas.damaged.metadata_changed()
    for topic in change.topics:
        broker.purgatory.wake_key(topic_key(topic))
    if change.gone:
        broker.groups.topics_deleted(change.gone, now_ms)
    if change.brokers_changed:
        broker.replicas.settle_fetchers(now_ms)
        broker.replicas.live_brokers_changed(now_ms)
        broker.peers.brokers_changed(now_ms)
    return Reply([UpdateMetadataResponse().encode(version)])


def _names(asked: UpdateMetadataRequest, broker: BrokerId, listener: str, version: int) -> bool:
    """Whether this broker is live in it, at the listener through which it came, and wherever it is told at an address that can be
    one; before v3 listeners have no names."""
    places = [
        place
        for told in asked.live_brokers
        if told.id == broker
        for place in _places(told, listener, version)
    ]
    return bool(places) and all(host and 0 < port <= LAST_PORT for host, port in places)


def _places(told: UpdateMetadataBroker, listener: str, version: int) -> list[tuple[str, int]]:
    if version == 0:
        return [(told.v0_host, told.v0_port)]
    return [(place.host, place.port) for place in told.endpoints if version < 3 or place.listener == listener]
