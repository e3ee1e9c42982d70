"""What Spark starts for a Python: `python -I -S fork_client.py SOCKET PYTHON -m MODULE ARGUMENTS`.

It has the server at SOCKET fork the process (`odradek.spark.fork_server`) and ends with its exit code; where there is none
that can, it becomes PYTHON itself. Run by its path and without site-packages, it knows nothing of this package and imports little.
"""

import _socket
import os
import sys
from array import array
from struct import pack, unpack


def forked(address: str, arguments: list[str]) -> int | None:
    """The exit code, or None where nobody has taken the request."""
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        directory = os.getcwdb()
    except FileNotFoundError:  # it is gone; a Python of its own does not mind
        return None
    environment = [name + b"=" + value for name, value in os.environb.items()]
    fields = [directory, b"%d" % len(arguments), *map(os.fsencode, arguments), *environment]
    body = b"\0".join(fields)
    request = pack(">I", len(body)) + body
    try:
        server.connect(address)
        files = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array("i", (0, 1, 2)))
        rest = request[server.sendmsg([request], [files]) :]
        # With nothing left to send, nothing is sent: the process may have ended by now, the connection with it, and an error
        # here would have it run again.
        if rest:
            server.sendall(rest)
        if server.recv(1) != b"\1":
            return None
    except OSError:
        return None
    try:
        answer = server.recv(4)
    except OSError:
        answer = b""
    return int(unpack(">i", answer)[0]) if len(answer) == 4 else 1


def main() -> None:
    address, python, *arguments = sys.argv[1:]
    code = forked(address, arguments)
    if code is None:
        os.execv(python, [python, *arguments])
    # As a shell tells of a signal.
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
