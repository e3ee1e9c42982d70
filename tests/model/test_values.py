"""Our dataclass against the standard one: the same in everything but its price."""

import copy
import dataclasses
import pickle
from typing import Any, ClassVar

import pytest

from odradek.model import values


@values.dataclass(frozen=True, slots=True)
class Point:
    """A point."""

    x: int
    y: int = 2
    tags: tuple[str, ...] = ()
    extra: dict[str, int] = values.field(default_factory=dict)
    count: ClassVar[int] = 7

    @property
    def length(self) -> int:
        return abs(self.x) + abs(self.y)


@dataclasses.dataclass(frozen=True, slots=True)
class StandardPoint:
    x: int
    y: int = 2
    tags: tuple[str, ...] = ()
    extra: dict[str, int] = dataclasses.field(default_factory=dict)


@values.dataclass(frozen=True, slots=True)
class Child(Point):
    z: int = 3


@values.dataclass(frozen=True, slots=True)
class Pair:
    left: int
    right: str


@values.dataclass(frozen=True, slots=True)
class Empty:
    pass


def test_construction_defaults_and_reading() -> None:
    point = Point(1)

    assert (point.x, point.y, point.tags, point.extra, point.count, point.length) == (1, 2, (), {}, 7, 3)
    assert Point(1).extra is not Point(1).extra
    assert Point(x=5, tags=("a",), y=0) == Point(5, 0, ("a",))
    assert Empty() == Empty()


@pytest.mark.parametrize(
    "make", [lambda c: c(), lambda c: c(1, 2, (), {}, 5), lambda c: c(1, nope=2), lambda c: c(1, x=1)]
)
def test_wrong_arguments_are_type_errors_as_in_the_standard_one(make: Any) -> None:
    with pytest.raises(TypeError):
        make(Point)
    with pytest.raises(TypeError):
        make(StandardPoint)


def test_nothing_can_be_assigned_deleted_or_added() -> None:
    point = Point(1)

    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.new = 1  # type: ignore[attr-defined]
    assert not hasattr(point, "__dict__")


def test_equality_and_hash_go_by_value_and_class() -> None:
    assert Pair(1, "a") == Pair(1, "a") != Pair(1, "b")
    assert hash(Pair(1, "a")) == hash(Pair(1, "a")) == hash((1, "a"))
    assert len({Pair(1, "a"), Pair(1, "a"), Pair(2, "a")}) == 2
    assert Point(1) != Child(1)
    assert Pair(1, "a").__eq__((1, "a")) is NotImplemented
    with pytest.raises(TypeError):
        hash(Point(1))  # it holds a dictionary


def test_a_subclass_adds_fields() -> None:
    child = Child(1, z=9)

    assert (child.x, child.z) == (1, 9)
    assert child == Child(1, z=9) != Child(1)
    assert [f.name for f in dataclasses.fields(Child)] == ["x", "y", "tags", "extra", "z"]


def test_replace_fields_asdict_match_and_repr_are_those_of_a_dataclass() -> None:
    point = values.replace(Point(1), y=5)

    assert point == Point(1, 5)
    assert dataclasses.is_dataclass(point)
    assert [f.name for f in dataclasses.fields(point)] == [f.name for f in dataclasses.fields(StandardPoint)]
    assert dataclasses.asdict(point) == {"x": 1, "y": 5, "tags": (), "extra": {}}
    assert repr(point) == "Point(x=1, y=5, tags=(), extra={})"
    match Pair(1, "a"):
        case Pair(left, right=r):
            assert (left, r) == (1, "a")
        case _:
            pytest.fail("no match")
    assert Point.__doc__ == "A point."
    assert Point.__module__ == __name__


def test_copies_and_pickles_are_equal() -> None:
    child = Child(1, 2, ("a",), {"k": 1}, 4)

    assert copy.copy(child) == child
    assert copy.deepcopy(child) == child
    assert pickle.loads(pickle.dumps(child)) == child


def test_what_is_not_frozen_with_slots_is_the_standard_one() -> None:
    @values.dataclass(slots=True)
    class Mutable:
        x: int = 1

    @values.dataclass(frozen=True)
    class Open:
        x: int = 1

    @values.dataclass(frozen=True, slots=True, order=True)
    class Ordered:
        x: int = 1

    @values.dataclass
    class Plain:
        x: int = 1

    mutable = Mutable()
    mutable.x = 2
    assert mutable == Mutable(2)
    assert (hasattr(mutable, "__dict__"), vars(Open()), vars(Plain())) == (False, {"x": 1}, {"x": 1})
    with pytest.raises(dataclasses.FrozenInstanceError):
        Open().x = 2  # type: ignore[misc]
    assert Ordered() < Ordered(2)


def test_who_began_a_first_use_that_another_thread_has_finished_meanwhile_goes_on() -> None:
    """Threads that make the first values of a class at once: each has found the placeholder, and one has replaced it."""

    @values.dataclass(frozen=True, slots=True)
    class Pair:
        one: int
        two: int = 2

    @values.dataclass(frozen=True, slots=True)
    class Triple(Pair):
        three: int = 3

    for cls in (Triple, Pair):
        begun: Any = cls.__init__, cls.__eq__, cls.__hash__
        first = cls(1)
        assert first == cls(1) and hash(first) == hash(cls(1))
        init, eq, hash_ = begun
        late = cls.__new__(cls)
        init(late, 1)
        assert late == first and eq(late, first) is True and hash_(late) == hash(first)
