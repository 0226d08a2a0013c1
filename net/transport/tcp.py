"""The network on TCP, over raw non-blocking sockets that Trio waits for.

A stream is read only when the system says that there is something, so a read costs one system call
and one turn of the loop: nobody who always finds bytes can keep the others from running. Trio's own
socket methods are not used, because each is a task switch, and sending here is a plain call.

The other side may vanish without a word. While nothing is on its way, keep-alive probes find that
out; while something is, whoever waits for progress has to bound its wait.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from typing import Any, Final

import attrs
import trio

from net.errors import ConnectionLost
from net.transport.seam import Buffer, Endpoint, Listener, Network, Stream
from storage.disk.seam import PinnedFile

MOST_BUFFERS: Final[int] = os.sysconf("SC_IOV_MAX")

_WILDCARDS: Final = ("", "::")
_STARVED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_FIRST_REST_S: Final = 0.01
_LONGEST_REST_S: Final = 1.0


@attrs.frozen
class TcpOptions:
    """How sockets are set up. Buffers of `None` bytes are left to the system, which adapts them."""

    keepalive_idle_s: int = 60
    keepalive_interval_s: int = 15
    keepalive_probes: int = 4
    send_buffer_bytes: int | None = None
    receive_buffer_bytes: int | None = None

    def apply(self, sock: socket.socket) -> None:
        """Set up a connected socket, or one that is about to be."""
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, self.keepalive_idle_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, self.keepalive_interval_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, self.keepalive_probes)
        self.apply_buffers(sock)

    def apply_buffers(self, sock: socket.socket) -> None:
        """Set the sizes of buffers; a listener must have them before anybody connects."""
        if self.send_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_buffer_bytes)
        if self.receive_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer_bytes)


class TcpStream(Stream):
    """One TCP connection."""

    __slots__ = ("_closed", "_descriptor", "_socket", "peer")

    def __init__(self, sock: socket.socket, peer: str) -> None:
        self.peer = peer
        self._socket = sock
        self._descriptor = sock.fileno()
        self._closed = False

    async def receive_into(self, buffer: memoryview) -> int:
        """Wait for some bytes; return how many came, 0 when the other side will send no more."""
        while True:
            if self._closed:
                raise ConnectionLost("closed by this side")
            try:
                await trio.lowlevel.wait_readable(self._descriptor)
                return self._socket.recv_into(buffer)
            except BlockingIOError:
                continue
            except trio.ClosedResourceError:
                raise ConnectionLost("closed by this side") from None
            except OSError as error:
                raise ConnectionLost(str(error)) from None

    def receive_now(self, buffer: memoryview) -> int | None:
        """Take bytes that are here already, without waiting; `None` if there are none."""
        try:
            return self._socket.recv_into(buffer)
        except BlockingIOError:
            return None
        except OSError as error:
            raise ConnectionLost(str(error)) from None

    def send_some(self, buffers: Sequence[Buffer]) -> int:
        """Send as much of these as fits now; return how many bytes, 0 if the stream is full."""
        try:
            if len(buffers) == 1:
                return self._socket.send(buffers[0])
            if len(buffers) > MOST_BUFFERS:
                buffers = buffers[:MOST_BUFFERS]
            return self._socket.sendmsg(buffers)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ConnectionLost(str(error)) from None

    def send_file_some(self, file: PinnedFile, position: int, length: int) -> int:
        """Send some bytes of a file; return how many, 0 if the stream is full."""
        if self._closed:
            # The descriptor may be somebody else's by now.
            raise ConnectionLost("closed by this side")
        try:
            sent = file.sendfile(self._descriptor, position, length)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ConnectionLost(str(error)) from None
        if sent == 0 and length > 0:
            raise ConnectionLost(f"a file ends at {position}, {length} bytes too early")
        return sent

    async def wait_writable(self) -> None:
        """Wait until there may be room again."""
        if self._closed:
            raise ConnectionLost("closed by this side")
        try:
            await trio.lowlevel.wait_writable(self._descriptor)
        except trio.ClosedResourceError:
            raise ConnectionLost("closed by this side") from None

    def close(self) -> None:
        """End the connection now, for both sides; it is no error if it has ended."""
        if not self._closed:
            self._closed = True
            trio.lowlevel.notify_closing(self._descriptor)
            # Waits for nothing: what the system has accepted is still sent in the background.
            self._socket.close()


class TcpListener(Listener):
    """A listening socket. `starved` counts how often the system had no means for one more."""

    def __init__(self, sock: socket.socket, host: str, options: TcpOptions) -> None:
        self.endpoint = Endpoint(host, sock.getsockname()[1])
        self.starved = 0
        self._socket = sock
        self._options = options
        self._rest_s = _FIRST_REST_S

    async def accept(self) -> TcpStream:
        """Wait for the next connection. Passing failures of the system are not told.

        `ConnectionLost` when the listener was closed.
        """
        while True:
            if self._socket.fileno() < 0:
                raise ConnectionLost("the listener was closed")
            try:
                await trio.lowlevel.wait_readable(self._socket)
                sock, address = self._socket.accept()
            except BlockingIOError:
                continue
            except trio.ClosedResourceError:
                raise ConnectionLost("the listener was closed") from None
            except OSError as error:
                await self._get_over(error)
                continue
            self._rest_s = _FIRST_REST_S
            try:
                self._options.apply(sock)
            except OSError:
                # It was gone before it was looked at.
                sock.close()
                continue
            return TcpStream(sock, _name(address))

    async def _get_over(self, error: OSError) -> None:
        """Rest if the system has no means; a connection that failed by itself is no matter."""
        if error.errno in _STARVED:
            self.starved += 1
            await trio.sleep(self._rest_s)
            self._rest_s = min(2 * self._rest_s, _LONGEST_REST_S)
        else:
            # Linux hands over what went wrong with the connection; the next one may be fine.
            await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Accept nobody any more."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


class TcpNetwork(Network):
    """TCP over IPv4 and IPv6."""

    def __init__(self, options: TcpOptions | None = None) -> None:
        self._options = options or TcpOptions()

    async def connect(self, endpoint: Endpoint) -> TcpStream:
        """Connect to the first address of this name that answers; `ConnectionLost` if none does."""
        failure = "it has no address"
        for family, address in await _addresses(endpoint):
            try:
                sock = socket.socket(family, socket.SOCK_STREAM)
            except OSError as error:
                failure = str(error)
                continue
            try:
                self._options.apply(sock)
                await _connected(sock, address)
                return TcpStream(sock, _name(address))
            except OSError as error:
                sock.close()
                failure = str(error)
            except BaseException:
                sock.close()
                raise
        raise ConnectionLost(f"cannot connect to {endpoint}: {failure}")

    async def listen(self, endpoint: Endpoint, backlog: int) -> TcpListener:
        """Listen; port 0 takes any that is free. An empty host and `::` mean every address."""
        found: list[tuple[int, Any]]
        if endpoint.host in _WILDCARDS and socket.has_dualstack_ipv6():
            found = [(socket.AF_INET6, ("::", endpoint.port))]
        elif endpoint.host == "":
            found = [(socket.AF_INET, ("0.0.0.0", endpoint.port))]
        else:
            found = await _resolved(endpoint)
        family, address = found[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                alone = endpoint.host not in _WILDCARDS
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, alone)
            self._options.apply_buffers(sock)
            sock.bind(address)
            sock.listen(backlog)
        except BaseException:
            sock.close()
            raise
        return TcpListener(sock, endpoint.host, self._options)


async def _connected(sock: socket.socket, address: Any) -> None:
    try:
        sock.connect(address)
    except BlockingIOError:
        await trio.lowlevel.wait_writable(sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code)) from None
    else:
        await trio.lowlevel.checkpoint()


async def _addresses(endpoint: Endpoint) -> list[tuple[int, Any]]:
    try:
        return await _resolved(endpoint)
    except OSError as error:
        raise ConnectionLost(f"cannot resolve {endpoint}: {error}") from None


async def _resolved(endpoint: Endpoint) -> list[tuple[int, Any]]:
    """Return the addresses of a name, those of IPv4 first, as Java does."""
    try:
        found = await trio.socket.getaddrinfo(
            endpoint.host, endpoint.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )
    except UnicodeError as error:
        raise OSError(errno.EINVAL, f"no name of a host: {error}") from None
    ordered = sorted(found, key=lambda each: each[0] != socket.AF_INET)
    return [(int(family), address) for family, _, _, _, address in ordered]


def _name(address: Any) -> str:
    host: str = address[0].removeprefix("::ffff:")
    return f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
