"""Random choices, from a seed the shell draws once: the broker itself is deterministic.

Needed where two brokers, or one before and after a restart, must not choose alike: topic ids, session ids,
where an assignment begins. Two SplitMix64 generators side by side (Steele, Lea, Flood 2014), each with half of
the seed: nobody's secret hangs on them, only that no two brokers go the same way. (hashlib would do as well
and takes ten milliseconds to import.)
"""

from odradek.model.ids import NO_TOPIC_ID, TopicId

_MASK = (1 << 64) - 1
_GOLDEN_GAMMA = 0x9E3779B97F4A7C15


def _mixed(state: int) -> int:
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return state ^ (state >> 31)


class IdGenerator:
    def __init__(self, seed: bytes) -> None:
        assert len(seed) >= 16, "two brokers could draw alike"
        self._one = int.from_bytes(seed[:8], "big")
        self._two = int.from_bytes(seed[8:16], "big")

    def _bits_128(self) -> int:
        self._one = (self._one + _GOLDEN_GAMMA) & _MASK
        self._two = (self._two + _GOLDEN_GAMMA) & _MASK
        return (_mixed(self._one) << 64) | _mixed(self._two)

    def below(self, limit: int) -> int:
        """0 <= n < limit."""
        return self._bits_128() % limit

    def session_id(self) -> int:
        """1 .. 2^31 - 1: 0 means no session."""
        return 1 + self.below(2**31 - 1)

    def topic_id(self) -> TopicId:
        """A version 4 UUID, as other tools expect, never 0 and never beginning with `-` as text (KIP-516)."""
        while True:
            raw = bytearray(self._bits_128().to_bytes(16, "big"))
            raw[6] = (raw[6] & 0x0F) | 0x40
            raw[8] = (raw[8] & 0x3F) | 0x80
            # 62 is "-" in URL-safe base64: six ones but the last.
            if raw[0] >> 2 != 62 and bytes(raw) != NO_TOPIC_ID:
                return TopicId(bytes(raw))
