"""DescribeCluster on a controller: who the controllers are, and who is the active one.

Every controller answers. Brokers tell about brokers: who asks a controller for these has connected
to the wrong listener, and is told so.
"""

from __future__ import annotations

from typing import Final

from net.controller.apis.exchange import OK, Exchange, Failure, Handling, Table
from net.wire.apis import Api
from net.wire.library import Message
from protocol.errors import ErrorCode

_BROKERS: Final = 1
_CONTROLLERS: Final = 2
_NOT_ASKED_FOR: Final = -(2**31)


def describe_cluster(exchange: Exchange) -> None:
    """Tell where the controllers are."""
    kind = exchange.message.get("endpoint_type", _BROKERS)
    if kind == _BROKERS:
        failure = Failure(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "this is a controller's listener; ask a broker for brokers",
        )
    elif kind != _CONTROLLERS:
        failure = Failure(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"there are no endpoints of type {kind}"
        )
    else:
        exchange.respond(_described(exchange))
        return
    exchange.respond(refused(exchange.message, failure))


def _described(exchange: Exchange) -> Message:
    node = exchange.node
    return {
        **OK.fields,
        "endpoint_type": _CONTROLLERS,
        "cluster_id": node.cluster_id,
        "controller_id": node.active_node,
        "brokers": [
            {"broker_id": voter, "host": endpoint.host, "port": endpoint.port, "rack": None}
            for voter, endpoint in sorted(node.voters.items())
        ],
        "cluster_authorized_operations": _NOT_ASKED_FOR,
    }


def refused(message: Message, failure: Failure) -> Message:
    """Refuse to tell."""
    return {
        **failure.fields,
        "endpoint_type": message.get("endpoint_type", _BROKERS),
        "controller_id": -1,
        "cluster_authorized_operations": _NOT_ASKED_FOR,
    }


TABLE: Final[Table] = {
    Api.DESCRIBE_CLUSTER: Handling(describe_cluster, refused, needs_active=False, forwarded=False),
}
