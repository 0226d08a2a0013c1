"""Metadata records as bytes."""

import json

import pytest
from hypothesis import given

from net.metadata.codec import AnyRecord, BadRecord, FloorRecord, decode_record, encode_record
from protocol.controller.records import BrokerRecord, RemoveTopicRecord
from protocol.controller.state import Floor, Registration
from tests.net.metadata.records import records


@given(records)
def test_what_is_written_reads_the_same(record: AnyRecord) -> None:
    assert decode_record(encode_record(record)) == record


def test_the_floor_reads_the_same() -> None:
    record = FloorRecord(Floor(1, 2, 3))
    assert decode_record(memoryview(encode_record(record))) == record


def test_the_bytes_are_these() -> None:
    # Logs on disks have them: who changes this needs another version.
    broker = Registration(
        3, 7, "i", fenced=False, endpoints=(("PLAINTEXT", "höst", 9092, 0),), rack="r"
    )
    assert encode_record(BrokerRecord(broker)).decode() == (
        '{"broker":{"decommissioning":false,"endpoints":[{"host":"höst","name":"PLAINTEXT",'
        '"port":9092,"securityProtocol":0}],"epoch":7,"fenced":false,"incarnation":"i","node":3,'
        '"rack":"r","shuttingDown":false},"type":"broker","version":0}'
    )
    assert (
        encode_record(RemoveTopicRecord("t")) == b'{"name":"t","type":"remove-topic","version":0}'
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"[]", "no JSON object"),
        (b"{}", "unknown type None"),
        (b'{"type":"frobnicate","version":0}', "unknown type 'frobnicate'"),
        (b'{"type":["topic"],"version":0}', "unknown type"),
        (b'{"type":"remove-topic","version":1,"name":"t"}', "remove-topic record of version 1"),
        (b'{"type":"remove-topic","name":"t"}', "version None"),
        (b'{"type":"remove-topic","version":false,"name":"t"}', "version False"),
        (b'{"type":"remove-topic","version":0}', "remove-topic has no name"),
        (b'{"type":"remove-topic","version":0,"name":1}', "name of remove-topic is 1, no str"),
        (b'{"type":"remove-topic","version":0,"name":"t","x":1}', r"unknown fields: \['x'\]"),
        (b'{"type":"unregister-broker","version":0,"node":true}', "True, no int"),
        (b'{"type":"unregister-broker","version":0,"node":1e3}', "1000.0, no int"),
        (b'{"type":"unregister-broker","version":0,"node":9223372036854775808}', "64 bits"),
        (b'{"type":"broker","version":0,"broker":[]}', "no dict"),
        (b'{"type":"topic","version":0,"name":"t","id":"i","config":{"other":{"a":1}}}', "other"),
    ],
)
def test_what_is_no_record_is_named(content: bytes, reason: str) -> None:
    with pytest.raises(BadRecord, match=reason):
        decode_record(content)


@given(records)
def test_a_field_that_is_missing_or_too_much_is_never_overlooked(record: AnyRecord) -> None:
    fields = json.loads(encode_record(record))
    for name in fields:
        less = {key: value for key, value in fields.items() if key != name}
        with pytest.raises(BadRecord):
            decode_record(json.dumps(less).encode())
    with pytest.raises(BadRecord):
        decode_record(json.dumps({**fields, "another": 1}).encode())
