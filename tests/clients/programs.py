"""Clients that are programs of their own, in whatever language: of each record they print `partition offset number`."""

import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence

from tests.clients.support import Books
from tests.support import die_with_parent

Command = Sequence[str]


def _started(command: Command) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
    )


def _printed(process: "subprocess.Popen[str]") -> Iterator[tuple[int, int, int]]:
    assert process.stdout is not None
    for line in process.stdout:
        if not line.endswith("\n"):
            return  # it ended in the midst of it
        partition, offset, value = line.split()
        yield int(partition), int(offset), int(value[:12])


def write(command: Command, books: Books) -> None:
    """Until the program has ended; it prints what was acknowledged."""
    process = _started(command)
    try:
        for partition, offset, number in _printed(process):
            books.acknowledge(partition, offset, number)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def reader(
    command_at: Callable[[str], Command],
) -> Callable[[str, Callable[[int, int, int], None], threading.Event], None]:
    """Runs the command until it is told to stop, and tells what the program prints that it read."""

    def read(bootstrap: str, seen: Callable[[int, int, int], None], stop: threading.Event) -> None:
        process = _started(command_at(bootstrap))

        def end() -> None:
            stop.wait()
            process.terminate()

        ending = threading.Thread(target=end)
        ending.start()
        try:
            for row in _printed(process):
                seen(*row)
        finally:
            stop.set()
            ending.join()
            process.wait()

    return read
