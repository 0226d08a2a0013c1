"""Idempotent producers: mirrors `spec/Idempotence.tla`, the leader's half and the client's.

    from protocol.idempotence import ProducerClient, Sequences

    sequences = Sequences.restarted(snapshot=..., written=...)
    effects = sequences.handle(BatchArrived(correlation, producer_id, epoch, 0, 9), now_ms=0)

`Sequences` stands before a partition's `Replica`: what it lets through (`Accept`) is handed on, and
what came of that is told (`BatchAppended`, a refusal). `ProducerClient` is one producer's half for
one partition. `fold` is what both a leader and storage remember; `ids` hands out producer ids.
`protocol.machine` has the contract with the driver.

| the spec | here |
| --- | --- |
| `client[p].epoch`, `next`, `bump` | `ClientState.epoch`, `next_sequence`, `bump` |
| `client[p].inflight` | `ClientState.in_flight`; its `state` is `standing` |
| `pstate[p]` (`Unknown`) | `SequencesState.entries` (not there) |
| `hw` | `SequencesState.high_watermark` |
| `waiting` | `SequencesState.parked`, and the `Replica`'s for those who sent a batch first |
| `snap` | `Snapshot`: the driver keeps it |
| a request in `msgs` | `SendBatch`; received: `BatchArrived` |
| an answer | `AlreadyAppended`, `Refuse`; received: `AnswerReceived` |
| `acked` | `Delivered` |

Not in the spec, and so not compared with it: batches of several records (there a batch has one
sequence, so `number` is one too); those that were let through and are not written (`pending`),
because a step of the spec is over when they are; times (`expires_ms`, `resend_ms`, `timestamp_ms`,
`sweep_ms`); bounds; who does not want to wait for a commit (acks=1); whether a batch that fails may
be in the log (`doubtful`); `end_offset`, which is the log's; markers.
"""

from protocol.idempotence.client import ProducerClient
from protocol.idempotence.client_state import ClientConfig, ClientState, InFlight, Standing
from protocol.idempotence.fold import (
    Batch,
    Entries,
    Entry,
    LogBatch,
    LogMarker,
    Snapshot,
    fold,
    replay,
)
from protocol.idempotence.rules import Reaction, Rules
from protocol.idempotence.sequences import Sequences
from protocol.idempotence.state import SequencesConfig, SequencesState

__all__ = [
    "Batch",
    "ClientConfig",
    "ClientState",
    "Entries",
    "Entry",
    "InFlight",
    "LogBatch",
    "LogMarker",
    "ProducerClient",
    "Reaction",
    "Rules",
    "Sequences",
    "SequencesConfig",
    "SequencesState",
    "Snapshot",
    "Standing",
    "fold",
    "replay",
]
