"""A bounded pool of channels, one for each endpoint."""

from __future__ import annotations

import random
from collections import OrderedDict

import trio

from net.channel.channel import Channel, ChannelConfig
from net.channel.correlations import Correlations
from net.driving import Timers
from net.transport.seam import Endpoint, Network


class Channels:
    """Makes channels when they are asked for, and closes those used least when there are too many.

    Ask for the channel each time: one that was closed here stays closed. Without timers it keeps
    its own, in the nursery, until it is closed.
    """

    def __init__(
        self,
        network: Network,
        nursery: trio.Nursery,
        config: ChannelConfig | None = None,
        *,
        chance: random.Random | None = None,
        timers: Timers | None = None,
        correlations: Correlations | None = None,
    ) -> None:
        self.config = config or ChannelConfig()
        self.correlations = correlations or Correlations()
        self._network = network
        self._nursery = nursery
        self._chance = chance or random.Random()
        self._own = trio.CancelScope()
        if timers is None:
            timers = Timers()
            nursery.start_soon(self._keep_time, timers)
        self._timers = timers
        self._channels: OrderedDict[Endpoint, Channel] = OrderedDict()

    def __len__(self) -> int:
        """Count the channels, connected or not."""
        return len(self._channels)

    def channel_to(self, endpoint: Endpoint) -> Channel:
        """Return the channel to an endpoint."""
        channel = self._channels.get(endpoint)
        if channel is not None:
            self._channels.move_to_end(endpoint)
            return channel
        while len(self._channels) >= self.config.max_channels:
            self.drop(self._least_used())
        channel = Channel(
            self._network,
            self._nursery,
            endpoint,
            self._timers,
            self.config,
            self.correlations,
            self._chance,
        )
        self._channels[endpoint] = channel
        return channel

    def _least_used(self) -> Endpoint:
        idle = (each for each, channel in self._channels.items() if not channel.outstanding)
        return next(idle, next(iter(self._channels)))

    def drop(self, endpoint: Endpoint) -> None:
        """Close the channel to an endpoint that is gone, if there is one."""
        channel = self._channels.pop(endpoint, None)
        if channel is not None:
            channel.close()

    def close(self) -> None:
        """Close all of them."""
        while self._channels:
            self.drop(next(iter(self._channels)))
        self._own.cancel()

    async def _keep_time(self, timers: Timers) -> None:
        with self._own:
            await timers.run()
