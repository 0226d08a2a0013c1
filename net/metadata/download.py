"""Download one snapshot from the leader: part by part into a file, then check all of it.

It ends with one event: `SnapshotFetched`, with a file that is durable and the image that it is, or
`SnapshotLost`. Each part that comes is told, as a sign that the leader is alive. It never waits for
ever, because a part that does not come is told as such by the peers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress

from net.metadata import snapshots
from net.metadata.log import MetadataLog
from net.metadata.peers import QuorumPeers, SnapshotPart
from net.metadata.storing import Downloaded
from protocol.controller.state import Image
from protocol.machine import Event
from protocol.quorum.effects import FetchSnapshot
from protocol.quorum.events import SnapshotArriving, SnapshotFetched, SnapshotLost
from storage.errors import StorageError

_log = logging.getLogger(__name__)


class Download:
    """One download, from its start until it has told what came of it."""

    def __init__(
        self,
        wanted: FetchSnapshot,
        number: int,
        log: MetadataLog,
        peers: QuorumPeers,
        told: Callable[[Event], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.wanted = wanted
        self.is_over = False
        self._log = log
        self._peers = peers
        self._told = told
        self._failed = failed
        self._path = log.part_path(wanted.snapshot, number)
        self._position = 0
        self._size_bytes: int | None = None

    def start(self) -> None:
        """Ask for the first part."""
        try:
            self._log.disk.create(self._path)
        except OSError as error:
            self.is_over = True
            self._failed(error)
            return
        self._ask()

    def cancel(self) -> None:
        """Tell nothing any more: another download takes its place."""
        if not self.is_over:
            self._end()

    def _end(self) -> None:
        """Leave nothing behind; that a disk which fails keeps it does no harm."""
        self.is_over = True
        with suppress(OSError):
            self._log.disk.delete(self._path)

    def _ask(self) -> None:
        wanted = self.wanted
        self._peers.fetch_part(
            wanted.leader, wanted.epoch, wanted.snapshot, self._position, self._got
        )

    def _got(self, part: SnapshotPart | None) -> None:
        if self.is_over:
            return
        problem = "nobody answers" if part is None else self._problem(part)
        if part is None or problem is not None:
            self._lose(f"byte {self._position}: {problem}")
            return
        try:
            self._log.disk.write(self._path, (part.content,), self._position)
        except OSError as error:
            self.is_over = True
            self._failed(error)
            return
        self._position += len(part.content)
        self._size_bytes = part.size_bytes
        self._told(SnapshotArriving())
        self._go_on(part.size_bytes)

    def _go_on(self, size_bytes: int) -> None:
        # Whoever was told of a part may have begun another download.
        if self.is_over:
            return
        if self._position < size_bytes:
            self._ask()
        else:
            self._log.disk.submit(self._check, self._checked)

    def _problem(self, part: SnapshotPart) -> str | None:
        if part.snapshot != self.wanted.snapshot or part.position != self._position:
            return f"a part of {part.snapshot} from {part.position} on"
        if not 0 < part.size_bytes <= snapshots.MAX_SNAPSHOT_BYTES:
            return f"a snapshot of {part.size_bytes} bytes"
        if self._size_bytes not in (None, part.size_bytes):
            return f"its size was {self._size_bytes} and is {part.size_bytes}"
        if not 0 < len(part.content) <= part.size_bytes - self._position:
            return f"{len(part.content)} bytes, of {part.size_bytes} in all"
        return None

    def _check(self) -> Image:
        """Make the file durable and read all of it. It blocks."""
        self._log.disk.fsync(self._path)
        return snapshots.read(self._log.disk, self._path)

    def _checked(self, result: Image | Exception) -> None:
        if self.is_over:
            return
        if isinstance(result, StorageError):
            self._lose(str(result))
        elif isinstance(result, Exception):
            self.is_over = True
            self._failed(result)
        else:
            self.is_over = True
            downloaded = Downloaded(self._path, result)
            self._told(SnapshotFetched(self.wanted.snapshot, downloaded))

    def _lose(self, reason: str) -> None:
        self._end()
        snapshot = self.wanted.snapshot
        _log.warning("a download of %s failed, %s", snapshots.file_name(snapshot), reason)
        self._told(SnapshotLost(snapshot))
