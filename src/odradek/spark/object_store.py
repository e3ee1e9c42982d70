"""A table in an object store that has S3's interface: `s3://BUCKET/PREFIX`.

Files and commits go through delta-rs's own store, so that one place knows address and credentials. Both are of the environment
of each process (driver and tasks), by the names that every tool of AWS has for them: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`,
`AWS_REGION`, `AWS_ENDPOINT_URL`, a profile, a role. They are in no option, so in no plan, log or checkpoint of Spark's.

A commit is one conditional PUT (`If-None-Match: *`) of the table's next version: of two who try, the store refuses one. A store
that knows nothing of the condition would let one commit take the place of another: `odradek.spark.store_probe` finds that out.
"""

import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar, cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import pyarrow as pa
import pyarrow.fs as pf
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler

from odradek.model.errors import ConfigurationError, OdradekError
from odradek.spark.formats.registry import shown_url
from odradek.spark.places import below, is_in_store

P = ParamSpec("P")
T = TypeVar("T")
TIMEOUT_VARIABLE = "ODRADEK_STORE_TIMEOUT"
TIMEOUT_S = 30.0
# Of what a request may take: as long it is tried again where the store is not there, does not answer, or answers 5xx. Time alone
# ends that: object_store draws each wait between the first and twice the one before, so a number of tries is no time (ten took 2
# to 6 s at a port where nobody listened).
_TRIED_AGAIN = 3
_RETRIES = 100_000
_LONGEST_WAIT_S = 5
_CONNECTED_S = 5.0
# How many in a row are taken for the end of a server, and its successor's beginning.
_BREAKS = 3
_SECRETS = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID")


# As those say it who look for them; a table or a column may be called `credentials`.
_NO_CREDENTIALS = re.compile(
    r"(load|fetch|find|found|get|obtain|provid|read|retriev)\w* (\w+ ){0,3}credential|\bno credential|\bcredentials? provider|Credentials(NotLoaded|Error)",
    re.IGNORECASE,
)


_BROKEN = re.compile(r"connection reset|connection aborted|broken pipe|unexpected eof", re.IGNORECASE)
_TOOK = re.compile(r" in ([\d.]+)(ns|µs|ms|s)\b")  # as Rust writes a Duration
_SECONDS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


class StoreError(OdradekError):
    """The object store does not do what it was asked for; the message says where and what would help."""


class ConnectionBroken(StoreError):
    """Under a request that is not repeated by itself, for it may have been done: a conditional PUT, a deletion. Who asked looks
    again."""


class ObjectStore:
    """Files below a prefix. Errors are StoreErrors, but FileNotFoundError where a file is not there."""

    def __init__(self, url: str) -> None:
        self._url = url = url.rstrip("/")
        handler = DeltaStorageHandler(url, storage_options(url))
        self._raw: Any = handler._handler  # pyarrow's own streams give it buffers, and it takes bytes
        self._files = pf.PyFileSystem(handler)

    def write(self, name: str, data: bytes) -> None:
        with answers(self._url):
            stream = self._raw.open_output_stream(name, None)
            stream.write(data)
            stream.close()

    replace = write  # an object is there whole, or as it was before

    def settle(self, name: str, data: bytes) -> bytes:
        place = below(self._url, name)

        def settled() -> bytes:
            if is_first(place, data.decode()):
                return data
            with answers(self._url):
                table = DeltaTable(place, storage_options=storage_options(place))
                return (table.metadata().description or "").encode()

        return unbroken(settled)

    def read(self, name: str) -> bytes:
        with answers(self._url), self._files.open_input_file(name) as file:
            return bytes(file.read())

    def delete(self, names: Iterable[str]) -> None:
        def deleted(name: str) -> None:
            with answers(self._url):
                self._raw.delete_file(name)

        for name in names:
            unbroken(partial(deleted, name))

    def sync(self, names: Iterable[str]) -> None:
        """What the store has answered for, it has."""

    def sync_all(self) -> None:
        """The same."""

    def tidy(self, directory: str) -> None:
        """There are no directories."""

    def listed(self, directory: str, prefix: str = "") -> list[str]:
        found: list[str] = []
        with answers(self._url):
            for entry in self._infos(directory):
                if entry.path.rsplit("/", 1)[-1].startswith(prefix):
                    is_file = entry.type == pf.FileType.File
                    found += [entry.path] if is_file else self._below(entry.path)
        return sorted(found)

    def _infos(self, directory: str) -> list[Any]:
        return list(self._files.get_file_info(pf.FileSelector(directory, allow_not_found=True)))

    def _below(self, directory: str) -> list[str]:
        selector = pf.FileSelector(directory, allow_not_found=True, recursive=True)
        entries = self._files.get_file_info(selector)
        return [entry.path for entry in entries if entry.type == pf.FileType.File]

    def sink(self, name: str) -> pa.NativeFile:
        with answers(self._url):
            return pa.PythonFile(_Upload(self._url, self._raw.open_output_stream(name, None)), mode="w")

    def parquet(self, name: str) -> pq.ParquetFile:
        with answers(self._url):
            return pq.ParquetFile(self._files.open_input_file(name), pre_buffer=True)


class _Upload:
    """An object as it is written: in parts, which become an object when it is closed."""

    def __init__(self, url: str, stream: Any) -> None:
        self._url = url
        self._stream = stream
        self._size = 0
        self.closed = False

    def write(self, data: pa.Buffer) -> int:
        piece = bytes(data)
        with answers(self._url):
            self._stream.write(piece)
        self._size += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """What is not yet a part is kept."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with answers(self._url):
                self._stream.close()


def storage_options(path: str) -> dict[str, str] | None:
    """As delta-rs takes them, beside what it finds in the environment itself; None for a directory."""
    if not is_in_store(path):
        return None
    timeout_s = _timeout_s()
    options = {
        "timeout": f"{timeout_s * 1000:.0f}ms",
        "connect_timeout": f"{min(timeout_s, _CONNECTED_S) * 1000:.0f}ms",
        "retry_timeout": f"{_tried_for_s() * 1000:.0f}ms",
        "max_retries": str(_RETRIES),
        "backoff_config.max_backoff": f"{_LONGEST_WAIT_S}s",
        "aws_conditional_put": "etag",
    }
    endpoint = _endpoint()
    if endpoint:
        options["aws_endpoint_url"] = endpoint
        options["allow_http"] = str(endpoint.startswith("http://")).lower()
        if not (os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")):
            options["aws_region"] = "us-east-1"  # asked for by the protocol, and nobody's choice elsewhere
    return options


def check_listens(table: str) -> None:
    """StoreError where nobody listens at the address that the environment names: at the start of a job, who mistyped it wants to
    know now, and not when a store that is away would have been waited for. Behind a proxy nothing is known, and of a
    directory nobody is asked."""
    if not is_in_store(table):
        return
    try:
        address = urlsplit(_endpoint())
        if not address.hostname or (address.scheme in getproxies() and not proxy_bypass(address.hostname)):
            return
        port = address.port or {"http": 80}.get(address.scheme, 443)
        socket.create_connection((address.hostname, port), min(_timeout_s(), _CONNECTED_S)).close()
    except (OSError, ValueError) as why:
        raise StoreError(
            f"{table}: the store at {place()} cannot be reached ({why}); AWS_ENDPOINT_URL names it, and the same line goes on once it can"
        ) from None


def unbroken(asks: Callable[[], T]) -> T:
    """What it answers; asked again where the connection breaks, so it is of a kind that may be done twice."""
    for _ in range(_BREAKS):
        try:
            return asks()
        except ConnectionBroken:
            pass
    return asks()


def is_first(place: str, text: str) -> bool:
    """Whether this call has created what now is there: by the conditional PUT of a commit, so it is a table, without rows, whose
    description is the text."""
    with answers(place):
        try:
            DeltaTable.create(
                place,
                Schema.from_arrow(pa.schema([("nothing", pa.int64())])),
                description=text,
                storage_options=storage_options(place),
                commit_properties=CommitProperties(max_commit_retries=0),
            )
        except (CommitFailedError, DeltaError) as error:
            if _is_conflict(error):
                return False
            raise
    return True


def _is_conflict(error: Exception) -> bool:
    text = str(error)
    return "already exists" in text or re.search(r"Failed to commit transaction: \d+$", text) is not None


@contextmanager
def answers(table: str) -> Iterator[None]:
    """What a store refuses, or does not answer to, is a StoreError. Of a directory all stays as it is."""
    if not is_in_store(table):
        yield
        return
    text = ""
    try:
        yield
    except (FileNotFoundError, TableNotFoundError) as error:
        if "NoSuchBucket" not in str(error):
            raise
        text = str(error)
    except (OSError, DeltaError) as error:
        if isinstance(error, DeltaError) and not is_of_store(error):
            raise
        text = str(error)
    if _is_broken(text):
        raise ConnectionBroken(
            f"{table}: the connection to the store at {place()} broke ({_without_secrets(_last_line(text))}); whether the request "
            f"was done is not known; the same line looks, and goes on"
        )
    if text:
        raise StoreError(_sentence(table, text)) from None


def _is_broken(text: str) -> bool:
    """Whether a connection broke under a request that was not repeated. One that may be done twice is repeated until its time is
    over; any may have been repeated before, where the store was not there or answered 5xx."""
    took = _TOOK.search(text)
    is_over = took is not None and float(took[1]) * _SECONDS[took[2]] >= _tried_for_s()
    return _BROKEN.search(text) is not None and not is_over


def answering(asks: Callable[P, T]) -> Callable[P, T]:
    """What asks a table, which comes first, by its name or opened: with errors of a store as `answers` has them. Whatever
    delta-rs is asked of a table it may read from the store."""

    @wraps(asks)
    def asked(*args: P.args, **more: P.kwargs) -> T:
        table = args[0]
        with answers(table if isinstance(table, str) else cast(DeltaTable, table).table_uri.rstrip("/")):
            return asks(*args, **more)

    return asked


def is_of_store(error: Exception) -> bool:
    """Whether the store did not do what delta-rs asked for; else Delta's own rules forbid it."""
    text = str(error)
    return "Generic S3 error" in text or "Error performing" in text or bool(_NO_CREDENTIALS.search(text))


def _sentence(table: str, text: str) -> str:
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    tried = f"after it was tried again for up to {_tried_for_s():g} s"
    code = re.search(r"<Code>(\w+)</Code>", text)
    told = code[1] if code else ""
    status = re.search(r"\b([45]\d\d) [A-Z]", text)
    bucket = table.removeprefix("s3://").split("/")[0]
    if told == "NoSuchBucket":
        return f"{table}: there is no bucket {bucket} at {place()}; create it, or name another"
    if _NO_CREDENTIALS.search(text) and not status:
        return (
            f"{table}: no credentials for {place()} were found; AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or a profile or "
            f"role) have to be in the environment of the driver and of each executor"
        )
    if status and status[1] in ("401", "403"):
        if not (os.environ.get("AWS_ACCESS_KEY_ID") and os.environ.get("AWS_SECRET_ACCESS_KEY")):
            return (
                f"{table}: the store at {place()} refuses this process ({status[1]}), in whose environment there is no "
                f"AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY; driver and executors need them, or a profile or role that is let in"
            )
        return (
            f"{table}: the store at {place()} refuses the credentials of this process ({status[1]}{f' {told}' if told else ''}); "
            f"they need to read, write, list and delete below {table}"
        )
    if status:
        answer = f"{table}: the store at {place()} answers {status[1]}{f' {told}' if told else ''}"
        if not (status[1].startswith("5") or status[1] == "429"):
            return answer
        return f"{answer}, {tried}; the same line goes on once it is well"
    why = _without_secrets(_last_line(text))
    if re.search(
        r"tcp connect error|dns error|connection (refused|reset)|closed before", text, re.IGNORECASE
    ):
        return f"{table}: the store at {place()} cannot be reached ({why}), {tried}; the same line goes on once it can"
    if re.search(r"timed out|request timeout|deadline", text, re.IGNORECASE):
        return (
            f"{table}: the store at {place()} does not answer within {_timeout_s():g} s ({TIMEOUT_VARIABLE}); the same line goes "
            f"on once it does"
        )
    if "error sending request" in text or "HTTP error" in text:  # of an upload delta-rs tells no more
        return (
            f"{table}: the store at {place()} cannot be reached, or does not answer within {_timeout_s():g} s ({TIMEOUT_VARIABLE}); "
            f"the same line goes on once it does"
        )
    return f"{table}: {why}"


def _last_line(text: str) -> str:
    lines = [line.strip(" \u21b3") for line in text.splitlines() if line.strip(" \u21b3")]
    return lines[-1][:200] if lines else "an error without words"


def _without_secrets(text: str) -> str:
    for name in _SECRETS:
        value = os.environ.get(name, "")
        if value:
            text = text.replace(value, "***")
    return text


def place() -> str:
    """The store, as messages name it."""
    return shown_url(_endpoint()) or "AWS"


def _endpoint() -> str:
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""


def _tried_for_s() -> float:
    return _TRIED_AGAIN * _timeout_s()


def _timeout_s() -> float:
    text = os.environ.get(TIMEOUT_VARIABLE, "")
    if not text:
        return TIMEOUT_S
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 3600:
        raise ConfigurationError(f"{TIMEOUT_VARIABLE}={text}: expected seconds, as in 30")
    return seconds
