"""The few words that all machines share: what identifies a node, an offset, an epoch.

They are plain integers, because they are compared and added on hot paths; the names are for the
reader. An offset counts records from zero, and an end offset is that of the record to come.
"""

from __future__ import annotations

from typing import Final, TypeAlias

NodeId: TypeAlias = int
Offset: TypeAlias = int
Epoch: TypeAlias = int
"""A leader epoch: larger after every change of leader; 0 before the first."""
BrokerEpoch: TypeAlias = int
"""An incarnation of a broker, larger after every registration; 0: not known."""
Version: TypeAlias = int
"""Kafka's partition epoch: larger after every change of a partition's record."""
Correlation: TypeAlias = object
"""Whatever the driver needs in order to find its client again; opaque here, and hashable."""

NO_LEADER: Final[NodeId] = -1
