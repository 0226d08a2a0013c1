"""Which record is the last of each key, as far as compaction has looked: bounded in memory.

Of a key only a digest is kept, so that a key of a megabyte costs no more than one of a byte; two
keys with the same digest of 128 bits are not expected in any log. It is Kafka's offset map, without
its habit to be of a fixed size from the beginning.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from storage.disk.seam import Buffer

MAX_KEYS: Final = 1_000_000
"""At about 200 bytes each; Kafka's default of 128 MiB has room for five times as many."""
_DIGEST_BYTES: Final = 16


class OffsetMap:
    """The last offset of each key among the records before `end_offset`."""

    __slots__ = ("_last", "_max_keys", "end_offset")

    def __init__(self, start_offset: int, max_keys: int = MAX_KEYS) -> None:
        if max_keys < 1:
            raise ValueError(f"a map of {max_keys} keys never gets anywhere")
        self.end_offset = start_offset
        """Nothing is known of the records from here on."""
        self._max_keys = max_keys
        self._last: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._last)

    def note(self, key: Buffer, offset: int) -> bool:
        """Hear of a record, in the order of the log; `False` if there is no room for its key."""
        digest = _digest(key)
        if digest not in self._last and len(self._last) >= self._max_keys:
            return False
        self._last[digest] = offset
        return True

    def is_superseded(self, key: Buffer, offset: int) -> bool:
        """Whether a later record has the same key."""
        return self._last.get(_digest(key), -1) > offset


def _digest(key: Buffer) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()
