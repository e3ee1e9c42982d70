"""Random choices, from a seed the shell draws once: the broker itself is deterministic.

Needed where two brokers, or one before and after a restart, must not choose alike: topic ids, session ids,
where an assignment begins. A counter under a keyed hash is random enough for that.
"""

from hashlib import blake2b

from odradek.model.ids import NO_TOPIC_ID, TopicId


class Draws:
    def __init__(self, seed: bytes) -> None:
        self._seed = seed[:64]
        self._counter = 0

    def _bytes(self, size: int) -> bytes:
        self._counter += 1
        return blake2b(self._counter.to_bytes(8, "big"), digest_size=size, key=self._seed).digest()

    def below(self, limit: int) -> int:
        """0 <= n < limit."""
        return int.from_bytes(self._bytes(8), "big") % limit

    def session_id(self) -> int:
        """1 .. 2^31 - 1: 0 means no session."""
        return 1 + self.below(2**31 - 1)

    def topic_id(self) -> TopicId:
        """A version 4 UUID, as other tools expect, never 0 and never beginning with `-` as text (KIP-516)."""
        while True:
            raw = bytearray(self._bytes(16))
            raw[6] = (raw[6] & 0x0F) | 0x40
            raw[8] = (raw[8] & 0x3F) | 0x80
            # 62 is "-" in URL-safe base64: six ones but the last.
            if raw[0] >> 2 != 62 and bytes(raw) != NO_TOPIC_ID:
                return TopicId(bytes(raw))
