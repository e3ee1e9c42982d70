"""Drawing mutations: which changes are made, that they can be drawn again, and that a verdict is a verdict."""

import ast
from pathlib import Path

import pytest

from tests.mutants.__main__ import table
from tests.mutants.drawing import drawn
from tests.mutants.sites import changed, sites_of

SRC = Path(__file__).parents[2] / "src" / "odradek"

EXAMPLE = '''
"""Höhe."""

LIMIT = 3

class Log:
    def append(self, size: int = 4) -> int:
        """What stands here is no behaviour."""
        if size > LIMIT and not self.closed:
            raise ValueError(f"ä {size + 1}")
        self.end += size
        self.flush()
        return min(self.end - 1, size)

    def __repr__(self) -> str:
        return "Log" if self.end > 1 else ""
'''


def into() -> list[tuple[str, str, str]]:
    return [(site.operator, site.old, site.new) for site in sites_of("log/x.py", EXAMPLE)]


@pytest.mark.parametrize(
    "change",
    [
        ("condition negated", "size > LIMIT and not self.closed", "not (size > LIMIT and (not self.closed))"),
        ("logic", "size > LIMIT and not self.closed", "(size > LIMIT or not self.closed)"),
        ("term left out", "size > LIMIT and not self.closed", "(size > LIMIT)"),
        ("relation", "size > LIMIT", "(size >= LIMIT)"),
        ("not left out", "not self.closed", "(self.closed)"),
        ("error not raised", 'raise ValueError(f"ä {size + 1}")', "pass"),
        ("assignment left out", "self.end += size", "pass"),
        ("call left out", "self.flush()", "pass"),
        ("function", "min", "max"),
        ("arithmetic", "self.end - 1", "(self.end + 1)"),
        ("constant", "1", "2"),
    ],
)
def test_each_operator_finds_its_place(change: tuple[str, str, str]) -> None:
    assert change in into()


def test_names_outside_functions_defaults_and_texts_stay() -> None:
    assert [new for operator, old, new in into() if operator == "constant"] == ["2"]


def test_a_change_is_made_where_the_site_says_and_nowhere_else() -> None:
    for site in sites_of("log/x.py", EXAMPLE):
        text = changed(EXAMPLE, site)

        assert len(text) == len(EXAMPLE) - len(site.old) + len(site.new)
        assert text != EXAMPLE
        ast.parse(text)


def test_a_change_of_another_text_is_refused() -> None:
    site = sites_of("log/x.py", EXAMPLE)[0]

    with pytest.raises(AssertionError, match="the text is another one"):
        changed(EXAMPLE.replace("size", "Size"), site)


def test_the_same_seed_draws_the_same_and_a_larger_count_begins_with_the_smaller() -> None:
    few = drawn(SRC, seed=5, count=4, rooms=("records", "replication"))
    more = drawn(SRC, seed=5, count=8, rooms=("records", "replication"))

    assert more[:4] == few
    assert len(set(more)) == 8
    assert [site.path.split("/")[0] for site in few] == ["records", "replication"] * 2
    assert drawn(SRC, seed=6, count=4, rooms=("records", "replication")) != few


def test_the_table_counts_by_room_and_names_survivors() -> None:
    def verdict(path: str, test: str | None, seed: int | None, traces: int) -> dict[str, object]:
        return {"site": {"path": path}, "name": path, "test": test, "seed": seed, "other_traces": traces}

    rows = table(
        [
            verdict("log/a.py", "t", 3, 9),
            verdict("log/b.py", None, None, 2),
            verdict("broker/c.py", "t", None, 0),
        ]
    )

    assert [row.split() for row in rows[1:4]] == [
        ["broker", "1", "1", "0", "0"],
        ["log", "2", "1", "2", "1"],
        ["all", "3", "2", "2", "1"],
    ]
    assert rows[4:] == ["survives: log/b.py"]
