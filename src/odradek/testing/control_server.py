"""What `RunningCluster` can do, over HTTP: for tests in other languages.

`GET /` says what there is. `POST /kill {"broker_id": 2}` calls the method of that name with these arguments, and answers when it
has returned: `{"result": ...}`. What Python writes as a `with` (`paused`, `partition`, `shrink_isr`, `inject`) begins with its POST,
which answers `{"id": 1}`, and ends with `DELETE /1`; `GET /1` says how many requests a fault has met. Errors are
`{"error": "a sentence"}`, with status 400 for a wrong question and 500 for what did not come about.

Only programs of this machine reach it: it listens on loopback, and what a page in a browser may send is refused.
"""

import contextlib
import inspect
import json
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from odradek.model.errors import ConfigurationError, OdradekError
from odradek.model.settings import nearest
from odradek.testing.injections import Injection
from odradek.testing.running_cluster import RunningCluster

LARGEST_BODY_BYTES = 65_536
LARGEST_LINE_BYTES = 1024  # of those between chunks
LARGEST_DISCARDED_BYTES = 64 << 20  # of a body that is refused
LAST_READ_S = 2.0
LOCAL_NAMES = ("127.0.0.1", "localhost")
# The methods that are called; the second ones return what has an end.
CALLED = (
    *("create_topic", "leader", "isr", "move_leader"),
    *("kill", "start", "stop_in_order", "pause", "resume", "advance"),
)
BEGUN = ("paused", "partition", "shrink_isr", "inject")


class WrongQuestion(OdradekError):
    """The request is none that can be answered."""


class Control:
    """The cluster as it is asked for over HTTP: one question after the other."""

    def __init__(self, cluster: RunningCluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._begun: dict[int, AbstractContextManager[Any]] = {}
        self._last_id = 0

    def state(self) -> dict[str, Any]:
        cluster = self._cluster.cluster
        return {
            "bootstrap": self._cluster.bootstrap,
            "controller": self._cluster.controller,
            "brokers": [
                {
                    "id": broker,
                    "address": cluster.address(broker),
                    "is_running": broker in cluster.runtimes,
                    "is_paused": cluster.links.is_silent(broker),
                }
                for broker in cluster.ids
            ],
            "begun": sorted(self._begun),
        }

    def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """`result` of what is called, `id` of what is begun."""
        if name not in (*CALLED, *BEGUN):
            near = nearest(name, dict.fromkeys((*CALLED, *BEGUN)))
            raise WrongQuestion(
                f"/{name}: no such operation; " + (f"did you mean /{near}?" if near else "GET / lists them")
            )
        method: Callable[..., Any] = getattr(self._cluster, name)
        try:
            inspect.signature(method).bind(**arguments)
        except TypeError as error:
            raise WrongQuestion(f"/{name}: {error}; it takes {inspect.signature(method)}") from None
        with self._lock:
            found = method(**arguments)
            if name in CALLED:
                return {"result": found}
            found.__enter__()
            self._last_id += 1
            self._begun[self._last_id] = found
            return {"id": self._last_id}

    def look(self, number: int) -> dict[str, Any]:
        begun = self._begun_as(number)
        return {"id": number, "hits": begun.hits if isinstance(begun, Injection) else None}

    def end(self, number: int) -> dict[str, Any]:
        with self._lock:
            answer = self.look(number)
            self._begun.pop(number).__exit__(None, None, None)
        return answer

    def end_all(self) -> None:
        with contextlib.ExitStack() as stack:
            while self._begun:
                stack.push(self._begun.popitem()[1])

    def _begun_as(self, number: int) -> AbstractContextManager[Any]:
        if number not in self._begun:
            under_way = ", ".join(map(str, sorted(self._begun))) or "nothing"
            raise WrongQuestion(f"/{number}: it has ended or was never begun; under way: {under_way}")
        return self._begun[number]


class ControlServer:
    """Use it in a `with`; `url` is where it is asked. What was begun over it ends with it."""

    def __init__(self, cluster: RunningCluster, *, port: int = 0) -> None:
        control = self._control = Control(cluster)

        class Handler(_Handler):
            asked = control

        self._server = _Server(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="odradek-control", daemon=True
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "ControlServer":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._control.end_all()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if isinstance(sys.exception(), ConnectionError):
            return  # whoever asked is gone
        super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    asked: Control
    server_version = "odradek"
    timeout = 60.0

    def do_GET(self) -> None:
        self._answer(lambda name: self.asked.look(_number(name)) if name else self._about())

    def do_POST(self) -> None:
        self._answer(lambda name: self.asked.call(name, self._arguments()))

    def do_DELETE(self) -> None:
        self._answer(lambda name: self.asked.end(_number(name)))

    def _about(self) -> dict[str, Any]:
        return {**self.asked.state(), "operations": [*CALLED, *BEGUN]}

    def _answer(self, do: Callable[[str], dict[str, Any]]) -> None:
        try:
            self._check_sender()
            answer, status = do(self.path.strip("/")), 200
        except (WrongQuestion, ConfigurationError) as error:
            answer, status = {"error": str(error)}, 400
        except (OdradekError, AssertionError, TimeoutError, TypeError, ValueError) as error:
            answer, status = {"error": str(error) or type(error).__name__}, 500
        except Exception as error:  # a value of another kind than expected, or a mistake of ours
            answer, status = {"error": f"{type(error).__name__}: {error}"}, 500
        self._say(status, answer)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Of the base class, for another method than ours and for what is no request."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self._say(
                405, {"error": f"{self.command}: it takes GET, POST and DELETE"}, allow="GET, POST, DELETE"
            )
        else:
            self._say(code, {"error": message or HTTPStatus(code).phrase})

    def _say(self, status: int, answer: dict[str, Any], *, allow: str | None = None) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if allow is not None:
            self.send_header("Allow", allow)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def finish(self) -> None:
        """A socket that is closed while something in it is unread resets the connection, and whoever still sends a large
        body that was refused would not hear why."""
        super().finish()
        with contextlib.suppress(
            OSError
        ):  # whoever asked is gone, or keeps the connection open and says nothing more
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(LAST_READ_S)
            left = LARGEST_DISCARDED_BYTES
            while left > 0 and (piece := self.connection.recv(LARGEST_BODY_BYTES)):
                left -= len(piece)

    def _check_sender(self) -> None:
        """A page in a browser names its origin, or the name by which it was led here."""
        host = self.headers.get("Host", "").rpartition(":")[0]
        if self.headers.get("Origin") is not None or host not in LOCAL_NAMES:
            raise WrongQuestion("this is for programs on this machine, not for pages in a browser")

    def _arguments(self) -> dict[str, Any]:
        body = self._chunks() if self.headers.get("Transfer-Encoding") == "chunked" else self._body()
        try:
            arguments = json.loads(body or b"{}")
        except (ValueError, RecursionError) as error:
            raise WrongQuestion(f"the body is no JSON: {error}") from None
        if not isinstance(arguments, dict):
            raise WrongQuestion('the body is no JSON object, as in {"broker_id": 2}')
        return arguments

    def _body(self) -> bytes:
        size = self.headers.get("Content-Length", "0")
        if not size.isdecimal() or int(size) > LARGEST_BODY_BYTES:
            raise WrongQuestion(f"Content-Length {size}: at most {LARGEST_BODY_BYTES} bytes")
        return self.rfile.read(int(size))

    def _chunks(self) -> bytes:
        """What clients send that do not know its size in advance: Node's, where the body is written and then ended."""
        body = b""
        while size := _chunk_size(self.rfile.readline(LARGEST_LINE_BYTES)):
            if len(body) + size > LARGEST_BODY_BYTES:
                raise WrongQuestion(f"chunks: at most {LARGEST_BODY_BYTES} bytes in all")
            body += self.rfile.read(size)
            self.rfile.readline(LARGEST_LINE_BYTES)
        self.rfile.readline(LARGEST_LINE_BYTES)  # no trailers, or the answer is lost with the connection
        return body

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: whoever asks has the answer."""


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or digits.strip(b"0123456789abcdefABCDEF"):
        raise WrongQuestion(f"{line!r} is no size of a chunk")
    return int(digits, 16)


def _number(name: str) -> int:
    if not name.isdecimal():
        raise WrongQuestion(f"/{name}: the number of something that was begun is expected")
    return int(name)
