"""What the controller has told this broker of the cluster: live brokers, topics, leaders (UpdateMetadata).

Each UpdateMetadata REPLACES the list of live brokers, and merges the partitions it names; leader -2 takes a
partition out, and so does a full request that does not name it (decisions/0068). So a broker is known exactly as long as
the newest request names it, a topic until it is deleted. Nothing else is remembered of a topic: a broker that starts is
told everything (row 103).

A new controller first names the brokers alone, and the partitions once its first writes are stored. So a broker that has
just started, in a cluster with topics, does not take the first of these requests for the whole.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from odradek.model.cluster import Endpoint
from odradek.model.ids import (
    LEADER_DURING_DELETE,
    NO_TOPIC_ID,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from odradek.protocol.messages.update_metadata import (
    FULL,
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)

# A cluster whose topics were all deleted while this broker started: from then on it believes that there are none.
TOPICS_EXPECTED_MS = 30_000
NEVER_MS = 1 << 62

_new = tuple.__new__

SECURITY_PROTOCOLS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}


class LiveBroker(NamedTuple):
    broker: BrokerId
    endpoints: dict[str, Endpoint]  # by listener name
    rack: str | None


class PartitionMetadata(NamedTuple):
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: list[int]
    replicas: list[int]
    offline_replicas: list[int]
    partition_epoch: PartitionEpoch
    controller_epoch: ControllerEpoch


class MetadataChange(NamedTuple):
    """What one UpdateMetadata changed, for those who wait or connect."""

    topics: tuple[str, ...]  # named in it, or not any more
    gone: frozenset[str]  # deleted; another one may have the name by now
    brokers_changed: bool  # somebody came, went, or moved to another address


class MetadataCache:
    """`epoch` grows with each change, so that encoded answers can be kept while it stands."""

    def __init__(self, *, expects_topics: bool = False) -> None:
        """`expects_topics`: there were some when this broker started."""
        self.epoch = 0
        self._expects_topics = expects_topics
        self._knows_topics_from_ms = NEVER_MS
        # How often somebody was told that another broker leads: whoever hears it asks for Metadata.
        self.refusals = 0
        self.controller_id: BrokerId | None = None
        self.controller_epoch = ControllerEpoch(-1)  # of whoever told what stands here last
        self.brokers: dict[int, LiveBroker] = {}
        self.live_brokers: set[int] = (
            set()
        )  # Invariant: the keys of `brokers`; one object for ever, partitions hold it
        # Gone a moment ago, and still named to clients: see `departures`, which puts them in and out.
        self.departed: dict[int, LiveBroker] = {}
        self._told: list[tuple[Any, ...]] = []  # `brokers` as the newest request names them
        self._hints: dict[int, Endpoint] = {}  # of leaders not in `brokers` yet
        # Invariant: no topic without a partition. `names` is `topic_ids` the other way round, and both are of `topics`.
        self.topics: dict[str, dict[int, PartitionMetadata]] = {}
        self.topic_ids: dict[str, TopicId] = {}
        self.names: dict[bytes, str] = {}

    # --------------------------------------------------------------------------------------------- reading

    def endpoint(self, broker: int, listener: str) -> Endpoint | None:
        known = self.brokers.get(broker)
        return known.endpoints.get(listener) if known is not None else None

    @property
    def shown_brokers(self) -> dict[int, LiveBroker]:
        """Those named to clients."""
        return {**self.departed, **self.brokers} if self.departed else self.brokers

    def leader_endpoint(self, broker: int, listener: str) -> Endpoint | None:
        """For fetchers: as UpdateMetadata says, else as the LeaderAndIsr did that came before it."""
        return self.endpoint(broker, listener) or self._hints.get(broker)

    def partition(self, topic: str, index: int) -> PartitionMetadata | None:
        partitions = self.topics.get(topic)
        return partitions.get(index) if partitions is not None else None

    def topic_id(self, topic: str) -> TopicId:
        return self.topic_ids.get(topic, NO_TOPIC_ID)

    def knows_topics(self, now_ms: int) -> bool:
        """Whether a topic that is not here does not exist, as far as the controller has told."""
        return bool(self.brokers) and now_ms >= self._knows_topics_from_ms

    def has_leaders(self, topic: str, count: int) -> bool:
        """Every one of `count` partitions is known here with a leader."""
        partitions = self.topics.get(topic, {})
        return all(index in partitions and partitions[index].leader >= 0 for index in range(count))

    @property
    def partition_count(self) -> int:
        return sum(map(len, self.topics.values()))

    # --------------------------------------------------------------------------------------------- applying

    def hint_endpoint(self, broker: int, host: str, port: int, listener: str) -> None:
        """LeaderAndIsr names where the leaders are; the controller sends it before UpdateMetadata."""
        self._hints[broker] = Endpoint(listener, "PLAINTEXT", host, port)

    def commit_update(self, request: UpdateMetadataRequest, now_ms: int) -> MetadataChange:
        """Takes the request in. The caller has checked the controller's and our own epoch."""
        self.epoch += 1
        is_full = request.type == FULL
        if request.topic_states or request.ungrouped_partition_states or is_full:
            self._expects_topics = False
        patience_ms = TOPICS_EXPECTED_MS if self._expects_topics else 0
        self._knows_topics_from_ms = min(self._knows_topics_from_ms, now_ms + patience_ms)
        self.controller_id = BrokerId(request.controller_id) if request.controller_id >= 0 else None
        self.controller_epoch = ControllerEpoch(request.controller_epoch)
        brokers_changed = self._replace_brokers(request.live_brokers)
        self._hints.clear()
        topics: dict[str, None] = {}
        deleted: list[TopicPartition] = []
        replaced: set[str] = set()
        if is_full:
            deleted += self._forget_unnamed(request)
            topics.update(dict.fromkeys(partition.topic for partition in deleted))
        for topic, topic_id, states in _by_topic(request):
            topics[topic] = None
            if topic_id != NO_TOPIC_ID and self.topic_ids.get(topic) != topic_id:
                # Another topic of the same name: what we knew belongs to the old one.
                if topic in self.topic_ids:  # else it may be the same, which has an id now
                    replaced.add(topic)
                self._forget(topic)
                self.topic_ids[topic] = topic_id
                self.names[topic_id] = topic
            partitions = self.topics.setdefault(topic, {})
            for state in states:
                index = state.partition_index
                if state.leader == LEADER_DURING_DELETE:
                    if partitions.pop(index, None) is not None:
                        deleted.append(TopicPartition(topic, index))
                    continue
                # Of each partition of the cluster, so without a call for each of its numbers.
                partitions[index] = _new(
                    PartitionMetadata,
                    (
                        state.leader,
                        state.leader_epoch,
                        state.isr,
                        state.replicas,
                        state.offline_replicas,
                        state.zk_version,
                        state.controller_epoch,
                    ),
                )
            if not partitions:
                self._forget(topic)
        gone = {partition.topic for partition in deleted if partition.topic not in self.topics}
        return MetadataChange(tuple(topics), frozenset(replaced | gone), brokers_changed)

    def _replace_brokers(self, told: Sequence[UpdateMetadataBroker]) -> bool:
        as_told = [_as_told(broker) for broker in told]
        if as_told == self._told:
            return False  # mostly
        brokers = {known.broker: known for known in map(_live_broker, told)}
        self._told = as_told
        if brokers == self.brokers:
            return False
        self.brokers = dict(sorted(brokers.items()))
        self.live_brokers.clear()
        self.live_brokers.update(brokers)
        return True

    def _forget_unnamed(self, request: UpdateMetadataRequest) -> list[TopicPartition]:
        """What a full request does not name was deleted while nobody could tell us."""
        named = {
            (topic, state.partition_index) for topic, _, states in _by_topic(request) for state in states
        }
        gone = [
            TopicPartition(topic, index)
            for topic, partitions in self.topics.items()
            for index in partitions
            if (topic, index) not in named
        ]
        for topic, index in gone:
            del self.topics[topic][index]
            if not self.topics[topic]:
                self._forget(topic)
        return gone

    def _forget(self, topic: str) -> None:
        self.topics.pop(topic, None)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.names.pop(topic_id, None)


def _as_told(broker: UpdateMetadataBroker) -> tuple[Any, ...]:
    places = [(place.port, place.host, place.listener, place.security_protocol) for place in broker.endpoints]
    return broker.id, broker.rack, broker.v0_host, broker.v0_port, places


def _live_broker(told: UpdateMetadataBroker) -> LiveBroker:
    endpoints = {}
    for place in told.endpoints:
        protocol = SECURITY_PROTOCOLS.get(place.security_protocol, "PLAINTEXT")
        listener = place.listener or protocol  # before v3 the protocol is the name
        endpoints[listener] = Endpoint(listener, protocol, place.host, place.port)
    if not told.endpoints and told.v0_host:
        endpoints["PLAINTEXT"] = Endpoint("PLAINTEXT", "PLAINTEXT", told.v0_host, told.v0_port)
    return LiveBroker(BrokerId(told.id), endpoints, told.rack)


def _by_topic(
    request: UpdateMetadataRequest,
) -> Iterator[tuple[str, TopicId, Sequence[UpdateMetadataPartitionState]]]:
    for topic in request.topic_states:
        yield topic.topic_name, TopicId(bytes(topic.topic_id)), topic.partition_states
    for state in request.ungrouped_partition_states:
        yield state.topic_name, NO_TOPIC_ID, (state,)
