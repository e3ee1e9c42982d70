"""Moving the two ends of a log: cutting records off, starting anew, deleting what is old.

Every cut is in an order in which a crash anywhere leaves a log that only ends later than it should: the flushed point
first, then segments from the last to the first, then the file, then what is derived from it.

After a cut the log goes on in a new segment. Appending to the file that was cut could, after a power cut, leave old
pages before new ones: valid batches of a history that is gone, followed by the present one.
"""

from collections.abc import Generator, Sequence

from odradek.log import lookups
from odradek.log.checkpoints import LEADER_EPOCHS, epochs_to_bytes
from odradek.log.cleaned_segment import CleanedSegment
from odradek.log.errors import StorageError
from odradek.log.leader_epochs import LeaderEpochs
from odradek.log.log_state import LogState
from odradek.log.prepared_files import PreparedFiles
from odradek.log.producers import Producers
from odradek.log.segment import SNAPSHOT_SUFFIX, Segment
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ProtocolError

# That are taken out of a log in one turn: some ten milliseconds of renaming.
MOST_SEGMENTS = 100
# Of a cut in one step: others follow, and each makes the files of a new segment.
MOST_SEGMENTS_CUT = 40


def truncate_to(log: LogState, offset: int, now_ms: int) -> Generator[None, None, int]:
    """Cuts the log so that it ends at `offset`, or below if that lies inside a batch. The value of the last step is the new end.

    In steps, of which only the last one cuts unless many segments go: then each takes some of them. After each the log is
    whole, and ends where it was cut to. In between it may be rolled, compacted, and let go from its start; nobody appends
    to it, and nobody else cuts it.
    """
    log.check()
    if offset >= log.log_end_offset:
        # Epochs that began at our end and brought no record are no part of the common history either: kept,
        # we would name them to the leader for ever, and be answered with the same cut for ever.
        epochs = LeaderEpochs(log.epochs.entries)
        if epochs.truncate_from_end(offset):
            log.write_epochs(epochs)
        return log.log_end_offset
    while offset > log.log_start_offset and len(log.segments.since(offset)) > MOST_SEGMENTS_CUT:
        yield from _cut(log, log.segments[-MOST_SEGMENTS_CUT].base_offset, now_ms)
        yield
    yield from _cut(log, offset, now_ms)
    return log.log_end_offset


def _cut(log: LogState, offset: int, now_ms: int) -> Generator[None, None, None]:
    """At most MOST_SEGMENTS_CUT of them go."""
    known: tuple[int, Producers] | None = None
    while True:
        log.check()
        if offset <= log.log_start_offset:
            return (yield from _begin_anew(log, max(offset, 0), now_ms))
        target = log.segments.holding(offset)
        position = target.position_of(offset)
        # Where its last batch ends, in a gap too: see `roll`.
        end_offset = target.end_of_batches_before(position, offset)
        if end_offset <= log.log_start_offset:
            # Its first batch reaches below its start (DeleteRecords cuts anywhere), and that one goes.
            return (yield from _begin_anew(log, log.log_start_offset, now_ms))
        nothing_left = position == 0 and target is log.segments[0]
        if nothing_left:
            known = end_offset, Producers()
        elif known is None or known[0] != end_offset:
            known = end_offset, (yield from lookups.producers_at(log, end_offset, now_ms))
            continue  # the log as it is now
        break
    producers = known[1]
    # Whatever can fail, but for the disk itself, comes before anything is cut: see `prepared_files`.
    files = PreparedFiles(log.directory)
    is_shortened = position > 0 and (target is log.segments.active or position < target.file.size_bytes)
    cut = (
        target.prepare_cut(files, position, end_offset, log.config.index_interval_bytes)
        if is_shortened
        else None
    )
    stale = lookups.snapshots_behind(log, end_offset)
    following = log.prepare_segment(files, end_offset, now_ms, producers)
    epochs = _prepare_epochs(log, files, end_offset)
    aborted = target.aborted_count if cut is None else len(cut.transactions)
    sizes = log.prepare_index_sizes(
        files, log.segments.below(target), (target.base_offset, aborted if position > 0 else 0)
    )
    _lower_flushed_point(log, end_offset, log.log_start_offset, nothing_left=nothing_left)
    with log.changing():
        # Should this fail: what whoever hears of it writes down as having been here.
        log.log_end_offset = 0 if nothing_left else end_offset
        log.segments.cut(target, cut, end_offset, is_kept=position > 0)
        log.log_end_offset = end_offset
        log.remove_snapshots(stale)
        log.producers = producers
        log.segments.begin(files, following)
        log.index_sizes = sizes
        log.forget_marks()
        log.epochs = epochs
    return None


def truncate_fully_and_start_at(log: LogState, offset: int, now_ms: int) -> Generator[None, None, None]:
    """All records go, and the log begins at `offset`. In steps as `truncate_to`: there the log is shorter, and not begun anew yet."""
    yield from _begin_anew(log, offset, now_ms)


def _begin_anew(log: LogState, offset: int, now_ms: int) -> Generator[None, None, None]:
    """Only the last step begins anew. Before it goes what retention has not come to yet, below the log's start, and then the end."""
    while has_segments_below(log, log.log_start_offset):
        log.check()
        drop_segments_below(log, log.log_start_offset, MOST_SEGMENTS_CUT)
        yield
    while len(log.segments) > MOST_SEGMENTS_CUT:
        yield from _cut(log, log.segments[-MOST_SEGMENTS_CUT].base_offset, now_ms)
        yield
    producers = Producers()
    if offset == log.log_start_offset == log.segments[0].base_offset:
        # What was deleted below it was committed, and whoever wrote that may send it again.
        _, producers = yield from lookups.newest_snapshot(log.directory, [offset], offset, now_ms)
    log.check()
    files = PreparedFiles(log.directory)
    stale = lookups.snapshots_behind(log, -1)
    following = log.prepare_segment(files, offset, now_ms, producers)
    epochs = _prepare_epochs(log, files, 0)
    sizes = log.prepare_index_sizes(files, ())
    log_start_offset = min(offset, log.log_start_offset)
    _lower_flushed_point(log, log_start_offset, log_start_offset, nothing_left=True)
    with log.changing():
        log.log_start_offset = log_start_offset
        log.log_end_offset = 0  # as in `_cut`
        log.segments.drop_all()
        log.remove_snapshots(stale)
        log.producers = producers
        log.segments.begin(files, following)
        log.index_sizes = sizes
        log.forget_marks()
        log.log_start_offset = log.log_end_offset = offset
        log.epochs = epochs


def _prepare_epochs(log: LogState, files: PreparedFiles, end_offset: int) -> LeaderEpochs:
    """As they are once the log ends there; on the disk last, for what the file has too many is cut off by the batches."""
    epochs = LeaderEpochs(log.epochs.entries)
    if epochs.truncate_from_end(end_offset):
        files.write(LEADER_EPOCHS, epochs_to_bytes(epochs.entries))
    return epochs


def _lower_flushed_point(log: LogState, offset: int, log_start_offset: int, *, nothing_left: bool) -> None:
    """`nothing_left`: should the new segment's name be lost, nothing will say where the log began."""
    if nothing_left:
        offset = 0
    # In memory first: a checkpoint that another thread writes from now on has the lower value already.
    log.flushed.cut(offset)
    if log.before_cut_below is not None:
        log.before_cut_below(log, offset, log_start_offset)


def delete_records_before(log: LogState, offset: int) -> int:
    log.check()
    if offset > log.log_end_offset:
        raise ProtocolError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{log.topic_partition}: cannot delete up to {offset}, the log ends at {log.log_end_offset}",
        )
    if offset > log.log_start_offset:
        epochs = LeaderEpochs(log.epochs.entries)
        if epochs.truncate_from_start(offset):
            log.write_epochs(epochs)
        log.log_start_offset = offset
        drop_segments_below(log, offset)
    return log.log_start_offset


def replace_segments(log: LogState, old: Sequence[Segment], cleaned: CleanedSegment) -> bool:
    log.check()
    if not log.segments.can_replace(old, cleaned):
        cleaned.throw_away()
        return False
    files = PreparedFiles(log.directory)
    try:
        log.note_gaps()
        made = cleaned.segment
        gone = set(old)
        others = [one for one in log.segments if one not in gone]
        sizes = log.prepare_index_sizes(files, others, (made.base_offset, made.aborted_count))
    except StorageError as error:
        cleaned.throw_away()
        raise log.broken(error) from None
    with log.changing():
        log.segments.replace(old, cleaned)
        for segment in old[1:]:
            # Of a segment that is none any more: else nothing would ever remove it.
            log.directory.remove(segment.name(SNAPSHOT_SUFFIX))
        log.put_index_sizes(files, sizes)
    return True


def has_segments_below(log: LogState, offset: int) -> bool:
    return len(log.segments) > 1 and 0 <= log.segments[0].end_offset <= offset


def drop_segments_below(log: LogState, offset: int, most: int = MOST_SEGMENTS) -> None:
    """So many of them: those that are left are below the log's start, where retention finds them."""
    for _ in range(most):
        if not has_segments_below(log, offset):
            return
        try:
            segment = log.segments.drop_first()
            log.directory.remove(segment.name(SNAPSHOT_SUFFIX))
        except StorageError:
            raise
        except Exception as mistake:
            log.interrupted(mistake)
            raise
