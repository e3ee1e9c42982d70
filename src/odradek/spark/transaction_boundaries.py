"""Where a range may end so that no transaction of its partition has records on both sides. Driver only.

A boundary is an offset at which no producer has a transaction open that has records below it. Nobody can be asked for the
boundaries of the past, so the headers of the batches are read from where the range begins, which is one or is taken as one.

    batch                                 its producer's transaction
    of a transaction, with records        is open from here on
    of control (a marker)                 is ended
    any other                             stays as it is: where none is open each of the offsets is a boundary. Compaction leaves
                                          batches of transactions without records too, and takes their markers

The last stable offset alone is none: a transaction may have records below it and be committed above it, while another one that
began in between holds it back. Where it is the high watermark no transaction is open, and nothing is read at all.
"""

import logging
import time
from collections.abc import Mapping

from odradek.client.sync import LATEST, SyncClient
from odradek.client.sync_connection import FrameBuffer
from odradek.client.sync_fetch import LogCut, OffsetsGone, TopicRecreated, read_range
from odradek.client.sync_segments import LogPlaces
from odradek.model.ids import NO_TOPIC_ID, TopicPartition
from odradek.records.batch import CONTROL, TRANSACTIONAL
from odradek.spark.batch_headers import Headers, headers_of
from odradek.spark.offsets import Offsets, Place
from odradek.spark.options import FALSE, TRUE, ConnectionOptions

HELD_UP_S = 60.0
_NOWHERE = 2**63 - 1
logger = logging.getLogger(__name__)


class Scan:
    """The headers of a partition in [first, at), read in order; `boundary` is the last one up to `at`."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.at = first
        self.boundary = first
        self._open: set[int] = set()  # producer ids

    def take(self, headers: Headers, to: int, *, until: int) -> None:
        """Goes on up to offset `to`, or to the end of the batch there, or to the first boundary beyond `until`."""
        is_marker = headers.attributes & CONTROL != 0
        has_records = (headers.attributes & TRANSACTIONAL != 0) & (headers.record_count > 0)
        chosen = headers.only(is_marker | has_records)
        columns = (chosen.base_offset, chosen.last_offset, chosen.producer_id, chosen.attributes & CONTROL)
        for begin, last, producer, is_end in zip(*(column.tolist() for column in columns), strict=True):
            if begin >= to:
                break
            self.reach(begin)
            if self.boundary > until:
                return
            if is_end:
                self._open.discard(producer)
            else:
                self._open.add(producer)
            self.reach(last + 1)
            if self.boundary > until:
                return
        self.reach(min(to, int(headers.last_offset[-1]) + 1))

    def reach(self, offset: int) -> None:
        """Nothing opens or ends a transaction from `at` up to there."""
        self.at = max(self.at, offset)
        if not self._open:
            self.boundary = self.at


class Boundaries:
    """Of the partitions of one query; what was read for one batch is not read again for the next."""

    def __init__(self, client: SyncClient, options: ConnectionOptions) -> None:
        self._client = client
        self._fetch_max_bytes = options.fetch_max_bytes
        self._rack = options.client_rack
        self._places = (
            None
            if options.read_segments == FALSE
            else LogPlaces(client, anywhere=options.read_segments == TRUE)
        )
        self._buffer = FrameBuffer()
        self._scans: dict[TopicPartition, tuple[bytes, int, Scan]] = {}  # of which topic id and leader epoch
        self._held_up: dict[TopicPartition, tuple[float, float]] = {}  # since when, and when that is told

    def moved(
        self,
        begin: Mapping[TopicPartition, Place],
        ends: Mapping[TopicPartition, Place],
        last: Offsets,
        *,
        told_after_s: float = HELD_UP_S,
    ) -> dict[TopicPartition, Place]:
        """`ends`, each moved back to a boundary; where that leaves nothing of a range, on to the next one.

        None is moved beyond `last`, where no more can be read: a range that has no boundary up to there is empty. A warning
        says so once that has been the case for `told_after_s`: transactions that overlap without end have no boundary.
        """
        firsts = {p: begin[p].offset if p in begin else 0 for p in ends}
        asked = [p for p in sorted(ends) if ends[p].offset > firsts[p]]
        high_watermarks = self._client.list_offsets(dict.fromkeys(asked, LATEST)) if asked else {}
        moved = dict(ends)
        for p in asked:
            # Asked after the last stable offset, of the same leader, and not beyond it: they were the same then.
            found = Place(high_watermarks[p].offset, high_watermarks[p].leader_epoch)
            is_settled = found == last.places[p]
            if not (is_settled and ends[p].offset == last.places[p].offset):
                offset = self._boundary(p, firsts[p], ends[p].offset, last, is_settled=is_settled)
                moved[p] = ends[p]._replace(offset=offset)
        self._scans = {p: scan for p, scan in self._scans.items() if p in ends}
        self._tell_of([p for p in asked if moved[p].offset == firsts[p]], firsts, last, told_after_s)
        return moved

    def _tell_of(
        self, empty: list[TopicPartition], firsts: Mapping[TopicPartition, int], last: Offsets, after_s: float
    ) -> None:
        now = time.monotonic()
        self._held_up = {p: self._held_up.get(p, (now, now + after_s)) for p in empty}
        for partition, (since, told_at) in self._held_up.items():
            if told_at <= now:
                self._held_up[partition] = since, now + HELD_UP_S
                logger.warning(
                    "%s: not read on from offset %d, for %.0f s: there is no transaction boundary up to %d, beyond which it "
                    "may not go. A transaction is open, or transactions overlap without end; with "
                    "transactionBoundaries=false their records are read as they come",
                    *(partition, firsts[partition], now - since, last.places[partition].offset),
                )

    def _boundary(
        self, partition: TopicPartition, first: int, end: int, last: Offsets, *, is_settled: bool
    ) -> int:
        scan = self._scan(partition, first, end, last)
        furthest = last.places[partition].offset
        try:
            self._walk(scan, partition, end, last, until=_NOWHERE)
            if scan.boundary <= first:
                self._walk(scan, partition, furthest, last, until=first)
        except (LogCut, TopicRecreated):
            del self._scans[partition]
            return end  # whoever reads the range finds that out too, and says what is lost
        except OffsetsGone:
            del self._scans[partition]
            first_left = self._client.begin_offsets([partition])[partition]
            if not scan.at < first_left < end:
                return end
            # Retention was faster. Where the rest begins is taken as a boundary.
            return self._boundary(partition, first_left, end, last, is_settled=is_settled)
        if scan.boundary > first:
            return scan.boundary
        return furthest if is_settled else first

    def _scan(self, partition: TopicPartition, first: int, end: int, last: Offsets) -> Scan:
        """The one that is there, where it goes on from a boundary of the range [first, end); or a new one."""
        topic_id, epoch = _topic_id(partition, last), last.places[partition].epoch
        if partition in self._scans:
            its_id, its_epoch, scan = self._scans[partition]
            if (its_id, its_epoch) == (topic_id, epoch) and scan.first <= first <= scan.boundary <= end:
                return scan
        scan = Scan(first)
        self._scans[partition] = topic_id, epoch, scan
        return scan

    def _walk(self, scan: Scan, partition: TopicPartition, to: int, last: Offsets, *, until: int) -> None:
        if scan.at >= to:
            return
        for fetched in read_range(
            self._client,
            partition,
            scan.at,
            to,
            topic_id=_topic_id(partition, last),
            leader_epoch=last.places[partition].epoch,
            max_bytes=self._fetch_max_bytes,
            into=self._buffer,
            places=self._places,
            rack=self._rack,
        ):
            scan.take(headers_of(fetched.records), to, until=until)
            if scan.boundary > until:
                return
            if fetched.next_offset >= to:
                break
        else:
            scan.reach(to)  # compaction has left nothing up to there


def _topic_id(partition: TopicPartition, offsets: Offsets) -> bytes:
    return offsets.topic_ids.get(partition.topic, NO_TOPIC_ID)
