"""The asking side of a connection: pipelined requests to one endpoint, and a pool of such channels.

It carries bytes and matches answers with requests. What they mean, and whether to ask again, is
for those who use it: a client, a follower, a broker that asks its controller.
"""

from net.channel.channel import Channel, ChannelConfig
from net.channel.channels import Channels
from net.channel.correlations import Correlations

__all__ = ["Channel", "ChannelConfig", "Channels", "Correlations"]
