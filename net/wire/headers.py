"""What stands before the body of a request and of an answer.

The client id keeps the old format in every version, and an ApiVersions answer has the old header
in every version, because its reader does not know yet what the other side speaks (KIP-511).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from net.errors import MalformedRequest
from net.wire.apis import Api, is_flexible, is_known
from net.wire.primitives import (
    INT32,
    OUT_OF_BYTES,
    Buffer,
    read_nullable_string,
    skip_tags,
    write_nullable_string,
)

_REQUEST: Final = struct.Struct(">hhi")
_tuple: Final = tuple.__new__


class RequestHeader(NamedTuple):
    """Who asks what; the body begins at `end`."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    end: int


def parse_request_header(view: Buffer) -> RequestHeader:
    """Read the header of a request.

    The format depends on the API. Of one that is unknown here, tagged fields are not stepped over:
    the header can be logged, and nothing else be done with it.
    """
    try:
        api_key, version, correlation_id = _REQUEST.unpack_from(view, 0)
        client_id, end = read_nullable_string(view, _REQUEST.size, False)
        if is_known(api_key) and is_flexible(api_key, version):
            end = end + 1 if view[end] == 0 else skip_tags(view, end)
    except OUT_OF_BYTES:
        raise MalformedRequest(f"a request of {len(view)} bytes ends in its header") from None
    # For every request: a named tuple's own constructor takes three times as long.
    return _tuple(RequestHeader, (api_key, version, correlation_id, client_id, end))


def request_header(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Write the header of a request of an API that is known here."""
    head = _REQUEST.pack(api_key, version, correlation_id)
    name = write_nullable_string(client_id, False)
    return head + name + b"\x00" if is_flexible(api_key, version) else head + name


def response_header_bytes(api_key: int, version: int, correlation_id: int) -> bytes:
    """Write the header of an answer."""
    if is_flexible(api_key, version) and api_key != Api.API_VERSIONS:
        return INT32.pack(correlation_id) + b"\x00"
    return INT32.pack(correlation_id)


def response_body_at(view: Buffer, api_key: int, version: int) -> tuple[int, int]:
    """Read the header of an answer; return its correlation id and where its body begins."""
    try:
        correlation_id: int = INT32.unpack_from(view, 0)[0]
        if is_flexible(api_key, version) and api_key != Api.API_VERSIONS:
            return correlation_id, skip_tags(view, INT32.size)
    except OUT_OF_BYTES:
        raise MalformedRequest(f"an answer of {len(view)} bytes ends in its header") from None
    return correlation_id, INT32.size
