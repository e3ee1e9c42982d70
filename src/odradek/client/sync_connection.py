"""One blocking connection to a broker: requests leave in order, answers come back in order.

No threads and no hidden waiting: every call has a deadline on the monotonic clock, and what goes wrong is
said in a sentence that names host, port and cause. After an error the connection is closed for good; the
client above makes a new one.
"""

import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from odradek import __version__
from odradek.client.addresses import is_ip, no_thread_to_look_up
from odradek.client.local_peers import is_within_a_host, no_pacing_within_a_host
from odradek.client.produce_pieces import FileSlice, Piece
from odradek.model.error_codes import ErrorCode
from odradek.model.errors import ConfigurationError, OdradekError, ProtocolError
from odradek.model.ids import LAST_PORT, number_in
from odradek.model.printable import shown
from odradek.protocol import headers
from odradek.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from odradek.protocol.primitives import size_of
from odradek.protocol.schema import Request, Response

# A size field above this is no Kafka answer: "HTTP" read as a number is 1.2 GB.
MAX_ANSWER_BYTES = 1 << 30
SOFTWARE_NAME = "odradek"
_STEP_BYTES = 1 << 20  # of a `FrameBuffer`, so that it grows a few times and not with every frame
_LARGEST_KEPT_BYTES = 12 << 20  # above a Fetch of 8 MiB; a record that is larger comes rarely
_SIZE = struct.Struct(">i")
_MORE = getattr(socket, "MSG_MORE", 0)  # what comes next goes into the same packet
_UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        """For messages: a host may be that of a stranger."""
        host = shown(self.host)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


class Unreachable(OdradekError):
    """Nobody answers at an address; the message names host, port and cause."""


class Starting(Unreachable):
    """Somebody is there and does not serve yet, as far as can be told from outside: it may pass by itself."""


class ConnectionLost(OdradekError):
    """The connection broke under a request: whether the broker acted on it is not known."""


class CutFile(OdradekError):
    """A file has fewer bytes than it had."""


class DeadlineExceeded(OdradekError):
    """The time for a request, retries included, is over; the message says what stood in the way last."""


# Whoever was asked has not answered, whatever the cause.
NO_ANSWER = (ConnectionLost, DeadlineExceeded, Unreachable)


def parse_addresses(text: str) -> list[Address]:
    """`host:port,host:port`, IPv6 in brackets; ConfigurationError says what is wrong with which part."""
    addresses = []
    for part in (part.strip() for part in text.split(",")):
        host, colon, port = part.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        is_host = bool(colon and host) and "/" not in host
        number = number_in(port)
        if not is_host or number is None:
            raise ConfigurationError(f"bootstrap address {part!r}: expected host:port, as in localhost:9092")
        if not 0 < number <= LAST_PORT:
            raise ConfigurationError(
                f"bootstrap address {part!r}: port {port} is not between 1 and {LAST_PORT}"
            )
        addresses.append(Address(host, number))
    return addresses


class FrameBuffer:
    """Memory for one answer after the other: that the system gives fresh pages for each costs more than filling them."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def take(self, size: int) -> memoryview:
        """So many bytes of whatever was there; what was taken before is overwritten."""
        if size > _LARGEST_KEPT_BYTES:
            return memoryview(bytearray(size))
        if size > len(self._kept):
            self._kept = bytearray(-(-size // _STEP_BYTES) * _STEP_BYTES)
        return memoryview(self._kept)[:size]


def code_of(number: int) -> ErrorCode:
    """The error code; a number that a newer broker invented counts as UNKNOWN_SERVER_ERROR."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def answered(number: int, about: str, message: str | None = None) -> ProtocolError:
    """What a broker answered about something, as an error to raise."""
    code = code_of(number)
    name = code.name if code == number else f"error code {number}"
    return ProtocolError(code, f"{about}: {name}, {message}" if message else f"{about}: {name}")


def left_out(about: object) -> ProtocolError:
    """A broker's answer says nothing of what it was asked about."""
    return ProtocolError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{about}: not in the answer of the broker")


class PendingAnswer(NamedTuple):
    correlation_id: int
    response_type: type[Response]
    version: int


def response_type_of(request_type: type[Request]) -> type[Response]:
    """The answer to a message stands beside it in the same file, under the same name."""
    name = request_type.__name__.removesuffix("Request") + "Response"
    found: type[Response] = getattr(sys.modules[request_type.__module__], name)
    return found


class SyncConnection:
    """A connected socket, the versions its broker serves, and the answers still on their way."""

    def __init__(self, address: Address, *, client_id: str, deadline: float) -> None:
        self.address = address
        self.versions: dict[int, tuple[int, int]] = {}
        self._client_id = client_id
        self._has_answered = False  # with a byte of anything
        self._next_correlation_id = 0
        self._expected: deque[int] = deque()
        self._early: dict[int, memoryview] = {}
        began = time.monotonic()
        self._socket = _connect(address, deadline)
        self.peer = address
        self.is_within_a_host = False
        try:
            with suppress(OSError):  # it has gone already: the first request says so
                self.is_within_a_host = is_within_a_host(self._socket)
                there = self._socket.getpeername()
                if isinstance(there, tuple):
                    self.peer = Address(*there[:2])  # as it is reached, whatever it is called
            self._negotiate(deadline)
        except (ConnectionLost, ProtocolError) as error:
            self.close()
            if not self._has_answered and isinstance(error.__cause__, ConnectionError):
                # What a broker does that is reading its logs, or has no session with its store yet.
                raise Starting(
                    f"{address} is starting, as it seems: it closes connections before it answers (what does not "
                    "speak Kafka may do so too)"
                ) from error
            if not self._has_answered and isinstance(error.__cause__, TimeoutError):
                waited_s = time.monotonic() - began
                raise Unreachable(
                    f"{address} accepts connections but gives no answer within {waited_s:.2g} s: it hangs, or is stopped (or does "
                    "not speak Kafka)"
                ) from error
            raise Unreachable(f"{address} accepts connections but does not speak Kafka: {error}") from error
        except BaseException:
            self.close()
            raise

    def version_for(self, request_type: type[Request], max_version: int | None = None) -> int:
        """The newest version both sides know, at most `max_version`."""
        first, last = self.versions.get(request_type.KEY, (0, -1))
        ours = request_type.VERSIONS
        version = min(last, ours.last, last if max_version is None else max_version)
        if version < max(first, ours.first):
            name = request_type.__name__.removesuffix("Request")
            served = f"serves {name} {first}-{last}" if last >= first else f"does not serve {name}"
            wanted = f"{ours.first}-{ours.last if max_version is None else min(ours.last, max_version)}"
            raise ProtocolError(
                ErrorCode.UNSUPPORTED_VERSION, f"{self.address} {served}; this client speaks {wanted}"
            )
        return version

    def send(self, request: Request, version: int, deadline: float, *, silent: bool = False) -> PendingAnswer:
        """Writes the request. `silent` is for Produce with acks=0, which is never answered."""
        correlation_id = self._new_correlation_id()
        body = request.encode(version)
        frame = headers.encode_request(request.KEY, version, correlation_id, self._client_id, body)
        self._write([frame], type(request), deadline)
        if not silent:
            self._expected.append(correlation_id)
        return PendingAnswer(correlation_id, response_type_of(type(request)), version)

    def send_pieces(
        self, request_type: type[Request], version: int, pieces: Sequence[Piece], deadline: float
    ) -> PendingAnswer:
        """Writes the request whose body the pieces are."""
        correlation_id = self._new_correlation_id()
        head = headers.encode_request(request_type.KEY, version, correlation_id, self._client_id, b"")
        size = len(head) - _SIZE.size + size_of(pieces)
        self._write([_SIZE.pack(size) + head[_SIZE.size :], *pieces], request_type, deadline)
        self._expected.append(correlation_id)
        return PendingAnswer(correlation_id, response_type_of(request_type), version)

    def receive(
        self,
        pending: PendingAnswer,
        deadline: float,
        into: FrameBuffer | None = None,
        begins_by: float | None = None,
    ) -> Any:
        """The answer to `pending`. Answers to older requests that come first are kept for whoever asks.

        Read `into` a buffer, what lies in the answer as bytes is there until the next one is read into it. `begins_by`: by when
        its first bytes are there.
        """
        frame = self._early.pop(pending.correlation_id, None)
        while frame is None:
            is_it = self._expected[0] == pending.correlation_id
            arrived = self._read_frame(
                pending.response_type.__name__, deadline, into if is_it else None, begins_by
            )
            correlation_id = self._expected.popleft()
            if correlation_id == pending.correlation_id:
                frame = arrived
            else:
                self._early[correlation_id] = arrived
        key = pending.response_type.KEY
        try:
            correlation_id, offset = headers.decode_response_header(key, pending.version, frame)
            if correlation_id != pending.correlation_id:
                raise ConnectionLost(
                    f"{self.address}: answer {correlation_id} to request {pending.correlation_id}"
                )
            return pending.response_type.decode(pending.version, frame, offset)
        except (ProtocolError, ConnectionLost):
            self.close()
            raise

    def close(self) -> None:
        self._socket.close()

    def _new_correlation_id(self) -> int:
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        return correlation_id

    def _write(self, pieces: Sequence[Piece], request_type: type[Request], deadline: float) -> None:
        try:
            for number, piece in enumerate(pieces, 1):
                self._set_timeout(deadline)
                if isinstance(piece, FileSlice):
                    file = piece.file.opened()
                    sent = self._socket.sendfile(file, piece.offset, piece.size_bytes)
                    if sent != piece.size_bytes:
                        raise CutFile(f"{file.name} ends {piece.size_bytes - sent} bytes too early")
                else:
                    self._socket.sendall(piece, _MORE if number < len(pieces) else 0)
        except OSError as error:
            self.close()
            raise ConnectionLost(
                f"{self.address}: {_cause(error)} while sending {_name(request_type)}"
            ) from error
        except BaseException:
            self.close()  # the rest would be taken for the rest of this request
            raise

    @property
    def awaits_answers(self) -> bool:
        return bool(self._expected)

    @property
    def is_open(self) -> bool:
        """As far as can be seen without asking. A broker closes what was idle for connections.max.idle.ms: a request
        sent there would be lost, and nobody could say whether it had been acted on."""
        if self._socket.fileno() < 0:
            return False
        if not self._expected and self._has_something_to_read():
            self.close()  # its end, or bytes that nobody asked for
            return False
        return True

    def _has_something_to_read(self) -> bool:
        self._socket.settimeout(0)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True  # it was reset
        return True

    def _negotiate(self, deadline: float) -> None:
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
        version = 3
        frame, offset = self._ask_versions(request, version, deadline)
        if frame[offset : offset + 2] == _UNSUPPORTED_VERSION:
            # KIP-511: a broker that does not know our version says so in the form of version 0.
            version = 0
            frame, offset = self._ask_versions(ApiVersionsRequest(), version, deadline)
        answer = ApiVersionsResponse.decode(version, frame, offset)
        if answer.error_code != ErrorCode.NONE:
            raise answered(answer.error_code, "ApiVersions")
        self.versions = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}

    def _ask_versions(
        self, request: ApiVersionsRequest, version: int, deadline: float
    ) -> tuple[memoryview, int]:
        pending = self.send(request, version, deadline)
        frame = self._read_frame("ApiVersionsResponse", deadline)
        self._expected.popleft()
        correlation_id, offset = headers.decode_response_header(request.KEY, version, frame)
        if correlation_id != pending.correlation_id:
            raise ConnectionLost(f"{self.address}: {len(frame)} bytes that are no answer to ApiVersions")
        return frame, offset

    def _read_frame(
        self, name: str, deadline: float, into: FrameBuffer | None = None, begins_by: float | None = None
    ) -> memoryview:
        try:
            (size,) = struct.unpack(">i", self._read_exactly(4, deadline if begins_by is None else begins_by))
            if not 4 <= size <= MAX_ANSWER_BYTES:
                raise ConnectionLost(f"{self.address}: an answer of {size} bytes instead of {name}")
            return self._read_exactly(size, deadline, into)
        except OSError as error:
            self.close()
            raise ConnectionLost(f"{self.address}: {_cause(error)} while waiting for {name}") from error
        except BaseException:
            # Whatever it was (Ctrl-C too): the rest of this answer would be taken for the next one's size.
            self.close()
            raise

    def _read_exactly(self, size: int, deadline: float, into: FrameBuffer | None = None) -> memoryview:
        view = memoryview(bytearray(size)) if into is None else into.take(size)
        filled = 0
        while filled < size:
            self._set_timeout(deadline)
            received = self._socket.recv_into(view[filled:])
            if received == 0:
                raise ConnectionResetError("closed by the other side")
            self._has_answered = True
            filled += received
        return view

    def _set_timeout(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        self._socket.settimeout(left)


def _name(request_type: type[Request]) -> str:
    return request_type.__name__.removesuffix("Request")


def _cause(error: OSError | ValueError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ValueError):
        return str(error)
    return (error.strerror or str(error)).lower()


def _connect(address: Address, deadline: float) -> socket.socket:
    """A connected socket; of several IP addresses the first that answers."""
    if not 0 <= address.port <= LAST_PORT:
        # Named by a broker. glibc would take it modulo 65,536, and reach somebody else.
        raise Unreachable(f"no broker answers at {address}: {address.port} is not between 0 and {LAST_PORT}")
    last: OSError | None = None
    found = _resolve(address, deadline)
    for number, (family, kind, protocol, _, endpoint) in enumerate(found):
        try:
            connected = socket.socket(family, kind, protocol)
        except OSError as error:  # a machine without IPv6
            last = error
            continue
        try:
            # A silent one may not use up the time of those after it.
            left = (deadline - time.monotonic()) / (len(found) - number)
            if left <= 0:
                raise TimeoutError
            connected.settimeout(left)
            connected.connect(endpoint)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            no_pacing_within_a_host(connected)
            return connected
        except OSError as error:
            connected.close()
            last = error
    assert last is not None, "getaddrinfo gives at least one address or raises"
    raise Unreachable(f"no broker answers at {address}: {_cause(last)}") from last


def _resolve(address: Address, deadline: float) -> list[Any]:
    """getaddrinfo, given up on at the deadline.

    The system's resolver knows no deadline and may try dead name servers for a minute. So a name, and only
    a name, is looked up in a thread that is left behind when it takes too long.
    """
    found: list[Any] = []
    failed: list[OSError | ValueError] = []

    def look_up() -> None:
        try:
            found.extend(socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM))
        except (OSError, ValueError) as error:
            # ValueError: a name with an empty label, one of 300 characters, a zero byte.
            failed.append(error)

    if is_ip(address.host):
        look_up()
    else:
        thread = threading.Thread(target=look_up, daemon=True, name=f"resolve {address.host}")
        try:
            thread.start()
        except (RuntimeError, MemoryError) as error:
            raise Unreachable(
                f"no broker answers at {address}: {no_thread_to_look_up(address.host)}"
            ) from error
        thread.join(max(0.0, deadline - time.monotonic()))
        if not found and not failed:
            raise Unreachable(
                f"no broker answers at {address}: the name {shown(address.host)} is not resolved in time"
            )
    if failed:
        raise Unreachable(
            f"no broker answers at {address}: the name {shown(address.host)} is not known ({_cause(failed[0])})"
        ) from failed[0]
    return found
