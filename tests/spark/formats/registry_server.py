"""A schema registry over real HTTP that answers as recorded: the forms of Confluent's documentation of its interface."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

UNKNOWN_SCHEMA = {"error_code": 40403, "message": "Schema 99 not found"}
UNKNOWN_SUBJECT = {"error_code": 40401, "message": "Subject 'orders-value' not found."}


class RegistryServer:
    """`answers` maps a path without its query to (status, body); bytes go out as they are."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: dict[str, tuple[int, Any]] = {}
        self.asked: list[str] = []
        self.authorization: list[str | None] = []
        self.delay_s = 0.0  # before each byte of a body
        self.cuts = 0  # answers that lack their last byte

    def has(
        self,
        schema_id: int,
        schema: Any,
        *,
        subject: str = "",
        version: int = 1,
        kind: str = "AVRO",
        references: Any = (),
    ) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        found: dict[str, Any] = {"schema": text}
        if kind != "AVRO":  # which is left out, as the registry does
            found["schemaType"] = kind
        if references:
            found["references"] = list(references)
        self.answers[f"/schemas/ids/{schema_id}"] = (200, found)
        if subject:
            of_subject = {**found, "subject": subject, "version": version, "id": schema_id}
            for name in (str(version), "latest"):
                self.answers[f"/subjects/{subject}/versions/{name}"] = (200, of_subject)


@contextmanager
def registry() -> Iterator[RegistryServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked.append(self.path)
            server.authorization.append(self.headers["Authorization"])
            path = unquote(urlsplit(self.path).path)
            unknown = UNKNOWN_SUBJECT if path.startswith("/subjects/") else UNKNOWN_SCHEMA
            status, body = server.answers.get(path, (404, unknown))
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if server.cuts:
                server.cuts -= 1
                data = data[:-1]
            if not server.delay_s:
                self.wfile.write(data)
                return
            for byte in data:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(server.delay_s)

        def log_message(self, *_: Any) -> None:
            pass

        def handle(self) -> None:
            with suppress(ConnectionError):  # who asked has given up
                super().handle()

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = RegistryServer(f"http://127.0.0.1:{http.server_address[1]}")
    thread = Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def framed(schema_id: int, value: bytes) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + value
