"""ApiVersions, which the server answers itself: it is about the connection, not about data."""

from __future__ import annotations

import re
import struct
from typing import Final

from net.errors import MalformedRequest
from net.server.request import Request
from net.wire.api_versions import api_versions_body
from net.wire.apis import Api, Scope, served_on
from net.wire.headers import RequestHeader, parse_request_header
from net.wire.primitives import OUT_OF_BYTES, read_string, skip_tags
from protocol.errors import ErrorCode

_CERTAIN: Final = struct.Struct(">hhi")
_REFUSED: Final = struct.pack(">hBiB", ErrorCode.INVALID_REQUEST, 1, 0, 0)
"""No API keys, no throttling, no tags; the same in every version that has names."""
_FIRST_WITH_NAMES: Final = 3
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)
_LONGEST_NAME: Final = 255


def read_header(message: memoryview, scope: Scope) -> RequestHeader:
    """Read a header; of an ApiVersions request in a version from the future, what is certain."""
    try:
        return parse_request_header(message)
    except MalformedRequest:
        if len(message) < _CERTAIN.size:
            raise
        api_key, version, correlation_id = _CERTAIN.unpack_from(message)
        served = served_on(scope, api_key)
        if api_key != Api.API_VERSIONS or served is None or served.serves(version):
            raise
        return RequestHeader(api_key, version, correlation_id, None, len(message))


def take_api_versions(request: Request, scope: Scope) -> None:
    """Answer, and remember what the client says about itself (KIP-511)."""
    served = served_on(scope, Api.API_VERSIONS)
    version = request.version
    if served is None or not served.serves(version):
        request.reply((api_versions_body(version, scope),))
        return
    if version >= _FIRST_WITH_NAMES:
        name, software_version = _read_software(request.body)
        if not (_is_fine(name) and _is_fine(software_version)):
            request.reply((_REFUSED,))
            return
        request.connection.client_software_name = name
        request.connection.client_software_version = software_version
    request.reply((api_versions_body(version, scope),))


def _read_software(body: memoryview) -> tuple[str, str]:
    # By hand: the library takes half a second to load, and this is the first request of all.
    try:
        name, at = read_string(body, 0, True)
        version, at = read_string(body, at, True)
        skip_tags(body, at)
    except OUT_OF_BYTES:
        raise MalformedRequest(f"an ApiVersions request of {len(body)} bytes ends early") from None
    return name, version


def _is_fine(text: str) -> bool:
    return len(text) <= _LONGEST_NAME and _SOFTWARE.fullmatch(text) is not None
