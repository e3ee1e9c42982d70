"""What a table wants of each row is found at every depth, in slices too, and only where that which holds it is there."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.spark.required import as_nullable, key_of, nulls_within, paths_of, wanting

AT = pa.struct([pa.field("street", pa.string(), nullable=False), pa.field("zip", pa.string())])
KINDS = {
    "at": AT,
    "tags": pa.list_(pa.field("element", pa.int32(), nullable=False)),
    "all": pa.list_(pa.field("element", AT)),
    "by": pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False)),
    "deep": pa.struct([pa.field("at", AT, nullable=False)]),
}
SCHEMA = pa.schema([pa.field("id", pa.int32(), nullable=False), *(pa.field(n, k) for n, k in KINDS.items())])
_at = st.none() | st.fixed_dictionaries({"street": st.none() | st.just("x"), "zip": st.none() | st.just("z")})
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "at": _at,
    "tags": st.none() | st.lists(st.none() | st.just(1), max_size=3),
    "all": st.none() | st.lists(_at, max_size=3),
    "by": st.none()
    | st.dictionaries(st.sampled_from("ab"), st.none() | st.just(1)).map(lambda d: [*d.items()]),
    "deep": st.none() | st.fixed_dictionaries({"at": _at}),
}


def count(value: Any, path: tuple[str, ...]) -> int:
    """Of one row, as one would count by hand."""
    if value is None or not path:
        return int(value is None and not path)
    name, rest = path[0], path[1:]
    if name == "element":
        return sum(count(one, rest) for one in value)
    if name == "value":
        return sum(count(one, rest) for _, one in value)
    return count(value[name], rest)


def test_paths_are_those_of_columns_and_of_what_is_within() -> None:
    assert [".".join(path) for path in paths_of(SCHEMA)] == [
        *("id", "at.street", "tags.element", "all.element.street", "by.value", "deep.at", "deep.at.street")
    ]
    assert paths_of(pa.schema([pa.field("x", as_nullable(kind)) for kind in KINDS.values()])) == ()
    assert as_nullable(pa.int32()) == pa.int32()


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_what_is_wanting_is_found_in_slices_too(name: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(VALUES[name], max_size=8))
    first = data.draw(st.integers(0, len(values)))
    column = pa.array(values, as_nullable(KINDS[name])).slice(first)

    for _, *path in (p for p in paths_of(SCHEMA) if p[0] == name):
        counts = [count(value, tuple(path)) for value in values[first:]]
        assert wanting(column, tuple(path)).tolist() == [n > 0 for n in counts]
        assert dict(nulls_within(column, (name,)))[key_of((name, *path))] == sum(counts)


def test_fields_are_found_by_their_names_whatever_these_look_like() -> None:
    """Arrow reads a name that begins with a dot as a path."""
    kind = pa.struct([pa.field(name, pa.int32()) for name in ("x", ".x", "[0]", "a.b", "")])
    column = pa.array([{"x": 1, ".x": None, "[0]": 2, "a.b": None, "": 3}, None], kind)

    found = {tuple(key.split("\0")): count for key, count in nulls_within(column, ("c",))}
    assert found == {("c", "x"): 0, ("c", ".x"): 1, ("c", "[0]"): 0, ("c", "a.b"): 1, ("c", ""): 0}
    assert wanting(column, (".x",)).tolist() == [True, False]


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (("all", "element"), [[1, None], [None], [3]]),
        (("by", "value"), [[("a", 1), ("b", None)], [("a", None)], [("a", 3)]]),
    ],
)
def test_what_lies_below_a_null_is_nobodys(path: tuple[str, ...], content: list[Any]) -> None:
    """A struct that is null may have content that is hidden, and so may a list within it."""
    kind = pa.list_(pa.int32()) if path[0] == "all" else pa.map_(pa.string(), pa.int32())
    hidden = pa.StructArray.from_arrays(
        [pa.array(content, kind)], fields=[pa.field(path[0], kind)], mask=pa.array([False, True, False])
    )

    assert wanting(hidden, path).tolist() == [True, False, False]
    assert dict(nulls_within(hidden, ()))[key_of(path)] == 1
