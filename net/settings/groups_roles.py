"""Settings that say who a node is, where it listens, and how it takes part in the cluster."""

from __future__ import annotations

import attrs

from net.settings.addresses import Listener, Voter
from net.settings.kinds import BOOLEAN, INT, LIST, LISTENERS, LONG, PAIRS, STRING, VOTERS
from net.settings.setting import Dynamic, setting


@attrs.frozen(slots=False, kw_only=True)
class RoleSettings:
    """The node, its roles and its listeners."""

    process_roles: tuple[str, ...] = setting(
        LIST, (), "What this node is: a broker, a controller, or both.",
        choices=("broker", "controller"),
    )  # fmt: skip
    node_id: int = setting(INT, -1, "This node's number; no other node has it.", low=0)
    listeners: tuple[Listener, ...] = setting(
        LISTENERS, (), "Where this node listens. No host: every address; port 0: any free one."
    )
    advertised_listeners: tuple[Listener, ...] = setting(
        LISTENERS, (), "What clients are told instead of `listeners`, per name."
    )
    listener_security_protocol_map: tuple[tuple[str, str], ...] = setting(
        PAIRS, (), "Each listener's protocol; PLAINTEXT, also for those that are not named."
    )
    inter_broker_listener_name: str | None = setting(
        STRING, None, "The listener that brokers use among themselves; the first one if not set."
    )
    controller_listener_names: tuple[str, ...] = setting(
        LIST, (), "The listeners of controllers, the first one of which is connected to."
    )
    broker_rack: str | None = setting(STRING, None, "Where this broker stands, for placement.")
    log_dirs: tuple[str, ...] = setting(LIST, (), "The folders of this broker's partitions.")
    metadata_log_dir: str | None = setting(
        STRING, None, "The folder of the metadata log; the first of `log.dirs` if not set."
    )


@attrs.frozen(slots=False, kw_only=True)
class QuorumSettings:
    """The controllers, and how brokers stay in touch with them."""

    controller_quorum_voters: tuple[Voter, ...] = setting(
        VOTERS, (), "The controllers: every node of the cluster has the same list."
    )
    controller_quorum_election_timeout_ms: int = setting(
        INT, 1_000, "How long a candidate waits for votes before it tries again.", low=1
    )
    controller_quorum_election_backoff_max_ms: int = setting(
        INT, 1_000, "How long at most a voter waits, by chance, before the next election.", low=0
    )
    controller_quorum_fetch_timeout_ms: int = setting(
        INT, 2_000, "Without an answer for so long, a voter takes its leader for gone.", low=1
    )
    controller_quorum_request_timeout_ms: int = setting(
        INT, 2_000, "How long a request to another controller may take.", low=1
    )
    controller_quorum_retry_backoff_ms: int = setting(
        INT, 20, "How long to wait before a failed request is sent to a controller again.", low=1
    )
    metadata_log_max_record_bytes_between_snapshots: int = setting(
        LONG, 20 * 1024 * 1024, "After how many bytes of records a snapshot is written.", low=1
    )
    broker_session_timeout_ms: int = setting(
        INT, 9_000, "A broker that was not heard of for so long is fenced.", low=1
    )
    broker_heartbeat_interval_ms: int = setting(
        INT, 2_000, "How often a broker tells the controller that it is alive.", low=1
    )
    initial_broker_registration_timeout_ms: int = setting(
        INT, 60_000, "A broker that could not register for so long gives up.", low=1
    )
    controlled_shutdown_enable: bool = setting(
        BOOLEAN, True, "Whether a broker that stops hands its partitions over first."
    )
    controlled_shutdown_max_retries: int = setting(
        INT, 3, "How often a controlled shutdown is tried before the broker just stops.", low=0
    )
    controlled_shutdown_retry_backoff_ms: int = setting(
        LONG, 5_000, "How long each try of a controlled shutdown may take.", low=1
    )


@attrs.frozen(slots=False, kw_only=True)
class OwnSettings:
    """What Kafka does not have."""

    hwmark_metrics_port: int = setting(
        INT, -1, "The port of /metrics, /health and /ready; 0: any free one, -1: none.",
        low=-1, high=65_535,
    )  # fmt: skip
    hwmark_metrics_host: str = setting(STRING, "127.0.0.1", "The host that `/metrics` is on.")
    hwmark_trace_dir: str | None = setting(
        STRING, None, "A folder for this node's trace, one JSON object per action of a machine."
    )
    hwmark_log_format: str = setting(
        STRING, "text", "How log lines are written to standard error.", choices=("text", "json")
    )
    hwmark_log_level: str = setting(
        STRING, "info", "What is worth a line in the log.",
        choices=("debug", "info", "warning", "error"),
    )  # fmt: skip
    hwmark_decommission: bool = setting(
        BOOLEAN, False, "Whether everything is being moved away from this broker.",
        dynamic=Dynamic.PER_BROKER,
    )  # fmt: skip
