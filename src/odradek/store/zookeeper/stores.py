"""Where sessions with an ensemble come from: `zookeeper.connect`, and what the settings say beside it."""

from __future__ import annotations

import asyncio
import logging
import re

from odradek.model.errors import ConfigurationError
from odradek.model.ids import LAST_PORT
from odradek.model.settings import BrokerSettings
from odradek.store.api import InvalidPath, OutOfTouch, Store, StoreProvider, check_path
from odradek.store.chroot import ChrootedStores
from odradek.store.zookeeper.last_session import LastSession, end_session
from odradek.store.zookeeper.security import Security
from odradek.store.zookeeper.session import ZooKeeperStore

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\[\]:\s]+)(?::(?P<port>[0-9]{1,5}))?")
logger = logging.getLogger(__name__)

# Apache's zookeeper.max.in.flight.requests.
IN_FLIGHT = 10
RETRY_S = 0.1


class ZooKeeperStores:
    """Sessions with the ensemble that `connect` names: `host:port,host:port/chroot`, as zookeeper.connect."""

    def __init__(
        self,
        connect: str,
        *,
        connection_timeout_ms: int = 18_000,
        security: Security | None = None,
        in_flight: int = IN_FLIGHT,
        last_session: LastSession | None = None,
        makes_chroot: bool = True,
    ) -> None:
        """`last_session`: of the process before us, to be ended before ours is used. A chroot that is not there is made,
        or to open a session raises NoNode."""
        self.hosts, self.chroot = split_connect(connect)
        self._connection_timeout_ms = connection_timeout_ms
        self._security = security or Security()
        self._in_flight = in_flight
        self._last_session = last_session
        self._is_first = True
        self._has_written = False
        self._latest: ZooKeeperStore | None = None
        self._chrooted: StoreProvider = ChrootedStores(_Unrooted(self), self.chroot, makes_root=makes_chroot)

    @classmethod
    def of(
        cls, settings: BrokerSettings, last_session: LastSession | None = None, *, makes_chroot: bool = True
    ) -> ZooKeeperStores:
        """Raises ConfigurationError. A connection may take as long as a session, unless it is said otherwise."""
        patience_ms = settings.zookeeper_connection_timeout_ms
        if patience_ms is None:
            patience_ms = settings.zookeeper_session_timeout_ms
        return cls(
            settings.zookeeper_connect,
            connection_timeout_ms=patience_ms,
            security=Security.of(settings),
            in_flight=settings.zookeeper_max_in_flight_requests,
            last_session=last_session,
            makes_chroot=makes_chroot,
        )

    async def open_session(self, session_timeout_ms: int) -> Store:
        """The member that made it may die before it was asked anything: another session is opened, as long as one may take."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._connection_timeout_ms / 1000
        while True:
            try:
                return await self._chrooted.open_session(session_timeout_ms)
            except OutOfTouch:
                if loop.time() + RETRY_S > deadline:
                    raise
            await asyncio.sleep(RETRY_S)

    async def open_unrooted(self, session_timeout_ms: int) -> ZooKeeperStore:
        """The whole tree of the ensemble, whatever the chroot. The session before is ended behind it: an ensemble that has answered
        once ends that one too, however long it has taken."""
        session = await ZooKeeperStore.open(
            self.hosts,
            session_timeout_ms,
            self._connection_timeout_ms,
            security=self._security,
            acl_of=self._security.acl_of(self.chroot),
            in_flight=self._in_flight,
        )
        try:
            await self._end_last()
        except BaseException:
            await session.close()
            raise
        self._latest = session
        if self._last_session is not None:
            self._last_session.write(session.key)
            self._has_written = True
        return session

    async def _end_last(self) -> None:
        """Once: later sessions of this process end by themselves."""
        key = self._last_session.read() if self._last_session is not None and self._is_first else None
        if key is not None:
            if await end_session(self.hosts, key, self._security):
                logger.info("ended session %#x of the process that was here before", key.session_id)
            else:
                logger.warning(
                    "session %#x of the process that was here before ends by itself", key.session_id
                )
        self._is_first = False

    async def close(self) -> None:
        """After the last session has ended in order there is none to be ended by whoever comes next. One that was closed while
        the ensemble could not be reached lives on there."""
        has_ended = self._latest is not None and self._latest.was_closed_in_touch
        if self._last_session is not None and self._has_written and has_ended:
            self._last_session.forget()


class _Unrooted:
    def __init__(self, stores: ZooKeeperStores) -> None:
        self._stores = stores

    async def open_session(self, session_timeout_ms: int) -> Store:
        return await self._stores.open_unrooted(session_timeout_ms)

    async def close(self) -> None:
        """Nothing is held between sessions."""


def split_connect(connect: str) -> tuple[str, str]:
    """(host:port,..., chroot); the chroot is `/` when there is none. Raises ConfigurationError."""
    hosts, _, chroot = connect.strip().partition("/")
    path = f"/{chroot}".rstrip("/") or "/"
    for host in hosts.split(","):
        found = _HOST.fullmatch(host.strip())
        if found is None:
            raise ConfigurationError(
                f"zookeeper.connect={connect}: expected host:port,host:port/chroot, found {host.strip()!r}"
            )
        if found["port"] is not None and not 0 < int(found["port"]) <= LAST_PORT:
            raise ConfigurationError(
                f"zookeeper.connect={connect}: port {found['port']} is not between 1 and {LAST_PORT}"
            )
    if "," in chroot:
        raise ConfigurationError(
            f"zookeeper.connect={connect}: the chroot stands once, at the end: host:port,host:port/chroot"
        )
    try:
        check_path(path)
    except InvalidPath as error:
        raise ConfigurationError(f"zookeeper.connect={connect}: {error}") from error
    return hosts, path
