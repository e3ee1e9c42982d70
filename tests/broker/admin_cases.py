"""Administrative requests that must be refused, and how their answers are told: asked of Apache by
`tests/golden/record_admin.py`, and of ours by `test_as_apache.py`.

The cluster they are asked in has one broker, number 1, without a rack; topics `existing` (partitions 0 and 1) and
`a.b` (one partition).
"""

from typing import Any

from odradek.protocol.messages import allocate_producer_ids as ap
from odradek.protocol.messages import alter_client_quotas as aq
from odradek.protocol.messages import alter_configs as am
from odradek.protocol.messages import create_partitions as cp
from odradek.protocol.messages import create_topics as ct
from odradek.protocol.messages import delete_topics as dt
from odradek.protocol.messages import describe_client_quotas as dq
from odradek.protocol.messages import describe_cluster as dl
from odradek.protocol.messages import describe_configs as dm
from odradek.protocol.messages import incremental_alter_configs as im
from odradek.protocol.messages import update_features as uf

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
TIMEOUT_MS = 10_000


def create(
    *topics: ct.CreatableTopic, timeout_ms: int = TIMEOUT_MS, **options: Any
) -> ct.CreateTopicsRequest:
    return ct.CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, **options)


def topic(name: str, partitions: int = 1, factor: int = 1, **options: Any) -> ct.CreatableTopic:
    return ct.CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **options)


def manual(
    *rows: tuple[int, list[int]], name: str = "new", partitions: int = -1, factor: int = -1
) -> ct.CreateTopicsRequest:
    given = [ct.CreatableReplicaAssignment(partition_index=p, broker_ids=b) for p, b in rows]
    return create(topic(name, partitions, factor, assignments=given))


def configured(*values: tuple[str, str | None]) -> ct.CreateTopicsRequest:
    rows = [ct.CreatableTopicConfig(name=name, value=value) for name, value in values]
    return create(topic("new", configs=rows))


def grow(name: str, count: int, assignments: list[list[int]] | None = None, times: int = 1) -> Any:
    rows = None
    if assignments is not None:
        rows = [cp.CreatePartitionsAssignment(broker_ids=b) for b in assignments]
    row = cp.CreatePartitionsTopic(name=name, count=count, assignments=rows)
    return cp.CreatePartitionsRequest(topics=[row] * times, timeout_ms=TIMEOUT_MS)


def delete(*rows: tuple[str | None, bytes]) -> dt.DeleteTopicsRequest:
    states = [dt.DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in rows]
    return dt.DeleteTopicsRequest(topics=states, timeout_ms=TIMEOUT_MS)


def change(kind: int, name: str, *ops: tuple[str, int, str | None], times: int = 1) -> Any:
    configs = [im.AlterableConfig(name=n, config_operation=op, value=v) for n, op, v in ops]
    row = im.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return im.IncrementalAlterConfigsRequest(resources=[row] * times)


def replace(kind: int, name: str, *values: tuple[str, str | None], times: int = 1) -> am.AlterConfigsRequest:
    configs = [am.AlterableConfig(name=n, value=v) for n, v in values]
    row = am.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return am.AlterConfigsRequest(resources=[row] * times)


def describe(kind: int, name: str) -> dm.DescribeConfigsRequest:
    row = dm.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=[])
    return dm.DescribeConfigsRequest(resources=[row])


def quota(names: dict[str, str | None], values: dict[str, float]) -> aq.AlterClientQuotasRequest:
    return aq.AlterClientQuotasRequest(
        entries=[
            aq.AlterClientQuotasRequestEntryData(
                entity=[aq.EntityData(entity_type=t, entity_name=n) for t, n in names.items()],
                ops=[aq.OpData(key=key, value=value) for key, value in values.items()],
            )
        ]
    )


def quotas_of(*components: tuple[str, int, str | None]) -> dq.DescribeClientQuotasRequest:
    rows = [dq.ComponentData(entity_type=t, match_type=m, match=n) for t, m, n in components]
    return dq.DescribeClientQuotasRequest(components=rows)


def feature(name: str, level: int, kind: int = 1) -> uf.UpdateFeaturesRequest:
    row = uf.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    return uf.UpdateFeaturesRequest(feature_updates=[row])


NO_ID, SOME_ID = bytes(16), bytes(range(16, 32))

# name -> (version, request)
CASES: dict[str, tuple[int, Any]] = {
    "create: it exists": (7, create(topic("existing"))),
    "create: empty name": (7, create(topic(""))),
    "create: name is a dot": (7, create(topic("."))),
    "create: name too long": (7, create(topic("x" * 250))),
    "create: name with a space": (7, create(topic("a b"))),
    "create: name collides": (7, create(topic("a_b"))),
    "create: metadata log": (7, create(topic("__cluster_metadata"))),
    "create: twice in one request": (7, create(topic("new"), topic("new", 2))),
    "create: 0 partitions": (7, create(topic("new", 0))),
    "create: -2 partitions": (7, create(topic("new", -2))),
    "create: 0 replicas": (7, create(topic("new", 1, 0))),
    "create: -2 replicas": (7, create(topic("new", 1, -2))),
    "create: more replicas than brokers": (7, create(topic("new", 1, 3))),
    "create: counts and assignment": (7, manual((0, [1]), partitions=1, factor=1)),
    "create: count and assignment": (7, manual((0, [1]), partitions=1)),
    "create: gap in assignment": (7, manual((0, [1]), (2, [1]))),
    "create: assignment from 1": (7, manual((1, [1]))),
    "create: negative partition": (7, manual((-1, [1]))),
    "create: replica twice": (7, manual((0, [1, 1]))),
    "create: uneven assignment": (7, manual((0, [1]), (1, [1, 2]))),
    "create: no replicas": (7, manual((0, []), name="without-replicas")),
    "create: unknown config": (7, configured(("no.such.key", "1"))),
    "create: config not a number": (7, configured(("segment.bytes", "x"))),
    "create: config too small": (7, configured(("segment.bytes", "1"))),
    "create: config not boolean": (7, configured(("preallocate", "maybe"))),
    "create: config not in list": (7, configured(("cleanup.policy", "shred"))),
    "create: config not a word": (7, configured(("compression.type", "rar"))),
    "create: config ratio": (7, configured(("min.cleanable.dirty.ratio", "2"))),
    "create: config null": (7, configured(("segment.bytes", None), ("retention.ms", None))),
    "create: lags in conflict": (
        7,
        configured(("min.compaction.lag.ms", "10"), ("max.compaction.lag.ms", "5")),
    ),
    "create: throttled replicas": (7, configured(("leader.replication.throttled.replicas", "x"))),
    "create: tiered storage": (7, configured(("remote.storage.enable", "true"))),
    "create: version 2": (2, create(topic("existing"))),
    "grow: no such topic": (3, grow("none", 3)),
    "grow: same count": (3, grow("existing", 2)),
    "grow: fewer": (3, grow("existing", 1)),
    "grow: to nothing": (3, grow("existing", 0)),
    "grow: twice in one request": (3, grow("existing", 3, times=2)),
    "grow: too few assignments": (3, grow("existing", 4, [[1]])),
    "grow: unknown broker": (3, grow("existing", 3, [[9]])),
    "grow: no replicas": (3, grow("existing", 3, [[]])),
    "grow: replica twice": (3, grow("existing", 3, [[1, 1]])),
    "delete: no such topic": (6, delete(("none", NO_ID))),
    "delete: no such id": (6, delete((None, SOME_ID))),
    "delete: name and id": (6, delete(("existing", SOME_ID))),
    "change: no such topic": (1, change(TOPIC, "none", ("retention.ms", SET, "1"))),
    "change: topic without name": (1, change(TOPIC, "", ("retention.ms", SET, "1"))),
    "change: unknown config": (1, change(TOPIC, "existing", ("no.such.key", SET, "1"))),
    "change: not a number": (1, change(TOPIC, "existing", ("retention.ms", SET, "x"))),
    "change: too small": (1, change(TOPIC, "existing", ("min.insync.replicas", SET, "0"))),
    "change: null": (1, change(TOPIC, "existing", ("retention.ms", SET, None))),
    "change: append to a number": (1, change(TOPIC, "existing", ("retention.ms", APPEND, "1"))),
    "change: subtract from a number": (1, change(TOPIC, "existing", ("retention.ms", SUBTRACT, "1"))),
    "change: append to unknown": (1, change(TOPIC, "existing", ("no.such.key", APPEND, "1"))),
    "change: unknown operation": (1, change(TOPIC, "existing", ("retention.ms", 9, "1"))),
    "change: key twice": (
        1,
        change(TOPIC, "existing", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
    ),
    "change: resource twice": (1, change(TOPIC, "existing", ("retention.ms", SET, "1"), times=2)),
    "change: unknown resource type": (1, change(77, "x", ("retention.ms", SET, "1"))),
    "change: another broker": (1, change(BROKER, "2", ("log.cleaner.threads", SET, "1"))),
    "change: broker not a number": (1, change(BROKER, "x", ("log.cleaner.threads", SET, "1"))),
    "change: static setting": (1, change(BROKER, "1", ("broker.rack", SET, "x"))),
    "change: static setting of all": (1, change(BROKER, "", ("broker.rack", SET, "x"))),
    "change: of one broker for all": (
        1,
        change(BROKER, "", ("advertised.listeners", SET, "PLAINTEXT://x:1")),
    ),
    "change: broker setting not a number": (1, change(BROKER, "1", ("log.retention.ms", SET, "x"))),
    "change: password without encoder": (1, change(BROKER, "1", ("ssl.key.password", SET, "x"))),
    "change: no such logger": (1, change(BROKER_LOGGER, "1", ("no.such.logger", SET, "INFO"))),
    "change: no such level": (1, change(BROKER_LOGGER, "1", ("root", SET, "LOUD"))),
    "change: root without level": (1, change(BROKER_LOGGER, "1", ("root", DELETE, None))),
    "change: append to a logger": (1, change(BROKER_LOGGER, "1", ("root", APPEND, "INFO"))),
    "change: loggers of nobody": (1, change(BROKER_LOGGER, "", ("root", SET, "INFO"))),
    "change: loggers of another": (1, change(BROKER_LOGGER, "2", ("root", SET, "INFO"))),
    "replace: no such topic": (2, replace(TOPIC, "none", ("retention.ms", "1"))),
    "replace: unknown config": (2, replace(TOPIC, "existing", ("no.such.key", "1"))),
    "replace: not a number": (2, replace(TOPIC, "existing", ("retention.ms", "x"))),
    "replace: null": (2, replace(TOPIC, "existing", ("retention.ms", None), ("segment.bytes", None))),
    "replace: key twice": (2, replace(TOPIC, "existing", ("retention.ms", "1"), ("retention.ms", "2"))),
    "replace: resource twice": (2, replace(TOPIC, "existing", ("retention.ms", "1"), times=2)),
    "replace: static setting": (2, replace(BROKER, "1", ("broker.rack", "x"))),
    "replace: another broker": (2, replace(BROKER, "2", ("log.cleaner.threads", "1"))),
    "replace: a logger": (2, replace(BROKER_LOGGER, "1", ("root", "INFO"))),
    "replace: unknown resource type": (2, replace(77, "x", ("retention.ms", "1"))),
    "describe: no such topic": (4, describe(TOPIC, "none")),
    "describe: name with a space": (4, describe(TOPIC, "a b")),
    "describe: topic without name": (4, describe(TOPIC, "")),
    "describe: another broker": (4, describe(BROKER, "2")),
    "describe: broker not a number": (4, describe(BROKER, "x")),
    "describe: unknown resource type": (4, describe(77, "x")),
    "describe: loggers of nobody": (4, describe(BROKER_LOGGER, "")),
    "describe: loggers of another": (4, describe(BROKER_LOGGER, "2")),
    "quota: nobody": (1, quota({}, {"producer_byte_rate": 1})),
    "quota: unknown type": (1, quota({"group": "x"}, {"producer_byte_rate": 1})),
    "quota: empty name": (1, quota({"user": ""}, {"producer_byte_rate": 1})),
    "quota: user and address": (1, quota({"user": "x", "ip": "1.1.1.1"}, {"producer_byte_rate": 1})),
    "quota: unknown key": (1, quota({"user": "x"}, {"speed": 1})),
    "quota: key of addresses": (1, quota({"user": "x"}, {"connection_creation_rate": 1})),
    "quota: not whole": (1, quota({"user": "x"}, {"producer_byte_rate": 1.5})),
    "quotas: empty type": (1, quotas_of(("", 0, "x"))),
    "quotas: unknown type": (1, quotas_of(("group", 0, "x"))),
    "quotas: type twice": (1, quotas_of(("user", 0, "x"), ("user", 2, None))),
    "quotas: user and address": (1, quotas_of(("user", 2, None), ("ip", 2, None))),
    "feature: unknown": (1, feature("no.such", 1)),
    "feature: empty": (1, feature("", 1)),
    "feature: not there": (1, feature("no.such", 0, 2)),
    "feature: down without saying so": (1, feature("no.such", 0)),
    "cluster: of controllers": (1, dl.DescribeClusterRequest(endpoint_type=2)),
    "cluster: of something": (1, dl.DescribeClusterRequest(endpoint_type=7)),
    "producer ids: nobody": (0, ap.AllocateProducerIdsRequest(broker_id=77, broker_epoch=5)),
    "producer ids: former life": (0, ap.AllocateProducerIdsRequest(broker_id=1, broker_epoch=5)),
}


def told(message: Any) -> list[tuple[int, str | None]]:
    """Code and words of everything in an answer that can carry an error, in the order of the wire."""
    found = []
    fields = {line.name for line in message.TABLE}
    if "error_code" in fields:
        found.append((int(message.error_code), getattr(message, "error_message", None) or None))
    for line in message.TABLE:
        if line.kind == "array" and isinstance(line.of, type):
            for item in getattr(message, line.name) or []:
                found += told(item)
    return found
