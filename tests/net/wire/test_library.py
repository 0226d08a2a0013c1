"""Every message that is spoken here is read and written as kio does it, and nothing else is read.

kio is the judge of every version in both directions. What it cannot judge (tagged fields from the
future, lengths that lie, bytes that end) is built from what it writes.
"""

import subprocess
import sys
import tracemalloc
import uuid

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from net.errors import MalformedRequest
from net.wire import library
from net.wire.apis import Api, is_flexible
from net.wire.fetch import parse_fetch
from net.wire.primitives import MOST_DECODED_BYTES
from tests.net.wire import oracle

EVERY = list(oracle.every_message())
FLEXIBLE = [each for each in EVERY if is_flexible(each[0], each[1])]
NAMES = [f"{api.name}-{version}-{'request' if q else 'answer'}" for api, version, q in EVERY]
FLEXIBLE_NAMES = [name for name, each in zip(NAMES, EVERY, strict=True) if each in FLEXIBLE]
every_message = pytest.mark.parametrize(("api", "version", "is_request"), EVERY, ids=NAMES)
every_flexible = pytest.mark.parametrize(
    ("api", "version", "is_request"), FLEXIBLE, ids=FLEXIBLE_NAMES
)


def decode(api: Api, version: int, is_request: bool, data: bytes) -> library.Message:
    """Read a body."""
    read = library.decode_request if is_request else library.decode_response
    return read(api, version, memoryview(bytearray(data)))


def encode(api: Api, version: int, is_request: bool, message: library.Message) -> bytes:
    """Write a body."""
    write = library.encode_request if is_request else library.encode_response
    return write(api, version, message)


@every_message
@given(data=st.data())
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_kio_and_we_read_and_write_the_same(
    api: Api, version: int, is_request: bool, data: st.DataObject
) -> None:
    entity = oracle.entity_of(api, version, is_request)
    message = data.draw(oracle.messages(entity))
    written = oracle.write(entity, message)
    assert decode(api, version, is_request, written) == message
    assert encode(api, version, is_request, message) == written


@every_message
def test_every_field_is_read_and_written(api: Api, version: int, is_request: bool) -> None:
    entity = oracle.entity_of(api, version, is_request)
    message = oracle.sample(entity)
    written = encode(api, version, is_request, message)
    assert oracle.read(entity, written) == message
    assert decode(api, version, is_request, written) == message


@every_flexible
def test_tagged_fields_from_the_future_are_skipped_at_every_depth(
    api: Api, version: int, is_request: bool
) -> None:
    entity = oracle.entity_of(api, version, is_request)
    message = oracle.sample(entity)
    written = oracle.write(oracle.from_the_future(entity), message)
    assert written.count(b"from the future") >= 1
    assert decode(api, version, is_request, written) == message


def test_the_future_reaches_the_depths() -> None:
    # The test above would be empty if its tool changed only the top.
    entity = oracle.entity_of(Api.METADATA, 12, False)
    written = oracle.write(oracle.from_the_future(entity), oracle.sample(entity))
    brokers, topics, partitions, top = 2, 2, 4, 1
    assert written.count(b"from the future") == brokers + topics + partitions + top
    with pytest.raises(KeyError):
        oracle.read(entity, written)


@every_message
def test_a_message_that_ends_early_is_refused_wherever_it_ends(
    api: Api, version: int, is_request: bool
) -> None:
    entity = oracle.entity_of(api, version, is_request)
    written = oracle.write(entity, oracle.sample(entity))
    for end in range(len(written)):
        with pytest.raises(MalformedRequest):
            decode(api, version, is_request, written[:end])


@every_message
def test_bytes_behind_a_message_are_not_looked_at(api: Api, version: int, is_request: bool) -> None:
    entity = oracle.entity_of(api, version, is_request)
    written = oracle.write(entity, oracle.sample(entity))
    longer = decode(api, version, is_request, written + b"\x00")
    assert longer == decode(api, version, is_request, written)


@every_message
@given(data=st.data())
@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
def test_damaged_bytes_are_read_or_refused_and_nothing_else(
    api: Api, version: int, is_request: bool, data: st.DataObject
) -> None:
    entity = oracle.entity_of(api, version, is_request)
    written = bytearray(oracle.write(entity, oracle.sample(entity)))
    for _ in range(data.draw(st.integers(1, 3))):
        if written:
            at = data.draw(st.integers(0, len(written) - 1))
            written[at] = data.draw(st.integers(0, 255))
    try:
        message = decode(api, version, is_request, bytes(written))
    except MalformedRequest:
        return
    again = encode(api, version, is_request, message)
    assert repr(decode(api, version, is_request, again)) == repr(message)


LYING_LENGTHS = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x07"]


@every_message
def test_a_length_that_lies_costs_no_memory(api: Api, version: int, is_request: bool) -> None:
    entity = oracle.entity_of(api, version, is_request)
    written = oracle.write(entity, oracle.sample(entity))
    decode(api, version, is_request, written)
    tracemalloc.start()
    try:
        for lie in LYING_LENGTHS:
            for at in range(len(written)):
                damaged = written[:at] + lie + written[at + len(lie) :]
                try:
                    decode(api, version, is_request, damaged)
                except MalformedRequest:
                    continue
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 300_000


def test_an_array_is_refused_before_it_is_read() -> None:
    # Metadata 12 for 2^31 topics, of which two are there.
    body = b"\x81\x80\x80\x80\x08" + bytes(40)
    with pytest.raises(MalformedRequest, match="topics: 2147483648 elements in 40 bytes"):
        library.decode_request(Api.METADATA, 12, memoryview(body))


def test_a_request_whose_elements_could_fill_the_memory_is_refused_unread() -> None:
    # As many topics without a name as two bytes each allow.
    fitting = (MOST_DECODED_BYTES - 5) // 2
    body = fitting.to_bytes(4, "big") + bytes(2 * fitting + 1)
    found = library.decode_request(Api.METADATA, 4, memoryview(body))
    assert len(found["topics"]) == fitting
    tracemalloc.start()
    try:
        with pytest.raises(MalformedRequest, match="at most 4194304 are taken apart"):
            library.decode_request(Api.METADATA, 4, memoryview(body + bytes(2)))
        with pytest.raises(MalformedRequest, match="at most 4194304 are taken apart"):
            parse_fetch(12, memoryview(body + bytes(2)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The body itself, made longer, and nothing of what it says.
    assert peak < 2 * MOST_DECODED_BYTES


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\xff\xff\xff\xfe\x00", "a length of -2"),
        (b"\xff\xff\xff\xff\x00", None),
        (b"\x00\x00\x00\x01\xff\xff\x00", "name must not be null"),
        (b"\x00\x00\x00\x01\xff\xfe\x00", "a length of -2"),
        (b"\x00\x00\x00\x01\x00\x02\xc3\x28\x00", "not UTF-8"),
        (b"\x00\x00\x00\x01\x00\x09abc\x00", "a string of 9 bytes, with 4 left"),
    ],
)
def test_a_bad_length_or_string_is_refused_with_its_reason(body: bytes, reason: str | None) -> None:
    if reason is None:
        message = library.decode_request(Api.METADATA, 4, memoryview(body))
        assert message == {"topics": None, "allow_auto_topic_creation": False}
        return
    with pytest.raises(MalformedRequest, match=reason):
        library.decode_request(Api.METADATA, 4, memoryview(body))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\x80\x80\x80\x80\x80\x00", "more than 32 bits"),
        (b"\xff\xff\xff\xff\x1f", "more than 32 bits"),
        (b"\x0bab", "a string of 10 bytes, with 2 left"),
        (b"\x01\x01\x01\x63\x7f", "tagged field 99 is longer than the message"),
    ],
)
def test_a_bad_varint_or_tag_is_refused_with_its_reason(body: bytes, reason: str) -> None:
    with pytest.raises(MalformedRequest, match=reason):
        library.decode_request(Api.API_VERSIONS, 3, memoryview(body))


def test_a_tagged_field_must_be_as_long_as_it_claims() -> None:
    entity = oracle.entity_of(Api.FETCH, 12, True)
    message = oracle.sample(entity) | {"cluster_id": "abc"}
    written = oracle.write(entity, message)
    assert written.endswith(b"\x01\x00\x04\x04abc")
    assert decode(Api.FETCH, 12, True, written)["cluster_id"] == "abc"
    longer = written[:-7] + b"\x01\x00\x05\x04abc\x00"
    with pytest.raises(MalformedRequest, match="cluster_id has 4 bytes and claims 5"):
        decode(Api.FETCH, 12, True, longer)


def test_what_the_version_does_not_have_is_dropped_and_absent() -> None:
    message = {"topics": [], "allow_auto_topic_creation": True}
    written = library.encode_request(Api.METADATA, 1, message)
    assert library.decode_request(Api.METADATA, 1, memoryview(written)) == {"topics": []}


def test_a_key_that_no_version_has_is_a_mistake_at_every_depth() -> None:
    with pytest.raises(TypeError, match="has no topcis in any version"):
        library.encode_request(Api.METADATA, 1, {"topcis": []})
    with pytest.raises(TypeError, match=r"topics has no nmae in any version"):
        library.encode_request(Api.METADATA, 12, {"topics": [{"nmae": "x"}]})
    # What belongs to the top does not belong below it.
    with pytest.raises(TypeError, match="allow_auto_topic_creation"):
        library.encode_request(Api.METADATA, 1, {"topics": [{"allow_auto_topic_creation": True}]})


def test_what_is_not_given_gets_its_default_or_a_zero() -> None:
    written = library.encode_request(Api.CREATE_TOPICS, 7, {"topics": [{"name": "t"}]})
    assert library.decode_request(Api.CREATE_TOPICS, 7, memoryview(written)) == {
        "topics": [
            {
                "name": "t",
                "num_partitions": 0,
                "replication_factor": 0,
                "assignments": [],
                "configs": [],
            }
        ],
        "timeout": 60000,
        "validate_only": False,
    }
    written = library.encode_response(Api.METADATA, 12, {"topics": [{}]})
    (topic,) = library.decode_response(Api.METADATA, 12, memoryview(written))["topics"]
    assert topic["topic_id"] == uuid.UUID(int=0)
    assert topic["name"] == ""
    assert topic["topic_authorized_operations"] == -(2**31)


def test_a_tagged_field_that_was_not_sent_has_its_default_anew_each_time() -> None:
    written = library.encode_request(Api.FETCH, 17, {})
    first = library.decode_request(Api.FETCH, 17, memoryview(written))
    assert first["replica_state"] == {"replica_id": -1, "replica_epoch": -1}
    first["replica_state"]["replica_id"] = 5
    second = library.decode_request(Api.FETCH, 17, memoryview(written))
    assert second["replica_state"] == {"replica_id": -1, "replica_epoch": -1}


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"timeout": 2**31}, "timeout, validate_only: .* do not fit"),
        ({"topics": None}, "topics must not be null"),
        ({"topics": [{"name": None}]}, "name must not be null"),
        ({"topics": ["t"]}, "topics: str is no message"),
        ({"topics": [{"assignments": [{"broker_ids": [2**40]}]}]}, "broker_ids: .* not fit"),
    ],
)
def test_a_value_that_does_not_fit_is_named(message: library.Message, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        library.encode_request(Api.CREATE_TOPICS, 7, message)


def test_a_string_that_is_too_long_for_the_old_format_is_refused() -> None:
    message = {"topics": [{"name": "x" * 40_000}]}
    assert len(library.encode_request(Api.METADATA, 12, message)) > 40_000
    with pytest.raises(ValueError, match="40000 bytes is too long"):
        library.encode_request(Api.METADATA, 4, message)


def test_nothing_of_the_buffer_is_kept() -> None:
    entity = oracle.entity_of(Api.ENVELOPE, 0, True)
    buffer = bytearray(oracle.write(entity, oracle.sample(entity)))
    message = library.decode_request(Api.ENVELOPE, 0, memoryview(buffer))
    buffer[:] = bytes(len(buffer))
    assert message == oracle.sample(entity)
    buffer.clear()


def test_an_unknown_message_is_refused() -> None:
    with pytest.raises(MalformedRequest, match="request of API 3 version 99 is unknown"):
        library.decode_request(Api.METADATA, 99, memoryview(b""))
    with pytest.raises(MalformedRequest, match="request of API 5000 version 0 is unknown"):
        library.decode_request(5000, 0, memoryview(b""))
    with pytest.raises(LookupError):
        library.encode_request(Api.METADATA, 99, {})


def test_kio_is_loaded_by_the_first_message_and_not_before() -> None:
    source = (
        "import sys\n"
        "from net.wire import apis, api_versions, fetch, headers, library, produce\n"
        "print('kio' in sys.modules)\n"
        "library.encode_request(3, 12, {})\n"
        "print('kio.schema.metadata.v12.request' in sys.modules)\n"
        "print('kio.schema.metadata.v11' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "True", "False"]


@pytest.mark.parametrize("version", [4, 9])
def test_memory_grows_with_the_bytes_and_no_faster(version: int) -> None:
    # The most that can be made of the fewest bytes: topics without names, in Metadata.
    count = 20_000
    if version < 9:
        body = b"\x00\x00\x4e\x20" + b"\x00\x00" * count + b"\x00"
    else:
        body = b"\xa1\x9c\x01" + b"\x01\x00" * count + b"\x00\x00\x00\x00"
    library.decode_request(Api.METADATA, version, library.encode_request(Api.METADATA, version, {}))
    tracemalloc.start()
    try:
        message = library.decode_request(Api.METADATA, version, memoryview(body))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(message["topics"]) == count
    assert peak < 150 * len(body)
