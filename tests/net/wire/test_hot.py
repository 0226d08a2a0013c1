"""Produce and Fetch by hand: the same as kio in every version, and without copying a record."""

import tracemalloc
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from net.errors import MalformedRequest
from net.wire import fetch, library, produce
from net.wire.apis import VERSIONS, Api
from net.wire.common import CurrentLeader, NodeEndpoint
from net.wire.fetch import (
    AbortedTransaction,
    DivergingEpoch,
    FetchAnswer,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    SnapshotId,
    encode_fetch,
    encode_fetch_answer,
    parse_fetch,
    parse_fetch_answer,
)
from net.wire.produce import (
    ProduceAnswer,
    ProducedPartition,
    ProduceRequest,
    RecordError,
    encode_produce,
    encode_produce_answer,
    parse_produce,
    parse_produce_answer,
)
from tests.net.wire import hot, oracle


class Codec(NamedTuple):
    """One message in one version: how it is parsed, written again, and told in plain words."""

    api: Api
    version: int
    is_request: bool
    parse: Callable[[int, Any], Any]
    write: Callable[[int, Any], bytes]
    plain: Callable[[Any], oracle.Message]

    @property
    def entity(self) -> Any:
        """The judge's class."""
        return oracle.entity_of(self.api, self.version, self.is_request)

    def sample(self) -> bytes:
        """Write a message with something in every field."""
        return oracle.write(self.entity, oracle.sample(self.entity))


def write_produce(version: int, request: ProduceRequest) -> bytes:
    """Write a request in one piece."""
    return b"".join(encode_produce(version, request))


def write_produce_answer(version: int, answer: ProduceAnswer) -> bytes:
    """Write what was parsed."""
    return encode_produce_answer(version, *answer)


def write_fetch_answer(version: int, answer: FetchAnswer) -> bytes:
    """Write an answer in one piece."""
    return b"".join(encode_fetch_answer(version, answer))


CODECS = [
    *(
        Codec(Api.PRODUCE, version, *rest)
        for version in range(3, 12)
        for rest in (
            (True, parse_produce, write_produce, hot.produce_request),
            (False, parse_produce_answer, write_produce_answer, hot.produce_answer),
        )
    ),
    *(
        Codec(Api.FETCH, version, *rest)
        for version in range(4, 18)
        for rest in (
            (True, parse_fetch, encode_fetch, hot.fetch_request),
            (False, parse_fetch_answer, write_fetch_answer, hot.fetch_answer),
        )
    ),
]
every_codec = pytest.mark.parametrize(
    "codec",
    CODECS,
    ids=lambda each: f"{each.api.name}-{each.version}-{'request' if each.is_request else 'answer'}",
)
GENEROUS = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


def without_null_records(message: oracle.Message) -> oracle.Message:
    """Nothing instead of null in a Fetch answer: to its reader they are the same."""
    for topic in message.get("responses", ()):
        for each in topic.get("partitions", ()):
            each["records"] = each["records"] or b""
    return message


def test_every_version_that_is_served_is_here() -> None:
    for api, module in ((Api.PRODUCE, produce), (Api.FETCH, fetch)):
        served = VERSIONS[api]
        assert (served.serves_from, served.serves_to) == (
            module.FIRST_VERSION,
            module.LAST_VERSION,
        )
        versions = {each.version for each in CODECS if each.api == api}
        assert versions == set(range(served.serves_from, served.serves_to + 1))


@every_codec
@given(data=st.data())
@GENEROUS
def test_what_kio_writes_we_parse_and_write_byte_for_byte(
    codec: Codec, data: st.DataObject
) -> None:
    message = data.draw(oracle.messages(codec.entity))
    parsed = codec.parse(codec.version, memoryview(oracle.write(codec.entity, message)))
    message = without_null_records(message)
    assert hot.only(codec.plain(parsed), message) == message
    written = codec.write(codec.version, parsed)
    assert written == oracle.write(codec.entity, message)
    assert oracle.read(codec.entity, written) == message


@every_codec
def test_every_field_is_parsed_and_written(codec: Codec) -> None:
    message = oracle.sample(codec.entity)
    parsed = codec.parse(codec.version, codec.sample())
    assert hot.only(codec.plain(parsed), message) == message
    assert codec.write(codec.version, parsed) == codec.sample()


FLEXIBLE = [each for each in CODECS if each.version >= {Api.PRODUCE: 9, Api.FETCH: 12}[each.api]]


@pytest.mark.parametrize("codec", FLEXIBLE)
def test_tagged_fields_from_the_future_are_skipped_at_every_depth(codec: Codec) -> None:
    written = oracle.write(oracle.from_the_future(codec.entity), oracle.sample(codec.entity))
    assert written.count(b"from the future") > 3
    assert codec.parse(codec.version, written) == codec.parse(codec.version, codec.sample())


@every_codec
def test_a_message_that_ends_early_is_refused_wherever_it_ends(codec: Codec) -> None:
    written = codec.sample()
    for end in range(len(written)):
        with pytest.raises(MalformedRequest):
            codec.parse(codec.version, memoryview(written)[:end])


@every_codec
def test_bytes_behind_a_message_are_not_looked_at(codec: Codec) -> None:
    longer = codec.parse(codec.version, codec.sample() + b"\x00")
    assert longer == codec.parse(codec.version, codec.sample())


@every_codec
@given(data=st.data())
@GENEROUS
def test_damaged_bytes_mean_the_same_as_by_the_schema_or_are_refused_by_both(
    codec: Codec, data: st.DataObject
) -> None:
    written = bytearray(codec.sample())
    for _ in range(data.draw(st.integers(1, 3))):
        written[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    decode = library.decode_request if codec.is_request else library.decode_response
    try:
        message = decode(codec.api, codec.version, written)
    except MalformedRequest:
        with pytest.raises(MalformedRequest):
            codec.parse(codec.version, memoryview(written))
        return
    message = without_null_records(message)
    parsed = codec.parse(codec.version, memoryview(written))
    assert hot.only(codec.plain(parsed), message) == message


LYING_LENGTHS = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xfe\xff\xff\xff\x07"]


@every_codec
def test_a_length_that_lies_costs_no_memory(codec: Codec) -> None:
    written = codec.sample()
    tracemalloc.start()
    try:
        for lie in LYING_LENGTHS:
            for at in range(len(written)):
                damaged = written[:at] + lie + written[at + len(lie) :]
                try:
                    codec.parse(codec.version, damaged)
                except MalformedRequest:
                    continue
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 300_000


@pytest.mark.parametrize("version", [8, 11])
def test_records_of_a_request_are_views_into_its_buffer(version: int) -> None:
    records = memoryview(b"12345678")
    request = ProduceRequest(None, -1, 1000, [("t", [(0, records), (1, None)])])
    buffer = bytearray(write_produce(version, request))
    parsed = parse_produce(version, memoryview(buffer))
    (_, ((_, found), (_, nothing))) = parsed.topics[0]
    assert nothing is None
    assert found is not None
    buffer[buffer.index(b"1234")] = ord("X")
    assert bytes(found) == b"X2345678"


@pytest.mark.parametrize("version", [8, 11])
def test_records_are_not_copied_into_a_request(version: int) -> None:
    records = memoryview(b"12345678")
    request = ProduceRequest("tx", -1, 1000, [("t", [(0, records)]), ("u", [(1, records)])])
    parts = encode_produce(version, request)
    assert sum(each is records for each in parts) == 2
    assert all(len(each) for each in parts)
    assert parse_produce(version, b"".join(parts)) == request


@pytest.mark.parametrize("version", [11, 16])
def test_records_of_an_answer_stay_the_objects_that_were_given(version: int) -> None:
    class Region:
        """Stands for a piece of a file: nobody may look into it."""

    topic = uuid.UUID(int=5) if version >= 13 else "t"
    first, second, third = Region(), Region(), Region()
    answer = FetchAnswer(
        [
            (
                topic,
                [
                    FetchedPartition(0, records=(first, second), records_bytes=3000),
                    FetchedPartition(1),
                    FetchedPartition(2, records=(third,), records_bytes=70),
                ],
            )
        ]
    )
    parts = encode_fetch_answer(version, answer)
    assert [each for each in parts if isinstance(each, Region)] == [first, second, third]
    sizes = {id(first): 1000, id(second): 2000, id(third): 70}
    whole = b"".join(bytes(sizes[id(x)]) if isinstance(x, Region) else x for x in parts)
    (_, found) = parse_fetch_answer(version, whole).topics[0]
    assert [each.records_bytes for each in found] == [3000, 0, 70]


@pytest.mark.parametrize("version", range(4, 18))
def test_a_fetch_is_written_for_every_version_without_what_it_does_not_have(version: int) -> None:
    topic = uuid.UUID(int=5) if version >= 13 else "t"
    asked = FetchPartition(3, 100, 1 << 20, 7, 6, 50, uuid.UUID(int=9))
    request = FetchRequest(
        *(500, 1, [(topic, [asked])]),
        replica_id=2,
        replica_epoch=77,
        session_id=4,
        session_epoch=5,
        forgotten=[(topic, [1, 2])],
        rack_id="r",
        cluster_id="c",
    )
    entity = oracle.entity_of(Api.FETCH, version, True)
    message = oracle.read(entity, encode_fetch(version, request))
    assert hot.only(hot.fetch_request(request), message) == message


@pytest.mark.parametrize("version", range(4, 18))
def test_a_fetch_answer_is_written_for_every_version(version: int) -> None:
    topic = uuid.UUID(int=5) if version >= 13 else "t"
    fetched = FetchedPartition(
        *(3, 0, 100, 90, 10, [AbortedTransaction(1, 2)], 4),
        *(DivergingEpoch(5, 6), CurrentLeader(7, 8), SnapshotId(9, 10), (b"rec", b"ords"), 7),
    )
    endpoints = [NodeEndpoint(1, "h", 9092, "r")]
    answer = FetchAnswer([(topic, [fetched, FetchedPartition(4, 6)])], 11, 0, 12, endpoints)
    entity = oracle.entity_of(Api.FETCH, version, False)
    message = oracle.read(entity, write_fetch_answer(version, answer))
    assert hot.only(hot.fetch_answer(answer), message) == message


@pytest.mark.parametrize("version", range(3, 12))
def test_a_produce_answer_is_written_for_every_version(version: int) -> None:
    errors = [RecordError(1, "bad"), RecordError(2)]
    produced = ProducedPartition(0, 87, 100, 200, 300, errors, "no", CurrentLeader(4, 5))
    topics = [("t", [produced, ProducedPartition(1)])]
    endpoints = [NodeEndpoint(1, "h", 9092)]
    entity = oracle.entity_of(Api.PRODUCE, version, False)
    message = oracle.read(entity, encode_produce_answer(version, topics, 15, endpoints))
    expected = hot.produce_answer(ProduceAnswer(topics, 15, endpoints))
    assert hot.only(expected, message) == message


@pytest.mark.parametrize("version", [2, 12, -1])
def test_other_produce_versions_are_refused(version: int) -> None:
    for parse in (parse_produce, parse_produce_answer):
        with pytest.raises(MalformedRequest, match=f"Produce version {version}"):
            parse(version, b"")
    with pytest.raises(ValueError, match="not spoken"):
        encode_produce_answer(version, [])
    with pytest.raises(ValueError, match="not spoken"):
        encode_produce(version, ProduceRequest(None, 1, 1, []))


@pytest.mark.parametrize("version", [3, 18, -1])
def test_other_fetch_versions_are_refused(version: int) -> None:
    for parse in (parse_fetch, parse_fetch_answer):
        with pytest.raises(MalformedRequest, match=f"Fetch version {version}"):
            parse(version, b"")
    with pytest.raises(ValueError, match="not spoken"):
        encode_fetch_answer(version, FetchAnswer([]))
    with pytest.raises(ValueError, match="not spoken"):
        encode_fetch(version, FetchRequest(1, 1, []))


def test_a_topic_is_called_as_its_version_does() -> None:
    with pytest.raises(ValueError, match="version 13 does not call a topic 't'"):
        encode_fetch_answer(13, FetchAnswer([("t", [])]))
    with pytest.raises(ValueError, match="version 12 does not call a topic UUID"):
        encode_fetch(12, FetchRequest(1, 1, [(uuid.UUID(int=1), [])]))


def test_tagged_structs_must_be_as_long_as_they_claim() -> None:
    codec = next(each for each in CODECS if each[:3] == (Api.FETCH, 17, True))
    written = codec.sample()
    # The replica's state is the last: tag 1, 13 bytes, of which the last counts its own tags.
    assert written[-15:-13] == b"\x01\x0d"
    longer = written[:-14] + b"\x0e" + written[-13:] + b"\x00"
    with pytest.raises(MalformedRequest, match="claims to end"):
        parse_fetch(17, longer)


def test_an_array_is_refused_before_it_is_read() -> None:
    # Produce 9 with 2^31 topics, of which none is there.
    body = b"\x00\xff\xff\x00\x00\x75\x30\x81\x80\x80\x80\x08" + bytes(40)
    with pytest.raises(MalformedRequest, match="an array of 2147483648 elements in 40 bytes"):
        parse_produce(9, body)


@pytest.mark.parametrize("version", [8, 9])
def test_records_that_are_longer_than_their_message_are_refused(version: int) -> None:
    records = memoryview(b"records")
    request = ProduceRequest(None, 1, 1, [("t", [(0, records)])])
    body = write_produce(version, request)
    length = b"\x00\x00\x00\x07" if version < 9 else b"\x08"
    assert body.count(length + records) == 1
    longer = body.replace(length + records, length[:-1] + b"\x40" + records)
    with pytest.raises(MalformedRequest, match=r"records of 6\d bytes, with \d+ left"):
        parse_produce(version, longer)


@pytest.mark.parametrize("version", [11, 12])
def test_records_that_are_longer_than_their_answer_are_refused(version: int) -> None:
    fetched = FetchedPartition(0, records=(b"records",), records_bytes=7)
    body = write_fetch_answer(version, FetchAnswer([("t", [fetched])]))
    length = b"\x00\x00\x00\x07" if version < 12 else b"\x08"
    assert body.count(length + b"records") == 1
    longer = body.replace(length + b"records", length[:-1] + b"\x40records")
    with pytest.raises(MalformedRequest, match=r"records of 6\d bytes, with \d+ left"):
        parse_fetch_answer(version, longer)
