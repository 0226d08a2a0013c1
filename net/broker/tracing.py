"""The trace of one replica: lines in order, though a fetch gets its name only when it leaves.

A replica asks, and its fetcher sends what was asked a moment later, together with others. Until
then the line that says so waits, and all that come after it. A fetch that another one replaced
before it left has never been sent: nobody receives it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from protocol.machine import Handled
from protocol.replication import ReplicaState
from protocol.replication.effects import SendProposal
from protocol.replication.events import FetchAnswered, ProposalRefused
from protocol.replication.trace import Line, Tracer, messages
from storage.checkpoint import TopicPartition

Write = Callable[[Line], None]


class ReplicaTrace:
    """Makes the lines of one incarnation of a replica."""

    def __init__(self, key: TopicPartition, state: ReplicaState, write: Write) -> None:
        self._tracer = Tracer(key.topic, key.partition)
        self._write = write
        self._waiting: deque[Line] = deque()
        self._unsent = 0
        self._fetch: str | None = None
        """The fetch that was sent last, and the proposal."""
        self._proposal: str | None = None
        write(self._tracer.restarted(state))

    def told(self, told: Handled[ReplicaState]) -> None:
        """Hear of an event that was handled: the machine's trace hook."""
        received = None
        if isinstance(told.event, FetchAnswered):
            received = self._fetch
        elif isinstance(told.event, ProposalRefused):
            received = self._proposal
        kinds = [_kind(each) for each in messages(told.effects)]
        line = self._tracer.line(told, received, kinds)
        if line is not None:
            self._waiting.append(line)
            self._flush()

    def fetch_sent(self, name: str | None) -> None:
        """Hear that the fetch that was asked for last leaves under this name, or not at all."""
        self._fetch = name
        self._name(_FETCH, name)

    def proposal_sent(self, name: str | None) -> None:
        """Hear that the proposal that was made last leaves under this name, or not at all."""
        self._proposal = name
        self._name(_PROPOSAL, name)

    def close(self) -> None:
        """Write what waits: what has not been sent never will be."""
        self._name(_FETCH, None)
        self._name(_PROPOSAL, None)

    def _name(self, kind: str, name: str | None) -> None:
        """Name the last message of this kind that waits for its name; those before are unsent."""
        places = [
            (line, place)
            for line in self._waiting
            for place, known in enumerate(line.get("sent", ()))
            if known == kind
        ]
        for line, place in places[:-1] if name is not None else places:
            self._unsent += 1
            line["sent"][place] = f"unsent-{line['node']}-{line['incarnation']}-{self._unsent}"
        if name is not None and places:
            line, place = places[-1]
            line["sent"][place] = name
        self._flush()

    def _flush(self) -> None:
        waiting = self._waiting
        while waiting and not _is_unnamed(waiting[0]):
            self._write(waiting.popleft())


_FETCH = "a fetch"
_PROPOSAL = "a proposal"


def _kind(message: Any) -> str:
    return _PROPOSAL if isinstance(message, SendProposal) else _FETCH


def _is_unnamed(line: Line) -> bool:
    sent = line.get("sent", ())
    return _FETCH in sent or _PROPOSAL in sent
