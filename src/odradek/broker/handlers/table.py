"""Which request is answered by which function, and in which versions. ApiVersions answers from here.

What every broker is asked in its first second is imported with this table; the others, which stand here by the name of
their file, when somebody asks for them first, because each brings its messages along and a broker should serve within
moments of its start.
"""

from collections.abc import Callable, Mapping
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
from odradek.broker.handlers.unsupported import refuse
from odradek.protocol.api_keys import SERVED, ApiKey

if TYPE_CHECKING:
    from odradek.broker.core import Broker
    from odradek.broker.handlers.fetch import FetchWait
    from odradek.broker.request import Request

Handler = Callable[["Broker", "Request", int], Answer]


HANDLERS: dict[int, Handler | str] = {
    ApiKey.PRODUCE: produce.handle,
    ApiKey.FETCH: fetch.handle,
    ApiKey.LIST_OFFSETS: "list_offsets",
    ApiKey.METADATA: metadata.handle,
    ApiKey.LEADER_AND_ISR: leader_and_isr.handle,
    ApiKey.STOP_REPLICA: "stop_replica",
    ApiKey.UPDATE_METADATA: update_metadata.handle,
    ApiKey.CONTROLLED_SHUTDOWN: "controlled_shutdown",
    ApiKey.OFFSET_COMMIT: "offset_commit",
    ApiKey.OFFSET_FETCH: "offset_fetch",
    ApiKey.FIND_COORDINATOR: "find_coordinator",
    ApiKey.JOIN_GROUP: "join_group",
    ApiKey.HEARTBEAT: "heartbeat",
    ApiKey.LEAVE_GROUP: "leave_group",
    ApiKey.SYNC_GROUP: "sync_group",
    ApiKey.DESCRIBE_GROUPS: "describe_groups",
    ApiKey.LIST_GROUPS: "list_groups",
    ApiKey.DELETE_GROUPS: "delete_groups",
    ApiKey.OFFSET_DELETE: "offset_delete",
    ApiKey.SASL_HANDSHAKE: "sasl_handshake",
    ApiKey.API_VERSIONS: api_versions.handle,
    ApiKey.CREATE_TOPICS: "create_topics",
    ApiKey.DELETE_TOPICS: "delete_topics",
    ApiKey.DELETE_RECORDS: "delete_records",
    ApiKey.INIT_PRODUCER_ID: "init_producer_id",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "offset_for_leader_epoch",
    ApiKey.ADD_PARTITIONS_TO_TXN: "add_partitions_to_txn",
    ApiKey.ADD_OFFSETS_TO_TXN: "add_offsets_to_txn",
    ApiKey.END_TXN: "end_txn",
    ApiKey.WRITE_TXN_MARKERS: "write_txn_markers",
    ApiKey.TXN_OFFSET_COMMIT: "txn_offset_commit",
    ApiKey.DESCRIBE_ACLS: "describe_acls",
    ApiKey.CREATE_ACLS: "create_acls",
    ApiKey.DELETE_ACLS: "delete_acls",
    ApiKey.DESCRIBE_CONFIGS: "describe_configs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "alter_replica_log_dirs",
    ApiKey.DESCRIBE_LOG_DIRS: "describe_log_dirs",
    ApiKey.ALTER_CONFIGS: "alter_configs",
    ApiKey.SASL_AUTHENTICATE: "sasl_authenticate",
    ApiKey.CREATE_PARTITIONS: "create_partitions",
    ApiKey.ELECT_LEADERS: "elect_leaders",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "alter_partition_reassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "list_partition_reassignments",
    ApiKey.ALTER_PARTITION: "alter_partition",
    ApiKey.ENVELOPE: "envelope",
    ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "describe_client_quotas",
    ApiKey.ALTER_CLIENT_QUOTAS: "alter_client_quotas",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "describe_user_scram_credentials",
    ApiKey.UPDATE_FEATURES: "update_features",
    ApiKey.DESCRIBE_PRODUCERS: "describe_producers",
    ApiKey.DESCRIBE_TRANSACTIONS: "describe_transactions",
    ApiKey.LIST_TRANSACTIONS: "list_transactions",
    ApiKey.ALLOCATE_PRODUCER_IDS: "allocate_producer_ids",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer_group_heartbeat",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "consumer_group_describe",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "describe_topic_partitions",
}
assert set(map(int, SERVED)) == set(map(int, HANDLERS)), "what is served and what has a handler differ"


class HandlerTable:
    """The handlers of one broker. `versions`: the lowest and the highest of each key."""

    def __init__(self) -> None:
        self.versions: Mapping[int, tuple[int, int]] = {int(key): known for key, known in SERVED.items()}
        self._handlers: dict[int, tuple[Handler, int, int]] = {}
        for key, versions in self.versions.items():
            known = HANDLERS[key]
            self._handlers[key] = self._when_asked(key, known) if isinstance(known, str) else known, *versions

    def answer(self, broker: "Broker", request: "Request", now_ms: int) -> Answer:
        """`ProtocolError` if the body cannot be read."""
        entry = self._handlers.get(request.api_key)
        if entry is None or not entry[1] <= request.api_version <= entry[2]:
            return refuse(broker, request)
        return entry[0](broker, request, now_ms)

    def large_fetch(self) -> "type[FetchWait]":
        from odradek.broker.large_fetches import LargeFetch  # only who wants very many partitions pays for it

        return LargeFetch

    def _when_asked(self, key: int, name: str) -> Handler:
        """The `handle` of handlers/<name>.py, imported at its first request and then in the table itself."""

        def first(broker: "Broker", request: "Request", now_ms: int) -> Answer:
            handle: Handler = import_module(f"odradek.broker.handlers.{name}").handle
            self._handlers[key] = handle, *self.versions[key]
            return handle(broker, request, now_ms)

        return first
