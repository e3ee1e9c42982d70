"""The files a demo reads."""

import gzip
import zipfile

import pytest

from odradek.demo.inputs import InputFile, flights
from odradek.model.errors import ConfigurationError


def test_a_csv_has_columns_and_its_first_line_is_no_record(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'id,name\r\n1,x\r\n2,"y, z"\n3,w')
    assert InputFile(path).columns == ("id", "name")
    assert list(InputFile(path).records()) == [(b"1", b"1,x"), (b"2", b'2,"y, z"'), (b"3", b"3,w")]
    assert [key for key, _ in InputFile(path, key="name").records()] == [b"x", b"y, z", b"w"]


def test_any_other_file_is_lines(tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(b"first\n\nthird, more\n")
    assert list(InputFile(path).records()) == [
        (b"first", b"first"),
        (b"", b""),
        (b"third", b"third, more"),
    ]


def test_what_is_no_csv_is_not_read_as_one(tmp_path):
    """A bar of progress, and a line that is longer than a field may be: refused, with words about new-line characters and fields."""
    path = tmp_path / "a.log"
    long = b'{"a": "' + b"x" * 200_000 + b'"}'
    path.write_bytes(b'"50 %"\r"100 %", done\n' + long + b"\n")
    assert list(InputFile(path).records()) == [
        (b'"50 %"\r"100 %"', b'"50 %"\r"100 %", done'),
        (long, long),
    ]


def test_a_row_that_is_too_short_has_an_empty_key(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b,c\n1\n")
    assert list(InputFile(path, key="c").records()) == [(b"", b"1")]


@pytest.mark.parametrize("packed", ["gz", "zip"])
def test_a_packed_file_is_what_is_inside(tmp_path, packed):
    content = b"a,b\n1,2\n"
    path = tmp_path / f"x.csv.{packed}"
    if packed == "gz":
        path.write_bytes(gzip.compress(content))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.csv", content)
    assert InputFile(path).columns == ("a", "b")
    assert list(InputFile(path).records()) == [(b"1", b"1,2")]


def test_what_cannot_be_read_is_a_sentence(tmp_path):
    missing = tmp_path / "no.csv"
    with pytest.raises(ConfigurationError, match=r"no\.csv cannot be read"):
        InputFile(missing)
    broken = tmp_path / "b.csv.gz"
    broken.write_bytes(b"not gzip")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        InputFile(broken)
    damaged = tmp_path / "d.csv.gz"
    content = bytearray(gzip.compress(b"a,b\n" + bytes(range(256)) * 100))
    content[20:40] = bytes(20)
    damaged.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"d\.csv\.gz cannot be read"):
        list(InputFile(damaged).records())
    for name in ("no.zip", "b.zip"):
        (tmp_path / "b.zip").write_bytes(b"not zip")
        with pytest.raises(ConfigurationError, match=f"{name} cannot be read"):
            InputFile(tmp_path / name)
    two = tmp_path / "two.zip"
    with zipfile.ZipFile(two, "w") as archive:
        archive.writestr("a.csv", "a\n")
        archive.writestr("b.csv", "b\n")
    with pytest.raises(ConfigurationError, match="holds 2 files"):
        InputFile(two)
    good = tmp_path / "good.csv"
    good.write_bytes(b"a,b\n")
    with pytest.raises(ConfigurationError, match="no column c; columns are a, b"):
        InputFile(good, key="c")


def test_the_flights_are_the_336776_of_2013_keyed_by_tail_number():
    file = flights()
    first = next(iter(file.records()))
    assert first[0] == b"N14228"
    assert first[1].startswith(b"2013,1,1,517,515,2,")
    assert sum(1 for _ in file.records()) == 336_776


def test_the_mark_that_some_programs_put_before_a_csv_is_not_part_of_a_name(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfid,name\r\n1,x\r\n")
    assert InputFile(path, key="id").columns == ("id", "name")
    assert list(InputFile(path, key="id").records()) == [(b"1", b"1,x")]


def test_a_zip_that_cannot_be_unpacked_is_a_sentence(tmp_path):
    path = tmp_path / "x.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.csv", b"a,b\n1,2\n")
    whole = path.read_bytes()
    for flags, method in ((1, 0), (0, 99)):  # with a password; of a method nobody knows
        changed = bytearray(whole)
        for header, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            at = whole.index(header) + offset
            changed[at : at + 4] = bytes((flags, 0, method, 0))
        path.write_bytes(changed)
        with pytest.raises(ConfigurationError, match=r"x\.csv\.zip cannot be read"):
            InputFile(path)


def test_a_field_that_is_too_long_for_a_key_is_a_sentence(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'id,name\n"' + b"x" * 200_000 + b'",1\n')
    with pytest.raises(ConfigurationError, match=r"a\.csv cannot be read: field larger than field limit"):
        list(InputFile(path, key="name").records())
