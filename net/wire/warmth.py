"""Load the codec of what nodes say to each other before they have to.

The library's schemas are loaded when they are first used, which takes tenths of a second. In the
middle of an election that would be a pause of the whole node.
"""

from __future__ import annotations

from typing import Final

from net.wire import library
from net.wire.apis import Api

_BETWEEN_NODES: Final = (
    (Api.VOTE, 2),
    (Api.BEGIN_QUORUM_EPOCH, 1),
    (Api.END_QUORUM_EPOCH, 1),
    (Api.ALTER_PARTITION, 3),
    (Api.BROKER_REGISTRATION, 4),
    (Api.BROKER_HEARTBEAT, 1),
    (Api.ALLOCATE_PRODUCER_IDS, 0),
    (Api.ENVELOPE, 0),
)


def warm_up() -> None:
    """Use each of them once."""
    for api, version in _BETWEEN_NODES:
        library.encode_request(api, version, {})
        library.encode_response(api, version, {})
