"""The fetch sessions of all followers at this broker: one each, of its newest incarnation.

`handle` takes fetches with a replica id; those of consumers are in `consumers`. A fetch without a
session is served too, for tools: its replicas answer at once, whatever there is.
"""

from __future__ import annotations

from net.broker.fetching.seams import Asker, Finder
from net.broker.fetching.session import Session, next_session_epoch, refuse
from net.driving import Timers
from net.wire.fetch import FetchRequest
from protocol.errors import ErrorCode
from protocol.types import NodeId

_FINAL = -1
_INITIAL = 0
_LAST_ID = 2**31 - 1


class FollowerSessions:
    """Sessions by follower; beyond `max_sessions`, the one that was begun first ends."""

    def __init__(
        self, finder: Finder, timers: Timers, *, max_sessions: int = 1_000, idle_ms: int = 120_000
    ) -> None:
        self._finder = finder
        self._timers = timers
        self._max_sessions = max_sessions
        self._idle_ms = idle_ms
        self._sessions: dict[NodeId, Session] = {}
        self._last_id = 0

    def __len__(self) -> int:
        """Count the followers that have a session."""
        return len(self._sessions)

    def handle(self, request: Asker, fetch: FetchRequest) -> None:
        """Serve a follower's fetch; the request is answered now or later."""
        if fetch.replica_id < 0:
            raise ValueError(f"a follower with the id {fetch.replica_id}")
        known = self._sessions.get(fetch.replica_id)
        if known is not None and fetch.replica_epoch < known.broker_epoch:
            # Late words of an earlier incarnation do not end the session of a newer one.
            refuse(request, ErrorCode.STALE_BROKER_EPOCH)
        elif fetch.session_epoch == _INITIAL:
            self._begin(fetch).take(request, fetch)
        elif fetch.session_epoch == _FINAL:
            self._serve_once(request, fetch, known)
        elif known is None or known.name != (fetch.session_id, fetch.replica_epoch):
            refuse(request, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        elif known.next_epoch != fetch.session_epoch:
            refuse(request, ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        else:
            known.next_epoch = next_session_epoch(known.next_epoch)
            known.take(request, fetch)

    def close(self) -> None:
        """End all sessions."""
        for session in list(self._sessions.values()):
            self._end(session)

    def _begin(self, fetch: FetchRequest) -> Session:
        replaced = self._sessions.get(fetch.replica_id)
        if replaced is not None:
            self._end(replaced)
        while len(self._sessions) >= self._max_sessions:
            self._end(next(iter(self._sessions.values())))
        self._last_id = self._last_id % _LAST_ID + 1
        session = self._session(self._last_id, fetch)
        self._sessions[fetch.replica_id] = session
        return session

    def _session(self, session_id: int, fetch: FetchRequest) -> Session:
        return Session(
            session_id,
            fetch.replica_id,
            fetch.replica_epoch,
            self._finder,
            self._timers,
            self._idle_ms,
            self._end,
        )

    def _serve_once(self, request: Asker, fetch: FetchRequest, known: Session | None) -> None:
        if known is not None and fetch.session_id == known.session_id:
            self._end(known)
        session = self._session(0, fetch)
        session.patience_ms = 0
        session.take(request, fetch._replace(max_wait_ms=0))
        session.answer_now()

    def _end(self, session: Session) -> None:
        if self._sessions.get(session.follower) is session:
            del self._sessions[session.follower]
        session.close()
