"""DescribeConfigs: the settings of topics and brokers, with who has set them.

A broker tells its own settings only, as other brokers have files of their own; clients know that
and ask the right one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from net.broker.apis.gathering import answer, asked
from net.server.request import Request
from net.settings.described import Entry, Source, describe_broker, describe_topic
from net.settings.topic import said_by
from net.wire.library import Message
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from net.broker.broker import Broker

TOPIC: Final = 2
BROKER: Final = 4


def describe_configs(request: Request, broker: Broker) -> None:
    """Tell the settings that are asked for."""
    message = asked(request)
    synonyms = message.get("include_synonyms", False)
    documentation = message.get("include_documentation", False)
    results = []
    for resource in message["resources"]:
        entries, error, reason = _described(broker, resource)
        results.append(
            {
                "error_code": error,
                "error_message": reason,
                "resource_type": resource["resource_type"],
                "resource_name": resource["resource_name"],
                "configs": [
                    each.message(synonyms=synonyms, documentation=documentation) for each in entries
                ],
            }
        )
    answer(request, {"throttle_time": 0, "results": results})


def _described(broker: Broker, resource: Message) -> tuple[list[Entry], ErrorCode, str | None]:
    kind, name, keys = (
        resource["resource_type"],
        resource["resource_name"],
        resource["configuration_keys"],
    )
    if kind == TOPIC:
        topic = broker.image.topics.get(name)
        if topic is None:
            return [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}"
        return describe_topic(said_by(topic.config), broker.settings, keys), ErrorCode.NONE, None
    if kind == BROKER and name in ("", str(broker.node)):
        entries = describe_broker(broker.settings, keys)
        if not name:
            # What holds for all brokers is only what was set for all of them.
            entries = [each for each in entries if each.source is Source.DYNAMIC_CLUSTER]
        return entries, ErrorCode.NONE, None
    if kind == BROKER:
        reason = f"this is broker {broker.node}: ask broker {name} for its settings"
        return [], ErrorCode.INVALID_REQUEST, reason
    return [], ErrorCode.INVALID_REQUEST, f"resources of type {kind} have no settings here"
