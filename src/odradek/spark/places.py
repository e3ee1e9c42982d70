"""Where a table is, as its user names it.

    ./orders, /data/orders    a directory, which driver and tasks share
    s3://BUCKET/orders        S3, or what has its interface

What is neither is refused before anybody is asked.
"""

import os
import re
from pathlib import Path

from odradek.model.errors import ConfigurationError

_IN_STORE = "s3://"
# Of a directory's path the library of Delta tables makes an address, and of that another path (deltalake 1.6): %2F and a backslash are
# read from another directory than they are written to, and for the others it panics. It looks behind links. Tried letter by letter.
_MISREAD = re.compile(r"[\x00-\x1f\x7f\[\]\\^|]|%[0-9A-Fa-f]{2}")
# As Spark takes it, file:/data/orders: pyarrow and the library find it there, and everybody else below the directory they work in.
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def is_in_store(path: str) -> bool:
    return path.startswith(_IN_STORE)


def absolute(path: str) -> str:
    """As a process that works elsewhere finds it."""
    return path.rstrip("/") if is_in_store(path) else os.path.abspath(path)


def below(path: str, *names: str) -> str:
    return "/".join((path.rstrip("/"), *names)) if is_in_store(path) else str(Path(path, *names))


def check_table(path: str, option: str) -> None:
    """ConfigurationError where no table can be."""
    scheme, is_url, rest = path.partition("://")
    if not is_url and _ADDRESS.match(path):
        raise ConfigurationError(f"{option} {path}: expected a directory or s3://BUCKET/PREFIX")
    if not is_url:
        if found := _MISREAD.search(os.path.realpath(path)):
            raise ConfigurationError(
                f"{option} {path}: the library of Delta tables takes a path with {found[0]!r} for another one; name a directory "
                "whose whole path has no control character and none of [ ] \\ ^ | and no % before two hexadecimal digits; a link will not do"
            )
        return
    if "@" in rest:  # with a password before it, perhaps
        raise ConfigurationError(
            f"{option}: a URL of a table has no @: credentials are in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)"
        )
    if scheme != "s3":
        hint = "; it is spelled s3:// here" if scheme in ("s3a", "s3n") else ""
        raise ConfigurationError(f"{option} {path}: expected a directory or s3://BUCKET/PREFIX{hint}")
    bucket, _, prefix = rest.partition("/")
    if not bucket or not prefix.strip("/"):
        raise ConfigurationError(
            f"{option} {path}: expected s3://BUCKET/PREFIX, a bucket and a place in it for the table"
        )
    if any(sign in rest for sign in "?#%"):
        raise ConfigurationError(f"{option} {path}: expected a bucket and a prefix without any of ? # %")


def check_evolves(path: str, option: str) -> None:
    """ConfigurationError where columns cannot become wider, nor null what was NOT NULL."""
    if is_in_store(path):
        raise ConfigurationError(
            f"{option}: to {path} columns can be added and nothing else: files and columns that change together are one commit "
            f"by a hard link, which an object store has not; expected add"
        )


def check_directory(path: str, option: str, why: str) -> None:
    """ConfigurationError where a URL is given and a directory is needed."""
    if "://" in path or _ADDRESS.match(path):
        raise ConfigurationError(f"{option} {path}: expected a directory: {why}")
