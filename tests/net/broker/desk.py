"""A controller's link whose other end is the test: it sees what is asked, and answers or does not.

Requests and answers are the bytes of the wire, so a field that no version has is found out.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from net.broker.controller_link import ControllerLink, Failed
from net.errors import ConnectionLost
from net.wire.library import Message, decode_request, encode_response


@attrs.frozen
class Asked:
    """A request that waits for its answer."""

    api: int
    version: int
    message: Message
    answered: Callable[[memoryview], None]
    failed: Failed

    def answer(self, **message: object) -> None:
        self.answered(memoryview(encode_response(self.api, self.version, message)))

    def fail(self) -> None:
        self.failed(ConnectionLost("the connection ended"))


class Desk(ControllerLink):
    """What was asked, in order. `is_gone`: nobody is known to be the controller."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.is_gone = False

    def pass_on(
        self,
        api: int,
        version: int,
        body: bytes,
        answered: Callable[[memoryview], None],
        failed: Failed,
        timeout_ms: int,
    ) -> int:
        assert timeout_ms > 0
        if self.is_gone:
            failed(ConnectionLost("no controller is known to be active"))
            return 0
        self.asked.append(Asked(api, version, decode_request(api, version, body), answered, failed))
        return len(self.asked)

    def next(self) -> Asked:
        """Take the request that came first."""
        return self.asked.pop(0)

    def only(self) -> Asked:
        """Take the one request that there is."""
        (found,) = self.asked
        self.asked.clear()
        return found
