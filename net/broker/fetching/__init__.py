"""The leader's side of fetches: sessions of followers, and consumers that wait for records.

A replica decides who gets what. Here requests become its events, and its answers become those of
the wire, with records that are read when the answer leaves.
"""

from net.broker.fetching.consumers import ConsumerFetches, ConsumerLimits
from net.broker.fetching.sessions import FollowerSessions

__all__ = ["ConsumerFetches", "ConsumerLimits", "FollowerSessions"]
