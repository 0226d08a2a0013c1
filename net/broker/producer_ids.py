"""The producer ids of this broker: taken from its block, which the controller renews."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from net.broker.controller_link import ControllerLink
from net.wire.apis import Api
from net.wire.library import Message
from protocol.errors import ErrorCode
from protocol.idempotence.ids import ProducerIdPool
from protocol.types import BrokerEpoch, NodeId

_TIMEOUT_MS: Final = 5_000
_MAX_WAITING: Final = 1_000

Taken = Callable[[ErrorCode, int], None]


class ProducerIds:
    """Gives ids away. Who finds none waits for the next block, or is told to try again."""

    def __init__(
        self, node: NodeId, link: ControllerLink, broker_epoch: Callable[[], BrokerEpoch]
    ) -> None:
        self._node = node
        self._link = link
        self._broker_epoch = broker_epoch
        self._pool = ProducerIdPool()
        self._waiting: deque[Taken] = deque()

    def take(self, taken: Taken) -> None:
        """Give somebody an id, now or when there is a block."""
        if len(self._waiting) >= _MAX_WAITING:
            taken(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
            return
        self._waiting.append(taken)
        self._serve()

    def _serve(self) -> None:
        while self._waiting:
            self._pool, producer_id = self._pool.take()
            if producer_id is None:
                break
            self._waiting.popleft()(ErrorCode.NONE, producer_id)
        if self._pool.wants_block:
            self._ask()

    def _ask(self) -> None:
        self._pool = self._pool.asking()
        message: Message = {"broker_id": self._node, "broker_epoch": self._broker_epoch()}
        self._link.request(
            Api.ALLOCATE_PRODUCER_IDS, 0, message, self._answered, self._failed, _TIMEOUT_MS
        )

    def _answered(self, message: Message) -> None:
        if message["error_code"]:
            self._failed(None)
            return
        first, count = message["producer_id_start"], message["producer_id_len"]
        self._pool = self._pool.received(first, count)
        self._serve()

    def _failed(self, _error: Exception | None) -> None:
        self._pool = self._pool.refused()
        waiting, self._waiting = self._waiting, deque()
        for taken in waiting:
            # Clients take this one for a reason to try again.
            taken(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
