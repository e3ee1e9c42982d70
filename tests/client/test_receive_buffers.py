"""Large frames: whose buffer is kept for the next one, and how much is kept in all."""

from odradek.client.receive_buffers import BufferPool

MIB = 1 << 20


def test_the_buffer_of_a_large_frame_is_used_again() -> None:
    pool = BufferPool()
    first = pool.take(9 * MIB)
    pool.give_back(first)

    assert pool.take(9 * MIB - 5) is first


def test_no_more_is_kept_than_sixteen_mebibytes() -> None:
    """Whoever sent much at once must not have cost its memory for ever."""
    pool = BufferPool()
    taken = [pool.take(6 * MIB) for _ in range(3)]
    huge = pool.take(100 * MIB)
    for buffer in (*taken, huge):
        pool.give_back(buffer)

    again = [pool.take(6 * MIB) for _ in range(3)]
    assert [buffer in taken for buffer in again] == [True, True, False]
    assert pool.take(100 * MIB) is not huge


def test_a_small_frame_does_not_take_a_large_buffer() -> None:
    pool = BufferPool()
    large = pool.take(9 * MIB)
    pool.give_back(large)

    assert pool.take(MIB) is not large
