"""The table of observed versions: for each API and version, who looks at what it does.

An observation sends requests of one version to a running cluster and looks at their effect by
other means. Versions are written out where it stands, not taken from the code: one that is served
and that nobody has thought of is missing here, and `test_versions` says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

import attrs

from net.channel import Channel
from net.wire.apis import Api, Scope
from net.wire.library import Message
from tests.net.broker.live import Live


@attrs.frozen
class Asking:
    """A version of an API at one kind of listener of a cluster."""

    live: Live
    api: Api
    version: int
    scope: Scope

    @property
    def channel(self) -> Channel:
        return self.live.to() if self.scope is Scope.BROKER else self.live.to_controller()

    async def ask(self, message: Message) -> Message:
        """Send a request of this version to this listener."""
        return await self.live.ask(self.api, self.version, message, channel=self.channel)


Observation: TypeAlias = Callable[[Asking], Awaitable[None]]
OBSERVED: dict[tuple[Scope, Api, int], Observation] = {}


def observes(
    api: Api, versions: Iterable[int], scopes: Iterable[Scope] = (Scope.BROKER,)
) -> Callable[[Observation], Observation]:
    """Put an observation into the table."""

    def put(observation: Observation) -> Observation:
        for scope in scopes:
            for version in versions:
                if (scope, api, version) in OBSERVED:
                    raise ValueError(f"{api.name} {version} is observed already")
                OBSERVED[scope, api, version] = observation
        return observation

    return put


BOTH = (Scope.BROKER, Scope.CONTROLLER)
