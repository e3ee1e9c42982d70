"""What several tests need: waiting on a condition with a deadline, and the golden data."""

import ctypes
import gc
import gzip
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pytest

GOLDEN = Path(__file__).parent / "golden"
# A JVM that lives for seconds loses them to compiling well and to many threads.
JAVA_OF_TESTS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
T = TypeVar("T")
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.005, 0.1  # between two looks
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)  # now: after a fork nothing is to be loaded


def class_archive() -> Path | None:
    """Where Spark's classes are kept for the Java and the PySpark that are here (`tests.spark.class_archive`)."""
    spark, java = find_spec("pyspark"), shutil.which("java", path=_path_of_java())
    if spark is None or spark.origin is None or java is None:
        return None
    home = Path(spark.origin).parent
    jars, runtime = (home / "jars").stat(), Path(java).resolve()
    made_of = f"{jars.st_mtime_ns} {runtime} {runtime.stat().st_mtime_ns}"
    cache = Path(os.environ.get("ODRADEK_SPARK_CACHE", Path.home() / ".cache" / "odradek-spark"))
    return cache / f"{_short(str(home))}-{_short(made_of)}.jsa"


def _path_of_java() -> str:
    home = os.environ.get("JAVA_HOME")
    return os.pathsep.join([*([f"{home}/bin"] if home else []), os.environ.get("PATH", "")])


def _short(text: str) -> str:
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _kept_classes() -> str:
    kept = class_archive()
    # Of a file that does not fit, the JVM would tell on its standard output, which is read.
    return "" if kept is None or not kept.exists() else f"-XX:SharedArchiveFile={kept} -Xlog:disable"


# What a process has in its environment that starts a JVM. The classes are for the one that `spark-submit` starts: to map them
# costs 0.1 s of a processor, and before it two others run, which ask for the version and make its command line.
SHORT_LIVED_JAVA = {"JDK_JAVA_OPTIONS": JAVA_OF_TESTS, "SPARK_SUBMIT_OPTS": _kept_classes()}
# Of Spark's own servers, which `spark-class` starts.
SHORT_LIVED_SERVERS = {
    "JDK_JAVA_OPTIONS": f"{JAVA_OF_TESTS} {SHORT_LIVED_JAVA['SPARK_SUBMIT_OPTS']}".rstrip()
}


def die_with_parent() -> None:
    """As `preexec_fn` of a process: it is killed when we end, however we end."""
    if sys.platform == "linux":
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def eventually(predicate: Callable[[], T], deadline_s: float = 30.0, what: str = "") -> T:
    """The first true value of `predicate`; AssertionError with `what` when the deadline passes first.

    What takes long to be answered, such as what a table in an object store holds, is asked a third of the time at most: whoever
    answers it, and what is waited for, need the processor as well.
    """
    end = time.monotonic() + deadline_s
    while True:
        asked = time.monotonic()
        value = predicate()
        if value:
            return value
        answered = time.monotonic()
        if answered > end:
            raise AssertionError(f"not within {deadline_s} s: {what or predicate}; last value {value!r}")
        pause_s = min(max(SHORTEST_PAUSE_S, 2 * (answered - asked)), LONGEST_PAUSE_S)
        time.sleep(pause_s)  # the only wait in the tests: a poll under a deadline


def descriptors() -> dict[int, str]:
    """Those this process has open, and what they are of."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the one that listed them
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return found


def open_under(path: Path) -> list[str]:
    """Files below `path` that this process has open, one a descriptor, relative to it."""
    below = f"{path}/"
    return sorted(of.removeprefix(below) for of in descriptors().values() if of.startswith(below))


@contextmanager
def started(*command: Any, **options: Any) -> Iterator["subprocess.Popen[Any]"]:
    """A process that is killed where the test fails: `with subprocess.Popen(...)` would wait for its end first, and it may wait
    for what the test does not do any more."""
    with subprocess.Popen(*command, **options) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


@contextmanager
def no_collector() -> Iterator[None]:
    """What goes meanwhile went by its count of references, or was closed."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def left_over(kind: type) -> Iterator[Callable[[], list[Any]]]:
    """Without the collector: asks which of this kind are there that were not before, for other tests leave some."""
    with no_collector():
        before = {id(one): one for one in gc.get_objects() if type(one) is kind}
        yield lambda: [one for one in gc.get_objects() if type(one) is kind and id(one) not in before]


def try_all(values: Iterable[Any], test: Callable[..., None], name: Callable[[Any], str] = repr) -> None:
    """All are tried; the first failure is raised, and says of which it is and which others failed. A tuple is as many
    arguments."""
    failed: list[tuple[str, Exception]] = []
    for value in values:
        try:
            test(*value) if type(value) is tuple else test(value)
        except Exception as error:
            failed.append((name(value), error))
    if failed:
        error = failed[0][1]
        error.add_note(f"failed: {', '.join(of for of, _ in failed[:20])}; {len(failed)} in all")
        raise error


def each(
    values: Iterable[Any], name: Callable[[Any], str] = repr
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """One test of many small things. `pytest.mark.parametrize` costs about four milliseconds a thing, more than they do
    themselves: each is collected in every worker and reported three times."""

    def made(test: Callable[..., None]) -> Callable[[], None]:
        def every() -> None:
            try_all(values, test, name)

        for attribute in ("__name__", "__qualname__", "__doc__", "__module__"):
            setattr(every, attribute, getattr(test, attribute))
        return every

    return made


def without_assertions(module: ModuleType) -> ModuleType:
    """The same as `python -O` has it, beside the one that is imported."""
    assert module.__file__ is not None
    source = Path(module.__file__).read_text(encoding="utf-8")
    fresh = ModuleType(module.__name__)
    fresh.__file__ = module.__file__
    exec(compile(source, module.__file__, "exec", dont_inherit=True, optimize=1), vars(fresh))
    return fresh


def localhost_is_here(monkeypatch: "pytest.MonkeyPatch") -> None:
    """At the address of the broker; on a machine it may be ::1 alone, or no name at all."""
    real = socket.getaddrinfo

    def look_up(host: Any, *rest: Any, **more: Any) -> Any:
        return real("127.0.0.1" if host == "localhost" else host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


def golden_lines(name: str) -> Iterator[dict[str, Any]]:
    """The JSON lines of a golden file, gzip or plain."""
    path = GOLDEN / name
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """No file may become larger than this: what writes finds errno EFBIG, as it finds ENOSPC on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
