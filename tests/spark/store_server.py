"""An object store for tests: S3's interface as moto serves it, over real HTTP, and what stands before it and fails.

moto holds its objects in memory, so it stands for what a store keeps on disks. What is slow, refuses, lies or is killed is a
proxy before it, as the front of a store is, in a process of its own: delta-rs holds Python's lock while it waits for a file.

    python -m tests.spark.store_server PORT STORE_PORT     that proxy; a line of JSON on its input says what it does from then on
"""

import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

SECRET = "wJalrXUtnFEMI-not-to-be-seen"
BUCKET = "lake"
LIMIT_S = 60.0

# What becomes of a request, beside a status that is answered in the store's place.
BLIND = "its condition is passed over, after another of its kind has come"
LOST = "it is done, and nobody hears of it"
CUT = "half of it arrives"
RESET_BEFORE = "the connection is reset"
RESET_AFTER = "it is done, and the connection is reset"
BUSY_THEN_RESET = "503 once, then it is done, and the connection is reset"
SILENT = "no answer, ever"
PAUSED = "it waits until there is another rule"
KILLED_BEFORE = "the server is killed"
KILLED_AFTER = "it is done, and the server is killed"
# Which requests.
EVERY, COMMITS, UPLOADS, DATA = "every", "commits", "uploads", "uploads of a table's files"
DELETIONS = "deletions"


class Rule(NamedTuple):
    what: str | int
    which: str = EVERY
    times: int = 1_000_000
    after: int = 0  # so many of the kind pass before

    def is_of(self, method: str, path: str) -> bool:
        if self.which == COMMITS:
            return method == "PUT" and "/_delta_log/" in path
        if self.which == DELETIONS:
            return method == "DELETE" or path.endswith("?delete")
        is_upload = method == "PUT" and "partNumber" in path
        is_data = ".parquet" in path and "/_" not in path
        return self.which == EVERY or (is_upload and (self.which == UPLOADS or is_data))


def free_port() -> int:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Store:
    """moto, in a process of its own."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        with open(directory / "moto.log", "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.one_service", str(self.port)],
                stdout=log,
                stderr=log,
            )
        _wait_for(self.port, self._process)
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)) as connection:
            connection.request("PUT", f"/{BUCKET}")
            assert connection.getresponse().status == 200

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(LIMIT_S)


def _wait_for(port: int, process: "subprocess.Popen[Any]") -> None:
    for _ in range(600):
        assert process.poll() is None, "the server has ended"
        with closing(socket.socket()) as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        threading.Event().wait(0.1)
    raise AssertionError("the server does not listen")


class Front:
    """What stands before a store."""

    def __init__(self, store: Store, port: int = 0) -> None:
        self.port = port or free_port()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.store_server", str(self.port), str(store.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._told("listens")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def obeys(self, rule: Rule | None) -> None:
        """From now on; None: all requests pass."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(rule) + "\n")
        self.process.stdin.flush()
        self._told("obeys")

    def wait_until_paused(self) -> None:
        self._told("paused")

    def _told(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == word

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=LIMIT_S)


@contextmanager
def front(store: Store) -> Iterator[Front]:
    one = Front(store)
    try:
        yield one
    finally:
        one.stop()


def environment(url: str, timeout_s: float = 30) -> dict[str, str]:
    """What a process needs to find the store."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "AKIA-of-the-test",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "ODRADEK_STORE_TIMEOUT": str(timeout_s),
    }


class _State:
    """What the proxy does."""

    def __init__(self, store_port: int) -> None:
        # Of all clients, for one is passed on at a time.
        self.store = http.client.HTTPConnection("127.0.0.1", store_port, timeout=LIMIT_S)
        self.changed = threading.Condition()
        self.rule: Rule | None = None
        self.seen = 0
        self.conditional = threading.Lock()  # moto looks and then puts: two at a time would both see nothing

    def obey(self, rule: Rule | None) -> None:
        with self.changed:
            self.rule, self.seen = rule, 0
            self.changed.notify_all()

    def of(self, method: str, path: str) -> str | int | None:
        with self.changed:
            rule = self.rule
            if rule is None or not rule.is_of(method, path):
                return None
            self.seen += 1
            self.changed.notify_all()
            if not rule.after < self.seen <= rule.after + rule.times:
                return None
            if rule.what == BLIND:  # two at a time, so that both have looked before either is there
                pair = (self.seen + 1) // 2 * 2
                self.changed.wait_for(lambda: self.seen >= pair or self.rule is not rule, LIMIT_S)
            if rule.what == PAUSED:
                _say("paused")
            if rule.what in (PAUSED, SILENT):
                self.changed.wait_for(lambda: self.rule is not rule)
            if rule.what == BUSY_THEN_RESET:
                return 503 if self.seen == rule.after + 1 else RESET_AFTER
            return rule.what


def _say(word: str) -> None:
    print(word, flush=True)


def _handler(state: _State) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # An answer leaves at once. Its body would wait until the head is acknowledged, for which a client takes 40 ms.
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            what = state.of(self.command, self.path)
            if isinstance(what, int):
                code = {403: b"AccessDenied", 503: b"SlowDown"}.get(what, b"InternalError")
                self._answer(what, [], b"<Error><Code>%s</Code></Error>" % code)
                return
            if what == KILLED_BEFORE:
                os.kill(os.getpid(), signal.SIGKILL)
            if what == RESET_BEFORE:
                self._reset()
                return
            if what in (CUT, SILENT):
                self.close_connection = True  # of half an upload a server does nothing, by its Content-Length
                return
            passed_over = {"connection", *(["if-none-match"] if what == BLIND else [])}
            headers = [pair for pair in self.headers.items() if pair[0].lower() not in passed_over]
            with state.conditional:
                found = self._passed(headers, body)
            if what == KILLED_AFTER:
                os.kill(os.getpid(), signal.SIGKILL)
            if what == RESET_AFTER:
                self._reset()
                return
            if what == LOST:
                self.close_connection = True
                return
            self._answer(*found)

        def _reset(self) -> None:
            """As the kernel does for a server that dies with bytes it has not read."""
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()  # whoever serves it shuts it down first, with a word of farewell
            self.close_connection = True

        def _passed(
            self, headers: list[tuple[str, str]], body: bytes
        ) -> tuple[int, list[tuple[str, str]], bytes]:
            store = state.store
            try:
                store.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in headers:
                    store.putheader(name, value)
                store.endheaders(body)
                answer = store.getresponse()
                return answer.status, answer.getheaders(), answer.read()
            except BaseException:
                store.close()  # the next request is not to find the rest of this one
                raise

        def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(status)
            length = str(len(body))
            for name, value in headers:
                if name.lower() == "content-length" and self.command == "HEAD":
                    length = value
                elif name.lower() not in ("connection", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is gone."""


def main() -> None:
    port, store_port = (int(text) for text in sys.argv[1:3])
    state = _State(store_port)
    server = _Server(("127.0.0.1", port), _handler(state))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _say("listens")
    for line in sys.stdin:
        rule = json.loads(line)
        state.obey(None if rule is None else Rule(*rule))
        _say("obeys")


if __name__ == "__main__":
    main()
