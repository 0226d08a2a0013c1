"""What producers, consumers and admin clients have in common."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from net.errors import BadSetting
from net.transport.seam import Endpoint


@attrs.frozen
class ConnectionConfig:
    """How a client reaches its cluster."""

    client_id: str = "hwmark"
    request_timeout_ms: int = 30_000
    metadata_max_age_ms: int = 300_000
    retry_backoff_ms: int = 100
    max_backoff_ms: int = 1_000
    max_topics: int = 10_000
    """How many topics a client may want to know of."""
    auto_create_topics: bool = True
    """Let the broker create a topic that is asked for, if it is willing."""


def parse_bootstrap(servers: str | Iterable[str]) -> tuple[Endpoint, ...]:
    """Read `host:port`, several of them with commas between or as a list; `[...]` around IPv6."""
    names = servers.split(",") if isinstance(servers, str) else servers
    endpoints = tuple(_parse_endpoint(name.strip()) for name in names)
    if not endpoints:
        raise BadSetting("bootstrap servers: there is none")
    return endpoints


def _parse_endpoint(name: str) -> Endpoint:
    host, colon, port = name.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 0xFFFF:
        raise BadSetting(f"bootstrap servers: {name!r} is not host:port")
    return Endpoint(host.removeprefix("[").removesuffix("]"), int(port))
