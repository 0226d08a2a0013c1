"""The first answer on a connection: which APIs and versions this listener speaks.

It depends on nothing but the version asked for and the listener, so the bytes are made once. A
version that is unknown here is answered in version 0 with an error and the versions of this one
API, so that the client can ask again (KIP-511). No features are told of.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from typing import Final

from net.wire.apis import Api, Scope, Served, advertised, is_flexible, served_on
from net.wire.primitives import INT16, INT32, write_count

UNSUPPORTED_VERSION: Final = 35
_NO_THROTTLE: Final = INT32.pack(0)
_ENTRY: Final = struct.Struct(">hhh")


def encode_api_versions(version: int, scope: Scope, correlation_id: int) -> bytes:
    """Write a whole answer, with its header and without its length."""
    return INT32.pack(correlation_id) + api_versions_body(version, scope)


def api_versions_body(version: int, scope: Scope) -> bytes:
    """Write the body of an answer to a request of any version, even one that is unknown here."""
    own = served_on(scope, Api.API_VERSIONS)
    if own is None or not own.serves(version):
        # One answer stands for all of them: who asks must not decide how many are kept.
        return _downgrade(scope)
    return _supported(version, scope)


@functools.cache
def _supported(version: int, scope: Scope) -> bytes:
    flexible = is_flexible(Api.API_VERSIONS, version)
    body = INT16.pack(0) + _entries(advertised(scope), flexible)
    if version >= 1:
        body += _NO_THROTTLE
    return body + b"\x00" if flexible else body


@functools.cache
def _downgrade(scope: Scope) -> bytes:
    own = {key: each for key, each in advertised(scope).items() if key == Api.API_VERSIONS}
    return INT16.pack(UNSUPPORTED_VERSION) + _entries(own, False)


def _entries(served: Mapping[int, Served], flexible: bool) -> bytes:
    end = b"\x00" if flexible else b""
    entries = [_ENTRY.pack(key, each.min, each.max) + end for key, each in served.items()]
    return write_count(len(entries), flexible) + b"".join(entries)
