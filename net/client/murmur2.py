"""Kafka's hash of keys, so that records of a key go to the same partition from every client."""

from __future__ import annotations

from typing import Final

from net.transport.seam import Buffer

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_R: Final = 24
_32_BITS: Final = 0xFFFFFFFF


def murmur2(data: Buffer) -> int:
    """Return the 32 bits of MurmurHash2 with Kafka's seed, as an unsigned number."""
    whole = len(data) & ~3
    hash_ = _SEED ^ len(data)
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _M & _32_BITS
        word = (word ^ (word >> _R)) * _M & _32_BITS
        hash_ = (hash_ * _M & _32_BITS) ^ word
    if whole < len(data):
        hash_ = (hash_ ^ int.from_bytes(data[whole:], "little")) * _M & _32_BITS
    hash_ = (hash_ ^ (hash_ >> 13)) * _M & _32_BITS
    return hash_ ^ (hash_ >> 15)


def partition_of(key: Buffer, partition_count: int) -> int:
    """Return the partition that the Java client chooses for a key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count
