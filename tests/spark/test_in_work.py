"""Marks of files in work: which are found, and what becomes of one that nobody has finished."""

from pathlib import Path

from odradek.spark import in_work
from odradek.spark.parquet import application_prefix, file_name

MARKS = Path("_odradek", "in_work")


def marks(table: Path) -> list[str]:
    """Below the directory of marks."""
    return sorted(str(m.relative_to(table / MARKS)) for m in (table / MARKS).rglob("*") if m.is_file())


def test_of_an_application_the_files_up_to_a_batch_are_found_with_their_paths(tmp_path: Path) -> None:
    table = str(tmp_path)
    first, second, third = (f"country=DE/{file_name('app', batch)}" for batch in (0, 1, 2))
    for name in (first, second, third, file_name("another", 0)):
        in_work.note(table, name)

    assert list(in_work.listed(table, "app", 1)) == [(0, first), (1, second)]

    in_work.forget(table, [first, second])
    assert list(in_work.listed(table, "app", 2)) == [(2, third)]
    assert sorted(path.name for path in (tmp_path / MARKS).iterdir()) == sorted(
        f"{application_prefix(app)}{batch:010d}" for app, batch in (("app", 2), ("another", 0))
    ), "what is empty is taken away"


def test_a_mark_that_was_not_finished_is_of_a_file_of_its_name_and_goes_with_it(tmp_path: Path) -> None:
    """Its process died, or the disk was full, between the making of the mark and its path: no file was begun."""
    table, name = str(tmp_path), file_name("app", 3)
    in_work.note(table, f"country=DE/{name}")
    (mark,) = marks(tmp_path)
    (tmp_path / MARKS / mark).write_bytes(b"")

    assert list(in_work.listed(table, "app", 3)) == [(3, name)]

    in_work.forget(table, [name])
    assert not (tmp_path / MARKS / mark).exists() and marks(tmp_path) == []


def test_what_is_no_file_of_a_task_is_passed_over(tmp_path: Path) -> None:
    """An editor's, say."""
    table, name = str(tmp_path), file_name("app", 0)
    in_work.note(table, name)
    (mark,) = marks(tmp_path)
    aside = (tmp_path / MARKS / mark).with_name(f"{name}~")
    aside.write_text(name)

    assert list(in_work.listed(table, "app", 9)) == [(0, name)]
    in_work.forget(table, [name])
    assert marks(tmp_path) == [str(Path(mark).with_name(aside.name))]
