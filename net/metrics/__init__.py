"""What a node counts, how Prometheus reads it, and how log lines look.

Whoever works adds to plain numbers (`counters`); when somebody asks, the node's samples are taken
on its loop (`samples`) and formatted in a thread (`collector`), behind a small HTTP server
(`endpoint`). Nothing here decides anything, and a node works the same without it.
"""

from net.metrics.counters import BrokerCounters, ControllerCounters, PartitionCounters
from net.metrics.endpoint import MetricsServer
from net.metrics.logs import configure_logging
from net.metrics.samples import (
    BrokerSample,
    ClusterSample,
    PartitionSample,
    QuorumSample,
    Sources,
)

__all__ = [
    "BrokerCounters",
    "BrokerSample",
    "ClusterSample",
    "ControllerCounters",
    "MetricsServer",
    "PartitionCounters",
    "PartitionSample",
    "QuorumSample",
    "Sources",
    "configure_logging",
]
