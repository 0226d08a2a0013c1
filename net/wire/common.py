"""What Produce and Fetch answers share (KIP-951): who leads now, and where it can be found."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from net.wire.primitives import (
    INT32,
    Buffer,
    malformed,
    read_count,
    read_nullable_string,
    read_string,
    skip_tags,
    write_count,
    write_nullable_string,
)

_ID_AND_EPOCH: Final = struct.Struct(">ii")
_SMALLEST_ENDPOINT: Final = 4 + 1 + 4 + 1 + 1


class CurrentLeader(NamedTuple):
    """Who leads a partition, by the broker that was wrongly asked."""

    leader_id: int = -1
    leader_epoch: int = -1


class NodeEndpoint(NamedTuple):
    """Where a broker can be reached."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def write_current_leader(leader: CurrentLeader) -> bytes:
    """Write the value of the tagged field."""
    return _ID_AND_EPOCH.pack(*leader) + b"\x00"


def read_current_leader(view: Buffer, at: int, end: int) -> CurrentLeader:
    """Read the value of the tagged field."""
    leader = CurrentLeader(*_ID_AND_EPOCH.unpack_from(view, at))
    check_tag_end(skip_tags(view, at + _ID_AND_EPOCH.size), end)
    return leader


def write_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """Write the value of the tagged field."""
    pieces = [write_count(len(endpoints), True)]
    for each in endpoints:
        pieces += (
            INT32.pack(each.node_id),
            write_nullable_string(each.host, True),
            INT32.pack(each.port),
            write_nullable_string(each.rack, True),
            b"\x00",
        )
    return b"".join(pieces)


def read_endpoints(view: Buffer, at: int, end: int) -> list[NodeEndpoint]:
    """Read the value of the tagged field."""
    count, at = read_count(view, at, True, _SMALLEST_ENDPOINT)
    endpoints = []
    for _ in range(count):
        node_id = INT32.unpack_from(view, at)[0]
        host, at = read_string(view, at + 4, True)
        port = INT32.unpack_from(view, at)[0]
        rack, at = read_nullable_string(view, at + 4, True)
        at = skip_tags(view, at)
        endpoints.append(NodeEndpoint(node_id, host, port, rack))
    check_tag_end(at, end)
    return endpoints


def check_tag_end(at: int, end: int) -> None:
    """Refuse a tagged field that is not as long as it claims."""
    if at != end:
        malformed(f"a tagged field ends at byte {at} and claims to end at {end}")
