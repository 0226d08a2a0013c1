"""The way to the active controller: one try, and whoever asked hears of it in any case."""

import random

import pytest
import trio

from net.broker.controller_link import ControllerLink
from net.channel import ChannelConfig, Channels
from net.errors import ConnectionLost, TooManyInFlight
from net.server import Request
from net.transport.seam import Endpoint
from net.transport.tcp import TcpNetwork
from net.wire.apis import Api, Scope
from net.wire.library import Message, encode_response
from tests.net.server.wire import Running, serving

HEARTBEAT: Message = {"broker_id": 1, "broker_epoch": 2, "current_metadata_offset": 3}
TIMEOUT_MS = 20_000


class Quorum:
    leader = (7, 1)


def link_to(running: Running, nursery: trio.Nursery, max_in_flight: int = 100) -> ControllerLink:
    config = ChannelConfig("x", negotiate=False, max_in_flight=max_in_flight)
    channels = Channels(TcpNetwork(), nursery, config, chance=random.Random(1))
    return ControllerLink(channels, Quorum(), {7: running.endpoint})


@pytest.mark.trio
async def test_requests_go_to_whoever_leads_and_come_back(nursery: trio.Nursery) -> None:
    def answer(request: Request) -> None:
        told = {"error_code": 0, "is_fenced": True}
        request.reply((encode_response(request.api_key, request.version, told),))

    async with serving(answer, scope=Scope.CONTROLLER) as running:
        link = link_to(running, nursery)
        answers: list[Message] = []
        is_answered = trio.Event()

        def answered(message: Message) -> None:
            answers.append(message)
            is_answered.set()

        failures: list[Exception] = []
        name = link.request(
            Api.BROKER_HEARTBEAT, 1, HEARTBEAT, answered, failures.append, TIMEOUT_MS
        )
        assert name > 0
        with trio.fail_after(TIMEOUT_MS / 1000):
            await is_answered.wait()
        assert answers[0]["is_fenced"]
        assert failures == []


@pytest.mark.trio
async def test_who_cannot_ask_is_told_at_once(nursery: trio.Nursery) -> None:
    async with serving(lambda _request: None) as running:
        link = link_to(running, nursery, max_in_flight=1)
        failures: list[Exception] = []

        def ask() -> int:
            return link.request(
                Api.BROKER_HEARTBEAT, 1, HEARTBEAT, lambda _: None, failures.append, TIMEOUT_MS
            )

        assert ask() > 0
        assert ask() == 0
        assert isinstance(failures.pop(), TooManyInFlight)
        link._quorum.leader = (-1, 2)  # type: ignore[misc]
        assert link.endpoint is None
        assert ask() == 0
        assert isinstance(failures.pop(), ConnectionLost)
        link._voters = {8: Endpoint("h", 1)}
        assert ask() == 0
