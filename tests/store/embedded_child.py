"""A process with a session of its own, for tests that kill, stop and race: `python -m tests.store.embedded_child`.

hold FILE TIMEOUT_MS NODE     make an ephemeral node, say `ready`, then say every state of the session
append FILE PREFIX            create nodes PREFIX0, PREFIX1, ... and say each when it is acknowledged
lock FILE                     take the write lock, say `locked`, and keep it
count FILE TIMES              raise the number in /counter that often by compare-and-set, say `done`
"""

import asyncio
import signal
import sqlite3
import sys
from pathlib import Path

from odradek.store.api import ConditionalOps, Create, SessionExpired, SessionState, Set, Stored
from odradek.store.embedded import EmbeddedStore

LONG_MS = 120_000  # nobody is to end because a busy machine forgot it for a while


def say(word: object) -> None:
    print(word, flush=True)


async def hold(file: Path, timeout_ms: int, node: str) -> None:
    over = asyncio.Event()

    def became(state: SessionState) -> None:
        say(state.value)
        if state is SessionState.EXPIRED:
            over.set()

    while True:
        store = await EmbeddedStore.open(file, timeout_ms)
        try:
            await store.create(node, b"alive", ephemeral=True)
        except SessionExpired:  # a busy machine let it sleep through a short timeout here already
            continue
        break
    say("ready")
    store.listen(on_session=became)
    if store.state is SessionState.EXPIRED:
        became(store.state)
    await over.wait()
    try:
        await store.create(f"{node}-again", ephemeral=True)
    except SessionExpired:
        say("refused")


async def append(file: Path, prefix: str) -> None:
    store = await EmbeddedStore.open(file, LONG_MS)
    number = 0
    while True:
        group = ConditionalOps((Create(f"{prefix}{number}", b"x" * 200), Create(f"{prefix}{number}/child")))
        (answer,) = await store.write([group], None)
        assert isinstance(answer, Stored), answer
        say(number)
        number += 1


def lock(file: Path) -> None:
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    say("locked")
    signal.pause()


async def count(file: Path, times: int) -> None:
    store = await EmbeddedStore.open(file, LONG_MS)
    done = 0
    while done < times:
        node = await store.get("/counter")
        group = ConditionalOps((Set("/counter", str(int(node.data) + 1).encode(), node.stat.version),))
        (answer,) = await store.write([group], None)
        done += isinstance(answer, Stored)
    await store.close()
    say("done")


def main(verb: str, file: str, *rest: str) -> None:
    path = Path(file)
    if verb == "hold":
        asyncio.run(hold(path, int(rest[0]), rest[1]))
    elif verb == "append":
        asyncio.run(append(path, rest[0]))
    elif verb == "lock":
        lock(path)
    else:
        assert verb == "count", verb
        asyncio.run(count(path, int(rest[0])))


if __name__ == "__main__":
    main(*sys.argv[1:])
