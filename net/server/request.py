"""One request, and the one answer that it gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import trio

from net.server.counters import ApiCounters
from net.server.reasons import Reason
from net.transport.seam import FileRegion, Part
from net.wire.frames import LENGTH, LENGTH_BYTES
from net.wire.headers import RequestHeader, response_header_bytes

if TYPE_CHECKING:
    from net.server.connection import Connection

_MOST_BYTES: Final = 2**31 - 1


class Request:
    """A request that came on a connection.

    Exactly one of `reply`, `no_reply` and `close` is called, at once or later; answers leave in the
    order of the requests. `body` may be read until the service returns, and raises `ValueError`
    afterwards: its memory is used for other requests, so parts of an answer must not be of it.
    """

    __slots__ = (
        "_counters",
        "_received_s",
        "answer",
        "answer_bytes",
        "api_key",
        "body",
        "client_id",
        "connection",
        "correlation_id",
        "size_bytes",
        "version",
    )

    def __init__(
        self,
        header: RequestHeader,
        body: memoryview,
        connection: Connection,
        received_s: float,
        size_bytes: int,
        counters: ApiCounters,
    ) -> None:
        self.api_key, self.version, self.correlation_id, self.client_id, _ = header
        self.body = body
        self.connection = connection
        self._received_s = received_s
        self.size_bytes = size_bytes
        self._counters = counters
        self.answer: Sequence[Part] | None = None
        self.answer_bytes = 0

    def reply(self, parts: Sequence[Part]) -> None:
        """Answer with these, behind the header. If the connection is gone, they are dropped."""
        if self.connection.closed or self.answer is not None:
            self._too_late(parts)
            return
        head = response_header_bytes(self.api_key, self.version, self.correlation_id)
        size_bytes = len(head) + sum(map(len, parts))
        if size_bytes > _MOST_BYTES:
            release(parts)
            self._end(Reason.INTERNAL_ERROR, f"an answer of {size_bytes} bytes")
            return
        self._answered([LENGTH.pack(size_bytes) + head, *parts], size_bytes + LENGTH_BYTES)

    def no_reply(self) -> None:
        """Send nothing; requests that came later need no longer wait for this one."""
        if self.connection.closed or self.answer is not None:
            self._too_late(())
        else:
            self._answered((), 0)

    def close(self, reason: str) -> None:
        """End the connection instead of answering, and log why."""
        self._end(Reason.SERVICE, reason)

    def abandon(self) -> None:
        """Do without an answer, because the connection ends; a later one is dropped."""
        if self.answer is None:
            self.answer = ()
            self.connection.forget(self.size_bytes)

    def _answered(self, answer: Sequence[Part], size_bytes: int) -> None:
        self.answer = answer
        self.answer_bytes = size_bytes
        self._counters.took(int((trio.current_time() - self._received_s) * 1e6))
        self.connection.answered(self)

    def _end(self, reason: Reason, detail: str) -> None:
        self.connection.end(reason, detail)
        self.abandon()

    def _too_late(self, parts: Sequence[Part]) -> None:
        release(parts)
        if not self.connection.closed:
            raise RuntimeError(f"API {self.api_key}: a request is answered twice")
        self.abandon()


Service: TypeAlias = Callable[[Request], None]
"""Takes each request of a listener, on the loop, and sees to it that it is answered."""


def release(parts: Iterable[Part]) -> None:
    """Let go of the files among these."""
    for part in parts:
        if isinstance(part, FileRegion):
            part.release()
