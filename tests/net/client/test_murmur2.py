"""Keys go to the partition that other clients choose for them."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from net.client.murmur2 import murmur2, partition_of

with warnings.catch_warnings():
    # It reads its schemas by a function that Python 3.11 wants to be rid of.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import (  # type: ignore[import-untyped]
        murmur2 as kafka_python_murmur2,
    )


@given(st.binary(max_size=100))
def test_the_hash_is_that_of_another_client(key: bytes) -> None:
    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "hash_"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_that_of_kafkas_own_test(key: bytes, hash_: int) -> None:
    assert murmur2(key) == hash_ & 0xFFFFFFFF


def test_a_view_hashes_like_its_bytes() -> None:
    assert murmur2(memoryview(b"foobar")) == murmur2(b"foobar")
    assert partition_of(b"foobar", 7) == (-790332482 & 0x7FFFFFFF) % 7
