"""What waits to be sent on one connection, in order. It takes what fits and never waits itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from net.server.counters import ServerCounters
from net.transport.seam import Buffer, FileRegion, Part, Stream

_MOST_BUFFERS: Final = 256
_MOST_AT_ONCE_BYTES: Final = 4 * 2**20
"""A reader that is always ready must not keep the loop for itself."""


class Output:
    """Answers on their way out. Files are released when they have been sent or are dropped."""

    __slots__ = ("_counters", "_queue", "_sent", "_skip", "_stream", "waiting_bytes")

    def __init__(
        self, stream: Stream, counters: ServerCounters, sent: Callable[[int], None]
    ) -> None:
        self.waiting_bytes = 0
        self._stream = stream
        self._counters = counters
        self._sent = sent
        # A number stands behind the parts of an answer: the size of its request, which `sent`
        # is told when the answer is out.
        self._queue: deque[Part | int] = deque()
        self._skip = 0

    def __bool__(self) -> bool:
        return bool(self._queue)

    def put(self, parts: Sequence[Part], size_bytes: int, request_bytes: int) -> None:
        """Add an answer of this size. Nothing is sent yet."""
        self._queue.extend(parts)
        self._queue.append(request_bytes)
        self.waiting_bytes += size_bytes

    def flush(self) -> bool:
        """Send what fits; return whether all of it did. `ConnectionLost` from the stream."""
        queue = self._queue
        stop_bytes = self.waiting_bytes - _MOST_AT_ONCE_BYTES
        while queue:
            first = queue[0]
            if isinstance(first, int):
                queue.popleft()
                self._sent(first)
            elif self.waiting_bytes <= stop_bytes:
                return False
            elif isinstance(first, FileRegion):
                if not self._flush_file(first):
                    return False
            elif not self._flush_buffers():
                return False
        return True

    def _flush_file(self, region: FileRegion) -> bool:
        left = region.length - self._skip
        sent = 0
        if left:
            sent = self._stream.send_file_some(region.file, region.position + self._skip, left)
            if not sent:
                return False
            self._count(sent)
        if sent == left:
            self._skip = 0
            self._queue.popleft()
            region.release()
        else:
            self._skip += sent
        return True

    def _flush_buffers(self) -> bool:
        buffers: list[Buffer] = []
        total = -self._skip
        taken = 0
        for part in self._queue:
            if not isinstance(part, int):
                if isinstance(part, FileRegion) or len(buffers) == _MOST_BUFFERS:
                    break
                buffers.append(part)
                total += len(part)
            taken += 1
        if self._skip:
            buffers[0] = memoryview(buffers[0])[self._skip :]
        sent = self._stream.send_some(buffers) if total else 0
        if total and not sent:
            return False
        self._count(sent)
        if sent == total:
            self._skip = 0
            self._pop(taken)
        else:
            self._pop_sent(sent)
        return True

    def _count(self, sent: int) -> None:
        self.waiting_bytes -= sent
        self._counters.bytes_out += sent

    def _pop(self, count: int) -> None:
        queue = self._queue
        for _ in range(count):
            part = queue.popleft()
            if isinstance(part, int):
                self._sent(part)

    def _pop_sent(self, sent: int) -> None:
        """Take away what has been sent, which ends in the middle of some part."""
        sent += self._skip
        queue = self._queue
        while True:
            part = queue[0]
            if isinstance(part, int):
                self._sent(part)
            elif isinstance(part, FileRegion) or len(part) > sent:
                self._skip = sent
                return
            else:
                sent -= len(part)
            queue.popleft()

    def drop(self) -> None:
        """Send nothing more."""
        queue, self._queue = self._queue, deque()
        self.waiting_bytes = 0
        for part in queue:
            if isinstance(part, int):
                self._sent(part)
            elif isinstance(part, FileRegion):
                part.release()
