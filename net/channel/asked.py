"""A request on its way, and the two callbacks of which one will be called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from net.transport.seam import Buffer

OnAnswer: TypeAlias = Callable[[memoryview], None]
OnFailure: TypeAlias = Callable[[Exception], None]


class Asked:
    """One request: what identifies it, how long it may take, and who waits for it."""

    __slots__ = (
        "api_key",
        "buffers",
        "correlation_id",
        "deadline_ms",
        "expects_answer",
        "on_answer",
        "on_failure",
        "size_bytes",
        "version",
    )

    def __init__(
        self,
        api_key: int,
        version: int,
        correlation_id: int,
        buffers: Sequence[Buffer],
        on_answer: OnAnswer,
        on_failure: OnFailure,
        deadline_ms: int,
        expects_answer: bool,
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.buffers = buffers
        self.size_bytes = sum(map(len, buffers))
        self.on_answer = on_answer
        self.on_failure = on_failure
        self.deadline_ms = deadline_ms
        self.expects_answer = expects_answer
