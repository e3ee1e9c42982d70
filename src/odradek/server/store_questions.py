"""What the broker asks of the store (`broker.effects.StoreRequest`), done with one session.

Handlers of any broker write here: topics and configurations are not the controller's alone. A new topic's
configuration stands before the topic does, and every change of configuration is announced in the same
transaction.
"""

import asyncio
from collections.abc import Mapping, Sequence

from odradek.broker import effects
from odradek.model.cluster import ReplicaAssignment
from odradek.model.error_codes import ErrorCode
from odradek.model.facts import TopicAssignment
from odradek.model.ids import BrokerId, TopicId
from odradek.store import api, layout, transactions
from odradek.store.facts import config_names
from odradek.store.fields import Unreadable

# Whoever has quotas may have any name, and be seen once: their nodes go with the last quota. Others stay as Apache leaves them.
# One that was removed and made again in between two writes may have the version that was read; the later of the two counts then.
_COME_AND_GO = frozenset(("users", "clients", "ips"))
# Somebody else wrote the same node between our read and our write: read again.
ATTEMPTS = 5
# Configurations that are read in one turn of the loop: some milliseconds.
CONFIGS_A_TURN = 1_000


async def answer(store: api.Store, question: effects.StoreQuestion) -> effects.StoreResult:
    try:
        if isinstance(question, effects.CreateTopics):
            return effects.TopicsWritten(await _create_topics(store, question.topics))
        if isinstance(question, effects.DeleteTopics):
            return effects.TopicsWritten(
                {
                    topic: await _delete_topic(store, topic, question.ids.get(topic))
                    for topic in question.topics
                }
            )
        if isinstance(question, effects.AddPartitions):
            return effects.TopicsWritten({question.topic: await _add_partitions(store, question)})
        if isinstance(question, effects.ReadConfigs):
            return await _read_configs(store, question.entities)
        if isinstance(question, effects.ListConfigs):
            return await _read_configs(store, await _entities(store, question.kinds))
        if isinstance(question, effects.ReadFeatures):
            return await _read_features(store)
        if isinstance(question, effects.WriteFeatures):
            return effects.ConfigsWritten((await _write_features(store, question),))
        if isinstance(question, effects.ReadControlEpochs):
            return await _read_control_epochs(store, question)
        return effects.ConfigsWritten(tuple([await _write_config(store, write) for write in question.writes]))
    except (api.StoreUnavailable, api.SessionExpired) as error:
        return effects.StoreFailed(str(error))


Result = tuple[ErrorCode, str]
DONE: Result = (ErrorCode.NONE, "")


async def _create_topics(store: api.Store, topics: Sequence[effects.NewTopic]) -> dict[str, Result]:
    """As in Apache a name is free when the request to delete it is gone. Between its topic's node and that go the
    configuration, and whatever else is found there under the name."""
    requests = await store.get_many([layout.delete_topic_path(new.topic) for new in topics])
    return {
        new.topic: await _create_topic(store, new, is_going=request is not None)
        for new, request in zip(topics, requests, strict=True)
    }


async def _create_topic(store: api.Store, new: effects.NewTopic, *, is_going: bool) -> Result:
    if not is_going:
        partitions = {number: ReplicaAssignment(replicas) for number, replicas in new.assignment.items()}
        group = transactions.create_topic(new.topic, new.topic_id, partitions, new.config)
        (outcome,) = await store.write([group], fence=None)
        if isinstance(outcome, api.Stored):
            return DONE
        is_going = await store.exists(layout.delete_topic_path(new.topic)) is not None
    why = "is marked for deletion" if is_going else "already exists"
    return ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{new.topic}' {why}."


async def _delete_topic(store: api.Store, topic: str, topic_id: TopicId | None) -> Result:
    """`topic_id`: None where it was named by its name."""
    if topic_id is not None:
        try:
            found = layout.decode_topic(topic, await store.get(layout.topic_path(topic)))
        except (api.NoNode, Unreadable):
            return ErrorCode.UNKNOWN_TOPIC_ID, ""
        if found.topic_id != topic_id:
            return ErrorCode.UNKNOWN_TOPIC_ID, ""
    elif await store.exists(layout.topic_path(topic)) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic}' does not exist."
    await store.write([transactions.request_topic_deletion(topic)], fence=None)
    return DONE  # a conflict says that it was asked before


async def _add_partitions(store: api.Store, question: effects.AddPartitions) -> Result:
    topic = question.topic
    for _ in range(ATTEMPTS):
        try:
            assignment = layout.decode_topic(topic, await store.get(layout.topic_path(topic)))
        except api.NoNode:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic}' does not exist."
        except Unreadable as error:
            return ErrorCode.UNKNOWN_SERVER_ERROR, str(error)
        if await store.exists(layout.delete_topic_path(topic)) is not None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion."
        if any(partition.is_being_reassigned for partition in assignment.partitions.values()):
            # The controller writes the same node step by step; Apache refuses for the same reason.
            return (
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                f"A partition reassignment is in progress for the topic '{topic}'.",
            )
        there = sorted(set(question.assignment) & set(assignment.partitions))
        if there:
            return ErrorCode.INVALID_PARTITIONS, f"Topic '{topic}' has partition {there[0]} already."
        count = len(assignment.partitions)
        if min(question.assignment) > count:  # it is another topic than the one whose partitions were counted
            return ErrorCode.INVALID_PARTITIONS, f"Topic '{topic}' has {count} partitions by now."
        (outcome,) = await store.write([_grown(assignment, question.assignment)], fence=None)
        if isinstance(outcome, api.Stored):
            return DONE
    return ErrorCode.UNKNOWN_SERVER_ERROR, f"Topic '{topic}' is being changed by others; try again."


def _grown(assignment: TopicAssignment, added: Mapping[int, tuple[BrokerId, ...]]) -> api.ConditionalOps:
    partitions = dict(assignment.partitions)
    partitions.update({number: ReplicaAssignment(replicas) for number, replicas in added.items()})
    return transactions.write_topic(
        assignment.topic, assignment.topic_id, partitions, expected_version=assignment.version
    )


async def _read_configs(store: api.Store, entities: Sequence[tuple[str, str]]) -> effects.ConfigsRead:
    paths = [layout.config_path(kind, name) for kind, name in entities]
    configs = {}
    unreadable = {}
    nodes = await store.get_many(paths)
    for at, (entity, path, node) in enumerate(zip(entities, paths, nodes, strict=True), 1):
        if not at % CONFIGS_A_TURN:
            await asyncio.sleep(0)
        configs[entity] = effects.StoredConfig({}, -1)
        if node is None:
            continue
        configs[entity] = effects.StoredConfig({}, node.stat.version)
        try:
            configs[entity] = effects.StoredConfig(layout.decode_config(path, node.data), node.stat.version)
        except Unreadable as error:
            unreadable[entity] = str(error)
    return effects.ConfigsRead(configs, unreadable)


async def _entities(store: api.Store, kinds: Sequence[str]) -> list[tuple[str, str]]:
    return [(kind, name) for kind in kinds for name in await config_names(store, kind)]


async def _read_features(store: api.Store) -> effects.StoreResult:
    try:
        members = await _supported_features(store)
        node = await store.get(layout.FEATURE)
        return effects.FeaturesRead(layout.decode_feature(node.data), node.stat.version, members)
    except api.NoNode:
        return effects.FeaturesRead({}, -1, members)
    except Unreadable as error:
        return effects.StoreFailed(str(error))


async def _supported_features(store: api.Store) -> dict[int, dict[str, int]]:
    try:
        names = await store.children(layout.BROKER_IDS)
    except api.NoNode:
        return {}
    brokers = [broker for name in names if (broker := layout.broker_id_of(name)) is not None]
    nodes = await store.get_many([layout.broker_path(broker) for broker in brokers])
    return {
        broker: layout.decode_registered_features(broker, node.data)
        for broker, node in zip(brokers, nodes, strict=True)
        if node is not None
    }


async def _write_features(store: api.Store, question: effects.WriteFeatures) -> str:
    value = layout.encode_feature(question.features)
    op: api.Op = (
        api.Create(layout.FEATURE, value)
        if question.expected_version < 0
        else api.Set(layout.FEATURE, value, question.expected_version)
    )
    (outcome,) = await store.write([api.ConditionalOps((op,))], fence=None)
    return "stored" if isinstance(outcome, api.Stored) else "conflict"


async def _write_config(store: api.Store, write: effects.ConfigWrite) -> str:
    kind, name, version = write.kind, write.name, write.expected_version
    group = transactions.write_config(kind, name, write.overrides, expected_version=version)
    if write.overrides or version < 0 or kind not in _COME_AND_GO:
        return await _outcome_of(store, group)
    parents = transactions.parents_of_config(kind, name)
    if await _outcome_of(store, transactions.remove_config(kind, name, expected_version=version)) == "stored":
        await _remove_empty(store, parents[::-1])
        return "stored"
    # Somebody else wrote it, or it is a user whose clients have nodes.
    outcome = await _outcome_of(store, group)
    if outcome == "stored":
        path = layout.config_path(kind, name)
        await _remove_empty(store, (f"{path}/clients", path))
    return outcome


async def _outcome_of(store: api.Store, group: api.ConditionalOps) -> str:
    (outcome,) = await store.write([group], fence=None)
    return "stored" if isinstance(outcome, api.Stored) else "conflict"


async def _remove_empty(store: api.Store, paths: Sequence[str]) -> None:
    """Of users and their clients, from below, as far as nothing stands there and nothing is below it."""
    for path in paths:
        try:
            node = await store.get(path)
            if layout.decode_config(path, node.data):
                return
        except (api.NoNode, Unreadable):
            return
        delete = api.Delete(path, node.stat.version)
        (outcome,) = await store.write([api.ConditionalOps((delete,))], fence=None)
        if not isinstance(outcome, api.Stored):
            return


async def _read_control_epochs(
    store: api.Store, question: effects.ReadControlEpochs
) -> effects.ControlEpochs | effects.StoreFailed:
    """A server of an ensemble may lag behind what a controller wrote before it told us; then a read does not show the
    epoch that is claimed. A check does: it is a transaction, and goes in the order of all of them.
    """
    for _ in range(ATTEMPTS):
        # In this order: who holds /controller now was elected in that epoch or later.
        epoch_node, controller_node = await store.get_many((layout.CONTROLLER_EPOCH, layout.CONTROLLER))
        if epoch_node is None:
            return effects.StoreFailed(f"there is no {layout.CONTROLLER_EPOCH}")
        try:
            epoch = layout.decode_controller_epoch(epoch_node.data)
            controller = None if controller_node is None else layout.decode_controller(controller_node.data)
        except Unreadable as error:
            return effects.StoreFailed(str(error))
        if epoch < question.claimed:
            try:
                await store.multi([api.Check(layout.CONTROLLER_EPOCH, epoch_node.stat.version)])
            except (api.BadVersion, api.NoNode):
                continue  # somebody was elected
        return effects.ControlEpochs(epoch, controller)
    return effects.StoreFailed("controllers follow each other too quickly to tell which one leads")
