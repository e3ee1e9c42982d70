"""Where the metadata comes from that a question is put to. Nothing is written, nobody is told of anything.

- any Kafka cluster, by Metadata, DescribeConfigs and ListPartitionReassignments (`--bootstrap`);
- the store of a cluster of ours, also while no broker runs (`--store`);
- the journal of its controllers, at its end or at a point in time (`--journal`, `--at`).

What such a source cannot know is said in `unknown`, one sentence each.
"""

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from odradek.cli.output import Failed, bootstrap_option, fail
from odradek.cli.silent_brokers import silent_brokers, taken_to_live
from odradek.model.counted import first_of

if TYPE_CHECKING:
    from odradek.advisor.what_if import PartitionOutcome
    from odradek.cli.journal.files import History
    from odradek.cli.store_places import Tree
    from odradek.client.sync import ClusterView, SyncClient
    from odradek.controller.context import ControllerContext, ControllerSettings
    from odradek.model.cluster import ReplicaAssignment, TopicConfig
    from odradek.model.error_codes import ErrorCode
    from odradek.model.facts import MetadataLoaded
    from odradek.model.ids import BrokerId, TopicPartition
    from odradek.store.api import Node, Stat

T = TypeVar("T")

# What the controller's decisions depend on.
READ_SETTINGS = ("min.insync.replicas", "unclean.leader.election.enable")
THROTTLED = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
MOST_RESOURCES = 500  # in one DescribeConfigs
SHOWN_NAMES = 5  # of those that are answered the same error
# Longer than a fail-over; a cluster that has none for so long is described without what only a controller knows.
CONTROLLER_PATIENCE_S = 2.0
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
DYNAMIC_TOPIC, DYNAMIC_BROKER, DYNAMIC_DEFAULT = 1, 2, 3  # of DescribeConfigs' sources


@dataclass(frozen=True)
class Source:
    """A cluster's metadata, and what is known of where it comes from."""

    where: str
    snapshot: "MetadataLoaded"
    controller: int | None
    now_ms: int
    settings: "ControllerSettings | None" = None
    unknown: tuple[str, ...] = ()
    offline_directories: "Mapping[int, frozenset[TopicPartition]]" = field(default_factory=dict)
    knows_eligible: bool = False  # eligible leader replicas (KIP-966), which Metadata does not name
    replayed: "ControllerContext | None" = None  # what the controller of a journal remembered
    silent: Mapping[int, str] = field(
        default_factory=dict
    )  # live brokers that gave this client no answer, and why
    answering: str = ""  # a bootstrap of those that did

    def observed(self) -> "ControllerContext":
        """As it is, nothing decided: for "why"."""
        from odradek.advisor.observed import observed_context
        from odradek.model.ids import BrokerId

        if self.replayed is not None:
            return self.replayed
        me = None if self.controller is None else BrokerId(self.controller)
        context = observed_context(self.snapshot, self.settings, controller=me, now_ms=self.now_ms)
        for broker, partitions in self.offline_directories.items():
            context.offline_directories[BrokerId(broker)] = partitions
        return context

    def counted_on(self, outcomes: "Iterable[PartitionOutcome]") -> "set[BrokerId]":
        """The silent ones that then lead one of these partitions, or without which fewer than min.insync.replicas are in sync."""
        return {
            broker
            for outcome in outcomes
            for broker in outcome.isr_after
            if broker in self.silent
            and (
                broker == outcome.leader_after
                or len(outcome.isr_after) - len(self.silent.keys() & {*outcome.isr_after})
                < outcome.min_insync_replicas
            )
        }

    def not_known(self, counted_on: Iterable[int]) -> list[str]:
        """What an answer leaves open that counts on these brokers."""
        return [
            *(
                taken_to_live(broker, self.silent[broker])
                for broker in sorted(self.silent.keys() & {*counted_on})
            ),
            *self.unknown,
        ]

    def eligible_not_known(
        self, now: "ControllerContext", partitions: "Iterable[tuple[TopicPartition, Collection[int]]]"
    ) -> list[str]:
        """A sentence about those of `partitions` with whose leader it makes a difference if a replica outside the ISR is eligible.
        Beside each stand the replicas that could be."""
        names = [
            where
            for where, replicas in partitions
            if (state := now.leadership(where)) is not None
            and len(state.isr) < now.effective_min_isr(where)
            and not {*replicas} <= {*state.isr}
        ]
        if self.knows_eligible or not names:
            return []
        return [
            f"which replicas outside the ISR are eligible to lead {first_of(names, SHOWN_NAMES)} without loss (KIP-966), which Metadata "
            "does not say: before an unclean election start the brokers that are away; of a cluster of ours --store knows it"
        ]

    def decided(self) -> "ControllerContext":
        """A controller has taken over: for "what if"."""
        from odradek.advisor.what_if import context_of
        from odradek.model.ids import BrokerId

        if self.replayed is not None:
            return self.replayed
        me = None if self.controller is None else BrokerId(self.controller)
        failed = {BrokerId(broker): lost for broker, lost in self.offline_directories.items()}
        return context_of(self.snapshot, self.settings, me, failed)


def source_options(command: Any) -> Any:
    """--bootstrap, --store, --journal, --at: the verb gets them as one keyword argument each."""
    for option in (
        click.option(
            "--at",
            metavar="TIME",
            help="With --journal: as it was then, as in 2026-01-31T12:00:00 (UTC) or ms.",
        ),
        click.option(
            "--journal",
            type=click.Path(path_type=Path),
            help="A controller's journal, or a directory or properties that lead to one.",
        ),
        click.option(
            "--store",
            "place",
            type=click.Path(path_type=Path),
            help="The store's file, its directory, or a broker's properties, instead of a broker.",
        ),
    ):
        command = option(command)
    return bootstrap_option(command)


def open_source(*, bootstrap: str, place: Path | None, journal: Path | None, at: str | None) -> Source:
    if place is not None and journal is not None:
        raise click.UsageError("--store and --journal are two sources; name one")
    if at is not None and journal is None:
        raise click.UsageError("--at needs --journal: only a journal knows what was before")
    if journal is not None:
        return from_journal(journal, at)
    return from_cluster(bootstrap) if place is None else from_store(place)


def now_ms() -> int:
    import time

    return int(time.time() * 1000)


# ------------------------------------------------------------------------------------------------ a live cluster


def from_cluster(bootstrap: str) -> Source:
    from odradek.client.sync import SyncClient

    with SyncClient(bootstrap) as client:
        view = client.cluster()
        # First, and all together: what is asked of one that hangs is waited for in vain, question by question.
        silent = silent_brokers(client, view.brokers)
        with client.waiting_once(silent):
            source = source_of(client, view, bootstrap)
    answering = ",".join(str(known.address) for b, known in view.brokers.items() if b not in silent)
    return replace(source, silent=silent, answering=answering or bootstrap)


def source_of(client: "SyncClient", view: "ClusterView", where: str) -> Source:
    unknown = [f"topic {name} is left out: {code.name}" for name, code in sorted(view.errors.items())]
    moving = running_reassignments(client, unknown)
    gone, failed = _offline(client, view)
    view = view._replace(brokers={b: known for b, known in view.brokers.items() if b not in gone})
    settings, topics, brokers = _configurations(client, view, unknown)
    return Source(
        where,
        snapshot_of(view, topics, brokers, moving),
        view.controller_id if view.controller_id in view.brokers else None,
        now_ms(),
        settings,
        tuple(unknown),
        failed,
    )


def refreshed_source(client: "SyncClient", where: str, before: "MetadataLoaded | None") -> Source:
    """The source read again by a poller: settings are read the first time, and carried in the snapshot."""
    from odradek.controller.context import CLUSTER_DEFAULT
    from odradek.model.error_codes import ErrorCode

    if before is None:
        first = source_of(client, client.cluster(), where)
        assert first.settings is not None
        below = {
            "min.insync.replicas": str(first.settings.min_insync_replicas),
            "unclean.leader.election.enable": str(first.settings.unclean_leader_election_enable).lower(),
        }
        given = dict(first.snapshot.broker_configs)
        given[CLUSTER_DEFAULT] = {**below, **given.get(CLUSTER_DEFAULT, {})}
        return replace(first, snapshot=replace(first.snapshot, broker_configs=given))
    view = client.cluster()
    gone, _ = _offline(client, view)
    view = view._replace(brokers={b: known for b, known in view.brokers.items() if b not in gone})
    unknown: list[str] = []
    moving = running_reassignments(client, unknown)
    if unknown:
        moving = _still_moving(view, before)
    snapshot = snapshot_of(view, before.topic_configs, before.broker_configs, moving)
    gone_codes = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
    unanswered = {name: code for name, code in sorted(view.errors.items()) if code not in gone_codes}
    notes = tuple(f"topic {name} is taken as it was: {code.name}" for name, code in unanswered.items())
    controller = view.controller_id if view.controller_id in view.brokers else None
    return Source(where, _as_before(snapshot, before, unanswered.keys()), controller, now_ms(), unknown=notes)


def _as_before(snapshot: "MetadataLoaded", before: "MetadataLoaded", names: Set[str]) -> "MetadataLoaded":
    """`snapshot` with the topics of `names` as they were: Metadata answered an error about each, which does not say that it is gone."""
    from odradek.model.values import replace

    kept = [topic for topic in before.topics if topic.topic in names]
    if not kept:
        return snapshot
    topics = sorted((*snapshot.topics, *kept), key=lambda topic: topic.topic)
    states = {tp: state for tp, state in before.states.items() if tp.topic in names}
    return replace(snapshot, topics=tuple(topics), states={**snapshot.states, **states})


def _still_moving(view: "ClusterView", before: "MetadataLoaded") -> "dict[TopicPartition, ReplicaAssignment]":
    """What ran when a controller last answered and whose replicas are the same: a fail-over ends no reassignment."""
    from odradek.model.ids import TopicPartition

    return {
        TopicPartition(known.topic, index): node
        for known in before.topics
        if known.topic in view.topics
        for index, node in known.partitions.items()
        if (node.adding_replicas or node.removing_replicas)
        and (seen := view.topics[known.topic].partitions.get(index)) is not None
        and seen.replicas == tuple(node.replicas)
    }


def _offline(
    client: "SyncClient", view: "ClusterView"
) -> "tuple[set[int], dict[int, frozenset[TopicPartition]]]":
    """Brokers that are named and gone, and replicas that a live broker has lost with a log directory, or as damaged (KIP-112).

    Metadata names a broker of ours a moment longer than it lives, and calls all its replicas offline. So may those of one that
    lives be, of few replicas: such a one is asked.
    """
    from odradek.model.ids import TopicPartition

    lost: dict[int, set[TopicPartition]] = {}
    has_some = set()
    for name, topic in view.topics.items():
        for index, partition in topic.partitions.items():
            for broker in partition.replicas:
                if broker in partition.offline_replicas:
                    lost.setdefault(broker, set()).add(TopicPartition(name, index))
                else:
                    has_some.add(broker)
    doubtful = sorted(broker for broker in lost if broker not in has_some and broker in view.brokers)
    gone = set(silent_brokers(client, doubtful)) if doubtful else set()
    failed = {b: frozenset(found) for b, found in lost.items() if b in view.brokers and b not in gone}
    return gone, failed


def running_reassignments(
    client: "SyncClient", unknown: list[str]
) -> "dict[TopicPartition, ReplicaAssignment]":
    """Replicas, adding and removing of each; a cluster that does not say is noted in `unknown`."""
    from odradek.cli.controller_calls import ask_controller
    from odradek.client.sync import answered
    from odradek.client.sync_connection import ConnectionLost
    from odradek.model.cluster import ReplicaAssignment
    from odradek.model.error_codes import ErrorCode
    from odradek.model.errors import ProtocolError
    from odradek.model.ids import BrokerId, TopicPartition
    from odradek.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

    def ids(brokers: list[int]) -> tuple[BrokerId, ...]:
        return tuple(BrokerId(broker) for broker in brokers)

    try:
        request = ListPartitionReassignmentsRequest(topics=None)
        answer = ask_controller(client, request, lambda a: (a.error_code,), patience_s=CONTROLLER_PATIENCE_S)
        if answer.error_code != ErrorCode.NONE:
            raise answered(answer.error_code, "reassignments", answer.error_message)
    except (ConnectionLost, Failed) as error:
        unknown.append(f"whether reassignments run: {error}")
        return {}
    except ProtocolError as error:
        unknown.append(
            f"whether reassignments run: ListPartitionReassignments was answered {error.code.name}"
        )
        return {}
    return {
        TopicPartition(topic.name, p.partition_index): ReplicaAssignment(
            ids(p.replicas), ids(p.adding_replicas), ids(p.removing_replicas)
        )
        for topic in answer.topics
        for p in topic.partitions
    }


def _configurations(
    client: "SyncClient", view: "ClusterView", unknown: list[str]
) -> "tuple[ControllerSettings, dict[str, TopicConfig], dict[str, dict[str, str]]]":
    """The settings that decide, each at the level where it is set: broker's file, cluster, broker, topic."""
    from odradek.client.sync import ANY
    from odradek.client.sync_connection import NO_ANSWER
    from odradek.controller.context import CLUSTER_DEFAULT, ControllerSettings
    from odradek.model.cluster import TopicConfig

    topics: dict[str, TopicConfig] = {}
    names = sorted(view.topics)
    for begin in range(0, len(names), MOST_RESOURCES):
        some = names[begin : begin + MOST_RESOURCES]
        for name, entries in describe_configs(client, ANY, TOPIC_RESOURCE, some, unknown).items():
            topics[name] = TopicConfig(
                {key: value or "" for key, value, source in entries if source == DYNAMIC_TOPIC}
            )
    asked, found = -1, {}
    for asked in sorted(view.brokers, key=lambda broker: (broker != view.controller_id, broker)):
        try:
            found = describe_configs(client, asked, BROKER_RESOURCE, [str(asked)], unknown)
            break
        except NO_ANSWER as error:
            # Of a controller that hangs one asks most.
            unknown.append(
                f"the settings of broker {asked}, which may be others than the next one's: {error}"
            )
    values: dict[str, str] = {}
    dynamic: dict[str, dict[str, str]] = {str(asked): {}, CLUSTER_DEFAULT: {}}
    for key, value, source in found.get(str(asked), []):
        if key not in READ_SETTINGS:
            continue
        if source in (DYNAMIC_BROKER, DYNAMIC_DEFAULT):
            dynamic[str(asked) if source == DYNAMIC_BROKER else CLUSTER_DEFAULT][key] = value or ""
        else:
            values[key] = value or ""
    settings = ControllerSettings(
        min_insync_replicas=int(values.get("min.insync.replicas") or 1),
        unclean_leader_election_enable=values.get("unclean.leader.election.enable") == "true",
    )
    return settings, topics, {level: config for level, config in dynamic.items() if config}


def describe_configs(
    client: "SyncClient",
    broker: int,
    resource_type: int,
    names: list[str],
    unknown: list[str],
    *,
    timeout_s: float | None = None,
) -> dict[str, list[tuple[str, str | None, int]]]:
    """(name, value, source) of the settings that decide; a refusal is noted, the rest is used. Of ANY one that does not answer is passed
    over for another."""
    from odradek.client.sync import ANY, code_of
    from odradek.model.error_codes import ErrorCode
    from odradek.model.errors import ProtocolError
    from odradek.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource

    keys = [*READ_SETTINGS, *THROTTLED] if resource_type == TOPIC_RESOURCE else list(READ_SETTINGS)
    resources = [
        DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=keys)
        for name in names
    ]
    request = DescribeConfigsRequest(resources=resources)
    try:
        answer = (
            client.of_any(
                lambda connection, told: told(request, connection.version_for(DescribeConfigsRequest)),
                timeout_s=timeout_s,
            )
            if broker == ANY
            else client.call(broker, request, timeout_s=timeout_s)
        )
        results = answer.results
    except ProtocolError as error:
        said = refusal(error.code, resource_type)
        unknown.append(f"min.insync.replicas is taken as 1: DescribeConfigs was answered {said}")
        return {}
    found = {}
    refused: dict[str, list[str]] = {}
    for result in results:
        if result.error_code != ErrorCode.NONE:
            said = refusal(code_of(result.error_code), resource_type, result.error_message)
            refused.setdefault(said, []).append(result.resource_name)
            continue
        found[result.resource_name] = [(e.name, e.value, e.config_source) for e in result.configs]
    what = "topic" if resource_type == TOPIC_RESOURCE else "broker"
    for said, whose in refused.items():
        plural = "s" if len(whose) > 1 else ""
        unknown.append(f"the settings of {what}{plural} {first_of(whose, SHOWN_NAMES)}: {said}")
    return found


def refusal(code: "ErrorCode", resource_type: int, message: str | None = None) -> str:
    """What DescribeConfigs was answered, and the right that a client lacks who may not ask."""
    from odradek.model.error_codes import ErrorCode

    said = f"{code.name}, {message}" if message else code.name
    if code not in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
        return said
    where = "the topic" if resource_type == TOPIC_RESOURCE else "the cluster"
    return f"{said}; this client lacks the right DescribeConfigs on {where}"


def snapshot_of(
    view: "ClusterView",
    topic_configs: "Mapping[str, TopicConfig]",
    broker_configs: Mapping[str, Mapping[str, str]],
    moving: "Mapping[TopicPartition, ReplicaAssignment]",
) -> "MetadataLoaded":
    """What Metadata says, in the form a controller loads. Store versions are made up: nothing is written."""
    from odradek.model.cluster import BrokerRegistration, Endpoint, LeaderAndIsr, ReplicaAssignment
    from odradek.model.facts import MetadataLoaded, StoredPartitionState, TopicAssignment
    from odradek.model.ids import (
        NO_TOPIC_ID,
        BrokerEpoch,
        BrokerId,
        ControllerEpoch,
        LeaderEpoch,
        PartitionEpoch,
        TopicId,
        TopicPartition,
    )

    def ids(brokers: tuple[int, ...]) -> tuple[BrokerId, ...]:
        return tuple(BrokerId(broker) for broker in brokers)

    brokers = tuple(
        BrokerRegistration(
            BrokerId(broker.broker_id),
            BrokerEpoch(0),
            (Endpoint("PLAINTEXT", "PLAINTEXT", broker.address.host, broker.address.port),),
            broker.rack,
        )
        for broker in sorted(view.brokers.values())
    )
    topics, states = [], {}
    for name in sorted(view.topics):
        topic = view.topics[name]
        # A cluster without topic ids gets none here either; the controller gives it one in its own memory.
        topic_id = TopicId(topic.topic_id) if topic.topic_id != NO_TOPIC_ID else None
        assignments = {
            index: moving.get(TopicPartition(name, index)) or ReplicaAssignment(ids(p.replicas))
            for index, p in topic.partitions.items()
        }
        topics.append(TopicAssignment(name, topic_id, assignments))
        for index, p in topic.partitions.items():
            epoch = LeaderEpoch(max(p.leader_epoch, 0))
            states[TopicPartition(name, index)] = StoredPartitionState(
                LeaderAndIsr(BrokerId(p.leader), epoch, ids(p.isr), PartitionEpoch(0)), ControllerEpoch(1)
            )
    return MetadataLoaded(
        brokers, tuple(topics), states, dict(topic_configs), broker_configs={**broker_configs}
    )


# -------------------------------------------------------------------------------------------------- the store


def from_store(place: Path) -> Source:
    """`place` as for `odradek store`; a broker's properties also give the defaults topics fall back to.

    Read as a controller reads that takes over, so a node that cannot be read takes its topic out of service.
    """
    from odradek.cli.store_places import ended_sessions, place_of, properties_in, reading
    from odradek.controller.context import ControllerSettings
    from odradek.model.settings import BrokerSettings
    from odradek.store import layout
    from odradek.store.api import NoNode
    from odradek.store.facts import read_metadata
    from odradek.store.fields import Unreadable

    properties = place if place.suffix == ".properties" else None
    if place.is_dir():
        properties = next(iter(sorted(place.glob("broker-*/server.properties"))), None)
    settings = BrokerSettings(properties_in(properties) if properties else {})
    opened = place_of(place, None)
    with reading(opened) as tree:
        ended = ended_sessions(opened, tree)
        snapshot = _finished(read_metadata(_AtOnce(tree, ended)))  # type: ignore[arg-type]
        unreadable = [(node.path, node.reason) for node in snapshot.unreadable]
        controller = None
        try:
            node = tree.get(layout.CONTROLLER)
            if node.stat.ephemeral_owner not in ended:
                controller = layout.decode_controller(node.data)
        except NoNode:
            pass  # nobody is
        except Unreadable as error:
            unreadable.append((error.path, error.reason))
    unknown = tuple(f"{path} cannot be read: {reason}" for path, reason in unreadable)
    return Source(
        f"the store {place}",
        snapshot,
        controller,
        now_ms(),
        ControllerSettings.of(settings),
        unknown,
        knows_eligible=True,
    )


class _AtOnce:
    """A tree one may only read, as the store the facts are read from: nothing waits, nothing is watched. Of the sessions in
    `ended` no broker is registered."""

    def __init__(self, tree: "Tree", ended: Set[int]) -> None:
        self._tree = tree
        self._ended = ended

    def listen(self, **_heard: Any) -> Callable[[], None]:
        return lambda: None

    async def get(self, path: str, watch: bool = False) -> "Node":
        return self._tree.get(path)

    async def exists(self, path: str, watch: bool = False) -> "Stat | None":
        return self._tree.exists(path)

    async def children(self, path: str, watch: bool = False) -> list[str]:
        from odradek.store import layout
        from odradek.store.api import NoNode

        try:
            names = self._tree.children(path)
        except NoNode:  # a store no broker of ours has prepared
            return []
        if not self._ended or path != layout.BROKER_IDS:
            return names
        nodes = self._tree.get_many([f"{path}/{name}" for name in names])
        return [
            name
            for name, node in zip(names, nodes, strict=True)
            if node is None or node.stat.ephemeral_owner not in self._ended
        ]

    async def get_many(self, paths: Sequence[str], watch: bool = False) -> "list[Node | None]":
        return self._tree.get_many(paths)


def _finished(work: "Coroutine[Any, Any, T]") -> T:
    """The result of a coroutine that never waits; what is long lets others have their turn now and then, of whom there are none."""
    try:
        while work.send(None) is None:
            pass
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("a read of what is at hand cannot wait")


# ------------------------------------------------------------------------------------------------ a journal


def from_journal(place: Path, at: str | None) -> Source:
    """What the controller remembered at the end of its journal, or at that time."""
    from odradek.advisor.replay import replay
    from odradek.cli.journal.files import properties_of, read_history, settings_of
    from odradek.cli.observations import is_observed
    from odradek.model.facts import MetadataLoaded

    history = read_history(place)
    until = None if at is None else parse_time(at)
    if is_observed(history.lines):
        return _from_observed(history, place, at, until)
    settings = settings_of(history)
    notes = history.notes
    if properties_of(history) is None:
        notes += (
            "the settings of the controller: defaults are taken; --journal with its server.properties has them",
        )
    _, core = replay(history.lines, settings=settings, until_ms=until)
    # Without --at it is asked now: who has not answered since the last line has waited until now.
    when = now_ms() if until is None else until
    if core.context is None:
        from odradek.pictures.figures import clock

        begins = clock(history.lines[0]["at_ms"])
        fail(f"no broker was controller at {at or 'the end of the journal'}; the journal begins {begins} UTC")
    return Source(
        f"the journal {place} at {at or 'its end'}",
        MetadataLoaded((), (), {}),
        core.context.broker,
        when,
        settings,
        notes,
        knows_eligible=True,
        replayed=core.context,
    )


def _from_observed(history: "History", place: Path, at: str | None, until: int | None) -> Source:
    """A journal of looks from outside: the cluster as the last of them saw it."""
    from odradek.cli.observations import snapshot_at

    snapshot = snapshot_at(history.lines, until)
    if snapshot is None:
        fail(f"no observation of the cluster was recorded at {at}")
    seen = list(takewhile(lambda line: until is None or line["at_ms"] <= until, history.lines))
    controller = seen[-1].get("controller", -1)
    notes = (
        *history.notes,
        "what happened between two polls of `journal record`",
        "settings that were changed since its first poll, and those of topics made since",
    )
    when = now_ms() if until is None else until
    live = {b.broker_id for b in snapshot.brokers}
    return Source(
        f"the journal {place} at {at or 'its end'}",
        snapshot,
        controller if controller in live else None,
        when,
        unknown=notes,
    )


def parse_time(text: str) -> int:
    """Milliseconds since 1970, or a date with a time; without a zone it is UTC."""
    from datetime import datetime

    from odradek.cli.topic.offsets import ms_of

    try:
        if text.isdecimal():
            return int(text)
        return ms_of(datetime.fromisoformat(text))
    except ValueError:
        raise click.UsageError(
            f"{text}: expected a time as in 2026-01-31T12:00:00, or milliseconds"
        ) from None
