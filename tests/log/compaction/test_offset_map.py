"""The offset map is a dictionary with a bound."""

import hypothesis.strategies as st
from hypothesis import given

from odradek.log.compaction.offset_map import NO_OFFSET, SLOT_BYTES, OffsetMap


@given(st.lists(st.tuples(st.binary(max_size=3), st.integers(0, 2**62)), max_size=40), st.binary(max_size=3))
def test_it_knows_what_a_dictionary_knows(puts: list[tuple[bytes, int]], asked: bytes) -> None:
    known: dict[bytes, int] = {}
    offsets = OffsetMap(SLOT_BYTES * 41, 1.0)
    for key, offset in puts:
        offsets.put(key, offset)
        known[key] = offset

    assert offsets.size == len(known)
    assert {key: offsets.get(key) for key in known} == known
    assert offsets.get(asked) == known.get(asked, NO_OFFSET)


def test_it_is_full_at_the_load_factor() -> None:
    offsets = OffsetMap(SLOT_BYTES * 10, 0.5)
    for n in range(5):
        assert offsets.has_room_for(1)
        offsets.put(b"%d" % n, n)

    assert not offsets.has_room_for(1)
    assert offsets.has_room_for(0)


def test_who_does_not_know_the_secret_cannot_place_a_key() -> None:
    """Else keys could be chosen that all lie in one row, and each lookup would walk over all of them."""
    one, other = (OffsetMap(SLOT_BYTES << 16, 0.9, secret) for secret in (b"one", b"other"))
    places = set()
    for offsets in (one, other):
        offsets.put(b"key", 7)
        places.add(bytes(offsets._table).index(b"\x08"))

    assert len(places) == 2
