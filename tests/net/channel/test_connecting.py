"""How channels come to a connection: versions first, pauses after failures, a bounded pool."""

from __future__ import annotations

import struct

import pytest
import trio

from net.channel import ChannelConfig, Channels
from net.channel.correlations import Correlations
from net.errors import ConnectionLost
from net.transport.seam import Endpoint, Listener, Network, Stream
from net.wire import library
from tests.net.channel.peer import API, VERSION, Connection, Outcomes, peer
from tests.net.server.wire import serving

pytestmark = pytest.mark.trio
LONG_MS = 60_000
_UNSUPPORTED = struct.pack(">h", 35)


async def test_versions_are_asked_before_the_first_request_leaves() -> None:
    async with peer(ChannelConfig()) as other:
        outcomes = Outcomes()
        other.channel.request(API, VERSION, [b"body"], *outcomes.of(0), LONG_MS)
        connection = await other.accept()
        api, version, correlation_id, _ = await connection.request()
        assert (api, version) == (18, 3)
        keys = [{"api_key": 3, "min_version": 1, "max_version": 9}]
        await connection.answer(correlation_id, library.encode_response(18, 3, {"api_keys": keys}))
        _, _, correlation_id, body = await connection.request()
        assert body == b"body"
        assert other.channel.versions == {3: (1, 9)}
        await connection.answer(correlation_id, b"")
        await outcomes.count(1)


async def _refuse(connection: Connection, body: bytes) -> int:
    """Answer a question for versions with error 35; return the version that is asked next."""
    _, _, correlation_id, _ = await connection.request()
    await connection.answer(correlation_id, _UNSUPPORTED + body)
    _, version, correlation_id, _ = await connection.request()
    keys = [{"api_key": 3, "min_version": 0, "max_version": 1}]
    answer = library.encode_response(18, version, {"api_keys": keys})
    await connection.answer(correlation_id, answer)
    return version


@pytest.mark.parametrize(
    ("refusal", "then"),
    [
        (struct.pack(">ihhh", 1, 18, 0, 2), 2),
        (struct.pack(">i", 0), 0),
        # librdkafka's mock brokers, byte for byte.
        (b"\x01\x00\x12\x00\x00\x00\x02\x00\x00\x00\x00", 0),
        # Somebody who says 35 and names the version that was asked.
        (struct.pack(">ihhh", 1, 18, 0, 3), 2),
    ],
)
async def test_an_older_question_follows_a_refusal(refusal: bytes, then: int) -> None:
    async with peer(ChannelConfig()) as other:
        async with trio.open_nursery() as nursery:
            asked: list[int] = []

            async def answer() -> None:
                asked.append(await _refuse(await other.accept(), refusal))

            nursery.start_soon(answer)
            assert await other.channel.negotiated(LONG_MS) == {3: (0, 1)}
        assert asked == [then]


async def test_our_own_server_is_understood() -> None:
    async with serving() as running, trio.open_nursery() as nursery:
        channels = Channels(running.server._network, nursery)
        versions = await channels.channel_to(running.endpoint).negotiated(LONG_MS)
        assert versions[0] == (0, 11)
        assert versions[18] == (0, 4)
        channels.close()


class _Nowhere(Network):
    """A network where nobody listens; it notes when somebody tries."""

    def __init__(self) -> None:
        self.tried_s: list[float] = []

    async def connect(self, endpoint: Endpoint) -> Stream:
        self.tried_s.append(trio.current_time())
        raise ConnectionLost(f"{endpoint} is nowhere")

    async def listen(self, endpoint: Endpoint, backlog: int) -> Listener:
        raise OSError(f"{endpoint} with {backlog}")


async def test_pauses_double_up_to_a_second_and_every_request_hears_of_the_failure(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock
    network, outcomes = _Nowhere(), Outcomes()
    async with trio.open_nursery() as nursery:
        channels = Channels(network, nursery)
        channel = channels.channel_to(Endpoint("nowhere", 1))
        for n in range(10):
            channel.request(API, VERSION, [b""], *outcomes.of(n), LONG_MS)
            assert (await outcomes.count(n + 1))[n] == (n, ConnectionLost)
        channels.close()
    pauses_ms = [1000 * (b - a) for a, b in zip(network.tried_s, network.tried_s[1:], strict=False)]
    grown_ms = [min(1000, 50 * 2**n) for n in range(9)]
    for pause_ms, expected_ms in zip(pauses_ms, grown_ms, strict=True):
        assert 0.8 * expected_ms - 2 <= pause_ms <= 1.2 * expected_ms + 2
    # Jitter: somebody else who fails as often does not come back at the same times.
    assert pauses_ms != [float(each) for each in grown_ms]


async def test_a_connection_that_takes_too_long_is_given_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    del autojump_clock

    class _Silence(_Nowhere):
        async def connect(self, endpoint: Endpoint) -> Stream:
            await trio.sleep_forever()
            raise AssertionError(endpoint)

    outcomes = Outcomes()
    async with trio.open_nursery() as nursery:
        channels = Channels(_Silence(), nursery, ChannelConfig(connect_timeout_ms=3000))
        channel = channels.channel_to(Endpoint("silence", 1))
        channel.request(API, VERSION, [b""], *outcomes.of(0), LONG_MS)
        assert await outcomes.count(1) == [(0, ConnectionLost)]
        assert trio.current_time() < 4
        channels.close()


async def test_the_pool_is_bounded_and_closes_the_idle_one_used_least() -> None:
    outcomes = Outcomes()
    async with trio.open_nursery() as nursery:
        config = ChannelConfig(max_channels=2)
        channels = Channels(_Nowhere(), nursery, config)
        one, two, three = (Endpoint("host", port) for port in (1, 2, 3))
        first, second = channels.channel_to(one), channels.channel_to(two)
        first.request(API, VERSION, [b""], *outcomes.of("busy"), LONG_MS)
        channels.channel_to(three)
        assert len(channels) == 2
        # The first was used least, but it has something to do.
        assert channels.channel_to(one) is first
        second.request(API, VERSION, [b""], *outcomes.of("closed"), LONG_MS)
        assert outcomes.seen == [("closed", ConnectionLost)]
        channels.close()
        assert len(channels) == 0


async def test_correlation_ids_stay_in_32_bits() -> None:
    counter = Correlations()
    counter._last = 2**31 - 2
    assert [counter.take() for _ in range(3)] == [2**31 - 1, 1, 2]
