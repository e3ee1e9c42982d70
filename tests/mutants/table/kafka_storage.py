"""What a disk holds after a stop, a kill or a power cut."""

from tests.mutants.edit import Edit
from tests.mutants.mutant import Mutant

EXHIBITS: tuple[Mutant, ...] = (
    Mutant(
        "5634",
        "retention deletes records above the high watermark",
        (
            Edit(
                "log.retention:_leading_expired",
                "end_offset > high_watermark or (is_empty and segment is log.segments.active)",
                "is_empty and segment is log.segments.active",
            ),
            Edit(
                "log.retention:_leading_surplus",
                "surplus < size or segment.end(log.log_end_offset) > high_watermark",
                "surplus < size",
            ),
        ),
        commit="6bd7302645a",
        scenario="retention_spares_what_is_not_committed",
    ),
    Mutant(
        "10471",
        "the mark of a clean stop outlives the start: after a crash nothing is recovered",
        (
            Edit(
                "log.log_loading:LogLoading.load_directory",
                "root.remove(checkpoints.CLEAN_SHUTDOWN)",
                "pass",
            ),
        ),
        commit="be4c4528694",
        harmless="the mark is only a claim: a log without a producer snapshot at its very end, which a clean stop writes, is recovered all the same",
    ),
    Mutant(
        "16541",
        "an epoch that has begun is not in the file of epochs",
        (
            Edit(
                "log.log_state:LogState.assign_epoch",
                "self.write_epochs(epochs)",
                "self.epochs = epochs",
            ),
        ),
        commit="3835515feaf",
        harmless="what the file lacks is read from the batches at the next start; an epoch without records ends where it began",
    ),
    Mutant(
        "12520",
        "what is known of producers is dropped at the start: a retry is written a second time",
        (Edit("log.recovery:_Opening.open", "self._replay(self.segments)", "self.producers = Producers()"),),
        commit="3ec973f2138",
        scenario="a_retry_after_a_clean_restart",
    ),
    Mutant(
        "3968",
        "a new segment's file is synced and its directory is not: a power cut takes the file",
        (
            Edit("log.flushing:FlushPlan.run", "self._directory.sync()", "pass"),
            Edit("log.flushing:FlushPlan.run", "self._parent.sync()", "pass"),
        ),
        commit="66b0c5c64f2",
        scenario="a_new_segment_and_a_power_cut",
    ),
    Mutant(
        "16157",
        "a topic is made again while a disk with the old one is away, and its broker refuses the new one for ever",
        (
            Edit(
                "log.log_manager:LogManager.resolve_topic_id",
                "return [self.retire(topic_partition, stray, STRAY_SUFFIX, now_ms) for stray in strays]",
                "raise StorageError(f'{topic_partition} is here already, of another topic')",
            ),
        ),
        commit="4454d178669",
        scenario="deleted_while_its_disk_was_away",
    ),
)
