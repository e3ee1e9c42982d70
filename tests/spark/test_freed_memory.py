"""What is freed stays with the process up to a bound, and is given again: by the pages that the system gives it anew."""

import json
import platform
import subprocess
import sys
from typing import Any

import pytest

PAGES = """
import ctypes, json, resource
from odradek.spark.freed_memory import give_back_freed_memory, keep_freed_memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

def bytes_anew(count, mebibytes):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    blocks = [libc.malloc(mebibytes << 20) for _ in range(count)]
    for block in blocks:
        ctypes.memset(block, 1, mebibytes << 20)
    for block in blocks:
        libc.free(block)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize()

def twice(count, mebibytes):
    return bytes_anew(count, mebibytes), bytes_anew(count, mebibytes)

keep_freed_memory()
told = {"large": twice(1, 33), "kept": twice(2, 25)}
give_back_freed_memory()
told["given back"] = bytes_anew(2, 25), 0
told["more"] = bytes_anew(3, 30), bytes_anew(1, 30)
print(json.dumps(told))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="elsewhere nothing is changed")
def test_what_is_freed_is_kept_up_to_a_bound_and_given_back_when_asked() -> None:
    done = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)

    mebibytes = {name: [size >> 20 for size in sizes] for name, sizes in told.items()}
    assert mebibytes["kept"][1] == 0, "50 MiB are given again"
    assert mebibytes["large"][1] >= 33, "a block of more than 32 MiB is the system's"
    assert mebibytes["given back"][0] >= 48
    assert mebibytes["more"][1] >= 28, "of more than 64 MiB nothing is kept"
