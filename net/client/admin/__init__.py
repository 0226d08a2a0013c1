"""Changes to a cluster, and questions about it: topics, configurations, replicas, the quorum.

    async with Admin("localhost:9092") as admin:
        await admin.create_topic("topic", partitions=3, replication_factor=3)

An error of the broker is a `KafkaError` with Kafka's code. What several brokers could answer is
tried again with another one until the time is over, so a change whose answer was lost may be found
to have happened already (TOPIC_ALREADY_EXISTS).
"""

from net.client.admin.admin import Admin
from net.client.admin.values import (
    ConfigEntry,
    ConfigKind,
    LogDir,
    LogDirReplica,
    Quorum,
    QuorumReplica,
    Reassignment,
)

__all__ = [
    "Admin",
    "ConfigEntry",
    "ConfigKind",
    "LogDir",
    "LogDirReplica",
    "Quorum",
    "QuorumReplica",
    "Reassignment",
]
