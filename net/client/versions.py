"""Which version of an API to speak: the newest that both sides know."""

from __future__ import annotations

from net.channel import Channel
from net.channel.negotiation import Versions
from net.client.errors import UnsupportedApi
from net.wire.apis import VERSIONS, Api
from net.wire.library import Message


def choose(versions: Versions, api: Api, newest: int | None = None) -> int:
    """Return the newest version that both know, and that is not newer than `newest`."""
    ours = VERSIONS[api]
    theirs = versions.get(api)
    if theirs is None:
        raise UnsupportedApi(f"the broker does not serve {api.name}")
    version = min(ours.max, theirs[1], ours.max if newest is None else newest)
    if version < max(ours.serves_from, theirs[0]):
        raise UnsupportedApi(
            f"the broker serves {api.name} in versions {theirs[0]} to {theirs[1]}, and here they"
            f" are {ours.serves_from} to {ours.max}"
        )
    return version


async def call(
    channel: Channel, api: Api, message: Message, timeout_ms: int, newest: int | None = None
) -> Message:
    """Ask in the newest version; what that version does not have is left out of the message."""
    version = choose(await channel.negotiated(timeout_ms), api, newest)
    return await channel.call(api, version, message, timeout_ms)
