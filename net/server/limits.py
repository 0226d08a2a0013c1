"""The bounds of a server. Whatever the others send, it does not go beyond them."""

from __future__ import annotations

import attrs
from attrs.validators import ge


@attrs.frozen(kw_only=True)
class Limits:
    """How much a server takes; the first ones have Kafka's names and defaults, where it has any."""

    max_connections: int = attrs.field(default=10_000, validator=ge(1))
    max_connections_per_ip: int = attrs.field(default=2**31 - 1, validator=ge(1))
    socket_request_max_bytes: int = attrs.field(default=100 * 2**20, validator=ge(1))
    idle_ms: int = attrs.field(default=600_000, validator=ge(1))
    """How long a connection may do nothing, stand still in a message, or not take its answers."""

    queued_max_bytes: int = attrs.field(default=256 * 2**20, validator=ge(1))
    """Bytes of requests whose answers are not sent yet, over the whole server."""

    small_request_bytes: int = attrs.field(default=64 * 2**10, validator=ge(0))
    """A connection with nothing in flight may always have one request of this size.

    Without it, produce requests that wait for followers could fill the queue, and the very fetches
    of these followers would wait behind them.
    """

    max_in_flight: int = attrs.field(default=128, validator=ge(1))
    """Requests of one connection that are not answered yet; the next ones are not read."""

    max_in_flight_bytes: int = attrs.field(default=16 * 2**20, validator=ge(1))
    """Bytes of these requests; with more than this, the next ones are not read.

    A client that never waits for answers is slowed down by this, long before the replicas that it
    writes to would have to refuse it.
    """

    max_output_bytes: int = attrs.field(default=2**20, validator=ge(1))
    """With more than this waiting to be sent on a connection, its requests are not read."""

    starved_ms: int = attrs.field(default=10_000, validator=ge(1))
    """How long a large request may stand still while others wait for the memory it holds."""

    backlog: int = attrs.field(default=128, validator=ge(1))
