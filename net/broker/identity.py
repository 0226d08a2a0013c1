"""Whose log a folder has: the id of its topic, in Kafka's `partition.metadata` file.

A topic that was deleted and made again has the same name, and its folder the same as well.
"""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID

from net.uuids import from_text, to_text
from storage import checkpoint
from storage.log.log import Log

FILE_NAME: Final = "partition.metadata"
_CONTENT: Final = re.compile(r"version: 0\ntopic_id: ([A-Za-z0-9_-]{22})\n?")


def write_topic_id(log: Log, topic_id: UUID) -> None:
    """Note whose log this is; durable with the log's next flush."""
    path = f"{log.folder}/{FILE_NAME}"
    log.disk.create(path)
    log.disk.write(path, (f"version: 0\ntopic_id: {to_text(topic_id)}".encode(),), 0)
    log.note_changes((path,))


def read_topic_id(log: Log) -> UUID | None:
    """Tell whose log this is; `None` if the file did not survive a crash or says nothing."""
    path = f"{log.folder}/{FILE_NAME}"
    if not log.disk.exists(path):
        return None
    content = checkpoint.read_whole(log.disk, path).decode("ascii", "replace")
    match = _CONTENT.fullmatch(content)
    return from_text(match[1]) if match else None
