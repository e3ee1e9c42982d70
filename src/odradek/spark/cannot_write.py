"""What a disk does not take, told in a sentence with the place and what helps."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from odradek.model.errors import OdradekError


class CannotWrite(OdradekError):
    """A file could not be written; the message says where, why, and what of the batch is there."""


class NotShared(OdradekError):
    """The driver does not see what a task wrote."""


@contextmanager
def told(place: object, batch_id: int, of: str = "the table") -> Iterator[None]:
    """`place` is where is written, for a batch of `of`."""
    try:
        yield
    except OSError as error:
        if isinstance(error, pa.ArrowInvalid):
            raise
        raise CannotWrite(
            f"{place}: {error.strerror or error}; nothing of batch {batch_id} is in {of}, and the same line goes on once there "
            f"is room"
        ) from error
