"""Which files of a table are being written, so that a commit finds orphans without listing the table.

Before a task makes a file it leaves one of the same name, in which the file's path in the table stands, at

    TABLE/_odradek/in_work/PREFIX-BATCH/NAME

and the driver takes these away once the batch is committed. What lies there is therefore what is in work now, and what
tasks left that failed or ran twice: looking through it costs what is in flight, not what the table holds.
"""

from collections.abc import Iterable, Iterator

from odradek.spark.parquet import OWN_DIRECTORY, application_prefix, batch_of
from odradek.spark.storage import Storage, storage_of

_MARKS = f"{OWN_DIRECTORY}/in_work"


def listed(table: str, app_id: str, batch_id: int) -> Iterator[tuple[int, str]]:
    """(batch, name) of the application's files that are noted for batches up to `batch_id`."""
    storage = storage_of(table)
    for mark in storage.listed(_MARKS, application_prefix(app_id)):
        batch = batch_of(mark.rsplit("/", 1)[-1], app_id)
        if batch is not None and batch <= batch_id:
            yield batch, _path_in(storage, mark)


def forget(table: str, names: Iterable[str]) -> None:
    """Of files that are committed or deleted."""
    storage = storage_of(table)
    marks = [_mark(name) for name in names]
    storage.delete(marks)
    for directory in {mark.rsplit("/", 1)[0] for mark in marks}:
        # Where a task that is late has left a mark it stays: the next commit finds it.
        storage.tidy(directory)


def note(table: str, name: str) -> None:
    storage_of(table).write(_mark(name), name.encode())


def _path_in(storage: Storage, mark: str) -> str:
    """Of the file in the table. A mark that is empty was not finished, so there is no file of its name in any directory."""
    own = mark.rsplit("/", 1)[-1]
    try:
        return storage.read(mark).decode() or own
    except FileNotFoundError:  # another driver was faster
        return own


def _mark(name: str) -> str:
    own = name.rsplit("/", 1)[-1]
    return f"{_MARKS}/{own.rsplit('-', 1)[0]}/{own}"
