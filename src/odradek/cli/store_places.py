"""Where the store is that a verb of `odradek store` looks at: a file, a directory, a broker's properties, ZooKeeper.

A file is read without a session: nobody is told of anything. Neither a file nor a chroot that is not there is made by
a verb that reads.
"""

import shlex
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import click

from odradek.cli.output import fail, is_given

if TYPE_CHECKING:
    from odradek.model.settings import BrokerSettings
    from odradek.store.api import Node, Stat, Store, StoreProvider

T = TypeVar("T")

STORE_FILE = "odradek-store.sqlite"
SESSION_TIMEOUT_MS = 10_000


class Place(NamedTuple):
    """One of the two."""

    file: Path | None
    ensemble: "BrokerSettings | None"

    @property
    def name(self) -> str:
        return str(self.file) if self.ensemble is None else f"ZooKeeper at {self.ensemble.zookeeper_connect}"


class Tree(Protocol):
    """One state of the store, to be read."""

    def get(self, path: str) -> "Node": ...

    def exists(self, path: str) -> "Stat | None": ...

    def children(self, path: str) -> list[str]: ...

    def get_many(self, paths: Sequence[str]) -> "list[Node | None]": ...

    def below(self, root: str) -> "list[tuple[str, Node]]": ...


def place_options(command: Any) -> Any:
    """The command gets `place: Place`."""

    def chosen(place: Path, zookeeper: str | None, **others: Any) -> Any:
        if is_given("place") and is_given("zookeeper"):
            raise click.UsageError("--store (or --dir) and --zookeeper are two stores; name one")
        if is_given("place"):
            zookeeper = None  # what the environment names stands for an option that is not given
        return command(place=place_of(place, zookeeper), **others)

    chosen.__doc__ = command.__doc__
    chosen.__name__ = command.__name__
    chosen.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    by_file = click.option(
        "--store",
        "--dir",
        "place",
        default=".",
        show_default="this directory",
        envvar="ODRADEK_STORE",
        type=click.Path(path_type=Path),
        help=f"The file; a directory with {STORE_FILE}, as `up --dir` makes one; or a broker's properties, "
        "which name a file or a ZooKeeper.",
    )
    by_connect = click.option(
        "--zookeeper",
        metavar="HOST:PORT/CHROOT",
        envvar="ODRADEK_ZOOKEEPER",
        help="An ensemble, as in zookeeper.connect. With TLS or SASL, name the broker's properties instead.",
    )
    return by_file(by_connect(chosen))


def place_of(path: Path, zookeeper: str | None) -> Place:
    if zookeeper is not None:
        from odradek.model.settings import BrokerSettings

        return Place(
            None, BrokerSettings({"zookeeper.connect": zookeeper, "zookeeper.session.timeout.ms": "10000"})
        )
    if path.is_dir():
        return Place(path / STORE_FILE, None)
    if path.suffix == ".properties":
        from odradek.server.main import read_configuration

        settings = read_configuration(str(path))
        if settings.zookeeper_connect:
            return Place(None, settings)
        assert settings.store_file is not None
        return Place(Path(settings.store_file), None)
    return Place(path, None)


def properties_in(file: Path) -> dict[str, str]:
    """As `read_configuration` reads them, for whoever wants some of them and starts no broker. ConfigurationError: it is no text."""
    from odradek.model.errors import ConfigurationError
    from odradek.model.settings import parse_properties

    try:
        return parse_properties(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file}: not a text in UTF-8 ({error.reason})") from None


@contextmanager
def reading(place: Place) -> Iterator[Tree]:
    """A file as of the last commit; an ensemble as it is from read to read."""
    if place.ensemble is not None:
        with _session(place, makes_chroot=False) as (session, run):
            yield _EnsembleTree(session, run)
        return
    from odradek.store.embedded.database import Database
    from odradek.store.embedded.operations import Reading

    database = Database(existing_file(place), create=False)
    try:
        with database.reading():
            yield Reading(database)
    finally:
        database.close()


def ended_sessions(place: Place, tree: Tree) -> set[int]:
    """Sessions of a file, which `tree` reads, whose processes have ended, and that nobody was left to end: whoever opens the store
    next does. None of a copy without the signs of life beside it, which is read as it was."""
    if place.file is None:
        return set()
    from odradek.store.embedded.liveness import PeerLife, directory_of
    from odradek.store.embedded.operations import Reading

    directory = directory_of(place.file)
    if not directory.is_dir():
        return set()
    assert isinstance(tree, Reading), "what `reading` gives of a file"
    ended = set()
    for session in tree.sessions():
        try:
            life = PeerLife(directory, session.session_id, session.timeout_ms, session.pid)
        except OSError:
            continue  # another user's: whether it lives is not known
        if life.is_dead():
            ended.add(session.session_id)
        life.close()
    return ended


@contextmanager
def writing(place: Place) -> Iterator[tuple["Store", Callable[[Awaitable[T]], T]]]:
    """A session, and what waits for its calls. A file that is not there is made."""
    with _session(place) as (session, run):
        yield session, run


def existing_file(place: Place) -> Path:
    assert place.file is not None
    if place.file.name == STORE_FILE and not place.file.exists():
        directory = place.file.parent
        where = "name the store's file with --store"
        for properties in sorted(directory.glob("broker-*/server.properties")):
            if _names_an_ensemble(properties):
                where = f"its brokers keep it in ZooKeeper: --store {shlex.quote(str(properties))}"
                break
        fail(f"there is no {STORE_FILE} in {directory.resolve()}; {where}")
    if not place.file.exists():
        fail(
            f"there is no store at {place.file}; --store takes its file, its directory, or a broker's properties"
        )
    return place.file


def _names_an_ensemble(properties: Path) -> bool:
    """False also of what cannot be read: a remedy is looked for, and what fails is said anyway."""
    from odradek.model.errors import ConfigurationError

    try:
        return bool(properties_in(properties).get("zookeeper.connect"))
    except (OSError, ConfigurationError):
        return False


@contextmanager
def _session(
    place: Place, *, makes_chroot: bool = True
) -> Iterator[tuple["Store", Callable[[Awaitable[Any]], Any]]]:
    import asyncio

    from odradek.store.api import NoNode

    with asyncio.Runner() as runner:
        stores = _provider(place, makes_chroot)

        def run(call: Awaitable[T]) -> T:
            async def wait() -> T:
                return await call

            return runner.run(wait())

        try:
            session = run(stores.open_session(SESSION_TIMEOUT_MS))
        except NoNode as error:
            assert place.ensemble is not None
            hosts = place.ensemble.zookeeper_connect.partition("/")[0]
            fail(f"there is no {error.path} in ZooKeeper at {hosts}; is the chroot right?")
        try:
            yield session, run
        finally:
            run(session.close())


def _provider(place: Place, makes_chroot: bool) -> "StoreProvider":
    if place.ensemble is not None:
        try:
            from odradek.store.zookeeper.stores import ZooKeeperStores
        except ImportError:
            fail("ZooKeeper needs kazoo: pip install 'odradek[zookeeper]'")
        return ZooKeeperStores.of(place.ensemble, makes_chroot=makes_chroot)
    from odradek.store.embedded import EmbeddedStores
    from odradek.store.embedded.file import anew

    assert place.file is not None
    return EmbeddedStores(place.file, anew)


class _EnsembleTree:
    """`Tree` over a session, a call at a time."""

    def __init__(self, session: "Store", run: Callable[[Awaitable[Any]], Any]) -> None:
        self._session = session
        self._run = run

    def get(self, path: str) -> "Node":
        node: Node = self._run(self._session.get(path))
        return node

    def exists(self, path: str) -> "Stat | None":
        stat: Stat | None = self._run(self._session.exists(path))
        return stat

    def children(self, path: str) -> list[str]:
        names: list[str] = self._run(self._session.children(path))
        return names

    def get_many(self, paths: Sequence[str]) -> "list[Node | None]":
        nodes: list[Node | None] = self._run(self._session.get_many(paths))
        return nodes

    def below(self, root: str) -> "list[tuple[str, Node]]":
        from odradek.store.portable import below

        found: list[tuple[str, Node]] = self._run(below(self._session, root))
        return found


def say(sentence: str) -> None:
    """Beside the answer, which goes to standard output."""
    print(f"odradek: {sentence}", file=sys.stderr, flush=True)


def node_at(tree: Tree, path: str) -> "Node":
    from odradek.store.api import NoNode, parent_of

    try:
        return tree.get(path)
    except NoNode:
        above = parent_of(path)
        while tree.exists(above) is None:
            above = parent_of(above)
        names = tree.children(above)
        shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        return fail(f"there is no node {path}; below {above} there are: {shown or 'none'}")


def text_of(data: bytes) -> str | None:
    """None for a value that is no text; `get` without --json writes its bytes."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
