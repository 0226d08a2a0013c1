"""From a node's effects to the events that they become elsewhere: a network and a disk, in short.

A request becomes an event with a correlation that says who asked and what; so an answer finds its
way back and becomes the event that the asker waits for. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any

import attrs

from protocol.machine import Effect, Event
from protocol.quorum import effects as e
from protocol.quorum import events as ev
from protocol.types import Epoch, NodeId

Read = Callable[[int, int], tuple[Epoch, ...]]


@attrs.frozen
class Asked:
    """A correlation: who asked, in which incarnation, and the effect that it asked with."""

    sender: NodeId
    incarnation: int
    effect: Any


def completion(effect: Effect) -> Event | None:
    """Give the event that tells that a write is done; `None` for what is no write."""
    match effect:
        case e.SaveVote():
            return ev.VoteSaved()
        case e.Append(_, end_offset):
            return ev.Appended(end_offset)
        case e.Truncate(end_offset):
            return ev.Truncated(end_offset)
        case e.InstallSnapshot():
            return ev.SnapshotInstalled()
    return None


def request(sender: NodeId, incarnation: int, effect: Effect) -> tuple[NodeId, Event] | None:
    """Give whom an effect asks or tells, and what it receives; `None` for what is no request."""
    asked = Asked(sender, incarnation, effect)
    match effect:
        case e.SendVoteRequest(to, epoch, last_epoch, end_offset, pre_vote):
            return to, ev.VoteRequested(asked, sender, epoch, last_epoch, end_offset, pre_vote)
        case e.AnnounceLeader(to, epoch):
            return to, ev.LeaderAnnounced(asked, epoch, sender)
        case e.EndEpoch(to, epoch):
            return to, ev.EpochEnded(epoch, sender)
        case e.AskForLeader(to):
            return to, ev.LeaderAsked(asked)
        case e.SendFetch():
            return effect.to, _fetch(asked, effect)
        case e.FetchSnapshot(leader, epoch, snapshot):
            return leader, ev.SnapshotAsked(asked, sender, epoch, snapshot)
    return None


def _fetch(asked: Asked, fetch: e.SendFetch) -> ev.FetchReceived:
    return ev.FetchReceived(
        asked,
        asked.sender,
        fetch.epoch,
        fetch.offset,
        fetch.last_epoch,
        fetch.high_watermark,
        fetch.max_bytes,
        fetch.max_wait_ms,
    )


def answer(sender: NodeId, effect: Effect, read: Read) -> tuple[Asked, Event] | None:
    """Give who gets an answer, and what it receives; `None` if it gets none."""
    asked = getattr(effect, "correlation", None)
    if not isinstance(asked, Asked):
        return None
    question = asked.effect
    match effect:
        case e.SendVoteAnswer(_, _, epoch, leader, granted, pre_vote):
            attempt = question.attempt
            return asked, ev.VoteAnswered(sender, epoch, leader, granted, pre_vote, attempt)
        case e.TellLeader(_, epoch, leader):
            return asked, ev.EpochLearned(sender, epoch, leader)
        case e.SendSnapshot(_, snapshot):
            return asked, ev.SnapshotFetched(snapshot, read_whole(read, snapshot.end_offset))
        case e.Refuse():
            return asked, _refusal(sender, question, effect)
    if isinstance(question, e.SendFetch):
        return asked, _fetch_answer(question, effect, read)
    return None


def read_whole(read: Read, end_offset: int) -> tuple[Epoch, ...]:
    """Read everything before an offset, as often as it takes."""
    entries: tuple[Epoch, ...] = ()
    while len(entries) < end_offset:
        entries += read(len(entries), end_offset)
    return entries


def _refusal(sender: NodeId, question: Effect, refused: e.Refuse) -> Event:
    if isinstance(question, e.SendFetch):
        return ev.FetchRefused(refused.epoch, refused.leader)
    if isinstance(question, e.FetchSnapshot):
        return ev.SnapshotLost(question.snapshot)
    return ev.EpochLearned(sender, refused.epoch, refused.leader)


def _fetch_answer(asked: e.SendFetch, effect: Effect, read: Read) -> Event:
    about = (asked.epoch, asked.offset, asked.last_epoch)
    match effect:
        case e.SendDivergence(_, _, end):
            return ev.FetchAnswered(*about, diverging=end)
        case e.SendSnapshotId(_, _, snapshot):
            return ev.FetchAnswered(*about, snapshot=snapshot)
        case e.SendEntries():
            entries = read(effect.offset, effect.end_offset)
            runs = tuple((epoch, len(list(run))) for epoch, run in groupby(entries))
            high_watermark = effect.high_watermark
            return ev.FetchAnswered(
                *about, high_watermark=high_watermark, epochs=runs, payload=entries
            )
    raise TypeError(f"{type(effect).__name__} is no answer to a fetch")
