"""Which request is answered by which function, and in which versions. ApiVersions answers from here."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer
from odradek.broker.handlers import (
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    api_versions,
    controlled_shutdown,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    envelope,
    fetch,
    incremental_alter_configs,
    init_producer_id,
    leader_and_isr,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
    sasl_authenticate,
    sasl_handshake,
    stop_replica,
    update_metadata,
    write_txn_markers,
)
from odradek.protocol.api_keys import SERVED, ApiKey

if TYPE_CHECKING:
    from odradek.broker.core import Broker, Request

Handler = Callable[["Broker", "Request", int], Answer]

_HANDLERS: dict[int, Handler] = {
    ApiKey.PRODUCE: produce.handle,
    ApiKey.FETCH: fetch.handle,
    ApiKey.LIST_OFFSETS: list_offsets.handle,
    ApiKey.METADATA: metadata.handle,
    ApiKey.LEADER_AND_ISR: leader_and_isr.handle,
    ApiKey.STOP_REPLICA: stop_replica.handle,
    ApiKey.UPDATE_METADATA: update_metadata.handle,
    ApiKey.CONTROLLED_SHUTDOWN: controlled_shutdown.handle,
    ApiKey.SASL_HANDSHAKE: sasl_handshake.handle,
    ApiKey.API_VERSIONS: api_versions.handle,
    ApiKey.CREATE_TOPICS: create_topics.handle,
    ApiKey.DELETE_TOPICS: delete_topics.handle,
    ApiKey.DELETE_RECORDS: delete_records.handle,
    ApiKey.INIT_PRODUCER_ID: init_producer_id.handle,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch.handle,
    ApiKey.WRITE_TXN_MARKERS: write_txn_markers.handle,
    ApiKey.DESCRIBE_CONFIGS: describe_configs.handle,
    ApiKey.ALTER_CONFIGS: alter_configs.handle,
    ApiKey.SASL_AUTHENTICATE: sasl_authenticate.handle,
    ApiKey.CREATE_PARTITIONS: create_partitions.handle,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: incremental_alter_configs.handle,
    ApiKey.ALTER_PARTITION: alter_partition.handle,
    ApiKey.ENVELOPE: envelope.handle,
    ApiKey.DESCRIBE_CLUSTER: describe_cluster.handle,
    ApiKey.ALLOCATE_PRODUCER_IDS: allocate_producer_ids.handle,
}

# key -> (handler, lowest version, highest version)
HANDLERS: dict[int, tuple[Handler, int, int]] = {
    int(key): (_HANDLERS[key], first, last) for key, (first, last) in SERVED.items()
}
assert set(HANDLERS) == set(map(int, _HANDLERS)), "what is served and what has a handler differ"
