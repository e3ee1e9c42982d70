"""What this machine can do at this hour: the figures beside which all others are read."""

import mmap
import multiprocessing
import os
import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import crc32c

from benchmarks import librdkafka

MEGABYTE = 1 << 20


def best_of(times: int, action: Callable[[], float]) -> float:
    return max(action() for _ in range(times))


def memcpy_mb_s() -> float:
    source = bytearray(64 * MEGABYTE)
    target = bytearray(64 * MEGABYTE)

    def once() -> float:
        begun = time.perf_counter()
        memoryview(target)[:] = source
        return 64 / (time.perf_counter() - begun)

    return best_of(5, once)


def crc32c_mb_s() -> float:
    data = os.urandom(16 * MEGABYTE)

    def once() -> float:
        begun = time.perf_counter()
        crc32c.crc32c(data)
        return 16 / (time.perf_counter() - begun)

    return best_of(5, once)


def _send(port: int, size: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as out:
        block = bytes(MEGABYTE)
        for _ in range(size // MEGABYTE):
            out.sendall(block)


def loopback_mb_s(size: int = 1024 * MEGABYTE) -> float:
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = multiprocessing.get_context("spawn").Process(
            target=_send, args=(server.getsockname()[1], size)
        )
        sender.start()
        taken, _ = server.accept()
        buffer = bytearray(MEGABYTE)
        received = 0
        begun = time.perf_counter()
        with taken:
            while got := taken.recv_into(buffer):
                received += got
        seconds = time.perf_counter() - begun
        sender.join()
    assert received == size, f"{received} of {size} bytes came over"
    return received / MEGABYTE / seconds


def memory_at_hand(size_bytes: int) -> None:
    """So much memory is the machine's own, and free, when this returns.

    A virtual machine hands free memory back to its host (free page reporting). A page that the host has to give again costs ten
    times what it costs to write a page, and whoever is measured first would pay it: so it is paid before.
    """
    with mmap.mmap(-1, size_bytes) as touched:
        for page in range(0, size_bytes, mmap.PAGESIZE):
            touched[page] = 1


def page_cache_write_mb_s(directory: Path | None) -> float:
    block = os.urandom(MEGABYTE)
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        begun = time.perf_counter()
        for _ in range(512):
            file.write(block)
        return 512 / (time.perf_counter() - begun)


def fdatasync_ms(directory: Path | None) -> float:
    """Median of a 4 KiB append and its fdatasync."""
    times = []
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        for _ in range(50):
            begun = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


def files_made_per_s(directory: Path | None) -> float:
    """Empty files in a new directory. On ext4 it falls to a hundredth where thousands were removed nearby in the last five
    minutes: the kernel leaves their inodes alone for so long, and looks at each of them for every new file."""
    with tempfile.TemporaryDirectory(dir=directory) as inside:
        begun = time.perf_counter()
        for number in range(200):
            os.close(os.open(f"{inside}/{number}", os.O_CREAT | os.O_WRONLY))
        return 200 / (time.perf_counter() - begun)


def mock_produce(records: librdkafka.Records, repeats: int) -> float:
    """The client against librdkafka's own mock cluster, in records per second: what the client can do."""
    options = {"acks": 1, "test.mock.num.brokers": 1}
    runs = [librdkafka.produce("127.0.0.1:1", "mock", records, options) for _ in range(repeats)]
    return max(run.acknowledged / run.seconds for run in runs)


def calibrate(
    directory: Path | None, large: librdkafka.Records, small: librdkafka.Records, repeats: int
) -> dict[str, float]:
    return {
        "memcpy_mb_s": memcpy_mb_s(),
        "crc32c_mb_s": crc32c_mb_s(),
        "loopback_mb_s": loopback_mb_s(),
        "page_cache_write_mb_s": page_cache_write_mb_s(directory),
        "fdatasync_ms": fdatasync_ms(directory),
        "files_made_per_s": files_made_per_s(directory),
        "mock_1kb_mb_s": mock_produce(large, repeats) * large.size / 1e6,
        "mock_100b_per_s": mock_produce(small, repeats),
    }
