"""Committed offsets, and those a transaction holds until its marker. Records are the only way in."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from itertools import chain, count, groupby, repeat
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from odradek.coordinator.bounded_memory import of_text
from odradek.coordinator.committed_together import Run
from odradek.coordinator.kept_memory import BYTES_OF_AN_OFFSET, FREE_METADATA
from odradek.coordinator.records import CommittedOffset, OffsetKey

Place = tuple[str, int]  # topic and partition
NO_PRODUCER = -1
_new: Any = tuple.__new__
_group: Callable[[OffsetKey], str] = attrgetter("group")
_place: Callable[[OffsetKey], Place] = itemgetter(1, 2)
_metadata: Callable[[CommittedOffset], str] = itemgetter(CommittedOffset._fields.index("metadata"))
_committed: Callable[["Stood"], CommittedOffset] = itemgetter(0)


class Stood(NamedTuple):
    """A committed offset and where in the log its record stands: of two that meet, the later one wins."""

    committed: CommittedOffset
    position: int


class Seen(NamedTuple):
    """Of one group at one moment. `pending`: where an open transaction has committed."""

    committed: Mapping[Place, Stood]
    pending: Set[Place]


class Offsets:
    def __init__(self) -> None:
        self.by_group: dict[str, dict[Place, Stood]] = {}
        self._count = 0  # of those and of `pending`
        self._text_bytes = 0  # of their metadata, as they count
        # Producer id -> group -> place: committed by an open transaction.
        self.pending: dict[int, dict[str, dict[Place, Stood]]] = {}
        # Group -> place: in which open transactions.
        self._pending_places: dict[str, dict[Place, dict[int, None]]] = {}
        # Appended, not committed yet: group -> append -> places.
        self._in_flight: dict[str, dict[int, set[Place]]] = {}

    @property
    def size_bytes(self) -> int:
        """Memory, as it counts for `kept_memory`."""
        return BYTES_OF_AN_OFFSET * self._count + self._text_bytes

    def apply(self, key: OffsetKey, value: CommittedOffset | None, position: int, producer_id: int) -> None:
        """One record, at `position` in the log."""
        place = key.topic, key.partition
        if producer_id != NO_PRODUCER and value is not None:
            _hold(self._pending_places, key.group, place, producer_id)
            self._put(self.pending.setdefault(producer_id, {}), key.group, {place: Stood(value, position)})
        elif value is not None:
            self._put(self.by_group, key.group, {place: Stood(value, position)})
        else:
            self._drop(self.by_group, key.group, place)
            for producer in list(self._pending_places.get(key.group, {}).get(place, ())):
                # The offset was deleted; what a transaction committed before that goes with it.
                self._drop(self.pending[producer], key.group, place)
                _let_go(self._pending_places, key.group, place, producer)

    def apply_run(self, run: Run) -> None:
        """What `apply` does with each of its records, without a step of Python a record."""
        places = zip(repeat(run.topic), run.partitions, strict=False)
        stood = map(_new, repeat(Stood), zip(run.values, run.positions, strict=True))
        self._put(self.by_group, run.group, dict(zip(places, stood, strict=True)))

    def apply_all(
        self, keys: Sequence[OffsetKey], values: Sequence[CommittedOffset], position: int, producer_id: int
    ) -> None:
        """What `apply` does with each of these, all of one group, without a step of Python an offset."""
        stood = dict(
            zip(map(_place, keys), map(_new, repeat(Stood), zip(values, count(position))), strict=True)
        )
        group = keys[0].group
        if producer_id == NO_PRODUCER:
            self._put(self.by_group, group, stood)
            return
        for place in stood:
            _hold(self._pending_places, group, place, producer_id)
        self._put(self.pending.setdefault(producer_id, {}), group, stood)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """A marker: what stands later in the log than a plain commit of the same partition replaces it."""
        for group, held in self.pending.pop(producer_id, {}).items():
            self._count -= len(held)
            self._text_bytes -= _of_texts(map(_committed, held.values()))
            for place in held:
                _let_go(self._pending_places, group, place, producer_id)
            if is_commit:
                committed = self.by_group.get(group, {})
                later = {
                    place: stood
                    for place, stood in held.items()
                    if place not in committed or committed[place].position < stood.position
                }
                self._put(self.by_group, group, later)

    def more_bytes(
        self, group: str, keys: Iterable[OffsetKey], values: Sequence[CommittedOffset], producer_id: int
    ) -> int:
        """Memory that these will take beside what there is of their places: what the same transaction holds of one, or else the
        offset that stands, which goes when the transaction ends; but a second transaction that holds one is asked for it."""
        stood = self.by_group.get(group, {}).get
        places = map(_place, keys)
        if producer_id == NO_PRODUCER:
            known = filter(None, map(stood, places))
        else:
            own = self.pending.get(producer_id, {}).get(group, {}).get
            held = self._pending_places.get(group, {})
            known = filter(None, (own(one) or (None if one in held else stood(one)) for one in places))
        return of_offsets(values) - of_offsets(list(map(_committed, known)))

    def of(self, group: str, place: Place) -> CommittedOffset | None:
        stood = self.by_group.get(group, {}).get(place)
        return None if stood is None else stood.committed

    def count(self, group: str) -> int:
        """How many places are committed or pending, at most."""
        return len(self.by_group.get(group, ())) + len(self._pending_places.get(group, ()))

    def seen(self, group: str) -> "Seen":
        return Seen(self.by_group.get(group, {}), self._pending_places.get(group, {}).keys())

    def copy(self, group: str) -> "Seen":
        """What is `seen` at this moment."""
        return Seen(
            dict(self.by_group.get(group, ())), dict.fromkeys(self._pending_places.get(group, ())).keys()
        )

    def is_pending(self, group: str, place: Place) -> bool:
        return place in self._pending_places.get(group, ())

    def to_remove(self, group: str) -> list[Place]:
        """Every partition a tombstone is due for when the group goes: those on their way to the log too. In the order in which
        they were committed first: to sort a hundred thousand takes longer than a turn may."""
        committed = self.by_group.get(group, {})
        return [*committed, *sorted(self.unsettled(group).difference(committed))]

    def has_more_than(self, count: int, group: str) -> bool:
        """Committed ones alone."""
        return len(self.by_group.get(group, ())) > count

    def unsettled(self, group: str) -> set[Place]:
        """On their way to the log, or held by an open transaction."""
        return {
            *chain.from_iterable(self._in_flight.get(group, {}).values()),
            *self._pending_places.get(group, ()),
        }

    def went(self, append_id: int, keys: Iterable[OffsetKey]) -> None:
        for group, some in groupby(keys, _group):
            appends = self._in_flight.setdefault(group, {})
            appends.setdefault(append_id, set()).update(map(_place, some))

    def came(self, append_id: int, keys: Iterable[OffsetKey]) -> None:
        for group in dict.fromkeys(map(_group, keys)):
            appends = self._in_flight[group]
            del appends[append_id]
            if not appends:
                del self._in_flight[group]

    def is_in_flight(self, group: str, place: Place) -> bool:
        return any(place in places for places in self._in_flight.get(group, {}).values())

    def _put(self, of: dict[str, dict[Place, Stood]], group: str, stood: dict[Place, Stood]) -> None:
        if not stood:
            return
        places = of.setdefault(group, {})
        if self._text_bytes:
            before = filter(None, map(places.get, stood))
            self._text_bytes -= _of_texts(map(_committed, before))
        self._text_bytes += _of_texts(map(_committed, stood.values()))
        self._count -= len(places)
        places.update(stood)
        self._count += len(places)

    def _drop(self, of: dict[str, dict[Place, Stood]], group: str, place: Place) -> None:
        places = of.get(group)
        stood = None if places is None else places.pop(place, None)
        if places is None or stood is None:
            return
        self._count -= 1
        self._text_bytes -= _of_texts((stood.committed,))
        if not places:
            del of[group]


def of_offsets(values: Collection[CommittedOffset]) -> int:
    """Memory of so many places, as it counts."""
    return BYTES_OF_AN_OFFSET * len(values) + _of_texts(values)


def _of_texts(values: Iterable[CommittedOffset]) -> int:
    texts = list(filter(None, map(_metadata, values)))
    if 4 * max(map(len, texts), default=0) <= FREE_METADATA:
        return 0  # however many bytes a letter has
    return sum(max(of_text(one) - FREE_METADATA, 0) for one in texts)


def _hold(of: dict[str, dict[Place, dict[int, None]]], group: str, place: Place, producer_id: int) -> None:
    of.setdefault(group, {}).setdefault(place, {})[producer_id] = None


def _let_go(of: dict[str, dict[Place, dict[int, None]]], group: str, place: Place, producer_id: int) -> None:
    places = of[group]
    del places[place][producer_id]
    if not places[place]:
        del places[place]
        if not places:
            del of[group]
