from collections.abc import Callable
from typing import NamedTuple

from kazoo.protocol.states import WatchedEvent

class Exists(NamedTuple):
    path: str
    watcher: Callable[[WatchedEvent], None] | None

class GetData(NamedTuple):
    path: str
    watcher: Callable[[WatchedEvent], None] | None

class GetChildren2(NamedTuple):
    path: str
    watcher: Callable[[WatchedEvent], None] | None
