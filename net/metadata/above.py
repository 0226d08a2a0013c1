"""What is above the quorum: the image of what is committed, in the order of the log.

`Committed`, `Elected`, `Deposed` and `WriteSnapshot` are taken one after the other. Few bytes are
read at once, on the loop; many are read and decoded in another thread, a piece at a time, so that a
long log does not keep the node from answering. So the image may be behind what the core knows, but
whoever is told that this node leads has all that came before.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias

import attrs

from net.clock import wall_ms
from net.metadata import snapshots
from net.metadata.batches import read_records
from net.metadata.codec import BadRecord
from net.metadata.image import ImageLoader, log_records
from net.metadata.log import Loaded, MetadataLog, Pinned
from protocol.controller.records import Record
from protocol.controller.state import Image
from protocol.machine import Event
from protocol.quorum import effects as do
from protocol.quorum.events import SnapshotTaken
from protocol.quorum.log import SnapshotId
from protocol.types import Epoch, Offset
from storage.errors import NO_ROOM, InvalidBatch

_log = logging.getLogger(__name__)

AT_ONCE_BYTES: Final = 256 * 1024
"""So much is read and decoded on the loop."""
PIECE_BYTES: Final = 1024 * 1024

Records: TypeAlias = Sequence[tuple[Offset, Record]]


class Listener(Protocol):
    """Somebody above the quorum: a controller, or a broker. All calls come in the log's order."""

    def committed(self, end_offset: Offset, records: Records, image: Image) -> None:
        """All before `end_offset` is committed; these are the records that are new, with offsets.

        `image` is that of everything before `end_offset`. After a snapshot was loaded there are no
        records, only the image. Control records have an offset, and are not among these.
        """

    def elected(self, epoch: Epoch, end_offset: Offset, image: Image) -> None:
        """This node leads in `epoch`; the first record it proposes goes to `end_offset`."""

    def deposed(self, epoch: Epoch) -> None:
        """This node leads no more. What it proposed and is not committed may last or not."""


@attrs.frozen
class WriteSnapshotOf:
    """A snapshot that is to be written when the image has got there."""

    snapshot: SnapshotId


Item: TypeAlias = do.Committed | do.Elected | do.Deposed | WriteSnapshotOf


class Above:
    """The image and its listeners."""

    def __init__(
        self,
        log: MetadataLog,
        deliver: Callable[[Event], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.images = ImageLoader(log.loaded.image, log.loaded.snapshot.end_offset)
        self.listeners: list[Listener] = []
        self.is_writing_snapshot = False
        self._metadata = log
        self._deliver = deliver
        self._failed = failed
        self._items: deque[Item] = deque()
        self._is_busy = False
        self._is_closed = False

    def put(self, item: Item) -> None:
        """Do this after all that came before."""
        self._items.append(item)
        self._go_on()

    def close(self) -> None:
        """Tell nobody anything any more."""
        self._is_closed = True
        self._items.clear()

    def _go_on(self) -> None:
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._items:
                # While this goes on, listeners may ask for more, which then comes behind.
                if not self._take(self._items[0]):
                    return
                if self._items:
                    self._items.popleft()
        except (InvalidBatch, BadRecord, OSError) as error:
            self._fail(error)
            return
        self._is_busy = False

    def _take(self, item: Item) -> bool:
        """Do an item; `False` if it goes on in another thread, which calls when it is done."""
        images = self.images
        match item:
            case do.Committed(end_offset):
                return self._advance(end_offset)
            case do.Elected(epoch, end_offset):
                for listener in self.listeners:
                    listener.elected(epoch, end_offset, images.image)
            case do.Deposed(epoch):
                for listener in self.listeners:
                    listener.deposed(epoch)
            case WriteSnapshotOf(snapshot):
                self._write_snapshot(snapshot)
        return True

    def _advance(self, end_offset: Offset) -> bool:
        """Apply what is committed, up to this offset."""
        while self.images.offset < end_offset and not self._is_closed:
            loaded, start = self._metadata.loaded, self.images.offset
            if start < loaded.snapshot.end_offset:
                self.images.replace(loaded.image, loaded.snapshot.end_offset)
                self._tell(())
                continue
            pinned = self._metadata.pin(start, end_offset, PIECE_BYTES)
            if pinned is None:
                raise OSError(f"{self._metadata.path} has nothing at {start}, before {end_offset}")
            if pinned.length > AT_ONCE_BYTES:
                self._metadata.disk.submit(partial(_read, pinned), self._read)
                return False
            self._apply(*_read(pinned))
        return True

    def _read(self, result: tuple[Offset, Offset, Records] | Exception) -> None:
        if self._is_closed:
            return
        if isinstance(result, Exception):
            self._fail(result)
            return
        try:
            self._apply(*result)
        except OSError as error:
            self._fail(error)
            return
        self._is_busy = False
        self._go_on()

    def _apply(self, base_offset: Offset, end_offset: Offset, records: Records) -> None:
        # A snapshot may have come while this was being read, and have all of it or a part.
        if end_offset <= self.images.offset:
            return
        if base_offset > self.images.offset:
            raise OSError(f"{self._metadata.path} goes on at {base_offset}: records are missing")
        new = [each for each in records if each[0] >= self.images.offset]
        self.images.apply(new, end_offset)
        self._tell(new)

    def _tell(self, records: Records) -> None:
        for listener in self.listeners:
            listener.committed(self.images.offset, records, self.images.image)

    def _fail(self, error: Exception) -> None:
        self.close()
        self._failed(error)

    def _write_snapshot(self, snapshot: SnapshotId) -> None:
        if self.is_writing_snapshot or snapshot.end_offset != self.images.offset:
            return
        self.is_writing_snapshot = True
        log, image = self._metadata, self.images.image
        work = partial(snapshots.write, log.disk, log.path, snapshot, image, wall_ms())
        log.disk.submit(work, partial(self._written, Loaded(snapshot, image)))

    def _written(self, loaded: Loaded, result: Exception | None) -> None:
        self.is_writing_snapshot = False
        if self._is_closed:
            return
        if isinstance(result, OSError) and result.errno in NO_ROOM:
            _log.warning("no room for a snapshot: %s", result)
        elif result is not None:
            self._failed(result)
        elif loaded.snapshot.end_offset > self._metadata.loaded.snapshot.end_offset:
            self._metadata.loaded = loaded
            self._deliver(SnapshotTaken(loaded.snapshot.end_offset))
            self._metadata.drop_old_snapshots()


def _read(pinned: Pinned) -> tuple[Offset, Offset, Records]:
    """Read and decode a piece of the log: from where to where it goes, and what it has."""
    batches = pinned.batches()
    found = log_records(read_records(batches))
    return batches[0].header.base_offset, batches[-1].header.end_offset, found
