"""The directory a demo works in: made, marked as ours, emptied before each run, held by one run at a time."""

import fcntl
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from odradek.model.errors import ConfigurationError

MARK = ".odradek-demo"


@contextmanager
def workplace(directory: Path, keep: Iterable[Path] = ()) -> Iterator[Path]:
    """The directory, empty but for the mark. One that is somebody else's is refused and left as it is, and so is one in which
    there is something of `keep`."""
    for file in keep:
        link = file.parent.resolve() / file.name
        if any(place.is_relative_to(directory.resolve()) for place in (file.resolve(), link)):
            raise ConfigurationError(
                f"{file} is in {directory}, which is emptied before a demo; move one of them"
            )
    mark = directory / MARK
    if directory.exists() and not mark.exists():
        if not directory.is_dir():
            raise ConfigurationError(f"{directory} is a file; --dir wants a directory of the demo's own")
        if any(directory.iterdir()):
            raise ConfigurationError(
                f"{directory} holds files that are not of a demo; --dir with a new or empty directory would do"
            )
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    with mark.open("a") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(f"another demo runs in {directory}; --dir names another place") from None
        for entry in directory.iterdir():
            if entry.name == MARK:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        yield directory
