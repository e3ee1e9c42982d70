"""Which files of a table are being written, so that a commit finds orphans without listing the table.

Before a task makes a file it leaves one of the same name, in which the file's path in the table stands, at

    TABLE/_odradek/in_work/PREFIX-BATCH/NAME

and the driver takes these away once the batch is committed. What lies there is therefore what is in work now, and what
tasks left that failed or ran twice: looking through it costs what is in flight, not what the table holds.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from odradek.spark.parquet import OWN_DIRECTORY, application_prefix, batch_of


def listed(table: str, app_id: str, batch_id: int) -> Iterator[tuple[int, str]]:
    """(batch, name) of the application's files that are noted for batches up to `batch_id`."""
    for directory in sorted(_directory(table).glob(f"{application_prefix(app_id)}*")):
        for mark in sorted(directory.iterdir()):
            batch = batch_of(mark.name, app_id)
            if batch is not None and batch <= batch_id:
                yield batch, _path_in(mark)


def forget(table: str, names: Iterable[str]) -> None:
    """Of files that are committed or deleted."""
    directories = set()
    for name in names:
        mark = _mark(table, name)
        mark.unlink(missing_ok=True)
        directories.add(mark.parent)
    for directory in directories:
        try:
            directory.rmdir()
        except OSError:
            # Another driver took it away, or a task that is late has left a mark: the next commit finds it.
            continue


def note(table: str, name: str) -> None:
    mark = _mark(table, name)
    while True:
        mark.parent.mkdir(parents=True, exist_ok=True)
        try:
            mark.write_text(name, encoding="utf-8")
            return
        except FileNotFoundError:  # a commit took the empty directory away in between
            continue


def _path_in(mark: Path) -> str:
    """Of the file in the table. A mark that is empty was not finished, so there is no file of its name in any directory."""
    try:
        return mark.read_text(encoding="utf-8") or mark.name
    except FileNotFoundError:  # another driver was faster
        return mark.name


def _mark(table: str, name: str) -> Path:
    own = name.rsplit("/", 1)[-1]
    return _directory(table) / own.rsplit("-", 1)[0] / own


def _directory(table: str) -> Path:
    return Path(table) / OWN_DIRECTORY / "in_work"
