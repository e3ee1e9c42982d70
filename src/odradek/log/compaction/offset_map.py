"""Key -> last offset, in memory that is bounded whatever the keys are.

24 bytes a slot, open addressing: a digest of the key of 16 bytes and the offset of 8 (Apache Kafka's SkimpyOffsetMap has the
same layout, over MD5). A second key with the digest of a first would delete the first one's records, so the digest is one that
nobody can aim at: BLAKE2b under a secret of this process.
"""

from hashlib import blake2b
from struct import Struct

from odradek.records.batch import Buffer

SLOT_BYTES = 24
DIGEST_BYTES = 16
NO_OFFSET = -1

_OFFSET = Struct(">q")


class OffsetMap:
    """`most_keys` is what fits: beyond `load_factor` of the slots a lookup gets slow. The caller asks before it puts."""

    __slots__ = ("_secret", "_slots", "_table", "most_keys", "size")

    def __init__(self, memory_bytes: int, load_factor: float, secret: bytes = b"") -> None:
        self._slots = max(memory_bytes // SLOT_BYTES, 1)
        self._table = bytearray(self._slots * SLOT_BYTES)
        self._secret = secret
        self.most_keys = int(self._slots * load_factor)
        self.size = 0

    def put(self, key: Buffer, offset: int) -> None:
        """The last one put counts. Offsets are stored plus one: zeros are an empty slot."""
        digest = blake2b(key, digest_size=DIGEST_BYTES, key=self._secret).digest()
        table = self._table
        at = self._find(digest)
        if table[at : at + SLOT_BYTES] == _EMPTY:
            assert self.size < self._slots, "a full offset map"
            self.size += 1
            table[at : at + DIGEST_BYTES] = digest
        _OFFSET.pack_into(table, at + DIGEST_BYTES, offset + 1)

    def get(self, key: Buffer) -> int:
        """NO_OFFSET (-1), below every offset, for a key that was not put."""
        at = self._find(blake2b(key, digest_size=DIGEST_BYTES, key=self._secret).digest())
        return int(_OFFSET.unpack_from(self._table, at + DIGEST_BYTES)[0]) - 1

    def has_room_for(self, keys: int) -> bool:
        return self.size + keys <= self.most_keys

    def _find(self, digest: bytes) -> int:
        """The slot of the digest, else the empty one where it belongs."""
        table = self._table
        at = int.from_bytes(digest[:8], "big") % self._slots * SLOT_BYTES
        end = len(table)
        while True:
            found = table[at : at + DIGEST_BYTES]
            if found in (digest, _NO_DIGEST):
                return at
            at += SLOT_BYTES
            if at == end:
                at = 0


_EMPTY = bytes(SLOT_BYTES)
_NO_DIGEST = bytes(DIGEST_BYTES)
