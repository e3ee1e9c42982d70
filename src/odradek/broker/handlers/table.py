"""Which request is answered by which function, and in which versions. ApiVersions answers from here.

What every broker is asked in its first second is imported with this table; the others when somebody asks for
them first, because each brings its messages along and a broker should serve within moments of its start.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from odradek.broker.answers import Answer
from odradek.broker.handlers import (
    api_versions,
    fetch,
    leader_and_isr,
    metadata,
    produce,
    update_metadata,
)
from odradek.protocol.api_keys import SERVED, ApiKey

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.request import Request

Handler = Callable[["Broker", "Request", int], Answer]


def _when_asked(name: str) -> Handler:
    """The `handle` of handlers/<name>.py, imported at its first request and then in the table itself."""

    def first(broker: "Broker", request: "Request", now_ms: int) -> Answer:
        handle: Handler = import_module(f"odradek.broker.handlers.{name}").handle
        _, lowest, highest = HANDLERS[request.api_key]
        HANDLERS[request.api_key] = handle, lowest, highest
        return handle(broker, request, now_ms)

    return first


_HANDLERS: dict[int, Handler] = {
    ApiKey.PRODUCE: produce.handle,
    ApiKey.FETCH: fetch.handle,
    ApiKey.LIST_OFFSETS: _when_asked("list_offsets"),
    ApiKey.METADATA: metadata.handle,
    ApiKey.LEADER_AND_ISR: leader_and_isr.handle,
    ApiKey.STOP_REPLICA: _when_asked("stop_replica"),
    ApiKey.UPDATE_METADATA: update_metadata.handle,
    ApiKey.CONTROLLED_SHUTDOWN: _when_asked("controlled_shutdown"),
    ApiKey.SASL_HANDSHAKE: _when_asked("sasl_handshake"),
    ApiKey.API_VERSIONS: api_versions.handle,
    ApiKey.CREATE_TOPICS: _when_asked("create_topics"),
    ApiKey.DELETE_TOPICS: _when_asked("delete_topics"),
    ApiKey.DELETE_RECORDS: _when_asked("delete_records"),
    ApiKey.INIT_PRODUCER_ID: _when_asked("init_producer_id"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _when_asked("offset_for_leader_epoch"),
    ApiKey.WRITE_TXN_MARKERS: _when_asked("write_txn_markers"),
    ApiKey.DESCRIBE_CONFIGS: _when_asked("describe_configs"),
    ApiKey.ALTER_REPLICA_LOG_DIRS: _when_asked("alter_replica_log_dirs"),
    ApiKey.DESCRIBE_LOG_DIRS: _when_asked("describe_log_dirs"),
    ApiKey.ALTER_CONFIGS: _when_asked("alter_configs"),
    ApiKey.SASL_AUTHENTICATE: _when_asked("sasl_authenticate"),
    ApiKey.CREATE_PARTITIONS: _when_asked("create_partitions"),
    ApiKey.ELECT_LEADERS: _when_asked("elect_leaders"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _when_asked("incremental_alter_configs"),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _when_asked("alter_partition_reassignments"),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _when_asked("list_partition_reassignments"),
    ApiKey.ALTER_PARTITION: _when_asked("alter_partition"),
    ApiKey.ENVELOPE: _when_asked("envelope"),
    ApiKey.DESCRIBE_CLUSTER: _when_asked("describe_cluster"),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _when_asked("describe_client_quotas"),
    ApiKey.ALTER_CLIENT_QUOTAS: _when_asked("alter_client_quotas"),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _when_asked("describe_user_scram_credentials"),
    ApiKey.UPDATE_FEATURES: _when_asked("update_features"),
    ApiKey.ALLOCATE_PRODUCER_IDS: _when_asked("allocate_producer_ids"),
}

# key -> (handler, lowest version, highest version)
HANDLERS: dict[int, tuple[Handler, int, int]] = {
    int(key): (_HANDLERS[key], first, last) for key, (first, last) in SERVED.items()
}
assert set(HANDLERS) == set(map(int, _HANDLERS)), "what is served and what has a handler differ"
