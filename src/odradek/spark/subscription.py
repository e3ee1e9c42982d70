"""What the driver asks the cluster: which partitions there are, where they begin and end, what was lost.

Runs on the driver only. Executors are told exact ranges and ask for nothing but these.
"""

import re
import warnings
from collections.abc import Iterable, Mapping

from odradek.client.sync import EARLIEST, LATEST, SyncClient
from odradek.client.sync_fetch import TopicRecreated
from odradek.model.errors import ConfigurationError, OdradekError
from odradek.model.ids import NO_TOPIC_ID, TopicId, TopicPartition, topic_id_to_text
from odradek.spark import options as names
from odradek.spark.offsets import Offsets, Place
from odradek.spark.options import PerPartition, SourceOptions


class DataLoss(OdradekError):
    """Records that the query has a right to are gone; failOnDataLoss=false reads on without them."""


class Subscription:
    """What a query reads, as the cluster sees it now; one client behind it."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._client: SyncClient | None = None

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

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def partitions(self) -> tuple[dict[str, bytes], list[TopicPartition]]:
        """Topic ids and partitions that the subscription means now."""
        options = self._options
        if options.pattern is not None:
            pattern = re.compile(options.pattern)
            view = self.client.cluster()
            topics = {
                name: topic
                for name, topic in view.topics.items()
                if pattern.fullmatch(name) and not topic.is_internal
            }
        else:
            wanted = options.subscribe if options.subscribe is not None else tuple(options.assign or ())
            topics = {name: self.client.topic(name) for name in wanted}
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

    def start(self, *, default: str) -> Offsets:
        """Where the first read begins; timestamps go before offsets, as in Spark's connector."""
        ids, partitions = self.partitions()
        options = self._options
        if options.starting_timestamps is not None:
            places = self._at_timestamps(
                partitions, options.starting_timestamps, latest_if_none=options.latest_without_timestamp
            )
        else:
            places = self._at_offsets("startingOffsets", ids, partitions, options.starting or default)
        return Offsets(ids, places)

    def end(self) -> Offsets:
        """Where a batch read stops."""
        ids, partitions = self.partitions()
        options = self._options
        if options.ending_timestamps is not None:
            places = self._at_timestamps(partitions, options.ending_timestamps, latest_if_none=True)
        else:
            places = self._at_offsets("endingOffsets", ids, partitions, options.ending or names.LATEST)
        return Offsets(ids, places)

    def latest(self) -> Offsets:
        """The end of what may be read now: the high watermark, or under read_committed the last stable offset."""
        ids, partitions = self.partitions()
        return Offsets(ids, self._places(dict.fromkeys(partitions, LATEST)))

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self.client.begin_offsets(partitions)

    def check_same_topics(self, before: Offsets, now: Offsets) -> None:
        """A topic that was deleted, or created again under its name, is data loss that says so."""
        for topic in sorted({partition.topic for partition in before.places}):
            old = before.topic_ids.get(topic, NO_TOPIC_ID)
            new = now.topic_ids.get(topic)
            if new is None:
                self.lose(f"topic {topic}, which this query reads, is not there any more")
            elif NO_TOPIC_ID not in (old, new) and old != new:
                text = (
                    f"{topic} was deleted and created again: the offsets of this query belong to topic id "
                    f"{topic_id_to_text(TopicId(old))}, the cluster now has {topic_id_to_text(TopicId(new))}; "
                    f"the new topic needs a new query with a new checkpoint"
                )
                if self._options.connection.fail_on_data_loss:
                    raise TopicRecreated(text)
                warnings.warn(text, stacklevel=2)

    def check_not_cut(self, places: Mapping[TopicPartition, Place]) -> None:
        """No log was truncated below where we stand (KIP-320): its epochs must end at or above our offsets."""
        known = {p: place.epoch for p, place in places.items() if place.epoch >= 0}
        if not known:
            return
        for partition, answer in self.client.ends_of_epochs(known).items():
            offset = places[partition].offset
            if 0 <= answer.offset < offset:
                self.lose(
                    f"{partition}: this query has read up to offset {offset} in leader epoch {known[partition]}, "
                    f"but the log of that epoch now ends at {answer.offset}: it was cut by an unclean election"
                )

    def lose(self, what: str) -> None:
        if self._options.connection.fail_on_data_loss:
            raise DataLoss(f"{what}; failOnDataLoss=false would read on without it")
        warnings.warn(what, stacklevel=3)

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
        for partition in given.places:
            if partition not in partitions:
                raise ConfigurationError(
                    f"{option} names {partition}, which is not among the partitions read: "
                    f"{', '.join(str(p) for p in partitions)}"
                )
        self.check_same_topics(given, Offsets(ids, {}))
        places = {p: given.places.get(p, unnamed) for p in partitions}
        symbolic = {p: place.offset for p, place in places.items() if place.offset in (EARLIEST, LATEST)}
        return dict(sorted({**places, **self._places(symbolic)}.items()))

    def _at_timestamps(
        self, partitions: list[TopicPartition], wanted: int | PerPartition, *, latest_if_none: bool
    ) -> dict[TopicPartition, Place]:
        if isinstance(wanted, int):
            asked = dict.fromkeys(partitions, wanted)
        else:
            asked = {
                p: wanted[p.topic][p.partition] for p in partitions if p.partition in wanted.get(p.topic, {})
            }
        found = self._places(asked)
        without = [p for p in asked if found[p].offset < 0]
        if without and not latest_if_none:
            raise ConfigurationError(
                f"{without[0]} has no record at or after timestamp {asked[without[0]]}; "
                f"startingOffsetsByTimestampStrategy=latest would begin at its end"
            )
        rest = dict.fromkeys([*without, *(p for p in partitions if p not in asked)], LATEST)
        return dict(sorted({**found, **self._places(rest)}.items()))

    def _places(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, Place]:
        if not wanted:
            return {}
        found = self.client.list_offsets(wanted, read_committed=self._options.connection.read_committed)
        return {p: Place(answer.offset, answer.leader_epoch) for p, answer in found.items()}
