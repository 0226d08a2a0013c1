"""What each machine and each log is configured with, as it follows from the settings.

Settings have Kafka's names and units; a machine's configuration has its own. This is the one place
where one becomes the other.
"""

from __future__ import annotations

from typing import Final

from net.settings.broker import BrokerSettings
from net.settings.kinds import MAX_LONG
from net.settings.topic import TopicSettings
from protocol.controller.state import ControllerConfig
from protocol.idempotence.state import SequencesConfig
from protocol.quorum.state import QuorumConfig
from protocol.replication import ReplicaConfig
from storage.flusher import FlushPolicy
from storage.log.config import LogConfig

_CHECK_QUORUM_FACTOR: Final = 1.5
"""Kafka's: a leader waits half as long again as its followers do before it gives up."""


def log_config(topic: TopicSettings, broker: BrokerSettings) -> LogConfig:
    """Return what a partition's log lives by."""
    return LogConfig(
        segment_bytes=topic.segment_bytes,
        segment_ms=topic.segment_ms,
        index_interval_bytes=topic.index_interval_bytes,
        index_max_bytes=topic.segment_index_bytes,
        max_batch_bytes=topic.max_message_bytes,
        retention_bytes=topic.retention_bytes,
        retention_ms=topic.retention_ms,
        delete="delete" in topic.cleanup_policy,
        compact="compact" in topic.cleanup_policy,
        delete_retention_ms=topic.delete_retention_ms,
        min_compaction_lag_ms=topic.min_compaction_lag_ms,
        max_compaction_lag_ms=topic.max_compaction_lag_ms,
        min_cleanable_ratio=topic.min_cleanable_dirty_ratio,
        producer_expiry_ms=broker.producer_id_expiration_ms,
    )


def replica_config(topic: TopicSettings, broker: BrokerSettings) -> ReplicaConfig:
    """Return what a partition's replica lives by."""
    return ReplicaConfig(
        min_isr=topic.min_insync_replicas,
        replica_lag_max_ms=broker.replica_lag_time_max_ms,
        fetch_retry_ms=broker.replica_fetch_backoff_ms,
        fetch_wait_ms=broker.replica_fetch_wait_max_ms,
        fetch_min_bytes=broker.replica_fetch_min_bytes,
        fetch_max_bytes=broker.replica_fetch_max_bytes,
        fetch_timeout_ms=broker.replica_socket_timeout_ms,
    )


def sequences_config(broker: BrokerSettings) -> SequencesConfig:
    """Return how long a partition remembers its producers."""
    return SequencesConfig(
        expiry_ms=broker.producer_id_expiration_ms,
        sweep_interval_ms=broker.producer_id_expiration_check_interval_ms,
    )


def quorum_config(broker: BrokerSettings, jitter_seed: int) -> QuorumConfig:
    """Return what a node of the metadata quorum lives by; the seed is drawn by the caller."""
    fetch_timeout_ms = broker.controller_quorum_fetch_timeout_ms
    return QuorumConfig(
        election_timeout_ms=broker.controller_quorum_election_timeout_ms,
        election_jitter_ms=broker.controller_quorum_election_backoff_max_ms,
        fetch_timeout_ms=fetch_timeout_ms,
        check_quorum_ms=max(1, round(fetch_timeout_ms * _CHECK_QUORUM_FACTOR)),
        # A request that got no answer is sent again well before the leader is taken for gone.
        request_retry_ms=max(1, min(broker.controller_quorum_request_timeout_ms, 500)),
        fetch_retry_ms=broker.controller_quorum_retry_backoff_ms,
        # A fetch that waits longer than half of that time would look like a lost leader.
        fetch_wait_ms=min(500, fetch_timeout_ms // 2),
        jitter_seed=jitter_seed,
    )


def controller_config(broker: BrokerSettings) -> ControllerConfig:
    """Return what the controller lives by."""
    return ControllerConfig(
        session_timeout_ms=broker.broker_session_timeout_ms,
        default_partitions=broker.num_partitions,
        default_replication_factor=broker.default_replication_factor,
        default_min_isr=broker.min_insync_replicas,
        default_unclean_election=broker.unclean_leader_election_enable,
    )


def flush_policy(broker: BrokerSettings) -> FlushPolicy:
    """Return when logs are flushed: never by default, always if after every record."""
    records = broker.log_flush_interval_messages
    return FlushPolicy(
        every_records=None if records == MAX_LONG else records,
        every_ms=broker.log_flush_interval_ms,
    )
