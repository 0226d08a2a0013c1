"""ApiVersions is answered by the server, and what is not served ends the connection."""

import struct

import pytest

from net.server import Connection, Request
from net.server.reasons import Reason
from net.wire.apis import Api, Scope, advertised
from net.wire.headers import request_header
from net.wire.library import decode_response, encode_request
from tests.net.server.wire import Client, echo, frame, serving, until

pytestmark = pytest.mark.trio


def asking(version: int, name: str = "a-client", software_version: str = "1.2") -> bytes:
    body = encode_request(
        Api.API_VERSIONS,
        version,
        {"client_software_name": name, "client_software_version": software_version}
        if version >= 3
        else {},
    )
    message = request_header(Api.API_VERSIONS, version, 77, "id") + body
    return struct.pack(">i", len(message)) + message


async def versions(client: Client, version: int) -> dict[int, tuple[int, int]]:
    correlation_id, body = await client.answer()
    assert correlation_id == 77
    answer = decode_response(Api.API_VERSIONS, version, body)
    assert answer["error_code"] == 0
    return {
        each["api_key"]: (each["min_version"], each["max_version"]) for each in answer["api_keys"]
    }


@pytest.mark.parametrize("scope", [Scope.BROKER, Scope.CONTROLLER])
@pytest.mark.parametrize("version", range(5))
async def test_the_answer_tells_what_the_listener_serves(scope: Scope, version: int) -> None:
    async with serving(scope=scope) as running, running.client() as client:
        await client.send(asking(version))
        expected = {key: (each.min, each.max) for key, each in advertised(scope).items()}
        assert await versions(client, version) == expected


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
@pytest.mark.parametrize("rest", [b"", b"\x00", b"\xff" * 30])
async def test_an_unknown_version_is_answered_in_version_0(version: int, rest: bytes) -> None:
    async with serving() as running, running.client() as client:
        await client.send(frame(rest, 77, Api.API_VERSIONS, version))
        correlation_id, body = await client.answer()
        assert correlation_id == 77
        answer = decode_response(Api.API_VERSIONS, 0, body)
        assert answer["error_code"] == 35
        assert [each["api_key"] for each in answer["api_keys"]] == [Api.API_VERSIONS]
        # The connection goes on, with a version that both know.
        await client.send(asking(0))
        assert await versions(client, 0)


async def test_the_software_of_a_client_is_remembered() -> None:
    seen: list[Connection] = []

    def service(request: Request) -> None:
        seen.append(request.connection)
        request.connection.state["times"] = request.connection.state.get("times", 0) + 1
        echo(request)

    async with serving(service) as running, running.client() as client:
        await client.send(asking(3, "librdkafka", "2.16.0"))
        await versions(client, 3)
        await client.ask(b"x")
        await client.ask(b"y")
    assert seen[0] is seen[1]
    assert seen[0].client_software_name == "librdkafka"
    assert seen[0].client_software_version == "2.16.0"
    assert seen[0].state == {"times": 2}
    assert seen[0].listener_name == "PLAIN"
    assert seen[0].peer.startswith("127.0.0.1:")


@pytest.mark.parametrize("name", ["", "-x", "a b", "a\nb", "x" * 300])
async def test_a_name_that_is_none_is_refused_in_the_answer(name: str) -> None:
    async with serving() as running, running.client() as client:
        await client.send(asking(3, name))
        _, body = await client.answer()
        assert decode_response(Api.API_VERSIONS, 3, body)["error_code"] == 42
        assert await client.ask(b"goes on") == b"goes on"


@pytest.mark.parametrize("body", [b"", b"\x05ab"])
async def test_a_malformed_api_versions_request_ends_the_connection(body: bytes) -> None:
    async with serving() as running, running.client() as client:
        await client.send(frame(b"\x00" + body, 1, Api.API_VERSIONS, 3))
        assert await client.ended()
        assert running.server.counters.closed[Reason.MALFORMED] == 1


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(9999, 0), (-1, 0), (Api.VOTE, 0), (Api.METADATA, 99), (Api.METADATA, -1), (Api.PRODUCE, 2)],
)
async def test_what_is_not_served_ends_the_connection(
    api_key: int, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    served: list[Request] = []
    async with serving(served.append) as running, running.client() as client:
        await client.send(frame(bytes(20), 1, api_key, version))
        assert await client.ended()
        await until(lambda: running.server.counters.queued_bytes == 0)
        assert running.server.counters.closed[Reason.UNSUPPORTED] == 1
    assert served == []
    assert f"API {int(api_key)} version {version}" in caplog.text


async def test_requests_are_counted_by_api() -> None:
    async with serving() as running, running.client() as client:
        await client.send(asking(0))
        await versions(client, 0)
        for _ in range(3):
            await client.ask(b"x")
        apis = running.server.counters.apis
        assert apis[Api.METADATA].requests == 3
        assert sum(apis[Api.METADATA].latency) == 3
        assert apis[Api.API_VERSIONS].requests == 1
        assert apis[Api.PRODUCE].requests == 0
