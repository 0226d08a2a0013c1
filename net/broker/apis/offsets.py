"""Offsets: which ones a partition has, where an epoch ends, and everything before one deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from net.broker.apis.gathering import Gathering, asked
from net.broker.partition import Partition
from net.server.request import Request
from net.wire.library import Message
from protocol.errors import ErrorCode
from protocol.replication.effects import Refuse, SendEpochEnd, SendOffset
from protocol.replication.events import DeleteRecordsAsked, EpochEndAsked, OffsetAsked
from storage.log.log import FoundTime

if TYPE_CHECKING:
    from net.broker.broker import Broker

_MAX_TIMESTAMP: Final = -3
_READ_COMMITTED: Final = 1
_UNKNOWN: Final = -1


def list_offsets(request: Request, broker: Broker) -> None:
    """Tell the first offset, the last, the first of a time, or that of the newest record."""
    message = asked(request)
    committed = message.get("isolation_level", 0) == _READ_COMMITTED
    topics: list[Message] = []
    gathering = Gathering(request, {"throttle_time": 0, "topics": topics})
    for topic in message["topics"]:
        partitions: list[Message] = []
        topics.append({"name": topic["name"], "partitions": partitions})
        for wanted in topic["partitions"]:
            place = {
                "partition_index": wanted["partition_index"],
                "error_code": 0,
                "timestamp": _UNKNOWN,
                "offset": _UNKNOWN,
                "leader_epoch": _UNKNOWN,
            }
            partitions.append(place)
            found = broker.replicas.find_by_name(topic["name"], wanted["partition_index"])
            if isinstance(found, Partition):
                _list_one(gathering, found, wanted, place, committed)
            else:
                place["error_code"] = found
    gathering.filled()


def _list_one(
    gathering: Gathering, partition: Partition, wanted: Message, place: Message, committed: bool
) -> None:
    time_ms = wanted["timestamp"]
    newest = time_ms == _MAX_TIMESTAMP

    def fill(effect: SendOffset | FoundTime | Refuse | None) -> None:
        if isinstance(effect, Refuse):
            place["error_code"] = effect.error
        elif isinstance(effect, SendOffset):
            end = effect.offset
            if time_ms == OffsetAsked.LATEST and committed:
                end = partition.log.producers.last_stable_offset(end)
            if newest:
                _put(place, partition.log.newest_time(end))
            else:
                place.update(offset=end, leader_epoch=effect.leader_epoch)
        else:
            _put(place, effect)

    epoch = wanted.get("current_leader_epoch", _UNKNOWN)
    partition.deliver(
        OffsetAsked(
            gathering.hole(fill),
            OffsetAsked.LATEST if newest else time_ms,
            None if epoch == _UNKNOWN else epoch,
        )
    )


def _put(place: Message, found: FoundTime | None) -> None:
    if found is not None:
        place.update(
            offset=found.offset, timestamp=found.timestamp_ms, leader_epoch=found.leader_epoch
        )


def offsets_for_leader_epoch(request: Request, broker: Broker) -> None:
    """Tell where epochs end, so that a client finds out whether its log was cut (KIP-320)."""
    topics: list[Message] = []
    gathering = Gathering(request, {"throttle_time": 0, "topics": topics})
    for topic in asked(request)["topics"]:
        partitions: list[Message] = []
        topics.append({"topic": topic["topic"], "partitions": partitions})
        for wanted in topic["partitions"]:
            place = {
                "error_code": 0,
                "partition": wanted["partition"],
                "leader_epoch": _UNKNOWN,
                "end_offset": _UNKNOWN,
            }
            partitions.append(place)
            found = broker.replicas.find_by_name(topic["topic"], wanted["partition"])
            if not isinstance(found, Partition):
                place["error_code"] = found
                continue
            epoch = wanted.get("current_leader_epoch", _UNKNOWN)
            asks = EpochEndAsked(
                gathering.hole(_epoch_filler(place)),
                wanted["leader_epoch"],
                None if epoch == _UNKNOWN else epoch,
            )
            found.deliver(asks)
    gathering.filled()


def _epoch_filler(place: Message) -> Any:
    def fill(effect: SendEpochEnd | Refuse) -> None:
        if isinstance(effect, Refuse):
            place["error_code"] = effect.error
        elif effect.end.epoch > 0:
            place.update(leader_epoch=effect.end.epoch, end_offset=effect.end.offset)

    return fill


def delete_records(request: Request, broker: Broker) -> None:
    """Let partitions begin at later offsets."""
    topics: list[Message] = []
    gathering = Gathering(request, {"throttle_time": 0, "topics": topics})
    for topic in asked(request)["topics"]:
        partitions: list[Message] = []
        topics.append({"name": topic["name"], "partitions": partitions})
        for wanted in topic["partitions"]:
            index = wanted["partition_index"]
            place = {"partition_index": index, "low_watermark": _UNKNOWN, "error_code": 0}
            partitions.append(place)
            found = broker.replicas.find_by_name(topic["name"], index)
            if not isinstance(found, Partition):
                place["error_code"] = found
            elif not found.log.config.delete:
                place["error_code"] = ErrorCode.POLICY_VIOLATION
            else:
                hole = gathering.hole(_deletion_filler(place))
                found.deliver(DeleteRecordsAsked(hole, wanted["offset"]))
    gathering.filled()


def _deletion_filler(place: Message) -> Any:
    def fill(effect: SendOffset | Refuse) -> None:
        if isinstance(effect, Refuse):
            place["error_code"] = effect.error
        else:
            place["low_watermark"] = effect.offset

    return fill
