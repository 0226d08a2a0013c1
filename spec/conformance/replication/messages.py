"""The messages in flight of the explored cluster: mirrors `msgs`.

A request or a proposal is here only once its sender has left it behind. An answer's `offset` and
`last_epoch` are those of the fetch it answers; the spec's answers do not have them, because there a
follower waits for one answer only.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from protocol.replication import EpochEnd
from protocol.replication.effects import SendFetch, SendProposal
from protocol.replication.events import FetchAnswered, FetchReceived
from spec.conformance.replication.node import Entry


@attrs.frozen(cache_hash=True)
class Answer:
    """The answer to a fetch."""

    to: int
    epoch: int
    offset: int
    last_epoch: int
    end: EpochEnd | None = None
    high_watermark: int = 0
    entries: tuple[Entry, ...] = ()


@attrs.frozen(cache_hash=True)
class LateRequest:
    """A fetch whose sender has moved on."""

    sender: int
    request: SendFetch


@attrs.frozen(cache_hash=True)
class LateProposal:
    """An ISR proposal whose leader has moved on."""

    sender: int
    proposal: SendProposal


Message: TypeAlias = Answer | LateRequest | LateProposal


def fetch_event(sender: int, request: SendFetch) -> FetchReceived:
    """Give the event of a fetch that arrives; it is not willing to wait, as in the spec."""
    return FetchReceived(
        correlation=sender,
        follower=sender,
        broker_epoch=request.broker_epoch,
        leader_epoch=request.leader_epoch,
        offset=request.offset,
        last_epoch=request.last_epoch,
        high_watermark=request.high_watermark,
    )


def answer_event(answer: Answer) -> FetchAnswered:
    """Give the event of an answer that arrives."""
    epochs: list[tuple[int, int]] = []
    for epoch, _ in answer.entries:
        if epochs and epochs[-1][0] == epoch:
            epochs[-1] = (epoch, epochs[-1][1] + 1)
        else:
            epochs.append((epoch, 1))
    return FetchAnswered(
        leader_epoch=answer.epoch,
        offset=answer.offset,
        last_epoch=answer.last_epoch,
        diverging=answer.end,
        high_watermark=answer.high_watermark,
        epochs=tuple(epochs),
        payload=answer.entries,
    )
