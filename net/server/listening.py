"""What is served where: listeners, before and after they are opened."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from net.server.counters import ApiCounters, ServerCounters
from net.server.request import Service
from net.transport.seam import Endpoint, Listener
from net.wire.apis import Scope, advertised


@attrs.frozen
class Listening:
    """A listener to be opened: its name, where, which APIs, and who answers them."""

    name: str
    endpoint: Endpoint
    service: Service
    scope: Scope


@attrs.frozen
class Known:
    """An API that a listener serves."""

    serves_from: int
    serves_to: int
    counters: ApiCounters


@attrs.frozen(eq=False)
class OpenListener:
    """A listener that is open."""

    name: str
    service: Service
    scope: Scope
    apis: Mapping[int, Known]
    listener: Listener


def opened(listening: Listening, listener: Listener, counters: ServerCounters) -> OpenListener:
    """Put together what the connections of a listener need."""
    apis = {
        api_key: Known(served.serves_from, served.serves_to, counters.api(api_key))
        for api_key, served in advertised(listening.scope).items()
    }
    return OpenListener(listening.name, listening.service, listening.scope, apis, listener)
