"""Of kazoo, which has no types, what `store/zookeeper/link.py` uses; tests/store/test_stubs.py looks whether it is there."""

from collections.abc import Callable, Mapping
from logging import Logger, LoggerAdapter
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.handlers.utils import AsyncResult
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.states import KazooState as KazooState
from kazoo.protocol.states import WatchedEvent

class KazooClient:
    handler: SequentialThreadingHandler
    last_zxid: int
    _connection: ConnectionHandler
    _data_watchers: dict[str, set[Callable[[WatchedEvent], None]]]
    _session_id: int | None
    _session_passwd: bytes
    _state: str
    def __init__(
        self,
        hosts: str = ...,
        timeout: float = ...,
        client_id: tuple[int, bytes] | None = ...,
        handler: SequentialThreadingHandler | None = ...,
        *,
        sasl_options: Mapping[str, Any] | None = ...,
        connection_retry: Mapping[str, Any] | None = ...,
        logger: Logger | LoggerAdapter[Logger] | None = ...,
    ) -> None: ...
    def add_listener(self, listener: Callable[[str], bool | None]) -> None: ...
    def start_async(self) -> object: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...
    def _call(self, request: object, async_object: AsyncResult) -> bool | None: ...
