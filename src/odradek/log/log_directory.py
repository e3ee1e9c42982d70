"""One of `log.dirs`: what is kept of it beside its logs, and whose it is (`meta.properties`)."""

from collections.abc import Sequence
from threading import Lock

from odradek.log import checkpoints
from odradek.log.checkpoints import MalformedCheckpoint
from odradek.log.errors import StorageError, WrongDirectory
from odradek.log.files import Directory
from odradek.log.files import Lock as DirectoryLock
from odradek.model.ids import TopicPartition


class LogDirectory:
    """One of `log.dirs`, and the state we keep per directory."""

    def __init__(self, root: Directory) -> None:
        self.root = root
        self.lock: DirectoryLock | None = None
        # Broker epoch of the life that stopped in order and flushed all; -1: it did not
        self.clean_epoch = -1
        # Checkpoints are written by a thread, and by whoever cuts a log: one at a time, or the older value might
        # be the one that stays.
        self.checkpointing = Lock()
        self.recovery_points: dict[TopicPartition, int] = {}  # as the checkpoint file has them
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.log_starts: dict[TopicPartition, int] = {}
        self.log_count = 0  # see `Homes`
        self.put_aside: set[TopicPartition] = set()  # gone, and perhaps still named in the files
        self.unsynced_deletions: list[TopicPartition] = []  # renamed, and a power cut may take that back

    @property
    def path(self) -> str:
        return self.root.path

    @property
    def is_online(self) -> bool:
        return self.root.health.failure is None


class Homes(dict[TopicPartition, LogDirectory]):
    """Where each log is; and, so that a new one need not count them all, how many are where."""

    def __setitem__(self, key: TopicPartition, directory: LogDirectory) -> None:
        if key in self:
            self[key].log_count -= 1
        directory.log_count += 1
        super().__setitem__(key, directory)

    def __delitem__(self, key: TopicPartition) -> None:
        self[key].log_count -= 1
        super().__delitem__(key)


def claim(directories: Sequence[LogDirectory], broker_id: int, cluster_id: str | None) -> str | None:
    """Locks every directory and checks whose it is; returns the cluster id found, if any directory has one.

    DirectoryInUse or WrongDirectory before anything was changed. `cluster_id` None: not known yet; call
    `write_meta_properties` once it is.
    """
    found: str | None = None
    for directory in directories:
        if directory.lock is None:
            directory.lock = directory.root.lock()
    for directory in directories:
        try:
            data = directory.root.read(checkpoints.META_PROPERTIES)
        except StorageError:
            continue  # told through its health; the others go on
        if data is None:
            continue
        try:
            meta = checkpoints.read_meta_properties(data)
        except MalformedCheckpoint as error:
            raise WrongDirectory(f"log directory {directory.path}: {error}") from None
        if meta.broker_id not in (None, broker_id):
            raise WrongDirectory(
                f"log directory {directory.path} belongs to broker {meta.broker_id}, this is broker {broker_id}: "
                f"set broker.id={meta.broker_id}, or give this broker another log.dirs"
            )
        wanted = cluster_id or found
        if meta.cluster_id is not None and wanted is not None and meta.cluster_id != wanted:
            raise WrongDirectory(
                f"log directory {directory.path} belongs to cluster {meta.cluster_id}, this is cluster {wanted}: "
                "point the broker at that cluster's store, or give it another log.dirs"
            )
        found = found or meta.cluster_id
    return found


def write_meta_properties(directories: Sequence[LogDirectory], broker_id: int, cluster_id: str) -> None:
    """Where it is missing or does not name the cluster yet."""
    for directory in directories:
        data = directory.root.read(checkpoints.META_PROPERTIES)
        if data is None or checkpoints.read_meta_properties(data).cluster_id is None:
            directory.root.replace(
                checkpoints.META_PROPERTIES, checkpoints.meta_properties_to_bytes(broker_id, cluster_id)
            )


def parse_directory_name(name: str) -> TopicPartition | None:
    """`topic-partition`; topics may have dashes themselves."""
    topic, dash, partition = name.rpartition("-")
    if not dash or not topic or not partition.isdigit() or (len(partition) > 1 and partition[0] == "0"):
        return None
    return TopicPartition(topic, int(partition))
