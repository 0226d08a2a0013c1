"""How Fetch names topics: by name in the old versions, by id from 13 on (KIP-516)."""

from __future__ import annotations

import functools
import uuid
from typing import Final, TypeAlias

from net.wire.primitives import Buffer, malformed, read_string, write_nullable_string

TOPIC_IDS_FROM: Final = 13
NO_UUID: Final = uuid.UUID(int=0)
_UUID_BYTES: Final = 16

Topic: TypeAlias = str | uuid.UUID
"""A name, or from version 13 on an id."""


def read_topic(version: int, view: Buffer, at: int, flexible: bool) -> tuple[Topic, int]:
    """Read what a version calls a topic by."""
    if version >= TOPIC_IDS_FROM:
        return read_uuid(view, at)
    return read_string(view, at, flexible)


def write_topic(version: int, topic: Topic, flexible: bool) -> bytes:
    """Write a topic; `ValueError` if it is a name where an id must be, or the other way round."""
    if isinstance(topic, uuid.UUID) != (version >= TOPIC_IDS_FROM):
        raise ValueError(f"version {version} does not call a topic {topic!r}")
    return topic.bytes if isinstance(topic, uuid.UUID) else write_nullable_string(topic, flexible)


def smallest_topic_bytes(version: int, flexible: bool) -> int:
    """Return the least that a topic and an empty array behind it take."""
    if version >= TOPIC_IDS_FROM:
        return _UUID_BYTES + 2
    return 3 if flexible else 6


def read_uuid(view: Buffer, at: int) -> tuple[uuid.UUID, int]:
    """Read an id."""
    end = at + _UUID_BYTES
    if end > len(view):
        malformed("a message that ends in an id")
    return _uuid(bytes(view[at:end])), end


@functools.lru_cache(maxsize=4096)
def _uuid(data: bytes) -> uuid.UUID:
    # The same ids come with every request, and making one takes longer than reading all the rest.
    return uuid.UUID(bytes=data)
