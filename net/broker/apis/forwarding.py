"""What clients ask of a broker and the controller decides: passed on in an Envelope (KIP-590).

The answer comes back as the controller wrote it. If none comes, or the controller asked is not the
active one, the client hears what lets it try again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from net.server.request import Request
from net.wire.apis import Api
from net.wire.headers import request_header, response_body_at
from net.wire.library import Message
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from net.broker.broker import Broker

FORWARDED: Final = (
    Api.CREATE_TOPICS,
    Api.DELETE_TOPICS,
    Api.CREATE_PARTITIONS,
    Api.ALTER_CONFIGS,
    Api.INCREMENTAL_ALTER_CONFIGS,
    Api.ELECT_LEADERS,
    Api.ALTER_PARTITION_REASSIGNMENTS,
    Api.LIST_PARTITION_REASSIGNMENTS,
    Api.UNREGISTER_BROKER,
)
_TRIES: Final = 20
_PAUSE_MS: Final = 250


def forward(request: Request, broker: Broker) -> None:
    """Let the active controller answer; look for it for a while if it is not known or not there."""
    head = request_header(
        request.api_key, request.version, request.correlation_id, request.client_id
    )
    Forwarded(request, broker, head + bytes(request.body)).send()


def ask_quorum(request: Request, broker: Broker) -> None:
    """Let the quorum's leader answer. No Envelope has such a request, so it is asked as it is."""
    broker.link.pass_on(
        request.api_key,
        request.version,
        bytes(request.body),
        lambda view: request.reply((bytes(view),)),
        lambda error: request.close(f"no controller answered: {error}"),
        broker.settings.controller_quorum_request_timeout_ms,
    )


class Forwarded:
    """A request on its way to the controller."""

    def __init__(self, request: Request, broker: Broker, data: bytes) -> None:
        self._request = request
        self._broker = broker
        self._data = data
        self._tries = 0

    def send(self) -> None:
        """Try once."""
        self._tries += 1
        message: Message = {
            "request_data": self._data,
            "request_principal": b"",
            "client_host_address": b"",
        }
        timeout_ms = self._broker.settings.controller_quorum_request_timeout_ms
        self._broker.link.request(
            Api.ENVELOPE, 0, message, self._answered, self._failed, timeout_ms
        )

    def _answered(self, message: Message) -> None:
        if message["error_code"] == ErrorCode.NOT_CONTROLLER:
            self._again("the controller that was asked is not the active one")
        elif message["error_code"] or message["response_data"] is None:
            self._request.close(f"the controller refused it with {message['error_code']}")
        else:
            view = memoryview(message["response_data"])
            at = response_body_at(view, self._request.api_key, self._request.version)[1]
            self._request.reply((bytes(view[at:]),))

    def _failed(self, error: Exception) -> None:
        self._again(str(error))

    def _again(self, reason: str) -> None:
        if self._tries >= _TRIES or self._request.connection.closed:
            self._request.close(f"no controller answered: {reason}")
        else:
            self._broker.later(_PAUSE_MS, self.send)
