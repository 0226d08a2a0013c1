"""Ids as Kafka writes them: sixteen bytes as 22 characters of URL-safe Base64."""

from __future__ import annotations

import base64
from uuid import UUID


def to_text(value: UUID) -> str:
    """Write an id as Kafka's tools show it."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def from_text(text: str) -> UUID:
    """Read an id; `ValueError` if it is none."""
    raw = base64.urlsafe_b64decode(text + "==")
    return UUID(bytes=raw)
