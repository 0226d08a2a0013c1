"""Answers that are put together from several partitions, each of which may take its time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from net.server.request import Request
from net.wire import library
from net.wire.library import Message

Place = Message
"""Where the answer of one partition goes: filled in, then counted."""


class Gathering:
    """A message with holes, sent when the last one is filled."""

    def __init__(self, request: Request, message: Message) -> None:
        self._request = request
        self._message = message
        self._missing = 1

    def hole(self, fill: Callable[[Any], None]) -> Waiter:
        """Wait for one more answer; `fill` gets it."""
        self._missing += 1
        return Waiter(self, fill)

    def filled(self) -> None:
        """One that was waited for is there; the last to call is whoever made this."""
        self._missing -= 1
        if not self._missing:
            answer(self._request, self._message)


class Waiter:
    """A correlation: who waits for the answer of one partition."""

    __slots__ = ("_fill", "_gathering")

    def __init__(self, gathering: Gathering, fill: Callable[[Any], None]) -> None:
        self._gathering = gathering
        self._fill = fill

    def answer(self, effect: Any) -> None:
        """Hear it."""
        self._fill(effect)
        self._gathering.filled()


def asked(request: Request) -> Message:
    """Read the request."""
    return library.decode_request(request.api_key, request.version, request.body)


def answer(request: Request, message: Message) -> None:
    """Answer the request with this."""
    request.reply((library.encode_response(request.api_key, request.version, message),))
