"""Why connections end, and a log that a flood of bad ones does not fill."""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable
from typing import Final

from net.server.counters import ServerCounters

LINES_A_SECOND: Final = 10
TRACEBACKS_A_SECOND: Final = 1
_MOST_TEXT: Final = 300


class Reason(enum.StrEnum):
    """Why a connection ended."""

    PEER = "peer"
    LOST = "lost"
    IDLE = "idle"
    SLOW_READER = "slow reader"
    STALLED = "stalled request"
    BAD_LENGTH = "bad length"
    MALFORMED = "malformed request"
    UNSUPPORTED = "unsupported API"
    SERVICE = "closed by service"
    INTERNAL_ERROR = "internal error"
    DRAINED = "drained"
    SHUTDOWN = "shutdown"
    REFUSED = "refused"


QUIET: Final = frozenset({Reason.PEER, Reason.LOST, Reason.IDLE, Reason.DRAINED, Reason.SHUTDOWN})
"""Ends that are part of every day."""


class Complaints:
    """Logs one line per complaint, and of each kind only so many a second."""

    def __init__(
        self, logger: logging.Logger, counters: ServerCounters, clock_s: Callable[[], float]
    ) -> None:
        self._logger = logger
        self._counters = counters
        self._clock_s = clock_s
        self._second = -1
        self._said: dict[Reason, int] = {}

    def ended(self, listener: str, peer: str, reason: Reason, detail: str) -> None:
        """Tell that a connection ended."""
        level = logging.DEBUG if reason in QUIET else logging.WARNING
        if self._logger.isEnabledFor(level) and self._may_say(reason, LINES_A_SECOND):
            detail = detail if len(detail) <= _MOST_TEXT else detail[:_MOST_TEXT] + "..."
            # Others choose some of this text: it must not be able to look like another line.
            detail = detail.encode("unicode_escape").decode("ascii")
            self._logger.log(
                level, "connection %s %s ended: %s: %s", listener, peer, reason, detail
            )

    def failed(
        self, listener: str, peer: str, api_key: int, version: int, error: Exception
    ) -> None:
        """Tell that a service failed; this is a bug of ours, so the traceback is wanted."""
        if self._may_say(Reason.INTERNAL_ERROR, TRACEBACKS_A_SECOND):
            self._logger.error(
                "connection %s %s: API %d version %d failed",
                *(listener, peer, api_key, version),
                exc_info=error,
            )

    def tick(self) -> None:
        """Tell how many lines were left out in the second that is over."""
        second = int(self._clock_s())
        if second == self._second:
            return
        self._second = second
        said, self._said = self._said, {}
        for reason, times in said.items():
            most = TRACEBACKS_A_SECOND if reason is Reason.INTERNAL_ERROR else LINES_A_SECOND
            if times > most:
                self._counters.unlogged += times - most
                self._logger.warning("%d more not logged: %s", times - most, reason)

    def _may_say(self, reason: Reason, most: int) -> bool:
        self.tick()
        times = self._said[reason] = self._said.get(reason, 0) + 1
        return times <= most
