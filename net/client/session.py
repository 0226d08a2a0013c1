"""The frame that producers, consumers and admin clients live in: a nursery, timers, a cluster.

Each is used by `async with`. Its tasks end with the block, and an error in the block comes out as
it is, not wrapped in a group.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from types import TracebackType
from typing import TypeVar

import trio

from net.client.cluster import Cluster
from net.client.config import ConnectionConfig, parse_bootstrap
from net.client.errors import ClientError
from net.driving import Timers
from net.transport.seam import Network
from net.transport.tcp import TcpNetwork

S = TypeVar("S", bound="Session")


class Session:
    """What is open while the block runs."""

    cluster: Cluster
    nursery: trio.Nursery

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        config: ConnectionConfig,
        network: Network | None,
        chance: random.Random | None,
    ) -> None:
        self._bootstrap = parse_bootstrap(bootstrap)
        self._config = config
        self._network = network or TcpNetwork()
        self._chance = chance or random.Random()
        self.timers = Timers()
        self._is_open = False

    def _check_open(self) -> None:
        if not self._is_open:
            raise ClientError("it is used outside of its block")

    async def __aenter__(self: S) -> S:
        self._manager = trio.open_nursery()
        self.nursery = await self._manager.__aenter__()
        self.cluster = Cluster(
            self._bootstrap,
            self._network,
            self.nursery,
            self._config,
            self.timers,
            self._chance,
            self._topology_changed,
        )
        self.nursery.start_soon(self.timers.run)
        self.nursery.start_soon(self.cluster.run)
        self._start()
        self._is_open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        cancelled = isinstance(error, trio.Cancelled | BaseExceptionGroup)
        try:
            if error is None:
                await self._finish()
        finally:
            self._is_open = False
            self._stop()
            self.cluster.close()
            self.nursery.cancel_scope.cancel()
            # What the block raised is its own; only a cancellation may be this nursery's doing.
            if not cancelled:
                kind = error = traceback = None
            swallowed = await self._manager.__aexit__(kind, error, traceback)
        return bool(swallowed) and cancelled

    def _start(self) -> None:
        """Begin what runs beside the block."""

    async def _finish(self) -> None:
        """Complete what was begun, when the block ended well."""

    def _stop(self) -> None:
        """Give up what is left."""

    def _topology_changed(self) -> None:
        """Hear that the cluster's picture is fresh."""
