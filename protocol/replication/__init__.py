"""One replica of a partition, as a leader and as a follower: mirrors `spec/Replication.tla`.

    from protocol.replication import Replica

    replica = Replica.restarted(node=1, broker_epoch=7)
    effects = replica.handle(BecameLeader(epoch=1, version=1, isr=..., replicas=...), now_ms=0)

`protocol.machine` has the contract with the driver; `docs/build-a-broker.md` shows a whole one.

| the spec | here |
| --- | --- |
| `log[r]` | the entries are in storage; `state.log` has their epochs |
| `hw[r]` | `state.high_watermark` |
| `view[r]` | `state.view` |
| `remote[l][f].endOffset`, `brokerEpoch` | `state.role.followers`: `end_offset`, `broker_epoch` |
| `broker[r].epoch` | `state.broker_epoch` |
| a follower's request | `SendFetch` |
| an answer in `msgs` | `SendEntries`, `SendDivergence`; received: `FetchAnswered` |
| a proposal | `SendProposal` |
| `acked` | `ProduceDone` for acks=all |

Not in the spec, and so not compared with it: `config` except for min ISR; who waits, and until when
(`waiting`, `parked`, `caught_up_ms`, `asked_ms`, `end_when_asked`, `retry_ms` and the like); writes
that storage has not answered (`writes`, `write`, `deferred`, `reserved_end`), because a step of the
spec is over when they are; how often a proposal was sent; the log start, which retention moves; and
the ways to stop (`status`).
"""

from protocol.replication.config import ReplicaConfig
from protocol.replication.log import EpochEnd, Log
from protocol.replication.metadata import PartitionRecord, event_for
from protocol.replication.replica import Replica
from protocol.replication.rules import Rules
from protocol.replication.state import (
    Follower,
    Leader,
    ReplicaState,
    Status,
    View,
)

__all__ = [
    "EpochEnd",
    "Follower",
    "Leader",
    "Log",
    "PartitionRecord",
    "Replica",
    "ReplicaConfig",
    "ReplicaState",
    "Rules",
    "Status",
    "View",
    "event_for",
]
