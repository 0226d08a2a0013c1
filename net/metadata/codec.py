"""Metadata records as bytes: JSON with a type and a version, the same whoever writes it.

    {"broker":{...},"type":"broker","version":0}

Keys are sorted and there are no spaces, so that equal records are equal bytes. Reading is strict: a
field that is missing, unknown or of another type is an error that names it, because a node that
skips what it does not understand has another image than the others. `FloorRecord` is in snapshots
alone: it is what an image remembers of what was removed, which no record says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import attrs

from protocol.controller.records import (
    BrokerConfigRecord,
    BrokerRecord,
    ConfigRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from protocol.controller.state import EMPTY, Floor, Partition, Registration, TopicConfig
from storage.disk.seam import Buffer

VERSION: Final = 0
_MAX_SHOWN: Final = 80
_INT64: Final = 1 << 63

Json: TypeAlias = dict[str, Any]


class BadRecord(Exception):  # noqa: N818 - it names the thing
    """Bytes that are no metadata record which this version of the code knows."""


@attrs.frozen
class FloorRecord:
    """The largest numbers among what was removed, in a snapshot."""

    floor: Floor


AnyRecord: TypeAlias = Record | FloorRecord


def encode_record(record: AnyRecord) -> bytes:
    """Write a record."""
    name, write = _WRITERS[type(record)]
    fields = {"type": name, "version": VERSION, **write(record)}
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def decode_record(content: Buffer) -> AnyRecord:
    """Read a record; `BadRecord` says what is wrong with it."""
    try:
        fields = json.loads(bytes(content).decode())
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"no JSON: {_shown(bytes(content))}") from error
    if not isinstance(fields, dict):
        raise BadRecord(f"no JSON object: {_shown(bytes(content))}")
    kind, version = fields.pop("type", None), fields.pop("version", None)
    read = _READERS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise BadRecord(f"a record of unknown type {_shown(kind)}")
    if type(version) is not int or version != VERSION:
        raise BadRecord(f"a {kind} record of version {_shown(version)}, where {VERSION} is known")
    try:
        return read(_Fields(kind, fields))
    except ValueError as error:
        raise BadRecord(str(error)) from error


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."


class _Fields:
    """The fields of a JSON object, taken one by one and by type; none may be left over."""

    def __init__(self, place: str, fields: object) -> None:
        if not isinstance(fields, dict):
            raise ValueError(f"{place} is no JSON object: {_shown(fields)}")
        self.place = place
        self._fields: Json = fields

    def take(self, name: str, kind: type) -> Any:
        if name not in self._fields:
            raise ValueError(f"{self.place} has no {name}")
        value = self._fields.pop(name)
        # A type, not isinstance: JSON's `true` is an int in Python.
        if type(value) is not kind:
            raise ValueError(f"{name} of {self.place} is {_shown(value)}, no {kind.__name__}")
        return value

    def number(self, name: str) -> int:
        value = int(self.take(name, int))
        if not -_INT64 <= value < _INT64:
            raise ValueError(f"{name} of {self.place} is beyond 64 bits")
        return value

    def text(self, name: str) -> str:
        return str(self.take(name, str))

    def flag(self, name: str) -> bool:
        return bool(self.take(name, bool))

    def texts(self, name: str) -> dict[str, str]:
        found: dict[str, str] = self.take(name, dict)
        if any(type(value) is not str for value in found.values()):
            raise ValueError(f"{name} of {self.place} is {_shown(found)}: not all are strings")
        return found

    def numbers(self, name: str) -> tuple[int, ...]:
        found = self.take(name, list)
        if any(type(each) is not int for each in found):
            raise ValueError(f"{name} of {self.place} is {_shown(found)}, no list of numbers")
        return tuple(found)

    def inner(self, name: str) -> _Fields:
        return _Fields(f"{name} of {self.place}", self.take(name, dict))

    def done(self) -> None:
        if self._fields:
            raise ValueError(f"{self.place} has unknown fields: {_shown(sorted(self._fields))}")


def _write_broker(record: BrokerRecord) -> Json:
    each = record.registration
    return {
        "broker": {
            "node": each.node,
            "epoch": each.epoch,
            "incarnation": each.incarnation,
            "fenced": each.fenced,
            "shuttingDown": each.shutting_down,
            "decommissioning": each.decommissioning,
            "endpoints": [_write_endpoint(endpoint) for endpoint in each.endpoints],
            "rack": each.rack,
        }
    }


def _write_endpoint(endpoint: Any) -> Json:
    name, host, port, security_protocol = endpoint
    return {"name": name, "host": host, "port": port, "securityProtocol": security_protocol}


def _read_broker(fields: _Fields) -> BrokerRecord:
    broker = fields.inner("broker")
    registration = Registration(
        broker.number("node"),
        broker.number("epoch"),
        broker.text("incarnation"),
        fenced=broker.flag("fenced"),
        shutting_down=broker.flag("shuttingDown"),
        decommissioning=broker.flag("decommissioning"),
        endpoints=tuple(map(_read_endpoint, broker.take("endpoints", list))),
        rack=broker.text("rack"),
    )
    broker.done()
    fields.done()
    return BrokerRecord(registration)


def _read_endpoint(found: object) -> tuple[str, str, int, int]:
    fields = _Fields("an endpoint", found)
    endpoint = (
        fields.text("name"),
        fields.text("host"),
        fields.number("port"),
        fields.number("securityProtocol"),
    )
    fields.done()
    return endpoint


def _write_config(config: TopicConfig) -> Json:
    return {
        "minIsr": config.min_isr,
        "uncleanElection": config.unclean_election,
        "other": dict(config.other),
    }


def _read_config(fields: _Fields) -> TopicConfig:
    other = fields.texts("other")
    config = TopicConfig(
        fields.number("minIsr"), fields.flag("uncleanElection"), EMPTY.update(other)
    )
    fields.done()
    return config


def _read_topic(fields: _Fields) -> TopicRecord:
    record = TopicRecord(
        fields.text("name"), fields.text("id"), _read_config(fields.inner("config"))
    )
    fields.done()
    return record


def _read_topic_config(fields: _Fields) -> ConfigRecord:
    record = ConfigRecord(fields.text("topic"), _read_config(fields.inner("config")))
    fields.done()
    return record


def _write_partition(record: PartitionRecord) -> Json:
    each = record.partition
    return {
        "topic": each.topic,
        "index": each.index,
        "replicas": list(each.replicas),
        "isr": sorted(each.isr),
        "elr": sorted(each.elr),
        "leader": each.leader,
        "leaderEpoch": each.leader_epoch,
        "partitionEpoch": each.version,
        "adding": sorted(each.adding),
        "removing": sorted(each.removing),
    }


def _read_partition(fields: _Fields) -> PartitionRecord:
    partition = Partition(
        fields.text("topic"),
        fields.number("index"),
        fields.numbers("replicas"),
        frozenset(fields.numbers("isr")),
        frozenset(fields.numbers("elr")),
        fields.number("leader"),
        fields.number("leaderEpoch"),
        fields.number("partitionEpoch"),
        frozenset(fields.numbers("adding")),
        frozenset(fields.numbers("removing")),
    )
    fields.done()
    return PartitionRecord(partition)


def _read_unregister(fields: _Fields) -> UnregisterBrokerRecord:
    record = UnregisterBrokerRecord(fields.number("node"))
    fields.done()
    return record


def _read_remove_topic(fields: _Fields) -> RemoveTopicRecord:
    record = RemoveTopicRecord(fields.text("name"))
    fields.done()
    return record


def _read_broker_config(fields: _Fields) -> BrokerConfigRecord:
    record = BrokerConfigRecord(fields.number("node"), EMPTY.update(fields.texts("settings")))
    fields.done()
    return record


def _read_producer_ids(fields: _Fields) -> ProducerIdsRecord:
    record = ProducerIdsRecord(
        fields.number("node"), fields.number("brokerEpoch"), fields.number("nextProducerId")
    )
    fields.done()
    return record


def _write_floor(record: FloorRecord) -> Json:
    floor = record.floor
    return {
        "brokerEpoch": floor.broker_epoch,
        "leaderEpoch": floor.leader_epoch,
        "partitionEpoch": floor.version,
    }


def _read_floor(fields: _Fields) -> FloorRecord:
    floor = Floor(
        fields.number("brokerEpoch"), fields.number("leaderEpoch"), fields.number("partitionEpoch")
    )
    fields.done()
    return FloorRecord(floor)


_WRITERS: Final[Mapping[type, tuple[str, Callable[[Any], Json]]]] = {
    BrokerRecord: ("broker", _write_broker),
    UnregisterBrokerRecord: ("unregister-broker", lambda each: {"node": each.node}),
    TopicRecord: (
        "topic",
        lambda each: {"name": each.name, "id": each.id, "config": _write_config(each.config)},
    ),
    ConfigRecord: (
        "topic-config",
        lambda each: {"topic": each.topic, "config": _write_config(each.config)},
    ),
    BrokerConfigRecord: (
        "broker-config",
        lambda each: {"node": each.node, "settings": dict(each.settings)},
    ),
    RemoveTopicRecord: ("remove-topic", lambda each: {"name": each.name}),
    PartitionRecord: ("partition", _write_partition),
    ProducerIdsRecord: (
        "producer-ids",
        lambda each: {
            "node": each.node,
            "brokerEpoch": each.broker_epoch,
            "nextProducerId": each.next_producer_id,
        },
    ),
    FloorRecord: ("floor", _write_floor),
}

_READERS: Final[Mapping[str, Callable[[_Fields], AnyRecord]]] = {
    "broker": _read_broker,
    "unregister-broker": _read_unregister,
    "topic": _read_topic,
    "topic-config": _read_topic_config,
    "broker-config": _read_broker_config,
    "remove-topic": _read_remove_topic,
    "partition": _read_partition,
    "producer-ids": _read_producer_ids,
    "floor": _read_floor,
}
