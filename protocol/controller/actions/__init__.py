"""The controller's actions: what it does about each event. `action` is the table of them all."""

from __future__ import annotations

from protocol.controller.actions import (
    brokers,
    configs,
    lifecycle,
    partitions,
    producers,
    reassignment,
    topics,
)
from protocol.controller.actions.table import action

__all__ = [
    "action",
    "brokers",
    "configs",
    "lifecycle",
    "partitions",
    "producers",
    "reassignment",
    "topics",
]
