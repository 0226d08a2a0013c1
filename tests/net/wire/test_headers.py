"""Headers are as kio has them, for every API; what cannot be a header is refused."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from net.errors import MalformedRequest
from net.wire.apis import Api, is_flexible
from net.wire.headers import (
    parse_request_header,
    request_header,
    response_body_at,
    response_header_bytes,
)
from tests.net.wire import oracle

EVERY = [(api, version) for api, version, is_request in oracle.every_message() if is_request]
INT32 = st.integers(-(2**31), 2**31 - 1)


def written(header: Any) -> bytes:
    """Write a header with kio."""
    buffer = io.BytesIO()
    entity_writer(type(header))(buffer, header)
    return buffer.getvalue()


@given(st.sampled_from(EVERY), INT32, st.none() | st.text(max_size=30), st.binary(max_size=5))
def test_a_request_header_is_read_and_written_as_kio_does(
    kind: tuple[Api, int], correlation_id: int, client_id: str | None, body: bytes
) -> None:
    api, version = kind
    schema: Any = oracle.entity_of(api, version, True).__header_schema__
    header = schema(
        request_api_key=int(api),
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    expected = written(header)
    assert request_header(api, version, correlation_id, client_id) == expected
    found = parse_request_header(memoryview(expected + body))
    assert found == (api, version, correlation_id, client_id, len(expected))


@given(st.sampled_from(EVERY), INT32, st.binary(max_size=5))
def test_an_answer_header_is_read_and_written_as_kio_does(
    kind: tuple[Api, int], correlation_id: int, body: bytes
) -> None:
    api, version = kind
    schema: Any = oracle.entity_of(api, version, False).__header_schema__
    expected = written(schema(correlation_id=correlation_id))
    assert response_header_bytes(api, version, correlation_id) == expected
    assert entity_reader(schema)(expected, 0)[0].correlation_id == correlation_id
    found = response_body_at(memoryview(expected + body), api, version)
    assert found == (correlation_id, len(expected))


@pytest.mark.parametrize("version", range(5))
def test_the_header_of_an_api_versions_answer_is_never_flexible(version: int) -> None:
    assert response_header_bytes(Api.API_VERSIONS, version, 7) == b"\x00\x00\x00\x07"
    assert response_body_at(b"\x00\x00\x00\x07\x00", Api.API_VERSIONS, version) == (7, 4)


def test_tagged_fields_of_headers_are_skipped() -> None:
    tags = b"\x02\x05\x03abc\x09\x00"
    request = request_header(Api.METADATA, 12, 7, "me")[:-1] + tags
    assert parse_request_header(request + b"body").end == len(request)
    answer = response_header_bytes(Api.METADATA, 12, 7)[:-1] + tags
    assert response_body_at(answer + b"body", Api.METADATA, 12) == (7, len(answer))


def test_a_version_from_the_future_has_a_header_that_can_be_read() -> None:
    # A newer client asks for a version of ApiVersions that does not exist yet (KIP-511).
    assert is_flexible(Api.API_VERSIONS, 99)
    header = parse_request_header(request_header(Api.API_VERSIONS, 99, 7, "me") + b"body")
    assert (header.version, header.client_id) == (99, "me")


def test_an_unknown_api_has_a_header_that_can_be_logged() -> None:
    header = parse_request_header(b"\x11\x11\x00\x05\x00\x00\x00\x07\x00\x02me\x00")
    assert header[:4] == (0x1111, 5, 7, "me")


@pytest.mark.parametrize(("api", "version"), [(Api.METADATA, 4), (Api.METADATA, 12)])
def test_a_header_that_ends_early_is_refused_wherever_it_ends(api: Api, version: int) -> None:
    request = request_header(api, version, 7, "client")
    for end in range(len(request)):
        with pytest.raises(MalformedRequest):
            parse_request_header(memoryview(request)[:end])
    answer = response_header_bytes(api, version, 7)
    for end in range(len(answer)):
        with pytest.raises(MalformedRequest):
            response_body_at(memoryview(answer)[:end], api, version)


@pytest.mark.parametrize("client_id", [b"\xff\xfe", b"\x00\x02\xc3\x28", b"\x7f\xffabc"])
def test_a_bad_client_id_is_refused(client_id: bytes) -> None:
    with pytest.raises(MalformedRequest):
        parse_request_header(b"\x00\x03\x00\x04\x00\x00\x00\x07" + client_id)
