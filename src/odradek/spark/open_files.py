"""Files that are read again and again, of which only some are open: a process may have a thousand open, and tasks write more."""

from collections import OrderedDict
from pathlib import Path
from typing import BinaryIO, Self

MOST_OPEN = 64


class OpenFiles:
    """Opened when they are read; beyond so many, the one that was read longest ago is closed."""

    def __init__(self, most: int = MOST_OPEN) -> None:
        self._most = most
        self._open: OrderedDict[Path, BinaryIO] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for path in list(self._open):
            self.close(path)

    def opened(self, path: Path) -> BinaryIO:
        """There until another one is asked for. Raises OSError."""
        if path not in self._open:
            while len(self._open) >= self._most:
                self.close(next(iter(self._open)))
            self._open[path] = path.open("rb", buffering=0)
        self._open.move_to_end(path)
        return self._open[path]

    def close(self, path: Path) -> None:
        if path in self._open:
            self._open.pop(path).close()
