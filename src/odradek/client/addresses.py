"""What is an IP address, and needs no resolver."""

import socket
from functools import lru_cache


@lru_cache(maxsize=1024)  # asked of the same few hosts at every connection
def is_ip(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host.partition("%")[0])
        except (OSError, ValueError):  # a zero byte in it
            continue
        return True
    return False
