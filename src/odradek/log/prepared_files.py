"""Files made under temporary names, beside a log that goes on as it is.

What a roll or a cut needs is opened, read and written before anything of the log is changed: that may fail, for want of
a descriptor above all, and then nothing has happened. `put` only renames, which takes no descriptor: should even that
fail, the disk is at fault, or somebody has taken the directory away, and the log is used no more.

What a crash leaves under a temporary name goes when the log is opened.
"""

from odradek.log.errors import MissingFile
from odradek.log.files import TEMPORARY_SUFFIX, Buffer, Directory, File


class PreparedFiles:
    """Put in place in the order in which they were made."""

    __slots__ = ("_directory", "_files")

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._files: dict[str, File] = {}

    def write(self, name: str, data: Buffer = b"") -> File:
        """The open file; it has its own name from `put` on."""
        temporary = name + TEMPORARY_SUFFIX
        # Of an attempt that got no further. Written over, its old pages could show again after a power cut.
        self._directory.remove(temporary)
        file = self._files[name] = self._directory.open(temporary, create=True)
        if data:
            file.append(data)
        return file

    def put(self) -> list[str]:
        """Their names: not synced yet."""
        directory = self._directory
        for name, file in self._files.items():
            if not directory.rename(name + TEMPORARY_SUFFIX, name):
                raise MissingFile(f"{directory.path}/{name}{TEMPORARY_SUFFIX}: taken away by somebody")
            file.name = f"{directory.path}/{name}"
        return list(self._files)
