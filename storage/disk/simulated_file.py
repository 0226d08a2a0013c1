"""A file of the simulated disk: what the page cache shows, and what the medium holds.

The cache is one `bytearray`. Of the medium only what differs is kept: for every 512-byte sector
that was written or cut since the last `fsync`, its bytes from before. In a crash each such sector
is, independently, as the cache had it or as it was before (zeros where there was nothing), and the
size is the latest, the durable one or anything between. Of several writes to a sector since the
last `fsync` only the last can survive: what was written back in between is not modelled.
"""

from __future__ import annotations

from random import Random
from typing import Final

SECTOR_BYTES: Final = 512


class SimulatedFile:
    """An inode: it has no name, so it outlives being deleted while somebody has it pinned."""

    __slots__ = ("_before", "_durable_size", "_forgotten", "content")

    def __init__(self, durable: bytearray | None = None) -> None:
        self.content = bytearray() if durable is None else durable
        self._durable_size = len(self.content)
        self._before: dict[int, bytes] = {}
        self._forgotten: dict[int, bytes] = {}

    def write(self, data: bytes, position: int) -> None:
        """Put these bytes into the cache; a hole in front of them reads as zeros."""
        end = position + len(data)
        self._remember(position, end)
        if position > len(self.content):
            self.content.extend(bytes(position - len(self.content)))
        self.content[position:end] = data

    def truncate(self, size: int) -> None:
        """Cut, or extend with zeros, in the cache."""
        if size < len(self.content):
            self._remember(size, len(self.content))
            del self.content[size:]
        else:
            self.content.extend(bytes(size - len(self.content)))

    def fsync(self) -> None:
        """Make everything durable, except what an earlier `fsync` failed to write."""
        size = self._durable_size = len(self.content)
        self._before.clear()
        for sector, old in self._forgotten.items():
            self._forgotten[sector] = old[: max(0, size - sector * SECTOR_BYTES)]

    def fail_to_write_back(self) -> None:
        """Do as Linux does when `fsync` fails: call the dirty pages clean, and forget them.

        The cache still shows what was written, a later `fsync` succeeds, and yet the medium may
        keep the bytes from before until the sector is written once more.
        """
        self._forgotten.update(self._before)
        self._before.clear()

    def flip_bit(self, bit: int) -> None:
        """Let a bit rot, in the cache and on the medium."""
        place, mask = bit // 8, 1 << bit % 8
        sector, within = divmod(place, SECTOR_BYTES)
        self.content[place] ^= mask
        for older in (self._before, self._forgotten):
            if within < len(older.get(sector, b"")):
                rotten = bytearray(older[sector])
                rotten[within] ^= mask
                older[sector] = bytes(rotten)

    def after_crash(self, random: Random, survival: float, torn_sectors: bool) -> SimulatedFile:
        """Return what a crash leaves of this file if a change survives with this probability."""
        if not self._before and not self._forgotten and self._durable_size == len(self.content):
            return SimulatedFile(self.content[:])
        size = self._size_after_crash(random, survival)
        image = self.content[:size]
        image.extend(bytes(size - len(image)))
        for older in (self._before, self._forgotten):
            for sector, old in older.items():
                start = sector * SECTOR_BYTES
                new = bytes(self.content[start : start + SECTOR_BYTES])
                left = _sector_after_crash(random, survival, torn_sectors, old, new)
                image[start : start + SECTOR_BYTES] = left.ljust(SECTOR_BYTES, b"\0")
                del image[size:]
        return SimulatedFile(image)

    def _size_after_crash(self, random: Random, survival: float) -> int:
        durable, latest = self._durable_size, len(self.content)
        if random.random() < survival:
            return latest
        return random.choice((durable, random.randint(min(durable, latest), max(durable, latest))))

    def _remember(self, start: int, end: int) -> None:
        """Keep what the medium holds of the sectors from `start` to `end`."""
        before, forgotten = self._before, self._forgotten
        for sector in range(start // SECTOR_BYTES, -(-end // SECTOR_BYTES)):
            if sector in before:
                continue
            if sector in forgotten:
                before[sector] = forgotten.pop(sector)
            else:
                # Behind the durable size, a sector not yet written is a hole, so this is zeros.
                first = sector * SECTOR_BYTES
                before[sector] = bytes(self.content[first : first + SECTOR_BYTES])


def _sector_after_crash(
    random: Random, survival: float, torn_sectors: bool, old: bytes, new: bytes
) -> bytes:
    if not new or random.random() >= survival:
        return old
    torn = torn_sectors and random.random() < 0.5
    if torn and random.random() < 0.5:
        # Torn at a byte: the front is new and the rest as before.
        cut = random.randrange(SECTOR_BYTES)
        return new[:cut].ljust(cut, b"\0") + old[cut:]
    # A cut is a change of size, and if that is lost, what was cut off is back. But the zeros
    # behind the cut may have been written already, before the new size was.
    return new if torn else new + old[len(new) :]
