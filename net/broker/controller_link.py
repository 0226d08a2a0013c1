"""The way to the active controller, whoever that is now.

Brokers learn from the metadata quorum who leads it. A request goes there once: whoever asked hears
whether it was answered, and decides about asking again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from net.channel.channels import Channels
from net.errors import ConnectionLost, TooManyInFlight
from net.transport.seam import Endpoint
from net.wire import library
from net.wire.library import Message
from protocol.types import Epoch, NodeId

Answered = Callable[[Message], None]
Failed = Callable[[Exception], None]


class KnowsLeader(Protocol):
    """Whoever knows who leads the metadata quorum."""

    @property
    def leader(self) -> tuple[NodeId, Epoch]:
        """Who leads, and in which epoch; -1 if nobody is known to."""


class ControllerLink:
    """Requests to the active controller."""

    def __init__(
        self, channels: Channels, quorum: KnowsLeader, voters: Mapping[NodeId, Endpoint]
    ) -> None:
        self._channels = channels
        self._quorum = quorum
        self._voters = voters

    @property
    def endpoint(self) -> Endpoint | None:
        """Where the active controller is, as far as known."""
        return self._voters.get(self._quorum.leader[0])

    def request(
        self,
        api: int,
        version: int,
        message: Message,
        answered: Answered,
        failed: Failed,
        timeout_ms: int,
    ) -> int:
        """Ask the active controller; return the request's correlation id, 0 if it was not sent."""
        return self.pass_on(
            api,
            version,
            library.encode_request(api, version, message),
            lambda view: answered(library.decode_response(api, version, view)),
            failed,
            timeout_ms,
        )

    def pass_on(
        self,
        api: int,
        version: int,
        body: bytes,
        answered: Callable[[memoryview], None],
        failed: Failed,
        timeout_ms: int,
    ) -> int:
        """Ask the same with a body that is written already, and take the answer's as it is."""
        endpoint = self.endpoint
        if endpoint is None:
            failed(ConnectionLost("no controller is known to be active"))
            return 0
        try:
            channel = self._channels.channel_to(endpoint)
            return channel.request(api, version, [body], answered, failed, timeout_ms)
        except TooManyInFlight as error:
            failed(error)
            return 0
