"""One node's state in the metadata quorum: epochs, votes, offsets, and who waits. Never bytes.

`epoch`, `voted`, `leader`, `role`, `log` and `high_watermark` mirror variables of the spec; the
docstring of the package has the whole table. All else is what a spec without time and disks can
leave out: what is being written, which request is on its way, and until when somebody waits.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from protocol.machine import NOTHING, Effects, Event
from protocol.quorum.log import SnapshotId
from protocol.replication.log import Log
from protocol.types import NO_LEADER, Correlation, Epoch, NodeId, Offset

NOBODY = NO_LEADER


def _setting(default: int, at_least: int = 1) -> int:
    """Declare a setting. A time-out of 0 would be due for ever; to park nothing is sensible."""

    def check(_config: object, setting: attrs.Attribute[int], value: int) -> None:
        if value < at_least:
            raise ValueError(f"{setting.name} is {value}: it must be at least {at_least}")

    return attrs.field(default=default, validator=check)


@attrs.frozen
class QuorumConfig:
    """What an operator may set, and the bounds of what a node keeps in memory."""

    election_timeout_ms: int = _setting(1_000)
    election_jitter_ms: int = _setting(1_000, at_least=0)
    fetch_timeout_ms: int = _setting(2_000)
    """How long a follower goes without an answer before it takes its leader for gone."""
    check_quorum_ms: int = _setting(3_000)
    """How long a leader goes without hearing from a majority before it resigns."""
    request_retry_ms: int = _setting(500)
    fetch_retry_ms: int = _setting(100)
    fetch_wait_ms: int = _setting(500, at_least=0)
    fetch_max_bytes: int = _setting(1 << 20)
    max_writes: int = _setting(1_000)
    max_parked_fetches: int = _setting(1_000, at_least=0)
    max_observers: int = _setting(1_000, at_least=0)
    max_deferred: int = _setting(100)
    jitter_seed: int = 0
    """Drawn outside, once; from it follows how long each attempt at an election waits."""
    jitter_rounds: int = _setting(1_024)
    """After how many attempts the jitter repeats itself."""


@attrs.frozen
class Unattached:
    """Knows no leader of its epoch; it may have voted. `due_ms`: when it does something about it.

    A voter tries to be elected, an observer asks another voter; `asked` counts whom it has asked.
    """

    due_ms: int = 0
    asked: int = 0


@attrs.frozen
class Follower:
    """Fetches from the leader of its epoch.

    `fetch_ms`: when it asks next, or asks again if an answer is `awaited`. `lost_ms`: when it takes
    the leader for gone. While it downloads a `snapshot`, it does not ask.
    """

    fetch_ms: int = 0
    lost_ms: int = 0
    awaited: bool = False
    snapshot: SnapshotId | None = None
    asked: int = 0


@attrs.frozen
class Prospective:
    """Asks whether it could win (KIP-996), before it disturbs anyone with a new epoch."""

    votes: frozenset[NodeId]
    attempt: int = 0
    retry_ms: int = 0


@attrs.frozen
class Candidate:
    """Has voted for itself in its epoch, and asks others to do so until `due_ms`."""

    votes: frozenset[NodeId]
    retry_ms: int = 0
    due_ms: int = 0


@attrs.frozen
class Progress:
    """Mirrors `remote[l][f]`: where a node's log ends. `heard_ms`: its last fetch, None if none."""

    node: NodeId
    end_offset: Offset = 0
    heard_ms: int | None = None


@attrs.frozen
class Leader:
    """What only a leader keeps. Its epoch's first record is at `start_offset`.

    It is `active`, for the controller above, once that record is committed: only then does it know
    all that was committed before. `since_ms`: when it was elected.
    """

    start_offset: Offset
    reserved_end: Offset
    followers: tuple[Progress, ...]
    active: bool = False
    announce_ms: int = 0
    since_ms: int = 0


Role: TypeAlias = Unattached | Follower | Prospective | Candidate | Leader


@attrs.frozen
class Saving:
    """An epoch and a vote that are being saved, what is true when they are, and what is said then.

    The times of the role are set when it begins.
    """

    epoch: Epoch
    voted: NodeId
    leader: NodeId
    role: Role
    effects: Effects = NOTHING


@attrs.frozen
class Appending:
    """Entries that storage is appending.

    Fetched ones come with a high watermark. `leads`: with this the node leads.
    """

    epochs: tuple[tuple[Epoch, int], ...]
    end_offset: Offset
    high_watermark: Offset | None = None
    leads: bool = False


@attrs.frozen
class Cutting:
    """A log that storage is cutting."""

    end_offset: Offset


@attrs.frozen
class Installing:
    """A snapshot that storage is installing, and whether the log after it stays."""

    snapshot: SnapshotId
    keeps_log: bool


Write: TypeAlias = Appending | Cutting | Installing


@attrs.frozen
class Parked:
    """A fetch that waits for records or for a newer high watermark than the node knows."""

    correlation: Correlation
    node: NodeId
    offset: Offset
    high_watermark: Offset
    max_bytes: int
    expires_ms: int


@attrs.frozen
class QuorumState:
    """Everything that one node of the quorum knows; `voted` and `leader` may be NOBODY."""

    node: NodeId
    voters: frozenset[NodeId]
    config: QuorumConfig
    epoch: Epoch = 0
    voted: NodeId = NOBODY
    leader: NodeId = NOBODY
    role: Role = Unattached()
    log: Log = attrs.field(factory=Log)
    high_watermark: Offset = 0
    writes: tuple[Write, ...] = ()
    parked: tuple[Parked, ...] = ()
    saving: Saving | None = None
    deferred: tuple[Event, ...] = ()
    attempt: int = 0
    failed: bool = False

    @property
    def is_voter(self) -> bool:
        """Whether this node may vote and lead; others observe."""
        return self.node in self.voters


def with_log(
    state: QuorumState, role: Role, log: Log, high_watermark: Offset, writes: tuple[Write, ...]
) -> QuorumState:
    """Change what every batch changes. Built directly: `attrs.evolve` takes three times as long."""
    return QuorumState(
        state.node,
        state.voters,
        state.config,
        state.epoch,
        state.voted,
        state.leader,
        role,
        log,
        high_watermark,
        writes,
        state.parked,
        state.saving,
        state.deferred,
        state.attempt,
        state.failed,
    )


def with_parked(state: QuorumState, parked: tuple[Parked, ...]) -> QuorumState:
    """Change who waits, built directly for the same reason."""
    return QuorumState(
        state.node,
        state.voters,
        state.config,
        state.epoch,
        state.voted,
        state.leader,
        state.role,
        state.log,
        state.high_watermark,
        state.writes,
        parked,
        state.saving,
        state.deferred,
        state.attempt,
        state.failed,
    )


def progress_of(leader: Leader, node: NodeId) -> Progress | None:
    """Find what a leader knows of a node; None if it has never heard of it."""
    for progress in leader.followers:
        if progress.node == node:
            return progress
    return None


def is_writing(state: QuorumState) -> bool:
    """Whether storage has yet to answer, so that a change of epoch or vote has to wait."""
    return state.saving is not None or bool(state.writes)
