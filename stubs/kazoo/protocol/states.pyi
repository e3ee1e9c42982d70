from collections.abc import Callable
from typing import Any, NamedTuple

class KazooState:
    CONNECTED: str
    SUSPENDED: str
    LOST: str

class KeeperState:
    AUTH_FAILED: str

class EventType:
    CREATED: str
    DELETED: str
    CHANGED: str
    CHILD: str
    NONE: str

class WatchedEvent(NamedTuple):
    type: str
    state: str
    path: str

class Callback(NamedTuple):
    type: str
    func: Callable[..., Any]
    args: tuple[Any, ...]
