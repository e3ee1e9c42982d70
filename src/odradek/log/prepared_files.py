"""Files made under temporary names, beside a log that goes on as it is.

What a roll or a cut needs is opened, read and written before anything of the log is changed: that may fail, for want of
a descriptor above all, and then nothing has happened. `put` only renames, which takes no descriptor: should even that
fail, the disk is at fault, or somebody has taken the directory away, and the log is used no more.

What a crash leaves under a temporary name goes when the log is opened.
"""

from collections.abc import Iterable

from odradek.log.errors import MissingFile
from odradek.log.files import TEMPORARY_SUFFIX, Buffer, Directory, File


class PreparedFiles:
    """Put in place in the order in which they were made."""

    __slots__ = ("_directory", "_files", "_suffix")

    def __init__(self, directory: Directory, suffix: str = TEMPORARY_SUFFIX) -> None:
        self._directory = directory
        self._suffix = suffix
        self._files: dict[str, File | None] = {}  # None: somebody else has made it, and holds it open or not

    @classmethod
    def made(cls, directory: Directory, suffix: str, names: Iterable[str]) -> "PreparedFiles":
        """Written and synced by another process."""
        files = cls(directory, suffix)
        files._files = dict.fromkeys(names)
        return files

    def write(self, name: str, data: Buffer = b"") -> File:
        """The open file; it has its own name from `put` on."""
        temporary = name + self._suffix
        # Of an attempt that got no further. Written over, its old pages could show again after a power cut.
        self._directory.remove(temporary)
        file = self._files[name] = self._directory.open(temporary, create=True)
        if data:
            file.append(data)
        return file

    def sync(self) -> None:
        """What is in them. Blocks."""
        for file in self._files.values():
            if file is not None:
                file.sync()

    def put_under(self, suffix: str) -> None:
        """Gives them another temporary name, the last one made first: once the first has its new name, all have."""
        for name in reversed(self._files):
            self._rename(name, name + suffix)
        self._suffix = suffix

    def put(self) -> list[str]:
        """Their names: not synced yet."""
        for name, file in self._files.items():
            self._rename(name, name)
            if file is not None:
                file.name = f"{self._directory.path}/{name}"
        return list(self._files)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._files)

    def remove(self) -> None:
        """They are not wanted."""
        for name in self._files:
            self._directory.remove(name + self._suffix)

    def _rename(self, name: str, new: str) -> None:
        if not self._directory.rename(name + self._suffix, new):
            raise MissingFile(
                f"{self._directory.path}/{name}{self._suffix}: missing: it was removed or renamed from outside this process"
            )
