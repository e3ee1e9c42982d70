"""From hints to facts: arm the watch again, read all that stands behind it, deliver values.

A watch says only that something moved. Whoever acts on the hint alone acts on what may be gone; so each hint is
answered by a read that arms the next watch in the same call, and only what was read is told: facts,
not hints. Hints that come while we read are kept for the next round; many hints of one kind are one read.

The adapter never waits by itself: `wake` is called when there is something to `take`, and the owner decides
when to do so.

    facts = ControllerFacts(store, wake=something_to_do.set)
    snapshot = await facts.load(fence)
    while True:
        await something_to_do.wait(); something_to_do.clear()
        for fact in await facts.take(): ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence

from odradek.model.cluster import BrokerRegistration, TopicConfig
from odradek.model.facts import (
    BrokersChanged,
    ConfigChanged,
    ControllerChanged,
    DeleteTopicsRequested,
    Fact,
    FeaturesChanged,
    IsrChangeNotified,
    LogDirFailed,
    MetadataLoaded,
    PreferredElectionRequested,
    ProducerIdBlock,
    ReassignmentRequested,
    TopicAssignment,
    TopicAssignmentsChanged,
    TopicsChanged,
    UnreadableNode,
)
from odradek.model.ids import BrokerId, TopicId, TopicPartition
from odradek.store import layout, pending_deletions
from odradek.store.api import NO_OWNER, Fence, Node, NoNode, Store, WatchEvent, WatchKind, name_of
from odradek.store.consistency import (
    States,
    drop_epochs_not_reached,
    drop_unassigned,
    without_duplicate_topic_ids,
)
from odradek.store.fields import Unreadable
from odradek.store.transactions import remove_notifications

# Of topics, or states, that are read in one turn of the loop: some ten milliseconds.
PARTITIONS_A_TURN = 2_000
# Configurations that are read in one turn: some milliseconds.
CONFIGS_A_TURN = 1_000
# Of a configuration that cannot be read, to whoever does not know a former one.
ALLOWS_NOTHING = {"unclean.leader.election.enable": "false"}
# Announcements of configuration changes that are kept; every broker has read the older ones long ago.
CONFIG_CHANGES_KEPT = 1000


class _Hints:
    """What was heard since it was last asked for, in the order it was first heard."""

    def __init__(self, store: Store, wake: Callable[[], None]) -> None:
        self.store = store
        self._wake = wake
        self._heard: dict[str, None] = {}
        self._ready: list[Fact] = []  # read, and not taken yet
        self._stop_listening = store.listen(on_watch=self._hear)

    def stop(self) -> None:
        """Hear nothing more; armed watches stay with the session and fire into nothing."""
        self._stop_listening()
        self._heard.clear()

    def _hear(self, event: WatchEvent) -> None:
        kind = self._kind_of(event)
        if kind is not None:
            self._heard[kind] = None
            self._wake()

    def _kind_of(self, event: WatchEvent) -> str | None:
        raise NotImplementedError

    async def _read(self, kind: str) -> Sequence[Fact]:
        raise NotImplementedError

    async def take(self) -> list[Fact]:
        """Everything behind the hints heard so far.

        Raises what the store raises. Nothing is lost by that: the hint is kept, and so is what was read before.
        """
        for kind in tuple(self._heard):
            # Forgotten before the read: a hint heard during the read is about something newer.
            del self._heard[kind]
            try:
                self._ready += await self._read(kind)
            except BaseException:
                self._heard = {kind: None, **self._heard}
                raise
        facts, self._ready = self._ready, []
        return facts

    async def _get(self, path: str) -> Node | None:
        """The node, watched; where there is none, its creation is watched."""
        if await self.store.exists(path, watch=True) is None:
            return None
        try:
            return await self.store.get(path, watch=True)
        except NoNode:  # gone in between: the watch on its existence has told us so by now
            return None


class _ConfigChanges:
    """The announcements under `/config/changes`, and what each of them is about."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: set[str] = set()

    async def begin(self) -> None:
        """From now on; to be called before the configurations themselves are read."""
        self._seen = set(await _names_below(self._store, layout.CONFIG_CHANGES))

    async def read(self) -> list[Fact]:
        names = await _names_below(self._store, layout.CONFIG_CHANGES)
        paths = [f"{layout.CONFIG_CHANGES}/{name}" for name in names if name not in self._seen]
        entities: dict[str, None] = {}
        facts: list[Fact] = []
        for path, node in zip(paths, await self._store.get_many(paths), strict=True):
            if node is None:
                continue
            try:
                entity = layout.decode_config_change(path, node.data)
                layout.check_entity(path, entity)
                entities[entity] = None
            except Unreadable as error:
                facts.append(ConfigChanged("", "", {}, (error.as_fact(),)))
        facts += await stored_configs(self._store, entities)
        self._seen = set(names)  # not before: should one of the reads fail, they are read again
        return facts

    async def forget_old(self) -> None:
        """Nobody else clears them away; a broker that slept through a thousand reads everything again anyway."""
        names = await _names_below(self._store, layout.CONFIG_CHANGES)
        old = names[: -CONFIG_CHANGES_KEPT or None]
        if old:
            group = remove_notifications([f"{layout.CONFIG_CHANGES}/{name}" for name in old])
            await self._store.write([group], None)


async def _names_below(store: Store, root: str) -> list[str]:
    """Of a node that holds requests or announcements, watched. Somebody may have deleted it with all that was in it, and then
    there are none; that it is there again is watched."""
    while True:
        try:
            return await store.children(root, watch=True)
        except NoNode:
            if await store.exists(root, watch=True) is None:
                return []


async def stored_configs(store: Store, entities: Iterable[str]) -> list[ConfigChanged]:
    """The configuration of each entity (`topics/t`) as it stands; empty where there is no node."""
    named = list(entities)
    nodes = await store.get_many([f"/config/{entity}" for entity in named])
    found: list[ConfigChanged] = []
    for at in range(0, len(named), CONFIGS_A_TURN):
        if at:
            await asyncio.sleep(0)
        end = at + CONFIGS_A_TURN
        found += map(_config, named[at:end], nodes[at:end])
    return found


async def all_configs(store: Store, entity_type: str) -> list[ConfigChanged]:
    names = await config_names(store, entity_type)
    return await stored_configs(store, [f"{entity_type}/{name}" for name in names])


async def config_names(store: Store, entity_type: str) -> list[str]:
    """Names of entities below `/config/<entity_type>`; of users also `<user>/clients/<client>`, whose parent
    may have no value of its own."""
    root = f"/config/{entity_type}"
    try:
        names = list(await store.children(root))
    except NoNode:
        return []
    if entity_type != "users":
        return names
    found = []
    of_each = await store.children_many([f"{root}/{name}/clients" for name in names])
    for name, clients in zip(names, of_each, strict=True):
        found.append(name)
        found += [f"{name}/clients/{client}" for client in clients or ()]
    return found


def _config(entity: str, node: Node | None) -> ConfigChanged:
    entity_type, _, entity_name = entity.partition("/")
    if node is None:
        return ConfigChanged(entity_type, entity_name, {})
    try:
        config = layout.decode_config(f"/config/{entity}", node.data)
    except Unreadable as error:
        return ConfigChanged(entity_type, entity_name, {}, (error.as_fact(),))
    return ConfigChanged(entity_type, entity_name, config)


class BrokerFacts(_Hints):
    """What every broker hears: who is controller, also when that one registers other addresses, changes of
    configuration, finalised features."""

    def __init__(self, store: Store, wake: Callable[[], None]) -> None:
        super().__init__(store, wake)
        self._configs = _ConfigChanges(store)
        self._registration = ""  # the controller's; whoever hears of it reads that node, and watches it

    async def load(self) -> list[Fact]:
        """All that is there now, watched from here on."""
        await self._configs.begin()
        facts: list[Fact] = [await self._controller(), await self._features()]
        for entity_type in layout.CONFIG_TYPES:
            facts += await all_configs(self.store, entity_type)
        return facts

    def _kind_of(self, event: WatchEvent) -> str | None:
        if event.path == self._registration:
            return layout.CONTROLLER
        watched = (layout.CONTROLLER, layout.CONFIG_CHANGES, layout.FEATURE)
        return event.path if event.path in watched else None

    async def _read(self, kind: str) -> Sequence[Fact]:
        if kind == layout.CONTROLLER:
            return [await self._controller()]
        if kind == layout.FEATURE:
            return [await self._features()]
        return await self._configs.read()

    async def _features(self) -> FeaturesChanged:
        node = await self._get(layout.FEATURE)
        if node is None:
            return FeaturesChanged({}, -1)
        try:
            return FeaturesChanged(layout.decode_feature(node.data), node.stat.version)
        except Unreadable as error:
            return FeaturesChanged({}, node.stat.version, error.as_fact())

    async def _controller(self) -> ControllerChanged:
        self._registration = ""
        node = await self._get(layout.CONTROLLER)
        if node is None:
            return ControllerChanged(None)
        if node.stat.ephemeral_owner == NO_OWNER:
            reason = "it is not ephemeral: it was created by hand. No controller can be elected until it is deleted"
            return ControllerChanged(None, UnreadableNode(layout.CONTROLLER, reason))
        try:
            controller = layout.decode_controller(node.data)
        except Unreadable as error:
            return ControllerChanged(None, error.as_fact())
        self._registration = layout.broker_path(controller)
        return ControllerChanged(controller)


class ControllerFacts(_Hints):
    """What a controller hears. `load` once, then `take` whenever woken, then `stop` on resignation."""

    # Hints of a single topic's node; the others are named by their path.
    _ASSIGNMENTS = "assignments"

    def __init__(self, store: Store, wake: Callable[[], None]) -> None:
        super().__init__(store, wake)
        self._fence: Fence | None = None
        self._configs = _ConfigChanges(store)
        self._topics: set[str] = set()  # those we have told of
        self._touched: dict[str, None] = {}  # topics whose node was written
        self._ids: dict[TopicId, str] = {}  # whose they are
        self._readers: dict[str, Callable[[], Awaitable[Sequence[Fact]]]] = {
            layout.BROKER_IDS: self._brokers,
            layout.TOPICS: self._topics_changed,
            self._ASSIGNMENTS: self._assignments_changed,
            layout.DELETE_TOPICS: self._deletions_asked,
            layout.REASSIGN_PARTITIONS: self._reassignment,
            layout.PREFERRED_ELECTION: self._preferred_election,
            layout.ISR_CHANGES: self._isr_changes,
            layout.LOG_DIR_EVENTS: self._log_dir_events,
            layout.CONFIG_CHANGES: self._config_changes,
        }

    async def load(self, fence: Fence | None) -> MetadataLoaded:
        """Watches first, old notifications away, then everything is read (behaviour 144).

        What the notifications told is contained in what is read after them. Without a fence nobody leads here, and
        the notifications are left for whoever does.
        """
        self._fence = fence
        await self._configs.begin()
        for root in (layout.ISR_CHANGES, layout.LOG_DIR_EVENTS) if fence is not None else ():
            await self._take_notifications(root)
        brokers = await self._brokers()
        # Before the topics: what is asked for then is about topics that are read behind it, or about none.
        (deletions,) = await self._delete_topics()
        (reassignment,) = await self._reassignment()
        (preferred,) = await self._preferred_election()
        names = await self.store.children(layout.TOPICS, watch=True)
        self._topics = set(names)
        unreadable = [*brokers[0].unreadable]
        topics = await self._read_topics(names, unreadable)
        states = await self._states_of(topics, unreadable)
        unreadable += await self._drop_epochs_not_reached(states)
        return MetadataLoaded(
            brokers=brokers[0].brokers,
            topics=tuple(topics),
            states=states,
            topic_configs=await self._topic_configs(names, unreadable),
            broker_configs=await self._broker_configs(unreadable),
            delete_topics=deletions.topics,
            reassignment=reassignment,
            preferred_election=preferred,
            producer_ids=await self._producer_ids(unreadable),
            pending_deletions=await self._pending_deletions(unreadable),
            unreadable=tuple(unreadable),
        )

    def stop(self) -> None:
        super().stop()
        self._topics.clear()
        self._touched.clear()
        self._ids.clear()

    def _kind_of(self, event: WatchEvent) -> str | None:
        if event.path in self._readers:
            return event.path
        if event.path.startswith(f"{layout.BROKER_IDS}/"):
            return layout.BROKER_IDS
        if not event.path.startswith(f"{layout.TOPICS}/"):
            return None
        topic = name_of(event.path)
        if event.kind is WatchKind.DELETED:
            # Should the name be there again when we look, it is another topic: tell it as new.
            self._topics.discard(topic)
            self._touched.pop(topic, None)
            return layout.TOPICS
        self._touched[topic] = None
        return self._ASSIGNMENTS

    async def _read(self, kind: str) -> Sequence[Fact]:
        return await self._readers[kind]()

    # ---- brokers

    async def _brokers(self) -> tuple[BrokersChanged]:
        names = await self.store.children(layout.BROKER_IDS, watch=True)
        unreadable: list[UnreadableNode] = []
        ids = []
        for name in names:
            broker_id = layout.broker_id_of(name)
            if broker_id is not None:
                ids.append(broker_id)
            else:
                path = f"{layout.BROKER_IDS}/{name}"
                unreadable.append(UnreadableNode(path, f"expected a broker id of 0 or more, found {name!r}"))
        ids.sort()
        nodes = await self.store.get_many([layout.broker_path(broker) for broker in ids], watch=True)
        brokers: list[BrokerRegistration] = []
        for broker, node in zip(ids, nodes, strict=True):
            if node is None:  # gone in between: its parent's watch tells
                continue
            try:
                brokers.append(layout.decode_registration(broker, node))
            except Unreadable as error:
                unreadable.append(error.as_fact())
        return (BrokersChanged(tuple(brokers), tuple(unreadable)),)

    # ---- topics

    async def _topics_changed(self) -> tuple[TopicsChanged]:
        names = await self.store.children(layout.TOPICS, watch=True)
        new = [name for name in names if name not in self._topics]
        # Before the next await: a deletion heard during the reads takes its name out again.
        self._topics = set(names)
        unreadable: list[UnreadableNode] = []
        try:
            created = await self._read_topics(new, unreadable)
            states = await self._states_of(created, unreadable)
            configs = await self._topic_configs(new, unreadable)
        except BaseException:
            self._topics.difference_update(new)
            raise
        return (TopicsChanged(tuple(names), tuple(created), states, configs, tuple(unreadable)),)

    async def _assignments_changed(self) -> tuple[TopicAssignmentsChanged] | tuple[()]:
        touched, self._touched = self._touched, {}
        unreadable: list[UnreadableNode] = []
        try:
            topics = await self._read_topics(sorted(touched), unreadable)
        except BaseException:
            self._touched.update(touched)
            raise
        if not topics and not unreadable:
            return ()
        return (TopicAssignmentsChanged(tuple(topics), tuple(unreadable)),)

    async def _read_topics(
        self, names: Sequence[str], unreadable: list[UnreadableNode]
    ) -> list[TopicAssignment]:
        nodes = await self.store.get_many([layout.topic_path(name) for name in names], watch=True)
        read: list[TopicAssignment] = []
        in_this_turn = 0
        for name, node in zip(names, nodes, strict=True):
            if node is None:
                # Deleted between two looks, and its node was not watched: should the name be there again, it is new.
                self._topics.discard(name)
                continue
            if in_this_turn >= PARTITIONS_A_TURN:
                in_this_turn = 0
                await asyncio.sleep(0)
            try:
                read.append(layout.decode_topic(name, node))
                in_this_turn += len(read[-1].partitions)
            except Unreadable as error:
                unreadable.append(error.as_fact())
        self._ids = {owned: name for owned, name in self._ids.items() if name in self._topics}
        topics: list[TopicAssignment] = []
        for topic in without_duplicate_topic_ids(read, self._ids):
            if isinstance(topic, UnreadableNode):
                unreadable.append(topic)
            else:
                topics.append(topic)
        self._ids.update((topic.topic_id, topic.topic) for topic in topics if topic.topic_id is not None)
        return topics

    async def _drop_epochs_not_reached(self, states: States) -> list[UnreadableNode]:
        newest = max((state.controller_epoch for state in states.values()), default=0)
        try:
            epoch = layout.decode_controller_epoch((await self.store.get(layout.CONTROLLER_EPOCH)).data)
        except (NoNode, Unreadable):
            return []  # the next write is fenced
        return drop_epochs_not_reached(states, epoch) if newest > epoch else []

    async def _states_of(self, topics: Sequence[TopicAssignment], unreadable: list[UnreadableNode]) -> States:
        partitions: list[TopicPartition] = []
        for some in _for_a_turn(topics):
            partitions += _partitions(some)
            await asyncio.sleep(0)
        states = await self._read_states(partitions, unreadable)
        for some in _for_a_turn(topics):
            unreadable += drop_unassigned(some, states)
            await asyncio.sleep(0)
        return states

    async def _read_states(
        self, partitions: Sequence[TopicPartition], unreadable: list[UnreadableNode]
    ) -> States:
        paths: list[str] = []
        for at in range(0, len(partitions), PARTITIONS_A_TURN):
            paths += map(layout.state_path, partitions[at : at + PARTITIONS_A_TURN])
            await asyncio.sleep(0)
        nodes = await self.store.get_many(paths)
        states: States = {}
        for at in range(0, len(partitions), PARTITIONS_A_TURN):
            end = at + PARTITIONS_A_TURN
            some, _, bad = layout.decode_partition_states(partitions[at:end], nodes[at:end])
            states.update(some)
            unreadable += bad
            await asyncio.sleep(0)
        return states

    async def _broker_configs(self, unreadable: list[UnreadableNode]) -> dict[str, Mapping[str, str]]:
        configs: dict[str, Mapping[str, str]] = {}
        for fact in await all_configs(self.store, "brokers"):
            unreadable += fact.unreadable
            configs[fact.entity_name] = ALLOWS_NOTHING if fact.unreadable else fact.config
        return configs

    async def _topic_configs(
        self, names: Sequence[str], unreadable: list[UnreadableNode]
    ) -> dict[str, TopicConfig]:
        configs = {}
        for fact in await stored_configs(self.store, (f"topics/{name}" for name in names)):
            assert isinstance(fact, ConfigChanged)
            if fact.unreadable:
                # The topic is where its own node says, and goes on; what it allows is not known, so it is not allowed.
                unreadable += [UnreadableNode(node.path, node.reason) for node in fact.unreadable]
                configs[fact.entity_name] = TopicConfig(ALLOWS_NOTHING)
            elif fact.config:
                configs[fact.entity_name] = TopicConfig(dict(fact.config))
        return configs

    # ---- requests

    async def _delete_topics(self) -> tuple[DeleteTopicsRequested]:
        return (DeleteTopicsRequested(tuple(await _names_below(self.store, layout.DELETE_TOPICS))),)

    async def _deletions_asked(self) -> tuple[TopicsChanged | DeleteTopicsRequested, ...]:
        """With the topics before it where it names one that was made since they were read: who does not know that would take the
        request for the rest of an older one."""
        (asked,) = await self._delete_topics()
        if self._topics.issuperset(asked.topics):
            return (asked,)
        (topics,) = await self._topics_changed()  # who went meanwhile is told by the hint of that
        return (topics, asked) if topics.created or topics.unreadable else (asked,)

    async def _reassignment(self) -> tuple[ReassignmentRequested]:
        node = await self._get(layout.REASSIGN_PARTITIONS)
        if node is None:
            return (ReassignmentRequested({}),)
        try:
            targets = layout.decode_reassignment(node.data)
        except Unreadable as error:
            return (ReassignmentRequested({}, node.stat.version, (error.as_fact(),)),)
        return (ReassignmentRequested(targets, node.stat.version),)

    async def _preferred_election(self) -> tuple[PreferredElectionRequested]:
        node = await self._get(layout.PREFERRED_ELECTION)
        if node is None:
            return (PreferredElectionRequested(()),)
        try:
            partitions = layout.decode_partition_list(layout.PREFERRED_ELECTION, node.data)
        except Unreadable as error:
            return (PreferredElectionRequested((), node.stat.version, (error.as_fact(),)),)
        return (PreferredElectionRequested(partitions, node.stat.version),)

    async def _producer_ids(self, unreadable: list[UnreadableNode]) -> ProducerIdBlock | None:
        try:
            return layout.decode_producer_id_block(await self.store.get(layout.PRODUCER_ID_BLOCK))
        except NoNode:
            return None
        except Unreadable as error:
            unreadable.append(error.as_fact())
            return None

    async def _pending_deletions(
        self, unreadable: list[UnreadableNode]
    ) -> dict[BrokerId, dict[TopicPartition, TopicId]]:
        try:
            names = await self.store.children(pending_deletions.ROOT)
        except NoNode:  # nobody ever left any
            return {}
        brokers = [broker for name in names if (broker := layout.broker_id_of(name)) is not None]
        nodes = await self.store.get_many(
            [pending_deletions.pending_deletions_path(broker) for broker in brokers]
        )
        found = {}
        for broker, node in zip(brokers, nodes, strict=True):
            try:
                if node is not None:
                    found[broker] = pending_deletions.decode_pending_deletions(broker, node.data)
            except Unreadable as error:
                unreadable.append(error.as_fact())
        return found

    # ---- notifications

    async def _isr_changes(self) -> tuple[IsrChangeNotified] | tuple[()]:
        unreadable: list[UnreadableNode] = []
        partitions: dict[TopicPartition, None] = {}
        for path, data in await self._take_notifications(layout.ISR_CHANGES):
            try:
                partitions.update(dict.fromkeys(layout.decode_isr_change(path, data)))
            except Unreadable as error:
                unreadable.append(error.as_fact())
        if not partitions and not unreadable:
            return ()
        states = await self._read_states(sorted(partitions), unreadable)
        return (IsrChangeNotified(states, tuple(unreadable)),)

    async def _log_dir_events(self) -> tuple[LogDirFailed] | tuple[()]:
        brokers = set()
        for path, data in await self._take_notifications(layout.LOG_DIR_EVENTS):
            try:
                brokers.add(layout.decode_log_dir_event(path, data))
            except Unreadable:
                # It names no broker, so nobody's replicas can be looked after; it was deleted, as Apache does.
                continue
        return (LogDirFailed(tuple(sorted(brokers))),) if brokers else ()

    async def _take_notifications(self, root: str) -> list[tuple[str, bytes]]:
        """Read and delete. Deleted before it is acted upon: should we die in between, our successor reads
        everything anyway, and asks every broker for all its replicas."""
        names = await _names_below(self.store, root)
        paths = [f"{root}/{name}" for name in names]
        nodes = await self.store.get_many(paths)
        if paths:
            await self.store.write([remove_notifications(paths)], self._fence)
        return [(path, node.data) for path, node in zip(paths, nodes, strict=True) if node is not None]

    async def _config_changes(self) -> list[Fact]:
        facts = await self._configs.read()
        await self._configs.forget_old()
        return facts


async def read_metadata(store: Store) -> MetadataLoaded:
    """Everything, once, for a question."""
    facts = ControllerFacts(store, wake=lambda: None)
    try:
        return await facts.load(None)
    finally:
        facts.stop()


def _for_a_turn(topics: Iterable[TopicAssignment]) -> Iterator[list[TopicAssignment]]:
    """All of them, some at a time: together of PARTITIONS_A_TURN or more."""
    some: list[TopicAssignment] = []
    left = PARTITIONS_A_TURN
    for topic in topics:
        some.append(topic)
        left -= len(topic.partitions)
        if left <= 0:
            yield some
            some, left = [], PARTITIONS_A_TURN
    if some:
        yield some


def _partitions(topics: Iterable[TopicAssignment]) -> list[TopicPartition]:
    return [TopicPartition(topic.topic, partition) for topic in topics for partition in topic.partitions]
