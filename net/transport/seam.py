"""The interface between a node and whatever carries its bytes.

A real network is TCP (`net.transport.tcp`); a simulator has its own. Sending is a plain call that
takes what fits now, so that an answer can leave from the callback that made it; only who finds the
stream full has to wait. Failures are `ConnectionLost`, whatever the system calls them. A stream has
one reader and one writer at a time.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TypeAlias

import attrs

from storage.disk.seam import PinnedFile

Buffer: TypeAlias = bytes | bytearray | memoryview


@attrs.frozen
class Endpoint:
    """Where somebody listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@attrs.frozen
class FileRegion:
    """Bytes of a file that are sent as they are; whoever has sent or dropped them releases it."""

    file: PinnedFile
    position: int
    length: int

    def __len__(self) -> int:
        return self.length

    def release(self) -> None:
        """Say that these bytes are no longer needed."""
        self.file.release()


Part: TypeAlias = bytes | bytearray | memoryview | FileRegion
"""A piece of a message on its way out."""


class Stream(abc.ABC):
    """One connection, seen from one end."""

    peer: str
    """Who is at the other end, for logs: `127.0.0.1:53412`."""

    @abc.abstractmethod
    async def receive_into(self, buffer: memoryview) -> int:
        """Wait for some bytes; return how many came, 0 when the other side will send no more."""

    @abc.abstractmethod
    def receive_now(self, buffer: memoryview) -> int | None:
        """Take bytes that are here already, without waiting; `None` if there are none."""

    @abc.abstractmethod
    def send_some(self, buffers: Sequence[Buffer]) -> int:
        """Send as much of these as fits now; return how many bytes, 0 if the stream is full."""

    @abc.abstractmethod
    def send_file_some(self, file: PinnedFile, position: int, length: int) -> int:
        """Send some bytes of a file; return how many, 0 if the stream is full.

        `ConnectionLost` also when the file ends too early: the message cannot be completed then.
        """

    @abc.abstractmethod
    async def wait_writable(self) -> None:
        """Wait until there may be room again."""

    @abc.abstractmethod
    def close(self) -> None:
        """End the connection now, for both sides; it is no error if it has ended."""


class Listener(abc.ABC):
    """A place that others connect to."""

    endpoint: Endpoint
    """With the real port, if 0 was asked for."""

    @abc.abstractmethod
    async def accept(self) -> Stream:
        """Wait for the next connection. Passing failures of the system are not told."""

    @abc.abstractmethod
    def close(self) -> None:
        """Accept nobody any more."""


class Network(abc.ABC):
    """Makes connections and listeners."""

    @abc.abstractmethod
    async def connect(self, endpoint: Endpoint) -> Stream:
        """Connect, without a bound on the time that it takes; `ConnectionLost` if it fails."""

    @abc.abstractmethod
    async def listen(self, endpoint: Endpoint, backlog: int) -> Listener:
        """Listen; port 0 takes any that is free. `OSError` if the address cannot be had."""
