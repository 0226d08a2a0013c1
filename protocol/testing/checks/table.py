"""The table that checks register in. No check is here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import attrs

from protocol.testing.session import Session
from protocol.testing.vocabulary import Vocabulary

Body: TypeAlias = Callable[[Session], Awaitable[None]]


@attrs.frozen
class Scenario:
    """What a driver is put through, and for which rule; `only` for one vocabulary, if not all."""

    rule: int
    name: str
    body: Body
    only: Vocabulary | None = None


SCENARIOS: list[Scenario] = []


def check(rule: int, only: Vocabulary | None = None) -> Callable[[Body], Body]:
    """Register the decorated function under its name."""

    def register(body: Body) -> Body:
        SCENARIOS.append(Scenario(rule, body.__name__, body, only))
        return body

    return register
