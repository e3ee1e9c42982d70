"""What is freed stays with the process up to a bound, and is given again: by what is resident of it afterwards."""

import json
import platform
import subprocess
import sys

import pytest

HELD = """
import ctypes, json, resource
from odradek.spark.freed_memory import give_back_freed_memory, keep_freed_memory

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() >> 20

def held_of(count, mebibytes):
    blocks = [libc.malloc(mebibytes << 20) for _ in range(count)]
    for block in blocks:
        ctypes.memset(block, 1, mebibytes << 20)
    for block in blocks:
        libc.free(block)
    return resident() - before

keep_freed_memory()
before = resident()
told = {"a large block": held_of(1, 33), "some": held_of(2, 25)}
give_back_freed_memory()
told["given back"] = resident() - before
told["many"] = held_of(3, 30)
print(json.dumps(told))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="elsewhere nothing is changed")
def test_what_is_freed_is_kept_up_to_a_bound_and_given_back_when_asked() -> None:
    done = subprocess.run([sys.executable, "-c", HELD], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr

    mebibytes: dict[str, int] = json.loads(done.stdout)

    assert mebibytes["a large block"] < 5, "one of more than 32 MiB is the system's"
    assert mebibytes["some"] > 45, "50 MiB are kept"
    assert mebibytes["given back"] < 5
    assert mebibytes["many"] < 45, "of more than 64 MiB not all is kept"
