"""What the driver asks the cluster: which partitions there are, where they begin and end, what was lost.

Runs on the driver only. Executors are told exact ranges and ask for nothing but these.
"""

import difflib
import logging
import re
import time
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING

from odradek.client.sync import EARLIEST, LATEST, OffsetAndEpoch, SyncClient, TopicView
from odradek.client.sync_connection import ConnectionLost, DeadlineExceeded, Unreachable
from odradek.client.sync_fetch import TopicRecreated, cut_off
from odradek.client.sync_log_sizes import log_sizes
from odradek.client.sync_timestamps import timestamps_at
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ConfigurationError, ProtocolError
from odradek.model.ids import NO_TOPIC_ID, TopicId, TopicPartition, topic_id_to_text
from odradek.model.topic_names import GROUPS_TOPIC
from odradek.spark import data_loss
from odradek.spark import options as names
from odradek.spark.offsets import Offsets, Place
from odradek.spark.options import PerPartition, SourceOptions

if TYPE_CHECKING:
    from odradek.spark.pushed_filters import Wanted
    from odradek.spark.transaction_boundaries import Boundaries

NOTHING = Offsets({}, {})
NOWHERE = Place(0)
BEGINNING = Place(0)
SIZES_LAST_S = 60.0
MOST_AGES = 32  # partitions asked in one batch how old what they still hold is: some 0.3 ms each
logger = logging.getLogger(__name__)


def is_another_topic(topic: str, before: Offsets, now: Offsets) -> bool:
    """Whether the name means another topic now; without ids (before Kafka 2.8) nobody can tell."""
    old, new = (offsets.topic_ids.get(topic, NO_TOPIC_ID) for offsets in (before, now))
    return NO_TOPIC_ID not in (old, new) and old != new


def is_same_topic(topic: str, before: Offsets, now: Offsets) -> bool:
    old, new = (offsets.topic_ids.get(topic, NO_TOPIC_ID) for offsets in (before, now))
    return old == new != NO_TOPIC_ID


def existing_topic(client: SyncClient, name: str, option: str) -> TopicView:
    """The topic as it is now; ConfigurationError says which option names one that is not there."""
    try:
        return client.topic(name)
    except ProtocolError as error:
        if error.code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
            raise
    near = difflib.get_close_matches(name, client.cluster().topics, n=1)
    hint = f"did you mean {near[0]}?" if near else "create it first, or name another"
    raise ConfigurationError(
        f"{option} names the topic {name}, and the cluster has none of that name; {hint}"
    )


def topic_to_write(client: SyncClient, name: str, option: str) -> TopicView:
    """As `existing_topic`, of one that rows go into. Brokers take no records of clients for their own (INVALID_TOPIC_EXCEPTION)."""
    topic = existing_topic(client, name, option)
    if topic.is_internal:
        raise ConfigurationError(
            f"{option}: the topic {name} is of the brokers, which take no records for it; rows need another"
        )
    return topic


def _refuse_others(option: str, named: Iterable[TopicPartition], partitions: list[TopicPartition]) -> None:
    read = frozenset(partitions)
    for partition in named:
        if partition not in read:
            raise ConfigurationError(
                f"{option} names {partition}, which is not among the partitions read: "
                f"{', '.join(str(p) for p in partitions)}"
            )


def _named(place: Place) -> str:
    known = f" in leader epoch {place.epoch}" if place.epoch >= 0 else ""
    return f"offset {place.offset}{known}"


class Subscription:
    """What a query reads, as the cluster sees it now; one client behind it."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._client: SyncClient | None = None
        self._boundaries: Boundaries | None = None
        # Where the epoch of a place ends in the log of a later leader: that does not change while that one leads.
        self._ends: dict[TopicPartition, tuple[Place, int, OffsetAndEpoch]] = {}
        self._told: set[str] = set()
        self._record_bytes: dict[TopicPartition, tuple[float, int]] = {}  # when that is too old, and what

    @property
    def client(self) -> SyncClient:
        if self._client is None:
            connection = self._options.connection
            self._client = SyncClient(
                connection.bootstrap,
                client_id=connection.client_id,
                request_timeout_s=connection.request_timeout_s,
            )
        return self._client

    @property
    def boundaries(self) -> "Boundaries":
        """Imported where it is asked for: it takes numpy."""
        if self._boundaries is None:
            from odradek.spark.transaction_boundaries import Boundaries

            self._boundaries = Boundaries(self.client, self._options.connection)
        return self._boundaries

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = self._boundaries = None

    def timestamps_at(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """As the client's, of the first `MOST_AGES`: for people to look at, so nothing fails where it cannot be told."""
        asked = dict(islice(offsets.items(), MOST_AGES))
        try:
            return timestamps_at(self.client, asked) if asked else {}
        except (ConnectionLost, DeadlineExceeded, Unreachable, ProtocolError) as error:
            logger.info("how old what is left to be read is, is not known: %s", error)
            return {}

    def partitions(self, seen: Offsets = NOTHING) -> tuple[dict[str, bytes], list[TopicPartition]]:
        """Topic ids and partitions that the subscription means now; it meant those of `seen` before."""
        options = self._options
        if options.pattern is not None:
            topics = self._matching(re.compile(options.pattern), seen)
        else:
            option, wanted = (
                ("subscribe", options.subscribe) if options.subscribe else ("assign", options.assign)
            )
            # One question for all of them; again, one by one and with patience, for those that are not there.
            found = self.client.cluster(wanted).topics
            topics = {
                name: found[name] if name in found else existing_topic(self.client, name, option)
                for name in wanted or ()
            }
        ids = {name: topic.topic_id for name, topic in topics.items()}
        if options.assign is None:
            return ids, sorted(TopicPartition(name, p) for name in topics for p in topics[name].partitions)
        for name, members in options.assign.items():
            missing = sorted(set(members) - set(topics[name].partitions))
            if missing:
                count = len(topics[name].partitions)
                raise ConfigurationError(
                    f"assign names partition {missing[0]} of {name}, which has {count}: 0 to {count - 1}"
                )
        return ids, sorted(TopicPartition(name, p) for name, ps in options.assign.items() for p in ps)

    def _matching(self, pattern: re.Pattern[str], seen: Offsets) -> dict[str, TopicView]:
        """A broker that has just started lists fewer topics than there are, and does not say so; nor does one that has lost its
        controller. So where there is none, and of those that were there before, somebody is asked by name."""
        listed = self.client.cluster().topics
        if not listed:
            self._asked_for(GROUPS_TOPIC)
            listed = self.client.cluster().topics
        topics = {
            name: topic for name, topic in listed.items() if pattern.fullmatch(name) and not topic.is_internal
        }
        for name in sorted({partition.topic for partition in seen.places} - topics.keys()):
            if pattern.fullmatch(name) and (topic := self._asked_for(name)) is not None:
                topics[name] = topic
        return topics

    def _asked_for(self, name: str) -> TopicView | None:
        """The topic; None where two say that there is none, of as many brokers as there are."""
        for _ in range(2):
            try:
                return self.client.topic(name)
            except ProtocolError as error:
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                self.client.forget(name)
        return None

    def start(self, *, default: str) -> Offsets:
        """Where the first read begins; timestamps go before offsets, as in Spark's connector."""
        ids, partitions = self.partitions()
        options = self._options
        if options.starting_timestamps is not None:
            places = self._at_timestamps(
                "startingOffsetsByTimestamp",
                partitions,
                options.starting_timestamps,
                latest_if_none=options.latest_without_timestamp,
            )
        else:
            places = self._at_offsets("startingOffsets", ids, partitions, options.starting or default)
        return Offsets(ids, places)

    def ends(self, start: Offsets) -> tuple[Offsets, Offsets]:
        """Where a batch read stops that begins at `start`, and where the logs end: it never stops beyond that."""
        options = self._options
        # Not of their leaders: what epochs somebody named is looked at by `standing`.
        read = Offsets(start.topic_ids, dict.fromkeys(start.places, NOWHERE))
        if options.ending_timestamps is None and options.ending in (None, names.LATEST):
            latest = self.latest(read)
            return latest, latest
        ids, partitions = read.topic_ids, sorted(read.places)
        if options.ending_timestamps is not None:
            wanted = self._at_timestamps(
                "endingOffsetsByTimestamp",
                partitions,
                options.ending_timestamps,
                latest_if_none=True,
                latest_if_unnamed=True,
            )
        else:
            wanted = self._at_offsets("endingOffsets", ids, partitions, options.ending or names.LATEST)
        latest = self.latest(read)
        ends = {p: self._not_beyond(p, wanted[p], latest.places[p]) for p in wanted if p in latest.places}
        return Offsets(ids, ends), latest

    def _not_beyond(self, partition: TopicPartition, wanted: Place, end: Place) -> Place:
        if wanted.offset <= end.offset:
            return Place(wanted.offset, end.epoch)
        whose = "the last stable offset is" if self._options.connection.read_committed else "its log ends at"
        self.lose(
            f"endingOffsets asks for {partition} up to offset {wanted.offset}, but {whose} {end.offset}",
            "reads up to there",
        )
        return end

    def latest(self, seen: Offsets = NOTHING) -> Offsets:
        """The end of what may be read now: the high watermark, or under read_committed the last stable offset.

        Answers of leaders older than those that `seen` is from are not taken, nor of a broker that has not heard of partitions of
        `seen`: they may know of less.
        """

        def ask() -> Offsets:
            ids, partitions = self.partitions(seen)
            self._refuse_fewer(seen, Offsets(ids, dict.fromkeys(partitions, NOWHERE)))
            now = Offsets(ids, self._places(dict.fromkeys(partitions, LATEST)))
            for partition, place in now.places.items():
                before = seen.places.get(partition, NOWHERE).epoch
                if 0 <= place.epoch < before and is_same_topic(partition.topic, seen, now):
                    raise ProtocolError(
                        ErrorCode.UNKNOWN_LEADER_EPOCH,
                        f"{partition}: this query knows leader epoch {before}, the cluster {place.epoch} only",
                    )
            return now

        return self.client.retrying(ask)

    def _refuse_fewer(self, seen: Offsets, now: Offsets) -> None:
        """A topic's partitions become more and never fewer. One that is left out would be new to the query when it is told of
        again, and read from its beginning."""
        for partition in sorted(seen.places.keys() - now.places.keys()):
            if self._options.assign is None and is_same_topic(partition.topic, seen, now):
                raise ProtocolError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"{partition}: this query has read it, and the cluster does not tell of it",
                )

    def standing(
        self, before: Offsets, now: Offsets, *, what: str = "has read up to"
    ) -> dict[TopicPartition, Place]:
        """Where reading goes on in the logs of `now`: where `before` was, unless these offsets are not there any more.

        Then it goes on where the log was cut, or at the beginning of another log; what was lost is raised or told.
        """
        places = {p: place for p, place in sorted(before.places.items()) if p in now.places}
        others = {topic for topic in {p.topic for p in places} if is_another_topic(topic, before, now)}
        for partition in places:
            if partition.topic in others:
                places[partition] = BEGINNING
        ends = self._ends_of(places, now)
        for partition, found in ends.items():
            place, epoch = places[partition], now.places[partition].epoch
            if cut := cut_off(OffsetAndEpoch(*place), found, epoch):
                places[partition] = Place(max(0, found.offset), epoch)
                self.lose(
                    f"{partition}: this query {what} {_named(place)}, but {cut}",
                    f"goes on at offset {places[partition].offset}",
                )
        for partition in self._beyond(places, now):
            place, end = places[partition], now.places[partition]
            places[partition] = end
            self.lose(
                f"{partition}: this query {what} {_named(place)}, but the log ends at {end.offset}",
                f"goes on at offset {end.offset}",
            )
        return places

    def _ends_of(
        self, places: Mapping[TopicPartition, Place], now: Offsets
    ) -> dict[TopicPartition, OffsetAndEpoch]:
        """Of the partitions that another leader leads now: where the epochs of the places end in its log (KIP-320)."""
        moved = {
            p: (place, now.places[p].epoch)
            for p, place in places.items()
            if place.epoch >= 0 and now.places[p].epoch not in (-1, place.epoch)
        }
        asked = {}
        for partition, (place, epoch) in moved.items():
            if epoch < place.epoch:
                # Epochs only rise while a topic lives, and `latest` does not believe an older leader of the same.
                self._ends[partition] = (place, epoch, OffsetAndEpoch(-1, -1))
            elif self._ends.get(partition, ())[:2] != (place, epoch):
                asked[partition] = place.epoch
        if asked:
            for partition, found in self.client.ends_of_epochs(asked).items():
                self._ends[partition] = (*moved[partition], found)
        return {p: self._ends[p][2] for p in moved}

    def _beyond(self, places: Mapping[TopicPartition, Place], now: Offsets) -> list[TopicPartition]:
        """Partitions whose log ends below where the query is."""
        beyond = [p for p, place in places.items() if now.places[p].offset < place.offset]
        if beyond and self._options.connection.read_committed:
            # An open transaction holds the end back from a query that read uncommitted before; nothing is lost.
            ends = self.client.end_offsets(beyond)
            beyond = [p for p in beyond if ends[p] < places[p].offset]
        return beyond

    def narrowed(
        self, begin: Mapping[TopicPartition, Place], end: Offsets, wanted: "Wanted"
    ) -> tuple[Mapping[TopicPartition, Place], Offsets]:
        """Where a read begins and ends that leaves out what is not wanted."""
        ends = {p: place for p, place in end.places.items() if wanted.has(p)}
        firsts = {p: begin.get(p, BEGINNING) for p in ends}
        if wanted.since_ms > 0:
            for partition, late in self._places(dict.fromkeys(ends, wanted.since_ms)).items():
                firsts[partition] = max(firsts[partition], late if late.offset >= 0 else ends[partition])
        return (
            {p: place._replace(offset=max(place.offset, wanted.first)) for p, place in firsts.items()},
            Offsets(
                end.topic_ids,
                {p: place._replace(offset=min(place.offset, wanted.last + 1)) for p, place in ends.items()},
            ),
        )

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self.client.begin_offsets(partitions)

    def record_bytes(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """What an offset takes on the leader's disk, on average, where that is known; as it was up to a minute ago.

        Tasks are cut by it, so what a broker does not tell (an old one, or one that does not allow it) only costs balance.
        """
        now = time.monotonic()
        unknown = [p for p in partitions if p not in self._record_bytes or self._record_bytes[p][0] <= now]
        if unknown:
            found = dict.fromkeys(unknown, 0)
            try:
                found.update(self._measured(unknown))
            except (ConnectionLost, DeadlineExceeded, Unreachable, ProtocolError):
                # Who leads changes just now, say. Reading finds out whether there is more to it.
                logger.debug("sizes of logs are not known", exc_info=True)
            until = now + SIZES_LAST_S
            self._record_bytes.update({p: (until, size) for p, size in found.items()})
        return {p: self._record_bytes[p][1] for p in partitions}

    def _measured(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            by_leader.setdefault(self.client.leader(partition)[0], []).append(partition)
        begin, end = self.client.begin_offsets(partitions), self.client.end_offsets(partitions)
        return {
            p: -(-size // (end[p] - begin[p]))
            for leader, led in by_leader.items()
            for p, size in log_sizes(self.client, leader, led).items()
            if end[p] > begin[p]
        }

    def check_same_topics(self, before: Offsets, now: Offsets) -> None:
        """A topic that was deleted, or created again under its name, is data loss that says so."""
        for topic in sorted({partition.topic for partition in before.places}):
            if topic not in now.topic_ids:
                self.lose(
                    f"topic {topic}, which this query reads, is not there any more", "reads on without it"
                )
            elif is_another_topic(topic, before, now):
                old, new = (topic_id_to_text(TopicId(o.topic_ids[topic])) for o in (before, now))
                text = (
                    f"{topic} was deleted and created again: the offsets of this query belong to topic id {old}, "
                    f"the cluster now has {new}"
                )
                if self._options.connection.fail_on_data_loss:
                    raise TopicRecreated(f"{text}; the new topic needs a new query with a new checkpoint")
                self.lose(text, "reads the new topic from its beginning")

    def lose(self, what: str, remedy: str) -> None:
        """Raises, or tells once: planning looks at the same offsets more than once."""
        is_failure = self._options.connection.fail_on_data_loss
        if is_failure or what not in self._told:
            self._told.add(what)
            data_loss.lose(what, remedy, is_failure=is_failure)

    def _at_offsets(
        self,
        option: str,
        ids: Mapping[str, bytes],
        partitions: list[TopicPartition],
        wanted: str | dict[str, object],
    ) -> dict[TopicPartition, Place]:
        if wanted == names.EARLIEST:
            return self._places(dict.fromkeys(partitions, EARLIEST))
        if wanted == names.LATEST:
            return self._places(dict.fromkeys(partitions, LATEST))
        assert isinstance(wanted, dict), "options.parse gives earliest, latest or a dict"
        given = Offsets.from_json(wanted, option)
        # A partition that is not named begins at its beginning and ends at its end.
        unnamed = Place(EARLIEST if option == "startingOffsets" else LATEST)
        _refuse_others(option, given.places, partitions)
        now = Offsets(ids, {})
        self.check_same_topics(given, now)
        places = {
            p: unnamed if is_another_topic(p.topic, given, now) else given.places.get(p, unnamed)
            for p in partitions
        }
        symbolic = {p: place.offset for p, place in places.items() if place.offset in (EARLIEST, LATEST)}
        return dict(sorted({**places, **self._places(symbolic)}.items()))

    def _at_timestamps(
        self,
        option: str,
        partitions: list[TopicPartition],
        wanted: int | PerPartition,
        *,
        latest_if_none: bool,
        latest_if_unnamed: bool = False,
    ) -> dict[TopicPartition, Place]:
        if isinstance(wanted, int):
            asked = dict.fromkeys(partitions, wanted)
        else:
            asked = {
                TopicPartition(t, p): timestamp for t, of in wanted.items() for p, timestamp in of.items()
            }
            _refuse_others(option, asked, partitions)
        unnamed = [p for p in partitions if p not in asked]
        if unnamed and not latest_if_unnamed:
            # Where its reading begins would be a guess: at its end, what stands there now would be left out.
            raise ConfigurationError(
                f"{option} does not name {unnamed[0]}, which is read; give it a timestamp too"
            )
        found = self._places(asked)
        without = [p for p in asked if found[p].offset < 0]
        if without and not latest_if_none:
            raise ConfigurationError(
                f"{without[0]} has no record at or after timestamp {asked[without[0]]}; "
                f"startingOffsetsByTimestampStrategy=latest would begin at its end"
            )
        rest = dict.fromkeys([*without, *unnamed], LATEST)
        return dict(sorted({**found, **self._places(rest)}.items()))

    def _places(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, Place]:
        if not wanted:
            return {}
        found = self.client.list_offsets(wanted, read_committed=self._options.connection.read_committed)
        return {p: Place(answer.offset, answer.leader_epoch) for p, answer in found.items()}
