"""What a disk holds after a stop, a kill or a power cut."""

from odradek.log import flushing, partition_log, recovery, retention
from odradek.log.log_manager import LogManager
from odradek.sim.museum.exhibit import Exhibit
from odradek.sim.museum.mutation import Change

EXHIBITS = (
    Exhibit(
        "5634",
        "6bd7302645a",
        "retention deletes records above the high watermark",
        (
            Change(
                retention,
                "_leading_expired",
                "if end_offset > high_watermark or segment.size_bytes == 0:",
                "if segment.size_bytes == 0:",
            ),
            Change(retention, "_leading_surplus", " or segment.end_offset > high_watermark", ""),
        ),
    ),
    Exhibit(
        "10471",
        "be4c4528694",
        "the mark of a clean stop outlives the start: after a crash nothing is recovered",
        (Change(LogManager, "_load_directory", "root.remove(checkpoints.CLEAN_SHUTDOWN)", "pass"),),
    ),
    Exhibit(
        "16541",
        "3835515feaf",
        "an epoch that has begun is not in the file of epochs",
        (
            Change(
                partition_log.PartitionLog,
                "assign_epoch",
                "self.write_epochs(epochs)",
                "self.epochs = epochs",
            ),
        ),
    ),
    Exhibit(
        "12520",
        "3ec973f2138",
        "what is known of producers is dropped at the start: a retry is written a second time",
        (Change(recovery._Opening, "open", "self._replay(self.segments)", "self.producers = Producers()"),),
    ),
    Exhibit(
        "3968",
        "66b0c5c64f2",
        "a new segment's file is synced and its directory is not: a power cut takes the file",
        (
            Change(flushing.FlushPlan, "run", "self._directory.sync()", "pass"),
            Change(flushing.FlushPlan, "run", "self._parent.sync()", "pass"),
        ),
    ),
    Exhibit(
        "16157",
        "4454d178669",
        "a topic is made again while a disk with the old one is away, and its broker refuses the new one for ever",
        (
            Change(
                LogManager,
                "settle",
                "return [self.retire(topic_partition, stray, STRAY_SUFFIX, now_ms) for stray in strays]",
                "raise StorageError(f'{topic_partition} is here already, of another topic')",
            ),
        ),
    ),
)
