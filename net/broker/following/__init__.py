"""The follower's side of replication: fetches on their way to the brokers that lead.

A replica decides what to ask and what to make of an answer. Here its question finds its way into
the fetch session with its leader, and the answer its way back.
"""

from net.broker.following.fetchers import Fetchers
from net.broker.following.seams import FetcherConfig
from net.broker.following.throttle import Throttle

__all__ = ["FetcherConfig", "Fetchers", "Throttle"]
