"""Lines become records, and records lines."""

import json

import pytest

from hwmark.consume import Options, written
from hwmark.produce import split_line
from net.client.consuming.fetched import ConsumerRecord
from spec.runner import JobError

RECORD = ConsumerRecord("t", 1, 2, 3, b"k", b"v", (("h", b"x"), ("n", None)), 0)


def test_a_line_is_a_value_or_a_key_and_a_value() -> None:
    assert split_line(b"a:b\n", None) == (None, b"a:b")
    assert split_line(b"a:b:c\r\n", ":") == (b"a", b"b:c")
    assert split_line(b"\n", None) == (None, b"")
    with pytest.raises(JobError, match="a line without ':'"):
        split_line(b"ab\n", ":")


def test_a_record_is_a_line() -> None:
    assert written(RECORD, Options("t", "b")) == b"v\n"
    assert written(RECORD, Options("t", "b", keys=True)) == b"k\tv\n"
    assert written(RECORD._replace(value=None), Options("t", "b")) == b"\n"


def test_a_record_is_a_json_object_whatever_its_bytes_are() -> None:
    options = Options("t", "b", json=True)
    assert json.loads(written(RECORD, options)) == {
        "topic": "t",
        "partition": 1,
        "offset": 2,
        "timestamp_ms": 3,
        "key": "k",
        "value": "v",
        "headers": [["h", "x"], ["n", None]],
    }
    found = json.loads(written(RECORD._replace(key=None, value=b"\xff\n"), options))
    assert found["key"] is None
    assert found["value_base64"] == "/wo="
