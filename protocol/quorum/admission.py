"""What no correct peer sends, and what no two correct peers can both say."""

from __future__ import annotations

from protocol.errors import InvariantViolation, RemoteProtocolError
from protocol.machine import Event
from protocol.quorum.actions.following import admit_answer
from protocol.quorum.events import (
    EpochLearned,
    FetchAnswered,
    FetchReceived,
    FetchRefused,
    LeaderAnnounced,
    VoteAnswered,
    VoteRequested,
)
from protocol.quorum.state import NOBODY, QuorumState
from protocol.types import Epoch, NodeId


def admit(state: QuorumState, event: Event) -> None:
    """Raise `RemoteProtocolError`, or `InvariantViolation` where the quorum itself is broken."""
    if isinstance(event, FetchReceived):
        _admit_fetch(state, event)
    elif isinstance(event, FetchAnswered):
        admit_answer(event)
    elif isinstance(event, VoteRequested):
        _admit_vote_request(state, event)
    elif isinstance(event, VoteAnswered | LeaderAnnounced | EpochLearned | FetchRefused):
        if isinstance(event, VoteAnswered) and event.voter not in state.voters - {state.node}:
            raise RemoteProtocolError(f"an answer of {event.voter}, which was not asked")
        _admit_leader(state, event, event.epoch, event.leader)


def _admit_fetch(state: QuorumState, event: FetchReceived) -> None:
    if event.node == state.node:
        raise RemoteProtocolError("a fetch in this node's own name")
    if event.offset < 0 or (event.offset == 0) != (event.last_epoch == 0):
        raise RemoteProtocolError(f"a log of {event.offset} with epoch {event.last_epoch} last")
    if event.last_epoch > event.epoch:
        raise RemoteProtocolError(f"a log of epoch {event.last_epoch} in epoch {event.epoch}")


def _admit_vote_request(state: QuorumState, event: VoteRequested) -> None:
    if event.candidate not in state.voters - {state.node}:
        raise RemoteProtocolError(f"{event.candidate} may not ask for a vote")
    if event.end_offset < 0 or (event.end_offset == 0) != (event.last_epoch == 0):
        raise RemoteProtocolError(f"a log of {event.end_offset} with epoch {event.last_epoch} last")
    newest = event.epoch if event.pre_vote else event.epoch - 1
    if event.last_epoch > newest:
        raise RemoteProtocolError(f"a log of epoch {event.last_epoch} in epoch {event.epoch}")


def _admit_leader(state: QuorumState, event: Event, epoch: Epoch, leader: NodeId) -> None:
    if leader == NOBODY:
        return
    if leader not in state.voters:
        raise RemoteProtocolError(f"{leader} is no voter and cannot lead")
    if epoch == state.epoch and state.leader not in (NOBODY, leader):
        detail = f"both {state.leader} and {leader} lead in epoch {epoch}"
        raise InvariantViolation("OneLeaderPerEpoch", event, detail)
