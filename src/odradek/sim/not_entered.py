"""Functions that no seed enters, and why. `--coverage` names those that nobody has given a reason for.

A pattern is that of `fnmatch`, over `file function`; the first that fits says why.
"""

from fnmatch import fnmatchcase
from functools import cache

NOT_ENTERED: tuple[tuple[str, str], ...] = (
    ("log/files.py File.*", "the real disk: a world has `log.memory_files`"),
    ("log/files.py Directory.*", "the real disk: a world has `log.memory_files`"),
    ("log/files.py Lock.*", "the real disk: a world has `log.memory_files`"),
    ("log/files.py OsFile.*", "the real disk: a world has `log.memory_files`"),
    ("log/files.py OsLock.*", "the real disk: a world has `log.memory_files`"),
    ("log/files.py OsDirectory.*", "the real disk: a world has `log.memory_files`"),
    ("log/files.py FileSlice._too_short", "the real disk: a world has `log.memory_files`"),
    ("log/files.py _write_rest", "the real disk: a world has `log.memory_files`"),
    ("log/files.py hold_spare", "the real disk: a world has `log.memory_files`"),
    ("log/files.py let_go_spare", "the real disk: a world has `log.memory_files`"),
    ("log/files.py _open", "the real disk: a world has `log.memory_files`"),
    ("log/files.py _with_spare", "the real disk: a world has `log.memory_files`"),
    ("log/dump.py *", "`odradek dump`, which reads the files of a broker that does not run"),
    ("store/embedded/* *", "another store: a world has `store.memory`"),
    ("server/main.py *", "the process: arguments, signals, exit codes, what it imports"),
    ("server/__main__.py *", "the process: arguments, signals, exit codes, what it imports"),
    ("server/standard_error.py *", "the process: arguments, signals, exit codes, what it imports"),
    ("server/preload.py *", "the process: arguments, signals, exit codes, what it imports"),
    ("server/warm_up.py *", "the process: arguments, signals, exit codes, what it imports"),
    ("* *.__repr__", "for whoever debugs"),
    ("log/memory_files.py MemoryDisk.crash_at", "of the disk in memory itself: for tests of crashes"),
    ("log/memory_files.py MemoryDisk.contents", "of the disk in memory itself: for tests of crashes"),
    ("log/memory_files.py MemoryDisk._die", "of the disk in memory itself: for tests of crashes"),
    ("log/memory_files.py MemoryDirectory.renamed", "of the disk in memory itself: for tests of crashes"),
    ("log/memory_files.py MemoryDirectory.space", "of the disk in memory itself: for tests of crashes"),
    ("broker/handlers/sasl_*.py *", "no world has listeners with SASL"),
    ("broker/handlers/describe_user_scram_credentials.py *", "no world has listeners with SASL"),
    ("log/indexes.py read_transactions", "no producer of a world has transactions"),
    ("log/indexes.py transaction_to_bytes", "no producer of a world has transactions"),
    ("log/lookups.py aborted_transactions", "no producer of a world has transactions"),
    ("log/partition_log.py PartitionLog._mark_producers", "no producer of a world has transactions"),
    ("log/partition_log.py PartitionLog._markers", "no producer of a world has transactions"),
    ("log/partition_log.py PartitionLog._open_transactions", "no producer of a world has transactions"),
    ("log/partition_log.py PartitionLog._note_marker", "no producer of a world has transactions"),
    ("log/partition_log.py PartitionLog.aborted_transactions", "no producer of a world has transactions"),
    ("log/producers.py Producers.check_marker", "no producer of a world has transactions"),
    ("log/producers.py Producers.note_marker", "no producer of a world has transactions"),
    ("log/producers.py Producers.aborted", "no producer of a world has transactions"),
    ("log/producers.py Producers.first_undecided_offset", "no producer of a world has transactions"),
    ("log/segment.py Segment.open_transactions", "no producer of a world has transactions"),
    ("log/segment.py Segment.add_transaction", "no producer of a world has transactions"),
    ("log/segment.py Segment.replace_transactions", "no producer of a world has transactions"),
    ("broker/handlers/write_txn_markers.py *", "no producer of a world has transactions"),
    ("replication/throttle.py ReplicationThrottle.holds_back", "no world throttles replication"),
    ("replication/throttle.py ReplicationThrottle.record", "no world throttles replication"),
    ("replication/throttle.py ReplicationThrottle.is_exceeded", "no world throttles replication"),
    ("replication/throttle.py ReplicationThrottle.free_at_ms", "no world throttles replication"),
    ("replication/windowed_sum.py WindowedSum.record", "no world throttles replication"),
    ("replication/windowed_sum.py WindowedSum.forget_old", "no world throttles replication"),
    ("replication/windowed_sum.py WindowedSum.covered_ms", "no world throttles replication"),
    ("replication/windowed_sum.py WindowedSum.oldest_ends_ms", "no world throttles replication"),
    ("replication/follower.py FollowerFetcher._hold_back", "no world throttles replication"),
    ("replication/follower.py FollowerFetcher._epoch_ends", "for leaders before version 12 of Fetch"),
    ("replication/follower_questions.py epoch_ends", "for leaders before version 12 of Fetch"),
    ("replication/follower_questions.py epoch_ends_answer", "for leaders before version 12 of Fetch"),
    ("replication/waiting.py Reader.*", "abstract: what subclasses do"),
    ("replication/waiting.py AckWaiter.settle", "abstract: what subclasses do"),
    ("replication/truncation.py EpochHistory.*", "abstract: what subclasses do"),
    ("replication/purgatory.py Waiter.is_over", "abstract: what subclasses do"),
    ("replication/purgatory.py Waiter.finish", "abstract: what subclasses do"),
)


@cache
def reason(file: str, function: str) -> str | None:
    """Why no world enters it; None: worlds are to."""
    name = f"{file} {function}"
    return next((why for pattern, why in NOT_ENTERED if fnmatchcase(name, pattern)), None)
