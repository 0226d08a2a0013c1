"""From effects to the messages in flight, and from these to the events that they become."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from protocol.machine import Effect
from protocol.quorum import SnapshotId
from protocol.quorum.effects import (
    SendDivergence,
    SendEntries,
    SendFetch,
    SendSnapshotId,
    SendVoteRequest,
)
from protocol.quorum.events import FetchAnswered, FetchReceived, VoteAnswered, VoteRequested
from protocol.types import NodeId
from spec.conformance.quorum.node import Entry, Reaction
from spec.conformance.quorum.world import Answer, Snapshot, Vote


def vote_request(candidate: NodeId, ballot: SendVoteRequest) -> VoteRequested:
    """Give what a voter receives of a vote request."""
    return VoteRequested(
        candidate, candidate, ballot.epoch, ballot.last_epoch, ballot.end_offset, ballot.pre_vote
    )


def vote_event(vote: Vote) -> VoteAnswered:
    """Give what a candidate receives of a vote."""
    return VoteAnswered(vote.sender, vote.epoch, -1, granted=True)


def fetch_event(node: NodeId, fetch: SendFetch) -> FetchReceived:
    """Give what a leader receives of a fetch, which waits if there is nothing to tell."""
    return FetchReceived(
        node,
        node,
        fetch.epoch,
        fetch.offset,
        fetch.last_epoch,
        fetch.high_watermark,
        fetch.max_bytes,
        fetch.max_wait_ms,
    )


def answers(to: NodeId, fetch: SendFetch, reaction: Reaction) -> Iterator[Answer | Snapshot]:
    """Give what a leader may send: of the entries that follow any number, but at least one."""
    asked = (to, fetch.epoch, fetch.offset, fetch.last_epoch)
    for effect in reaction.effects:
        if isinstance(effect, SendSnapshotId):
            yield Snapshot(*asked, reaction.node.entries[: effect.snapshot.end_offset])
        elif isinstance(effect, SendDivergence):
            yield Answer(*asked, end=effect.end)
        elif isinstance(effect, SendEntries):
            available = reaction.node.entries[effect.offset : effect.end_offset]
            for count in range(1, len(available) + 1) if available else (0,):
                yield Answer(
                    *asked, high_watermark=effect.high_watermark, entries=available[:count]
                )


def answer_event(message: Answer | Snapshot) -> FetchAnswered:
    """Give what a follower receives of an answer."""
    asked = (message.epoch, message.offset, message.last_epoch)
    if isinstance(message, Snapshot):
        snapshot = snapshot_id(message)
        return FetchAnswered(*asked, snapshot=snapshot, payload=message.entries)
    return FetchAnswered(
        *asked,
        diverging=message.end,
        high_watermark=message.high_watermark,
        epochs=_epochs(message.entries),
        payload=message.entries,
    )


def snapshot_id(message: Snapshot) -> SnapshotId:
    """Name the snapshot on its way."""
    return SnapshotId(len(message.entries), message.entries[-1][0] if message.entries else 0)


def is_told(effects: tuple[Effect, ...]) -> bool:
    """Whether a leader had anything to say."""
    return any(isinstance(each, SendSnapshotId | SendDivergence | SendEntries) for each in effects)


def _epochs(entries: tuple[Entry, ...]) -> tuple[tuple[int, int], ...]:
    runs = groupby(epoch for epoch, _ in entries)
    return tuple((epoch, len(list(run))) for epoch, run in runs)
