"""What a power cut would take of a table: whatever nobody has synced."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest


class PowerCuts:
    """Which files, and which names in directories, a power cut would take away now."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._synced: dict[int, tuple[int, int]] = {}  # inode: size and last change, as they were synced
        fsync = os.fsync

        def noted(fd: int) -> None:
            fsync(fd)
            status = os.fstat(fd)
            self._synced[status.st_ino] = (status.st_size, status.st_mtime_ns)

        patch.setattr(os, "fsync", noted)

    def would_take(self, places: Iterable[Path]) -> list[str]:
        taken = []
        for place in places:
            status = place.stat()
            if self._synced.get(status.st_ino) != (status.st_size, status.st_mtime_ns):
                taken.append(str(place))
        return taken


def data_of(table: Path) -> list[Path]:
    """The files that have rows, and the directories that have their names."""
    found = {file for file in table.rglob("*.parquet") if not {"_odradek", "_delta_log"} & set(file.parts)}
    return sorted(
        found | {parent for file in found for parent in file.parents if parent.is_relative_to(table)}
    )
