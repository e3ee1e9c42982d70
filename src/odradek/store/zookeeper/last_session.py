"""The session of the process that was here before us: a broker that is started again ends it, and need not wait.

ZooKeeper keeps a dead broker's registration for the whole session timeout. Whoever knows a session's id and
password may end it, so they are written beside the logs; and whoever holds the lock on the log directory knows that
the process before is gone. A copy of the directory knows nothing: the note counts only in the directory it was
written in, and only until the machine starts anew.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from pathlib import Path

from odradek.store.zookeeper.link import KazooLink, LinkState, SessionKey
from odradek.store.zookeeper.security import Security

_BOOT = Path("/proc/sys/kernel/random/boot_id")


class LastSession:
    """The note at `path`. Only to be used while the lock on its directory is held."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> SessionKey | None:
        """None when there is no note that counts. A damaged one is as good as none: then we wait."""
        try:
            note = json.loads(self._path.read_bytes())
            if note["where"] != self._where():
                return None
            return SessionKey(int(note["session"], 16), bytes.fromhex(note["password"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, key: SessionKey) -> None:
        """Whole or not at all, readable by us alone. That it cannot be written costs a wait, later."""
        where = self._where()
        if where is None:
            return
        note = {"where": where, "session": f"{key.session_id:#x}", "password": key.password.hex()}
        beside = self._path.with_name(f"{self._path.name}.new")
        with suppress(OSError):
            beside.unlink(missing_ok=True)
            with open(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
                json.dump(note, file)
            beside.replace(self._path)

    def forget(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _where(self) -> list[str | int] | None:
        """This directory on this machine since it was started; None where that cannot be told."""
        try:
            stat = self._path.parent.stat()
            return [_BOOT.read_text().strip(), str(self._path.parent.resolve()), stat.st_dev, stat.st_ino]
        except OSError:
            return None


async def end_session(hosts: str, key: SessionKey, security: Security, patience_s: float = 6.0) -> bool:
    """Ends the session that `key` belongs to, unless it has ended before; False when nobody answered."""
    loop = asyncio.get_running_loop()
    reached: asyncio.Future[None] = loop.create_future()

    def became(state: LinkState) -> None:
        if state is not LinkState.DOWN and not reached.done():
            reached.set_result(None)

    # A session that has ended already is answered with a new one, which ends here too.
    link = KazooLink(
        hosts,
        int(patience_s * 1000),
        security,
        on_state=became,
        on_negotiated=lambda timeout_s: None,
        on_watch=lambda event: None,
        key=key,
    )
    link.start()
    try:
        async with asyncio.timeout(patience_s):
            await reached
    except TimeoutError:
        return False
    finally:
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await link.stop()
    return True
