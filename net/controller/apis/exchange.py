"""One request on its way to an answer, and what all APIs have in common.

An API is a function that takes an `Exchange` and responds once, now or later; and another one that
says how a request looks that is refused as a whole, since every API says that in its own place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, TypeAlias

import attrs

from net.controller.node import ControllerNode
from net.wire.apis import Api
from net.wire.library import Message
from protocol.controller import ItemResult, Refuse, Reply
from protocol.errors import ErrorCode

MAX_MESSAGE_CHARS: Final = 500

_NOT_ACTIVE: Final = "this controller is not the active one"


@attrs.frozen
class Exchange:
    """A request, who decides it, and how to answer."""

    node: ControllerNode
    api: Api
    version: int
    correlation_id: int
    message: Message
    respond: Callable[[Message], None]


@attrs.frozen
class Failure:
    """An error for the wire: a code and, for people, a reason."""

    code: int
    reason: str = ""

    @property
    def fields(self) -> Message:
        """The two fields as most answers have them."""
        return {"error_code": int(self.code), "error_message": self.text}

    @property
    def text(self) -> str | None:
        """The reason, not longer than any answer can carry; None for none."""
        return self.reason[:MAX_MESSAGE_CHARS] or None


OK: Final = Failure(ErrorCode.NONE)
NOT_CONTROLLER: Final = Failure(ErrorCode.NOT_CONTROLLER, _NOT_ACTIVE)


def failure_of(answer: Reply | Refuse | ItemResult) -> Failure:
    """Return what went wrong, if anything did."""
    if isinstance(answer, Refuse | ItemResult):
        return Failure(answer.error, answer.message)
    return OK


class Refusing(Protocol):
    """Says how a request looks that is refused as a whole."""

    def __call__(self, message: Message, failure: Failure) -> Message:
        """Return the answer."""


@attrs.frozen
class Handling:
    """An API: what it does, how it is refused, and whether only the active controller answers."""

    run: Callable[[Exchange], None]
    refused: Refusing
    needs_active: bool = True
    forwarded: bool = True
    """Whether brokers pass it on for their clients, in an Envelope."""


Table: TypeAlias = dict[Api, Handling]


def run(handling: Handling, exchange: Exchange) -> None:
    """Let an API answer, or refuse in its place where another controller is the active one."""
    if handling.needs_active and not exchange.node.is_active:
        exchange.respond(handling.refused(exchange.message, NOT_CONTROLLER))
    else:
        handling.run(exchange)


def too_many(exchange: Exchange, count: int) -> Failure | None:
    """Refuse a request that names more things than one may."""
    limit = exchange.node.config.max_items_per_command
    if count <= limit:
        return None
    return Failure(ErrorCode.INVALID_REQUEST, f"{count} things in one request, at most {limit}")


def repeated(names: Iterable[Any]) -> set[Any]:
    """Return what occurs more than once."""
    seen: set[Any] = set()
    twice: set[Any] = set()
    for name in names:
        (twice if name in seen else seen).add(name)
    return twice


class Gather:
    """Collects the results of several commands, and goes on when the last one is there."""

    def __init__(self, count: int, then: Callable[[list[Any]], None]) -> None:
        self._results: list[Any] = [None] * count
        self._missing = count
        self._then = then
        if count == 0:
            then([])

    def put(self, place: int, result: object) -> None:
        """Take the result of one of them."""
        self._results[place] = result
        self._missing -= 1
        if self._missing == 0:
            self._then(self._results)
