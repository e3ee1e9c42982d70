"""A schema registry, asked over HTTP for the schema behind an id: Confluent's interface, which others serve as well.

What is known is kept, the last of it, since an id never changes its schema. That an id is unknown is believed
for a short while only: its schema may be on the way. An answer is bounded in size and in time, however slowly it drips.
"""

import base64
import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from odradek.model.errors import ConfigurationError, OdradekError
from odradek.model.ids import INT32_MAX

TIMEOUT_S = 10.0  # for a whole answer
ATTEMPTS = 3
PAUSE_S = 0.5
BELIEVED_S = 10.0  # that an id is unknown, or that nobody answers
_LARGEST = 8 << 20
# Characters of schemas that are kept: values may name each that a registry has, and some have tens of thousands.
MOST_KNOWN = 64 << 20
_MOST_UNKNOWN = 10_000  # bytes of anybody's that are taken for an id
# Questions in vain of BELIEVED_S, each a connection and a millisecond or more: who writes has four bytes for an id, and a job is not
# to ask for all of them. What is not asked for is taken for unknown, which stops no job, and is asked for in another ten seconds: its records
# can be replayed.
MOST_IN_VAIN = 1_000
# A path, and the kind of schema that it is asked for: to Protobuf an id of Avro is unknown, and to Avro it is not.
_Asked = tuple[str, str]
_NO_LOGIN, _LATER = 401, (408, 429)  # of HTTP
_NO_SUCH_VERSION, _NO_SUCH_SUBJECT, _NO_SUCH_SCHEMA = 40402, 40401, 40403


class RegistryUnavailable(OdradekError):
    """Nobody knows now what the schema is; later somebody may. The message names the registry and what it answered."""


class UnknownSchema(OdradekError):
    """The registry has no such schema."""


class Reference(NamedTuple):
    name: str
    subject: str
    version: int


class Schema(NamedTuple):
    """`text` is JSON for Avro; for Protobuf a FileDescriptorProto, serialized, in base64."""

    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    schema_id: int | None = None


class Registry:
    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = TIMEOUT_S,
        pause_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = checked_url(url)
        self._shown = shown_url(url)
        self._timeout_s = timeout_s
        self._pause_s = PAUSE_S if pause_s is None else pause_s
        self._clock = clock
        self._known: dict[_Asked, Schema] = {}
        self._known_size = 0  # of their texts
        # When, and in which words: an error that was raised would keep what its callers held.
        self._unknown: dict[_Asked, tuple[float, str]] = {}
        self._in_vain_since, self._in_vain = 0.0, 0
        self._silent: dict[str, tuple[float, str]] = {}  # by path, "" of all: since when, and how it said so

    def __str__(self) -> str:
        return self._shown

    def schema(self, schema_id: int, kind: str) -> Schema:
        """Raises UnknownSchema and RegistryUnavailable, as all of them do. `kind` is AVRO or PROTOBUF."""
        if schema_id > INT32_MAX:
            # Asked for one of these a registry says that it knows no such path, as if it were none.
            raise UnknownSchema(f"schema id {schema_id} is in no registry: {INT32_MAX} is the largest")
        return self._asked(f"/schemas/ids/{schema_id}", kind, f"schema id {schema_id}")

    def latest(self, subject: str, kind: str) -> Schema:
        """The newest of a subject, as it is now."""
        path = f"/subjects/{quote(subject, safe='')}/versions/latest"
        return self._ask(path, kind, f"subject {subject}")

    def referred(self, reference: Reference, kind: str) -> Schema:
        path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
        return self._asked(path, kind, f"{reference.subject}, version {reference.version}")

    def _asked(self, path: str, kind: str, what: str) -> Schema:
        asked = path, kind
        if asked in self._known:
            return self._known[asked]
        since, why = self._unknown.get(asked, (0.0, ""))
        if why and self._clock() - since < BELIEVED_S:
            raise UnknownSchema(why)
        if self._clock() - self._in_vain_since >= BELIEVED_S:
            self._in_vain_since, self._in_vain = self._clock(), 0
        if self._in_vain >= MOST_IN_VAIN:
            raise UnknownSchema(
                f"{what} is taken for unknown, and {self._shown} not asked: of {MOST_IN_VAIN} others within {BELIEVED_S:g} s it knew none"
            )
        try:
            found = self._ask(path, kind, what)
        except UnknownSchema as unknown:
            self._in_vain += 1
            if len(self._unknown) >= _MOST_UNKNOWN:
                self._unknown.clear()
            self._unknown[asked] = (self._clock(), str(unknown))
            raise
        self._known[asked] = found
        self._known_size += len(found.text)
        while self._known_size > MOST_KNOWN and len(self._known) > 1:
            self._known_size -= len(self._known.pop(next(iter(self._known))).text)
        return found

    def _ask(self, path: str, kind: str, what: str) -> Schema:
        # Protobuf in the form that needs no compiler here.
        asked = f"{path}?format=serialized" if kind == "PROTOBUF" else path
        found = self._answer(asked, what)
        text, of_kind = found.get("schema"), found.get("schemaType", "AVRO")
        if not isinstance(text, str):
            raise RegistryUnavailable(f"{self._shown}{asked} answers without a schema: is it a registry?")
        if of_kind != kind:
            raise UnknownSchema(f"{what} is {of_kind} in {self._shown}, not {kind}")
        try:
            references = tuple(
                Reference(str(r["name"]), str(r["subject"]), int(r["version"]))
                for r in found.get("references") or ()
            )
        except (KeyError, TypeError, ValueError):
            raise RegistryUnavailable(
                f"{self._shown}{asked} answers with references that are none: is it a registry?"
            ) from None
        return Schema(kind, text, references, found.get("id"))

    def _answer(self, path: str, what: str) -> dict[str, Any]:
        for asked in ("", path):
            since, why = self._silent.get(asked, (0.0, ""))
            if why and self._clock() - since < BELIEVED_S:
                raise self._unavailable(what, why)
        of_what = ""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                status, body = self._get(path)
            except (OSError, UnicodeError, http.client.HTTPException) as error:
                why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            else:
                found = _json(body)
                if status == 200 and found is not None:
                    return found
                if found is not None and found.get("error_code") in (
                    _NO_SUCH_SCHEMA,
                    _NO_SUCH_SUBJECT,
                    _NO_SUCH_VERSION,
                ):
                    raise UnknownSchema(f"{what} is not in {self._shown}")
                why = f"it answers {status}, {_beginning(body)}"
                if status < 500 and status not in _LATER:
                    of_what = path if 400 <= status != _NO_LOGIN else ""
                    break  # asked again, it would say the same
            if attempt < ATTEMPTS:
                time.sleep(self._pause_s * attempt)
        if len(self._silent) >= _MOST_UNKNOWN:
            self._silent.clear()
        self._silent[of_what] = (self._clock(), why)
        raise self._unavailable(what, why)

    def _unavailable(self, what: str, why: str) -> RegistryUnavailable:
        return RegistryUnavailable(f"the registry {self._shown} does not tell of {what}: {why}")

    def _get(self, path: str) -> tuple[int, bytes]:
        deadline = time.monotonic() + self._timeout_s
        url = self._url
        make = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        connection = make(str(url.hostname), url.port, timeout=self._timeout_s)
        connection.connect()
        # The timeout of a socket is one of each piece, and the head of an answer may come byte by byte.
        late = threading.Timer(max(0.0, deadline - time.monotonic()), _hang_up, [connection.sock])
        late.daemon = True
        late.start()
        try:
            answer = self._whole_answer(connection, path)
        except (OSError, http.client.HTTPException):
            if time.monotonic() < deadline:
                raise
            answer = None
        finally:
            late.cancel()
            connection.close()
        if answer is None or time.monotonic() >= deadline:
            raise TimeoutError(f"no whole answer within {self._timeout_s:g} s")
        return answer

    def _whole_answer(self, connection: http.client.HTTPConnection, path: str) -> tuple[int, bytes]:
        url = self._url
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if url.username is not None:
            pair = f"{unquote(url.username)}:{unquote(url.password or '')}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        connection.request("GET", url.path.rstrip("/") + path, headers=headers)
        answer = connection.getresponse()
        pieces, size = [], 0
        while piece := answer.read1(1 << 16):
            pieces.append(piece)
            size += len(piece)
            if size > _LARGEST:
                raise http.client.HTTPException(f"more than {_LARGEST >> 20} MiB")
        if answer.length:  # `read1` takes the end of a connection for that of the answer
            raise http.client.IncompleteRead(b"".join(pieces), answer.length)
        return answer.status, b"".join(pieces)


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):  # it is closed by now
        connection.shutdown(socket.SHUT_RDWR)


def checked_url(url: str) -> Any:
    try:
        found = urlsplit(url)
        is_one = found.scheme in ("http", "https") and found.hostname and found.port != 0
    except ValueError:  # of its port, or of a bracket
        is_one = False
    if not is_one or found.query or found.fragment:
        raise ConfigurationError(f"{shown_url(url)} is no address of a registry: expected http://HOST:PORT")
    return found


def shown_url(url: str) -> str:
    """Without a password: messages, logs and files may have it."""
    try:
        found = urlsplit(url)
    except ValueError:
        return url.rpartition("@")[2]
    return found._replace(netloc=found.netloc.rpartition("@")[2]).geturl().rstrip("/")


# By process too: a forked worker must not wait for what its parent has asked.
_registries: dict[tuple[int, str], Registry] = {}


def registry_at(url: str) -> Registry:
    """One a process, so that an id is asked for once."""
    key = (os.getpid(), url)
    if key not in _registries:
        _registries[key] = Registry(url)
    return _registries[key]


def _json(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _beginning(body: bytes) -> str:
    text = " ".join(body[:200].decode(errors="replace").split())
    return repr(text[:80]) if text else "and nothing else"
