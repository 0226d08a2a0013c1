"""The APIs of the active controller, by family: request -> commands -> answer.

`HANDLERS` is for a controller's listener. A request that is no message raises `MalformedRequest`,
and its connection is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from net.controller.apis import brokers, cluster, configs, partitions, topics
from net.controller.apis.envelope import make_envelope
from net.controller.apis.exchange import Exchange, Handling, Table, run
from net.controller.node import ControllerNode
from net.wire.apis import Api
from net.wire.library import Message, decode_request, encode_response

__all__ = ["HANDLERS", "Asked", "handler"]

_TABLE: Final[Table] = {
    **topics.TABLE,
    **configs.TABLE,
    **partitions.TABLE,
    **brokers.TABLE,
    **cluster.TABLE,
}


class Asked(Protocol):
    """What a handler needs of `net.server.request.Request`."""

    @property
    def version(self) -> int:
        """The version of the API."""

    @property
    def correlation_id(self) -> int:
        """What the sender calls this request."""

    @property
    def body(self) -> memoryview:
        """What follows the header; nothing of it is kept."""

    def reply(self, parts: Sequence[bytes]) -> None:
        """Answer."""


def handler(api: Api, handling: Handling) -> Callable[[Asked, ControllerNode], None]:
    """Return what a listener calls for an API."""

    def handle(request: Asked, node: ControllerNode) -> None:
        version = request.version

        def respond(answer: Message) -> None:
            request.reply((encode_response(api, version, answer),))

        message = decode_request(api, version, request.body)
        run(handling, Exchange(node, api, version, request.correlation_id, message, respond))

    return handle


HANDLERS: Final[dict[Api, Callable[[Asked, ControllerNode], None]]] = {
    api: handler(api, handling)
    for api, handling in {**_TABLE, Api.ENVELOPE: make_envelope(_TABLE)}.items()
}
