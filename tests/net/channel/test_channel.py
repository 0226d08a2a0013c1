"""A channel pipelines, matches answers with requests, and tells each request's end once."""

from __future__ import annotations

import pytest
import trio

from net.channel import ChannelConfig
from net.errors import ConnectionLost, MalformedRequest, RequestTimedOut, TooManyInFlight
from tests.net.channel.peer import API, VERSION, Outcomes, peer

LONG_MS = 60_000


@pytest.mark.trio
async def test_requests_are_pipelined_and_answers_come_in_order() -> None:
    async with peer() as other:
        outcomes = Outcomes()
        for n in range(5):
            other.channel.request(API, VERSION, [b"ask", b"%d" % n], *outcomes.of(n), LONG_MS)
        connection = await other.accept()
        asked = [await connection.request() for _ in range(5)]
        assert [body for *_, body in asked] == [b"ask%d" % n for n in range(5)]
        assert other.channel.outstanding == 5
        for n, (_, _, correlation_id, _) in enumerate(asked):
            await connection.answer(correlation_id, b"answer%d" % n)
        assert await outcomes.count(5) == [(n, b"answer%d" % n) for n in range(5)]
        assert other.channel.outstanding == 0


@pytest.mark.trio
async def test_an_answer_with_another_correlation_id_ends_the_connection() -> None:
    async with peer() as other:
        outcomes = Outcomes()
        for n in range(3):
            other.channel.request(API, VERSION, [b""], *outcomes.of(n), LONG_MS)
        connection = await other.accept()
        asked = [await connection.request() for _ in range(3)]
        await connection.answer(asked[1][2], b"")
        assert sorted(await outcomes.count(3), key=str) == [
            (0, MalformedRequest),
            (1, ConnectionLost),
            (2, ConnectionLost),
        ]
        assert await connection.ended()


@pytest.mark.trio
async def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    async with peer() as other:
        outcomes = Outcomes()
        other.channel.request(API, VERSION, [b""], *outcomes.of(0), LONG_MS)
        connection = await other.accept()
        (_, _, correlation_id, _) = await connection.request()
        await connection.answer(correlation_id, b"good")
        await outcomes.count(1)
        await connection.answer(correlation_id, b"again")
        assert await connection.ended()
        assert outcomes.seen == [(0, b"good")]


@pytest.mark.trio
async def test_all_in_flight_fail_with_the_connection_and_the_next_request_makes_another() -> None:
    async with peer() as other:
        outcomes = Outcomes()
        for n in range(3):
            other.channel.request(API, VERSION, [b""], *outcomes.of(n), LONG_MS)
        connection = await other.accept()
        await connection.request()
        connection.stream.close()
        assert await outcomes.count(3) == [(n, ConnectionLost) for n in range(3)]
        other.channel.request(API, VERSION, [b"again"], *outcomes.of("next"), LONG_MS)
        connection = await other.accept()
        (_, _, correlation_id, body) = await connection.request()
        assert body == b"again"
        await connection.answer(correlation_id, b"here")
        assert (await outcomes.count(4))[-1] == ("next", b"here")


@pytest.mark.trio
async def test_a_request_whose_time_is_over_takes_its_connection_with_it() -> None:
    async with peer() as other:
        outcomes = Outcomes()
        other.channel.request(API, VERSION, [b""], *outcomes.of("patient"), LONG_MS)
        other.channel.request(API, VERSION, [b""], *outcomes.of("hasty"), 50)
        connection = await other.accept()
        assert sorted(await outcomes.count(2)) == [
            ("hasty", RequestTimedOut),
            ("patient", ConnectionLost),
        ]
        assert await connection.ended()


@pytest.mark.trio
async def test_a_request_that_waits_for_a_connection_has_a_time_too() -> None:
    # The peer accepts by its backlog and never answers the question for versions.
    async with peer(ChannelConfig(connect_timeout_ms=LONG_MS)) as other:
        outcomes = Outcomes()
        other.channel.request(API, VERSION, [b""], *outcomes.of(0), 50)
        assert await outcomes.count(1) == [(0, RequestTimedOut)]


@pytest.mark.trio
async def test_too_many_in_flight_are_refused_at_once() -> None:
    config = ChannelConfig(negotiate=False, max_in_flight=2)
    async with peer(config) as other:
        outcomes = Outcomes()
        other.channel.request(API, VERSION, [b""], *outcomes.of(0), LONG_MS)
        other.channel.request(API, VERSION, [b""], *outcomes.of(1), LONG_MS)
        with pytest.raises(TooManyInFlight):
            other.channel.request(API, VERSION, [b""], *outcomes.of(2), LONG_MS)
        connection = await other.accept()
        (_, _, correlation_id, _) = await connection.request()
        await connection.answer(correlation_id, b"")
        await outcomes.count(1)
        other.channel.request(API, VERSION, [b""], *outcomes.of(3), LONG_MS)
        assert outcomes.seen == [(0, b"")]


@pytest.mark.trio
async def test_a_request_without_an_answer_is_done_when_it_has_left_and_keeps_its_place() -> None:
    async with peer() as other:
        outcomes = Outcomes()
        large = bytes(8 * 1024 * 1024)
        other.channel.request(
            API, VERSION, [large], *outcomes.of("silent"), LONG_MS, expects_answer=False
        )
        other.channel.request(API, VERSION, [b"asks"], *outcomes.of("asks"), LONG_MS)
        connection = await other.accept()
        await trio.testing.wait_all_tasks_blocked()
        assert outcomes.seen == []
        (*_, first) = await connection.request()
        assert first == large
        assert await outcomes.count(1) == [("silent", b"")]
        (_, _, correlation_id, second) = await connection.request()
        assert second == b"asks"
        await connection.answer(correlation_id, b"yes")
        assert (await outcomes.count(2))[1] == ("asks", b"yes")


@pytest.mark.trio
async def test_an_answer_that_cannot_be_decoded_fails_its_request_and_the_connection() -> None:
    async with peer() as other:
        connection = None

        async def answer() -> None:
            nonlocal connection
            connection = await other.accept()
            (_, _, correlation_id, _) = await connection.request()
            await connection.answer(correlation_id, b"\xff\xff")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            with pytest.raises(MalformedRequest):
                await other.channel.call(API, VERSION, {"topics": []}, LONG_MS)
        assert connection is not None
        assert await connection.ended()


@pytest.mark.trio
async def test_a_closed_channel_fails_what_is_under_way_and_what_comes() -> None:
    async with peer() as other:
        outcomes = Outcomes()
        channel = other.channel
        channel.request(API, VERSION, [b""], *outcomes.of("early"), LONG_MS)
        connection = await other.accept()
        await connection.request()
        channel.close()
        assert outcomes.seen == [("early", ConnectionLost)]
        channel.request(API, VERSION, [b""], *outcomes.of("late"), LONG_MS)
        assert outcomes.seen[-1] == ("late", ConnectionLost)
        assert await connection.ended()


@pytest.mark.trio
async def test_an_idle_connection_is_closed_and_made_again_when_it_is_needed() -> None:
    config = ChannelConfig(negotiate=False, idle_ms=50)
    async with peer(config) as other:
        outcomes = Outcomes()
        for n in range(2):
            other.channel.request(API, VERSION, [b""], *outcomes.of(n), LONG_MS)
            connection = await other.accept()
            (_, _, correlation_id, _) = await connection.request()
            await connection.answer(correlation_id, b"%d" % n)
            await outcomes.count(n + 1)
            assert await connection.ended()
            assert not other.channel.connected
        assert outcomes.seen == [(0, b"0"), (1, b"1")]


@pytest.mark.trio
async def test_correlation_ids_are_unique_over_all_channels() -> None:
    async with peer() as one:
        two = one.channels.channel_to(one.endpoint.__class__("127.0.0.1", 1))
        outcomes = Outcomes()
        ids = [
            channel.request(API, VERSION, [b""], *outcomes.of(0), LONG_MS)
            for channel in (one.channel, two, one.channel, two)
        ]
        assert len(set(ids)) == 4
