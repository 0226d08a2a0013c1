"""How much longer than the others a node waits for an election: chance, drawn outside.

The only chance is the seed in the configuration. What follows from it is a pure function, so that
a run can be repeated and nodes still differ.
"""

from __future__ import annotations

from protocol.quorum.state import QuorumConfig
from protocol.types import Epoch, NodeId

_MASK = (1 << 64) - 1


def jitter_ms(config: QuorumConfig, node: NodeId, epoch: Epoch, attempt: int) -> int:
    """Give between 0 and the configured jitter, by seed, node, epoch and attempt."""
    mixed = _mix(config.jitter_seed & _MASK)
    for part in (node, epoch, attempt):
        mixed = _mix((mixed ^ part) & _MASK)
    return mixed % (config.election_jitter_ms + 1)


def _mix(value: int) -> int:
    """SplitMix64: every bit of the result depends on every bit of the value."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)
