"""Which of Kafka's APIs are spoken here, in which versions, and on which listeners.

Every version that is advertised is served, with one exception: Produce is advertised from 0
because librdkafka stops compressing otherwise (KAFKA-18659), and served from 3. Between brokers
Fetch goes one version higher than clients are told. Groups, transactions and security are not here
yet, so they are not advertised either.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import attrs


class Api(enum.IntEnum):
    """The APIs by their keys on the wire."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    CREATE_PARTITIONS = 37
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    ALLOCATE_PRODUCER_IDS = 67


class Scope(enum.Flag):
    """The kinds of listeners an API is served on."""

    BROKER = enum.auto()
    CONTROLLER = enum.auto()


@attrs.frozen
class Served:
    """The versions of an API: `min` to `max` are advertised, `serves_from` to `serves_to` work."""

    min: int
    max: int
    scope: Scope
    serves_from: int
    serves_to: int

    def serves(self, version: int) -> bool:
        """Whether a request of this version can be answered."""
        return self.serves_from <= version <= self.serves_to


def _served(
    low: int, high: int, scope: Scope, serves_from: int | None = None, serves_to: int | None = None
) -> Served:
    return Served(
        low,
        high,
        scope,
        low if serves_from is None else serves_from,
        high if serves_to is None else serves_to,
    )


_BROKER: Final = Scope.BROKER
_CONTROLLER: Final = Scope.CONTROLLER
_BOTH: Final = _BROKER | _CONTROLLER

VERSIONS: Final[Mapping[Api, Served]] = MappingProxyType(
    {
        Api.PRODUCE: _served(0, 11, _BROKER, serves_from=3),
        Api.FETCH: _served(4, 16, _BROKER, serves_to=17),
        Api.LIST_OFFSETS: _served(1, 7, _BROKER),
        Api.METADATA: _served(0, 12, _BROKER),
        Api.API_VERSIONS: _served(0, 4, _BOTH),
        Api.CREATE_TOPICS: _served(2, 7, _BOTH),
        Api.DELETE_TOPICS: _served(1, 6, _BOTH),
        Api.DELETE_RECORDS: _served(0, 2, _BROKER),
        Api.INIT_PRODUCER_ID: _served(0, 4, _BROKER),
        Api.OFFSET_FOR_LEADER_EPOCH: _served(2, 4, _BROKER),
        Api.DESCRIBE_CONFIGS: _served(1, 4, _BROKER),
        Api.ALTER_CONFIGS: _served(0, 2, _BOTH),
        Api.DESCRIBE_LOG_DIRS: _served(1, 4, _BROKER),
        Api.CREATE_PARTITIONS: _served(0, 3, _BOTH),
        Api.ELECT_LEADERS: _served(0, 2, _BOTH),
        Api.INCREMENTAL_ALTER_CONFIGS: _served(0, 1, _BOTH),
        Api.ALTER_PARTITION_REASSIGNMENTS: _served(0, 1, _BOTH),
        Api.LIST_PARTITION_REASSIGNMENTS: _served(0, 0, _BOTH),
        Api.VOTE: _served(0, 2, _CONTROLLER),
        Api.BEGIN_QUORUM_EPOCH: _served(0, 1, _CONTROLLER),
        Api.END_QUORUM_EPOCH: _served(0, 1, _CONTROLLER),
        Api.DESCRIBE_QUORUM: _served(0, 1, _BOTH),
        Api.ALTER_PARTITION: _served(2, 3, _CONTROLLER),
        Api.ENVELOPE: _served(0, 0, _CONTROLLER),
        Api.FETCH_SNAPSHOT: _served(0, 1, _CONTROLLER),
        Api.DESCRIBE_CLUSTER: _served(0, 1, _BOTH),
        Api.DESCRIBE_PRODUCERS: _served(0, 0, _BROKER),
        Api.BROKER_REGISTRATION: _served(0, 4, _CONTROLLER),
        Api.BROKER_HEARTBEAT: _served(0, 1, _CONTROLLER),
        Api.UNREGISTER_BROKER: _served(0, 0, _BOTH),
        Api.ALLOCATE_PRODUCER_IDS: _served(0, 0, _CONTROLLER),
    }
)
"""Every API once. For Fetch on the controller's listener, ask `served_on`."""

# The metadata log is fetched with the last fetched epoch, which begins at 12.
_CONTROLLER_FETCH: Final = _served(12, 17, _CONTROLLER)


def served_on(scope: Scope, api_key: int) -> Served | None:
    """Return the versions of an API on one kind of listener, `None` if it is not served there."""
    return _ON[scope].get(api_key)


def advertised(scope: Scope) -> Mapping[int, Served]:
    """Return all that one kind of listener serves, by rising API key."""
    return _ON[scope]


def _on(scope: Scope) -> Mapping[int, Served]:
    on: dict[int, Served] = {
        int(api): each for api, each in VERSIONS.items() if scope in each.scope
    }
    if scope is _CONTROLLER:
        on[Api.FETCH] = _CONTROLLER_FETCH
    return MappingProxyType(dict(sorted(on.items())))


_ON: Final = {scope: _on(scope) for scope in (_BROKER, _CONTROLLER)}

_FIRST_FLEXIBLE: Final[Mapping[int, int]] = MappingProxyType(
    {
        Api.PRODUCE: 9,
        Api.FETCH: 12,
        Api.LIST_OFFSETS: 6,
        Api.METADATA: 9,
        Api.API_VERSIONS: 3,
        Api.CREATE_TOPICS: 5,
        Api.DELETE_TOPICS: 4,
        Api.DELETE_RECORDS: 2,
        Api.INIT_PRODUCER_ID: 2,
        Api.OFFSET_FOR_LEADER_EPOCH: 4,
        Api.DESCRIBE_CONFIGS: 4,
        Api.ALTER_CONFIGS: 2,
        Api.DESCRIBE_LOG_DIRS: 2,
        Api.CREATE_PARTITIONS: 2,
        Api.ELECT_LEADERS: 2,
        Api.INCREMENTAL_ALTER_CONFIGS: 1,
        Api.ALTER_PARTITION_REASSIGNMENTS: 0,
        Api.LIST_PARTITION_REASSIGNMENTS: 0,
        Api.VOTE: 0,
        Api.BEGIN_QUORUM_EPOCH: 1,
        Api.END_QUORUM_EPOCH: 1,
        Api.DESCRIBE_QUORUM: 0,
        Api.ALTER_PARTITION: 0,
        Api.ENVELOPE: 0,
        Api.FETCH_SNAPSHOT: 0,
        Api.DESCRIBE_CLUSTER: 0,
        Api.DESCRIBE_PRODUCERS: 0,
        Api.BROKER_REGISTRATION: 0,
        Api.BROKER_HEARTBEAT: 0,
        Api.UNREGISTER_BROKER: 0,
        Api.ALLOCATE_PRODUCER_IDS: 0,
    }
)


def is_flexible(api_key: int, version: int) -> bool:
    """Whether a version has compact lengths and tagged fields (KIP-482); `KeyError` if unknown."""
    return version >= _FIRST_FLEXIBLE[api_key]


def is_known(api_key: int) -> bool:
    """Whether there is an API with this key here, on whatever listener."""
    return api_key in _FIRST_FLEXIBLE
