"""How the admin client asks: somebody, the controller, or one broker, until the time is over."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Final

import trio

from net.channel import Channel
from net.client.config import ConnectionConfig
from net.client.errors import ClientTimedOut, KafkaError, UnsupportedApi
from net.client.session import Session
from net.client.versions import call
from net.clock import now_ms
from net.errors import NetError
from net.transport.seam import Network
from net.wire.apis import Api
from net.wire.library import Message
from protocol.errors import ErrorCode

_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        13,  # NETWORK_EXCEPTION
        14,  # COORDINATOR_LOAD_IN_PROGRESS
    }
)


class Asking(Session):
    """The admin client without its questions."""

    def __init__(
        self,
        bootstrap: str | Iterable[str],
        *,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        client_id: str = "hwmark-admin",
        network: Network | None = None,
        chance: random.Random | None = None,
    ) -> None:
        config = ConnectionConfig(
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            retry_backoff_ms=retry_backoff_ms,
            auto_create_topics=False,
        )
        super().__init__(bootstrap, config, network, chance)

    async def _ask(
        self,
        api: Api,
        message: Message,
        check: Callable[[Message], None],
        broker_id: int | None = None,
    ) -> Message:
        """Ask until an answer is good; `check` raises `KafkaError` for one that is not.

        Without a broker id the controller is asked, which on new clusters is any broker.
        """
        self._check_open()
        config = self._config
        deadline_ms = now_ms() + config.request_timeout_ms
        failures = 0
        while True:
            left_ms = max(1, deadline_ms - now_ms())
            try:
                channel = await self._channel(broker_id, left_ms)
                answer = await call(channel, api, message, left_ms)
                check(answer)
            except UnsupportedApi:
                raise
            except KafkaError as error:
                if error.code not in _AGAIN:
                    raise
                failure: Exception = error
            except NetError as error:
                failure = error
            else:
                return answer
            failures += 1
            pause_ms = self.cluster.pause_ms(failures)
            if now_ms() + pause_ms >= deadline_ms:
                raise ClientTimedOut(f"{api.name}: {failure}") from failure
            self.cluster.expire()
            await trio.sleep(pause_ms / 1000)

    async def _channel(self, broker_id: int | None, timeout_ms: int) -> Channel:
        info = await self.cluster.known(timeout_ms)
        wanted = info.controller_id if broker_id is None else broker_id
        channel = self.cluster.channel(wanted)
        if channel is not None:
            return channel
        if broker_id is not None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} is not known")
        return self.cluster.any_channel()


def raise_for(answer: Message, about: str = "") -> None:
    """Raise the error of an answer, or of a part of one, if it has one."""
    code = answer.get("error_code", 0)
    if code:
        raise KafkaError(code, answer.get("error_message") or about or None)
