"""Of the cleaner (L): docs/cleaner-behaviours.md."""

from tests.mutants.mutant import Mutant, of_row

_PLANNING = "log.compaction.planning"
_PASSES = "log.compaction.passes:PassesHere"
_REWRITING = "log.compaction.rewriting:Rewriting"

OF_CLEANER: tuple[Mutant, ...] = (
    of_row(
        "L1",
        "a log is due when its dirty share is the ratio that must be exceeded",
        f"{_PLANNING}:dirty_part",
        "ratio > limits.min_dirty_ratio",
        "ratio >= limits.min_dirty_ratio",
    ),
    of_row(
        "L2",
        "what is behind an open transaction is cleaned",
        f"{_PLANNING}:dirty_part",
        "segment.end_offset > last_stable_offset",
        "False",
    ),
    of_row(
        "L3",
        "a checkpoint is believed wherever it is",
        f"{_PLANNING}:dirty_part",
        "checkpoint is not None and log_start_offset <= checkpoint <= active_base_offset",
        "checkpoint is not None",
    ),
    of_row(
        "L4",
        "what a full map did not reach counts as cleaned",
        f"{_PASSES}.build_map",
        "self._end_at(end, seen, offsets)",
        "self._end_at(job.end, seen, offsets)",
    ),
    of_row(
        "L5",
        "of a key the last record goes too",
        f"{_REWRITING}._rewritten_records",
        "offset < last_offset_of(key)",
        "offset <= last_offset_of(key)",
    ),
    of_row(
        "L6",
        "keys of a batch are noted though the map has no room for them",
        "log.compaction.map_building:note_keys",
        "not offsets.has_room_for(min(header.record_count, header.next_offset - first_offset))",
        "False",
    ),
    of_row(
        "L7",
        "what is left of a compressed batch is not compressed again",
        f"{_REWRITING}._with_fewer",
        "compress(attributes & CODEC_MASK, body)",
        "compress(0, body)",
    ),
    of_row(
        "L8",
        "the last sequence of a producer goes with its records",
        f"{_REWRITING}._must_keep",
        "header.last_offset == last.last_data_offset",
        "False",
    ),
    of_row(
        "L9",
        "the last batch of a segment goes with its records",
        f"{_REWRITING}._must_keep",
        "header.next_offset == self.segment_end",
        "False",
    ),
    of_row(
        "L10",
        "a tombstone gets no horizon",
        f"{_REWRITING}._rewritten_records",
        "has_tombstone and (not header.attributes & DELETE_HORIZON)",
        "False",
    ),
    of_row(
        "L11",
        "a tombstone goes before every replica has passed it",
        f"{_REWRITING}._has_passed_horizon",
        "header.last_offset < self._droppable_below",
        "True",
    ),
    of_row(
        "L12",
        "every cleaning moves the horizon",
        f"{_REWRITING}._rewritten_records",
        "has_tombstone and (not header.attributes & DELETE_HORIZON)",
        "has_tombstone",
    ),
    of_row(
        "L13",
        "a marker is given up while records of its transaction are there",
        "log.compaction.transactions:MetTransactions.met_marker",
        "aborted is None or producer_id not in self._met",
        "True",
    ),
    of_row(
        "L14",
        "the index of aborted transactions is not written again",
        f"{_PASSES}.write_segment",
        "cleaned.add_transaction(aborted)",
        "pass",
    ),
    of_row(
        "L15",
        "segments become one however large that is",
        f"{_PLANNING}:grouped",
        "size + segment.size_bytes <= limits.segment_bytes",
        "True",
    ),
    of_row(
        "L16",
        "the last batch of what becomes one segment is none to be kept",
        "log.compaction.passes:_and_whether_last",
        "yield *before, True",
        "yield *before, False",
    ),
    of_row(
        "L17",
        "what retention took is looked for",
        f"{_PLANNING}:dirty_part",
        "first_dirty = log_start_offset",
        "first_dirty = 0",
    ),
    of_row(
        "L18",
        "records of a compacted topic are not looked at",
        "log.validation:leader_batches",
        "config.full_validation or config.is_compacted",
        "config.full_validation",
    ),
    of_row(
        "L19",
        "damage is written anew under a right checksum",
        f"{_PASSES}.write_segment",
        "not check_crc(batch, 0, header)",
        "False",
    ),
    of_row(
        "L20",
        "what was cut off or deleted meanwhile comes back",
        "log.truncation:replace_segments",
        "not log.segments.can_replace(old, cleaned)",
        "False",
    ),
)
