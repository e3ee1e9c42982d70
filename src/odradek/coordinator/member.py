"""A member of a classic group: what it offers, what it was assigned, and which request of it is parked."""

from typing import NamedTuple

from odradek.coordinator.bounded_memory import of_text
from odradek.coordinator.member_memory import BYTES_OF_A_MEMBER, LEAST_OF_A_MEMBER, of_protocols
from odradek.coordinator.records import StoredMember

Protocols = tuple[tuple[str, bytes], ...]  # name and metadata, the member's favourite first


class Client(NamedTuple):
    """Who sent a request: its client id and its address, as `/127.0.0.1`."""

    client_id: str
    host: str


class Parked(NamedTuple):
    """A request that is not answered yet. `call` is whoever asked's name for it."""

    call: int
    version: int


class Member:
    __slots__ = (
        "assignment",
        "client",
        "instance_id",
        "is_new",
        "join",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "returned_from",
        "session_ends_at_ms",
        "session_timeout_ms",
        "session_timer_at_ms",
        "size_bytes",
        "sync",
    )

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client: Client,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client = client
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.join: Parked | None = None
        self.sync: Parked | None = None
        self.is_new = False  # parked in its first JoinGroup
        # Ids it had before it came back to a stable group, as long as it comes back once more: later ones name them.
        self.returned_from: frozenset[str] = frozenset()
        self.session_ends_at_ms = 0
        self.size_bytes = self.weighed()  # of memory, about, beside its assignment; with its group's names
        self.session_timer_at_ms: int | None = None  # the earliest timer that looks at it

    @property
    def is_parked(self) -> bool:
        return self.join is not None or self.sync is not None

    @property
    def held_bytes(self) -> int:
        """As it counts."""
        return max(LEAST_OF_A_MEMBER, self.size_bytes + len(self.assignment))

    def weighed(self) -> int:
        """What `size_bytes` is without a group."""
        names = of_text(self.member_id, self.instance_id or "", self.client.client_id)
        return BYTES_OF_A_MEMBER + names + of_protocols(self.protocols)

    def metadata_of(self, protocol: str | None) -> bytes:
        return metadata_of(self.protocols, protocol)

    def stored(self, protocol: str | None, assignment: bytes) -> StoredMember:
        return StoredMember(
            self.member_id,
            self.instance_id,
            self.client.client_id,
            self.client.host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata_of(protocol),
            assignment,
        )


def metadata_of(protocols: Protocols, protocol: str | None) -> bytes:
    for name, metadata in protocols:
        if name == protocol:
            return metadata
    return b""


def member_from(stored: StoredMember, protocol: str | None) -> Member:
    return Member(
        member_id=stored.member_id,
        instance_id=stored.instance_id,
        client=Client(stored.client_id, stored.client_host),
        rebalance_timeout_ms=stored.rebalance_timeout_ms,
        session_timeout_ms=stored.session_timeout_ms,
        protocols=((protocol or "", stored.subscription),),
        assignment=stored.assignment,
    )
