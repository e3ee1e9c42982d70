"""What travels to workers that do not have this package.

    an environment    bin/python, and lib/ with this package and all that its tasks import; `spark.archives` unpacks it
    the pure part     this package's own modules in a zip, for `spark-submit --py-files`, where workers have the rest

Neither has PySpark, which is the workers' own, nor an interpreter: bin/python starts the worker's, of the same minor version as
this one, because compiled modules are made for one.
"""

import importlib.metadata
import io
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import odradek
from odradek.model.errors import ConfigurationError, OdradekError

# Of a plain .tar Spark unpacks `bin/python` as a file that is no program (SPARK-38632).
SUFFIXES = (".tar.gz", ".tgz")
# Wheels are compressed badly by anything: the least effort is enough.
COMPRESSION = 1
# What tasks import; the rest of `odradek[spark]` is for the driver, or is the workers' own.
NEEDED = ("crc32c", "cramjam", "deltalake", "fastavro", "numpy", "pandas", "protobuf", "pyarrow")
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_OF_AN_EXTRA = re.compile(r"\bextra\s*==")
_TESTS = {"tests", "test"}  # of numpy, pandas and pyarrow: a third of what they weigh
_INTERPRETER = f"python{sys.version_info.major}.{sys.version_info.minor}"
_PYTHON = f"""#!/bin/sh
# The worker's own {_INTERPRETER}, with the packages beside this file first on its path.
here=$(cd "$(dirname "$0")/.." && pwd)
for python in "$ODRADEK_PYTHON" {_INTERPRETER} "{sys.base_prefix}/bin/{_INTERPRETER}"; do
    if [ -n "$python" ] && command -v "$python" >/dev/null 2>&1; then
        PYTHONPATH="$here/lib${{PYTHONPATH:+:$PYTHONPATH}}" exec "$python" "$@"
    fi
done
echo "odradek: there is no {_INTERPRETER} on $(hostname), which the packages of this archive are made for; install it, or name one by ODRADEK_PYTHON in the worker's environment" >&2
exit 127
"""


class NotPacked(OdradekError):
    """Something that belongs into the archive is not installed as a package."""


class Packed(NamedTuple):
    packages: tuple[str, ...]  # name and version
    files: int
    size_bytes: int


def pack(to: Path) -> Packed:
    """Writes the environment."""
    if not to.name.endswith(SUFFIXES):
        raise ConfigurationError(f"--to {to}: expected a name that ends with {' or '.join(SUFFIXES)}")
    packages = _closure()
    named = [*_own(), *(file for package in packages for file in _files_of(package))]
    with tarfile.open(to, "w:gz", compresslevel=COMPRESSION) as archive:
        _add(archive, PurePosixPath("bin/python"), _PYTHON.encode(), mode=0o755)
        for name, path in named:
            # Its own time: bytecode beside it is good for that alone.
            written_at = int(path.stat().st_mtime)
            _add(archive, PurePosixPath("lib") / name, path.read_bytes(), mode=0o644, written_at=written_at)
    return Packed(tuple(f"{_key(p)} {p.version}" for p in packages), len(named), to.stat().st_size)


def pack_pure(to: Path) -> Packed:
    """Writes the zip of this package's own modules."""
    if to.suffix != ".zip":
        raise ConfigurationError(f"--to {to}: expected a name that ends with .zip, as --py-files does")
    files = 0
    # Not strict: of files of before 1980, as Nix and Bazel install them, a zip knows no time.
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        for name, path in _own():
            archive.write(path, str(name))
            files += 1
    return Packed((), files, to.stat().st_size)


def _add(
    archive: tarfile.TarFile, name: PurePosixPath, content: bytes, *, mode: int, written_at: int = 0
) -> None:
    info = tarfile.TarInfo(str(name))
    info.size, info.mode, info.mtime = len(content), mode, written_at
    archive.addfile(info, io.BytesIO(content))


def _own() -> Iterator[tuple[PurePosixPath, Path]]:
    """This package and the modules by which Spark finds it, from where they are imported."""
    above = Path(odradek.__file__).parents[1]
    for module in [above / "odradek", *sorted(above.glob("pyspark_odradek*"))]:
        for path in sorted(module.rglob("*")):
            if path.is_file() and path.parent.name != "__pycache__":
                yield PurePosixPath(path.relative_to(above).as_posix()), path


def _closure() -> list[importlib.metadata.Distribution]:
    """What tasks import and what that requires, as far as it is installed: the rest is for other systems, or older Pythons."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(NEEDED)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        try:
            package = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            if name in NEEDED:
                raise NotPacked(
                    f"{name} is not installed; pip install 'odradek[spark]' installs it"
                ) from None
            continue
        found[name] = package
        for requirement in package.requires or ():
            if not _OF_AN_EXTRA.search(requirement):
                match = _NAME.match(requirement)
                assert match is not None, requirement
                waiting.append(_normal(match[0]))
    return [found[name] for name in sorted(found)]


def _files_of(package: importlib.metadata.Distribution) -> Iterator[tuple[PurePosixPath, Path]]:
    if package.files is None:
        raise NotPacked(
            f"{_key(package)} {package.version} does not say which files it is made of; install it by pip in an "
            f"environment of its own, as in python3 -m venv"
        )
    for file in package.files:
        name = PurePosixPath(file)
        path = Path(str(package.locate_file(file)))
        # Commands stand above the packages, and name an interpreter that workers do not have.
        if ".." not in name.parts and not _TESTS & {*name.parts} and path.is_file():
            yield name, path


def _key(package: importlib.metadata.Distribution) -> str:
    return _normal(package.metadata["Name"])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
