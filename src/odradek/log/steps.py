"""Work on a log that is longer than a turn of the loop may be: a generator, each of whose steps takes some milliseconds.

What it yields is None, and it goes on in another turn; or work for a thread, and it goes on with what came of that.
"""

from collections.abc import Generator
from typing import Any, Protocol, TypeVar


class Work(Protocol):
    """Something that takes long, touches nothing but what it was given, and says what came of it."""

    def run(self) -> Any: ...


T = TypeVar("T")
Steps = Generator[Work | None, Any, T]


def all_at_once(steps: Generator[Work | None, Any, T]) -> T:
    """For whoever holds up nobody, and for what is known to be short."""
    came: Any = None
    while True:
        try:
            work = steps.send(came)
        except StopIteration as end:
            made: T = end.value
            return made
        came = None if work is None else work.run()
