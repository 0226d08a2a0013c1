"""Listeners and connections: requests of the Kafka protocol in, answers out in the same order.

`Server` opens `Listening`s and hands each `Request` to their service. Everything is bounded by
`Limits`, and counted in `ServerCounters`.
"""

from net.server.connection import Connection
from net.server.counters import ApiCounters, ServerCounters
from net.server.limits import Limits
from net.server.listening import Listening
from net.server.request import Request, Service
from net.server.server import Server

__all__ = [
    "ApiCounters",
    "Connection",
    "Limits",
    "Listening",
    "Request",
    "Server",
    "ServerCounters",
    "Service",
]
