"""Which requests exist, which of their versions have a table, and which of them a broker serves.

One table for all who ask: ApiVersions answers from `SERVED`, headers from the first flexible version, tools
(`odradek wire`) know every table. The low end is Kafka's baseline since KIP-896. Versions and
fields are those Apache Kafka 3.9.1 answers with (tests/golden/api_versions.json).
"""

from enum import IntEnum
from typing import NamedTuple


class ApiKey(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    DESCRIBE_TOPIC_PARTITIONS = 75


class Api(NamedTuple):
    key: ApiKey
    name: str  # as Kafka spells it, without Request and Response
    first_version: int  # lowest with a table
    last_version: int
    first_flexible: int  # 32767: no version is


_NONE_FLEXIBLE = 32767

APIS: dict[int, Api] = {
    key: Api(ApiKey(key), name, first, last, flexible)
    for key, name, first, last, flexible in (
        (0, "Produce", 0, 12, 9),
        (1, "Fetch", 4, 17, 12),
        (2, "ListOffsets", 1, 9, 6),
        (3, "Metadata", 0, 12, 9),
        (4, "LeaderAndIsr", 0, 7, 4),
        (5, "StopReplica", 0, 4, 2),
        (6, "UpdateMetadata", 0, 8, 6),
        (7, "ControlledShutdown", 0, 3, 3),
        (8, "OffsetCommit", 2, 9, 8),
        (9, "OffsetFetch", 1, 9, 6),
        (10, "FindCoordinator", 0, 6, 3),
        (11, "JoinGroup", 2, 9, 6),
        (12, "Heartbeat", 0, 4, 4),
        (13, "LeaveGroup", 0, 5, 4),
        (14, "SyncGroup", 0, 5, 4),
        (15, "DescribeGroups", 0, 5, 5),
        (16, "ListGroups", 0, 5, 3),
        (17, "SaslHandshake", 0, 1, _NONE_FLEXIBLE),
        (18, "ApiVersions", 0, 4, 3),
        (19, "CreateTopics", 2, 7, 5),
        (20, "DeleteTopics", 1, 6, 4),
        (21, "DeleteRecords", 0, 2, 2),
        (22, "InitProducerId", 0, 5, 2),
        (23, "OffsetForLeaderEpoch", 2, 4, 4),
        (24, "AddPartitionsToTxn", 0, 5, 3),
        (25, "AddOffsetsToTxn", 0, 4, 3),
        (26, "EndTxn", 0, 5, 3),
        (27, "WriteTxnMarkers", 1, 1, 1),
        (28, "TxnOffsetCommit", 0, 5, 3),
        (29, "DescribeAcls", 1, 3, 2),
        (30, "CreateAcls", 1, 3, 2),
        (31, "DeleteAcls", 1, 3, 2),
        (32, "DescribeConfigs", 1, 4, 4),
        (33, "AlterConfigs", 0, 2, 2),
        (34, "AlterReplicaLogDirs", 1, 2, 2),
        (35, "DescribeLogDirs", 1, 4, 2),
        (36, "SaslAuthenticate", 0, 2, 2),
        (37, "CreatePartitions", 0, 3, 2),
        (42, "DeleteGroups", 0, 2, 2),
        (43, "ElectLeaders", 0, 2, 2),
        (44, "IncrementalAlterConfigs", 0, 1, 1),
        (45, "AlterPartitionReassignments", 0, 0, 0),
        (46, "ListPartitionReassignments", 0, 0, 0),
        (47, "OffsetDelete", 0, 0, _NONE_FLEXIBLE),
        (48, "DescribeClientQuotas", 0, 1, 1),
        (49, "AlterClientQuotas", 0, 1, 1),
        (50, "DescribeUserScramCredentials", 0, 0, 0),
        (51, "AlterUserScramCredentials", 0, 0, 0),
        (56, "AlterPartition", 0, 3, 0),
        (57, "UpdateFeatures", 0, 1, 0),
        (58, "Envelope", 0, 0, 0),
        (60, "DescribeCluster", 0, 1, 0),
        (61, "DescribeProducers", 0, 0, 0),
        (65, "DescribeTransactions", 0, 0, 0),
        (66, "ListTransactions", 0, 1, 0),
        (67, "AllocateProducerIds", 0, 0, 0),
        (68, "ConsumerGroupHeartbeat", 0, 1, 0),
        (69, "ConsumerGroupDescribe", 0, 1, 0),
        (75, "DescribeTopicPartitions", 0, 0, 0),
    )
}

# Administration that comes later: the table stands, no handler does.
_LATER = frozenset((51,))

# What ApiVersions lists: key -> lowest and highest version.
#
# Produce is listed from 0 although 0-2 are only understood well enough to refuse them per partition: some
# librdkafka releases compress nothing unless the range starts at 0.
SERVED: dict[int, tuple[int, int]] = {
    key: (api.first_version, api.last_version) for key, api in APIS.items() if key not in _LATER
}
# Where `transaction.version` 2 is not finalised, clients are told of no later version: they need not ask which it is.
BELOW_TRANSACTION_VERSION_2: dict[int, int] = {
    ApiKey.PRODUCE: 11,
    ApiKey.END_TXN: 4,
    ApiKey.TXN_OFFSET_COMMIT: 4,
}
# Versions of Produce that append; below them each partition gets UNSUPPORTED_VERSION.
FIRST_PRODUCE_VERSION = 3

# Only the controller answers these; another broker says NOT_CONTROLLER.
CONTROLLER_ONLY = frozenset(
    (
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_PARTITION,
        ApiKey.UPDATE_FEATURES,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    )
)

# Only brokers send these: CLUSTER_ACTION where an authorizer is set.
BETWEEN_BROKERS = frozenset(
    (
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.WRITE_TXN_MARKERS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ENVELOPE,
        ApiKey.ALLOCATE_PRODUCER_IDS,
    )
)


def is_served(key: int, version: int) -> bool:
    served = SERVED.get(key)
    return served is not None and served[0] <= version <= served[1]


def is_flexible(key: int, version: int) -> bool:
    return version >= APIS[key].first_flexible
