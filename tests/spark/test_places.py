"""Directories in which no table can be, since the library of Delta tables would look for it elsewhere."""

import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from odradek.model.errors import ConfigurationError
from odradek.spark.places import check_directory, check_table
from odradek.spark.table_rows import file_paths
from tests.support import each


@each(("a%20b", "feature%2Fx", "a\\b", "[a]", "a^b", "a|b", "a\nb"))
def test_a_directory_that_the_library_takes_for_another_is_refused_with_what_would_do(name: str) -> None:
    """CI servers name a branch's directory so: feature%2Fx. Files were written there, and looked for in feature/x."""
    for path in (f"/tables/{name}", f"/tables/{name}/orders"):
        with pytest.raises(
            ConfigurationError, match=r"(?s)--table /tables/.*takes a path with .* for another one; name"
        ):
            check_table(path, "--table")


@each(("file:/data/orders", "hdfs:/orders", "dbfs:/orders"))
def test_an_address_with_one_slash_as_spark_takes_it_is_refused(path: str) -> None:
    """The library takes it for an address, and everybody else for a directory below the one they work in."""
    with pytest.raises(ConfigurationError, match=rf"the option table {path}: expected a directory or s3://"):
        check_table(path, "the option table")
    with pytest.raises(ConfigurationError, match=rf"the option path {path}: expected a directory: it is"):
        check_directory(path, "the option path", "it is renamed")


def test_a_relative_path_and_a_link_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / "feature%2Fx"
    odd.mkdir()
    (tmp_path / "link").symlink_to(odd)
    with pytest.raises(ConfigurationError, match="'%2F'"):
        check_table(str(tmp_path / "link" / "orders"), "--table")
    monkeypatch.chdir(odd)
    with pytest.raises(ConfigurationError, match="'%2F'"):
        check_table("orders", "--table")


@each(("with a space", "ü", "100%", "a%zz", "it's", 'a"b', "a:b", "a#b", "a?b", "a*{b}", "-x", "~"))
def test_a_directory_with_any_other_letter_will_do(name: str) -> None:
    check_table(f"/tables/{name}", "--table")


@pytest.mark.parametrize("name", ["with a space", "ü", "100% #?*{b}'\"`~$&;:,=+@!()<>"])
def test_a_table_is_read_where_it_was_written(name: str, tmp_path: Path) -> None:
    """Of the library itself: what is allowed here it has to find."""
    path = str(tmp_path / name)
    check_table(path, "--table")
    os.mkdir(path)
    for number in (1, 2):
        write_deltalake(path, pa.table({"id": [number]}), mode="append")
    assert sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("name", ["plain", "with a space ü", "100% 'of' $it #1"])
def test_files_are_named_as_on_the_disk_whatever_letters_a_directory_has(name: str, tmp_path: Path) -> None:
    """Spark looks for an address, /with%20a, under just that name."""
    path = tmp_path / name
    path.mkdir()
    write_deltalake(
        str(path), pa.table({"id": [1, 2], "country": ["DE", "a/b =%c"]}), partition_by=["country"]
    )

    files = file_paths(DeltaTable(str(path)))

    assert sorted(files) == sorted(str(file) for file in path.rglob("*.parquet")) and len(files) == 2
