"""Listeners and voters as settings write them: `NAME://host:port` and `id@host:port`."""

from __future__ import annotations

import re
from typing import Final

import attrs

from net.transport.seam import Endpoint
from protocol.types import NodeId

MAX_PORT: Final = 65_535
ANY_HOST: Final = ("", "0.0.0.0", "::")
"""Hosts that mean every address of the machine; nobody can connect to them by that name."""

_LISTENER: Final = re.compile(r"([A-Za-z][A-Za-z0-9_.-]*)://(.*)")
_HOST_PORT: Final = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\[\]:@/\s]*)):([0-9]{1,5})")
_VOTER: Final = re.compile(r"([0-9]{1,10})@(.*)")


@attrs.frozen
class Listener:
    """A listener's name, and where it is."""

    name: str
    endpoint: Endpoint

    def __str__(self) -> str:
        return f"{self.name}://{written(self.endpoint)}"


@attrs.frozen
class Voter:
    """A controller of the quorum, and where the others reach it."""

    node: NodeId
    endpoint: Endpoint

    def __str__(self) -> str:
        return f"{self.node}@{written(self.endpoint)}"


def written(endpoint: Endpoint) -> str:
    """Write an endpoint, with brackets where a host has colons of its own."""
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"


def parse_endpoint(text: str) -> Endpoint:
    """Read `host:port`; an IPv6 host is in brackets."""
    match = _HOST_PORT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not of the form host:port")
    port = int(match[3])
    if port > MAX_PORT:
        raise ValueError(f"port {port} of {text!r} is above {MAX_PORT}")
    return Endpoint(match[1] if match[1] is not None else match[2], port)


def parse_listener(text: str) -> Listener:
    """Read `NAME://host:port`. No host means all of the machine's, port 0 any that is free."""
    match = _LISTENER.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not of the form NAME://host:port")
    return Listener(match[1].upper(), parse_endpoint(match[2]))


def parse_voter(text: str) -> Voter:
    """Read `id@host:port`."""
    match = _VOTER.fullmatch(text.strip())
    if match is None or int(match[1]) > 2**31 - 1:
        raise ValueError(f"{text!r} is not of the form id@host:port")
    endpoint = parse_endpoint(match[2])
    if not endpoint.host or not endpoint.port:
        raise ValueError(f"{text!r} needs a host and a port that others can connect to")
    return Voter(int(match[1]), endpoint)
