"""DescribeLogDirs: how large this broker's logs are, and what room their disks have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from net.broker.apis.gathering import answer, asked
from net.server.request import Request
from net.wire.library import Message
from protocol.errors import ErrorCode
from storage.folder import LogFolder

if TYPE_CHECKING:
    from net.broker.broker import Broker


def describe_log_dirs(request: Request, broker: Broker) -> None:
    """Tell the size of every log that is asked for, by folder."""
    wanted = asked(request)["topics"]
    only = None if wanted is None else {
        (topic["topic"], index) for topic in wanted for index in topic["partitions"]
    }  # fmt: skip
    results = [_described(broker, folder, only) for folder in broker.replicas.store.folders]
    answer(request, {"throttle_time": 0, "error_code": 0, "results": results})


def _described(broker: Broker, folder: LogFolder, only: set[tuple[str, int]] | None) -> Message:
    topics: dict[str, list[Message]] = {}
    for key, log in folder.logs.items():
        if key not in broker.replicas.partitions or (only is not None and key not in only):
            continue
        state = broker.replicas.partitions[key].state
        topics.setdefault(key.topic, []).append(
            {
                "partition_index": key.partition,
                "partition_size": log.size_bytes,
                "offset_lag": max(0, state.high_watermark - log.end_offset),
                "is_future_key": False,
            }
        )
    failed = folder.failure is not None
    room = -1 if failed else folder.disk.free_bytes(folder.path)
    return {
        "error_code": ErrorCode.KAFKA_STORAGE_ERROR if failed else ErrorCode.NONE,
        "log_dir": folder.path,
        "topics": [{"name": name, "partitions": each} for name, each in sorted(topics.items())],
        "total_bytes": -1,
        "usable_bytes": room,
    }
