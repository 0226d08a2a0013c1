"""Which versions of which APIs the other side serves: the first question on a client's connection.

The newest version of the question is tried first. Who does not know it answers in version 0 and
with error 35 (KIP-35); then it is asked again, in the newest version that both know.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from net.errors import MalformedRequest
from net.wire import library
from protocol.errors import ErrorCode

Versions: TypeAlias = dict[int, tuple[int, int]]
"""By API key: the oldest and the newest version."""

API_VERSIONS: Final = 18
NEWEST: Final = 3


def ask_versions(version: int) -> bytes:
    """Return the body of the question."""
    software = {"client_software_name": "hwmark", "client_software_version": "1"}
    return library.encode_request(API_VERSIONS, version, software if version >= 3 else {})


def read_versions(version: int, body: memoryview) -> Versions | int:
    """Return what the answer says; a number if it says to ask again in that version."""
    error = int.from_bytes(body[:2], "big", signed=True)
    if error == ErrorCode.UNSUPPORTED_VERSION and version > 0:
        # Older each time, so that this ends whatever is answered.
        return max(0, min(_newest_question(body), version - 1))
    answer = library.decode_response(API_VERSIONS, version, body)
    if error != ErrorCode.NONE:
        raise MalformedRequest(f"the versions of APIs were answered with error {error}")
    return _ranges(answer)


def _newest_question(body: memoryview) -> int:
    try:
        known = _ranges(library.decode_response(API_VERSIONS, 0, body))
    except MalformedRequest:
        # librdkafka's mock brokers say 35 in a format of their own. Everybody knows version 0.
        return 0
    return known.get(API_VERSIONS, (0, 0))[1]


def _ranges(answer: library.Message) -> Versions:
    return {
        each["api_key"]: (each["min_version"], each["max_version"]) for each in answer["api_keys"]
    }
