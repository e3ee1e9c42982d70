"""What is an IP address, and needs no resolver; and what is said where a name finds none."""

import socket
from functools import lru_cache

from odradek.model.printable import shown
from odradek.model.remedies import MORE_THREADS


@lru_cache(maxsize=1024)  # asked of the same few hosts at every connection
def is_ip(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host.partition("%")[0])
        except (OSError, ValueError):  # a zero byte in it
            continue
        return True
    return False


def no_thread_to_look_up(host: str) -> str:
    return f"there is no thread to look up {shown(host)} by: {MORE_THREADS}"
