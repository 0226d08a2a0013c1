"""One node of the metadata quorum, voter or observer: mirrors `spec/Quorum.tla`.

    from protocol.quorum import Quorum

    node = Quorum.restarted(1, frozenset({1, 2, 3}), epoch=4, voted=2, log=...)
    effects = node.handle(VoteRequested(...), now_ms=0)

KRaft is Raft in which followers pull: voters elect a leader for an epoch, and everybody fetches
from it. What it replicates is the log of metadata records; what these mean is the business of the
state machine above, `protocol.controller`. `protocol.machine` has the contract with the driver, and
`docs/protocol.md` says all of this in words.

| the spec | here |
| --- | --- |
| `epoch[n]`, `voted[n]`, `leader[n]` | `state.epoch`, `voted`, `leader`; `None` is NOBODY |
| `disk[n]` | what the last `SaveVote` made durable |
| `role[n]` | the type of `state.role` |
| `votes[n]` | `votes` of a `Prospective` or `Candidate` |
| `log[n]` | the entries are in storage; `state.log` has their epochs |
| `start[n]` | `state.log.start_offset` |
| `hw[n]` | `state.high_watermark`; 0: not known |
| `remote[l][n]` | `end_offset` in the `followers` of a `Leader` |
| a vote in `msgs` | `SendVoteAnswer` that grants; received: `VoteAnswered` |
| an answer in `msgs` | `SendEntries`, `SendDivergence`; received: `FetchAnswered` |
| a snapshot in `msgs` | from `SendSnapshotId` until `SnapshotFetched` |
| `committed` | `Committed`, at any node |

Not in the spec, and so not compared with it: `config` and all times; what storage has not answered
(`saving`, `writes`, `deferred`, `reserved_end`), because a step of the spec is over when it has;
who waits for records (`parked`), whom an observer has asked, how often an election was tried
(`attempt`), which snapshot is being downloaded, whether the state machine above knows that it is
active; and storage that has failed (`failed`). Voters are a constant there and a part of the state
here.
"""

from protocol.quorum.log import SnapshotId
from protocol.quorum.quorum import Quorum
from protocol.quorum.rules import Rules
from protocol.quorum.state import (
    NOBODY,
    Candidate,
    Follower,
    Leader,
    Prospective,
    QuorumConfig,
    QuorumState,
    Unattached,
)

__all__ = [
    "NOBODY",
    "Candidate",
    "Follower",
    "Leader",
    "Prospective",
    "Quorum",
    "QuorumConfig",
    "QuorumState",
    "Rules",
    "SnapshotId",
    "Unattached",
]
