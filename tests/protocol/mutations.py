"""Bytes of a real message with a few of them changed, cut out or put in, for hypothesis."""

from hypothesis import strategies as st

NASTY = [
    b"\xff",
    b"\x7f\xff",
    b"\x80\x00",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xfe",
    b"\x80\x80\x80\x80\x80",
    b"\x00",
]


def mutated(body: bytes) -> st.SearchStrategy[bytes]:
    edit = st.tuples(
        st.integers(0, max(0, len(body) - 1)),
        st.integers(0, 4),
        st.binary(max_size=3) | st.sampled_from(NASTY),
    )

    def apply(edits: list[tuple[int, int, bytes]]) -> bytes:
        changed = body
        for position, cut, put in edits:
            changed = changed[:position] + put + changed[position + cut :]
        return changed

    return st.lists(edit, min_size=1, max_size=3).map(apply)
