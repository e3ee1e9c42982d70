"""Records that a query has a right to, and that are gone: an error, or with failOnDataLoss=false a warning."""

import warnings

from odradek.model.errors import OdradekError

# In the note of a batch: how many offsets were to be read and were gone, where there are any.
LOST = "lost"


class DataLoss(OdradekError):
    """What is gone, and what to do about it."""


def lose(what: str, remedy: str, *, is_failure: bool) -> None:
    """`remedy` is what failOnDataLoss=false does instead, as in "goes on at offset 50"."""
    if is_failure:
        raise DataLoss(f"{what}; failOnDataLoss=false {remedy}")
    warnings.warn(f"{what}; this query {remedy}", stacklevel=3)
