"""Settings of connections, requests, and the replication between brokers."""

from __future__ import annotations

from typing import Final

import attrs

from net.settings.kinds import BOOLEAN, CLASS, INT, LONG, MAX_INT, MAX_LONG
from net.settings.setting import Dynamic, setting

RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@attrs.frozen(slots=False, kw_only=True)
class ConnectionSettings:
    """How much a node takes from its clients."""

    socket_request_max_bytes: int = setting(
        INT,
        100 * 1024 * 1024,
        "A request that is larger closes its connection; so does one of more than 4 MiB that "
        "brings no records.",
        low=1,
    )
    queued_max_request_bytes: int = setting(
        LONG, 256 * 1024 * 1024,
        "Bytes of requests in work, over all connections; beyond it nobody is read from. "
        "Kafka's default is -1, no bound; here there is always one.",
        low=1,
    )  # fmt: skip
    max_connections: int = setting(
        INT, 10_000, "Connections at a time. Kafka's default is 2147483647.", low=1
    )
    max_connections_per_ip: int = setting(
        INT, MAX_INT, "Connections at a time from one address.", low=1
    )
    connections_max_idle_ms: int = setting(
        LONG, 600_000, "A connection on which nothing came for so long is closed.", low=1
    )
    fetch_max_bytes: int = setting(
        INT, 55 * 1024 * 1024, "Bytes in the answer to one fetch, whatever it asks for.", low=1024
    )
    replica_selector_class: str = setting(
        CLASS, "", "With this one, consumers are sent to a replica in their own rack.",
        choices=("", RACK_AWARE),
    )  # fmt: skip


@attrs.frozen(slots=False, kw_only=True)
class ReplicationSettings:
    """How topics are made, and how followers keep up."""

    num_partitions: int = setting(INT, 1, "Partitions of a topic that does not say.", low=1)
    default_replication_factor: int = setting(
        INT, 1, "Replicas of a topic that does not say.", low=1, high=32_767
    )
    auto_create_topics_enable: bool = setting(
        BOOLEAN, True, "Whether a topic is created when a producer or consumer asks for it."
    )
    delete_topic_enable: bool = setting(BOOLEAN, True, "Whether topics may be deleted.")
    min_insync_replicas: int = setting(
        INT, 1, "How many replicas in sync an acks=all write needs, in topics that do not say.",
        low=1,
    )  # fmt: skip
    unclean_leader_election_enable: bool = setting(
        BOOLEAN, False,
        "Whether a replica that may lack records can become leader, in topics that do not say.",
    )  # fmt: skip
    replica_lag_time_max_ms: int = setting(
        LONG, 30_000, "A follower that is behind for so long leaves the ISR.", low=1
    )
    replica_fetch_wait_max_ms: int = setting(
        INT, 500, "How long a follower's fetch waits when there is nothing.", low=0
    )
    replica_fetch_min_bytes: int = setting(INT, 1, "What a follower's fetch waits for.", low=1)
    replica_fetch_max_bytes: int = setting(
        INT, 1024 * 1024, "Bytes that a follower fetches of one partition at a time.", low=1
    )
    replica_fetch_response_max_bytes: int = setting(
        INT, 10 * 1024 * 1024, "Bytes in one answer to a follower.", low=1
    )
    replica_fetch_backoff_ms: int = setting(
        INT, 1_000, "How long a follower waits after a fetch that failed.", low=1
    )
    replica_socket_timeout_ms: int = setting(
        INT, 30_000, "How long a follower waits for an answer.", low=1
    )
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        LONG, 5_000, "How often high watermarks are written to disk.", low=1
    )
    leader_replication_throttled_rate: int = setting(
        LONG, MAX_LONG,
        "Taken because Kafka's tools set it with the follower's, which is the one obeyed.",
        low=0, dynamic=Dynamic.PER_BROKER,
    )  # fmt: skip
    follower_replication_throttled_rate: int = setting(
        LONG, MAX_LONG, "Bytes per second that followers fetch for throttled replicas.",
        low=0, dynamic=Dynamic.PER_BROKER,
    )  # fmt: skip
