"""The one error of both state machines: a move that is not in the table."""

from odradek.model.errors import OdradekError


class IllegalTransition(OdradekError):
    """No such move in the table: a mistake in our code, never a fault in the cluster.

    The controller that meets it no longer knows what it believes: it resigns and reloads (row 24).
    """

    def __init__(self, subject: str, source: str, target: str, legal: tuple[str, ...]) -> None:
        super().__init__(f"{subject}: {source} -> {target}; legal: {', '.join(legal) or 'none'}")
