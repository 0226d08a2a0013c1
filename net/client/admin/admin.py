"""The admin client's questions, each with the values that it answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

from net.client.admin.asking import Asking, raise_for
from net.client.admin.values import (
    ConfigEntry,
    ConfigKind,
    LogDir,
    LogDirReplica,
    Quorum,
    QuorumReplica,
    Reassignment,
)
from net.client.errors import KafkaError
from net.client.offsets import EARLIEST, LATEST, ListedOffset, Place, list_offsets
from net.client.topology import Broker, ClusterInfo, TopicInfo
from net.transport.seam import Endpoint
from net.wire.apis import Api
from net.wire.library import Message
from protocol.errors import ErrorCode

_METADATA_TOPIC: Final = "__cluster_metadata"
_SET, _DELETE = 0, 1
_ELECTIONS: Final = {"preferred": 0, "unclean": 1}
_IN_ORDER: Final = frozenset({ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED})


class Admin(Asking):
    """Asks and changes a cluster."""

    async def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication_factor: int = -1,
        *,
        assignment: Mapping[int, Sequence[int]] | None = None,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Create a topic; -1 leaves a number to the broker, an assignment settles both."""
        topic: Message = {
            "name": name,
            "num_partitions": -1 if assignment else partitions,
            "replication_factor": -1 if assignment else replication_factor,
            "assignments": [
                {"partition_index": index, "broker_ids": list(brokers)}
                for index, brokers in (assignment or {}).items()
            ],
            "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
        }
        message = {
            "topics": [topic],
            "timeout": self._config.request_timeout_ms,
            "validate_only": validate_only,
        }
        await self._ask(
            Api.CREATE_TOPICS, message, lambda got: raise_for(_one(got["topics"]), name)
        )

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and all its records."""
        message = {
            "topics": [{"name": name}],
            "topic_names": [name],
            "timeout": self._config.request_timeout_ms,
        }
        await self._ask(
            Api.DELETE_TOPICS, message, lambda got: raise_for(_one(got["responses"]), name)
        )

    async def create_partitions(
        self, topic: str, total: int, assignment: Sequence[Sequence[int]] | None = None
    ) -> None:
        """Add partitions, so that there are so many altogether."""
        assignments = None
        if assignment is not None:
            assignments = [{"broker_ids": list(brokers)} for brokers in assignment]
        message = {
            "topics": [{"name": topic, "count": total, "assignments": assignments}],
            "timeout": self._config.request_timeout_ms,
            "validate_only": False,
        }
        await self._ask(
            Api.CREATE_PARTITIONS, message, lambda got: raise_for(_one(got["results"]), topic)
        )

    async def describe_configs(self, kind: ConfigKind, name: str) -> dict[str, ConfigEntry]:
        """Return all settings of a topic or a broker, by name."""
        message = {
            "resources": [
                {"resource_type": int(kind), "resource_name": name, "configuration_keys": None}
            ],
            "include_synonyms": False,
            "include_documentation": False,
        }
        broker_id = int(name) if kind is ConfigKind.BROKER and name else None
        answer = await self._ask(
            Api.DESCRIBE_CONFIGS,
            message,
            lambda got: raise_for(_one(got["results"]), name),
            broker_id,
        )
        return {
            each["name"]: ConfigEntry(
                each["name"],
                each["value"],
                each.get("config_source", -1),
                each["read_only"],
                each["is_sensitive"],
            )
            for each in _one(answer["results"])["configs"]
        }

    async def alter_configs(
        self,
        kind: ConfigKind,
        name: str,
        changes: Mapping[str, str | None],
        *,
        validate_only: bool = False,
    ) -> None:
        """Set these settings and leave the others; None takes one back to its default."""
        configs = [
            {"name": key, "config_operation": _DELETE if value is None else _SET, "value": value}
            for key, value in changes.items()
        ]
        message = {
            "resources": [{"resource_type": int(kind), "resource_name": name, "configs": configs}],
            "validate_only": validate_only,
        }
        await self._ask(
            Api.INCREMENTAL_ALTER_CONFIGS,
            message,
            lambda got: raise_for(_one(got["responses"]), name),
        )

    async def describe_cluster(self) -> ClusterInfo:
        """Return the cluster's id, its controller and its brokers; no topics."""
        message = {"include_cluster_authorized_operations": False}
        answer = await self._ask(Api.DESCRIBE_CLUSTER, message, raise_for)
        known = self.cluster.info.brokers
        brokers = {
            each["broker_id"]: Broker(
                each["broker_id"], Endpoint(each["host"], each["port"]), each.get("rack")
            )
            for each in answer["brokers"]
        }
        return ClusterInfo(answer["cluster_id"], answer["controller_id"], brokers or known, {})

    async def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, TopicInfo]:
        """Return these topics, or all; `KafkaError` if one that is named is not there."""
        wanted = None if names is None else list(names)
        await self.cluster.known(self._config.request_timeout_ms)
        info = await self.cluster.ask_somebody(wanted)
        for name in wanted or ():
            topic = info.topics.get(name)
            if topic is None or topic.error:
                unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                raise KafkaError(unknown if topic is None else topic.error, name)
        return dict(info.topics)

    async def list_offsets(
        self, times_ms: Mapping[Place, int | Literal["earliest", "latest"]]
    ) -> dict[Place, ListedOffset]:
        """Return the first offset at or after a time, or one of the ends, of each partition."""
        ends = {"earliest": EARLIEST, "latest": LATEST}
        wanted = {
            place: ends[each] if isinstance(each, str) else each for place, each in times_ms.items()
        }
        return await list_offsets(self.cluster, wanted, self._config.request_timeout_ms)

    async def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Delete the records before an offset, -1 for all; return the first that is left."""
        await self.cluster.topic(topic, self._config.request_timeout_ms)
        message = {
            "topics": [
                {
                    "name": topic,
                    "partitions": [{"partition_index": partition, "offset": before}],
                }
            ],
            "timeout": self._config.request_timeout_ms,
        }
        leader = self.cluster.leader(topic, partition)
        if leader is None:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition}")
        answer = await self._ask(
            Api.DELETE_RECORDS,
            message,
            lambda got: raise_for(_one(_one(got["topics"])["partitions"]), f"{topic}-{partition}"),
            leader.leader,
        )
        low: int = _one(_one(answer["topics"])["partitions"])["low_watermark"]
        return low

    async def elect_leaders(
        self,
        places: Iterable[Place] | None = None,
        kind: Literal["preferred", "unclean"] = "preferred",
    ) -> dict[Place, KafkaError | None]:
        """Elect leaders anew, of all partitions if none are named; return what came of each.

        That a partition needs no election is no error.
        """
        message = {
            "election_type": _ELECTIONS[kind],
            "topic_partitions": None if places is None else _by_topic(places, "topic"),
            "timeout": self._config.request_timeout_ms,
        }
        answer = await self._ask(Api.ELECT_LEADERS, message, raise_for)
        return {
            (topic["topic"], each["partition_id"]): None
            if each["error_code"] in _IN_ORDER
            else KafkaError(each["error_code"], each["error_message"])
            for topic in answer["replica_election_results"]
            for each in topic["partition_result"]
        }

    async def reassign(self, replicas: Mapping[Place, Sequence[int] | None]) -> None:
        """Move partitions to these replicas; None cancels a move that is under way."""
        topics: dict[str, list[Message]] = {}
        for (topic, partition), brokers in replicas.items():
            each = {
                "partition_index": partition,
                "replicas": None if brokers is None else list(brokers),
            }
            topics.setdefault(topic, []).append(each)
        message = {
            "timeout": self._config.request_timeout_ms,
            "topics": [{"name": name, "partitions": each} for name, each in topics.items()],
        }
        await self._ask(Api.ALTER_PARTITION_REASSIGNMENTS, message, _raise_for_partitions)

    async def list_reassignments(
        self, places: Iterable[Place] | None = None
    ) -> tuple[Reassignment, ...]:
        """Return the moves that are under way, of all partitions if none are named."""
        message = {
            "timeout": self._config.request_timeout_ms,
            "topics": None
            if places is None
            else _by_topic(places, "name", indexes="partition_indexes"),
        }
        answer = await self._ask(Api.LIST_PARTITION_REASSIGNMENTS, message, raise_for)
        return tuple(
            Reassignment(
                topic["name"],
                each["partition_index"],
                tuple(each["replicas"]),
                tuple(each["adding_replicas"]),
                tuple(each["removing_replicas"]),
            )
            for topic in answer["topics"]
            for each in topic["partitions"]
        )

    async def describe_quorum(self) -> Quorum:
        """Return how the quorum of the metadata log stands."""
        message = {
            "topics": [{"topic_name": _METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]
        }

        def check(answer: Message) -> None:
            raise_for(answer)
            raise_for(_one(_one(answer["topics"])["partitions"]))

        answer = await self._ask(Api.DESCRIBE_QUORUM, message, check)
        found = _one(_one(answer["topics"])["partitions"])
        return Quorum(
            found["leader_id"],
            found["leader_epoch"],
            found["high_watermark"],
            tuple(_quorum_replica(each) for each in found["current_voters"]),
            tuple(_quorum_replica(each) for each in found["observers"]),
        )

    async def unregister_broker(self, broker_id: int) -> None:
        """Forget a broker that is gone for good."""
        await self._ask(Api.UNREGISTER_BROKER, {"broker_id": broker_id}, raise_for)

    async def describe_log_dirs(
        self, broker_id: int, places: Iterable[Place] | None = None
    ) -> tuple[LogDir, ...]:
        """Return the folders of a broker and the replicas in them."""
        message = {"topics": None if places is None else _by_topic(places, "topic")}
        answer = await self._ask(Api.DESCRIBE_LOG_DIRS, message, raise_for, broker_id)
        return tuple(_log_dir(each) for each in answer["results"])


def _one(items: Sequence[Message]) -> Message:
    """Return the answer to the one thing that was asked."""
    if len(items) != 1:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{len(items)} answers to one question")
    return items[0]


def _by_topic(places: Iterable[Place], name: str, indexes: str = "partitions") -> list[Message]:
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return [{name: topic, indexes: partitions} for topic, partitions in topics.items()]


def _raise_for_partitions(answer: Message) -> None:
    raise_for(answer)
    for topic in answer["responses"]:
        for each in topic["partitions"]:
            raise_for(each, f"{topic['name']}-{each['partition_index']}")


def _quorum_replica(each: Message) -> QuorumReplica:
    return QuorumReplica(
        each["replica_id"],
        each["log_end_offset"],
        each.get("last_fetch_timestamp", -1),
        each.get("last_caught_up_timestamp", -1),
    )


def _log_dir(each: Message) -> LogDir:
    return LogDir(
        each["log_dir"],
        each["error_code"],
        each.get("total_bytes", -1),
        each.get("usable_bytes", -1),
        tuple(
            LogDirReplica(
                topic["name"],
                one["partition_index"],
                one["partition_size"],
                one["offset_lag"],
                one["is_future_key"],
            )
            for topic in each["topics"]
            for one in topic["partitions"]
        ),
    )
